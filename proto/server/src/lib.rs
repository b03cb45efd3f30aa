//! Registrar, proxy and redirect server as one protocol machine.
//!
//! Does: [`Server`], a [`Node`](ringway_sansio::Node) for one shard of the users: REGISTER by RFC 3261 §10.3, stateful and
//! stateless proxying by §16, redirecting by §8.3, digest authentication by RFC 7616 and 8760, the location table.
//!
//! Does not: open sockets, read clocks, resolve names or write files. Data that it needs at once comes from [`Services`],
//! which answers from memory; everything else is a requested [`Action`].
//!
//! Start reading at `server.rs`, then `server/dispatch.rs`, then the method.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod auth;
pub mod location;

mod action;
mod aor;
mod block;
mod budget;
mod call_record;
mod cluster;
mod config;
mod counters;
mod date;
mod decision;
mod dialog;
mod dialplan;
mod diversion;
mod domain;
mod drain;
mod edge;
mod ended;
mod env;
mod event;
mod failed_servers;
mod gruu;
mod inner_host;
mod lamp;
mod locate_limits;
mod log_event;
mod media;
mod message;
mod method;
mod neighbour;
mod nodes;
mod proxy;
mod rate;
mod refused;
mod reply;
mod request;
mod route;
mod server;
mod services;
mod shard;
mod sources;
mod token;
mod trunk;

pub use action::Action;
pub use aor::{Aor, Authenticated};
pub use auth::{InnerHost, Strangers};
pub use block::{BlockList, BlockPattern, Caller, CallerPattern, NotAPattern};
pub use budget::{MemoryBudget, Payer};
pub use call_record::{
    CallCounters, CallEnd, CallLimits, CallName, CallNames, CallRecord, CallTable, CallTexts, OngoingCall,
};
pub use cluster::{ClusterSecret, LinkedNode, Links, node_domain};
pub use config::{AuthConfig, Config, Listener, Mode, Neighbour, NeighbourConnection, RegistrarConfig};
pub use counters::Counters;
pub use decision::{Decision, Detail, Reason};
pub use dialog::SideTable;
pub use dialplan::{
    BadPattern, BadRoute, CallRate, CallRates, Destination, DestinationRule, DestinationRules, Number,
    NumberChange, PatternTable, Route, RouteMatch, RouteTable, RouteTo, WeightedTrunk,
};
pub use diversion::DiversionReason;
pub use event::{PresenceConfig, Watchers};
pub use failed_servers::FailedServers;
pub use lamp::{LampFilter, LampState, LampStatus, LampTable, NewLeg, NotLit, Role, ShownCall};
pub use locate_limits::{LocateLimits, LocateRefusal};
pub use location::{Registration, RegistrationRef};
pub use log_event::{
    BindingChange, BindingEnd, CallEvent, CallSender, CallStep, LogEvent, LoginRefusal, MessageDrop,
    NeighbourDown, NeighbourKind,
};
pub use media::{MediaConfig, RelayFailure, RelayRule, SrtpRule};
pub use neighbour::{CALLS_MAX, NEIGHBOURS_MAX, NeighbourRoute, NeighbourTable};
pub use nodes::{Cluster, Hold, NodeState};
pub use proxy::RingingCall;
pub use rate::{SourceRates, Traffic, TrafficRates};
pub use reply::store_failed_reply;
pub use ringway_sip::digest::Ha1;
pub use ringway_transaction::SipFramer;
pub use ringway_users::{Condition, ForwardUri, Forwards, NoAnswer};
pub use server::Server;
pub use services::{Services, StoreFailed};
pub use shard::{shard_of_aor, shard_of_user};
pub use trunk::{
    CallerNumber, CallerPrivacy, PausedTrunks, Trunk, TrunkEvent, TrunkLogin, TrunkLogins, TrunkPause,
    Trunking,
};
