//! SIP load generator without I/O.
//!
//! Does: starts attempts at planned times that no response delays, or as many as keep a window full ([`Arrivals`]), runs each through a
//! [`Scenario`] of sent and received messages, with actions and jumps ([`Script`]), with transactions, digest and timers as RFC 3261 has
//! them, and reports the result and the times of each ([`Report`]). A [`Generator`] is the caller or the callee. Sends, receives and rates
//! the RTP or SRTP of the calls ([`MediaStreams`]), or plays recorded packets ([`Recording`]).
//!
//! Does not: open sockets, read clocks or files, collect statistics, or judge a server.
//!
//! Start reading at [`Generator`] and [`MediaStreams`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod arrivals;
mod attempt;
mod authentication;
mod classic;
mod fields;
mod generator;
mod kept;
mod media;
mod outcome;
mod recording;
mod scenario;
mod script;
mod session;
mod template;
mod users;

pub use arrivals::Length;
pub use arrivals::{Arrivals, Spacing};
pub use attempt::Report;
pub use classic::{Classic, ClassicError};
pub use fields::{FieldList, FieldNumbers, FieldOrder};
pub use generator::{Action, Counters, Generator};
pub use media::{MediaCounters, MediaStreams, StreamReport};
pub use outcome::Outcome;
pub use recording::{Recording, RecordingError};
pub use ringway_sdp::{CryptoSuite, Protection};
pub use scenario::{Receive, Received, Scenario, ScenarioError, Send, Step};
pub use script::{
    Check, Comparison, HeaderPlace, Jump, Operand, Operator, Pattern, Place, Script, ScriptAction, Search,
    Variable,
};
pub use session::{MediaEvent, MediaPlay, MediaRefusal, MediaStart, MediaUse};
pub use template::{Keyword, Template, TemplateError, Text};
pub use users::{Config, ConnectionUse};
pub use users::{User, Users, UsersError};

#[cfg(test)]
mod connections_tests;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod window_tests;
