//! Remote targets of the sides (RFC 3261 §12.1): the caller's from its request, the callee's from its response.

use crate::Config;
use crate::base::{Request, Response, Sender};
use crate::config::is_private;
use crate::dialog::route::{NextHop, hop_of};
use crate::token::sources::{SourceHash, Sources};
use crate::token::{
    Answer, Identities, Mark, Side, TOKEN, TagHash, TargetHash, Token, UriHash, WRITTEN_TOKEN, Written,
    read_id, written_param,
};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::Flow;
use ringway_sip::{Edit, HeaderName, Message, NameAddr, Scheme, Start, Uri};
use ringway_transaction::reply_flow;

/// Replaces our marks in a response that establishes a dialog, if requests to the callee will go elsewhere than the
/// INVITE. After a spiral, the first pass through this server replaced them.
pub(crate) fn record(config: &Config, key: &[u8; 16], response: &Response<'_, '_>, edit: &mut Edit<'_, '_>) {
    let (message, responder) = (response.message, response.flow);
    if !message.has(HeaderName::RecordRoute) || message.to().tag().is_none() {
        return;
    }
    // The tag of a trunk is recorded at once: it gets what has another one for a new call.
    let is_of_trunk = !config.trunking.trunks.is_empty() && awaits_trunk(message);
    if !is_of_trunk
        && (!creates_dialog(message)
            || response.sent_to.is_some_and(|sent_to| names_next_hop(message, sent_to)))
        || config.is_own_address(responder.remote)
        || (response.sent_to.is_none()
            && !is_of_trunk
            && names_next_hop(message, responder)
            && was_sent_to(key, message, responder))
    {
        return;
    }
    let Some((old, new)) = changed_token(config, key, response) else { return };
    let values: Vec<&[u8]> = message.values(HeaderName::RecordRoute).collect();
    edit.remove_lines(HeaderName::RecordRoute, |_| true);
    for value in values {
        let token = written_param(value, WRITTEN_TOKEN).filter(|token| value.get(token.clone()) == Some(old));
        edit.push_last(HeaderName::RecordRoute, |out| match token {
            Some(token) => {
                out.extend_from_slice(value.get(..token.start).unwrap_or_default());
                out.extend_from_slice(&new);
                out.extend_from_slice(value.get(token.end..).unwrap_or_default());
            }
            None => out.extend_from_slice(value),
        });
    }
}

/// URI of the first Contact, if it can be read.
pub(crate) fn contact_of<'a>(message: &Message<'a>) -> Option<Uri<'a>> {
    NameAddr::parse(message.values(HeaderName::Contact).next()?).ok().map(|name| name.uri)
}

/// True if the Contact is the address of the next hop, and no proxy after us recorded its route: the mark already has
/// this address.
fn names_next_hop(message: &Message<'_>, sent_to: &Flow) -> bool {
    let contact = message.first(HeaderName::Contact).and_then(|value| NameAddr::parse(value).ok());
    message.values(HeaderName::RecordRoute).next().is_some_and(|route| token_of(route).is_some())
        && contact.is_some_and(|contact| names_flow(&contact.uri, sent_to))
}

/// True if the first Record-Route has a mark of the remote target `flow`. It is not verified: the mark stays as it is.
fn was_sent_to(key: &[u8; 16], message: &Message<'_>, flow: &Flow) -> bool {
    first_token(message).is_some_and(|token| TargetHash::of_flow(key, flow).is_written_for_callee(token))
}

/// True if our first mark, before which a trunk may have put its own values, has no tag of a trunk yet. It is not verified.
fn awaits_trunk(message: &Message<'_>) -> bool {
    let token = message.values(HeaderName::RecordRoute).find_map(token_of);
    let written = token.and_then(Written::of_token);
    written.and_then(|written| written.identities).is_some_and(|identities| identities.awaits_answer())
}

/// Mark in the first Record-Route.
fn first_token<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    token_of(message.values(HeaderName::RecordRoute).next()?)
}

/// Mark in a Record-Route.
fn token_of(route: &[u8]) -> Option<&[u8]> {
    route.get(written_param(route, WRITTEN_TOKEN)?)
}

/// True for a response after which the caller sends requests in the dialog: a 2xx, or a reliable 1xx (RFC 3262).
fn creates_dialog(message: &Message<'_>) -> bool {
    match message.start() {
        Start::Response { status: 200..=299, .. } => true,
        Start::Response { .. } => message.has(HeaderName::RSeq),
        Start::Request { .. } => false,
    }
}

/// Our mark in the response, and its replacement.
fn changed_token<'a>(
    config: &Config,
    key: &[u8; 16],
    response: &Response<'a, '_>,
) -> Option<(&'a [u8], Vec<u8>)> {
    let (message, responder) = (response.message, response.flow);
    // A proxy after us puts its value before ours; without one the remote target is the Contact.
    let mut next: Option<Uri<'a>> = None;
    let mut ours = None;
    for value in message.values(HeaderName::RecordRoute) {
        let uri = NameAddr::parse(value).ok()?.uri;
        if config.domain_of(&uri).is_some() && uri.params().has(TOKEN) {
            ours = Some(uri);
            break;
        }
        next = Some(uri);
    }
    let ours = ours?;
    let old = ours.params().value(TOKEN)?;
    let written = Written::of_token(old)?;
    let awaits_answer = written.identities.is_some_and(|identities| identities.awaits_answer());
    if !awaits_answer && !matches!(written.callee, Side::Contact(_)) {
        return None;
    }
    let contact = contact_of(message);
    let mut sources = written.sources;
    let callee = match (written.callee, next.or(contact).map(|uri| hop_of(config, &uri))) {
        (Side::Contact(_), Some(NextHop::Flow(hop)))
            if creates_dialog(message) && is_credible(hop.remote.ip(), responder.remote.ip(), config) =>
        {
            if let (true, [_, target]) = (sources != Sources::NONE, &mut sources.callee) {
                *target = SourceHash::of(key, hop.remote.ip());
            }
            Side::Contact(TargetHash::of_flow(key, &hop))
        }
        (Side::Contact(sent_to), Some(NextHop::Name(host))) if creates_dialog(message) => {
            // The name has any number of addresses.
            sources.callee = [SourceHash::NONE; 2];
            let is_believed = calls_for_us(config, responder.remote.ip());
            Side::Named { name: host.hash(key), contact: sent_to, is_believed }
        }
        (callee, _) => callee,
    };
    let mut identities = written.identities;
    // Who got the mark of an INVITE for a trunk could write it into a response of another INVITE.
    let is_sent_to_callee = response
        .sent_to
        .is_none_or(|sent_to| written.callee == Side::Contact(TargetHash::of_flow(key, sent_to)));
    if let Some(Identities { called_trunk: Some(answer @ None), .. }) = &mut identities
        && is_sent_to_callee
    {
        let target = contact.map_or(UriHash::NONE, |uri| UriHash::of(key, &uri));
        *answer = Some(Answer { tag: TagHash::of(key, message.to().tag()?), target });
    }
    if (callee, identities) != (written.callee, written.identities)
        && let Some(Mark::Dialog { from: caller, made_s, .. }) = Mark::read(key, message, &ours)
    {
        let mut new = Vec::new();
        Token::Dialog { caller, callee, sources, identities }.write(key, message, made_s, &mut new);
        return Some((old, new));
    }
    None
}

/// True if a responder may name this address as its remote target: its own, a public one, or, from a private address, a
/// private one that is not loopback, if it is a trunk or the network of the target is named. Addresses of this machine are excluded,
/// and those of trunks and trusted proxies for any other responder: they call for this server, past its destination rules.
pub(crate) fn is_credible(target: IpAddr, responder: IpAddr, config: &Config) -> bool {
    if config.is_same_host(target, responder) {
        return true;
    }
    if config.is_trusted(responder) {
        return may_be_named(config, target);
    }
    let trunking = &config.trunking;
    if (trunking.has_address(target) && !trunking.has_address(responder)) || config.is_trusted(target) {
        return false;
    }
    let is_named = || trunking.has_address(responder) || config.inner_host(target).is_none();
    // Loopback of a server that listens there only, as for a trial, is like any private network.
    let is_near = is_private(responder)
        && responder.is_loopback() == target.is_loopback()
        && (!responder.is_loopback() || config.listens_on_loopback_only())
        && is_named();
    !config.is_of_machine(target) && (!is_private(target) || is_near)
}

/// True for an address that a trusted proxy may name as where a side of a dialog is: not what only programs of this machine reach.
pub(crate) fn may_be_named(config: &Config, target: IpAddr) -> bool {
    config.listens_on_loopback_only() || !(target.is_loopback() || config.is_of_machine(target))
}

/// True for the address of a trunk or a trusted proxy.
pub(crate) fn calls_for_us(config: &Config, ip: IpAddr) -> bool {
    config.trunking.has_address(ip) || config.is_trusted(ip)
}

/// True for an address that the host name of a remote target may have.
pub(crate) fn is_public(config: &Config, ip: IpAddr) -> bool {
    !is_private(ip) && !config.is_of_machine(ip)
}

/// True for a URI with exactly the address of a datagram flow.
pub(crate) fn names_flow(uri: &Uri<'_>, flow: &Flow) -> bool {
    !flow.transport.has_connections()
        && uri.port() == Some(flow.remote.port())
        && uri.host().ip() == Some(flow.remote.ip())
        && uri
            .params()
            .value(b"transport")
            .is_none_or(|name| flow.transport.is_named(uri.scheme() == Scheme::Sips, name))
}

/// Caller's side in the mark: the flow of the responses to its request. Its remote target is recorded if it is that
/// address, or if the sender is believed. Of a request that this server sent to itself it is the mark of then.
pub(crate) fn caller_side(config: &Config, key: &[u8; 16], request: &Request<'_, '_>) -> Side {
    let message = request.message;
    let reply = reply_flow(message.via(), request.flow);
    let name =
        if message.has(HeaderName::RecordRoute) { HeaderName::RecordRoute } else { HeaderName::Contact };
    let target =
        message.values(name).next().and_then(|value| NameAddr::parse(value).ok()).map(|name| name.uri);
    let sender = request.grant.sender;
    if request.grant.returned.is_some() {
        let mark = target.and_then(|uri| read_id(uri.params().value(TOKEN)?));
        return mark.map_or(Side::Contact(TargetHash::NONE), Side::before);
    }
    if !config.leaves_elsewhere(&reply) && target.as_ref().is_some_and(|uri| names_flow(uri, &reply)) {
        return Side::Contact(TargetHash::of_flow(key, &reply));
    }
    // The remote target of a phone with a GRUU is this server: only its flow leads to it.
    let is_gruu = |uri: &Uri<'_>| config.registrar.gruu && config.domain_of(uri).is_some();
    let hop = target.as_ref().filter(|uri| !is_gruu(uri)).map(|uri| hop_of(config, uri));
    let hash = match hop {
        Some(NextHop::Flow(hop)) if needs_listener(config, &hop, &reply) => None,
        Some(NextHop::Flow(hop)) => {
            let is_there = config.is_same_host(hop.remote.ip(), request.flow.remote.ip());
            let is_allowed = (sender.is_believed() && is_there)
                || (sender == Sender::Trusted && may_be_named(config, hop.remote.ip()))
                // A connection verifies its source address; its port may belong to another program after its end.
                || (is_there
                    && reply.transport.has_connections()
                    && !is_private(hop.remote.ip())
                    && hop.remote.port() != reply.remote.port())
                || (hop.remote == reply.remote && !hop.transport.has_connections() && !reply.transport.has_connections());
            is_allowed.then(|| TargetHash::of_flow(key, &hop))
        }
        Some(NextHop::Name { .. } | NextHop::Unreachable) | None => None,
    };
    match (reply.connection, hash) {
        (Some(connection), hash) => {
            Side::Connection(connection, reply.listener, hash.unwrap_or(TargetHash::NONE))
        }
        (None, Some(hash)) => Side::Contact(hash),
        (None, None) => Side::Address(reply.listener, reply.remote),
    }
}

/// True if the address of a flow of datagrams is reached over this flow only: a request to the same address alone would leave by another listener.
pub(crate) fn needs_listener(config: &Config, hop: &Flow, flow: &Flow) -> bool {
    (hop.remote, hop.transport) == (flow.remote, flow.transport) && config.leaves_elsewhere(flow)
}

/// Hash of a URI whose host is `ip`.
pub(crate) fn target_hash_on(
    config: &Config,
    key: &[u8; 16],
    uri: &Uri<'_>,
    ip: core::net::IpAddr,
) -> Option<TargetHash> {
    match hop_of(config, uri) {
        NextHop::Flow(hop) if config.is_same_host(hop.remote.ip(), ip) => {
            Some(TargetHash::of_flow(key, &hop))
        }
        NextHop::Flow(_) | NextHop::Name { .. } | NextHop::Unreachable => None,
    }
}
