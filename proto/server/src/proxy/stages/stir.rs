//! Signed identities of callers (RFC 8224): calls to trunks are signed, and the called phone gets the result of the verification of a
//! trunk's calls.

use super::destinations::Payer;
use super::{call_limits, identity};
use crate::base::{DateText, Env, Sender, Verstat};
use crate::config::NumberForm;
use crate::policy::{ASSERTED_MAX, VERSTAT, calling_trunk, has_verstat, signed_form, without_verstat};
use crate::proxy::call::Call;
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::rewrite::{Rewrite, Signature};
use crate::report::Report;
use crate::token::caller_uri::with_uri;
use crate::{CallSigner, Number, Trunk};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use ringway_auth::stir::{Attestation, Claims, Passport, PassportKind};
use ringway_sip::{HeaderName, Message, Method, NameAddr, Uri};

/// Has the call signed that a target at a trunk gets, if the trunk wants that.
pub(super) fn mark(call: &Call<'_, '_>, payer: &Payer, trunk: &Trunk, rewrite: &mut Rewrite) {
    if !trunk.stir.signs || !call_limits::begins_call(call.request) {
        return;
    }
    let is_user = call.request.grant.sender.is_user();
    let attestation = match (payer.is_forward, is_user) {
        // Its user pays for it; who calls is another one.
        (true, _) => Attestation::Partial,
        (false, true) if identity::has_number(payer, trunk) => Attestation::Full,
        (false, true) => Attestation::Partial,
        (false, false) => Attestation::Gateway,
    };
    rewrite.sign(Signature { attestation, is_forward: payer.is_forward });
}

/// Changes a request on the way to its next hop.
pub(super) fn change(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    let request = plan.request();
    if request.method != Method::Invite || request.grant.dialog.is_some() {
        return;
    }
    show_result(env, plan, changes);
    let config = env.config;
    let trunk = plan.configured_hop().and_then(|hop| config.trunking.trunks.get(hop));
    if let (Some(signature), Some(trunk), Some(signer)) = (plan.signature(), trunk, &config.stir.signer) {
        sign(env, plan, signature, trunk, signer, changes);
    }
}

/// Adds the Identity header fields of a call to a trunk. One that somebody else has signed stays as it is.
fn sign(
    env: &mut Env<'_>,
    plan: &Plan<'_, '_, '_>,
    signature: Signature,
    trunk: &Trunk,
    signer: &CallSigner,
    changes: &mut Changes,
) {
    let (request, form) = (plan.request(), &trunk.numbers_out);
    let message = request.message;
    let called = plan.hop_target().and_then(|uri| global_form(&uri, form));
    let made_s = env.cx.now.as_secs();
    if message.has(HeaderName::Identity) {
        if !request.grant.sender.is_user() {
            let div = called.filter(|_| signature.is_forward);
            let div = div.and_then(|called| diversion(message, called, made_s));
            if let Some(div) = div {
                changes.added.push((HeaderName::Identity, signer.identity(PassportKind::Div, &div)));
            }
            return;
        }
        changes.removed.push(HeaderName::Identity);
    }
    let Some((origin, called)) = caller_of(plan, form, changes).zip(called) else {
        return env.report(request, Report::IdentityNotSigned);
    };
    let to = Number::of_uri(&message.to().uri);
    let domain = env.config.domain_of(&message.to().uri).map_or(&b""[..], |domain| domain.as_bytes());
    let to = to
        .map(|(number, _)| identity::called_number(env, request, &number, domain))
        .and_then(|number| digits_of(&number));
    // The call of somebody else was to another number at first (RFC 8946 §4.1).
    let first = to.filter(|to| signature.is_forward && *to != called && *to != origin);
    let claims = Claims {
        origin,
        destinations: vec![first.clone().unwrap_or_else(|| called.clone())],
        made_s,
        attestation: Some(signature.attestation),
        origin_id: env.config.stir.origin_id.clone(),
        diverted: Box::default(),
    };
    changes.added.push((HeaderName::Identity, signer.identity(PassportKind::Shaken, &claims)));
    if let Some(diverted) = first {
        let claims = Claims {
            destinations: vec![called],
            diverted,
            attestation: None,
            origin_id: Box::default(),
            ..claims
        };
        changes.added.push((HeaderName::Identity, signer.identity(PassportKind::Div, &claims)));
    }
    set_date(env, message, changes);
    env.report(request, Report::IdentitySigned { attested: signature.attestation.letter() });
}

/// RFC 8224 §4.1: a signed call has the time of its signature.
fn set_date(env: &Env<'_>, message: &Message<'_>, changes: &mut Changes) {
    let date = DateText::default().at(env.cx.now).to_vec();
    match message.has(HeaderName::Date) {
        true => changes.values.push((HeaderName::Date, date)),
        false => changes.added.push((HeaderName::Date, date)),
    }
}

/// Claims about the diversion of a call that somebody else has signed, to this number. `None`: the call is for it already, or has no
/// identity that can be continued.
fn diversion(message: &Message<'_>, called: Box<str>, made_s: u64) -> Option<Claims> {
    let identities = message.lines_of(HeaderName::Identity).take(IDENTITIES_MAX);
    let last = identities.filter_map(|value| Passport::parse(value).ok()).last()?;
    let Claims { origin, destinations, .. } = last.claims;
    let diverted = destinations.into_iter().next().filter(|to| *to != called && !origin.is_empty())?;
    let is_number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'#' | b'*'));
    if !is_number(&origin) || !is_number(&diverted) {
        return None;
    }
    Some(Claims { origin, destinations: vec![called], made_s, diverted, ..Claims::default() })
}

/// Number of the caller as the trunk gets it: that of P-Asserted-Identity, or of From.
fn caller_of(plan: &Plan<'_, '_, '_>, form: &NumberForm, changes: &Changes) -> Option<Box<str>> {
    let message = plan.request().message;
    let number_of = |value: &[u8]| global_form(&NameAddr::parse(value).ok()?.uri, form);
    if let Some(asserted) = plan.rewrite().and_then(|rewrite| rewrite.line(HeaderName::PAssertedIdentity)) {
        return number_of(asserted);
    }
    if !plan.request().grant.sender.is_user() && message.has(HeaderName::PAssertedIdentity) {
        return message.values(HeaderName::PAssertedIdentity).take(ASSERTED_MAX).find_map(number_of);
    }
    let shown = changes.values.iter().find(|(name, _)| *name == HeaderName::From);
    shown.map_or_else(|| global_form(&message.from().uri, form), |(_, value)| number_of(value))
}

/// Number of E.164 of a URI, without `+`.
fn global_form(uri: &Uri<'_>, form: &NumberForm) -> Option<Box<str>> {
    let (number, _) = Number::of_uri(uri)?;
    digits_of(&form.read(&number))
}

fn digits_of(number: &Number) -> Option<Box<str>> {
    let digits = number.as_bytes().strip_prefix(b"+")?;
    let is_number = (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(digits).ok().filter(|_| is_number).map(Into::into)
}

/// Sets the result of the verification in P-Asserted-Identity, which the called phone shows, and removes what the sender has written there.
fn show_result(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    let request = plan.request();
    let trunk = calling_trunk(env.config, request);
    // That of any other sender is removed, and what a proxy of the administrator has written stays.
    let is_kept = match request.grant.sender {
        Sender::Trusted => trunk.is_some(),
        Sender::Believed => true,
        Sender::Proven | Sender::ProvenUnnamed | Sender::InDialog | Sender::Stranger | Sender::Unknown => {
            false
        }
    };
    let is_at_trunk = plan.configured_hop().is_some_and(|hop| !env.config.trunking.is_node(hop));
    let is_replaced = || plan.rewrite().is_some_and(|rewrite| rewrite.removes(HeaderName::PAssertedIdentity));
    // At its first pass this server has set it.
    if !is_kept || (request.grant.returned.is_some() && !is_at_trunk) || is_replaced() {
        return;
    }
    let verstat = if is_at_trunk { Verstat::Absent } else { request.grant.verstat };
    let message = request.message;
    // In the form of the called phone's numbers.
    let changed = changes.values.iter().position(|(name, _)| *name == HeaderName::PAssertedIdentity);
    let first = changed.and_then(|at| changes.values.get(at)).map(|(_, value)| value.clone());
    let values = message.values(HeaderName::PAssertedIdentity).take(ASSERTED_MAX);
    let asserted: Vec<&[u8]> =
        first.as_deref().into_iter().chain(values.skip(usize::from(first.is_some()))).collect();
    if verstat == Verstat::Absent && !asserted.iter().any(|value| has_verstat(value)) {
        return;
    }
    let set = |value: &[u8]| {
        let uri = NameAddr::parse(value).ok()?.uri;
        with_uri(value, &with_verstat(&uri, verstat))
    };
    let values: Vec<Vec<u8>> = match asserted.is_empty() {
        false => asserted.into_iter().filter_map(set).collect(),
        true => {
            let from = changes.values.iter().find(|(name, _)| *name == HeaderName::From);
            let from =
                from.map_or_else(|| message.first(HeaderName::From).unwrap_or_default(), |(_, from)| from);
            let uri = NameAddr::parse(from).ok().map(|from| from.uri);
            let form = trunk.map_or(&NumberForm::Unchanged, |trunk| &trunk.numbers_in);
            let uri = uri.filter(|uri| signed_form(uri, form).is_some());
            uri.map(|uri| [b"<", with_verstat(&uri, verstat).as_slice(), b">"].concat()).into_iter().collect()
        }
    };
    if let Some(at) = changed {
        changes.values.remove(at);
    }
    changes.removed.push(HeaderName::PAssertedIdentity);
    if !values.is_empty() {
        changes.added.push((HeaderName::PAssertedIdentity, values.join(&b", "[..])));
    }
}

/// A URI with this result, if it is one of a number: in the user part, which is that of a `tel:` URI.
fn with_verstat(uri: &Uri<'_>, verstat: Verstat) -> Vec<u8> {
    let mut changed = without_verstat(uri.as_bytes());
    let is_number = Uri::parse(&changed).is_ok_and(|uri| Number::of_uri(&uri).is_some());
    let Some(value) = verstat.value().filter(|_| is_number) else { return changed };
    let at = memchr::memchr(b'@', &changed).filter(|_| uri.is_sip()).unwrap_or(changed.len());
    changed.splice(at..at, [VERSTAT, b"=", value].concat());
    // RFC 3261 §19.1.6: only with it has the user part parameters.
    if uri.is_sip() && uri.headers().is_empty() && !uri.params().has(b"user") {
        changed.extend_from_slice(b";user=phone");
    }
    changed
}

/// Maximum number of digits (E.164).
const DIGITS_MAX: usize = 15;
/// Maximum number of Identity header fields that are read.
const IDENTITIES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_set_in_the_number_and_replaces_that_of_the_sender() {
        for (uri, expected) in [
            ("sip:+1215@h;user=phone", "sip:+1215;verstat=TN-Validation-Failed@h;user=phone"),
            (
                "sip:+1215;verstat=TN-Validation-Passed@h",
                "sip:+1215;verstat=TN-Validation-Failed@h;user=phone",
            ),
            (
                "sip:+1215;VerStat=x;verstat;cpc=a@h;user=phone",
                "sip:+1215;cpc=a;verstat=TN-Validation-Failed@h;user=phone",
            ),
            ("tel:+1215", "tel:+1215;verstat=TN-Validation-Failed"),
            ("tel:+1215;verstat=TN-Validation-Passed", "tel:+1215;verstat=TN-Validation-Failed"),
            ("sip:alice;verstat=TN-Validation-Passed@h", "sip:alice@h"),
            (
                "sip:+1215@h;verstat=TN-Validation-Passed",
                "sip:+1215;verstat=TN-Validation-Failed@h;user=phone",
            ),
        ] {
            let parsed = Uri::parse(uri.as_bytes()).unwrap();
            let changed = with_verstat(&parsed, Verstat::Failed);
            assert_eq!(core::str::from_utf8(&changed).unwrap(), expected);
        }
        assert_eq!(without_verstat(b"sip:a;verstatus=1@h"), b"sip:a;verstatus=1@h");
    }
}
