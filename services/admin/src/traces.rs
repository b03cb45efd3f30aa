//! The interface between the admin API and the traces of users.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Traces of users. Called from the admin thread; it should lock briefly.
pub trait Traces: Send + Sync {
    /// Entries after number `after` of the trace of a user, at most `max` of them; `None`: no entries, only the number of the last one.
    /// Begins a trace that does not run.
    ///
    /// # Errors
    /// The trace cannot be begun.
    fn read(&self, user: &str, after: Option<u64>, max: usize) -> Result<TracePage, TraceRefusal>;

    /// Notes that a reader of a user's trace has ended: unless another one reads it, the trace gives way to a new one.
    fn leave(&self, user: &str);
}

/// Entries of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The entries, oldest first.
    pub entries: Vec<TraceEntry>,
    /// Number of the last entry, for the next poll.
    pub next: u64,
    /// Number of entries in between that were lost.
    pub lost: u64,
}

/// Message or decision. All text comes from the network and can have any value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEntry {
    /// Its number in the trace, from 1.
    pub n: u64,
    /// Time as RFC 3339 with milliseconds.
    pub time: String,
    /// `received`, `sent` or `decision`.
    pub kind: Cow<'static, str>,
    /// Flow of a message, as `udp:192.0.2.1:5060`; empty for a decision.
    pub flow: String,
    /// First line of a message; empty for a decision.
    pub first_line: String,
    /// Call-ID.
    pub call_id: String,
    /// CSeq, as `1 INVITE`.
    pub cseq: String,
    /// URI in the From of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// URI in the To of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// A decision for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Name of its reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
}

/// Reason why a trace is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceRefusal {
    /// The name is empty, too long, or has characters that no user name has.
    BadName,
    /// Too many traces run.
    TooMany,
}
