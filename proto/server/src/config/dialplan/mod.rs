//! Dial plan: telephone numbers, and the routes and destination rules for them. Pure functions of numbers and rules.

mod destination;
mod form;
mod number;
mod pattern;
mod prefix;
mod rates;
mod route;

pub use destination::{CallRate, CallRates, Destination, DestinationRule, DestinationRules};
pub use form::{Dialing, NumberForm};
pub use number::Number;
pub(crate) use number::is_plain_name;
pub use pattern::{BadPattern, PatternTable};
pub use rates::{Rate, RatePrefix, RateTable};
pub use route::{
    BadRoute, NumberChange, Route, RouteMatch, RouteTable, RouteTo, WeightedTrunk, WeightedTrunks,
};
pub(crate) use route::{TrunkOrder, in_order};
