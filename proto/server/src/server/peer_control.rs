//! Overload control between servers (RFC 7339, RFC 7415): the reduction that this server requests in its responses, and those that it gets.
//!
//! Its parameters are those of one hop. So they are written into the top Via of all that is sent, and read from that of responses.

use crate::base::{Env, Request};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Flow, Instant};
use ringway_sip::grammar::split_value;
use ringway_sip::{HeaderName, Message, Method, OverloadControl, Reduction, Via, peek_header_range};

/// Part of the requests of other servers that a shard refuses for their waiting time, by which they are to reduce them.
#[derive(Debug, Default)]
pub(super) struct Demand {
    requests: u32,
    refused: u32,
    ends_at: Instant,
    per_mille: u32,
}

impl Demand {
    const PERIOD: Duration = Duration::from_millis(250);
    /// Time for which another server needs to know nothing newer.
    const VALIDITY_MS: u64 = 1_000;

    /// Counts a request of a server that supports the control.
    pub(super) fn count(&mut self, now: Instant, is_refused: bool) {
        self.end_periods(now);
        self.requests = self.requests.saturating_add(1);
        self.refused = self.refused.saturating_add(u32::from(is_refused));
    }

    /// Parameters of a response that is sent now.
    pub(super) fn control(&mut self, now: Instant) -> OverloadControl {
        self.end_periods(now);
        let percent = u8::try_from(self.per_mille / 10).unwrap_or(u8::MAX);
        OverloadControl {
            reduction: Reduction::Loss(percent),
            validity_ms: if percent == 0 { 0 } else { Self::VALIDITY_MS },
            sequence: now.as_nanos() / 10_000,
        }
    }

    /// Half of the difference to what was refused is made up in a period. Where requests are refused until what is left can be handled, the
    /// part that is not sent and the part that is refused become equal.
    fn end_periods(&mut self, now: Instant) {
        if now < self.ends_at {
            return;
        }
        let (requests, refused) = (core::mem::take(&mut self.requests), core::mem::take(&mut self.refused));
        let part = u64::from(refused) * 1_000 / u64::from(requests.max(1));
        self.per_mille = (self.per_mille + u32::try_from(part).unwrap_or(1_000)) / 2;
        let periods = now.since(self.ends_at).as_nanos() / Self::PERIOD.as_nanos();
        // Without requests nothing is refused.
        self.per_mille = self.per_mille.checked_shr(u32::try_from(periods).unwrap_or(u32::MAX)).unwrap_or(0);
        self.ends_at = now + Self::PERIOD;
    }
}

/// True for a request of another server that supports the control, and could have withheld it.
pub(super) fn is_of_participant(env: &Env<'_>, request: &Request<'_, '_>) -> bool {
    !matches!(request.method, Method::Ack | Method::Cancel)
        && OverloadControl::is_supported(request.message.via())
        && gets_control(env, &request.flow)
}

/// Notes what the server that sent a response asks for; only trunks, neighbours and nodes may.
pub(super) fn note_control(env: &mut Env<'_>, response: &Message<'_>, sent_to: &Flow) {
    let Some(control) = OverloadControl::of_response(response.via()) else { return };
    if is_server(env, sent_to) && !env.tables.note_control(env.cx.now, sent_to.remote, &control) {
        env.counters.controls_refused += 1;
    }
}

/// Writes the parameters into the packets from number `first` on: that this server supports them, into requests to others; what it asks
/// for, into responses to those that support them.
pub(super) fn write_controls(env: &mut Env<'_>, control: &OverloadControl, first: usize) {
    let mut out = core::mem::take(&mut *env.cx.out);
    out.rewrite(first, |packet, bytes| {
        let line = peek_header_range(bytes, HeaderName::Via)?;
        let (value, _) = split_value(bytes.get(line.clone())?);
        let via = Via::parse(value).ok()?;
        let mut text = Vec::with_capacity(value.len() + ADDED_BYTES);
        if bytes.starts_with(b"SIP/2.0 ") {
            if !via.params.has(b"oc") || !gets_control(env, &packet.flow) {
                return None;
            }
            control.write_via(&via, &mut text);
        } else {
            if via.params.has(b"oc") || !is_server(env, &packet.flow) {
                return None;
            }
            text.extend_from_slice(value);
            OverloadControl::write_support(&mut text, takes_rate(env, &packet.flow));
        }
        Some((line.start..line.start + value.len(), text))
    });
    *env.cx.out = out;
}

/// Bytes that the parameters need at most.
const ADDED_BYTES: usize = 96;

/// True for a trunk, a neighbour or a node.
fn is_server(env: &Env<'_>, flow: &Flow) -> bool {
    let config = env.config;
    !flow.transport.is_websocket()
        && !config.is_own_address(flow.remote)
        && (config.is_link(flow)
            || config.has_server_at(flow.remote.ip())
            || config.trunking.has_node_at(flow.remote.ip())
            || env.is_of_neighbour(flow))
}

/// True for a trunk whose requests name the rate-based scheme, too.
fn takes_rate(env: &Env<'_>, flow: &Flow) -> bool {
    env.config.trunking.find_at(flow.remote.ip(), |trunk| trunk.takes_rate).is_some()
}

/// True for a trunk, a neighbour, a node, and a front of this server.
fn gets_control(env: &Env<'_>, flow: &Flow) -> bool {
    is_server(env, flow) || env.config.is_of_front(flow)
}
