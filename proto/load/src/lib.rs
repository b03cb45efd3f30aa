//! SIP load generator without I/O.
//!
//! Does: starts attempts at planned times that no response delays ([`Arrivals`]), runs each through a [`Scenario`] of sent and
//! received messages with transactions, digest and timers as RFC 3261 has them, and reports the result and the times of
//! each ([`Report`]). A [`Generator`] is the caller or the callee.
//!
//! Does not: open sockets, read clocks or files, collect statistics, or judge a server.
//!
//! Start reading at [`Generator`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrivals;
mod attempt;
mod authentication;
mod classic;
mod config;
mod generator;
mod kept;
mod length;
mod report;
mod scenario;
mod template;
mod users;

pub use arrivals::{Arrivals, Spacing};
pub use classic::{Classic, ClassicError};
pub use config::{Config, ConnectionUse};
pub use generator::{Action, Counters, Generator};
pub use length::Length;
pub use report::{Outcome, Report};
pub use scenario::{Receive, Received, Scenario, ScenarioError, Send, Step};
pub use template::{Keyword, Template, TemplateError};
pub use users::{User, Users, UsersError};
