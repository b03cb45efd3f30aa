//! The agent: a server on a second machine, with its CPU time, memory and profile, over an authenticated connection.
//!
//! ```text
//!  campaign: AgentAccess ─► Remote ── Connection: Sealer, Opener ──► Agent ─► Session ─► Program::start
//! ```
//! Does: starts the programs of its own list from the values of a variant, watches running servers of its list ([`list`]), reads their
//! counters, samples them; makes certificates of servers with TLS.
//!
//! Does not: take programs, paths, texts or commands from the network, or send private keys; measure delays; encrypt.
//!
//! Start reading at [`Agent`] for the machine of the server, at [`AgentAccess`] for the campaign.

mod connection;
mod frame;
mod key;
pub mod list;
mod listener;
mod message;
mod remote;
mod session;
#[cfg(test)]
mod tests;
mod tls_values;

pub use key::AgentKey;
pub use list::ProgramList;
pub use listener::{Agent, AgentCounts};
pub use message::Reading;
pub use remote::{AgentAccess, Remote, RemoteServer};
pub use session::AgentSettings;
pub use tls_values::RemoteTls;
