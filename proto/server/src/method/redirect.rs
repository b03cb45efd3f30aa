//! The redirect server (RFC 3261 §8.3): tells the caller where the user is.

use crate::route::Routed;
use crate::server::Request;
use crate::{Action, Aor, CallStep, Server, Services};
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_sip::{HeaderName, Method, Uri};
use ringway_transaction::Allowance;

impl<S: Services> Server<S> {
    /// 302 with the contacts, the preferred first; 404 for users that do not exist, 480 for those that are not there.
    pub(crate) fn redirect(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) {
        let mut aor = Aor::default();
        if !self.config.read_aor(&routed.uri, &mut aor) {
            return self.refuse_plainly(cx, request, 404, "Not Found");
        }
        // RFC 3261 §8.3: never to the URI that was asked for.
        let mut found: Vec<(u16, Vec<u8>)> = self
            .location
            .lookup(aor.as_bytes(), cx.now)
            .filter(|binding| !Uri::parse(binding.uri()).is_ok_and(|contact| contact.equals(&request.uri)))
            .map(|binding| (binding.q, binding.uri().to_vec()))
            .collect();
        if found.is_empty() {
            return self.refuse_absent(cx, request, &aor);
        }
        found.sort_by_key(|(q, _)| core::cmp::Reverse(*q));
        if !request.is_verified() {
            self.keep_within_allowance(request, &mut found);
            if found.is_empty() {
                return self.refuse_plainly(cx, request, 480, "Contacts Too Long");
            }
        }
        self.counters.redirected += 1;
        if request.method == Method::Invite {
            self.observe_call(cx.now, request, CallStep::Failed(302));
        }
        self.refuse(cx, request, 302, "Moved Temporarily", |response| {
            for (q, uri) in &found {
                response.header_with(HeaderName::Contact, |out| {
                    out.push(b'<');
                    out.extend_from_slice(uri);
                    out.push(b'>');
                    crate::proxy::write_q(*q, out);
                });
            }
        });
    }

    /// Leaves away the least preferred contacts that an unverified source would get over its allowance.
    fn keep_within_allowance(&mut self, request: &Request<'_, '_>, found: &mut Vec<(u16, Vec<u8>)>) {
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
            self.counters.unverified_limited += 1;
            found.truncate(kept);
        }
    }

    /// 404 or 480.
    pub(crate) fn refuse_absent(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        aor: &Aor,
    ) {
        if self.services.is_known(aor.user(), aor.domain()) {
            self.refuse_plainly(cx, request, 480, "Temporarily Unavailable");
        } else {
            self.refuse_plainly(cx, request, 404, "Not Found");
        }
    }
}

/// What a 302 has beside its request's header fields and its Contacts, at most.
const STATUS_BYTES: usize = 128;
/// `Contact: <`, `>;q=0.123` and the end of the line.
const CONTACT_BYTES: usize = 24;
