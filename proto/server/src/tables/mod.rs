//! Tables in memory that all shards share; the driver has their locks.

mod block;
mod budget;
mod dialogs;
mod failed_servers;
mod lamp_filter;
mod lamps;
mod locate_limits;
mod neighbour_calls;
mod neighbours;
mod owned;
mod phone_flows;
mod rate;
mod shared;
mod sides;
mod trunk_logins;
mod trunks;

pub use block::{BlockList, BlockPattern, Caller, CallerPattern, NotAPattern};
pub use budget::{MemoryBudget, Payer};
use dialogs::DialogExtensions;
pub use failed_servers::FailedServers;
pub(crate) use failed_servers::{PAUSE_MAX, paused_until, put_last, retry_after};
pub use lamp_filter::LampFilter;
pub use lamps::{LampState, LampStatus, LampTable, NewLeg, NotLit, Role, ShownCall};
pub use locate_limits::{LocateLimits, LocateRefusal};
pub use neighbour_calls::CALLS_MAX;
pub(crate) use neighbour_calls::{CallRequest, CallResult};
pub use neighbours::{NeighbourRoute, NeighbourTable};
pub(crate) use owned::EntryOwner;
pub(crate) use phone_flows::{PhoneHash, side_of};
pub use rate::{SourceRates, Traffic, TrafficRates};
pub use shared::{SharedTables, TableLimits};
pub use sides::SideTable;
pub(crate) use sides::{DialogSide, Moved, Way};
pub(crate) use trunk_logins::Learnt;
pub use trunk_logins::TrunkLogins;
pub use trunks::{PausedTrunks, TrunkEvent, TrunkPause};
