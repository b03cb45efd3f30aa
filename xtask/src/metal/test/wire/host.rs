//! The network at our end of the cable: one card with a few hosts behind it, which answers ARP, serves DHCP and TFTP, and
//! asks the machine by SIP. It works in the caller's thread, while the caller waits for something.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ringway_test_support::dhcp::{DhcpServer, Offer};
use ringway_test_support::tftp::TftpServer;
use smoltcp::wire::ArpOperation;

use super::super::booted::options;
use super::cable::Cable;
use super::frames::{self, ALL_CARDS, HOST, HOST_HARDWARE, Heard, MACHINE, MACHINE_HARDWARE, MASK, SIP_PORT};
use super::tftp::{MALLORY, TftpLink};

/// Our end of the cable, and what was heard there.
pub(super) struct Host {
    pub(super) cable: Cable,
    pub(super) dhcp: DhcpServer,
    pub(super) tftp: TftpLink,
    /// The status that each request got, by its number.
    pub(super) statuses: BTreeMap<u32, u16>,
    /// Echo replies: to whom, their numbers, what they carry.
    pub(super) echoes: Vec<(Ipv4Addr, u16, Vec<u8>)>,
    /// Who was taken a connection of.
    pub(super) accepted: BTreeSet<SocketAddrV4>,
    /// The addresses that the machine asked for and nobody here has.
    pub(super) asked_in_vain: BTreeSet<Ipv4Addr>,
    /// The number of the last request.
    number: u32,
}

/// The machine's address.
const OFFER: Offer = Offer {
    address: MACHINE,
    hardware: MACHINE_HARDWARE,
    server: HOST,
    mask: MASK,
    dns: None,
    lease_s: 3600,
};

impl Host {
    pub(super) fn new(cable: Cable) -> Self {
        Self {
            cable,
            dhcp: DhcpServer::new(OFFER),
            tftp: TftpLink::to(TftpServer::default()),
            statuses: BTreeMap::new(),
            echoes: Vec::new(),
            accepted: BTreeSet::new(),
            asked_in_vain: BTreeSet::new(),
            number: 0,
        }
    }

    /// Takes a frame, waited for so long, and does what it asks for. False: none came.
    pub(super) fn turn(&mut self, wait: Duration) -> Result<bool> {
        let Some(frame) = self.cable.receive(wait)? else { return Ok(false) };
        // What goes to other cards is not for us: whoever takes our address has our answers.
        if frame.starts_with(&HOST_HARDWARE) || frame.starts_with(&ALL_CARDS) {
            self.on_frame(&frame)?;
        }
        Ok(true)
    }

    /// Takes all frames that are there.
    pub(super) fn take_all(&mut self) -> Result<()> {
        while self.turn(Duration::ZERO)? {}
        Ok(())
    }

    /// Takes frames until it is so. False: it is not, after so long.
    pub(super) fn turn_until(&mut self, limit: Duration, is_so: impl Fn(&Self) -> bool) -> Result<bool> {
        let deadline = Instant::now() + limit;
        while !is_so(self) {
            if Instant::now() > deadline {
                return Ok(false);
            }
            self.turn(TURN)?;
        }
        Ok(true)
    }

    /// The number and the text of an OPTIONS request that was never asked before.
    pub(super) fn options(&mut self) -> (u32, String) {
        self.number += 1;
        (self.number, options("UDP", self.number, ""))
    }

    /// Asks who has the machine's address, as a host does that was not heard of for a while: so it says where it is itself.
    pub(super) fn announce(&mut self, address: Ipv4Addr) -> Result<()> {
        self.cable.send(&frames::arp(ArpOperation::Request, (address, HOST_HARDWARE), MACHINE))
    }

    /// OPTIONS from one of our addresses is answered with 200.
    pub(super) fn asks(&mut self, from: Ipv4Addr) -> Result<()> {
        for _ in 0..TRIES {
            let (number, request) = self.options();
            self.cable.send(&frames::datagram(phone(from), machine(), request.as_bytes()))?;
            if self.turn_until(ANSWER_TIME, |host| host.statuses.contains_key(&number))? {
                return match self.statuses.get(&number) {
                    Some(200) => Ok(()),
                    other => bail!("OPTIONS is answered with {other:?}"),
                };
            }
        }
        bail!("OPTIONS is not answered");
    }

    /// Sends what a DHCP server says.
    pub(super) fn send_by_dhcp(&mut self, answer: &[u8]) -> Result<()> {
        let server = SocketAddrV4::new(HOST, DHCP_SERVER);
        let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, DHCP_CLIENT);
        self.cable.send(&frames::datagram(server, everybody, answer))
    }

    fn on_frame(&mut self, frame: &[u8]) -> Result<()> {
        match frames::read(frame) {
            Heard::WhoHas(address) if [HOST, OTHER_PHONE, MALLORY].contains(&address) => {
                let reply = frames::arp(ArpOperation::Reply, (address, HOST_HARDWARE), MACHINE);
                self.cable.send(&reply)
            }
            Heard::WhoHas(address) => {
                self.asked_in_vain.insert(address);
                Ok(())
            }
            Heard::Datagram { from, to, bytes } => self.on_datagram(from, to, bytes),
            Heard::Echo { to, number, bytes } => {
                self.echoes.push((to, number, bytes.to_vec()));
                Ok(())
            }
            Heard::Accepted(by) => {
                self.accepted.insert(by);
                Ok(())
            }
            Heard::Other => Ok(()),
        }
    }

    fn on_datagram(&mut self, from: SocketAddrV4, to: SocketAddrV4, bytes: &[u8]) -> Result<()> {
        if to.port() == DHCP_SERVER {
            let (server, everybody) =
                (SocketAddrV4::new(HOST, DHCP_SERVER), SocketAddrV4::new(Ipv4Addr::BROADCAST, DHCP_CLIENT));
            for answer in self.dhcp.answer(bytes) {
                self.cable.send(&frames::datagram(server, everybody, &answer))?;
            }
        } else if from == machine() {
            let text = String::from_utf8_lossy(bytes);
            if let Some((number, status)) = number_and_status(&text) {
                self.statuses.insert(number, status);
            }
        } else {
            for (by, port, answer) in self.tftp.answer(from.port(), to, bytes) {
                self.cable.send(&frames::datagram(by, SocketAddrV4::new(MACHINE, port), &answer))?;
            }
        }
        Ok(())
    }
}

/// The port of the machine that takes SIP.
pub(super) fn machine() -> SocketAddrV4 {
    SocketAddrV4::new(MACHINE, SIP_PORT)
}

/// The port of a host of ours that asks.
pub(super) fn phone(address: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(address, 5062)
}

/// Which request a response is for, by its Call-ID, and its status.
fn number_and_status(text: &str) -> Option<(u32, u16)> {
    let status = text.strip_prefix("SIP/2.0 ")?.split(' ').next()?.parse().ok()?;
    let call_id = text.lines().find_map(|line| line.strip_prefix("Call-ID: test-"))?;
    Some((call_id.parse().ok()?, status))
}

/// A phone that the machine never heard of by ARP.
pub(super) const OTHER_PHONE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);

/// RFC 2131 §4.1.
pub(super) const DHCP_SERVER: u16 = 67;
pub(super) const DHCP_CLIENT: u16 = 68;

/// How long an answer is waited for, and how often it is asked again, as a phone does.
const ANSWER_TIME: Duration = Duration::from_secs(2);
const TRIES: u32 = 5;

/// How long one frame is waited for.
pub(super) const TURN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_told_apart() {
        let text = "SIP/2.0 200 OK\r\nCall-ID: test-7\r\n\r\n";
        assert_eq!(number_and_status(text), Some((7, 200)));
        assert_eq!(number_and_status("SIP/2.0 400 Bad Request\r\nCall-ID: other\r\n\r\n"), None);
    }
}
