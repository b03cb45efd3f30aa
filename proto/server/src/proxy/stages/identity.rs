//! The caller's identity at a trunk: P-Asserted-Identity and Remote-Party-ID (RFC 3325), and From, which the caller gets back as it wrote
//! it.

use super::destinations::Payer;
use crate::base::{Env, Request, Sender};
use crate::config::IdentityTemplate;
use crate::config::identity::{IdentityValues, URI_BYTES_MAX};
use crate::policy::{result_in, without_result};
use crate::proxy::call::Call;
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::rewrite::Rewrite;
use crate::token::Mark;
use crate::token::caller_uri::{CallerUris, is_same, with_uri};
use crate::{CallerNumber, CallerPrivacy, Config, Number, Trunk};
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Message, NameAddr, Uri};

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

/// User who forwards a call to a trunk, by its template.
pub(super) fn diverter(config: &Config, user: &Uri<'_>, trunk: &Trunk) -> Option<Vec<u8>> {
    let template = trunk.identity.diversion.as_ref()?;
    let payer = Payer::of_forward(config, user);
    let number = number_of(&payer, trunk);
    let (user, domain) = (payer.user.as_slice(), trunk.account_domain());
    template.uri(&IdentityValues { user, number: number.as_deref(), domain })
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

/// The called number of a request as a number of E.164, if a trunk, or the users of this domain, write it in another form.
pub(super) fn called_number(
    env: &Env<'_>,
    request: &Request<'_, '_>,
    number: &Number,
    domain: &[u8],
) -> Number {
    let trunking = &env.config.trunking;
    if trunking.dialing.is_empty() && !trunking.changes_numbers() {
        return *number;
    }
    match trunk_of_sender(env, request) {
        Some(trunk) => trunk.numbers_in.read(number),
        None => dialled_number(env.config, number, domain),
    }
}

/// A number that a user of this domain calls, or forwards its calls to, as one of E.164.
pub(super) fn dialled_number(config: &Config, number: &Number, domain: &[u8]) -> Number {
    config.trunking.dialing_of(domain).map_or(*number, |dialing| dialing.called.read(number))
}

/// Trunk that a request comes from.
fn trunk_of_sender<'e>(env: &Env<'e>, request: &Request<'_, '_>) -> Option<&'e Trunk> {
    let trunking = &env.config.trunking;
    match request.line {
        Some(line) => trunking.trunks.get(line),
        None => trunking.trunk_of(request.client(env.config)),
    }
}

/// Changes From of a request whose next hop has another one than the caller: of the first request by its target, or by the form of a
/// trunk's numbers; in a dialog as its Route says. A tag in To alone proves no dialog.
pub(super) fn change(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    let (message, key) = (plan.request().message, &env.keys.route);
    let from = &message.from().uri;
    // That of a request which this server sent to itself is of no dialog, if it begins one.
    let begins = message.to().tag().is_none() && plan.request().grant.returned.is_some();
    if plan.routed().mark.is_some() && !begins {
        if let Some(uris) = CallerUris::of_request(env.config, key, message) {
            return change_in_dialog(env, plan, &uris, changes);
        }
        if message.to().tag().is_some() {
            return;
        }
    }
    let mut is_stripped = false;
    let shown = match plan.shown_from() {
        Some(shown) => Some(shown.to_vec()),
        None => {
            let read = normalised(env, plan, changes);
            let is_sent = env.features.stir() && !plan.returns_here();
            let stripped = is_sent.then(|| {
                without_result(env.config, plan.request(), read.as_deref().unwrap_or(from.as_bytes()))
            });
            let stripped = stripped.flatten();
            is_stripped = stripped.is_some();
            stripped.or(read)
        }
    };
    let is_other = |shown: &Vec<u8>| Uri::parse(shown).is_ok_and(|shown| !is_same(&shown, from));
    let own = from.as_bytes();
    let Some(shown) = shown else { return };
    if !(from.is_sip() && own.len() <= URI_BYTES_MAX && is_other(&shown)) {
        // The same caller without the result that it wrote itself: the tags identify the dialog.
        if is_stripped {
            show(plan, &shown, changes);
        }
        return;
    }
    if plan.returns_here() {
        // The last pass changes From, and cannot read the trunk from the request.
        return CallerUris { own: own.to_vec(), shown }.write(key, message, &mut changes.own_route_params);
    }
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

/// From with its number in the form of who is called: as one of E.164, if a trunk wrote it in its own form, and as the users of the called
/// domain write it. The P-Asserted-Identity of such a request changes with it.
fn normalised(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) -> Option<Vec<u8>> {
    let trunking = &env.config.trunking;
    let (request, message) = (plan.request(), plan.request().message);
    let returns_here = plan.returns_here();
    // A request to itself keeps its sender's address, but not the contact that it was sent to.
    if returns_here && request.line.is_none() {
        return None;
    }
    let received = || CallerUris::of_request(env.config, &env.keys.route, message);
    let shown = if request.grant.returned.is_some() { received() } else { None };
    let trunk = if trunking.changes_numbers() { trunk_of_sender(env, request) } else { None };
    let trunk = trunk.filter(|trunk| trunk.numbers_in.changes());
    let is_for_phone = plan.contact().is_some() && !returns_here;
    let domain = env.config.domain_of(&request.uri).filter(|_| is_for_phone);
    let form = domain.and_then(|domain| trunking.dialing_of(domain.as_bytes()));
    let form = form.map(|dialing| &dialing.callers).filter(|form| form.changes());
    let written = |uri: &Uri<'_>| {
        let (number, _) = Number::of_uri(uri)?;
        let read = trunk.map_or(number, |trunk| trunk.numbers_in.read(&number));
        with_number(uri, &number, &form.map_or(read, |form| form.write(&read)))
    };
    if trunk.is_none() && form.is_none() {
        return shown.map(|uris| uris.shown);
    }
    if is_for_phone
        && let Some(value) = message.first(HeaderName::PAssertedIdentity)
        && let Some(uri) = NameAddr::parse(value).ok().and_then(|name| written(&name.uri))
        && let Some(value) = with_uri(value, &uri)
    {
        changes.values.push((HeaderName::PAssertedIdentity, value));
    }
    match &shown {
        Some(uris) => written(&Uri::parse(&uris.shown).ok()?).or_else(|| Some(uris.shown.clone())),
        None => written(&message.from().uri),
    }
}

/// A URI with another number than `old`; `None`: it is the same, or it is no SIP URI.
fn with_number(uri: &Uri<'_>, old: &Number, new: &Number) -> Option<Vec<u8>> {
    if old == new || !uri.is_sip() {
        return None;
    }
    let (user, bytes) = (uri.user()?, uri.as_bytes());
    let at = memchr::memchr(b':', bytes)? + 1;
    let rest = bytes.get(at..)?.strip_prefix(user)?;
    // This server may have set it before the request came to this shard.
    Some([bytes.get(..at)?, new.as_bytes(), result_in(user), rest].concat())
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
