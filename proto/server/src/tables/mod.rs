//! Tables in memory that all shards share; the driver has their locks.

mod block;
mod budget;
mod dialog_states;
mod failed_servers;
mod neighbours;
mod owned;
mod phone_flows;
mod rate;
mod shared;
mod sides;
mod trunk_calls;
mod trunks;

pub use block::{BlockList, BlockPattern, Caller, CallerPattern, NotAPattern};
pub use budget::{MemoryBudget, Payer};
pub use dialog_states::{
    DialogState, DialogStateFilter, DialogStates, DialogStatus, NewLeg, NotShown, Role, ShownCall,
};
pub use failed_servers::FailedServers;
pub(crate) use failed_servers::{PAUSE_MAX, paused_until, put_last, retry_after};
pub use neighbours::{CALLS_MAX, NeighbourRoute, NeighbourTable};
pub(crate) use neighbours::{CallRequest, CallResult};
pub(crate) use owned::EntryOwner;
pub(crate) use phone_flows::{PhoneHash, side_of};
pub use rate::{LocateLimits, LocateRefusal, SourceRates, Traffic, TrafficRates};
pub use shared::{SharedTables, TableLimits};
use sides::DialogExtensions;
pub use sides::SideTable;
pub(crate) use sides::{DialogSide, Moved, Way};
pub(crate) use trunk_calls::{CountedCall, TrunkCalls};
pub(crate) use trunks::{Learnt, ServiceRoute, ServiceRoutes};
pub use trunks::{PausedTrunks, TrunkEvent, TrunkLogins, TrunkPause};
