//! Redirect server (RFC 3261 §8.3).

use crate::env::Env;
use crate::location::LocationTable;
use crate::reply::write_q;
use crate::request::Request;
use crate::route::Routed;
use crate::{Aor, CallStep, Services};
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Method, Scheme, Uri};
use ringway_transaction::Allowance;

/// Answers 302 with the contacts, the preferred first; 404 for a user that does not exist, 480 for one without a contact.
pub(crate) fn redirect(
    env: &mut Env<'_, impl Services>,
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
    // RFC 3261 §8.3: never to the Request-URI itself.
    let mut found: Vec<(u16, Vec<u8>)> = table
        .lookup(aor.as_bytes(), env.cx.now)
        .filter(|binding| !is_sips || is_sips_uri(binding.uri()))
        .filter(|binding| !Uri::parse(binding.uri()).is_ok_and(|contact| contact.equals(&request.uri)))
        .map(|binding| (binding.q, binding.uri().to_vec()))
        .collect();
    if found.is_empty() {
        return env.refuse_absent(request, &aor);
    }
    found.sort_by_key(|(q, _)| core::cmp::Reverse(*q));
    if !request.is_verified() {
        keep_within_allowance(env, request, &mut found);
        if found.is_empty() {
            return env.refuse_plainly(request, 480, "Contacts Too Long");
        }
    }
    env.counters.redirected += 1;
    if request.method == Method::Invite {
        env.observe_call(request, CallStep::Failed(302));
    }
    env.refuse(request, 302, "Moved Temporarily", |response| {
        for (q, uri) in &found {
            response.header_with(HeaderName::Contact, |out| {
                out.push(b'<');
                out.extend_from_slice(uri);
                out.push(b'>');
                write_q(*q, out);
            });
        }
    });
}

/// Drops the least preferred contacts that exceed the allowance of an unverified address.
fn keep_within_allowance<S>(
    env: &mut Env<'_, S>,
    request: &Request<'_, '_>,
    found: &mut Vec<(u16, Vec<u8>)>,
) {
    let received = request.message.as_bytes().len();
    let mut left = Allowance::generated_max(received).saturating_sub(received + STATUS_BYTES);
    let kept = found.iter().take_while(|(_, uri)| {
        let line = uri.len() + CONTACT_BYTES;
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
/// Length of `Contact: <`, `>;q=0.123` and the end of the line.
const CONTACT_BYTES: usize = 24;
