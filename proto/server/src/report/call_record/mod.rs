//! Calls now and call records: what the steps of calls say, kept in a bounded table until each call has ended.
//!
//! Start reading at [`CallTable::on_step`].

mod name;
mod owners;
mod record;
mod table;

pub use name::CallNames;
pub use record::{CallEnd, CallRecord, CallTexts};
pub use table::{CallCounters, CallLimits, CallTable, OngoingCall};
