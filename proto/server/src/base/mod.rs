//! Base of all components: the environment, requests and their permission, owners of transactions, local responses, the host.
//!
//! Imports configuration, reports and tables, and nothing that handles messages.

mod action;
mod date;
mod ended;
mod env;
mod forwards;
mod grant;
mod host;
mod keys;
mod owner;
mod refused;
mod reply;
mod request;

pub use action::Action;
pub(crate) use date::DateText;
pub(crate) use ended::EndedInvites;
pub(crate) use env::{Env, Environment, Storage};
pub(crate) use forwards::ForwardTable;
pub(crate) use grant::{EdgePart, Grant, Reach, Sender, TrunkTarget};
pub(crate) use host::observe;
pub use host::{Host, NameForm, NodeNameStatus, StoreFailed, StoreStatus};
pub(crate) use keys::{GruuKeys, Keys, derive};
pub(crate) use owner::{BranchId, Owner, ProbeId, Transactions};
pub(crate) use refused::RefusedInDialog;
pub use reply::store_failed_reply;
pub(crate) use reply::{write_allow, write_q, write_reply, write_unfolded};
pub(crate) use request::{Request, Response};
