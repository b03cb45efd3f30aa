//! Download of one file from a TFTP server.
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
//! Packets from other senders are answered with error 5 and change nothing (RFC 1350 §4).

use super::error::{DownloadError, DownloadFailure};
use super::packet::{self, Options, Packet};
use super::transfer::{BLOCK_BYTES, Block, DownloadLimits, Transfer};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use core::time::Duration;
use ringway_sansio::{Deadline, Instant};

/// Download of one file.
///
/// It needs its own port, chosen at random (RFC 1350 §4), until [`next_deadline`](Self::next_deadline) returns `None`.
#[derive(Debug)]
pub struct Download {
    file: String,
    server: SocketAddrV4,
    limits: DownloadLimits,
    state: State,
    /// Time of the next retransmission, or of the end of lingering.
    wake_at: Instant,
    /// Time limit of the download.
    end_at: Instant,
    /// Number of transmissions of the unanswered packet.
    tries: u32,
    /// Time of its last transmission.
    sent_at: Instant,
    /// The error with which the server refused a request with options.
    refusal: Option<DownloadFailure>,
    /// Number of other senders that were answered.
    other_senders: u32,
}

/// State of a download.
#[derive(Debug)]
enum State {
    /// Waits for the server's first packet.
    Requested(RequestForm),
    /// Waits for the next block.
    Receiving(Transfer),
    /// Repeats the last acknowledgement if the server retransmits.
    Lingering(Transfer),
    Over,
}

/// Form of the read request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestForm {
    WithOptions,
    /// RFC 1350 only, after the server refused options.
    Plain,
}

/// Result of an input.
#[derive(Debug, PartialEq, Eq)]
pub enum DownloadProgress {
    /// The download continues, or its result was returned before.
    Pending,
    /// The complete file; returned once. Acknowledgements may be repeated for some seconds.
    Finished(Vec<u8>),
    /// The download failed; returned once.
    Failed(DownloadError),
}

/// Output of a download: at most one datagram for each input, of at most 516 bytes.
#[derive(Clone, Debug, Default)]
pub struct DownloadOutput {
    to: Option<SocketAddrV4>,
    bytes: Vec<u8>,
}

impl DownloadOutput {
    /// Destination and payload. Every input overwrites them.
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
    /// Creates a download of `file` from `server`. The first request is sent by [`on_timeout`](Self::on_timeout), which
    /// is due at once.
    ///
    /// # Errors
    /// The file name is empty, longer than 255 bytes, or has control characters.
    pub fn new(
        server: SocketAddrV4,
        file: &str,
        limits: DownloadLimits,
        now: Instant,
    ) -> Result<Self, DownloadError> {
        let download = Self {
            file: file.to_owned(),
            server,
            state: State::Requested(RequestForm::WithOptions),
            wake_at: now,
            end_at: now + limits.duration_max,
            tries: 0,
            sent_at: now,
            refusal: None,
            other_senders: 0,
            limits,
        };
        if file.is_empty() || file.len() > NAME_BYTES_MAX || file.chars().any(char::is_control) {
            return Err(download.error(DownloadFailure::UnusableName));
        }
        Ok(download)
    }

    /// Processes a datagram that arrived at the download's port.
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
            State::Requested(form) => {
                let form = *form;
                // Before the first request no packet can be an answer.
                if *from.ip() != *self.server.ip() || self.tries == 0 {
                    self.on_other_sender(from, packet, out);
                    return DownloadProgress::Pending;
                }
                self.on_answer(now, form, from, packet, out)
            }
            State::Receiving(transfer) if transfer.from == from => self.on_packet(now, packet, out),
            State::Lingering(transfer) if transfer.from == from => {
                if matches!(packet, Packet::Data { block, .. } if block == transfer.last) {
                    self.repeat_ack(now, out);
                }
                DownloadProgress::Pending
            }
            State::Receiving(_) | State::Lingering(_) => {
                self.on_other_sender(from, packet, out);
                DownloadProgress::Pending
            }
            State::Over => DownloadProgress::Pending,
        }
    }

    /// Runs a due timer. Does nothing before [`next_deadline`](Self::next_deadline).
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

    /// Time of the next [`on_timeout`](Self::on_timeout); `None`: the download is over and its port can be closed.
    pub fn next_deadline(&self) -> Option<Deadline> {
        let (at, reason) = match &self.state {
            State::Requested(_) => (self.wake_at.min(self.end_at), "TFTP: send the request"),
            State::Receiving(_) => (self.wake_at.min(self.end_at), "TFTP: repeat the acknowledgement"),
            State::Lingering(_) => (self.wake_at, "TFTP: stop lingering"),
            State::Over => return None,
        };
        Some(Deadline { at, reason })
    }

    /// Bytes received, and the file's size if the server announced it.
    pub fn received(&self) -> (usize, Option<usize>) {
        match &self.state {
            State::Receiving(transfer) => (transfer.received(), transfer.size()),
            State::Requested(_) | State::Lingering(_) | State::Over => (0, None),
        }
    }

    /// Processes the first packet from the server's address. Its port becomes the server's transfer identifier.
    fn on_answer(
        &mut self,
        now: Instant,
        form: RequestForm,
        from: SocketAddrV4,
        packet: Packet<'_>,
        out: &mut DownloadOutput,
    ) -> DownloadProgress {
        match packet {
            Packet::OptionsAccepted(options) if form == RequestForm::WithOptions => {
                self.on_options(now, from, options, out)
            }
            Packet::Data { block: 1, .. } => {
                self.state = State::Receiving(Transfer::plain(from));
                self.on_packet(now, packet, out)
            }
            Packet::Error { code, text } if refuses_options(code) => {
                // For a plain request this is the answer to an earlier request, or a duplicate: the plain one may still
                // succeed. If it does not, this is the cause.
                self.refusal = Some(DownloadFailure::of_error(code, text));
                if form == RequestForm::WithOptions {
                    self.state = State::Requested(RequestForm::Plain);
                    self.tries = 0;
                    self.send_again(now, out);
                }
                DownloadProgress::Pending
            }
            Packet::Error { code, text } => self.fail(DownloadFailure::of_error(code, text)),
            // Packet of an earlier transfer.
            Packet::OptionsAccepted(_) | Packet::Data { .. } | Packet::ForServers => {
                self.on_other_sender(from, packet, out);
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

    /// Processes a packet of the transfer.
    fn on_packet(&mut self, now: Instant, packet: Packet<'_>, out: &mut DownloadOutput) -> DownloadProgress {
        let State::Receiving(transfer) = &mut self.state else { return DownloadProgress::Pending };
        let (block, data) = match packet {
            Packet::Data { block, data } => (block, data),
            Packet::Error { code, text } => return self.fail(DownloadFailure::of_error(code, text)),
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

    /// Acknowledges a retransmitted packet again. A duplicate right after our acknowledgement crossed it on the
    /// network; to acknowledge it too would make a simple server send every following block twice ("sorcerer's
    /// apprentice", RFC 1123 §4.2.3.1).
    fn repeat_ack(&mut self, now: Instant, out: &mut DownloadOutput) {
        if now.since(self.sent_at) >= CROSSING {
            self.write(out);
            self.sent_at = now;
        }
    }

    /// Transmits the unanswered packet and sets the next retransmission.
    fn send_again(&mut self, now: Instant, out: &mut DownloadOutput) {
        self.write(out);
        self.tries = self.tries.saturating_add(1);
        self.sent_at = now;
        self.wake_at = now + self.limits.wait(self.tries);
    }

    /// Writes the unanswered packet.
    fn write(&self, out: &mut DownloadOutput) {
        match &self.state {
            State::Requested(form) => {
                let block_bytes = match form {
                    RequestForm::WithOptions => Some(BLOCK_BYTES),
                    RequestForm::Plain => None,
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

    /// Answers a packet of another sender with error 5; errors are not answered.
    fn on_other_sender(&mut self, from: SocketAddrV4, packet: Packet<'_>, out: &mut DownloadOutput) {
        if !matches!(packet, Packet::Error { .. })
            && self.other_senders < OTHER_SENDERS_MAX
            && from.port() != 0
        {
            self.other_senders += 1;
            out.error(from, packet::UNKNOWN_TRANSFER, "unknown transfer ID");
        }
    }

    fn linger(&mut self, now: Instant) {
        let State::Receiving(transfer) = core::mem::replace(&mut self.state, State::Over) else { return };
        self.state = State::Lingering(transfer);
        self.wake_at = now + self.limits.linger;
    }

    /// Fails the download and sends an ERROR to the server.
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
            DownloadFailure::WrongOption { .. } => (packet::OPTIONS_REFUSED, "option was not requested"),
            DownloadFailure::WrongBlock { .. } => (packet::ILLEGAL_OPERATION, "unexpected block number"),
            DownloadFailure::BlockTooLong { .. } => {
                (packet::ILLEGAL_OPERATION, "longer than the agreed block size")
            }
            DownloadFailure::WrongSize { .. } => (packet::NOT_DEFINED, "size differs from tsize"),
            DownloadFailure::Silent { .. }
            | DownloadFailure::TooSlow { .. }
            | DownloadFailure::UnusableName
            | DownloadFailure::NotFound { .. }
            | DownloadFailure::Refused { .. }
            | DownloadFailure::NoAnswer { .. }
            | DownloadFailure::UnknownTransfer => (packet::NOT_DEFINED, "transfer aborted by the receiver"),
        };
        out.error(to, code, text);
        self.fail(failure)
    }

    /// Fails the download for lack of answers. A server that is still sending gets an ERROR.
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

/// True for the error codes of a server that refuses options (RFC 2347 §2) or does not support them.
fn refuses_options(code: u16) -> bool {
    matches!(code, packet::OPTIONS_REFUSED | packet::ILLEGAL_OPERATION)
}

/// A request with options then has at most 291 bytes; RFC 2347 §2 allows 512.
const NAME_BYTES_MAX: usize = 255;
/// Maximum number of error packets to other senders.
const OTHER_SENDERS_MAX: u32 = 32;
/// A duplicate within this time crossed our acknowledgement; servers have a longer timeout.
const CROSSING: Duration = Duration::from_millis(100);
