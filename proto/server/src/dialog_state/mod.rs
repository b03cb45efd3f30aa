//! Lamps: calls of watched users, from what the server forwards statefully, for `dialog` documents of users whose phones publish none.
//!
//! Start reading at [`LampTable`].

mod steps;

pub(crate) use steps::{
    Answer, Ended, LitCall, begin, end_callee, end_dialog, end_unanswered, on_answer, on_ringing, refresh,
};
