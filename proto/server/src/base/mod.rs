//! Base of all components: the environment, requests and their permission, owners of transactions, local responses.
//!
//! Imports configuration, reports and tables, and nothing that handles messages.

mod action;
mod env;
mod grant;
mod keys;
mod owner;
mod reply;
mod request;
mod services;

pub use action::Action;
pub(crate) use env::{Env, Environment, Storage};
pub(crate) use grant::{EdgePart, Grant, Reach, Sender, TrunkTarget};
pub(crate) use keys::{GruuKeys, Keys, derive};
pub(crate) use owner::{BranchId, Owner, ProbeId, Transactions};
pub use reply::store_failed_reply;
pub(crate) use reply::{write_allow, write_q, write_reply, write_unfolded};
pub(crate) use request::Request;
pub use services::{Services, StoreFailed};
