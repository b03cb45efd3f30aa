//! Base of all components: the environment, requests and their permission, owners of transactions, local responses, the host.
//!
//! Imports configuration, reports and tables, and nothing that handles messages.

mod date;
mod decision;
mod ended;
mod env;
mod grant;
mod host;
mod keys;
mod lines;
mod reply;
mod request;
mod steps;

pub(crate) use date::DateText;
pub(crate) use decision::{MediaPlan, StageDecision};
pub(crate) use ended::{EndedInvites, RefusedInDialog};
pub(crate) use env::{Env, Environment, InputState, Storage};
pub(crate) use grant::{EdgePart, Grant, Reach, Sender, TrunkTarget, Verstat};
pub(crate) use host::observe;
pub use host::{Action, Host, NameForm, NodeNameStatus, StoreFailed, StoreStatus};
pub(crate) use keys::{GruuKeys, Keys, derive};
pub(crate) use lines::Lines;
pub use reply::store_failed_reply;
pub(crate) use reply::{write_allow, write_q, write_reply, write_unfolded};
pub(crate) use request::{BranchId, Owner, ProbeId, RegistrationId, Request, Response, Transactions};
pub(crate) use steps::Steps;
pub use steps::{Step, StepClass, StepSum, StepTable};
