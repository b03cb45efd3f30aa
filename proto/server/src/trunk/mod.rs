//! Trunks: gateways and carriers that routes lead to.

mod config;
mod cseq;
mod logins;
mod state;

pub use config::{CallerNumber, CallerPrivacy, Trunk, TrunkLogin, Trunking};
pub(crate) use cseq::{RepeatedInvites, TrunkNumbers, at_trunk, restore_event, split_rack};
pub(crate) use logins::Learnt;
pub use logins::TrunkLogins;
pub use state::{PausedTrunks, TrunkEvent, TrunkPause};
