//! Validity of the Record-Route mark of a request.

use super::users::{named_user, owner_of_sender, user_of_side};
use super::{Known, current};
use crate::base::{Env, Request, Sender, TrunkTarget};
use crate::config::Strangers;
use crate::dialog::edge;
use crate::dialog::route::{NextHop, Routed, SenderSide, hop_of};
use crate::tables::{DialogSide, Moved, Way};
use crate::token::sources::{Origin, SourceHash};
use crate::token::{Identities, Mark, Returned, Side, TagHash, TargetHash, UriHash, UserHash};
use core::cell::OnceCell;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use ringway_sansio::{Defence, Flow};
use ringway_sip::{Message, Method};

/// Valid Record-Route mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveMark {
    /// The server sent the request to itself, for a user of `domains`, after it had accepted it.
    Accepted(Returned),
    /// The request is part of a dialog.
    Dialog(DialogMark),
}

/// Valid mark of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogMark {
    /// Way to the side that the request is for.
    pub(crate) to: Way,
    /// True if its next hop is that side, or a host name whose address is compared after its lookup.
    pub(crate) reaches_side: bool,
    /// Address of its sender.
    pub(crate) origin: Origin,
    /// Next hop of the request, if it was compared with that side.
    pub(crate) hop: Option<Flow>,
    /// Identifies the mark and the side that sends it.
    pub(crate) id: u64,
    /// User of ours that sends it; `None`: the mark is of the earlier form, and From says it.
    pub(crate) sender: Option<UserHash>,
    /// A trunk sends it.
    pub(crate) is_of_trunk: bool,
    /// Request-URI, if it is for a trunk.
    pub(crate) trunk: TrunkTarget,
}

/// Mark in the request's Route, unless it is too old. A target refresh extends it.
pub(crate) fn live_mark(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
) -> Option<LiveMark> {
    let mark = routed.mark?;
    let is_of_node = env.config.is_link(&request.flow);
    let (now, lifetime) = (env.cx.now, env.config.dialog_lifetime);
    match mark {
        // A node is a side of the dialogs that it takes part in. Other dialogs, and what this server sends to itself, are not its own.
        Mark::Accepted { .. } if is_of_node => None,
        // The first mark has the side that sends, the last one the side that it is for.
        Mark::Dialog { .. }
            if is_of_node && !routed.sender.is_some_and(|sender| is_node(env, sender.side)) =>
        {
            None
        }
        Mark::Accepted { returned, .. } => {
            mark.is_younger_than(now, ACCEPTED_LIFETIME).then_some(LiveMark::Accepted(returned))
        }
        Mark::Dialog { to: recorded, id, made_s, is_of_caller, identities, .. } => {
            let is_in_dialog = request.message.to().tag().is_some();
            let is_live = mark.is_younger_than(now, lifetime) || env.tables.is_dialog_extended(now, id);
            if !is_in_dialog || !is_live {
                return None;
            }
            let identities = identities.unwrap_or_default();
            let user = identities.user(!is_of_caller);
            let side = |caller| DialogSide::of_sender(&env.keys.route, request.message, is_of_caller, caller);
            let [sender, moved] = moved_sides(env, || routed.caller_side().map(side));
            let is_gruu = env.config.registrar.gruu && routed.is_of_domains && routed.uri.params().has(b"gr");
            // Connections are numbered from the start: a number in an older mark is now another connection's.
            let is_from_before = made_s < env.started_s;
            // A request that came over a link crosses no other: the node that sent it looks the user up.
            let may_need_user = !is_of_node
                && (is_gruu || is_from_before || moved.is_some_and(|moved| moved.way == Way::User));
            let has_user = may_need_user && user_of_side(env, request.message, routed, user).is_some();
            let known =
                Known { recorded, moved: moved.map(|moved| moved.way), is_from_before, has_user, is_gruu };
            let since_s = moved.map_or(made_s, |moved| moved.at_s);
            let next_hop = OnceCell::new();
            let next_hop_of = || *next_hop.get_or_init(|| hop_of(env.config, routed.next_uri()));
            let way = current(
                &known,
                |side| reaches(env, side, next_hop_of),
                |side| registered(env, request.message, side, user, since_s),
            );
            let reaches_side = way.is_some();
            let hop = match (way, next_hop.get()) {
                (Some(Way::Side(Side::Contact(_) | Side::Named { .. })), Some(NextHop::Flow(flow))) => {
                    Some(*flow)
                }
                _ => None,
            };
            if reaches_side && !mark.is_younger_than(now, lifetime / 2) {
                extend(env, request, routed, id);
            }
            let origin = origin_of_sender(env, request, routed, sender);
            let moved_target = moved.map(|moved| moved.target);
            Some(LiveMark::Dialog(DialogMark {
                to: way.unwrap_or(Way::Side(recorded)),
                reaches_side,
                origin,
                hop,
                id: (id & !1) | u64::from(is_of_caller),
                sender: routed.sender.and_then(|sender| sender.user),
                is_of_trunk: routed.sender.is_some_and(|sender| sender.is_trunk),
                trunk: trunk_target(env, request, routed, &identities, is_of_caller, moved_target),
            }))
        }
    }
}

/// Extends a mark by a target refresh.
fn extend(env: &mut Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, id: u64) {
    if !matches!(request.method, Method::Invite | Method::Update | Method::Subscribe | Method::Notify) {
        return;
    }
    let owner = owner_of_sender(env, request, routed);
    let is_extended = env.tables.extend_dialog(env.dialog_lifetime(), id, owner);
    env.counters.extensions_overflow += u64::from(!is_extended);
}

impl DialogMark {
    /// True if a user of ours sends the request; a mark of the earlier form leaves it to From.
    pub(crate) fn is_of_user(&self, from_us: bool) -> bool {
        self.sender.map_or(from_us, UserHash::is_user)
    }

    /// True if a request with a sender's proof may be sent with the account at a trunk that challenges it: those of users, trunks and
    /// trusted proxies, and those of a stranger that only continue a call that the dial plan sent there. The earlier form of marks has
    /// its former rights.
    pub(crate) fn uses_accounts(&self, sender: Sender, strangers: Strangers) -> bool {
        sender.is_believed()
            || self.is_of_trunk
            || self.sender.is_none_or(UserHash::is_user)
            || self.trunk == TrunkTarget::Recorded
            || strangers == Strangers::All
    }
}

/// Moves of the side that sends a request, and of the other side of its dialog.
pub(crate) fn moved_sides(env: &Env<'_>, sender: impl FnOnce() -> Option<DialogSide>) -> [Option<Moved>; 2] {
    // Usually no side has moved.
    if !env.tables.has_moved_sides() {
        return [None; 2];
    }
    let Some(sender) = sender() else { return [None; 2] };
    let sides = [sender, sender.other()];
    env.tables.read_sides([None; 2], |table| sides.map(|side| table.moved(env.cx.now, side).copied()))
}

/// Flow that the phone of a user's side has registered with since; of a front that its phone has registered with at its registrar.
fn registered(
    env: &Env<'_>,
    message: &Message<'_>,
    side: Side,
    user: UserHash,
    since_s: u64,
) -> Option<Side> {
    if !env.tables.has_moved_sides() {
        return None;
    }
    let (key, to) = (&env.keys.route, &message.to().uri);
    let user = named_user(env, user, to).or_else(|| edge::user_of(env.config, key, to))?;
    env.tables.read_sides(None, |table| table.registered(key, side, user, env.cx.now, since_s))
}

/// Compares To tag and Request-URI of a request for a trunk with those of its dialog.
fn trunk_target(
    env: &Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    identities: &Identities,
    is_of_caller: bool,
    moved: Option<UriHash>,
) -> TrunkTarget {
    if !identities.is_trunk(!is_of_caller) {
        return TrunkTarget::None;
    }
    let key = &env.keys.route;
    let target = match (is_of_caller, identities.called_trunk) {
        (false, _) => identities.calling_trunk,
        (true, Some(Some(answer))) => {
            let tag = request.message.to().tag().unwrap_or_default();
            (answer.tag == TagHash::of(key, tag)).then_some(answer.target)
        }
        (true, _) => None,
    };
    let Some(target) = target else { return TrunkTarget::Foreign };
    let named = Some(UriHash::of(key, &routed.last_uri(request.message)));
    match named == Some(target) || named == moved {
        true => TrunkTarget::Recorded,
        false => TrunkTarget::Other,
    }
}

/// True if a request goes to this side of its dialog; the address of a host name is compared after its lookup.
fn reaches<'h>(env: &Env<'_>, side: Side, next_hop: impl Fn() -> NextHop<'h>) -> bool {
    match (side, next_hop()) {
        (Side::Address(..) | Side::Connection(..), _) | (Side::Contact(_), NextHop::Name(_)) => true,
        (Side::Named { name, .. }, NextHop::Name(host)) => host.hash(&env.keys.route) == name,
        (Side::Contact(target) | Side::Named { contact: target, .. }, NextHop::Flow(flow)) => {
            TargetHash::of_flow(&env.keys.route, &flow) == target
        }
        (Side::Contact(_) | Side::Named { .. }, NextHop::Unreachable) => false,
    }
}

/// True for a side of a dialog that is another node.
fn is_node(env: &Env<'_>, side: Side) -> bool {
    let Some(links) = &env.config.links else { return false };
    match side {
        Side::Connection(_, listener, _) => listener == links.listener,
        Side::Contact(target) => {
            links.flows().any(|flow| TargetHash::of_flow(&env.keys.route, &flow) == target)
        }
        Side::Named { .. } | Side::Address(..) => false,
    }
}

/// Compares where a request came from with where the side that sends is.
fn origin_of_sender(
    env: &Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    moved: Option<Moved>,
) -> Origin {
    // A request over the flow of a token was sent to a connection whose address is not in the token.
    let is_its_connection = matches!(
        routed.sender,
        Some(SenderSide { side: Side::Connection(connection, ..), made_s, .. })
            if made_s >= env.started_s && request.flow.connection == Some(connection)
    );
    let source = request.flow.remote.ip();
    let is_its_new_address =
        || moved.is_some_and(|moved| moved.source == SourceHash::of(&env.keys.route, source));
    match env.config.is_link(&request.flow) || is_its_connection || is_its_new_address() {
        true => Origin::Recorded,
        false => origin(env, source, routed.senders),
    }
}

/// Compares a source address with those of the side that sends.
fn origin(env: &Env<'_>, source: IpAddr, recorded: [SourceHash; 2]) -> Origin {
    let is_recorded = |ip| recorded.contains(&SourceHash::of(&env.keys.route, ip));
    let has_none = recorded == [SourceHash::NONE; 2];
    if has_none || !env.config.auth.enabled || is_recorded(source) || !Defence::DialogSource.is_on() {
        return Origin::Recorded;
    }
    // Programs on this machine reach it by any of its addresses.
    let machine = || env.config.machine_addresses.iter().copied();
    let is_of_machine = source.is_loopback() || machine().any(|own| own == source);
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match is_of_machine && machine().chain(loopback).any(is_recorded) {
        true => Origin::Recorded,
        false => Origin::Elsewhere,
    }
}

/// Maximum time between sending and receiving a request to this server itself; 64·T1.
const ACCEPTED_LIFETIME: Duration = Duration::from_secs(32);
