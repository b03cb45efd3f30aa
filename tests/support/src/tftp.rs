//! A TFTP server (RFC 1350, 2347-2349) for one client, with the faults that servers have.
//!
//! Does no I/O: it takes datagrams and the time, and returns datagrams. What a network does to them is up to the test.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Files, and the answers to requests for them.
#[derive(Clone)]
pub struct TftpServer {
    /// Files by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The file that [`first_answers`](Self::first_answers) and [`answer`](Self::answer) are for; all others are sent.
    pub troubled: String,
    /// Answers to the first requests for the troubled file, one each.
    pub first_answers: VecDeque<Answer>,
    /// Answer to every later request for the troubled file.
    pub answer: Answer,
    /// Treatment of options in requests.
    pub options: Options,
    /// Largest block size that it agrees to.
    pub block_bytes_max: usize,
    /// Value of `tsize`; `None`: the size of the file.
    pub announced_size: Option<String>,
    /// Further option in every OACK.
    pub option_added: Option<(&'static str, &'static str)>,
    /// Changes each DATA packet before it is sent.
    pub spoil: fn(&mut Vec<u8>),
    /// Treatment of an acknowledgement that comes again.
    pub repeated_ack: RepeatedAck,
    /// Packets that it sent.
    pub sent: Vec<Vec<u8>>,
    /// Packets that it received.
    pub received: Vec<Vec<u8>>,
    /// Requests for the troubled file, without those that the client repeated.
    pub requests: u32,
    /// Packets sent again because the client repeated an acknowledgement.
    pub resent: u32,
    /// Transfers that the client did not end by an error.
    pub transfers: Vec<Transfer>,
    /// Answers to requests for the troubled file, by port of the client.
    pub answered: Vec<(u16, Answer)>,
    /// Port of the next transfer.
    pub next_port: u16,
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file.
    File,
    /// None.
    Silence,
    /// An error: code and text.
    Error(u16, &'static str),
    /// The file up to the block after this one is acknowledged, then silence.
    FallsSilentAfter(u16),
    /// The file up to this block, then the error of a server that has no such transfer.
    ForgetsAfter(u16),
}

/// Treatment of options in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Options {
    /// Answered by an OACK.
    Understood,
    /// Answered as if there were none.
    Ignored,
    /// Refused with this error.
    Refused(u16),
}

/// Treatment of an acknowledgement of the block before the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedAck {
    /// None; lost blocks are sent again after a while ([`TftpServer::on_timeout`]).
    Ignored,
    /// The last block is sent again, the fault of RFC 1123 §4.2.3.1.
    Resends,
}

/// One transfer: it has a port of its own (RFC 1350 §4).
#[derive(Clone, Debug)]
pub struct Transfer {
    /// True once the last block is acknowledged.
    pub is_complete: bool,
    port: u16,
    client: u16,
    name: String,
    answer: Answer,
    block_bytes: usize,
    /// The last packet.
    last: Vec<u8>,
    /// The number of the last packet, not cut to 16 bits.
    number: u64,
    /// Time of the next retransmission of the last packet.
    wake_at: Option<Duration>,
    tries: u32,
}

/// A datagram to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Port of the server.
    pub from: u16,
    /// Port of the client.
    pub to: u16,
    /// The packet.
    pub packet: Vec<u8>,
}

impl TftpServer {
    /// A server with one file, which every request gets.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        Self { files: [(name.to_owned(), bytes)].into(), troubled: name.to_owned(), ..Self::default() }
    }

    /// Name of the file that is sent from this port of the server.
    pub fn file_at(&self, port: u16) -> Option<&str> {
        self.transfers.iter().find(|transfer| transfer.port == port).map(|transfer| transfer.name.as_str())
    }

    /// Number of packets of this kind that it sent.
    pub fn sent_of(&self, code: u8) -> usize {
        self.sent.iter().filter(|packet| packet.get(1) == Some(&code)).count()
    }

    /// Errors that the client sent: code and text.
    pub fn received_errors(&self) -> Vec<(u8, String)> {
        let errors = self.received.iter().filter_map(|packet| match packet.as_slice() {
            [0, ERROR, _, code, text @ .., 0] => Some((*code, String::from_utf8(text.to_vec()).unwrap())),
            _ => None,
        });
        errors.collect()
    }

    /// Takes a packet from the client's port `client` to the port `to`.
    pub fn on_packet(&mut self, now: Duration, client: u16, to: u16, packet: &[u8]) -> Vec<Sent> {
        self.received.push(packet.to_vec());
        match packet {
            [0, REQUEST, words @ ..] if to == REQUEST_PORT => self.on_request(now, client, words),
            [0, ACK, high, low] => self.on_ack(now, client, to, u16::from_be_bytes([*high, *low])),
            [0, ERROR, ..] => {
                self.transfers.retain(|transfer| (transfer.port, transfer.client) != (to, client));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Time of the next retransmission.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.transfers.iter().filter_map(|transfer| transfer.wake_at).min()
    }

    /// Repeats packets that were not acknowledged in time.
    pub fn on_timeout(&mut self, now: Duration) -> Vec<Sent> {
        let mut all = Vec::new();
        for transfer in &mut self.transfers {
            if transfer.wake_at.is_some_and(|at| at <= now) {
                transfer.tries += 1;
                transfer.wake_at = (transfer.tries < TRIES).then_some(now + RETRY);
                all.push(transfer.sent());
            }
        }
        self.sent.extend(all.iter().map(|sent| sent.packet.clone()));
        all
    }

    fn on_request(&mut self, now: Duration, client: u16, words: &[u8]) -> Vec<Sent> {
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let Some(name) = words.first().map(|name| name.clone().into_owned()) else { return Vec::new() };
        let answer = self.answer_to(client, &name);
        let has_options = words.len() > 3;
        let port = self.next_port;
        // The ports between are free for strangers.
        self.next_port += 2;
        let mut transfer = Transfer {
            is_complete: false,
            port,
            client,
            name,
            answer,
            block_bytes: BLOCK_BYTES,
            last: Vec::new(),
            number: 0,
            wake_at: Some(now + RETRY),
            tries: 0,
        };
        let refusal = match (self.options, answer) {
            (_, Answer::Silence) => return Vec::new(),
            (Options::Refused(code), _) if has_options => Some((code, "no options here")),
            (_, Answer::Error(code, text)) => Some((code, text)),
            _ if !self.files.contains_key(&transfer.name) => Some((1, "not here")),
            (_, Answer::File | Answer::FallsSilentAfter(_) | Answer::ForgetsAfter(_)) => None,
        };
        if let Some((code, text)) = refusal {
            transfer.last = error(code, text);
            return self.send(&transfer);
        }
        if has_options && self.options == Options::Understood {
            transfer.block_bytes = block_bytes_asked(&words).min(self.block_bytes_max);
            transfer.last = self.agreement(&transfer);
        } else {
            transfer.number = 1;
            transfer.last = self.block(&transfer);
        }
        let sent = self.send(&transfer);
        self.transfers.push(transfer);
        sent
    }

    /// The same answer for the same request once more, from a client that waits; the next one otherwise.
    fn answer_to(&mut self, client: u16, name: &str) -> Answer {
        if name != self.troubled {
            return Answer::File;
        }
        if let Some((_, answer)) = self.answered.iter().find(|(port, _)| *port == client) {
            return *answer;
        }
        self.requests += 1;
        let answer = self.first_answers.pop_front().unwrap_or(self.answer);
        if answer != Answer::Silence {
            self.answered.push((client, answer));
        }
        answer
    }

    fn on_ack(&mut self, now: Duration, client: u16, port: u16, number: u16) -> Vec<Sent> {
        let is_its = |transfer: &Transfer| (transfer.port, transfer.client) == (port, client);
        let Some(place) = self.transfers.iter().position(is_its) else { return Vec::new() };
        let mut transfer = self.transfers[place].clone();
        let last = transfer.number as u16;
        let is_repeated = transfer.number > 0 && number == last.wrapping_sub(1);
        if is_repeated && self.repeated_ack == RepeatedAck::Resends {
            self.resent += 1;
        } else if number != last {
            return Vec::new();
        }
        match transfer.answer {
            Answer::FallsSilentAfter(block) if block <= number => {
                self.transfers[place].wake_at = None;
                return Vec::new();
            }
            Answer::ForgetsAfter(block) if block <= number => {
                transfer.last = error(u16::from(UNKNOWN_TRANSFER), "who are you?");
                transfer.wake_at = None;
            }
            _ if !is_repeated && transfer.is_at_its_end() => {
                transfer.is_complete = true;
                transfer.wake_at = None;
                self.transfers[place] = transfer;
                return Vec::new();
            }
            _ => {
                transfer.number += u64::from(!is_repeated);
                transfer.last = self.block(&transfer);
                transfer.tries = 0;
                transfer.wake_at = Some(now + RETRY);
            }
        }
        let sent = self.send(&transfer);
        self.transfers[place] = transfer;
        sent
    }

    /// An OACK (RFC 2347).
    fn agreement(&self, transfer: &Transfer) -> Vec<u8> {
        let size =
            self.announced_size.clone().unwrap_or_else(|| self.files[&transfer.name].len().to_string());
        let added = self.option_added.map_or(String::new(), |(name, value)| format!("{name}\0{value}\0"));
        format!("\0\u{6}BLKSIZE\0{}\0tsize\0{size}\0{added}", transfer.block_bytes).into_bytes()
    }

    fn block(&self, transfer: &Transfer) -> Vec<u8> {
        let file = &self.files[&transfer.name];
        let start = (transfer.number as usize - 1) * transfer.block_bytes;
        let end = file.len().min(start + transfer.block_bytes);
        let mut packet = data(transfer.number as u16, &file[start.min(end)..end]);
        (self.spoil)(&mut packet);
        packet
    }

    fn send(&mut self, transfer: &Transfer) -> Vec<Sent> {
        self.sent.push(transfer.last.clone());
        vec![transfer.sent()]
    }
}

impl Default for TftpServer {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            troubled: String::new(),
            first_answers: VecDeque::new(),
            answer: Answer::File,
            options: Options::Understood,
            block_bytes_max: 65_464,
            announced_size: None,
            option_added: None,
            spoil: |_| {},
            repeated_ack: RepeatedAck::Ignored,
            sent: Vec::new(),
            received: Vec::new(),
            requests: 0,
            resent: 0,
            transfers: Vec::new(),
            answered: Vec::new(),
            next_port: FIRST_PORT,
        }
    }
}

impl Transfer {
    /// True where the last packet is the file's last block, shorter than the others.
    fn is_at_its_end(&self) -> bool {
        self.number > 0 && self.last.len() - 4 < self.block_bytes
    }

    fn sent(&self) -> Sent {
        Sent { from: self.port, to: self.client, packet: self.last.clone() }
    }
}

/// A DATA packet.
pub fn data(block: u16, bytes: &[u8]) -> Vec<u8> {
    [&[0, DATA], &block.to_be_bytes()[..], bytes].concat()
}

/// An ERROR packet.
pub fn error(code: u16, text: &str) -> Vec<u8> {
    [&[0, ERROR], &code.to_be_bytes()[..], text.as_bytes(), &[0]].concat()
}

/// The value of `blksize` in a request.
fn block_bytes_asked(words: &[std::borrow::Cow<'_, str>]) -> usize {
    let place = words.iter().position(|word| word == "blksize");
    let value = place.and_then(|place| words.get(place + 1)).and_then(|value| value.parse().ok());
    value.unwrap_or(BLOCK_BYTES)
}

/// Port for requests.
pub const REQUEST_PORT: u16 = 69;
/// Port of the first transfer; each further one has the next but one.
pub const FIRST_PORT: u16 = 50_000;
/// The error for packets of an unknown transfer (RFC 1350 §5).
pub const UNKNOWN_TRANSFER: u8 = 5;

const REQUEST: u8 = 1;
const DATA: u8 = 3;
const ACK: u8 = 4;
const ERROR: u8 = 5;

/// Block size without options.
const BLOCK_BYTES: usize = 512;
const RETRY: Duration = Duration::from_millis(1500);
const TRIES: u32 = 5;
