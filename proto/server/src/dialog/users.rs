//! Users of ours that the sides of a dialog are, and owners of the entries about them.

use crate::Aor;
use crate::base::{Env, Request};
use crate::dialog::route::Routed;
use crate::tables::EntryOwner;
use crate::token::UserHash;
use crate::token::sources::SourceHash;
use core::net::IpAddr;
use ringway_sansio::Flow;
use ringway_sip::{Message, Uri};

/// Hash of the user of ours that a side is, if its name can be found; `uri` is that in From of its requests, or in To of those for it.
pub(crate) fn named_user(env: &Env<'_>, user: UserHash, uri: &Uri<'_>) -> Option<UserHash> {
    if user != UserHash::OF_HEADER {
        return user.is_named().then_some(user);
    }
    let mut aor = Aor::default();
    let is_ours = env.config.read_aor(uri, &mut aor);
    is_ours.then(|| UserHash::of(&env.keys.route, aor.user(), aor.domain()))
}

/// User of ours that the side is which a request is for: that of To, or another one with this hash, whose name is in To or the Request-URI;
/// `None` for any other.
pub(crate) fn user_of_side(
    env: &Env<'_>,
    message: &Message<'_>,
    routed: &Routed<'_>,
    user: UserHash,
) -> Option<Aor> {
    let mut aor = Aor::default();
    let to = &message.to().uri;
    if user == UserHash::OF_HEADER {
        return env.config.read_aor(to, &mut aor).then_some(aor);
    }
    if !user.is_named() {
        return None;
    }
    let key = &env.keys.route;
    for uri in [to, &routed.uri] {
        let Some(name) = uri.user() else { continue };
        let is_it = |domain: &&alloc::string::String| UserHash::of(key, name, domain.as_bytes()) == user;
        if let Some(domain) = env.config.domains.iter().find(is_it) {
            aor.set(|out| uri.unescaped_user_into(out), domain.as_bytes());
            return Some(aor);
        }
    }
    None
}

/// Owner of entries about the side that sends a request in a dialog.
pub(crate) fn owner_of_sender(env: &Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>) -> EntryOwner {
    let (user, is_trunk) = match routed.sender {
        Some(sender) => (sender.user.unwrap_or_default(), sender.is_trunk),
        None => (UserHash::NONE, false),
    };
    let client = request.client(env.config);
    owner_of(env, user, &request.message.from().uri, &request.flow, client, is_trunk)
}

/// Owner of the entry of a side: its user, or its source if it is none of ours. Servers that call for many have none.
pub(crate) fn owner_of(
    env: &Env<'_>,
    user: UserHash,
    uri: &Uri<'_>,
    flow: &Flow,
    client: IpAddr,
    is_trunk: bool,
) -> EntryOwner {
    let (config, key) = (env.config, &env.keys.route);
    if let Some(user) = named_user(env, user, uri) {
        return EntryOwner::of_user(user);
    }
    let is_for_many = is_trunk
        || config.is_own_address(flow.remote)
        || config.is_link(flow)
        || config.trusts(flow)
        || (client == flow.remote.ip() && config.is_of_front(flow))
        || config.trunking.is_trunk(client)
        || config.trunking.has_node_at(client);
    if is_for_many { EntryOwner::NONE } else { EntryOwner::of_source(SourceHash::of(key, client)) }
}
