//! Operations of the benchmark: scenarios of the load generator whose messages are as long as those of telephones.

use crate::server::{Carrier, DOMAIN, PASSWORD};
use anyhow::{Context as _, Result};
use ringway_load::{
    Arrivals, Config, Generator, MediaUse, Receive, Received, Scenario, Send, Step, Template, Users,
};
use ringway_sansio::{Context, Instant, Node, Outbox, Seed, Transport};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A measured operation with all its messages in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A REGISTER that refreshes a binding.
    Refresh,
    /// The same after a challenge: REGISTER, 401, REGISTER, 200.
    RefreshChallenged,
    /// INVITE, 100, 180, 200, ACK, BYE, 200.
    Call,
    /// INVITE to a user who does not exist, 404, ACK.
    NotFound,
    /// INVITE, 302 with a registered user's contact, ACK.
    Redirect,
}

impl Operation {
    /// True if the phones that register are those that send the requests.
    pub const fn is_register(self) -> bool {
        matches!(self, Self::Refresh | Self::RefreshChallenged)
    }

    /// Number of operations that are open at a time: as many as fit into the default receive buffer of a server's socket
    /// (212,992 bytes), so that nothing is lost. Over TCP one on each connection.
    pub const fn window(self, carrier: Carrier) -> u32 {
        match (carrier, self) {
            (Carrier::Tcp | Carrier::Tls | Carrier::Ws | Carrier::Wss, _) => CONNECTIONS as u32,
            (Carrier::Udp, Self::Refresh) => 256,
            (Carrier::Udp, Self::RefreshChallenged) => 128,
            // Two messages of a call can be on their way.
            (Carrier::Udp, Self::Call | Self::NotFound | Self::Redirect) => 96,
        }
    }

    /// Steps of the side that begins.
    ///
    /// # Errors
    /// None that occur.
    pub fn scenario(self) -> Result<Arc<Scenario>> {
        let steps = match self {
            Self::Refresh => vec![send(&register(""))?, receive(200)],
            Self::RefreshChallenged => vec![
                send(&register(""))?,
                Step::Receive(Receive {
                    message: Received::Response(401),
                    is_optional: false,
                    is_challenge: true,
                }),
                send(&register("[authentication]\n"))?,
                receive(200),
            ],
            Self::Call => vec![
                send(&invite(""))?,
                receive(200),
                send(&in_dialog("ACK"))?,
                send(&in_dialog("BYE"))?,
                receive(200),
            ],
            Self::NotFound => refused("x", 404)?,
            Self::Redirect => refused("", 302)?,
        };
        Ok(Arc::new(Scenario::new(steps).context("a scenario of the benchmark")?))
    }
}

/// Number of connections over TCP.
pub const CONNECTIONS: u8 = 200;

/// Steps of the called users.
///
/// # Errors
/// None that occur.
pub fn called() -> Result<Scenario> {
    let steps = vec![
        request("INVITE", false),
        send(&response("180 Ringing", ";tag=d[call_number]", ""))?,
        send(&response(
            "200 OK",
            ";tag=d[call_number]",
            "Contact: <sip:[user]@[local_ip]:[local_port]>\nContent-Type: application/sdp\n",
        ))?,
        // A BYE can overtake the ACK, or the ACK be lost.
        request("ACK", true),
        request("BYE", false),
        send(&response("200 OK", "", ""))?,
    ];
    Scenario::new(steps).context("the scenario of the called users")
}

/// First requests of `count` operations.
///
/// # Errors
/// None that occur.
pub fn first_requests(operation: Operation, count: u32) -> Result<Vec<Vec<u8>>> {
    let now = Instant::from_secs(1);
    let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let config = Config {
        scenario: operation.scenario()?,
        users: Users::by_rule("u", 7, 0, count, PASSWORD)?,
        peers: Users::by_rule("u", 7, 1, count, PASSWORD)?,
        domain: DOMAIN.to_owned(),
        remote: address(5060),
        transport: Transport::Udp,
        connections: Default::default(),
        is_outbound_proxy: false,
        locals: vec![address(40_000)],
        media: address(40_000),
        media_use: MediaUse::None,
        arrivals: Some(Arrivals::window(count, now, Duration::from_secs(1))),
        timers: Default::default(),
        attempts_max: Config::ATTEMPTS_MAX,
        honours_retry_after: false,
        silence_max: Config::SILENCE_MAX,
    };
    let mut generator = Generator::new(config, &Seed::from_number(1), now);
    let (mut out, mut actions) = (Outbox::new(), Vec::new());
    while generator.next_deadline().is_some_and(|deadline| deadline.at <= now) {
        generator.on_timeout(&mut Context::new(now, &mut out, &mut actions));
    }
    Ok(out.packets().map(|(_, bytes)| bytes.to_vec()).collect())
}

fn send(text: &str) -> Result<Step> {
    Ok(Step::Send(Send { template: Template::parse(text)? }))
}

fn receive(status: u16) -> Step {
    Step::Receive(Receive { message: Received::Response(status), is_optional: false, is_challenge: false })
}

fn request(method: &str, is_optional: bool) -> Step {
    let message = Received::Request(method.as_bytes().into());
    Step::Receive(Receive { message, is_optional, is_challenge: false })
}

fn refused(prefix: &str, status: u16) -> Result<Vec<Step>> {
    Ok(vec![send(&invite(prefix))?, receive(status)])
}

fn register(authentication: &str) -> String {
    format!(
        "REGISTER sip:[domain] SIP/2.0\n{VIA}\
         From: <sip:[user]@[domain]>;tag=r[call_number]\n\
         To: <sip:[user]@[domain]>\n\
         Call-ID: [user_call_id]\n\
         CSeq: [user_cseq] REGISTER\n\
         Contact: <sip:[user]@[local_ip]:[local_port]>\n\
         Expires: 3600\n\
         {authentication}\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK\n\
         Supported: replaces, outbound, path, gruu, timer\n\
         User-Agent: bench phone for measurements 0.1, one of a million\n\n"
    )
}

/// An INVITE to the peer, or to a user who does not exist, with a prefix before his name.
fn invite(prefix: &str) -> String {
    format!(
        "INVITE sip:{prefix}[peer]@[domain] SIP/2.0\n{VIA}\
         From: <sip:[user]@[domain]>;tag=c[call_number]\n\
         To: <sip:{prefix}[peer]@[domain]>\n\
         Call-ID: [call_id]\n\
         CSeq: [cseq] INVITE\n\
         Contact: <sip:[user]@[local_ip]:[local_port]>\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER\n\
         Supported: replaces, timer, outbound, path, gruu\n\
         User-Agent: bench phone 0.10\n\
         Content-Type: application/sdp\n\n{SESSION}"
    )
}

fn in_dialog(method: &str) -> String {
    format!(
        "{method} [next_url] SIP/2.0\n{VIA}[routes]\n\
         From: <sip:[user]@[domain]>;tag=c[call_number]\n\
         To: <sip:[peer]@[domain]>[peer_tag_param]\n\
         Call-ID: [call_id]\n\
         CSeq: [cseq] {method}\n\
         User-Agent: bench phone 0.1 (x86_64/linux)\n\n"
    )
}

/// `tag` is for a response to a request outside a dialog.
fn response(line: &str, tag: &str, headers: &str) -> String {
    let body = if headers.is_empty() { "" } else { SESSION };
    format!(
        "SIP/2.0 {line}\n[last_Via:]\n[last_Record-Route:]\n[last_From:]\n[last_To:]{tag}\n\
         [last_Call-ID:]\n[last_CSeq:]\n{headers}\n{body}"
    )
}

const VIA: &str =
    "Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\nMax-Forwards: 70\n";

const SESSION: &str = "v=0\n\
    o=- 3900000000 3900000000 IN IP4 127.0.0.1\n\
    s=call of the bench\n\
    c=IN IP4 127.0.0.1\n\
    t=0 0\n\
    m=audio 40000 RTP/AVP 0 8 9 101\n\
    a=rtpmap:0 PCMU/8000\n\
    a=rtpmap:8 PCMA/8000\n\
    a=rtpmap:9 G722/8000\n\
    a=rtpmap:101 telephone-event/8000\n\
    a=ptime:20\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_long_as_those_of_telephones() {
        for (operation, method, wanted) in
            [(Operation::Refresh, "REGISTER", 551), (Operation::Call, "INVITE", 788)]
        {
            let requests = first_requests(operation, 200).unwrap();
            assert_eq!(requests.len(), 200);
            for request in requests {
                let text = String::from_utf8(request).unwrap();
                assert!(text.starts_with(method), "{text}");
                // The numbers of users, attempts and requests have no fixed width.
                assert!((wanted - 8..=wanted + 8).contains(&text.len()), "{} bytes: {text}", text.len());
            }
        }
    }

    #[test]
    fn every_operation_is_a_scenario_of_a_caller() {
        for operation in [
            Operation::Refresh,
            Operation::RefreshChallenged,
            Operation::Call,
            Operation::NotFound,
            Operation::Redirect,
        ] {
            assert!(operation.scenario().unwrap().is_caller(), "{operation:?}");
        }
        assert!(!called().unwrap().is_caller());
    }
}
