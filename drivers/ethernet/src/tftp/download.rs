//! One file from a TFTP server.
//!
//! ```text
//!              OACK: ACK 0                        the last block: its ACK,
//! Requested ──────────────────► Receiving ──────────────────────────────────► Lingering ──5 s──► Over
//!  │  ▲ │  block 1: ACK 1       │  ▲ │           the file is handed over        │  ▲ │             ▲
//!  │  └─┘                       │  └─┘                                          │  └─┘             │
//!  │  1, 2, 4, 8, 8 s:          │  the next block: its ACK                      │  the last block  │
//!  │  the request again;        │  1, 2, 4, 8, 8 s, the last block once more:   │  once more:      │
//!  │  options refused:          │  the last ACK again                           │  the last ACK    │
//!  │  again without             │                                               │  again           │
//!  └─── ERROR, no answer ───────┴─── ERROR, silence, not as agreed on ──────────────────────────────┘
//! ```
//! Whoever else sends something gets error 5 and changes nothing (RFC 1350 §4).

use super::error::{DownloadError, DownloadFailure};
use super::limits::DownloadLimits;
use super::packet::{self, Options, Packet};
use super::transfer::{BLOCK_BYTES, Block, Transfer};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use core::time::Duration;
use ringway_sansio::{Deadline, Instant};

/// The fetching of one file.
///
/// It needs a port of its own for as long as [`next_deadline`](Self::next_deadline) has something to say; RFC 1350 §4
/// wants that port chosen at random.
#[derive(Debug)]
pub struct Download {
    file: String,
    server: SocketAddrV4,
    limits: DownloadLimits,
    state: State,
    /// When to send again, or to stop lingering.
    wake_at: Instant,
    /// When all must be done.
    end_at: Instant,
    /// How often the packet that waits for an answer was sent.
    tries: u32,
    /// When it was sent last.
    sent_at: Instant,
    /// Why the server did not take a request with options.
    refusal: Option<DownloadFailure>,
    /// How many strangers were answered.
    strangers: u32,
}

/// What is waited for.
#[derive(Debug)]
enum State {
    /// For the server's first packet.
    Requested(Asking),
    /// For the next block.
    Receiving(Transfer),
    /// For a server that did not get our last acknowledgement.
    Lingering(Transfer),
    /// For nothing.
    Over,
}

/// How a file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    WithOptions,
    /// After a server refused options.
    Plainly,
}

/// What came of an input.
#[derive(Debug, PartialEq, Eq)]
pub enum DownloadProgress {
    /// Nothing to tell.
    Pending,
    /// This is the file. Said once; acknowledgements may be repeated for some seconds more.
    Finished(Vec<u8>),
    /// There will be no file. Said once.
    Failed(DownloadError),
}

/// What a download wants sent: at most one datagram for each input, of at most 516 bytes.
#[derive(Clone, Debug, Default)]
pub struct DownloadOutput {
    to: Option<SocketAddrV4>,
    bytes: Vec<u8>,
}

impl DownloadOutput {
    /// Where to, and what. Every input of a download overwrites it.
    pub fn datagram(&self) -> Option<(SocketAddrV4, &[u8])> {
        self.to.map(|to| (to, self.bytes.as_slice()))
    }

    fn clear(&mut self) {
        self.to = None;
        self.bytes.clear();
    }

    fn error(&mut self, to: SocketAddrV4, code: u16, text: &str) {
        self.to = Some(to);
        packet::write_error(&mut self.bytes, code, text);
    }
}

impl Download {
    /// Asks `server` for `file`. The first request is sent by [`on_timeout`](Self::on_timeout), which is due at once.
    ///
    /// # Errors
    /// No request can carry such a name.
    pub fn new(
        server: SocketAddrV4,
        file: &str,
        limits: DownloadLimits,
        now: Instant,
    ) -> Result<Self, DownloadError> {
        let download = Self {
            file: file.to_owned(),
            server,
            state: State::Requested(Asking::WithOptions),
            wake_at: now,
            end_at: now + limits.duration_max,
            tries: 0,
            sent_at: now,
            refusal: None,
            strangers: 0,
            limits,
        };
        if file.is_empty() || file.len() > NAME_BYTES_MAX || file.chars().any(char::is_control) {
            return Err(download.error(DownloadFailure::UnusableName));
        }
        Ok(download)
    }

    /// A datagram arrived at the download's port.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        bytes: &[u8],
        out: &mut DownloadOutput,
    ) -> DownloadProgress {
        out.clear();
        let Some(packet) = Packet::parse(bytes) else { return DownloadProgress::Pending };
        match &mut self.state {
            State::Requested(asking) => {
                let asking = *asking;
                // Nobody can answer what was not sent yet.
                if *from.ip() != *self.server.ip() || self.tries == 0 {
                    self.on_stranger(from, packet, out);
                    return DownloadProgress::Pending;
                }
                self.on_answer(now, asking, from, packet, out)
            }
            State::Receiving(transfer) if transfer.from == from => self.on_packet(now, packet, out),
            State::Lingering(transfer) if transfer.from == from => {
                if matches!(packet, Packet::Data { block, .. } if block == transfer.last) {
                    self.repeat_ack(now, out);
                }
                DownloadProgress::Pending
            }
            State::Receiving(_) | State::Lingering(_) => {
                self.on_stranger(from, packet, out);
                DownloadProgress::Pending
            }
            State::Over => DownloadProgress::Pending,
        }
    }

    /// To be called when [`next_deadline`](Self::next_deadline) has come; before that it does nothing.
    pub fn on_timeout(&mut self, now: Instant, out: &mut DownloadOutput) -> DownloadProgress {
        out.clear();
        if self.next_deadline().is_none_or(|deadline| now < deadline.at) {
            return DownloadProgress::Pending;
        }
        let tries = self.tries;
        let (received, failure) = match &self.state {
            State::Requested(_) => (0, self.refusal.clone().unwrap_or(DownloadFailure::NoAnswer { tries })),
            State::Receiving(transfer) => {
                let received = transfer.received();
                (received, DownloadFailure::Silent { received, tries })
            }
            State::Lingering(_) => {
                self.state = State::Over;
                return DownloadProgress::Pending;
            }
            State::Over => return DownloadProgress::Pending,
        };
        if now >= self.end_at {
            let duration_max = self.limits.duration_max;
            return self.give_up(DownloadFailure::TooSlow { received, duration_max }, out);
        }
        if tries >= self.limits.tries_max {
            return self.give_up(failure, out);
        }
        self.send_again(now, out);
        DownloadProgress::Pending
    }

    /// When to call [`on_timeout`](Self::on_timeout); `None`: the download is over and needs its port no more.
    pub fn next_deadline(&self) -> Option<Deadline> {
        let (at, reason) = match &self.state {
            State::Requested(_) => (self.wake_at.min(self.end_at), "TFTP: send the request"),
            State::Receiving(_) => (self.wake_at.min(self.end_at), "TFTP: ask for the next block again"),
            State::Lingering(_) => (self.wake_at, "TFTP: the last acknowledgement was not asked for again"),
            State::Over => return None,
        };
        Some(Deadline { at, reason })
    }

    /// How many bytes of the file are here, and how many there will be, where the server said it.
    pub fn received(&self) -> (usize, Option<usize>) {
        match &self.state {
            State::Receiving(transfer) => (transfer.received(), transfer.size()),
            State::Requested(_) | State::Lingering(_) | State::Over => (0, None),
        }
    }

    /// The first packet from the server's address, whatever port: the port becomes the server's identifier.
    fn on_answer(
        &mut self,
        now: Instant,
        asking: Asking,
        from: SocketAddrV4,
        packet: Packet<'_>,
        out: &mut DownloadOutput,
    ) -> DownloadProgress {
        match packet {
            Packet::OptionsAccepted(options) if asking == Asking::WithOptions => {
                self.on_options(now, from, options, out)
            }
            Packet::Data { block: 1, .. } => {
                self.state = State::Receiving(Transfer::plain(from));
                self.on_packet(now, packet, out)
            }
            Packet::Error { code, said } if is_of_options(code) => {
                // Asked plainly, this is an answer to an earlier request, or the same once more: the plain one may
                // still be answered. If it is not, this was the reason.
                self.refusal = Some(DownloadFailure::of_error(code, said));
                if asking == Asking::WithOptions {
                    self.state = State::Requested(Asking::Plainly);
                    self.tries = 0;
                    self.send_again(now, out);
                }
                DownloadProgress::Pending
            }
            Packet::Error { code, said } => self.fail(DownloadFailure::of_error(code, said)),
            // What is left of a transfer from before our start.
            Packet::OptionsAccepted(_) | Packet::Data { .. } | Packet::ForServers => {
                self.on_stranger(from, packet, out);
                DownloadProgress::Pending
            }
        }
    }

    fn on_options(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        options: Options<'_>,
        out: &mut DownloadOutput,
    ) -> DownloadProgress {
        match Transfer::with_options(from, options, &self.limits) {
            Ok(transfer) => {
                self.state = State::Receiving(transfer);
                self.tries = 0;
                self.send_again(now, out);
                DownloadProgress::Pending
            }
            Err(failure) => self.refuse(from, failure, out),
        }
    }

    /// A packet of the server we receive from.
    fn on_packet(&mut self, now: Instant, packet: Packet<'_>, out: &mut DownloadOutput) -> DownloadProgress {
        let State::Receiving(transfer) = &mut self.state else { return DownloadProgress::Pending };
        let (block, data) = match packet {
            Packet::Data { block, data } => (block, data),
            Packet::Error { code, said } => return self.fail(DownloadFailure::of_error(code, said)),
            Packet::OptionsAccepted(_) => {
                if transfer.is_at_start {
                    self.repeat_ack(now, out);
                }
                return DownloadProgress::Pending;
            }
            Packet::ForServers => return DownloadProgress::Pending,
        };
        let from = transfer.from;
        match transfer.on_block(block, data, &self.limits) {
            Ok(Block::Next) => {
                self.tries = 0;
                self.send_again(now, out);
                DownloadProgress::Pending
            }
            Ok(Block::Last(file)) => {
                self.tries = 0;
                self.send_again(now, out);
                self.linger(now);
                DownloadProgress::Finished(file)
            }
            Ok(Block::Again) => {
                self.repeat_ack(now, out);
                DownloadProgress::Pending
            }
            Ok(Block::Old) => DownloadProgress::Pending,
            Err(failure) => self.refuse(from, failure, out),
        }
    }

    /// Answers a packet that came twice, for a server that did not get our acknowledgement. What comes right after that
    /// went out crossed it: to acknowledge it too would make a simple server send every block from here on twice (the
    /// "sorcerer's apprentice", RFC 1123 §4.2.3.1).
    fn repeat_ack(&mut self, now: Instant, out: &mut DownloadOutput) {
        if now.since(self.sent_at) >= CROSSING {
            self.write(out);
            self.sent_at = now;
        }
    }

    /// Sends what waits for an answer, and waits longer each time.
    fn send_again(&mut self, now: Instant, out: &mut DownloadOutput) {
        self.write(out);
        self.tries = self.tries.saturating_add(1);
        self.sent_at = now;
        self.wake_at = now + self.limits.wait(self.tries);
    }

    /// Writes the packet that waits for an answer.
    fn write(&self, out: &mut DownloadOutput) {
        match &self.state {
            State::Requested(asking) => {
                let block_bytes = match asking {
                    Asking::WithOptions => Some(BLOCK_BYTES),
                    Asking::Plainly => None,
                };
                out.to = Some(self.server);
                packet::write_request(&mut out.bytes, &self.file, block_bytes);
            }
            State::Receiving(transfer) | State::Lingering(transfer) => {
                out.to = Some(transfer.from);
                packet::write_ack(&mut out.bytes, transfer.last);
            }
            State::Over => {}
        }
    }

    /// Tells somebody whom we do not talk with so, except about an error: that would be answered by another one.
    fn on_stranger(&mut self, from: SocketAddrV4, packet: Packet<'_>, out: &mut DownloadOutput) {
        if !matches!(packet, Packet::Error { .. }) && self.strangers < STRANGERS_MAX && from.port() != 0 {
            self.strangers += 1;
            out.error(from, packet::UNKNOWN_TRANSFER, "nobody here talks with this port");
        }
    }

    fn linger(&mut self, now: Instant) {
        let State::Receiving(transfer) = core::mem::replace(&mut self.state, State::Over) else { return };
        self.state = State::Lingering(transfer);
        self.wake_at = now + self.limits.linger;
    }

    /// Ends it, and tells the server why.
    fn refuse(
        &mut self,
        to: SocketAddrV4,
        failure: DownloadFailure,
        out: &mut DownloadOutput,
    ) -> DownloadProgress {
        let (code, text) = match &failure {
            DownloadFailure::TooLarge { .. } => {
                (packet::DISK_FULL, "the file is too large for this receiver")
            }
            DownloadFailure::WrongOption { .. } => (packet::OPTIONS_REFUSED, "this option was not asked for"),
            DownloadFailure::WrongBlock { .. } => (packet::ILLEGAL_OPERATION, "it is another block's turn"),
            DownloadFailure::BlockTooLong { .. } => (packet::ILLEGAL_OPERATION, "longer than agreed on"),
            DownloadFailure::WrongSize { .. } => (packet::NOT_DEFINED, "not as large as tsize said"),
            DownloadFailure::Silent { .. }
            | DownloadFailure::TooSlow { .. }
            | DownloadFailure::UnusableName
            | DownloadFailure::NotFound { .. }
            | DownloadFailure::Refused { .. }
            | DownloadFailure::NoAnswer { .. }
            | DownloadFailure::UnknownTransfer => (packet::NOT_DEFINED, "the receiver gives up"),
        };
        out.error(to, code, text);
        self.fail(failure)
    }

    /// Ends it for lack of answers. The server may still be sending: it is told.
    fn give_up(&mut self, failure: DownloadFailure, out: &mut DownloadOutput) -> DownloadProgress {
        match &self.state {
            State::Receiving(transfer) => {
                let to = transfer.from;
                self.refuse(to, failure, out)
            }
            State::Requested(_) | State::Lingering(_) | State::Over => self.fail(failure),
        }
    }

    fn fail(&mut self, failure: DownloadFailure) -> DownloadProgress {
        self.state = State::Over;
        DownloadProgress::Failed(self.error(failure))
    }

    fn error(&self, failure: DownloadFailure) -> DownloadError {
        DownloadError { file: self.file.clone(), server: self.server, failure }
    }
}

/// True for an error that a server gives which does not understand options (RFC 2347 §2) or never heard of them.
fn is_of_options(code: u16) -> bool {
    matches!(code, packet::OPTIONS_REFUSED | packet::ILLEGAL_OPERATION)
}

/// With its options a request has then at most 291 bytes; RFC 2347 §2 allows 512.
const NAME_BYTES_MAX: usize = 255;
/// Strangers that are answered: nobody makes us send without end.
const STRANGERS_MAX: u32 = 32;
/// What comes twice within this time crossed our answer; servers wait longer before they repeat.
const CROSSING: Duration = Duration::from_millis(100);
