//! Facts about requests, each reported once: a counter, a trace, the calls and the log have their part of it from here.

use super::{CallStep, Counters, Detail, DiversionReason, LogEvent, Reason};
use crate::config::InnerHost;
use core::net::SocketAddr;
use ringway_sansio::Flow;
use ringway_users::Condition;

/// Fact about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report<'a> {
    /// It came from a source that sends too much.
    OverRate,
    /// It is refused under overload.
    OverloadRefused,
    /// It is dropped under overload.
    OverloadDropped,
    /// An ACK that nobody waits for.
    Dropped,
    /// The server takes no new work.
    NotReady { phrase: &'a str, reason: Reason },
    /// The block list has its caller.
    CallerBlocked { caller: &'a [u8], callee: &'a [u8], address: SocketAddr },
    /// It was refused with a status and a phrase; `reason` is none if that was reported.
    Refused { status: u16, phrase: &'a str, reason: Option<Reason>, step: CallStep },
    /// It requires these extensions.
    BadExtension(&'a [u8]),
    /// Its certificate is a user's.
    Certified,

    /// A REGISTER asks for less than this number of seconds.
    TooBrief { min_s: u64 },
    /// A proxy before a REGISTER does not support outbound.
    NoOutbound,
    /// A registration cannot be stored.
    StoreFailed,
    /// The Path of a REGISTER does not count.
    PathRefused,
    /// Another server has the name of this node.
    NameTaken,
    /// A REGISTER came after the time of its user in a drain.
    Drained { phrase: &'a str },

    /// A redirect server answered with this number of contacts.
    RedirectServer { contacts: usize },
    /// A limit is reached.
    OverLimit { phrase: &'a str },
    /// Nothing that it could go to is up.
    AllDown { status: u16, reason: Option<Reason> },
    /// Its scheme fits no contact of its user.
    SchemeMismatch(&'a [u8]),
    /// Its next hop is an inner host.
    InnerHost { caller: &'a [u8], target: &'a [u8], source: SocketAddr, hop: Flow, host: InnerHost },
    /// It is sent over this flow, to another node or not.
    Forwarded { flow: Flow, is_link: bool },
    /// It goes to the next flow of its phone.
    NextFlow,
    /// It goes to a group of this number of targets, after another one.
    NextGroup { targets: usize, is_ranked: bool },
    /// The time of a group has passed.
    GroupTimeout,
    /// It goes to the user of a side of its dialog.
    ToDialogSide(&'a [u8]),
    /// It goes to the target of a forward; `is_known`: its targets were reported.
    Diverted { condition: Condition, target: &'a [u8], is_known: bool },
    /// It goes to a contact of a 3xx.
    Redirected(&'a [u8]),
    /// A number is looked up.
    NumberLookup(&'a [u8]),
    /// The records of its number have this URI.
    NumberFound(&'a [u8]),
    /// A relay has its SDP.
    RelayChosen,
    /// No relay has its SDP.
    RelayFailed,
    /// Its offer is converted.
    Converted,
    /// It would reach a trunk without a route.
    TrunkBypassed { caller: &'a [u8], target: &'a [u8], source: SocketAddr },
    /// A trunk refused our credentials.
    TrunkLoginRefused { name: &'a str, address: SocketAddr },
    /// A trunk has as many calls as it may have.
    TrunkFull { name: &'a str },
    /// A user, domain or trunk has as many calls as it may begin.
    CallerFull { kind: CallerKind, name: &'a [u8] },
    /// It is an emergency call, from this site of the configuration.
    Emergency { caller: &'a [u8], number: &'a [u8], site: &'a str, source: SocketAddr },
    /// The identity of its caller has a valid signature, by the certificate at this URL.
    IdentityVerified { url: &'a str, attested: &'a str },
    /// It has none: because of a limit, because it is wrong, or because it is missing.
    IdentityNotVerified { why: &'a str, is_limit: bool, is_wrong: bool },
    /// It is sent with a signed identity, of this attestation.
    IdentitySigned { attested: &'a str },
    /// It is not, though the trunk is to get one.
    IdentityNotSigned,
    /// A trunk gets credentials over this flow.
    TrunkLogin(Flow),
    /// It dials something else than a number that a rule could permit.
    UnreadableNumber(&'a [u8]),
    /// A destination rule refuses a number.
    DestinationRefused {
        aor: &'a [u8],
        number: &'a [u8],
        prefix: &'a str,
        source: SocketAddr,
        why: DestinationRefusal,
    },

    /// A message is kept for this user.
    MessageKept(&'a [u8]),
    /// A message is not kept.
    MessageNotKept {
        sender: &'a [u8],
        recipient: &'a [u8],
        why: &'a str,
        source: SocketAddr,
        limit: MessageLimit,
    },
}

/// Kind of a caller that has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerKind {
    User,
    Domain,
    Trunk,
}

/// Reason why a destination rule refuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestinationRefusal {
    /// It forbids the number.
    Denied,
    /// The user made too many calls.
    Rate,
    /// There is no room to count its calls.
    Overflow,
}

/// Limit because of which a message is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageLimit {
    /// Memory of all requests.
    Memory,
    /// The store.
    Store,
    /// One of messages.
    Messages,
}

/// Counter that a fact increases.
type Counted = fn(&mut Counters) -> &mut u64;

/// Parts of a fact.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    pub(crate) counters: [Option<Counted>; 2],
    /// For a trace.
    pub(crate) decision: Option<(Reason, Detail<'a>)>,
    /// Step of the call, if the request is an INVITE.
    pub(crate) step: Option<CallStep>,
    /// Target of a diversion.
    pub(crate) target: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(counter: Counted, reason: Reason, detail: Detail<'a>) -> Self {
        Self::decided(reason, detail).counted(counter)
    }

    fn decided(reason: Reason, detail: Detail<'a>) -> Self {
        Self { decision: Some((reason, detail)), ..Self::default() }
    }

    fn counted(self, counter: Counted) -> Self {
        Self { counters: [Some(counter), None], ..self }
    }

    fn with_step(self, step: CallStep) -> Self {
        Self { step: Some(step), ..self }
    }
}

impl<'a> Report<'a> {
    #[inline]
    pub(crate) fn parts(&self) -> Parts<'a> {
        match *self {
            Self::OverRate => Parts::of(|all| &mut all.over_rate, Reason::OverRate, Detail::None),
            Self::OverloadRefused => {
                Parts::of(|all| &mut all.overload_refused, Reason::Overload, Detail::Status(503, "Overload"))
                    .with_step(CallStep::Refused(503))
            }
            Self::OverloadDropped => {
                Parts::of(|all| &mut all.overload_dropped, Reason::Overload, Detail::None)
            }
            Self::Dropped => Parts::of(|all| &mut all.stray, Reason::Dropped, Detail::None),
            Self::NotReady { phrase, reason } => {
                Parts::of(|all| &mut all.refused, reason, Detail::Status(503, phrase))
            }
            Self::CallerBlocked { caller, .. } => {
                Parts::of(|all| &mut all.blocked_callers, Reason::CallerBlocked, Detail::Text(caller))
                    .with_step(CallStep::Refused(403))
            }
            Self::Refused { status, phrase, reason, step } => Parts {
                decision: reason.map(|reason| (reason, Detail::Status(status, phrase))),
                ..Parts::default().counted(counter_of(status)).with_step(step)
            },
            Self::BadExtension(names) => {
                Parts::of(|all| &mut all.refused, Reason::BadExtension, Detail::Text(names))
            }
            Self::Certified => {
                Parts::of(|all| &mut all.certified, Reason::LoginAccepted, Detail::Text(b"certificate"))
            }
            Self::TooBrief { min_s } => {
                Parts::of(|all| &mut all.refused, Reason::TooBrief, Detail::Seconds(min_s))
            }
            Self::NoOutbound => {
                Parts::of(|all| &mut all.first_hop_lacks_outbound, Reason::NoOutbound, Detail::None)
            }
            Self::StoreFailed => Parts::of(|all| &mut all.store_refusals, Reason::StoreFailed, Detail::None),
            Self::PathRefused => Parts::of(|all| &mut all.path_refused, Reason::PathRefused, Detail::None),
            Self::NameTaken => {
                Parts::of(|all| &mut all.name_taken_registers, Reason::NameTaken, Detail::None)
            }
            Self::Drained { phrase } => {
                Parts::of(|all| &mut all.drained_registers, Reason::Draining, Detail::Status(503, phrase))
            }
            Self::RedirectServer { contacts } => {
                Parts::of(|all| &mut all.redirected, Reason::RedirectServer, Detail::Count(contacts))
                    .with_step(CallStep::Failed(302))
            }
            Self::OverLimit { phrase } => Parts::decided(Reason::OverLimit, Detail::Status(503, phrase))
                .with_step(CallStep::Failed(503)),
            Self::AllDown { status, reason } => Parts {
                decision: reason.map(|reason| (reason, Detail::None)),
                ..Parts::default().with_step(CallStep::Failed(status))
            },
            Self::SchemeMismatch(warning) => {
                Parts::of(|all| &mut all.not_registered, Reason::NotRegistered, Detail::Text(warning))
                    .with_step(CallStep::Failed(480))
            }
            Self::Forwarded { flow, is_link } => {
                let mut parts = Parts::of(|all| &mut all.forwarded, Reason::Forwarded, Detail::Flow(flow));
                if is_link {
                    parts.counters[1] = Some(|all| &mut all.forwarded_to_nodes);
                }
                parts.with_step(CallStep::Forwarded)
            }
            _ => self.parts_of_stage(),
        }
    }

    /// Parts of what only stages report.
    fn parts_of_stage(&self) -> Parts<'a> {
        match *self {
            Self::InnerHost { hop, .. } => {
                Parts::of(|all| &mut all.inner_hosts_refused, Reason::InnerHost, Detail::Flow(hop))
            }
            Self::NextFlow => Parts::of(|all| &mut all.flow_failovers, Reason::NextFlow, Detail::None),
            Self::NextGroup { targets, is_ranked } => {
                let parts = Parts::decided(Reason::NextGroup, Detail::Count(targets));
                if is_ranked { parts.counted(|all| &mut all.trunk_failovers) } else { parts }
            }
            Self::GroupTimeout => Parts::of(|all| &mut all.serial_forks, Reason::GroupTimeout, Detail::None),
            Self::ToDialogSide(uri) => {
                Parts::of(|all| &mut all.sides_looked_up, Reason::ToDialogSide, Detail::Text(uri))
            }
            Self::Diverted { condition, target, is_known } => Parts {
                decision: (!is_known).then_some((reason_of(condition), Detail::Text(target))),
                target: Some(target),
                ..Parts::default()
                    .counted(match condition {
                        Condition::Always => |all| &mut all.calls_forwarded_always,
                        Condition::Busy => |all| &mut all.calls_forwarded_busy,
                        Condition::NoAnswer => |all| &mut all.calls_forwarded_no_answer,
                        Condition::Unregistered => |all| &mut all.calls_forwarded_unregistered,
                    })
                    .with_step(CallStep::Diverted(DiversionReason::Forward(condition)))
            },
            Self::Redirected(uri) => Parts {
                target: Some(uri),
                ..Parts::of(|all| &mut all.recursions, Reason::Redirected, Detail::Text(uri))
                    .with_step(CallStep::Diverted(DiversionReason::Redirect))
            },
            Self::NumberLookup(number) => {
                Parts::of(|all| &mut all.number_lookups, Reason::NumberLookup, Detail::Text(number))
            }
            Self::NumberFound(uri) => {
                Parts::of(|all| &mut all.numbers_found, Reason::NumberFound, Detail::Text(uri))
            }
            Self::RelayChosen => Parts::of(|all| &mut all.media_relayed, Reason::RelayChosen, Detail::None),
            Self::RelayFailed => Parts::of(|all| &mut all.media_failed, Reason::RelayFailed, Detail::None),
            Self::Converted => Parts::of(|all| &mut all.media_converted, Reason::Converted, Detail::None),
            _ => self.parts_of_identity(),
        }
    }

    /// Parts of what is reported of signed identities.
    fn parts_of_identity(&self) -> Parts<'a> {
        match *self {
            Self::IdentityVerified { url, attested } => Parts::of(
                |all| &mut all.identities_verified,
                Reason::IdentityVerified,
                Detail::Both(attested.as_bytes(), url.as_bytes()),
            ),
            Self::IdentityNotVerified { why, is_limit, is_wrong } => {
                let counter: Counted = match (is_limit, is_wrong) {
                    (true, _) => |all| &mut all.identities_over_rate,
                    (false, true) => |all| &mut all.identities_invalid,
                    (false, false) => |all| &mut all.identities_missing,
                };
                Parts::of(counter, Reason::IdentityNotVerified, Detail::Text(why.as_bytes()))
            }
            Self::IdentitySigned { attested } => Parts::of(
                |all| &mut all.identities_signed,
                Reason::IdentitySigned,
                Detail::Text(attested.as_bytes()),
            ),
            Self::IdentityNotSigned => {
                Parts::of(|all| &mut all.identities_not_signed, Reason::IdentityNotSigned, Detail::None)
            }
            _ => self.parts_at_trunk(),
        }
    }

    /// Parts of what is reported of trunks and kept messages; a fact that is in none of the four functions does not compile.
    fn parts_at_trunk(&self) -> Parts<'a> {
        match *self {
            Self::TrunkBypassed { target, .. } => {
                Parts::of(|all| &mut all.trunk_bypasses, Reason::TrunkBypassed, Detail::Text(target))
            }
            Self::TrunkLoginRefused { name, .. } => Parts::of(
                |all| &mut all.trunk_auth_failures,
                Reason::TrunkLoginRefused,
                Detail::Text(name.as_bytes()),
            ),
            Self::TrunkFull { name } => Parts::of(
                |all| &mut all.trunk_calls_refused,
                Reason::TrunkFull,
                Detail::Text(name.as_bytes()),
            ),
            Self::CallerFull { kind, name } => parts_of_full(kind, name),
            Self::Emergency { number, site, .. } => {
                let detail = Detail::Both(number, site.as_bytes());
                Parts::of(|all| &mut all.emergency_calls, Reason::Emergency, detail)
            }
            Self::TrunkLogin(flow) => {
                Parts::of(|all| &mut all.trunk_challenges, Reason::TrunkLogin, Detail::Flow(flow))
            }
            Self::UnreadableNumber(dialled) => Parts::of(
                |all| &mut all.destination_refusals,
                Reason::DestinationDenied,
                Detail::Text(dialled),
            ),
            Self::DestinationRefused { number, prefix, why, .. } => parts_of_refusal(number, prefix, why),
            Self::MessageKept(recipient) => {
                Parts::of(|all| &mut all.messages_kept, Reason::MessageKept, Detail::Text(recipient))
            }
            Self::MessageNotKept { why, limit, .. } => {
                let counter: Counted = match limit {
                    MessageLimit::Memory => |all| &mut all.over_memory,
                    MessageLimit::Store => |all| &mut all.store_refusals,
                    MessageLimit::Messages => |all| &mut all.messages_refused,
                };
                Parts::of(counter, Reason::MessageNotKept, Detail::Text(why.as_bytes()))
            }
            Self::OverRate
            | Self::OverloadRefused
            | Self::OverloadDropped
            | Self::Dropped
            | Self::NotReady { .. }
            | Self::CallerBlocked { .. }
            | Self::Refused { .. }
            | Self::BadExtension(_)
            | Self::Certified
            | Self::TooBrief { .. }
            | Self::NoOutbound
            | Self::StoreFailed
            | Self::PathRefused
            | Self::NameTaken
            | Self::Drained { .. }
            | Self::RedirectServer { .. }
            | Self::OverLimit { .. }
            | Self::AllDown { .. }
            | Self::SchemeMismatch(_)
            | Self::Forwarded { .. }
            | Self::InnerHost { .. }
            | Self::NextFlow
            | Self::NextGroup { .. }
            | Self::GroupTimeout
            | Self::ToDialogSide(_)
            | Self::Diverted { .. }
            | Self::Redirected(_)
            | Self::NumberLookup(_)
            | Self::NumberFound(_)
            | Self::RelayChosen
            | Self::RelayFailed
            | Self::IdentityVerified { .. }
            | Self::IdentityNotVerified { .. }
            | Self::IdentitySigned { .. }
            | Self::IdentityNotSigned
            | Self::Converted => Parts::default(),
        }
    }

    /// Event for the log.
    #[inline]
    pub(crate) fn event(&self) -> Option<LogEvent<'a>> {
        match *self {
            Self::CallerBlocked { caller, callee, address } => {
                Some(LogEvent::CallerBlocked { caller, callee, address })
            }
            Self::InnerHost { caller, target, source: address, hop, host } => {
                let hop = hop.remote;
                Some(LogEvent::InnerHostRefused { caller, target, address, hop, host })
            }
            Self::TrunkBypassed { caller, target, source: address } => {
                Some(LogEvent::TrunkBypassed { caller, target, address })
            }
            Self::TrunkLoginRefused { name, address } => Some(LogEvent::TrunkLoginRefused { name, address }),
            Self::Emergency { caller, number, site, source: address } => {
                Some(LogEvent::EmergencyCall { caller, number, site, address })
            }
            Self::DestinationRefused { aor, number, prefix, source: address, .. } => {
                Some(LogEvent::DestinationRefused { aor, number, prefix, address })
            }
            Self::MessageNotKept { sender, recipient, why: reason, source: address, .. } => {
                Some(LogEvent::MessageRefused { sender, recipient, reason, address })
            }
            _ => None,
        }
    }
}

/// Parts of a limit of calls by who begins them.
fn parts_of_full<'a>(kind: CallerKind, name: &'a [u8]) -> Parts<'a> {
    let (counter, reason): (Counted, Reason) = match kind {
        CallerKind::User => (|all| &mut all.user_calls_refused, Reason::UserFull),
        CallerKind::Domain => (|all| &mut all.domain_calls_refused, Reason::DomainFull),
        CallerKind::Trunk => (|all| &mut all.trunk_calls_in_refused, Reason::TrunkSendsTooMany),
    };
    Parts::of(counter, reason, Detail::Text(name))
}

/// Parts of a number that a destination rule refuses.
fn parts_of_refusal<'a>(number: &'a [u8], prefix: &'a str, why: DestinationRefusal) -> Parts<'a> {
    let detail = Detail::Both(number, prefix.as_bytes());
    match why {
        DestinationRefusal::Denied => {
            Parts::of(|all| &mut all.destination_refusals, Reason::DestinationDenied, detail)
        }
        DestinationRefusal::Rate => {
            Parts::of(|all| &mut all.destination_rates, Reason::DestinationRate, detail)
        }
        DestinationRefusal::Overflow => {
            Parts::of(|all| &mut all.destination_overflow, Reason::DestinationRate, detail)
        }
    }
}

/// Counter of the responses of this server with a status.
fn counter_of(status: u16) -> Counted {
    match status {
        403 => |all| &mut all.forbidden,
        404 => |all| &mut all.not_found,
        430 => |all| &mut all.flows_gone,
        440 => |all| &mut all.too_broad,
        480 => |all| &mut all.not_registered,
        482 => |all| &mut all.loops,
        483 => |all| &mut all.too_many_hops,
        _ => |all| &mut all.refused,
    }
}

/// Reason of a forward.
pub(crate) const fn reason_of(condition: Condition) -> Reason {
    match condition {
        Condition::Always => Reason::ForwardAlways,
        Condition::Busy => Reason::ForwardBusy,
        Condition::NoAnswer => Reason::ForwardNoAnswer,
        Condition::Unregistered => Reason::ForwardUnregistered,
    }
}
