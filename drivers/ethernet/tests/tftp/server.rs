//! A TFTP server (RFC 1350, 2347-2349) with typical faults.

use super::network::{CLIENT, SERVER};
use ringway_sansio::Instant;
use std::net::SocketAddrV4;
use std::time::Duration;

/// A server with one file.
#[derive(Clone)]
pub(crate) struct FileServer {
    pub(crate) file: Vec<u8>,
    /// Handling of options.
    pub(crate) options: Options,
    /// Maximum block size that it accepts.
    pub(crate) block_bytes_max: usize,
    /// Announced size of the file; `None`: the real size.
    pub(crate) announced_size: Option<String>,
    /// Additional option of every OACK.
    pub(crate) option_added: Option<(&'static str, &'static str)>,
    /// Error with which it answers every request.
    pub(crate) refuses_with: Option<(u16, &'static str)>,
    /// Sends the next block for every acknowledgement, including duplicates (RFC 1123 §4.2.3.1).
    pub(crate) is_sorcerers_apprentice: bool,
    /// Sends nothing after this block.
    pub(crate) silent_after: Option<u16>,
    /// Modifies each DATA packet before it is sent.
    pub(crate) spoil: fn(&mut Vec<u8>),
    /// Port of the next transfer; every request gets its own (RFC 1350 §4).
    pub(crate) next_port: u16,
    pub(crate) sessions: Vec<Session>,
    /// Packets sent and received.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) received: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Options {
    Understood,
    /// As a server that does not support them.
    Ignored,
    /// With an error code.
    Refused(u16),
}

/// A transfer with its own port.
#[derive(Clone)]
pub(crate) struct Session {
    port: u16,
    block_bytes: usize,
    /// Last packet, and its block number without wrap-around.
    last: Vec<u8>,
    number: u64,
    wake_at: Option<Instant>,
    tries: u32,
    /// True after the acknowledgement of the last block.
    pub(crate) is_complete: bool,
}

const RETRY: Duration = Duration::from_millis(1500);

impl FileServer {
    pub(crate) fn new(file: Vec<u8>) -> Self {
        Self {
            file,
            options: Options::Understood,
            block_bytes_max: 65_464,
            announced_size: None,
            option_added: None,
            refuses_with: None,
            is_sorcerers_apprentice: false,
            silent_after: None,
            spoil: |_| {},
            next_port: 50_000,
            sessions: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Number of sent packets with this opcode.
    pub(crate) fn sent_of(&self, code: u8) -> usize {
        self.sent.iter().filter(|packet| packet[1] == code).count()
    }

    /// Received ERROR packets: code and text.
    pub(crate) fn received_errors(&self) -> Vec<(u8, String)> {
        let errors = self.received.iter().filter(|packet| packet[1] == 5);
        errors
            .map(|packet| (packet[3], String::from_utf8(packet[4..packet.len() - 1].to_vec()).unwrap()))
            .collect()
    }

    /// Processes a packet; `port` is the port of the reply.
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        to: SocketAddrV4,
        packet: &[u8],
        out: &mut Vec<(u16, Vec<u8>)>,
    ) {
        self.received.push(packet.to_vec());
        if to == SERVER && packet[1] == 1 {
            self.on_request(now, packet, out);
        } else if packet[1] == 4 {
            let number = u16::from_be_bytes([packet[2], packet[3]]);
            self.on_ack(now, to.port(), number, out);
        } else if packet[1] == 5 {
            self.sessions.retain(|session| session.port != to.port());
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.sessions.iter().filter_map(|session| session.wake_at).min()
    }

    pub(crate) fn on_timeout(&mut self, now: Instant, out: &mut Vec<(u16, Vec<u8>)>) {
        for session in &mut self.sessions {
            if session.wake_at.is_some_and(|at| at <= now) {
                session.tries += 1;
                session.wake_at = (session.tries < 5).then_some(now + RETRY);
                out.push((session.port, session.last.clone()));
                self.sent.push(session.last.clone());
            }
        }
    }

    fn on_request(&mut self, now: Instant, packet: &[u8], out: &mut Vec<(u16, Vec<u8>)>) {
        let words: Vec<&str> =
            packet[2..].split(|byte| *byte == 0).map(|word| str::from_utf8(word).unwrap()).collect();
        assert_eq!((&packet[..2], words[0], words[1]), (&[0, 1][..], "users.csv", "octet"));
        let port = self.next_port;
        self.next_port += 1;
        let has_options = words.len() > 3;
        let refusal = match self.options {
            Options::Refused(code) if has_options => Some((code, "no options here")),
            Options::Refused(_) | Options::Understood | Options::Ignored => self.refuses_with,
        };
        if let Some((code, text)) = refusal {
            let mut packet = vec![0, 5, 0, code as u8];
            packet.extend_from_slice(text.as_bytes());
            packet.push(0);
            self.sent.push(packet.clone());
            out.push((port, packet));
            return;
        }
        let mut session = Session {
            port,
            block_bytes: 512,
            last: Vec::new(),
            number: 0,
            wake_at: Some(now + RETRY),
            tries: 0,
            is_complete: false,
        };
        if has_options && self.options == Options::Understood {
            assert_eq!(words[2..], ["blksize", "1428", "tsize", "0", ""]);
            session.block_bytes = self.block_bytes_max.min(1428);
            let size = self.announced_size.clone().unwrap_or_else(|| self.file.len().to_string());
            let mut oack = format!("\0\u{6}BLKSIZE\0{}\0tsize\0{size}\0", session.block_bytes).into_bytes();
            if let Some((name, value)) = self.option_added {
                oack.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
            }
            session.last = oack;
        } else {
            session.number = 1;
            session.last = self.block(&session);
        }
        self.sent.push(session.last.clone());
        out.push((port, session.last.clone()));
        self.sessions.push(session);
    }

    fn on_ack(&mut self, now: Instant, port: u16, number: u16, out: &mut Vec<(u16, Vec<u8>)>) {
        let Some(place) = self.sessions.iter().position(|session| session.port == port) else { return };
        let mut session = self.sessions[place].clone();
        let is_repeated = number == (session.number as u16).wrapping_sub(1);
        if number != session.number as u16 && !(is_repeated && self.is_sorcerers_apprentice) {
            return;
        }
        if self.silent_after == Some(number) {
            session.wake_at = None;
        } else if !is_repeated && session.number > 0 && session.last.len() - 4 < session.block_bytes {
            session.is_complete = true;
            session.wake_at = None;
        } else {
            session.number += u64::from(!is_repeated);
            session.last = self.block(&session);
            session.tries = 0;
            session.wake_at = Some(now + RETRY);
            self.sent.push(session.last.clone());
            out.push((port, session.last.clone()));
        }
        self.sessions[place] = session;
    }

    fn block(&self, session: &Session) -> Vec<u8> {
        let start = (session.number as usize - 1) * session.block_bytes;
        let end = self.file.len().min(start + session.block_bytes);
        let mut packet = vec![0, 3];
        packet.extend_from_slice(&(session.number as u16).to_be_bytes());
        packet.extend_from_slice(&self.file[start.min(end)..end]);
        (self.spoil)(&mut packet);
        packet
    }
}

/// A port of the server's host.
pub(crate) fn server_port(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(*SERVER.ip(), port)
}

/// A DATA packet.
pub(crate) fn data(block: u16, bytes: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 3];
    packet.extend_from_slice(&block.to_be_bytes());
    packet.extend_from_slice(bytes);
    packet
}

/// True for the address of the download.
pub(crate) fn is_client(to: SocketAddrV4) -> bool {
    to == CLIENT
}
