//! Moves of the sides of a dialog: the target refresh of RFC 3261 §12.2, and new connections and ports.
//!
//! Both sides took part when a 2xx comes: then the sender of the request is where that came from, and the responder where its Contact
//! is. What they may name is in docs/decisions/0053.

use super::live_mark::moved_sides;
use super::remote_target::{caller_side, calls_for_us, contact_of, is_credible, names_flow, needs_listener};
use super::users::owner_of;
use crate::base::{Env, Reach, Request, Response};
use crate::dialog::route::{NextHop, Routed, hop_of};
use crate::tables::{DialogSide, EntryOwner, Moved, Way};
use crate::token::sources::SourceHash;
use crate::token::{Mark, Side, TargetHash, UriHash};
use ringway_sip::{Message, Method};
use ringway_transaction::reply_flow;

/// Notes where both sides are after the 2xx to a request in their dialog that refreshes targets; forgets them after a BYE.
pub(crate) fn on_success(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    response: &Response<'_, '_>,
) {
    if response.message.method() != Method::Bye {
        return note(env, request, routed, response);
    }
    if let (Some(Mark::Dialog { is_of_caller, .. }), Some(caller)) = (routed.mark, routed.caller_side()) {
        let side = DialogSide::of_sender(&env.keys.route, request.message, is_of_caller, caller);
        env.tables.change_sides((), |table| table.end(side));
    }
}

fn note(env: &mut Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, response: &Response<'_, '_>) {
    let key = &env.keys.route;
    let Some(Mark::Dialog { to, is_of_caller, identities, .. }) = routed.mark else { return };
    let Some(from) = routed.sender.filter(|_| !routed.has_two_ways) else { return };
    let Some(caller) = routed.caller_side() else { return };
    let sender = DialogSide::of_sender(key, request.message, is_of_caller, caller);
    let [known_sender, known_responder] = moved_sides(env, || Some(sender));
    let identities = identities.unwrap_or_default();

    let side = side_of(known_sender, from.side);
    let moved = sender_side(env, request, side, from.is_trunk);
    let source = SourceHash::of(key, request.flow.remote.ip());
    let is_new_source = !env.config.is_own_address(request.flow.remote)
        && routed.senders != [SourceHash::NONE; 2]
        && !routed.senders.contains(&source)
        && known_sender.is_none_or(|known| known.source != source);
    let recorded = if is_of_caller { identities.calling_trunk } else { None };
    let target = target_of(key, request.message, from.is_trunk, recorded, known_sender);
    let new = New { way: moved.map(Way::Side), source: is_new_source.then_some(source), target };
    let owner = owner_of(
        env,
        identities.user(is_of_caller),
        &request.message.from().uri,
        &request.flow,
        request.client(env.config),
        from.is_trunk,
    );
    note_side(env, sender, owner, known_sender, side, new);

    let side = side_of(known_responder, to);
    let way = match request.grant.reach {
        // Its binding was found: later requests look there first, also an ACK, whose failure nothing reports.
        Reach::User => Some(Way::User).filter(|way| known_responder.map(|known| known.way) != Some(*way)),
        _ => responder_side(env, routed, response, side).map(Way::Side),
    };
    let is_trunk = identities.is_trunk(!is_of_caller);
    let recorded = match is_of_caller {
        true => identities.called_trunk.flatten().map(|answer| answer.target),
        false => identities.calling_trunk,
    };
    let target = target_of(key, response.message, is_trunk, recorded, known_responder);
    let owner = owner_of(
        env,
        identities.user(!is_of_caller),
        &request.message.to().uri,
        response.flow,
        response.flow.remote.ip(),
        is_trunk,
    );
    note_side(env, sender.other(), owner, known_responder, side, New { way, source: None, target });
}

/// News of a side.
struct New {
    way: Option<Way>,
    source: Option<SourceHash>,
    target: Option<UriHash>,
}

fn note_side(
    env: &mut Env<'_>,
    side: DialogSide,
    owner: EntryOwner,
    known: Option<Moved>,
    recorded: Side,
    new: New,
) {
    if new.way.is_none() && new.source.is_none() && new.target.is_none() {
        return;
    }
    let lifetime = env.dialog_lifetime();
    let moved = Moved {
        way: new.way.or(known.map(|known| known.way)).unwrap_or(Way::Side(recorded)),
        source: new.source.or(known.map(|known| known.source)).unwrap_or(SourceHash::NONE),
        target: new.target.or(known.map(|known| known.target)).unwrap_or(UriHash::NONE),
        at_s: lifetime.now.as_secs(),
    };
    match env.tables.change_sides(false, |table| table.note_moved(lifetime, side, moved, owner)) {
        true => env.counters.sides_moved += 1,
        false => env.counters.sides_overflow += 1,
    }
}

/// Side as it was known before.
fn side_of(known: Option<Moved>, recorded: Side) -> Side {
    match known.map(|known| known.way) {
        Some(Way::Side(side)) => side,
        Some(Way::User) | None => recorded,
    }
}

/// Contact of a trunk, if it is another one than before.
fn target_of(
    key: &[u8; 16],
    message: &Message<'_>,
    is_trunk: bool,
    recorded: Option<UriHash>,
    known: Option<Moved>,
) -> Option<UriHash> {
    if !is_trunk {
        return None;
    }
    let target = UriHash::of(key, &contact_of(message)?);
    let present = known.map(|known| known.target).filter(|target| *target != UriHash::NONE).or(recorded);
    (present != Some(target)).then_some(target)
}

/// New side of the sender of a request; `None`: it has not moved.
fn sender_side(env: &Env<'_>, request: &Request<'_, '_>, known: Side, is_trunk: bool) -> Option<Side> {
    let (config, key, message) = (env.config, &env.keys.route, request.message);
    let source = request.flow.remote;
    if config.is_own_address(source) || config.is_link(&request.flow) {
        return None;
    }
    let reply = reply_flow(message.via(), request.flow);
    let over_new_connection = |target| match (known, reply.connection) {
        (Side::Connection(old, ..), Some(new)) if old != new => {
            Some(Side::Connection(new, reply.listener, target))
        }
        _ => None,
    };
    if !message.has_one_via() {
        // The next hop to it is a proxy, which its Contact does not name.
        return over_new_connection(known.target());
    }
    let contact = contact_of(message)?;
    let is_gruu = config.registrar.gruu && config.domain_of(&contact).is_some();
    let hop = (!is_gruu).then(|| hop_of(config, &contact));
    let hop = hop.filter(|hop| !matches!(hop, NextHop::Flow(hop) if needs_listener(config, hop, &reply)));
    let target = match hop {
        Some(NextHop::Flow(hop)) => TargetHash::of_flow(key, &hop),
        Some(NextHop::Name(_) | NextHop::Unreachable) | None => TargetHash::NONE,
    };
    if target != TargetHash::NONE && target == known.target() {
        return over_new_connection(target);
    }
    let is_trunk = is_trunk || config.trunking.is_trunk(source.ip());
    let side = match (caller_side(config, key, request), known, hop) {
        (Side::Address(..), _, Some(NextHop::Flow(hop)))
            if is_trunk && is_credible(hop.remote.ip(), source.ip(), config) =>
        {
            Side::Contact(target)
        }
        (Side::Address(..), Side::Contact(_), Some(NextHop::Flow(hop)))
            if !hop.transport.has_connections()
                && config.is_same_host(hop.remote.ip(), source.ip())
                && !config.is_own_address(hop.remote)
                && !config.trunking.has_address(source.ip()) =>
        {
            Side::Contact(target)
        }
        (Side::Address(..), Side::Named { name, .. }, Some(NextHop::Name(host)))
            if host.hash(key) == name =>
        {
            return None;
        }
        (side, ..) => side,
    };
    (side != known).then_some(side)
}

/// New side of the responder, by its Contact. One that is reached over a flow, or through another proxy, stays
/// there.
fn responder_side(
    env: &Env<'_>,
    routed: &Routed<'_>,
    response: &Response<'_, '_>,
    known: Side,
) -> Option<Side> {
    let (config, key, responder) = (env.config, &env.keys.route, response.flow.remote);
    let is_here = config.is_own_address(responder) || config.is_link(response.flow);
    if routed.next_route.is_some() || is_here || !matches!(known, Side::Contact(_) | Side::Named { .. }) {
        return None;
    }
    let contact = contact_of(response.message)?;
    if names_flow(&contact, response.flow) && known == Side::Contact(TargetHash::of_flow(key, response.flow))
    {
        return None;
    }
    let side = match hop_of(config, &contact) {
        NextHop::Flow(hop) if is_credible(hop.remote.ip(), responder.ip(), config) => {
            Side::Contact(TargetHash::of_flow(key, &hop))
        }
        NextHop::Name(host) => {
            let is_believed = calls_for_us(config, responder.ip());
            let name = host.hash(key);
            match known {
                Side::Named { name: same, .. } if same == name => known,
                _ => Side::Named { name, contact: known.target(), is_believed },
            }
        }
        NextHop::Flow(_) | NextHop::Unreachable => return None,
    };
    (side != known).then_some(side)
}
