//! Interface to other implementations of a phone: actions in a scenario, and network settings.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;

use super::Transport;

/// A running phone that sends a tone and records received sound.
pub(crate) trait Softphone {
    /// URI at which it is called without a server.
    fn uri(&self) -> String;

    /// Starts a call.
    fn dial(&mut self, uri: &str) -> Result<()>;

    /// Waits for a call and answers it.
    fn answer(&mut self) -> Result<()>;

    /// Waits until the call is established, and protected if required.
    fn established(&mut self) -> Result<()>;

    fn hold(&mut self) -> Result<()>;

    fn resume(&mut self) -> Result<()>;

    /// Sends one digit.
    fn press(&mut self, digit: char) -> Result<()>;

    fn hang_up(&mut self) -> Result<()>;

    /// Waits until the call has ended.
    fn ended(&mut self) -> Result<()>;

    /// Digits that were received.
    fn digits(&self) -> String;

    /// SIP messages that it sent and received.
    fn trace(&self) -> Result<String>;

    /// Short authentication string that it displays.
    fn sas(&self) -> Option<String>;

    /// Ends the phone; returns the WAV file of the received sound.
    fn recording(&mut self) -> Result<PathBuf>;
}

/// Network settings and protection of a phone.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// User name; its password is `secret-NAME`.
    pub(crate) user: &'a str,
    /// Local address.
    pub(crate) host: Ipv4Addr,
    /// Address of its server.
    pub(crate) server_host: Ipv4Addr,
    /// Port of its server; `None` if it has no server and is called at its own address.
    pub(crate) server: Option<u16>,
    pub(crate) transport: Transport,
    pub(crate) keys: Keys,
    /// Frequency of the sent tone.
    pub(crate) tone_hz: f64,
    /// Maximum duration of the tone.
    pub(crate) seconds: u32,
}

impl<'a> Line<'a> {
    /// Settings for a server at 127.0.0.1, without protection.
    pub(crate) const fn at_server(user: &'a str, tone_hz: f64, server: u16, transport: Transport) -> Self {
        Self {
            user,
            host: Ipv4Addr::LOCALHOST,
            server_host: Ipv4Addr::LOCALHOST,
            server: Some(server),
            transport,
            keys: Keys::None,
            tone_hz,
            seconds: 20,
        }
    }

    /// Domain of its URI.
    pub(crate) fn domain(&self, port: u16) -> String {
        self.server.map_or_else(|| format!("{}:{port}", self.host), |_| "example.org".to_owned())
    }

    /// URI at which it is called.
    pub(crate) fn uri(&self, port: u16) -> String {
        let uri = format!("sip:{}@{}", self.user, self.domain(port));
        match (self.server, self.transport) {
            (None, Transport::Tcp) => format!("{uri};transport=tcp"),
            (None, Transport::Tls) => format!("{uri};transport=tls"),
            (None, Transport::Udp) | (Some(_), _) => uri,
        }
    }
}

/// Protection of the media.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    None,
    /// SRTP with this suite and its key in the SDP.
    Sdes(&'static str),
    /// SRTP with keys from ZRTP.
    Zrtp,
    /// DTLS-SRTP with this suite.
    Dtls(&'static str),
}
