//! The caller's identity at a trunk: P-Asserted-Identity and Remote-Party-ID (RFC 3325), and From, which the caller gets back as it wrote
//! it.

use super::destinations::Payer;
use crate::base::{Env, Request, Sender};
use crate::config::identity::{IdentityValues, URI_BYTES_MAX};
use crate::config::{IdentityTemplate, NumberForm};
use crate::policy::without_result;
use crate::proxy::call::Call;
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::rewrite::Rewrite;
use crate::token::Mark;
use crate::token::caller_uri::{CallerUris, is_same, with_uri};
use crate::{CallerNumber, CallerPrivacy, Number, Trunk};
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Message, Uri};

/// Sets the caller's identity for a target at a trunk. That of a trusted proxy is believed, unless the trunk has a number for the user.
pub(super) fn add(call: &Call<'_, '_>, payer: &Payer, trunk: &Trunk, rewrite: &mut Rewrite) {
    if trunk.privacy == CallerPrivacy::Id {
        rewrite.replace_line(HeaderName::Privacy, b"id");
    }
    let number = number_of(payer, trunk);
    let number = number.as_deref();
    let values = IdentityValues { user: payer.user.as_slice(), number, domain: trunk.account_domain() };
    let uri_of =
        |template: &Option<IdentityTemplate>| template.as_ref().and_then(|template| template.uri(&values));
    if let Some(uri) = uri_of(&trunk.identity.from)
        && !is_anonymous(&call.request.message.from().uri)
    {
        rewrite.set_from(&uri);
    }
    let remote_party = uri_of(&trunk.identity.remote_party).map(|uri| [b"<", uri.as_slice(), b">"].concat());
    let request = call.request;
    let is_asserted =
        request.grant.sender == Sender::Trusted && request.message.has(HeaderName::PAssertedIdentity);
    let identity = match (uri_of(&trunk.identity.asserted), number) {
        (Some(uri), _) => Some([b"<", uri.as_slice(), b">"].concat()),
        (None, Some(number)) => Some([b"<sip:", number, b"@", values.domain, b";user=phone>"].concat()),
        (None, None) if is_asserted => None,
        (None, None) => Some([b"<sip:", values.user, b"@", payer.aor.domain(), b">"].concat()),
    };
    if remote_party.is_some() || identity.is_some() {
        rewrite.remove_lines(HeaderName::RemotePartyId);
    }
    if let Some(value) = remote_party {
        rewrite.push_line(HeaderName::RemotePartyId, &value);
    }
    if let Some(identity) = identity {
        rewrite.replace_line(HeaderName::PAssertedIdentity, &identity);
    }
}

/// True if the administrator has given the caller a number at a trunk.
pub(super) fn has_number(payer: &Payer, trunk: &Trunk) -> bool {
    number_of(payer, trunk).is_some()
}

/// The caller's number at a trunk, in its form.
fn number_of(payer: &Payer, trunk: &Trunk) -> Option<Vec<u8>> {
    if let Some(number) = &payer.number {
        return Some(in_form(trunk, number));
    }
    let user = match payer.aor.user() {
        [] => payer.user.as_slice(),
        unescaped => unescaped,
    };
    let of_user = trunk.callers.binary_search_by(|(name, _)| name.as_bytes().cmp(user)).ok();
    let of_user = of_user.and_then(|at| trunk.callers.get(at)).map(|(_, number)| number);
    let number = match &trunk.caller {
        CallerNumber::User => of_user,
        CallerNumber::Number(number) => of_user.or(Some(number)),
    };
    number.map(|number| in_form(trunk, number))
}

fn in_form(trunk: &Trunk, number: &str) -> Vec<u8> {
    match Number::parse(number.as_bytes()) {
        Some(number) => trunk.numbers_out.write(&number).as_bytes().to_vec(),
        None => number.as_bytes().to_vec(),
    }
}

/// The called number of a request as a number of E.164, if a trunk sent it in another form.
pub(super) fn called_number(env: &Env<'_>, request: &Request<'_, '_>, number: Number) -> Number {
    form_of_sender(env, request).map_or(number, |form| form.read(&number))
}

/// Form of the numbers in a request, if it is a trunk's.
fn form_of_sender<'e>(env: &Env<'e>, request: &Request<'_, '_>) -> Option<&'e NumberForm> {
    env.config.trunking.form_of(|| request.client(env.config))
}

/// Changes From of a request whose next hop has another one than the caller: of the first request by its target, or by the form of a
/// trunk's numbers; in a dialog as its Route says. A tag in To alone proves no dialog.
pub(super) fn change(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    let (message, key) = (plan.request().message, &env.keys.route);
    let from = &message.from().uri;
    if plan.routed().mark.is_some() {
        if let Some(uris) = CallerUris::of_request(env.config, key, message) {
            return change_in_dialog(env, plan, &uris, changes);
        }
        if message.to().tag().is_some() {
            return;
        }
    }
    let shown = match plan.shown_from() {
        Some(shown) => Some(shown.to_vec()),
        None => {
            let read = normalised(env, plan);
            let is_sent = env.features.stir() && !plan.returns_here();
            let stripped = is_sent.then(|| {
                without_result(env.config, plan.request(), read.as_deref().unwrap_or(from.as_bytes()))
            });
            stripped.flatten().or(read)
        }
    };
    let is_other = |shown: &Vec<u8>| Uri::parse(shown).is_ok_and(|shown| !is_same(&shown, from));
    let own = from.as_bytes();
    let Some(shown) = shown.filter(|shown| from.is_sip() && own.len() <= URI_BYTES_MAX && is_other(shown))
    else {
        return;
    };
    show(plan, &shown, changes);
    if plan.begins_dialog() && message.to().tag().is_none() {
        CallerUris { own: own.to_vec(), shown }.write(key, message, &mut changes.route_params);
    }
}

/// The same in a dialog. This server itself gets the caller's own, and the other one beside its mark.
fn change_in_dialog(env: &Env<'_>, plan: &Plan<'_, '_, '_>, uris: &CallerUris, changes: &mut Changes) {
    let message = plan.request().message;
    let Ok(own) = Uri::parse(&uris.own) else { return };
    let is_of_callee = matches!(plan.routed().mark, Some(Mark::Dialog { is_of_caller: false, .. }));
    if !is_of_callee && is_same(&message.from().uri, &own) {
        match plan.returns_here() {
            true => uris.write(&env.keys.route, message, &mut changes.own_route_params),
            false => show(plan, &uris.shown, changes),
        }
    } else if is_of_callee
        && is_same(&message.to().uri, &own)
        && let Some(to) = message.first(HeaderName::To).and_then(|to| with_uri(to, &uris.shown))
    {
        changes.came = Some((HeaderName::To, to));
    }
}

/// Sets the URI in From; responses get the caller's.
fn show(plan: &Plan<'_, '_, '_>, uri: &[u8], changes: &mut Changes) {
    let Some(from) = plan.request().message.first(HeaderName::From) else { return };
    if let Some(value) = with_uri(from, uri) {
        changes.values.push((HeaderName::From, value));
        changes.came = Some((HeaderName::From, from.to_vec()));
    }
}

/// From of a trunk's request with its number as one of E.164, on the way to who is called.
fn normalised(env: &Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<Vec<u8>> {
    let from = &plan.request().message.from().uri;
    let form = form_of_sender(env, plan.request())?;
    if plan.returns_here() || !from.is_sip() {
        return None;
    }
    let (number, _) = Number::of_uri(from)?;
    let read = form.read(&number);
    if read == number {
        return None;
    }
    let (user, uri) = (from.user()?, from.as_bytes());
    let at = memchr::memchr(b':', uri)? + 1;
    let rest = uri.get(at..)?.strip_prefix(user)?;
    Some([uri.get(..at)?, read.as_bytes(), rest].concat())
}

/// Bytes that a branch keeps for its responses.
pub(super) fn cost_of(message: &Message<'_>) -> usize {
    let len_of = |name| message.first(name).map_or(0, <[u8]>::len);
    len_of(HeaderName::From).max(len_of(HeaderName::To))
}

/// True for a caller that is not to be known.
fn is_anonymous(from: &Uri<'_>) -> bool {
    let is_invalid = from.host().as_bytes().to_ascii_lowercase().ends_with(b"anonymous.invalid");
    is_invalid || from.user().is_some_and(|user| user.eq_ignore_ascii_case(b"anonymous"))
}
