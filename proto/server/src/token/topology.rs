//! Messages as a trunk sees them, and those of a trunk as the sides inside see them (decision 0063).

use super::caller_uri::with_own_uri;
use super::hidden::{CALL_ID_BYTES_MAX, Cover, HIDDEN_BYTES_MAX, ROUTES, TrunkSide, WITHOUT_ROUTES_BYTES};
use super::{Mark, written_param};
use crate::Config;
use crate::config::{SentBy, Trunk, is_private};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::{Flow, Transport};
use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message, NameAddr, Uri};

/// Call of a trunk with hidden topology: the key, and the address that the trunk has of this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside<'e> {
    config: &'e Config,
    cover: Cover<'e>,
    host: SentBy<'e>,
    transport: Transport,
}

impl<'e> Outside<'e> {
    /// `key` is that of what is hidden, `flow` leads to the trunk.
    pub(crate) fn new(config: &'e Config, key: &'e [u8; 16], flow: &Flow) -> Self {
        Self {
            config,
            cover: Cover::new(key),
            host: config.sent_by(flow.listener, flow.remote.ip()),
            transport: flow.transport,
        }
    }

    /// Hides Call-ID, Contacts and the dialogs that a message names. Record-Routes are hidden by [`Self::take_routes`] and
    /// [`Self::hide_answered_routes`], Vias by who forwards a request.
    pub(crate) fn hide(&self, message: &Message<'_>, edit: &mut Edit<'_, '_>) {
        let inside = message.call_id();
        edit.set(HeaderName::CallId, |out| self.cover.write_call_id_outside(inside, out));
        if message.has(HeaderName::Contact) {
            edit.remove_lines(HeaderName::Contact, |_| true);
            for contact in message.values(HeaderName::Contact).take(CONTACTS_MAX) {
                let Ok(name) = NameAddr::parse(contact) else { continue };
                self.hide_contact(inside, &name, None, edit);
            }
        }
        self.hide_dialogs(message, edit);
    }

    /// The same for a redirection of `phone`: only its Contacts with that address or a private one are hidden, because a trunk calls what
    /// the others name without this server.
    pub(crate) fn hide_redirection(&self, message: &Message<'_>, phone: IpAddr, edit: &mut Edit<'_, '_>) {
        let inside = message.call_id();
        edit.set(HeaderName::CallId, |out| self.cover.write_call_id_outside(inside, out));
        edit.remove_lines(HeaderName::Contact, |_| true);
        for contact in message.values(HeaderName::Contact).take(CONTACTS_MAX) {
            let Ok(name) = NameAddr::parse(contact) else { continue };
            match name.uri.host().ip().is_some_and(|ip| ip == phone || is_private(ip)) {
                true => self.hide_contact(inside, &name, name.params.value(b"q"), edit),
                false => edit.push_last(HeaderName::Contact, |out| out.extend_from_slice(contact)),
            }
        }
        self.hide_dialogs(message, edit);
    }

    fn hide_dialogs(&self, message: &Message<'_>, edit: &mut Edit<'_, '_>) {
        if names_dialog(message) {
            edit.change_received(|name, spelled, value| self.with_call_id(name, spelled, value));
        }
    }

    fn hide_contact(&self, call_id: &[u8], name: &NameAddr<'_>, q: Option<&[u8]>, edit: &mut Edit<'_, '_>) {
        let uri = name.uri.as_bytes();
        if uri.len() > HIDDEN_BYTES_MAX {
            return;
        }
        // A request for a GRUU goes to the shard of its user, which the trunk has by other fields.
        let user = match self.config.domain_of(&name.uri) {
            Some(_) => name.uri.user().unwrap_or_default(),
            None => b"",
        };
        edit.push_last(HeaderName::Contact, |out| {
            out.push(b'<');
            self.cover.write_uri(call_id, uri, user, self.host, self.transport, out);
            out.push(b'>');
            q.into_iter().for_each(|q| out.extend_from_slice(&[b";q=", q].concat()));
        });
    }

    /// The value of a field that names a dialog of both sides, as the trunk has it.
    fn with_call_id(&self, name: HeaderName, spelled: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        if name == HeaderName::ReferTo {
            return self.refer_to_outside(value);
        }
        with_call_id(name, spelled, value, |call_id| self.cover.call_id_outside(call_id))
    }

    /// Refer-To with the Call-ID that the trunk has; the address of a phone inside is sealed for the replaced call.
    fn refer_to_outside(&self, value: &[u8]) -> Option<Vec<u8>> {
        let uri = NameAddr::parse(value).ok()?.uri;
        let (before, call_id, behind) = replaced_call_id(value, uri.headers())?;
        let inside = unescape(call_id);
        let mut target = Vec::new();
        let is_inside = self.config.domain_of(&uri).is_none()
            && !uri.host().ip().is_some_and(|ip| self.config.trunking.has_address(ip));
        let bare = uri.as_bytes().split(|&byte| byte == b'?').next().unwrap_or_default();
        let start = memchr::memmem::find(before, bare)?;
        target.extend_from_slice(before.get(..start)?);
        match is_inside && bare.len() <= HIDDEN_BYTES_MAX {
            true => self.cover.write_uri(&inside, bare, b"", self.host, self.transport, &mut target),
            false => target.extend_from_slice(bare),
        }
        target.extend_from_slice(before.get(start + bare.len()..)?);
        target.extend_from_slice(&escaped(&self.cover.call_id_outside(&inside)));
        target.extend_from_slice(behind);
        Some(target)
    }

    /// Removes the Record-Routes of the request, and returns the parameter of ours that has them, with one of ours in front.
    pub(crate) fn take_routes(&self, call_id: &[u8], own: &[u8], edit: &mut Edit<'_, '_>) -> Vec<u8> {
        let own = (!own.is_empty()).then_some(own);
        let routes = joined(own.into_iter().chain(edit.values(HeaderName::RecordRoute)));
        edit.remove_lines(HeaderName::RecordRoute, |_| true);
        let mut param = Vec::new();
        self.cover.write_routes(call_id, TrunkSide::Callee, &routes, &mut param);
        param
    }

    /// Hides the Record-Routes of a response to a trunk: those before ours are in a parameter of it.
    pub(crate) fn hide_answered_routes(&self, call_id: &[u8], edit: &mut Edit<'_, '_>) {
        let values: Vec<Vec<u8>> = edit.values(HeaderName::RecordRoute).map(<[u8]>::to_vec).collect();
        if values.is_empty() {
            return;
        }
        edit.remove_lines(HeaderName::RecordRoute, |_| true);
        let is_ours = |value: &Vec<u8>| self.cover.open_routes(call_id, value).is_some();
        let Some(at) = values.iter().rposition(is_ours) else { return };
        let hidden = joined(values.iter().take(at).rev().map(Vec::as_slice));
        let hidden = if hidden.len() > HIDDEN_BYTES_MAX { Vec::new() } else { hidden };
        let own =
            values.get(at).and_then(|own| with_routes(self.cover, call_id, own, TrunkSide::Caller, &hidden));
        let own = own.into_iter();
        for value in own.chain(values.into_iter().skip(at + 1)) {
            edit.push_last(HeaderName::RecordRoute, |out| out.extend_from_slice(&value));
        }
    }

    /// Parameter of our Record-Route in a request of a trunk.
    pub(crate) fn mark_calling_trunk(&self, call_id: &[u8], out: &mut Vec<u8>) {
        self.cover.write_routes(call_id, TrunkSide::Caller, b"", out);
    }
}

/// Gives a response of a trunk the Record-Routes of inside, and the Call-ID and the Vias of its request in place of ours.
pub(crate) fn show_in_response(key: &[u8; 16], call_id: &[u8], vias: &[u8], edit: &mut Edit<'_, '_>) {
    let cover = Cover::new(key);
    edit.set(HeaderName::CallId, |out| out.extend_from_slice(call_id));
    edit.remove_lines(HeaderName::Via, |_| true);
    edit.push_first(HeaderName::Via, |out| out.extend_from_slice(vias));
    let opened = {
        // Without others behind it ours is the same at both sides.
        let has_routes = |route: &[u8]| {
            written_param(route, ROUTES).is_some_and(|param| param.len() > WITHOUT_ROUTES_BYTES)
        };
        let routes = edit.values(HeaderName::RecordRoute).take(ROUTES_MAX).enumerate();
        let mut routes = routes.filter(|(_, route)| has_routes(route));
        routes.find_map(|(at, route)| Some((at, cover.open_routes(call_id, route)?)))
    };
    let Some((at, (trunk, hidden))) = opened else { return };
    let mut values: Vec<Vec<u8>> = edit.values(HeaderName::RecordRoute).map(<[u8]>::to_vec).collect();
    if let Some(own) = values.get_mut(at)
        && let Some(shown) = with_routes(cover, call_id, own, trunk, b"")
    {
        *own = shown;
    }
    values.insert(at + 1, hidden);
    edit.remove_lines(HeaderName::RecordRoute, |_| true);
    for value in values {
        edit.push_last(HeaderName::RecordRoute, |out| out.extend_from_slice(&value));
    }
}

/// One of our Record-Routes with another parameter.
fn with_routes(
    cover: Cover<'_>,
    call_id: &[u8],
    own: &[u8],
    trunk: TrunkSide,
    routes: &[u8],
) -> Option<Vec<u8>> {
    let param = written_param(own, ROUTES)?;
    let mut out = own.get(..param.start - ROUTES.len())?.to_vec();
    cover.write_routes(call_id, trunk, routes, &mut out);
    out.extend_from_slice(own.get(param.end..)?);
    Some(out)
}

/// True for a trunk that must not see the inside.
fn is_hidden_from(trunk: &Trunk) -> bool {
    trunk.hides_topology && !trunk.is_node
}

/// True if this trunk, or the trunk at the address of a flow, must not see the inside.
pub(crate) fn hides_from(config: &Config, chosen: Option<usize>, flow: &Flow) -> bool {
    match chosen {
        Some(trunk) => config.trunking.trunks.get(trunk).is_some_and(is_hidden_from),
        None => config.trunking.find_at(flow.remote.ip(), is_hidden_from).is_some(),
    }
}

/// Direction of a request in a dialog that hides the inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The trunk sends it.
    Inward,
    /// The trunk gets it.
    Outward,
}

/// The keys by which a message of a trunk is recognised, and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside<'e> {
    config: &'e Config,
    marks: &'e [u8; 16],
    cover: Cover<'e>,
}

impl<'e> Inside<'e> {
    /// `marks` is the key of Record-Route marks, `hidden` that of what is hidden.
    pub(crate) const fn new(config: &'e Config, marks: &'e [u8; 16], hidden: &'e [u8; 16]) -> Self {
        Self { config, marks, cover: Cover::new(hidden) }
    }

    /// The number of our Route with the parameter, the side that is the trunk, and the Routes behind it.
    fn own_route(&self, message: &Message<'_>, call_id: &[u8]) -> Option<(usize, TrunkSide, Vec<u8>)> {
        first_routes(message).enumerate().find_map(|(at, route)| {
            let (trunk, routes) = self.cover.open_routes(call_id, route)?;
            Some((at, trunk, routes))
        })
    }

    /// URIs of our Routes.
    fn own_uris<'m>(&self, message: &Message<'m>) -> impl Iterator<Item = Uri<'m>> {
        let uris = first_routes(message).filter_map(|route| Some(NameAddr::parse(route).ok()?.uri));
        uris.filter(|uri| self.config.domain_of(uri).is_some())
    }

    /// Direction of a request with the Call-ID of inside, and with this mark if it was read; `None`: it is in no dialog that hides the inside.
    pub(crate) fn direction(&self, message: &Message<'_>, mark: Option<Mark>) -> Option<Direction> {
        let (_, trunk, _) = self.own_route(message, message.call_id())?;
        // The mark of the dialog says which side sends.
        let read = || self.own_uris(message).find_map(|uri| Mark::read(self.marks, message, &uri));
        let is_of_trunk = match mark.or_else(read) {
            Some(Mark::Dialog { is_of_caller, .. }) => is_of_caller == (trunk == TrunkSide::Caller),
            Some(Mark::Accepted { .. }) | None => false,
        };
        Some(if is_of_trunk { Direction::Inward } else { Direction::Outward })
    }

    /// True for a request of this direction, with the Call-ID of inside, whose sender is a trunk with hidden topology.
    pub(crate) fn is_of_trunk(
        &self,
        direction: Option<Direction>,
        message: &Message<'_>,
        source: &Flow,
    ) -> bool {
        match direction {
            Some(direction) => direction == Direction::Inward,
            None => hides_from(self.config, None, source) && !self.is_of_open_dialog(message),
        }
    }

    /// True for a request of a dialog that hides nothing: it began before the setting, or with another trunk of that address. The mark of our
    /// Route is bound to the Call-ID that both sides have then.
    pub(crate) fn is_of_open_dialog(&self, message: &Message<'_>) -> bool {
        if message.to().tag().is_none() {
            return false;
        }
        // The mark names the caller by its own URI, which the trunk may not have.
        let own = || with_own_uri(self.config, self.marks, message);
        let parse =
            |bytes: &[u8]| Message::parse(bytes, &Limits::STORED).is_ok_and(|own| self.has_open_mark(&own));
        self.has_open_mark(message) || own().is_some_and(|bytes| parse(&bytes))
    }

    fn has_open_mark(&self, message: &Message<'_>) -> bool {
        self.own_uris(message).any(|uri| {
            !uri.params().has(b"rh")
                && matches!(Mark::read(self.marks, message, &uri), Some(Mark::Dialog { .. }))
        })
    }

    /// A request of a trunk with what the sides inside have; `None`: it is none of a trunk.
    pub(crate) fn request(&self, message: &Message<'_>, uri: &Uri<'_>, source: &Flow) -> Option<Vec<u8>> {
        // A side inside has the Call-ID of inside, to which the parameter is bound.
        if self.own_route(message, message.call_id()).is_some() {
            return None;
        }
        let is_from_address = hides_from(self.config, None, source);
        if !is_from_address && !first_routes(message).any(|route| written_param(route, ROUTES).is_some()) {
            return None;
        }
        let inside = self.cover.call_id_inside(message.call_id());
        let route = self.own_route(message, &inside);
        if route.is_none() && (!is_from_address || self.is_of_open_dialog(message)) {
            return None;
        }
        let (mut space, mut out) = (EditSpace::default(), Vec::new());
        let mut edit = Edit::new(message, &mut space);
        edit.set(HeaderName::CallId, |out| out.extend_from_slice(&inside));
        if let Some(target) = self.target(message, uri, &inside) {
            edit.set_request_uri(&target);
        }
        if names_dialog(message) {
            edit.change_received(|name, spelled, value| match name {
                HeaderName::ReferTo => refer_to_inside(self.cover, value),
                _ => with_call_id(name, spelled, value, |call_id| self.cover.call_id_inside(call_id)),
            });
        }
        if let Some((at, _, hidden)) = route.filter(|(_, _, hidden)| !hidden.is_empty()) {
            let values: Vec<&[u8]> = message.values(HeaderName::Route).collect();
            edit.remove_lines(HeaderName::Route, |_| true);
            for (number, value) in values.into_iter().enumerate() {
                edit.push_last(HeaderName::Route, |out| out.extend_from_slice(value));
                if number == at {
                    edit.push_last(HeaderName::Route, |out| out.extend_from_slice(&hidden));
                }
            }
        }
        edit.write_into(&mut out).ok()?;
        Message::parse(&out, &Limits::STORED).is_ok().then_some(out)
    }

    /// The URI that the Request-URI replaces in this call, or in the one that the request replaces.
    fn target(&self, message: &Message<'_>, uri: &Uri<'_>, inside: &[u8]) -> Option<Vec<u8>> {
        if !uri.params().has(b"rt") || self.config.domain_of(uri).is_none() {
            return None;
        }
        let replaced = || {
            let call_id = self.cover.call_id_inside(call_id_of(message.first(HeaderName::Replaces)?));
            self.cover.open_uri(&call_id, uri)
        };
        self.cover.open_uri(inside, uri).or_else(replaced)
    }

    /// A request of a trunk with the Call-ID that it has, for a response of this server; `None`: it is none of a trunk.
    pub(crate) fn as_trunk_has(&self, message: &Message<'_>, source: &Flow) -> Option<Vec<u8>> {
        if !self.config.trunking.hides_topology()
            || !self.is_of_trunk(self.direction(message, None), message, source)
        {
            return None;
        }
        let outside = self.cover.call_id_outside(message.call_id());
        let (mut space, mut out) = (EditSpace::default(), Vec::new());
        let mut edit = Edit::new(message, &mut space);
        edit.set(HeaderName::CallId, |out| out.extend_from_slice(&outside));
        edit.write_into(&mut out).ok()?;
        Some(out)
    }
}

/// Routes that are searched for ours.
fn first_routes<'m>(message: &Message<'m>) -> impl Iterator<Item = &'m [u8]> {
    message.values(HeaderName::Route).take(OWN_ROUTES_MAX)
}

/// True for a request that begins something, and that has too much to be hidden.
pub(crate) fn is_too_long(message: &Message<'_>) -> bool {
    let routes = || message.values(HeaderName::RecordRoute).map(|value| value.len() + 2).sum::<usize>();
    message.to().tag().is_none()
        && (message.call_id().len() > CALL_ID_BYTES_MAX
            || routes() + OWN_ROUTE_BYTES > HIDDEN_BYTES_MAX
            || message.values(HeaderName::Contact).any(|contact| contact.len() > HIDDEN_BYTES_MAX))
}

/// True if a field of the message names another dialog.
fn names_dialog(message: &Message<'_>) -> bool {
    message.has(HeaderName::Replaces)
        || message.has(HeaderName::ReferTo)
        || message.iter().any(|field| is_named(field.name))
}

fn is_named(spelled: &[u8]) -> bool {
    NAMES_DIALOG.iter().any(|name| name.eq_ignore_ascii_case(spelled))
}

/// The value of Replaces, Join, Target-Dialog or In-Reply-To with another Call-ID.
fn with_call_id(
    name: HeaderName,
    spelled: &[u8],
    value: &[u8],
    other: impl Fn(&[u8]) -> Vec<u8>,
) -> Option<Vec<u8>> {
    if name != HeaderName::Replaces && !is_named(spelled) {
        return None;
    }
    let mut out = Vec::new();
    for (number, value) in value.split(|&byte| byte == b',').enumerate() {
        if number > 0 {
            out.extend_from_slice(b", ");
        }
        let value = value.trim_ascii();
        let call_id = call_id_of(value);
        out.extend_from_slice(&other(call_id));
        out.extend_from_slice(value.get(call_id.len()..).unwrap_or_default());
    }
    Some(out)
}

fn call_id_of(value: &[u8]) -> &[u8] {
    value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii()
}

/// Refer-To of a trunk with the Call-ID of inside, and the URI that it replaces.
fn refer_to_inside(cover: Cover<'_>, value: &[u8]) -> Option<Vec<u8>> {
    let uri = NameAddr::parse(value).ok()?.uri;
    let (before, call_id, behind) = replaced_call_id(value, uri.headers())?;
    let inside = cover.call_id_inside(&unescape(call_id));
    let bare = uri.as_bytes().split(|&byte| byte == b'?').next().unwrap_or_default();
    let start = memchr::memmem::find(before, bare)?;
    let opened = Uri::parse(bare).ok().and_then(|uri| cover.open_uri(&inside, &uri));
    let target = opened.as_deref().unwrap_or(bare);
    Some(
        [before.get(..start)?, target, before.get(start + bare.len()..)?, &escaped(&inside), behind].concat(),
    )
}

/// The Call-ID in `Replaces=` of a URI's headers, with what is before and behind it in the value.
fn replaced_call_id<'v>(value: &'v [u8], headers: &[u8]) -> Option<(&'v [u8], &'v [u8], &'v [u8])> {
    let lower = headers.to_ascii_lowercase();
    let is_name =
        |at: &usize| at.checked_sub(1).and_then(|before| lower.get(before)).is_none_or(|&byte| byte == b'&');
    let name_at = memchr::memmem::find_iter(&lower, b"replaces=").find(is_name)?;
    let start = memchr::memmem::find(value, headers)? + name_at + b"replaces=".len();
    let rest = value.get(start..)?;
    let is_end = |at: usize| {
        let rest = rest.get(at..).unwrap_or_default();
        matches!(rest.first(), Some(b';' | b'&' | b'>'))
            || rest.get(..3).is_some_and(|three| three.eq_ignore_ascii_case(b"%3b"))
    };
    let len = (0..rest.len()).find(|&at| is_end(at))?;
    Some((value.get(..start)?, rest.get(..len)?, rest.get(len..)?))
}

fn unescape(text: &[u8]) -> Vec<u8> {
    ringway_sip::grammar::unescaped(text).into_owned()
}

/// A Call-ID in the headers of a URI (RFC 3261 §19.1.1).
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            true => out.push(byte),
            false => out.extend_from_slice(alloc::format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}

fn joined<'v>(values: impl Iterator<Item = &'v [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
    }
    out
}

/// Fields without a [`HeaderName`] that begin with Call-IDs.
const NAMES_DIALOG: [&[u8]; 3] = [b"Join", b"Target-Dialog", b"In-Reply-To"];
/// Contacts of a message that a trunk gets.
const CONTACTS_MAX: usize = 8;
/// Values of Route that are searched, as for the caller's URIs.
const OWN_ROUTES_MAX: usize = 4;
/// Values of Record-Route that are searched.
const ROUTES_MAX: usize = 32;
/// Room for one Record-Route of this server.
const OWN_ROUTE_BYTES: usize = 300;
