//! Lamps: calls of watched users, from what the server forwards statefully, for `dialog` documents of users whose phones publish none.
//!
//! Start reading at [`LampTable`].

mod filter;
mod steps;
mod table;

pub use filter::LampFilter;
pub(crate) use steps::{
    Answer, Ended, LitCall, begin, end_callee, end_dialog, end_unanswered, on_answer, on_ringing, refresh,
};
pub use table::{LampState, LampStatus, LampTable, NewLeg, NotLit, Role, ShownCall};
