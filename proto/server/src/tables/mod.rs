//! Tables in memory that all shards share; the driver has their locks.

mod block;
mod budget;
mod call_counts;
mod dialog_states;
mod failed_servers;
mod neighbours;
mod owned;
mod phone_flows;
mod rate;
mod shared;
mod sides;
mod throttles;
mod trunks;

pub use block::{BlockList, BlockPattern, Caller, CallerPattern, NotAPattern};
pub use budget::{MemoryBudget, Payer};
pub(crate) use call_counts::{Account, CallCounts, CountedCall, Limited, NotCounted, ReachedLimit};
pub use dialog_states::{
    DialogState, DialogStateFilter, DialogStates, DialogStatus, NewLeg, NotShown, Role, ShownCall,
};
pub use failed_servers::FailedServers;
pub(crate) use failed_servers::{PAUSE_MAX, paused_until, put_last};
pub use neighbours::{CALLS_MAX, NeighbourRoute, NeighbourTable};
pub(crate) use neighbours::{CallRequest, CallResult};
pub(crate) use owned::{EntryOwner, Lifetime};
pub(crate) use phone_flows::{PhoneHash, side_of};
pub(crate) use rate::CommonRate;
pub use rate::{LocateLimits, LocateRefusal, SourceRates, Traffic, TrafficRates};
pub use shared::{SharedTables, TableLimits};
pub(crate) use sides::DialogExtensions;
pub use sides::SideTable;
pub(crate) use sides::{DialogSide, Moved, Way};
pub(crate) use throttles::{RequestPriority, Throttles};
pub(crate) use trunks::{Learnt, ServiceRoute, ServiceRoutes};
pub use trunks::{PausedTrunks, TrunkEvent, TrunkLogins, TrunkPause};
