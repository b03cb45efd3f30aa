//! Block lists: callers and source networks that may not call, of all users and of each.

mod caller;
mod list;
mod pattern;

pub use caller::Caller;
pub use list::BlockList;
pub use pattern::{BlockPattern, CallerPattern, NotAPattern};
