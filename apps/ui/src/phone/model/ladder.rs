//! The SIP messages that were sent and received.

use super::Limits;
use crate::keys::Key;
use crate::phone::Now;
use crate::text::Shown;
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_phone::{MessageDirection, SipMessage};
use ringway_sip::HeaderName;

const TITLE_CHARS_MAX: usize = 160;
/// A line of a message that is longer is cut.
const LINE_CHARS_MAX: usize = 2048;
const PAGE: usize = 10;
const METHOD_CHARS_MAX: usize = 20;
/// Text before a key (RFC 4568 §6.1).
const INLINE: &[u8] = b"inline:";

/// One message of the ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub(crate) at: Now,
    pub(crate) direction: MessageDirection,
    pub(crate) transport: &'static str,
    pub(crate) peer: SocketAddr,
    /// `INVITE sip:bob@example.org`, `200 OK (INVITE)`.
    pub(crate) title: Shown,
    call_id: Vec<u8>,
    bytes: Vec<u8>,
}

/// Display of the SRTP keys in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Hidden,
    Shown,
}

/// The ladder, and the position in it.
#[derive(Clone, Debug)]
pub(crate) struct Ladder {
    limits: Limits,
    rungs: VecDeque<Rung>,
    bytes: usize,
    /// Messages that were dropped.
    pub(crate) dropped: u64,
    /// Index of the chosen one among the visible ones.
    pub(crate) selected: usize,
    /// Only messages with this Call-ID are visible.
    only: Option<Vec<u8>>,
    /// The chosen message is open, from this line on.
    pub(crate) open: Option<usize>,
    pub(crate) keys: Keys,
}

impl Ladder {
    pub(super) const fn new(limits: Limits) -> Self {
        Self {
            limits,
            rungs: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            selected: 0,
            only: None,
            open: None,
            keys: Keys::Hidden,
        }
    }

    pub(super) fn push(&mut self, now: Now, seen: SipMessage) {
        let was_at_end = self.selected + 1 >= self.len() && self.open.is_none();
        let call_id = ringway_sip::peek_header(&seen.bytes, HeaderName::CallId).unwrap_or_default().to_vec();
        self.bytes += seen.bytes.len();
        self.rungs.push_back(Rung {
            at: now,
            direction: seen.direction,
            transport: seen.transport.name(),
            peer: seen.peer,
            title: title(&seen.bytes),
            call_id,
            bytes: seen.bytes,
        });
        let Limits { messages, message_bytes, .. } = self.limits;
        while self.rungs.len() > messages || self.bytes > message_bytes && self.rungs.len() > 1 {
            self.drop_oldest();
        }
        if was_at_end {
            self.selected = self.len().saturating_sub(1);
        }
    }

    /// Handles a key; false if it has no function here.
    pub(super) fn press(&mut self, key: Key) -> bool {
        if let Some(top) = self.open {
            return self.press_in_message(key, top);
        }
        let last = self.len().saturating_sub(1);
        match key {
            Key::Up => self.selected = self.selected.saturating_sub(1),
            Key::Down => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            Key::PageDown => self.selected = (self.selected + PAGE).min(last),
            Key::Home => self.selected = 0,
            Key::End => self.selected = last,
            Key::Enter if self.selected().is_some() => self.open = Some(0),
            Key::Char('f') => self.toggle_filter(),
            _ => return false,
        }
        true
    }

    fn press_in_message(&mut self, key: Key, top: usize) -> bool {
        let last = self.selected().map_or(0, |rung| rung.lines(self.keys).len().saturating_sub(1));
        let top = match key {
            Key::Escape | Key::Enter | Key::Char('q') => {
                self.open = None;
                return true;
            }
            Key::Up => top.saturating_sub(1),
            Key::Down => top + 1,
            Key::PageUp => top.saturating_sub(PAGE),
            Key::PageDown => top + PAGE,
            Key::Home => 0,
            Key::End => last,
            Key::Char('k') => {
                self.keys = match self.keys {
                    Keys::Hidden => Keys::Shown,
                    Keys::Shown => Keys::Hidden,
                };
                top
            }
            _ => return false,
        };
        self.open = Some(top.min(last));
        true
    }

    fn toggle_filter(&mut self) {
        let chosen = self.selected().cloned();
        self.only = match (&self.only, &chosen) {
            (None, Some(rung)) => Some(rung.call_id.clone()),
            (Some(_), _) | (None, None) => None,
        };
        // The chosen message stays chosen.
        let place = self.visible().position(|rung| Some(rung) == chosen.as_ref());
        self.selected = place.unwrap_or(0);
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.rungs.pop_front() else { return };
        self.bytes -= oldest.bytes.len();
        self.dropped += 1;
        if self.only.as_ref().is_none_or(|only| *only == oldest.call_id) {
            self.selected = self.selected.saturating_sub(1);
        }
    }

    /// The messages that are shown, the oldest first.
    pub(crate) fn visible(&self) -> impl Iterator<Item = &Rung> {
        self.rungs.iter().filter(|rung| self.only.as_ref().is_none_or(|only| *only == rung.call_id))
    }

    pub(crate) fn len(&self) -> usize {
        self.visible().count()
    }

    pub(crate) fn selected(&self) -> Option<&Rung> {
        self.visible().nth(self.selected)
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.only.is_some()
    }
}

impl Rung {
    /// The lines of the message, made safe to show.
    pub(crate) fn lines(&self, keys: Keys) -> Vec<Shown> {
        let lines = self.bytes.split(|byte| *byte == b'\n');
        lines
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .map(|line| match keys {
                Keys::Shown => Shown::from_bytes(line, LINE_CHARS_MAX),
                Keys::Hidden => Shown::from_bytes(&without_key(line), LINE_CHARS_MAX),
            })
            .collect()
    }
}

/// The line without the master keys of `a=crypto` (RFC 4568 §9.1): anybody with a picture of the screen could listen.
fn without_key(line: &[u8]) -> Vec<u8> {
    let mut hidden = Vec::with_capacity(line.len());
    let mut rest = line;
    loop {
        let found = rest.windows(INLINE.len()).position(|window| window.eq_ignore_ascii_case(INLINE));
        let Some((before, after)) = found.and_then(|at| rest.split_at_checked(at + INLINE.len())) else {
            break;
        };
        hidden.extend_from_slice(before);
        hidden.extend_from_slice(b"(hidden, k shows it)");
        let key = after.iter().position(|byte| b"|; \t".contains(byte)).unwrap_or(after.len());
        rest = after.get(key..).unwrap_or_default();
    }
    hidden.extend_from_slice(rest);
    hidden
}

/// A message in a few words.
fn title(bytes: &[u8]) -> Shown {
    let first = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    if first.is_empty() {
        return Shown::new("(keep-alive)", TITLE_CHARS_MAX);
    }
    let first = Shown::from_bytes(first, TITLE_CHARS_MAX);
    let text = match first.as_str().strip_prefix("SIP/2.0 ") {
        Some(status) => {
            let cseq = ringway_sip::peek_header(bytes, HeaderName::CSeq).unwrap_or_default();
            let method = cseq.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            format!("{status} ({})", Shown::from_bytes(method, METHOD_CHARS_MAX))
        }
        None => first.as_str().strip_suffix(" SIP/2.0").unwrap_or(first.as_str()).to_owned(),
    };
    Shown::new(&text, TITLE_CHARS_MAX)
}
