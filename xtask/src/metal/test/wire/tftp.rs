//! A TFTP server (RFC 1350, options by RFC 2347 to 2349) on a link that loses, doubles and reorders, among strangers.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use super::frames::{HOST, MACHINE};

/// The server, and what happens to the list of users on its way.
#[derive(Default)]
pub(super) struct TftpServer {
    /// What it has.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The file that the faults below are for; all others come as they should.
    pub(super) troubled: String,
    /// What the first requests for it get, one each; then it is given away.
    pub(super) first_answers: VecDeque<Answer>,
    /// Everything comes twice, the block before once more after each block, and strangers send blocks and errors.
    pub(super) is_on_a_bad_link: bool,
    /// Blocks that are lost when they are sent first; 0: the answer to the options.
    pub(super) lost: Vec<u16>,
    /// Requests for the troubled file.
    pub(super) requests: u32,
    /// Blocks that were sent again because the machine asked for them again.
    pub(super) repeated: u32,
    /// Errors that the machine sent to strangers (RFC 1350 §4).
    pub(super) strangers_told: u32,
    sessions: Vec<Session>,
    /// The port that got an error last, and the error.
    refused: Option<(u16, Vec<u8>)>,
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not at all.
    Silence,
    /// With this error.
    Error(u16, &'static str),
    /// With the file up to this block, and silence then.
    FallsSilentAfter(u16),
    /// With the file up to this block, and the error of a server that forgot all of it.
    ForgetsAfter(u16),
}

/// A file on its way: it has a port of its own.
struct Session {
    port: u16,
    /// Where the machine hears.
    client: u16,
    name: String,
    /// The block that was sent last; 0: the answer to the options.
    block: u16,
    ends: Option<Answer>,
}

/// A datagram to the machine: from where, to which port, and what.
pub(super) type Sent = (SocketAddrV4, u16, Vec<u8>);

impl TftpServer {
    /// A server with one troubled file.
    pub(super) fn with(name: &str, bytes: Vec<u8>) -> Self {
        let files = BTreeMap::from([(name.to_owned(), bytes)]);
        Self { files, troubled: name.to_owned(), ..Self::default() }
    }

    /// What comes back for a datagram from the machine's port `client`.
    pub(super) fn answer(&mut self, client: u16, to: SocketAddrV4, packet: &[u8]) -> Vec<Sent> {
        let (is_for_us, port) = (*to.ip() == HOST, to.port());
        match packet {
            [0, REQUEST, words @ ..] if is_for_us && port == TFTP_PORT => self.on_request(client, words),
            [0, ACK, high, low] if is_for_us => self.on_ack(client, port, u16::from_be_bytes([*high, *low])),
            [0, ERROR, 0, UNKNOWN_TRANSFER, ..] => {
                self.strangers_told += 1;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn on_request(&mut self, client: u16, words: &[u8]) -> Vec<Sent> {
        let name = words.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        // The same request once more, from a machine that waits.
        if let Some((_, error)) = self.refused.as_ref().filter(|refused| refused.0 == client) {
            return vec![(SocketAddrV4::new(HOST, FIRST_PORT), client, error.clone())];
        }
        if let Some(place) = self.sessions.iter().position(|session| session.client == client) {
            return self.send(place);
        }
        let port = FIRST_PORT + u16::try_from(self.sessions.len()).unwrap_or_default() * 2;
        let from = SocketAddrV4::new(HOST, port);
        let mut ends = None;
        if name == self.troubled {
            self.requests += 1;
            ends = self.first_answers.pop_front();
        }
        let size = self.files.get(&name).map(Vec::len);
        match (ends, size) {
            (Some(Answer::Silence), _) => Vec::new(),
            (Some(Answer::Error(code, text)), _) => {
                self.refused = Some((client, error(code, text)));
                vec![(from, client, error(code, text))]
            }
            (_, None) => vec![(from, client, error(1, "not here"))],
            (Some(Answer::FallsSilentAfter(_) | Answer::ForgetsAfter(_)) | None, Some(_)) => {
                self.sessions.push(Session { port, client, name, block: 0, ends });
                self.send(self.sessions.len() - 1)
            }
        }
    }

    fn on_ack(&mut self, client: u16, port: u16, number: u16) -> Vec<Sent> {
        let found = self.sessions.iter().position(|session| (session.port, session.client) == (port, client));
        let Some(place) = found else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(place) else { return Vec::new() };
        if number == session.block {
            match session.ends {
                Some(Answer::FallsSilentAfter(last)) if last <= number => return Vec::new(),
                Some(Answer::ForgetsAfter(last)) if last <= number => {
                    let from = SocketAddrV4::new(HOST, port);
                    return vec![(from, client, error(u16::from(UNKNOWN_TRANSFER), "who are you?"))];
                }
                _ => session.block += 1,
            }
            return self.send(place);
        }
        // Asked for again: the block was lost.
        if number.wrapping_add(1) == session.block {
            self.repeated += 1;
            return self.send(place);
        }
        Vec::new()
    }

    /// Sends a session's block, with all that happens to it.
    fn send(&mut self, place: usize) -> Vec<Sent> {
        let Some(session) = self.sessions.get(place) else { return Vec::new() };
        let Session { port, client, block, .. } = *session;
        let Some(packet) = self.packet(session, block) else { return Vec::new() };
        let from = SocketAddrV4::new(HOST, port);
        if session.name != self.troubled {
            return vec![(from, client, packet)];
        }
        if let Some(place) = self.lost.iter().position(|lost| *lost == block) {
            self.lost.remove(place);
            return Vec::new();
        }
        let mut sent = vec![(from, client, packet.clone())];
        if self.is_on_a_bad_link {
            sent.push((from, client, packet));
            let before = block.checked_sub(1).and_then(|before| self.packet(session, before));
            sent.extend(before.map(|packet| (from, client, packet)));
            // The next block, as it is not: from another port of the server, and from another host.
            let forged = [&[0, DATA], &(block + 1).to_be_bytes()[..], b"mallory,secret\n"].concat();
            for stranger in [SocketAddrV4::new(HOST, port + 1), SocketAddrV4::new(MALLORY, port)] {
                sent.push((stranger, client, forged.clone()));
                sent.push((stranger, client, error(0, "it is over")));
            }
        }
        sent
    }

    /// A block of a file; block 0: what is agreed on. `None`: the file ended before.
    fn packet(&self, session: &Session, block: u16) -> Option<Vec<u8>> {
        let bytes = self.files.get(&session.name)?;
        if block == 0 {
            let size = bytes.len();
            return Some(format!("\0\u{6}blksize\0{BLOCK_BYTES}\0tsize\0{size}\0").into_bytes());
        }
        let start = usize::from(block - 1) * BLOCK_BYTES;
        let data = bytes.get(start..)?;
        let data = data.get(..BLOCK_BYTES).unwrap_or(data);
        Some([&[0, DATA], &block.to_be_bytes()[..], data].concat())
    }
}

fn error(code: u16, text: &str) -> Vec<u8> {
    [&[0, ERROR], &code.to_be_bytes()[..], text.as_bytes(), &[0]].concat()
}

/// RFC 1350 §5.
const REQUEST: u8 = 1;
const DATA: u8 = 3;
const ACK: u8 = 4;
const ERROR: u8 = 5;
const UNKNOWN_TRANSFER: u8 = 5;

/// Where requests are taken.
const TFTP_PORT: u16 = 69;
const FIRST_PORT: u16 = 50_000;

/// Smaller than what the machine offers, so that a list has many blocks.
const BLOCK_BYTES: usize = 512;

/// A neighbour with bad intentions.
pub(super) const MALLORY: std::net::Ipv4Addr = {
    let [a, b, ..] = MACHINE.octets();
    std::net::Ipv4Addr::new(a, b, 66, 66)
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_block_comes_when_it_is_asked_for_again() {
        let mut server = TftpServer::with("f", vec![b'x'; 700]);
        server.lost = vec![2];
        let from = SocketAddrV4::new(HOST, FIRST_PORT);
        let requests = SocketAddrV4::new(HOST, TFTP_PORT);
        let oack = server.answer(4000, requests, b"\0\x01f\0octet\0blksize\x001428\0tsize\x000\0");
        assert_eq!(oack, [(from, 4000, b"\0\x06blksize\x00512\0tsize\x00700\0".to_vec())]);
        let mut lengths = |block: u8| -> Vec<usize> {
            server.answer(4000, from, &[0, ACK, 0, block]).iter().map(|sent| sent.2.len()).collect()
        };
        assert_eq!((lengths(0), lengths(1), lengths(1), lengths(2)), (vec![516], vec![], vec![192], vec![]));
        assert_eq!(server.repeated, 1);
    }
}
