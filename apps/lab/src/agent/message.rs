//! Requests of a campaign, and responses of an agent.

use super::tls_values::{AuthorityText, TlsValues};
use crate::record::{Profile, Target};
use crate::server::program::ServerSetup;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Request of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Request {
    /// Begins: an agent works for one campaign at a time.
    Begin {
        /// Random name of the campaign.
        campaign: String,
    },
    /// Starts a program of the agent's list.
    Start {
        /// Name of the program.
        program: String,
        /// Values of its configuration.
        setup: ServerSetup,
        /// TLS of its listener, if the transport has it.
        tls: Option<TlsValues>,
    },
    /// Watches a running server of the agent's list.
    Watch {
        /// Its name in the list.
        name: String,
    },
    /// Reads the counters of server and machine.
    Read,
    /// Reads the server's memory.
    Memory,
    /// Begins to sample the processors.
    StartSampler,
    /// The window of the samples begins.
    BeginWindow,
    /// The window of the samples ends.
    EndWindow,
    /// Sums the samples of the window.
    Sum {
        /// Attempts that ended in the window.
        attempts: u64,
        /// CPU time of the server in the window, in nanoseconds.
        scheduled_ns: u64,
        /// CPU time of perf in the window, in nanoseconds.
        profiler_ns: u64,
    },
    /// Stops the server.
    Stop,
}

/// Response of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Response {
    /// The agent works for this campaign.
    Begun {
        /// Processors and kernel of its machine.
        machine: String,
        /// Number that the kernel made at its start: the same in all namespaces of a machine.
        boot: String,
    },
    /// The server runs.
    Started(Box<StartedServer>),
    /// The counters.
    Reading(Reading),
    /// Memory of the server.
    Memory {
        /// Of all its processes, in bytes.
        bytes: u64,
    },
    /// The window has ended.
    Window {
        /// CPU time of perf in it, in nanoseconds.
        profiler_ns: u64,
    },
    /// Components of the server's CPU time.
    Profile(Box<Profile>),
    /// It was done.
    Done,
    /// It was not done.
    Refused {
        /// Reason.
        error: String,
    },
}

/// A server at an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartedServer {
    /// Its port for UDP and TCP.
    pub(super) port: u16,
    /// Port of its listener for TLS or WebSocket.
    pub(super) stream_port: Option<u16>,
    /// Certificate of its authority, with TLS.
    pub(super) authority: Option<AuthorityText>,
    /// Its configuration.
    pub(super) record: Target,
    /// Milliseconds after a load until it has written what it writes later.
    pub(super) rest_ms: u64,
}

impl StartedServer {
    pub(super) const fn rest(&self) -> Duration {
        Duration::from_millis(self.rest_ms)
    }
}

/// Counters at one time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// CPU time of the server.
    pub server_ns: u64,
    /// CPU time of the agent.
    pub agent_ns: u64,
    /// CPU time of the whole machine.
    pub busy_ns: u64,
    /// Time that the hypervisor took.
    pub steal_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_known_values_only() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        assert_eq!(read("{\"request\":\"read\"}").unwrap(), Request::Read);
        let setup = "\"users\":4,\"routing\":\"stateful\",\"digest\":\"md5\",\"nonces\":\"count\",\"presence\":false,\
                     \"touches_memory\":true,\"carrier\":\"udp\"";
        let start = |more: &str| {
            read(&format!("{{\"request\":\"start\",\"program\":\"ringway\",\"setup\":{{{setup}{more}}}}}"))
        };
        assert!(matches!(start(""), Ok(Request::Start { setup: ServerSetup { users: 4, .. }, .. })));
        assert!(start(",\"path\":\"/bin/sh\"").is_err());
        for text in [
            "",
            "{}",
            "{\"request\":\"run\"}",
            "{\"request\":\"begin\",\"campaign\":\"x\",\"path\":\"/\"}",
            "[[[[",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let written = Response::Started(Box::new(StartedServer {
            port: 5060,
            stream_port: None,
            authority: None,
            record: Target { version: "1".to_owned(), ..Target::default() },
            rest_ms: 200,
        }));
        let text = serde_json::to_vec(&written).unwrap();
        assert_eq!(serde_json::from_slice::<Response>(&text).unwrap(), written);
        let reading = Response::Reading(Reading { server_ns: u64::MAX, ..Reading::default() });
        let text = serde_json::to_vec(&reading).unwrap();
        assert_eq!(serde_json::from_slice::<Response>(&text).unwrap(), reading);
    }
}
