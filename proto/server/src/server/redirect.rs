//! Redirect server (RFC 3261 §8.3).

use crate::base::{Env, Request, Step, write_q};
use crate::dialog::gruu::Gruu;
use crate::dialog::route::Routed;
use crate::location::LocationTable;
use crate::policy::DivertedTo;
use crate::report::Report;
use crate::{Aor, Condition, DiversionReason};
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Method, Scheme, Uri, write_number};
use ringway_transaction::Allowance;

/// Answers 302 with the contacts, the preferred first; 404 for a user that does not exist, 480 for one without a contact.
pub(crate) fn redirect(
    env: &mut Env<'_>,
    table: &LocationTable,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
) {
    let mut aor = Aor::default();
    if !env.config.read_aor(&routed.uri, &mut aor) {
        return env.refuse_plainly(request, 404, "Not Found");
    }
    // RFC 5630 §5.4: a `sips:` request is redirected to `sips:` contacts only.
    let is_sips = routed.uri.scheme() == Scheme::Sips;
    let is_sips_uri = |uri: &[u8]| Uri::parse(uri).is_ok_and(|uri| uri.scheme() == Scheme::Sips);
    let key = &env.keys.gruu;
    let gruu =
        if env.config.registrar.gruu { Gruu::of(key, &routed.uri, request.grant.has_own_uri) } else { None };
    // A GRUU names one phone: the user's forwards do not apply.
    if gruu.is_none()
        && let Some(forward) = forward(env, request, routed, &aor, Condition::Always)
    {
        return answer(env, request, &[forward]);
    }
    // RFC 3261 §8.3: never to the Request-URI itself.
    env.mark(Step::Rest);
    let mut found: Vec<Found> = table
        .lookup(aor.as_bytes(), env.cx.now)
        .filter(|binding| !is_sips || is_sips_uri(binding.uri()))
        .filter(|binding| gruu.as_ref().is_none_or(|gruu| gruu.is_of(key, binding)))
        .inspect(|binding| {
            let has_others = gruu.as_ref().is_some_and(|gruu| gruu.has_other_capitals(binding));
            env.counters.gruu_capitals += u64::from(has_others);
        })
        .filter(|binding| !Uri::parse(binding.uri()).is_ok_and(|contact| contact.equals(&request.uri)))
        .map(|binding| Found {
            q: binding.q,
            uri: binding.uri().to_vec(),
            expires_s: binding.seconds_left(env.cx.now),
        })
        .collect();
    env.mark(Step::FindUser);
    if found.is_empty() {
        let forward = match gruu {
            None => forward(env, request, routed, &aor, Condition::Unregistered),
            Some(_) => None,
        };
        return match forward {
            Some(forward) => answer(env, request, &[forward]),
            None => env.refuse_absent(request, &aor),
        };
    }
    found.sort_by_key(|contact| core::cmp::Reverse(contact.q));
    if !request.is_verified() {
        keep_within_allowance(env, request, &mut found);
        if found.is_empty() {
            return env.refuse_plainly(request, 480, "Contacts Too Long");
        }
    }
    answer(env, request, &found);
}

/// Target of the user's forward for this condition.
fn forward(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    aor: &Aor,
    condition: Condition,
) -> Option<Found> {
    if request.method != Method::Invite || request.message.to().tag().is_some() {
        return None;
    }
    let uri = env.forwards.find(aor.as_bytes())?.target(condition)?.as_str().as_bytes();
    let reason = DiversionReason::Forward(condition);
    let to = DivertedTo::new(env.config, routed.uri.scheme(), uri, reason)?;
    env.report(request, Report::Diverted { condition, target: &to.uri, is_known: true });
    Some(Found { q: 1000, uri: to.uri, expires_s: None })
}

fn answer(env: &mut Env<'_>, request: &Request<'_, '_>, found: &[Found]) {
    env.report(request, Report::RedirectServer { contacts: found.len() });
    env.refuse(request, 302, "Moved Temporarily", |response| {
        for contact in found {
            response.header_with(HeaderName::Contact, |out| {
                out.push(b'<');
                out.extend_from_slice(&contact.uri);
                out.push(b'>');
                write_q(contact.q, out);
                if let Some(left) = contact.expires_s {
                    out.extend_from_slice(b";expires=");
                    write_number(out, left);
                }
            });
        }
    });
}

/// Contact of a 302.
struct Found {
    q: u16,
    uri: Vec<u8>,
    /// Time for which it may be used again (RFC 3261 §21.3.3); `None` for a permanent one.
    expires_s: Option<u64>,
}

/// Drops the least preferred contacts that exceed the allowance of an unverified address.
fn keep_within_allowance(env: &mut Env<'_>, request: &Request<'_, '_>, found: &mut Vec<Found>) {
    let received = request.message.as_bytes().len();
    let mut left = Allowance::generated_max(received).saturating_sub(received + STATUS_BYTES);
    let kept = found.iter().take_while(|contact| {
        let line = contact.uri.len() + CONTACT_BYTES;
        let fits = line <= left;
        left = left.saturating_sub(line);
        fits
    });
    let kept = kept.count();
    if kept < found.len() {
        env.counters.unverified_limited += 1;
        found.truncate(kept);
    }
}

/// Maximum length of a 302 without its request's header fields and its Contacts.
const STATUS_BYTES: usize = 128;
/// Length of `Contact: <`, `>;q=0.123;expires=4294967295` and the end of the line.
const CONTACT_BYTES: usize = 43;
