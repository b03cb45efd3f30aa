//! The callee's remote target, as its response names it (RFC 3261 §12.1.2).

use super::forward::names_flow;
use crate::auth::is_private;
use crate::route::{Hop, hop_of};
use crate::server::Source;
use crate::token::{Mark, Place, Side, TOKEN, Token};
use crate::{Config, Listener};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::Flow;
use ringway_sip::{Edit, HeaderName, Message, NameAddr, Start, Uri};

/// Writes our marks anew in a response that establishes a dialog, when requests to the callee will go elsewhere than the INVITE
/// went. One that this server sent to itself was written when it came the first time.
pub(super) fn record(
    config: &Config,
    key: &[u8; 16],
    message: &Message<'_>,
    source: &Source<'_>,
    edit: &mut Edit<'_, '_>,
) {
    let responder = source.flow;
    if !message.has(HeaderName::RecordRoute)
        || message.to().tag().is_none()
        || !makes_dialog(message)
        || source.sent_to.is_some_and(|sent_to| is_usual(message, sent_to))
        || config.is_own_address(responder.remote)
    {
        return;
    }
    let Some((old, new)) = changed_token(config, key, message, responder) else { return };
    let values: Vec<&[u8]> = message.values(HeaderName::RecordRoute).collect();
    edit.remove_lines(HeaderName::RecordRoute, |_| true);
    for value in values {
        edit.push_last(HeaderName::RecordRoute, |out| match memchr::memmem::find(value, old) {
            Some(at) => {
                out.extend_from_slice(value.get(..at).unwrap_or_default());
                out.extend_from_slice(&new);
                out.extend_from_slice(value.get(at + old.len()..).unwrap_or_default());
            }
            None => out.extend_from_slice(value),
        });
    }
}

/// True when the Contact is the address that the request was sent to, and no proxy behind us recorded its route: the mark names
/// that address.
fn is_usual(message: &Message<'_>, sent_to: &Flow) -> bool {
    let is_ours = |route: &[u8]| memchr::memmem::find(route, b";rw=").is_some();
    let contact = message.first(HeaderName::Contact).and_then(|value| NameAddr::parse(value).ok());
    message.values(HeaderName::RecordRoute).next().is_some_and(is_ours)
        && contact.is_some_and(|contact| names_flow(&contact.uri, sent_to))
}

/// True for a response that the caller sends requests after: a 2xx, or a 1xx that it acknowledges (RFC 3262).
fn makes_dialog(message: &Message<'_>) -> bool {
    match message.start() {
        Start::Response { status: 200..=299, .. } => true,
        Start::Response { .. } => message.has(HeaderName::RSeq),
        Start::Request { .. } => false,
    }
}

/// Our token as it came back, and what it must be.
fn changed_token<'a>(
    config: &Config,
    key: &[u8; 16],
    message: &Message<'a>,
    responder: &Flow,
) -> Option<(&'a [u8], Vec<u8>)> {
    // A proxy behind us put its own value before ours; without one the remote target is the Contact.
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
    let contact = || NameAddr::parse(message.values(HeaderName::Contact).next()?).ok().map(|name| name.uri);
    let old = ours.params().value(TOKEN)?;
    let Some(Side::Contact(sent_to)) = Side::written_callee(old) else { return None };
    let callee = match hop_of(config, &next.or_else(contact)?) {
        Hop::Flow(hop) if is_credible(hop.remote.ip(), responder.remote.ip(), config) => {
            Side::Contact(Place::of_flow(key, &hop))
        }
        Hop::Name { host, port, transport } => {
            Side::Named { name: Place::of_name(key, transport, host, port), contact: sent_to }
        }
        Hop::Flow(_) | Hop::Unreachable => return None,
    };
    if callee != Side::Contact(sent_to)
        && let Some(Mark::Dialog { to, from: caller, made_s, .. }) = Mark::read(key, message, &ours)
        && to == Side::Contact(sent_to)
    {
        let mut new = Vec::new();
        Token::Dialog { caller, callee }.write(key, message, made_s, &mut new);
        return Some((old, new));
    }
    None
}

/// True when a responder may name this address as its remote target: its own, a public one, or from a private address a private
/// one that is not loopback. No address of this machine.
fn is_credible(target: IpAddr, responder: IpAddr, config: &Config) -> bool {
    if config.is_same_place(target, responder) || config.is_trusted(responder) {
        return true;
    }
    let is_near = is_private(responder) && !responder.is_loopback() && !target.is_loopback();
    !is_of_machine(config, target) && (!is_private(target) || is_near)
}

/// True for an address that the host name of a remote target may have.
pub(super) fn is_public(config: &Config, ip: IpAddr) -> bool {
    !is_private(ip) && !is_of_machine(config, ip)
}

fn is_of_machine(config: &Config, ip: IpAddr) -> bool {
    let is_listener = |listener: &Listener| [listener.bound.ip(), listener.advertised.ip()].contains(&ip);
    config.machine_addresses.contains(&ip) || config.listeners.iter().any(is_listener)
}
