//! Sides of a dialog (docs/decisions/0053): what a mark proves, who may reach whom, and how a side moves.
//!
//! Start reading at [`current()`], which has the table of cases.

pub(crate) mod cseq;
mod current;
pub(crate) mod edge;
pub(crate) mod gruu;
mod live_mark;
mod moves;
mod remote_target;
pub(crate) mod route;
mod users;

pub(crate) use current::{Known, current};
pub(crate) use live_mark::{DialogMark, LiveMark, live_mark};
pub(crate) use moves::on_success;
pub(crate) use remote_target::{
    caller_side, calls_for_us, contact_of, is_credible, is_public, needs_listener, record, target_hash_on,
};
pub(crate) use users::{owner_of_sender, user_of_side};
