//! Hosts at our end of the cable: one card that answers ARP for a few addresses, serves DHCP and TFTP, and
//! sends SIP requests. They run in the caller's thread while it waits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use ringway_test_support::dhcp::{DhcpServer, Offer};
use ringway_test_support::tftp::TftpServer;
use smoltcp::wire::ArpOperation;

use super::super::options;
use super::tftp::{MALLORY, TftpLink};
use super::{
    Cable,
    frames::{self, ALL_CARDS, HOST, HOST_HARDWARE, MACHINE, MACHINE_HARDWARE, MASK, Received, SIP_PORT},
};

/// Our end of the cable, and what was received there.
pub(super) struct Host {
    pub(super) cable: Cable,
    pub(super) dhcp: DhcpServer,
    pub(super) tftp: TftpLink,
    /// Status of each request, by its number.
    pub(super) statuses: BTreeMap<u32, u16>,
    /// Echo replies: destination, number, payload.
    pub(super) echoes: Vec<(Ipv4Addr, u16, Vec<u8>)>,
    /// Addresses whose connections were accepted.
    pub(super) accepted: BTreeSet<SocketAddrV4>,
    /// Addresses in ARP requests of the machine that no host has.
    pub(super) unknown_addresses: BTreeSet<Ipv4Addr>,
    /// Number of the last request.
    number: u32,
}

/// Lease for the machine.
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
            unknown_addresses: BTreeSet::new(),
            number: 0,
        }
    }

    /// Handles a frame, if one arrives in this time; returns false otherwise.
    pub(super) fn turn(&mut self, wait: Duration) -> Result<bool> {
        let Some(frame) = self.cable.receive(wait)? else { return Ok(false) };
        // Frames to other cards are ignored, which happens after our address was claimed by another card.
        if frame.starts_with(&HOST_HARDWARE) || frame.starts_with(&ALL_CARDS) {
            self.on_frame(&frame)?;
        }
        Ok(true)
    }

    /// Handles all frames that have arrived.
    pub(super) fn take_all(&mut self) -> Result<()> {
        while self.turn(Duration::ZERO)? {}
        Ok(())
    }

    /// Handles frames until the condition is true; returns false after the time limit.
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

    /// Number and text of a new OPTIONS request.
    pub(super) fn options(&mut self) -> (u32, String) {
        self.number += 1;
        (self.number, options("UDP", self.number, ""))
    }

    /// Sends an ARP request for the machine's address, which also announces `address`.
    pub(super) fn announce(&mut self, address: Ipv4Addr) -> Result<()> {
        self.cable.send(&frames::arp(ArpOperation::Request, (address, HOST_HARDWARE), MACHINE))
    }

    /// Checks that OPTIONS from one of our addresses is answered with 200.
    pub(super) fn expect_answer(&mut self, from: Ipv4Addr) -> Result<()> {
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

    /// Sends an answer of the DHCP server.
    pub(super) fn send_by_dhcp(&mut self, answer: &[u8]) -> Result<()> {
        let server = SocketAddrV4::new(HOST, DHCP_SERVER);
        let everybody = SocketAddrV4::new(Ipv4Addr::BROADCAST, DHCP_CLIENT);
        self.cable.send(&frames::datagram(server, everybody, answer))
    }

    fn on_frame(&mut self, frame: &[u8]) -> Result<()> {
        match frames::read(frame) {
            Received::WhoHas(address) if [HOST, OTHER_PHONE, MALLORY].contains(&address) => {
                let reply = frames::arp(ArpOperation::Reply, (address, HOST_HARDWARE), MACHINE);
                self.cable.send(&reply)
            }
            Received::WhoHas(address) => {
                self.unknown_addresses.insert(address);
                Ok(())
            }
            Received::Datagram { from, to, bytes } => self.on_datagram(from, to, bytes),
            Received::Echo { to, number, bytes } => {
                self.echoes.push((to, number, bytes.to_vec()));
                Ok(())
            }
            Received::Accepted(by) => {
                self.accepted.insert(by);
                Ok(())
            }
            Received::Other => Ok(()),
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

/// SIP address of the machine.
pub(super) fn machine() -> SocketAddrV4 {
    SocketAddrV4::new(MACHINE, SIP_PORT)
}

/// SIP address of one of our hosts.
pub(super) fn phone(address: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(address, 5062)
}

/// Number of the request that a response belongs to, by its Call-ID, and its status.
fn number_and_status(text: &str) -> Option<(u32, u16)> {
    let status = text.strip_prefix("SIP/2.0 ")?.split(' ').next()?.parse().ok()?;
    let call_id = text.lines().find_map(|line| line.strip_prefix("Call-ID: test-"))?;
    Some((call_id.parse().ok()?, status))
}

/// A phone without an entry in the machine's ARP table.
pub(super) const OTHER_PHONE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);

/// RFC 2131 §4.1.
pub(super) const DHCP_SERVER: u16 = 67;
pub(super) const DHCP_CLIENT: u16 = 68;

/// Time limit for a response, and number of attempts, as of a phone.
const ANSWER_TIME: Duration = Duration::from_secs(2);
const TRIES: u32 = 5;

/// Time to wait for one frame.
pub(super) const TURN: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_matched_to_requests() {
        let text = "SIP/2.0 200 OK\r\nCall-ID: test-7\r\n\r\n";
        assert_eq!(number_and_status(text), Some((7, 200)));
        assert_eq!(number_and_status("SIP/2.0 400 Bad Request\r\nCall-ID: other\r\n\r\n"), None);
    }
}
