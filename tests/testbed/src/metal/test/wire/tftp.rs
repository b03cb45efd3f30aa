//! TFTP on a link that loses, duplicates and reorders, among strangers. The list of users over a bad link, and from
//! servers that fail.

use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Result, bail};
use ringway_test_support::tftp::{Answer, RepeatedAck, Sent, TftpServer, UNKNOWN_TRANSFER, data, error};

use super::frames::{HOST, MACHINE};
use super::host::Host;
use super::{CabledMachine, with_fast_clock};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};

/// A server, and what happens to its troubled file on the way.
pub(super) struct TftpLink {
    pub(super) server: TftpServer,
    /// Everything comes twice, the block before once more after each block, and strangers send blocks and errors.
    pub(super) is_bad: bool,
    /// Blocks that are lost when they are sent first; 0: the answer to the options.
    pub(super) lost: Vec<u16>,
    /// Errors that the machine sent to strangers (RFC 1350 §4).
    pub(super) strangers_answered: u32,
    /// The last block of the troubled file, and the one before.
    last: Vec<u8>,
    before: Vec<u8>,
}

/// A datagram to the machine: sender, port of the machine, payload.
pub(super) type Datagram = (SocketAddrV4, u16, Vec<u8>);

impl TftpLink {
    /// A good link to a server that does not retransmit blocks, whose files have many of them.
    pub(super) fn to(server: TftpServer) -> Self {
        Self {
            server: TftpServer { block_bytes_max: 512, repeated_ack: RepeatedAck::Resends, ..server },
            is_bad: false,
            lost: Vec::new(),
            strangers_answered: 0,
            last: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Takes a datagram from the machine's port `client`, and returns what comes back for it.
    pub(super) fn answer(&mut self, client: u16, to: SocketAddrV4, packet: &[u8]) -> Vec<Datagram> {
        self.strangers_answered += u32::from(packet.starts_with(&[0, 5, 0, UNKNOWN_TRANSFER]));
        if *to.ip() != HOST {
            return Vec::new();
        }
        // The time is for retransmissions, which the server here leaves to the machine.
        let answers = self.server.on_packet(Duration::ZERO, client, to.port(), packet);
        answers.into_iter().flat_map(|sent| self.carry(sent)).collect()
    }

    /// Carries a packet, with all that happens to it.
    fn carry(&mut self, sent: Sent) -> Vec<Datagram> {
        let Sent { from: port, to, packet } = sent;
        let from = SocketAddrV4::new(HOST, port);
        let block = match packet.as_slice() {
            [0, 6, ..] => 0,
            [0, 3, high, low, ..] => u16::from_be_bytes([*high, *low]),
            _ => return vec![(from, to, packet)],
        };
        if self.server.file_at(port) != Some(self.server.troubled.as_str()) {
            return vec![(from, to, packet)];
        }
        if self.last != packet {
            self.before = std::mem::replace(&mut self.last, packet.clone());
        }
        if let Some(place) = self.lost.iter().position(|lost| *lost == block) {
            self.lost.remove(place);
            return Vec::new();
        }
        if !self.is_bad {
            return vec![(from, to, packet)];
        }
        let mut carried = vec![(from, to, packet.clone()), (from, to, packet)];
        if block > 0 {
            carried.push((from, to, self.before.clone()));
        }
        // The next block, as it is not: from another port of the server, and from another host.
        let forged = data(block + 1, b"mallory,secret\n");
        for stranger in [SocketAddrV4::new(HOST, port + 1), SocketAddrV4::new(MALLORY, port)] {
            carried.push((stranger, to, forged.clone()));
            carried.push((stranger, to, error(0, "it is over")));
        }
        carried
    }
}

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new("wire/tftp-errors", errors), Scenario::new("wire/tftp", bad_link)]
}

/// Loses the first request, duplicates and delays blocks or sends them only at the second request, and adds blocks of strangers: the list must be complete.
fn bad_link(stage: &Stage) -> Result<()> {
    let set = |host: &mut Host| {
        host.tftp = TftpLink::to(server());
        host.tftp.is_bad = true;
        host.tftp.lost = LOST.to_vec();
        host.tftp.server.first_answers = [Answer::Silence].into();
    };
    let mut machine = CabledMachine::start(&Machine::new(Medium::Kernel), stage, WORDS, set)?;
    machine.until_said("ready ")?;
    machine.answers("a list over a bad link")?;
    expect_users(&machine, 2)?;
    let tftp = &machine.host.tftp;
    let (repeated, printed) = (tftp.server.resent, tftp.strangers_answered);
    if !tftp.lost.is_empty() || repeated == 0 || printed == 0 {
        bail!(
            "{repeated} blocks were asked for again, strangers were told {printed} times: that was no bad link"
        );
    }
    Ok(())
}

/// Errors, forgetting and silence in the middle: each time the machine says why, tries again later,
/// and has nobody; then it has all.
fn errors(stage: &Stage) -> Result<()> {
    let set = |host: &mut Host| {
        host.tftp = TftpLink::to(server());
        host.tftp.server.first_answers = FAILURES.iter().map(|(answer, _)| *answer).collect();
    };
    let mut machine = CabledMachine::start(&with_fast_clock(), stage, WORDS, set)?;
    for (number, (_, words)) in (1..).zip(FAILURES) {
        machine.until(words, |said| {
            let mut lines = said.lines().filter(|line| line.contains("trying again in 10 s"));
            lines.nth(number - 1).is_some_and(|line| line.contains(words))
        })?;
        let said = machine.running.output();
        if said.contains("users: ") || said.contains("ready ") {
            bail!("the machine took users of a list that is not whole");
        }
    }
    machine.until_said("ready ")?;
    machine.answers("a TFTP server that failed")?;
    expect_users(&machine, u32::try_from(FAILURES.len())? + 1)
}

/// All users are there, and the list was asked for at least so often.
fn expect_users(machine: &CabledMachine, requests_min: u32) -> Result<()> {
    let (said, requests) = (machine.running.output(), machine.host.tftp.server.requests);
    if !said.contains(&format!("users: {USERS} from tftp://10.77.0.1/{LIST}")) {
        bail!("the machine does not say that it has {USERS} users");
    }
    if said.matches("users: ").count() != 1 || requests < requests_min {
        bail!("the list was taken more than once, or asked for {requests} times only");
    }
    Ok(())
}

fn server() -> TftpServer {
    let mut list = String::from("username,password\n");
    for user in 0..USERS {
        // It cannot fail.
        let _ = writeln!(list, "user{user:04},secret-{user:04}");
    }
    TftpServer::new(LIST, list.into_bytes())
}

/// A neighbour with bad intentions.
pub(super) const MALLORY: std::net::Ipv4Addr = {
    let [a, b, ..] = MACHINE.octets();
    std::net::Ipv4Addr::new(a, b, 66, 66)
};
/// Failures of a server, and the machine's messages about them.
const FAILURES: [(Answer, &str); 4] = [
    (Answer::Error(1, "File not found"), "there is no such file"),
    (Answer::Error(2, "Access violation"), "Access violation"),
    (Answer::ForgetsAfter(9), "does not have this transfer any more"),
    (Answer::FallsSilentAfter(9), "stopped sending after"),
];

const USERS: u32 = 1000;
const LIST: &str = "users.csv";
const WORDS: &str = "users=users.csv auth=on";

/// The answer to the options, a block in the middle, and one near the end.
const LOST: [u16; 3] = [0, 7, 40];

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_test_support::tftp::{FIRST_PORT, REQUEST_PORT};

    #[test]
    fn a_lost_block_comes_when_it_is_asked_for_again() {
        let mut link = TftpLink::to(TftpServer::new("f", vec![b'x'; 700]));
        link.lost = vec![2];
        let from = SocketAddrV4::new(HOST, FIRST_PORT);
        let requests = SocketAddrV4::new(HOST, REQUEST_PORT);
        let oack = link.answer(4000, requests, b"\0\x01f\0octet\0blksize\x001428\0tsize\x000\0");
        assert_eq!(oack, [(from, 4000, b"\0\x06BLKSIZE\x00512\0tsize\x00700\0".to_vec())]);
        let mut lengths = |block: u8| -> Vec<usize> {
            link.answer(4000, from, &[0, 4, 0, block]).iter().map(|sent| sent.2.len()).collect()
        };
        assert_eq!((lengths(0), lengths(1), lengths(1), lengths(2)), (vec![516], vec![], vec![192], vec![]));
        assert_eq!(link.server.resent, 1);
    }
}
