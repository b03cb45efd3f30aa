//! Registrar, proxy and redirect server as one protocol machine.
//!
//! Does: [`Server`], a [`Node`](ringway_sansio::Node) for one shard of the users: REGISTER by RFC 3261 §10.3, stateful and
//! stateless proxying by §16, redirecting by §8.3, digest authentication by RFC 7616 and 8760, the location table.
//!
//! Does not: open sockets, read clocks, resolve names or write files. Data that it needs at once comes from the tables that its shards share
//! ([`SharedTables`]) and from its [`Host`], which answers from memory; everything else is a requested [`Action`].
//!
//! Start reading at `server.rs`, then `server/dispatch.rs`, then the method.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod location;

mod base;
mod config;
mod dialog;
mod dialog_state;
mod message_store;
mod neighbour;
mod policy;
mod presence;
mod proxy;
mod registrar;
mod report;
mod server;
mod tables;
mod token;

pub use base::{Action, Host, NameForm, NodeNameStatus, StoreFailed, StoreStatus, store_failed_reply};
pub use base::{Step, StepClass, StepSum, StepTable};
pub use config::{Advertised, AdvertisedHost, Aor, Authenticated};
pub use config::{
    AuthConfig, CallerCheck, CallerLimits, CallerNumber, CallerPrivacy, CertificateHost, CertificateRules,
    Cluster, ClusterSecret, Config, Emergency, EmergencyNumber, EmergencySite, FieldName, HeaderRule, Hold,
    IdentityTemplate, InnerHost, LinkedNode, Links, Listener, MediaConfig, MediaInterface, Mode,
    NEIGHBOURS_MAX, Neighbour, NeighbourConnection, Network, NodeState, NotANetwork, OverloadConfig, Pattern,
    PresenceConfig, Realms, RegistrarConfig, RelayFailure, RelayRule, RuleAction, RuleDirection,
    RuleMessages, SrtpRule, StirConfig, Strangers, Trunk, TrunkIdentity, TrunkLimits, TrunkList, TrunkLogin,
    TrunkStir, Trunking, Watchers, is_private, is_value, node_domain,
};
pub use config::{
    BadPattern, BadRoute, CallRate, CallRates, Destination, DestinationRule, DestinationRules, Dialing,
    Number, NumberChange, NumberForm, PatternTable, Rate, RatePrefix, RateTable, Route, RouteMatch,
    RouteTable, RouteTo, WeightedTrunk, WeightedTrunks,
};
pub use location::{Registration, RegistrationRef};
pub use proxy::RingingCall;
pub use report::{
    BindingChange, BindingEnd, CallEvent, CallName, CallSender, CallStep, Counters, Decision, Detail,
    DiversionReason, LogEvent, LoginRefusal, MessageDrop, NeighbourDown, NeighbourKind, Reason,
};
pub use report::{
    CallCounters, CallEnd, CallLimits, CallNames, CallRecord, CallTable, CallTexts, OngoingCall,
};
pub use ringway_auth::stir::Signer as CallSigner;
pub use ringway_auth::{
    Algorithm, ChallengeLimits, DigestPolicy, GuessLimits, Login, LoginResult, NonceAge, NonceId, NonceMaker,
    NoncePolicy, NonceUse, ReplayWindows,
};
pub use ringway_location::NodeName;
pub use ringway_sip::digest::Ha1;
pub use ringway_transaction::SipFramer;
pub use ringway_users::{Condition, ForwardUri, Forwards, NoAnswer};
pub use server::Server;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub use server::{FILLED_TABLES, FilledTable, filled_trunks};
pub use server::{shard_of_aor, shard_of_user, table_sizes};
pub use tables::{
    BlockList, BlockPattern, CALLS_MAX, Caller, CallerPattern, DialogState, DialogStateFilter, DialogStates,
    DialogStatus, FailedServers, LocateLimits, LocateRefusal, MemoryBudget, NeighbourRoute, NeighbourTable,
    NewLeg, NotAPattern, NotShown, PausedTrunks, Payer, Role, SharedTables, ShownCall, SideTable,
    SourceRates, TableLimits, Traffic, TrafficRates, TrunkEvent, TrunkLogins, TrunkPause,
};
