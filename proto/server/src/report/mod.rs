//! Facts that the server reports: log events, steps of calls, decisions, counters.
//!
//! Start reading at [`Report`], which has the facts about requests.

mod call_name;
mod call_record;
mod counters;
mod decision;
mod fact;
mod log_event;

pub use call_name::CallName;
pub(crate) use call_name::{NameHash, Pass};
pub use call_record::{
    CallCounters, CallEnd, CallLimits, CallNames, CallRecord, CallTable, CallTexts, OngoingCall,
};
pub use counters::Counters;
pub use decision::{Decision, Detail, DiversionReason, Reason};
pub(crate) use fact::{CallerKind, DestinationRefusal, MessageLimit, Parts, Report, reason_of};
pub use log_event::{
    BindingChange, BindingEnd, CallEvent, CallSender, CallStep, LogEvent, LoginRefusal, MessageDrop,
    NeighbourDown, NeighbourKind,
};
