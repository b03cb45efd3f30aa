//! Log of the server's events: logins, registrations, calls, messages.
//!
//! Each event is one line with stable field names. The lines are written on the packet path: if the level is off, an
//! event costs one comparison.

use super::log_lines::{LineRates, Quoted, Word};
use ringway_linux::Direction;
use ringway_sansio::{Flow, Instant, Seed};
use ringway_server::{BindingChange, BindingEnd, CallEvent, CallStep, LogEvent, LoginRefusal, NeighbourKind};
use ringway_sip::{HeaderName, Limits, Message, Start};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// Writes events, with a rate limit for refused logins, destinations and messages, and blocked callers.
pub(super) struct EventLog {
    logins: Mutex<LineRates>,
    calls: Mutex<LineRates>,
    blocked: Mutex<LineRates>,
    messages: Mutex<LineRates>,
    requests: Mutex<LineRates>,
    /// Registrations and ends of calls.
    usual: Mutex<LineRates>,
}

impl EventLog {
    pub(super) fn new(seed: &Seed) -> Self {
        let rates = |seed: &Seed| Mutex::new(LineRates::new((LINES_PER_SOURCE_S, LINES_S), seed));
        Self {
            logins: rates(seed),
            calls: rates(&seed.part(2)),
            blocked: rates(&seed.part(1)),
            messages: rates(&seed.part(3)),
            requests: rates(&seed.part(4)),
            usual: Mutex::new(LineRates::new((USUAL_LINES_PER_SOURCE_S, USUAL_LINES_S), &seed.part(5))),
        }
    }

    pub(super) fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        match *event {
            LogEvent::LoginRefused { user, address, reason } => {
                if tracing::enabled!(tracing::Level::INFO) {
                    self.login_refused(now, user, address, reason);
                }
            }
            LogEvent::DestinationRefused { aor, number, prefix, address } => {
                if let Some(suppressed) = admit(&self.calls, now, address) {
                    let (user, number) = (Word(aor), Word(number));
                    tracing::warn!(%user, %number, rule = %prefix, suppressed, "refused destination");
                }
            }
            LogEvent::EmergencyCall { caller, number, site, address } => {
                let (caller, number, site, address) =
                    (Word(caller), Word(number), Word(site.as_bytes()), address.ip());
                tracing::info!(%caller, %number, %site, %address, "emergency call");
            }
            LogEvent::TrunkBypassed { caller, target, address } => {
                if let Some(suppressed) = admit(&self.calls, now, address) {
                    let (caller, target, address) = (Word(caller), Word(target), address.ip());
                    tracing::warn!(%caller, %target, %address, suppressed, "refused a trunk without a route");
                }
            }
            LogEvent::InnerHostRefused { caller, target, address, hop, host } => {
                if let Some(suppressed) = admit(&self.calls, now, address) {
                    let (caller, target, address) = (Word(caller), Word(target), address.ip());
                    tracing::warn!(%caller, %target, %address, %hop, network = %host, suppressed, "refused an inner host");
                }
            }
            LogEvent::TrunkLoginRefused { name, address } => {
                if let Some(suppressed) = admit(&self.calls, now, address) {
                    tracing::warn!(%name, %address, suppressed, "trunk refused the login");
                }
            }
            LogEvent::CallerBlocked { caller, callee, address } => {
                if tracing::enabled!(tracing::Level::INFO) {
                    self.caller_blocked(now, caller, callee, address);
                }
            }
            LogEvent::MessageRefused { sender, recipient, reason, address } => {
                if tracing::enabled!(tracing::Level::INFO)
                    && let Some(suppressed) = admit(&self.messages, now, address)
                {
                    let (sender, recipient) = (Word(sender), Word(recipient));
                    tracing::info!(%sender, %recipient, %reason, suppressed, "refused message");
                }
            }
            LogEvent::MessageDropped { sender, recipient, reason } => {
                let (sender, recipient) = (Word(sender), Word(recipient));
                tracing::info!(%sender, %recipient, %reason, "dropped message");
            }
            // They are for traces.
            LogEvent::Decided { .. } | LogEvent::Received { .. } => {}
            LogEvent::NeighbourUp { kind, name, address } => write_neighbour_up(kind, name, address),
            LogEvent::NeighbourDown { kind, name, reason } => write_neighbour_down(kind, name, reason.text()),
            LogEvent::TrunkRegistered { name } => tracing::info!(%name, "trunk registered"),
            LogEvent::TrunkNotRegistered { name, status } => {
                let why = if status == 420 { ": it does not support bulk = true (RFC 6140)" } else { "" };
                tracing::warn!(%name, status, "trunk registration failed{why}");
            }
            LogEvent::RequestRefused { message, status, phrase, address } => {
                if tracing::enabled!(tracing::Level::INFO) {
                    self.request_refused(now, message, (status, phrase), address);
                }
            }
            LogEvent::Registered { .. } | LogEvent::BindingEnded { .. } | LogEvent::Call { .. } => {
                let is_written = tracing::enabled!(tracing::Level::DEBUG)
                    || tracing::enabled!(tracing::Level::INFO)
                        && usual_source(event)
                            .is_some_and(|source| admit(&self.usual, now, source).is_some());
                if is_written {
                    write_event(event);
                }
            }
        }
    }

    fn request_refused(
        &self,
        now: Instant,
        message: &[u8],
        (status, phrase): (u16, &str),
        address: SocketAddr,
    ) {
        let Some(suppressed) = admit(&self.requests, now, address) else { return };
        let Ok(message) = Message::parse(message, &Limits::default()) else { return };
        let Start::Request { method, uri, .. } = message.start() else { return };
        let (method, target) = (Word(method.as_bytes()), Word(uri.as_bytes()));
        let (from, address) = (Word(message.from().uri.as_bytes()), address.ip());
        if suppressed == 0 {
            tracing::info!(%method, %target, %from, %address, status, reason = %phrase, "refused request");
        } else {
            tracing::info!(%method, %target, %from, %address, status, reason = %phrase, suppressed, "refused request");
        }
    }

    fn caller_blocked(&self, now: Instant, caller: &[u8], callee: &[u8], address: SocketAddr) {
        let Some(suppressed) = admit(&self.blocked, now, address) else { return };
        let (caller, callee, address) = (Word(caller), Word(callee), address.ip());
        if suppressed == 0 {
            tracing::info!(%caller, %callee, %address, "blocked caller");
        } else {
            tracing::info!(%caller, %callee, %address, suppressed, "blocked caller");
        }
    }

    fn login_refused(&self, now: Instant, user: &[u8], address: SocketAddr, reason: LoginRefusal) {
        let Some(suppressed) = admit(&self.logins, now, address) else { return };
        let (user, address, reason) = (Word(user), address.ip(), reason.name());
        if suppressed == 0 {
            tracing::info!(%user, %address, %reason, "refused login");
        } else {
            tracing::info!(%user, %address, %reason, suppressed, "refused login");
        }
    }
}

/// Number of lines of the source that were left out before one that may be written; `None`: it may not.
fn admit(rates: &Mutex<LineRates>, now: Instant, address: SocketAddr) -> Option<u64> {
    rates.lock().unwrap_or_else(PoisonError::into_inner).admit(now, address.ip())
}

/// Source of an event that has a line at level info too: a new registration, or the end of a call; `None` for any other.
fn usual_source(event: &LogEvent<'_>) -> Option<SocketAddr> {
    match event {
        LogEvent::Registered { change: BindingChange::Registered, flow, .. } => Some(flow.remote),
        LogEvent::Call(CallEvent { step, flow, .. }) => match step {
            CallStep::Failed(_) | CallStep::Cancelled | CallStep::TimedOut | CallStep::Bye => {
                Some(flow.as_ref().map_or(UNKNOWN, |flow| flow.remote))
            }
            CallStep::Begun
            | CallStep::Refused(_)
            | CallStep::Forwarded
            | CallStep::Diverted(_)
            | CallStep::Ringing(_)
            | CallStep::Answered(_)
            | CallStep::ByeRefused(_)
            | CallStep::Over => None,
        },
        _ => None,
    }
}

/// Source of events that have none.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Logs a message at level trace.
pub(super) fn trace_message(direction: Direction, flow: &Flow, message: &[u8]) {
    if tracing::enabled!(tracing::Level::TRACE) {
        write_message(direction, flow, message);
    }
}

fn write_message(direction: Direction, flow: &Flow, message: &[u8]) {
    let (flow, bytes, text) = (ShownFlow(flow), message.len(), Quoted(message));
    match direction {
        Direction::Received => tracing::trace!(%flow, bytes, %text, "received"),
        Direction::Sent => tracing::trace!(%flow, bytes, %text, "sent"),
    }
}

fn write_neighbour_up(kind: NeighbourKind, name: &str, address: SocketAddr) {
    match kind {
        NeighbourKind::Neighbour => tracing::info!(%name, %address, "neighbour is up"),
        NeighbourKind::Trunk => tracing::info!(%name, %address, "trunk is up"),
        NeighbourKind::Node => tracing::info!(%name, %address, "link to node is up"),
        NeighbourKind::NodeBehind => tracing::info!(%name, %address, "node is up"),
    }
}

fn write_neighbour_down(kind: NeighbourKind, name: &str, reason: &str) {
    match kind {
        NeighbourKind::Neighbour => tracing::warn!(%name, reason, "neighbour is down"),
        NeighbourKind::Trunk => tracing::warn!(%name, reason, "trunk is down"),
        NeighbourKind::Node => tracing::warn!(%name, reason, "link to node is down"),
        NeighbourKind::NodeBehind => tracing::warn!(%name, reason, "node is down"),
    }
}

fn write_event(event: &LogEvent<'_>) {
    match *event {
        LogEvent::LoginRefused { .. }
        | LogEvent::DestinationRefused { .. }
        | LogEvent::MessageRefused { .. }
        | LogEvent::MessageDropped { .. }
        | LogEvent::EmergencyCall { .. }
        | LogEvent::TrunkBypassed { .. }
        | LogEvent::InnerHostRefused { .. }
        | LogEvent::TrunkLoginRefused { .. }
        | LogEvent::CallerBlocked { .. }
        | LogEvent::RequestRefused { .. }
        | LogEvent::TrunkRegistered { .. }
        | LogEvent::TrunkNotRegistered { .. }
        | LogEvent::Decided { .. }
        | LogEvent::Received { .. }
        | LogEvent::NeighbourUp { .. }
        | LogEvent::NeighbourDown { .. } => {}
        LogEvent::Registered { aor, change, message, flow } => {
            let (user, flow) = (Word(aor), ShownFlow(&flow));
            let what = match change {
                BindingChange::Registered => "registration added",
                BindingChange::Refreshed => "registration refreshed",
                BindingChange::Removed | BindingChange::Ended => "registration removed",
            };
            let Ok(message) = Message::parse(message, &Limits::default()) else { return };
            for contact in message.values(HeaderName::Contact).take(CONTACTS_MAX) {
                match change {
                    BindingChange::Registered => {
                        tracing::info!(%user, contact = %Word(contact), %flow, "{what}");
                    }
                    BindingChange::Refreshed | BindingChange::Removed | BindingChange::Ended => {
                        tracing::debug!(%user, contact = %Word(contact), %flow, "{what}");
                    }
                }
            }
        }
        LogEvent::BindingEnded { aor, contact, flow, reason } => {
            let (user, contact, flow) = (Word(aor), Word(contact), ShownFlow(&flow));
            let reason = match reason {
                BindingEnd::Expired => "expired",
                BindingEnd::ConnectionClosed => "connection-closed",
                BindingEnd::Administrator => "administrator",
                BindingEnd::OtherNode => "other-node",
            };
            tracing::debug!(%user, %contact, %flow, %reason, "registration ended");
        }
        LogEvent::Call(ref event) => write_call(event),
    }
}

fn write_call(event: &CallEvent<'_>) {
    let CallEvent { step, message, ref flow, target, .. } = *event;
    let Ok(message) = Message::parse(message, &Limits::default()) else { return };
    // A request within a dialog (a re-INVITE) neither begins nor ends a call.
    let in_dialog = matches!(message.start(), Start::Request { .. }) && message.to().tag().is_some();
    if in_dialog && step != CallStep::Bye {
        return;
    }
    let call_id = Word(message.call_id());
    let (from, to) = (Word(message.from().uri.as_bytes()), Word(message.to().uri.as_bytes()));
    match (step, flow.as_ref().map(ShownFlow)) {
        (CallStep::Begun, Some(flow)) => tracing::debug!(%call_id, %from, %to, %flow, "call begun"),
        (CallStep::Forwarded, Some(flow)) => tracing::debug!(%call_id, %flow, "call forwarded"),
        (CallStep::Diverted(reason), _) => {
            let (reason, target) = (reason.name(), Word(target.unwrap_or_default()));
            tracing::debug!(%call_id, %from, %to, %reason, %target, "call diverted");
        }
        (CallStep::Refused(status), Some(flow)) => {
            tracing::debug!(%call_id, %from, %to, %flow, status, "call refused");
        }
        (CallStep::Answered(status), _) => tracing::debug!(%call_id, %from, %to, status, "call answered"),
        (CallStep::Failed(status), _) => {
            tracing::info!(%call_id, %from, %to, status, reason = %"refused", "call ended");
        }
        (CallStep::Cancelled, _) => {
            tracing::info!(%call_id, %from, %to, reason = %"cancelled", "call ended")
        }
        (CallStep::TimedOut, _) => tracing::info!(%call_id, %from, %to, reason = %"no-answer", "call ended"),
        (CallStep::Bye, _) => tracing::info!(%call_id, %from, %to, reason = %"bye", "call ended"),
        (CallStep::ByeRefused(status), _) => tracing::debug!(%call_id, %from, %to, status, "BYE refused"),
        (CallStep::Begun | CallStep::Refused(_) | CallStep::Forwarded, None)
        | (CallStep::Ringing(_) | CallStep::Over, _) => {}
    }
}

/// Shows `udp:192.0.2.1:5060`, or for a connection with its number: `tcp:192.0.2.1:40000#68719476737`.
struct ShownFlow<'a>(&'a Flow);

impl fmt::Display for ShownFlow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Flow { transport, remote, connection, .. } = self.0;
        write!(f, "{transport}:{remote}")?;
        match connection {
            Some(connection) => write!(f, "#{}", connection.0),
            None => Ok(()),
        }
    }
}

/// Maximum number of lines of one kind per second for one source.
const LINES_PER_SOURCE_S: u32 = 1;

/// Maximum number of lines of one kind per second for all sources.
const LINES_S: u32 = 50;

/// The same of new registrations and ends of calls, at level info: a carrier is one source.
const USUAL_LINES_PER_SOURCE_S: u32 = 100;

/// The same of all sources.
const USUAL_LINES_S: u32 = 500;

/// Maximum number of logged contacts of one REGISTER.
const CONTACTS_MAX: usize = 16;

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
