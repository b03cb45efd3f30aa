//! Reflection: requests whose source address may be forged; counts the bytes that the server sends to that
//! source and to third parties.

use super::super::report::Row;
use anyhow::{Context, Result};
use ringway_lab::attack::flood::{drain, wait};
use ringway_lab::attack::message::{Draft, status};
use ringway_lab::attack::peer::{Peer, STRANGER};
use ringway_lab::attack::script::{Contact, Script, T1, bind};
use ringway_lab::attack::target::{Target, aor};
use ringway_lab::server::DOMAIN;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

const BUSY: u32 = 0;
const CALLER: u32 = 1;
const ACCOUNT: u32 = 2;

pub(super) fn rows(environment: &Environment) -> Result<Vec<Row>> {
    let busy = Contact::start(Ipv4Addr::new(127, 0, 2, 1), Script::Busy)?;
    let target = Target::start(environment, &[(BUSY, busy.address)])?;
    let server = target.address;
    let (nobody, domain) = (format!("sip:nobody@{DOMAIN}"), format!("sip:{DOMAIN}"));
    let (called, caller) = (aor(BUSY), aor(CALLER));
    let made_up = format!("<{called}>;tag=made-up");
    let sent = [
        ("404 to INVITE, no ACK", "INVITE", &nobody, STRANGER, format!("<{nobody}>")),
        ("407 to INVITE with a made-up To tag, no ACK", "INVITE", &called, caller.as_str(), made_up),
        ("401 to REGISTER", "REGISTER", &domain, &caller, format!("<{caller}>")),
        ("486 of a contact to INVITE, no ACK", "INVITE", &called, STRANGER, format!("<{called}>")),
    ];
    let mut forged = Vec::new();
    for (number, (what, method, uri, from, to)) in (1..).zip(sent) {
        let peer = Peer::bind(Ipv4Addr::new(127, 0, 1, number), server)?;
        forged.push(Forged::send(peer, what, Draft { method, uri, from, to: &to, ..Draft::EMPTY })?);
    }
    let third_party = ThirdParty::aim_at(server)?;
    wait("reflection: retransmissions end", 64 * T1 + Duration::from_secs(2), || {
        Ok(target.stats()?.text(&["datagrams_out", "responses_limited"]))
    })?;
    let mut rows = forged.into_iter().map(Forged::row).collect::<Result<Vec<_>>>()?;
    rows.push(third_party.row()?);
    target.stop()?;
    Ok(rows)
}

/// A request without any follow-up, and its responses.
struct Forged {
    peer: Peer,
    what: &'static str,
    received: usize,
}

impl Forged {
    fn send(mut peer: Peer, what: &'static str, draft: Draft<'_>) -> Result<Self> {
        let (call_id, branch) = (peer.fresh("c"), peer.fresh("z9hG4bK"));
        let request = Draft { call_id: &call_id, branch: &branch, ..draft }.write(peer.address);
        peer.socket.send(&request).context("send to the server")?;
        Ok(Self { peer, what, received: request.len() })
    }

    fn row(self) -> Result<Row> {
        let mut reflected = Reflected::default();
        self.peer.socket.set_nonblocking(true).context("set a socket")?;
        drain(&self.peer.socket, |response| reflected.count(response))?;
        let what = format!("bytes to a source that may be forged: {}", self.what);
        let is_forwarded = self.what.starts_with("486");
        let expected = self.what.get(..3).and_then(|digits| digits.parse().ok());
        let target = match is_forwarded {
            true => "generated ≤ max(3 × received, 800 bytes), forwarded ≤ 10 ×",
            false => "generated ≤ max(3 × received, 800 bytes)",
        };
        let (generated, forwarded) = reflected.split(is_forwarded);
        let cell = format!(
            "{} received, {generated} generated ({:.1} ×), {forwarded} forwarded ({:.1} ×), {} datagrams",
            self.received,
            generated as f64 / self.received as f64,
            forwarded as f64 / self.received as f64,
            reflected.datagrams,
        );
        let is_met = is_within(self.received, generated, forwarded);
        let mut row = Row::single(&what, target, cell, is_met && reflected.last_status == expected);
        if reflected.last_status != expected {
            row.note = format!("{}: the response was {:?}", self.what, reflected.last_status);
        }
        Ok(row)
    }
}

/// Responses to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Reflected {
    datagrams: usize,
    bytes: usize,
    last_status: Option<u16>,
    /// Length of the first final response in bytes.
    first_final: usize,
}

impl Reflected {
    fn count(&mut self, response: &[u8]) {
        self.datagrams += 1;
        self.bytes += response.len();
        self.last_status = status(response);
        if self.first_final == 0 && self.last_status >= Some(200) {
            self.first_final = response.len();
        }
    }

    /// Numbers of bytes that the server generated and forwarded. A retransmission of a forwarded response
    /// counts as generated.
    const fn split(self, is_forwarded: bool) -> (usize, usize) {
        let forwarded = if is_forwarded { self.first_final } else { 0 };
        (self.bytes - forwarded, forwarded)
    }
}

fn is_within(received: usize, generated: usize, forwarded: usize) -> bool {
    generated <= (3 * received).max(800) && forwarded <= 10 * received
}

/// An address in the contact and in a second Via of an account, where the account is not.
struct ThirdParty {
    socket: UdpSocket,
    registered: Result<()>,
    /// Stays bound to receive what is sent over its flow.
    account: Peer,
}

impl ThirdParty {
    fn aim_at(server: SocketAddrV4) -> Result<Self> {
        let (socket, address) = bind(Ipv4Addr::new(127, 0, 3, 1))?;
        let mut account = Peer::bind(Ipv4Addr::new(127, 0, 1, 10), server)?;
        let via = format!("Via: SIP/2.0/UDP {address};branch={}\r\n", account.fresh("z9hG4bK"));
        let registered = account.register(ACCOUNT, &[format!("<sip:x@{address}>")], &via);
        let uri = aor(ACCOUNT);
        let invite =
            Draft { method: "INVITE", uri: &uri, from: STRANGER, to: &format!("<{uri}>"), ..Draft::EMPTY };
        Forged::send(Peer::bind(Ipv4Addr::new(127, 0, 1, 11), server)?, "an INVITE", invite)?;
        Ok(Self { socket, registered, account })
    }

    fn row(self) -> Result<Row> {
        self.socket.set_nonblocking(true).context("set a socket")?;
        self.account.socket.set_nonblocking(true).context("set a socket")?;
        let (got, over_flow) = (drain(&self.socket, |_| {})?, drain(&self.account.socket, |_| {})?);
        let what =
            "REGISTER with a second Via and a foreign contact, then an INVITE: datagrams to that contact";
        let mut row = Row::single(what, "0", got.to_string(), got == 0);
        row.note = match self.registered {
            Ok(()) => format!("second Via: registered; {over_flow} datagrams over the flow of the REGISTER"),
            Err(error) => format!("second Via: not registered ({error:#})"),
        };
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forwarded_counts_once_and_its_retransmissions_are_generated() {
        let mut reflected = Reflected::default();
        for response in ["SIP/2.0 100 Trying\r\n", "SIP/2.0 486 Busy\r\n", "SIP/2.0 486 Busy\r\n"] {
            reflected.count(response.as_bytes());
        }
        assert_eq!((reflected.datagrams, reflected.last_status), (3, Some(486)));
        assert_eq!(reflected.split(true), (20 + 18, 18));
        assert_eq!(reflected.split(false), (20 + 18 + 18, 0));
    }

    #[test]
    fn the_bounds_are_800_bytes_or_three_times_and_ten_times() {
        assert!(is_within(100, 800, 1000) && !is_within(100, 801, 0) && !is_within(100, 0, 1001));
        assert!(is_within(300, 900, 0) && !is_within(300, 901, 0));
    }
}
