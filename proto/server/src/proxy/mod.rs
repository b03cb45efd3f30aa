//! The proxy (RFC 3261 §16): target set, forking, response context.

mod breadth;
mod context;
mod forward;
mod pending;
mod remote_target;
mod response;
mod stateless;

pub(crate) use context::{BranchId, ResponseContext};
pub(crate) use forward::{LOOP_MARK, write_q};
pub(crate) use pending::Pending;

use crate::auth::Reach;
use crate::location::{Binding, Kind, means};
use crate::route::{Hop, Routed, hop_of, hop_to};
use crate::server::{Action, Request};
use crate::token::{Place, Side};
use crate::{Aor, Server, Services};
use alloc::boxed::Box;
use alloc::vec::Vec;
use breadth::{Share, TooBroad};
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use ringway_sansio::{Context, Flow, Transport};
use ringway_sip::{Method, Uri};
use ringway_transaction::SlabKey;

/// What a look-up of a host's address is for.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// A branch of a request being forwarded.
    Branch(SlabKey, usize),
    /// A request that is forwarded without state.
    Stateless(Box<stateless::Waiting>),
}

/// The target set of the request being worked on (RFC 3261 §16.5); its room is kept for the next one.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// Names the user that a stranger's request is for.
    strangers_user: Option<u64>,
    text: Vec<u8>,
    list: Vec<Target>,
    /// What each branch may do.
    share: Share,
}

/// One target.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    uri: Range<usize>,
    /// The Request-URI stays as it came.
    keeps_uri: bool,
    /// A flow that is known to reach it.
    flow: Option<Flow>,
    /// Preference in thousandths.
    q: u16,
}

impl Targets {
    fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
        self.strangers_user = None;
    }

    fn push(&mut self, uri: &[u8], keeps_uri: bool, flow: Option<Flow>, q: u16) {
        let start = self.text.len();
        self.text.extend_from_slice(uri);
        self.list.push(Target { uri: start..self.text.len(), keeps_uri, flow, q });
    }

    /// Adds where a binding leads. A contact that stands there already, because an administrator put it there too, is
    /// not called twice (RFC 3261 §16.5).
    fn push_binding(&mut self, binding: &Binding) {
        let flow = flow_of(binding);
        if let Some(same) = self.place_of(binding.uri())
            && let Some(target) = self.list.get_mut(same)
        {
            target.flow = target.flow.or(flow);
            target.q = target.q.max(binding.q);
            return;
        }
        let start = self.text.len();
        write_as_request_uri(binding.uri(), &mut self.text);
        self.list.push(Target { uri: start..self.text.len(), keeps_uri: false, flow, q: binding.q });
    }

    fn place_of(&self, contact: &[u8]) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let contact = Uri::parse(contact).ok()?;
        let is_same = |target: &Target| Uri::parse(self.uri(target)).is_ok_and(|uri| uri.equals(&contact));
        self.list.iter().position(is_same)
    }

    pub(crate) fn uri(&self, target: &Target) -> &[u8] {
        self.text.get(target.uri.clone()).unwrap_or_default()
    }
}

impl<S: Services> Server<S> {
    /// Wishes for the address of `host`.
    fn look_up(&mut self, cx: &mut Context<'_, Action>, host: &str, lookup: Lookup) -> u64 {
        let query = self.next_query;
        self.next_query += 1;
        self.lookups.arm(cx.now + LOOK_UP_MAX, query);
        self.queries.insert(query, lookup);
        cx.actions.push(Action::Resolve { query, host: host.into() });
        query
    }

    /// Forwards a request that may be forwarded.
    pub(crate) fn proxy(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) {
        let mut targets = core::mem::take(&mut self.targets);
        targets.clear();
        let mut aor = Aor::default();
        let reach = request.grant.reach;
        if let Reach::Side(side) = reach {
            let flow = self.side_flow(side, routed);
            targets.push(routed.uri.as_bytes(), true, flow, 1000);
        } else if routed.next_route.is_some() || self.config.domain_of(&routed.uri).is_none() {
            targets.push(routed.uri.as_bytes(), true, None, 1000);
        } else if self.config.read_aor(&routed.uri, &mut aor) {
            for binding in self.location.lookup(aor.as_bytes(), cx.now) {
                targets.push_binding(binding);
            }
            targets.list.sort_by_key(|target| core::cmp::Reverse(target.q));
            if !request.grant.sender.is_believed() {
                targets.strangers_user = Some(self.pending.name_of(aor.as_bytes()));
            }
        }
        let is_stateless = !self.config.stateful || request.method == Method::Ack;
        let branches = if is_stateless { 1 } else { targets.list.len() };
        if targets.list.is_empty() {
            self.refuse_absent(cx, request, &aor);
        } else {
            match Share::of(&self.config, request.message, branches) {
                Err(reason) => self.refuse_fork(cx, request, reason),
                Ok(share) => {
                    targets.share = share;
                    if is_stateless {
                        self.forward_without_state(cx, request, routed, &targets);
                    } else {
                        self.forward(cx, request, routed, &targets);
                    }
                }
            }
        }
        self.targets = targets;
    }

    fn refuse_fork(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>, reason: TooBroad) {
        match reason {
            TooBroad::Malformed => self.refuse_plainly(cx, request, 400, "Bad Max-Breadth"),
            TooBroad::Breadth => self.refuse_plainly(cx, request, 440, "Max-Breadth Exceeded"),
            TooBroad::Spirals => self.refuse_plainly(cx, request, 483, "Too Many Spirals"),
        }
    }

    /// The flow to a side of a dialog; `None` where its remote target says how it is reached.
    fn side_flow(&self, side: Side, routed: &Routed<'_>) -> Option<Flow> {
        let (connection, place) = match side {
            Side::Contact(_) | Side::Named { .. } => return None,
            Side::Address(listener, remote) => return Some(Flow::udp(listener, remote)),
            Side::Connection(connection, place) => (connection, place),
        };
        let next = routed.next_route.as_ref();
        let dialled = match hop_of(&self.config, next.unwrap_or(&routed.uri)) {
            Hop::Flow(flow) => Some(flow).filter(|flow| Place::of_flow(&self.keys.route, flow) == place),
            Hop::Name { .. } | Hop::Unreachable => None,
        };
        if next.is_some() && dialled.is_some() {
            return None;
        }
        // The connection alone leads there: when it is gone, nothing is dialled instead.
        let listener = self.config.listeners.iter().position(|listener| listener.transport.is_stream());
        let remote = dialled.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |flow| flow.remote);
        Some(Flow {
            transport: dialled.map_or(Transport::Tcp, |flow| flow.transport),
            listener: dialled.map_or_else(
                || {
                    ringway_sansio::ListenerId(
                        listener.and_then(|place| u8::try_from(place).ok()).unwrap_or(0),
                    )
                },
                |flow| flow.listener,
            ),
            remote,
            connection: Some(connection),
        })
    }

    /// The way to a target; in front of it stands the next Route, if there is one.
    fn hop_to_target<'t>(
        &self,
        reach: Reach,
        routed: &Routed<'t>,
        target: &Target,
        uri: &Uri<'t>,
    ) -> Hop<'t> {
        if let Some(flow) = target.flow {
            return Hop::Flow(flow);
        }
        self.within(reach, hop_of(&self.config, routed.next_route.as_ref().unwrap_or(uri)))
    }

    /// The hop, unless the access rules forbid it.
    fn within<'h>(&self, reach: Reach, hop: Hop<'h>) -> Hop<'h> {
        match (reach, hop) {
            (Reach::Side(side), Hop::Flow(flow))
                if side.place() != Place::of_flow(&self.keys.route, &flow) =>
            {
                Hop::Unreachable
            }
            (_, hop) => hop,
        }
    }

    /// The hop to an address that a host name has, unless the access rules forbid it.
    fn resolved(&self, reach: Reach, remote: SocketAddr, transport: Transport) -> Hop<'static> {
        match (reach, hop_to(&self.config, remote, transport)) {
            (Reach::Side(Side::Named { .. }), Hop::Flow(flow))
                if remote_target::is_public(&self.config, flow.remote.ip()) =>
            {
                Hop::Flow(flow)
            }
            (_, hop) => self.within(reach, hop),
        }
    }
}

/// Appends a contact as a Request-URI: without the headers and the method that it may have and a Request-URI may not (RFC
/// 3261 §16.6 step 2, §19.1.1 table 1).
fn write_as_request_uri(contact: &[u8], out: &mut Vec<u8>) {
    let parsed = match memchr::memchr2(b'?', b';', contact) {
        Some(_) => Uri::parse(contact).ok(),
        None => None,
    };
    let Some(uri) = parsed else { return out.extend_from_slice(contact) };
    let bare = contact.strip_suffix(uri.headers()).unwrap_or(contact);
    let bare = bare.strip_suffix(b"?").unwrap_or(bare);
    let params = uri.params();
    if !params.has(b"method") {
        return out.extend_from_slice(bare);
    }
    out.extend_from_slice(bare.strip_suffix(params.as_bytes()).unwrap_or(bare));
    for param in params.iter().filter(|param| !param.name.eq_ignore_ascii_case(b"method")) {
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

/// The flow to a binding where it is better than its contact's address: a connection that lives, or the only way.
fn flow_of(binding: &Binding) -> Option<Flow> {
    let transport = binding.flow.transport;
    match binding.kind {
        Kind::Permanent => None,
        Kind::FlowOnly => Some(binding.flow),
        Kind::Dialable if transport.is_stream() && binding.flow.connection.is_some() => {
            Uri::parse(binding.uri()).is_ok_and(|uri| means(&uri, transport)).then_some(binding.flow)
        }
        Kind::Dialable => None,
    }
}

/// How long a look-up may take; the driver answers earlier, if nothing is lost.
const LOOK_UP_MAX: Duration = Duration::from_secs(10);
