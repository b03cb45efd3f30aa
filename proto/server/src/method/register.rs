//! REGISTER by the steps of RFC 3261 §10.3.

use crate::location::{Binding, Change, Room, SaveError, Saved};
use crate::proxy::write_q;
use crate::reply::{write_reply, write_unfolded};
use crate::server::Request;
use crate::{Action, Aor, BindingChange, LogEvent, Server, Services};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;
use ringway_sansio::{Context, Instant};
use ringway_sip::grammar::delta_seconds;
use ringway_sip::{Contact, Contacts, HeaderName, Message, write_number};
use ringway_transaction::SlabKey;

/// Why a REGISTER is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Plain(u16, &'static str),
    /// 423 with Min-Expires.
    TooBrief,
    /// 503 with Retry-After.
    StoreFailed,
}

impl<S: Services> Server<S> {
    /// Adds, refreshes, removes or lists bindings.
    pub(crate) fn on_register(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>) {
        let mut aor = core::mem::take(&mut self.aor);
        self.register(cx, request, &mut aor);
        self.aor = aor;
    }

    fn register(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>, aor: &mut Aor) {
        let message = request.message;
        // Step 2.
        if message.has(HeaderName::Require) {
            return self.refuse_extensions(cx, request, HeaderName::Require);
        }
        // Step 5: the address-of-record, needed from here on.
        if !message.to().uri.is_sip() {
            return self.refuse_plainly(cx, request, 400, "To Is No SIP URI");
        }
        if !self.config.read_aor(&message.to().uri, aor) {
            return self.refuse_plainly(cx, request, 404, "Not Found");
        }
        // Steps 3 and 4.
        let Some(proof) = self.prove_owner(cx, request, aor) else { return };
        // Steps 6 and 7.
        let before = self.location.bindings_len();
        let outcome = match Contacts::of(message) {
            Err(ringway_sip::Malformed) => Err(Refusal::Plain(400, "Bad Contact")),
            Ok(Contacts::Absent) => Ok(self.unchanged(aor)),
            Ok(Contacts::Star) if header_expires(message) == Some(0) => {
                let (call_id, cseq) = (message.call_id(), message.cseq().number);
                match self.location.clear(&proof, call_id, cseq, cx.now, self.room(aor)) {
                    Ok(changed) => Ok(Saved { changed, ..self.unchanged(aor) }),
                    Err(error) => Err(self.refusal_of(error)),
                }
            }
            Ok(Contacts::Star) => Err(Refusal::Plain(400, "Contact * Needs Expires: 0")),
            Ok(Contacts::List(count)) => self.save_contacts(cx.now, request, &proof, count),
        };
        match outcome {
            Ok(saved) => {
                if saved.changed {
                    let change = change_of(before, self.location.bindings_len());
                    self.services.on_change(aor.as_bytes(), change, Some(request.flow));
                    let (aor, message, flow) = (aor.as_bytes(), message.as_bytes(), request.flow);
                    self.services.observe(cx.now, &LogEvent::Registered { aor, change, message, flow });
                }
                self.confirm(cx, request, aor, saved);
            }
            Err(Refusal::Plain(status, phrase)) => self.refuse_plainly(cx, request, status, phrase),
            Err(Refusal::TooBrief) => {
                self.counters.refused += 1;
                let min = u64::from(self.config.registrar.min_expires_s);
                self.reply(cx, request, 423, "Interval Too Brief", |response| {
                    response.header_number(HeaderName::MinExpires, min);
                });
            }
            Err(Refusal::StoreFailed) => {
                self.counters.store_refusals += 1;
                self.reply(cx, request, 503, "Store Failed", |response| {
                    response.header_number(HeaderName::RetryAfter, 5);
                });
            }
        }
    }

    fn unchanged(&self, aor: &Aor) -> Saved {
        Saved { place: self.location.place_of(aor.as_bytes()), changed: false }
    }

    /// Step 7: all contacts or none.
    fn save_contacts(
        &mut self,
        now: Instant,
        request: &Request<'_, '_>,
        proof: &crate::Authenticated<&Aor>,
        count: usize,
    ) -> Result<Saved, Refusal> {
        let message = request.message;
        let max = self.config.registrar.max_contacts;
        // More in one request than could be kept, removals included: nothing is read of it.
        if count > max.saturating_mul(2).max(CONTACTS_READ_MIN) {
            self.counters.too_many_contacts += 1;
            return Err(Refusal::Plain(403, "Too Many Contacts"));
        }
        let mut values = message.values(HeaderName::Contact);
        // The usual REGISTER has one contact and needs no list.
        let saved = match (values.next(), count) {
            (Some(only), 1) => {
                let change = self.read_contact(now, request, only)?;
                self.save(now, request, proof, core::slice::from_ref(&change))
            }
            (first, _) => {
                let values = first.into_iter().chain(values);
                let read = values.map(|value| self.read_contact(now, request, value));
                let changes = read.collect::<Result<Vec<_>, _>>()?;
                self.save(now, request, proof, &changes)
            }
        };
        saved.map_err(|error| self.refusal_of(error))
    }

    fn refusal_of(&mut self, error: SaveError) -> Refusal {
        match error {
            SaveError::OutOfOrder => Refusal::Plain(500, "CSeq Out Of Order"),
            SaveError::TooLong => Refusal::Plain(400, "Contact Too Long"),
            SaveError::TooMany => {
                self.counters.too_many_contacts += 1;
                Refusal::Plain(403, "Too Many Contacts")
            }
            SaveError::TooLarge => {
                self.counters.registration_too_large += 1;
                Refusal::Plain(403, "Registration Too Large")
            }
            SaveError::StoreFailed => Refusal::StoreFailed,
        }
    }

    fn room(&self, aor: &Aor) -> Room {
        let record_bytes = self.services.record_bytes_max(aor.as_bytes());
        Room { contacts: self.config.registrar.max_contacts, record_bytes }
    }

    fn save(
        &mut self,
        now: Instant,
        request: &Request<'_, '_>,
        proof: &crate::Authenticated<&Aor>,
        changes: &[Change<'_>],
    ) -> Result<Saved, SaveError> {
        let cseq = request.message.cseq().number;
        let room = self.room(proof.subject());
        self.location.save(proof, changes, cseq, request.flow, now, room)
    }

    fn read_contact<'a>(
        &self,
        now: Instant,
        request: &Request<'_, 'a>,
        value: &'a [u8],
    ) -> Result<Change<'a>, Refusal> {
        let message = request.message;
        let bad = Refusal::Plain(400, "Bad Contact");
        let contact = Contact::parse(value).map_err(|ringway_sip::Malformed| bad)?;
        let uri = contact.address.uri;
        if !uri.is_sip() {
            return Err(Refusal::Plain(400, "Contact Is No SIP URI"));
        }
        let registrar = &self.config.registrar;
        let wanted =
            contact.expires.or_else(|| header_expires(message)).unwrap_or(registrar.default_expires_s);
        // RFC 3261 §10.3 step 7: an hour is never too brief.
        if wanted != 0 && wanted < registrar.min_expires_s && wanted < 3600 {
            return Err(Refusal::TooBrief);
        }
        let granted = wanted.min(registrar.max_expires_s);
        let expires = (wanted != 0).then(|| now + Duration::from_secs(u64::from(granted)));
        Ok(Change {
            contact: uri,
            text: crate::location::Text {
                uri: uri.as_bytes(),
                params: contact.address.params.as_bytes(),
                call_id: message.call_id(),
            },
            q: contact.q.unwrap_or(1000),
            expires,
            kind: Binding::kind_of(&self.config, &uri, &request.flow),
        })
    }

    /// Step 8: 200 with all bindings, once what changed is on its way to the store.
    fn confirm(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>, aor: &Aor, saved: Saved) {
        let place = saved.place;
        self.counters.registered += u64::from(saved.changed);
        if saved.changed {
            self.record.clear();
            if self.services.keeps_bindings() {
                self.location.write_record_at(place, &mut self.record);
            }
            self.services.store(aor.as_bytes(), &self.record);
        }
        self.keep_connection(cx, request, place);
        let Self { location, date, keys, .. } = self;
        let now = cx.now;
        write_reply(cx, &keys.tag, request, 200, "OK", |response| {
            for binding in location.lookup_at(place, now) {
                response.header_with(HeaderName::Contact, |out| write_binding(binding, now, out));
            }
            response.header(HeaderName::Date, date.at(now));
        });
        cx.out.hold_last();
    }

    /// The connection that a contact was registered over is in use as long as the contact.
    fn keep_connection(
        &self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        place: Option<SlabKey>,
    ) {
        let Some(connection) = request.flow.connection else { return };
        let bindings = self.location.lookup_at(place, cx.now);
        let over_it = bindings.filter(|binding| binding.flow.connection == Some(connection));
        if let Some(until) = over_it.map(|binding| binding.expires).max() {
            cx.out.keep(&request.flow, until);
        }
    }
}

/// What a REGISTER did, by how many bindings there were and are.
fn change_of(before: usize, after: usize) -> BindingChange {
    match after.cmp(&before) {
        Ordering::Greater => BindingChange::Registered,
        Ordering::Equal => BindingChange::Refreshed,
        Ordering::Less => BindingChange::Removed,
    }
}

fn header_expires(message: &Message<'_>) -> Option<u32> {
    // RFC 3261 §10.2.1.1: a malformed value counts as 3600.
    message.first(HeaderName::Expires).map(|value| delta_seconds(value).unwrap_or(3600))
}

/// `<uri>;expires=n` and what else the phone said of its contact.
fn write_binding(binding: &Binding, now: Instant, out: &mut Vec<u8>) {
    let text = binding.text();
    out.push(b'<');
    out.extend_from_slice(text.uri);
    out.push(b'>');
    for param in ringway_sip::Params::unchecked(text.params).iter() {
        if param.name.eq_ignore_ascii_case(b"expires") || param.name.eq_ignore_ascii_case(b"q") {
            continue;
        }
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            write_unfolded(value, out);
        }
    }
    write_q(binding.q, out);
    out.extend_from_slice(b";expires=");
    // Rounded up: a phone is never told less than it has.
    let left = if binding.is_permanent() { PERMANENT_EXPIRES_S } else { seconds_left(binding, now) };
    write_number(out, left);
}

fn seconds_left(binding: &Binding, now: Instant) -> u64 {
    let left = binding.expires.since(now);
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}

/// What a REGISTER is told of an administrator's contact, which never ends.
const PERMANENT_EXPIRES_S: u64 = 4_294_967_295;

/// However few contacts a user may have, this many are read of one request.
const CONTACTS_READ_MIN: usize = 16;
