//! REGISTER in the steps of RFC 3261 §10.3.

use super::extensions::{self, FirstHopLacksOutbound, Path, PathError};
use super::sharing;
use crate::base::{DateText, Env, Request, Step, write_q, write_reply, write_unfolded};
use crate::dialog::gruu;
use crate::location::{
    BadRecord, Binding, Change, Kind, LocationTable, Removed, Room, SaveError, Saved, Text, instance_of,
};
use crate::policy::Authenticator;
use crate::presence::{ChangedUser, ContactEnd};
use crate::registrar::drain_time::Drain;
use crate::report::Report;
use crate::token::UserHash;
use crate::{
    Action, Aor, Authenticated, BindingChange, Config, Counters, Detail, LogEvent, NodeNameStatus, Reason,
};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::time::Duration;
use ringway_location::{ENTRIES_MAX, Registered};
use ringway_sansio::{Context, Defence, Flow, Instant, PlantedFault, Seed};
use ringway_sip::grammar::delta_seconds;
use ringway_sip::{Contact, Contacts, HeaderName, Message, Scheme, write_number};
use ringway_transaction::{SlabKey, to_tag};

/// Reason for refusing a REGISTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Plain(u16, &'static str),
    /// 423 with Min-Expires.
    TooBrief,
    /// 503 with Retry-After.
    StoreFailed,
    /// 439 (RFC 5626 §6).
    FirstHopLacksOutbound,
}

/// Result of an accepted REGISTER.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    saved: Saved,
    /// Outbound applies to a contact (RFC 5626 §6).
    by_flow: bool,
}

/// Registrar of one shard: owns the location table; nothing else changes it.
pub(crate) struct Registrar {
    pub(super) table: LocationTable,
    /// Buffer for the address-of-record of a REGISTER.
    aor: Aor,
    /// Buffer for the record of a user.
    pub(super) record: Vec<u8>,
    /// Bindings of other nodes, and of this one, that the REGISTER at hand removes; without a cluster none.
    removed: Removed,
    date: DateText,
    pub(super) changes: Changes,
    pub(super) drain: Option<Drain>,
}

/// Users whose contacts changed, for the subscriptions to them.
#[derive(Default)]
pub(super) struct Changes {
    /// False: nobody can subscribe, and nothing is noted.
    are_noted: bool,
    users: Vec<ChangedUser>,
}

impl Changes {
    pub(super) fn note(&mut self, aor: &[u8], end: ContactEnd) {
        self.note_register(aor, end, b"");
    }

    pub(super) fn note_register(&mut self, aor: &[u8], end: ContactEnd, call_id: &[u8]) {
        if self.are_noted {
            self.users.push(ChangedUser { aor: aor.into(), end, call_id: call_id.into() });
        }
    }
}

impl Registrar {
    pub(crate) fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            table: LocationTable::new(seed, now),
            aor: Aor::default(),
            record: Vec::new(),
            removed: Removed::default(),
            date: DateText::default(),
            changes: Changes::default(),
            drain: None,
        }
    }

    /// Sets if changes are noted for [`Registrar::take_changes`].
    pub(crate) const fn note_changes(&mut self, are_noted: bool) {
        self.changes.are_noted = are_noted;
    }

    pub(crate) const fn has_changes(&self) -> bool {
        !self.changes.users.is_empty()
    }

    /// Users whose contacts changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<ChangedUser> {
        core::mem::take(&mut self.changes.users)
    }

    pub(crate) const fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    pub(crate) const fn table(&self) -> &LocationTable {
        &self.table
    }

    /// Restores the bindings of a user after a restart. No binding ends later than a new one could.
    pub(crate) fn restore(
        &mut self,
        config: &Config,
        aor: &[u8],
        record: &[u8],
        now: Instant,
    ) -> Result<(), BadRecord> {
        let latest = now + Duration::from_secs(u64::from(config.registrar.max_expires_s));
        self.table.restore(aor, record, now, latest, config.listeners.len())
    }

    pub(crate) fn set_permanent_contacts(&mut self, aor: &[u8], contacts: &[&[u8]]) {
        self.table.set_permanent(aor, contacts);
        self.changes.note(aor, ContactEnd::Unregistered);
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.table.next_due()
    }

    /// Adds, refreshes, removes or lists bindings.
    pub(crate) fn on_register(
        &mut self,
        env: &mut Env<'_>,
        authenticator: &mut Authenticator,
        request: &Request<'_, '_>,
    ) {
        let mut aor = core::mem::take(&mut self.aor);
        self.register(env, authenticator, request, &mut aor);
        self.aor = aor;
    }

    fn register(
        &mut self,
        env: &mut Env<'_>,
        authenticator: &mut Authenticator,
        request: &Request<'_, '_>,
        aor: &mut Aor,
    ) {
        let message = request.message;
        // Step 2.
        if !are_extensions_supported(env, request) {
            return;
        }
        if let Some(phrase) = malformed(message) {
            return env.refuse_plainly(request, 400, phrase);
        }
        // Step 5: the address-of-record, which the next steps need.
        if !env.config.read_aor(&message.to().uri, aor) {
            return env.refuse_plainly(request, 404, "Not Found");
        }
        env.count_root_dots([&message.to().uri]);
        if self.is_refused_by_drain(env, request, aor.as_bytes()) {
            return;
        }
        // Steps 3 and 4.
        let Some(proof) = authenticator.prove_owner(env, request, aor) else { return };
        let path = match Path::of(env.config, request, env.cx.now) {
            Ok(path) => path,
            Err(error) => return refuse_path(env, request, error),
        };
        // Steps 6 and 7.
        let before = self.table.bindings_len();
        if env.config.cluster.is_some() {
            self.removed = Removed::default();
            if env.host.store_status().name == NodeNameStatus::Taken {
                return refuse_now(env, request, Report::NameTaken, "Node Not Ready");
            }
        }
        let outcome = match Contacts::of(message) {
            Err(ringway_sip::Malformed) => Err(Refusal::Plain(400, "Bad Contact")),
            Ok(Contacts::Absent) => Ok(self.unchanged(env, aor)),
            Ok(Contacts::Star) if header_expires(message) == Some(0) => {
                self.removed.all = env.config.cluster.is_some();
                let (call_id, cseq) = (message.call_id(), message.cseq().number);
                env.mark(Step::Rest);
                let cleared = self.table.clear(&proof, call_id, cseq, env.cx.now, room(env, aor));
                let key = self.table.key_of(aor.as_bytes());
                cleared
                    .map(|changed| Accepted { saved: Saved { changed, key }, by_flow: false })
                    .map_err(|error| refusal_of(env.counters, error))
            }
            Ok(Contacts::Star) => Err(Refusal::Plain(400, "Contact * Needs Expires: 0")),
            Ok(Contacts::List(count)) => self.save_contacts(env, request, &proof, &path, count),
        };
        match outcome {
            Ok(accepted) => {
                self.report_accepted(env, request, aor, before, &accepted);
                self.confirm(env, request, aor, accepted, &path);
            }
            Err(refusal) => refuse(env, request, refusal),
        }
    }

    /// Reports an accepted REGISTER; `before` is the number of bindings before it.
    fn report_accepted(
        &mut self,
        env: &Env<'_>,
        request: &Request<'_, '_>,
        aor: &Aor,
        before: usize,
        accepted: &Accepted,
    ) {
        let message = request.message;
        if !accepted.saved.changed {
            let reason = match message.has(HeaderName::Contact) {
                true => Reason::BindingsUnchanged,
                false => Reason::BindingsListed,
            };
            return env.decided(request, reason, Detail::None);
        }
        let change = change_of(before, self.table.bindings_len());
        self.changes.note_register(aor.as_bytes(), ContactEnd::Unregistered, message.call_id());
        env.host.on_change(aor.as_bytes(), change, Some(request.flow));
        let (aor, message, flow) = (aor.as_bytes(), message.as_bytes(), request.flow);
        env.observe(&LogEvent::Registered { aor, change, message, flow });
        if env.is_tracing() {
            self.note_bindings(env, request, change, accepted.saved.key);
        }
    }

    /// Reports what a REGISTER did to the bindings.
    #[cold]
    fn note_bindings(
        &self,
        env: &Env<'_>,
        request: &Request<'_, '_>,
        change: BindingChange,
        key: Option<SlabKey>,
    ) {
        let reason = match change {
            BindingChange::Registered => Reason::BindingAdded,
            BindingChange::Refreshed => Reason::BindingRefreshed,
            BindingChange::Removed | BindingChange::Ended => {
                let contact = request.message.first(HeaderName::Contact).unwrap_or_default();
                return env.decided(request, Reason::BindingRemoved, Detail::Text(contact));
            }
        };
        let now = env.cx.now;
        for value in request.message.values(HeaderName::Contact).take(CONTACTS_READ_MIN) {
            let Ok(contact) = Contact::parse(value) else { continue };
            let uri = contact.address.uri.as_bytes();
            let binding = self.table.lookup_at(key, now).find(|binding| binding.uri() == uri);
            let left = binding.and_then(|binding| binding.seconds_left(now));
            let detail = left.map_or(Detail::Text(uri), |seconds| Detail::Binding(uri, seconds));
            env.decided(request, reason, detail);
        }
    }

    fn unchanged(&self, env: &mut Env<'_>, aor: &Aor) -> Accepted {
        let saved = Saved { key: self.table.key_of(aor.as_bytes()), changed: false };
        env.mark(Step::FindUser);
        Accepted { saved, by_flow: false }
    }

    /// Step 7: all contacts or none.
    fn save_contacts(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        proof: &Authenticated<&Aor>,
        path: &Path,
        count: usize,
    ) -> Result<Accepted, Refusal> {
        let message = request.message;
        let max = env.config.registrar.max_contacts;
        // More contacts in one request than can be stored, removals included: it is not parsed.
        if count > max.saturating_mul(2).max(CONTACTS_READ_MIN) {
            env.counters.too_many_contacts += 1;
            return Err(Refusal::Plain(403, "Too Many Contacts"));
        }
        let read = |value| read_contact(env.cx.now, env.config, request, path, value);
        // The usual REGISTER has one contact and needs no list: the first line is that contact.
        let (saved, by_flow) = match (message.first(HeaderName::Contact), count) {
            (Some(only), 1) => {
                let change = read(only)?;
                let by_flow = change.flow_key.is_some();
                (self.save(env, request, proof, core::slice::from_ref(&change)), by_flow)
            }
            _ => {
                let values = message.values(HeaderName::Contact);
                let changes = values.map(read).collect::<Result<Vec<_>, _>>()?;
                let by_flow = changes.iter().any(|change| change.flow_key.is_some());
                // RFC 5626 §6: a REGISTER is for one flow.
                if by_flow && changes.iter().filter(|change| change.expires.is_some()).count() > 1 {
                    return Err(Refusal::Plain(400, "One Contact With reg-id"));
                }
                (self.save(env, request, proof, &changes), by_flow)
            }
        };
        match saved {
            Ok(saved) => Ok(Accepted { saved, by_flow }),
            Err(error) => Err(refusal_of(env.counters, error)),
        }
    }

    fn save(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        proof: &Authenticated<&Aor>,
        changes: &[Change<'_>],
    ) -> Result<Saved, SaveError> {
        env.mark(Step::Rest);
        let cseq = request.message.cseq().number;
        let room = room(env, proof.subject());
        if env.config.cluster.is_some() {
            self.removed.ids = self.table.removed_by(proof.subject().as_bytes(), changes);
            self.removed.call = Registered::call(request.message.call_id());
            self.removed.cseq = cseq;
        }
        let saved = self.table.save(proof, changes, cseq, request.flow, env.cx.now, room);
        if let Some(left) = self.table.take_left() {
            note_left(env, proof.subject(), &left, &request.flow);
        }
        saved
    }

    /// Step 8: 200 with all bindings, after the changes are passed to the store.
    fn confirm(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        aor: &Aor,
        accepted: Accepted,
        path: &Path,
    ) {
        let Accepted { saved, by_flow } = accepted;
        let key = saved.key;
        env.counters.registered += u64::from(saved.changed);
        // A binding that only another node has yet may be removed too.
        let change = if saved.changed || self.removed.all || !self.removed.ids.is_empty() {
            let Self { table, record, removed, .. } = self;
            let now = env.cx.now;
            sharing::store(&env.storage(), table, aor.as_bytes(), key, removed, now, record)
        } else if env.config.cluster.is_some() {
            // The same REGISTER again: what it changed may be refused by the store.
            self.table.pending(key)
        } else {
            0
        };
        env.mark(Step::AddUser);
        self.keep_connection(&mut env.cx, request, key);
        let Self { table, date, .. } = self;
        let (now, registrar, info) = (env.cx.now, &env.config.registrar, &*env.input.answer_info);
        let keys = env.keys;
        let gruu = extensions::wants_gruu(env.config, request.message).then_some((&keys.gruu.current, aor));
        let tag = to_tag(&env.keys.tag, request.message);
        write_reply(&mut env.cx, &tag, request.message, &request.flow, 200, "OK", |response| {
            for binding in table.lookup_at(key, now) {
                response.header_with(HeaderName::Contact, |out| write_binding(binding, gruu, now, out));
            }
            for value in path.values() {
                response.header(HeaderName::Path, value);
            }
            for value in &registrar.service_route {
                response.header(HeaderName::ServiceRoute, value.as_bytes());
            }
            if by_flow {
                response.header(HeaderName::Require, b"outbound");
                if registrar.flow_timer_s > 0 {
                    response.header_number(HeaderName::FlowTimer, u64::from(registrar.flow_timer_s));
                }
            }
            response.header(HeaderName::Date, date.at(now));
            if !info.is_empty() {
                response.header(HeaderName::AuthenticationInfo, info);
            }
        });
        env.cx.out.hold_last(change);
        env.mark(Step::Format);
    }

    /// Marks a connection as in use for as long as the contact that was registered over it.
    fn keep_connection(&self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>, key: Option<SlabKey>) {
        let Some(connection) = request.flow.connection else { return };
        let bindings = self.table.lookup_at(key, cx.now);
        let over_it = bindings.filter(|binding| binding.flow.connection == Some(connection));
        if let Some(until) = over_it.map(|binding| binding.expires).max() {
            cx.out.keep(&request.flow, until);
        }
    }
}

/// Refuses a REGISTER that changes nothing.
#[cold]
fn refuse(env: &mut Env<'_>, request: &Request<'_, '_>, refusal: Refusal) {
    match refusal {
        Refusal::Plain(status, phrase) => env.refuse_plainly(request, status, phrase),
        Refusal::TooBrief => {
            let min_s = u64::from(env.config.registrar.min_expires_s);
            env.report(request, Report::TooBrief { min_s });
            env.reply(request, 423, "Interval Too Brief", |response| {
                response.header_number(HeaderName::MinExpires, min_s);
            });
        }
        Refusal::FirstHopLacksOutbound => {
            env.report(request, Report::NoOutbound);
            env.reply(request, 439, "First Hop Lacks Outbound Support", |_| {});
        }
        Refusal::StoreFailed => refuse_now(env, request, Report::StoreFailed, "Store Failed"),
    }
}

fn refusal_of(counters: &mut Counters, error: SaveError) -> Refusal {
    match error {
        SaveError::OutOfOrder => Refusal::Plain(500, "CSeq Out Of Order"),
        SaveError::TooLong => Refusal::Plain(400, "Contact Too Long"),
        SaveError::TooMany => {
            counters.too_many_contacts += 1;
            Refusal::Plain(403, "Too Many Contacts")
        }
        SaveError::TooManyFlows => {
            counters.too_many_flows += 1;
            Refusal::Plain(403, "Too Many Flows")
        }
        SaveError::TooLarge => {
            counters.registration_too_large += 1;
            Refusal::Plain(403, "Registration Too Large")
        }
        SaveError::StoreFailed => Refusal::StoreFailed,
    }
}

/// Notes that a phone has another flow, so that requests in its dialogs follow it.
fn note_left(env: &mut Env<'_>, aor: &Aor, left: &Flow, flow: &Flow) {
    let (key, lifetime) = (&env.keys.route, env.dialog_lifetime());
    let user = UserHash::of(key, aor.user(), aor.domain());
    let has_room = env.tables.change_sides(false, |table| table.note_left(key, left, flow, user, lifetime));
    env.counters.sides_overflow += u64::from(!has_room);
}

fn room(env: &Env<'_>, aor: &Aor) -> Room {
    let record_bytes = env.host.record_bytes_max(aor.as_bytes());
    let contacts = match Defence::Contacts.is_on() {
        true => env.config.registrar.max_contacts + usize::from(PlantedFault::ContactTooMany.is_planted()),
        false => usize::MAX,
    };
    match env.config.cluster {
        None => Room { contacts, record_bytes },
        Some(_) => Room {
            contacts: contacts.min(ENTRIES_MAX),
            record_bytes: record_bytes.map(|bytes| bytes.min(SHARED_BYTES_MAX)),
        },
    }
}

fn read_contact<'a>(
    now: Instant,
    config: &Config,
    request: &Request<'_, 'a>,
    path: &'a Path,
    value: &'a [u8],
) -> Result<Change<'a>, Refusal> {
    let message = request.message;
    let Ok(contact) = Contact::parse(value) else { return Err(Refusal::Plain(400, "Bad Contact")) };
    let uri = contact.address.uri;
    if !uri.is_sip() {
        return Err(Refusal::Plain(400, "Contact Is No SIP URI"));
    }
    // RFC 5630 §5.2: otherwise a user that wants TLS on every hop would be bound by a request without it.
    if uri.scheme() == Scheme::Sips && request.uri.scheme() != Scheme::Sips {
        return Err(Refusal::Plain(400, "SIPS Contact Needs SIPS Request-URI"));
    }
    let registrar = &config.registrar;
    let wanted = contact.expires.or_else(|| header_expires(message)).unwrap_or(registrar.default_expires_s);
    // RFC 3261 §10.3 step 7: an hour is never too brief.
    if wanted != 0 && wanted < registrar.min_expires_s && wanted < 3600 {
        return Err(Refusal::TooBrief);
    }
    let granted = wanted.min(registrar.max_expires_s);
    let expires = (wanted != 0).then(|| now + Duration::from_secs(u64::from(granted)));
    let params = &contact.address.params;
    let flow_key = extensions::flow_key(config, message, path, params)
        .map_err(|FirstHopLacksOutbound| Refusal::FirstHopLacksOutbound)?;
    let kind = path.kind().unwrap_or_else(|| match flow_key {
        // RFC 5626 §7: over this flow and nothing else.
        Some(_) => Kind::FlowOnly,
        // Its Contact in dialogs is a URI of this server, so that these need its flow too.
        None if extensions::wants_gruu(config, message) && instance_of(params).is_some() => Kind::FlowOnly,
        None => Binding::kind_of(config, &uri, &request.flow),
    });
    Ok(Change {
        contact: uri,
        text: Text {
            uri: uri.as_bytes(),
            params: params.as_bytes(),
            path: path.as_bytes(),
            call_id: message.call_id(),
        },
        q: contact.q.unwrap_or(1000),
        expires,
        kind,
        flow_key,
    })
}

/// False for a REGISTER that requires an extension that is not supported: it was answered.
fn are_extensions_supported(env: &mut Env<'_>, request: &Request<'_, '_>) -> bool {
    let (config, message) = (env.config, request.message);
    let is_supported = |tag: &[u8]| extensions::is_supported(config, tag);
    let are = !message.has(HeaderName::Require) || message.values(HeaderName::Require).all(is_supported);
    if !are {
        env.refuse_extensions_but(request, HeaderName::Require, is_supported);
    }
    are
}

/// Phrase for a REGISTER that a registrar cannot use.
fn malformed(message: &Message<'_>) -> Option<&'static str> {
    if message.cseq().number > CSEQ_MAX {
        return Some("CSeq Is Too Large");
    }
    (!message.to().uri.is_sip()).then_some("To Is No SIP URI")
}

/// Refuses a REGISTER whose Path does not count.
fn refuse_path(env: &mut Env<'_>, request: &Request<'_, '_>, error: PathError) {
    env.report(request, Report::PathRefused);
    match error {
        PathError::Malformed => env.refuse_decided(request, 400, "Bad Path"),
        PathError::NotSupported => env.reply(request, 420, "Bad Extension", |response| {
            response.header(HeaderName::Unsupported, b"path");
        }),
    }
}

/// Refuses a REGISTER that may succeed later.
fn refuse_now(env: &mut Env<'_>, request: &Request<'_, '_>, why: Report<'_>, phrase: &str) {
    env.report(request, why);
    env.reply(request, 503, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, 5);
    });
}

/// Kind of change, from the number of bindings before and after it.
pub(super) fn change_of(before: usize, after: usize) -> BindingChange {
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

/// Appends `<uri>;expires=n` and the contact's other parameters, with GRUUs by the key and address-of-record in `gruu`.
fn write_binding(binding: &Binding, gruu: Option<(&[u8; 16], &Aor)>, now: Instant, out: &mut Vec<u8>) {
    let text = binding.text();
    out.push(b'<');
    out.extend_from_slice(text.uri);
    out.push(b'>');
    for param in ringway_sip::Params::unchecked(text.params).iter() {
        if OWN_PARAMS.iter().any(|name| param.name.eq_ignore_ascii_case(name)) {
            continue;
        }
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            write_unfolded(value, out);
        }
    }
    if let Some((key, aor)) = gruu {
        gruu::write_params(key, aor, binding, out);
    }
    write_q(binding.q, out);
    out.extend_from_slice(b";expires=");
    write_number(out, binding.seconds_left(now).unwrap_or(PERMANENT_EXPIRES_S));
}

/// Contact parameters of a response that are the registrar's.
const OWN_PARAMS: [&[u8]; 4] = [b"expires", b"q", b"pub-gruu", b"temp-gruu"];
/// Largest number of a CSeq (RFC 3261 §8.1.1.5). A removal of a binding has the next one.
const CSEQ_MAX: u32 = (1 << 31) - 1;
/// Expiry of a permanent contact in the response to a REGISTER.
const PERMANENT_EXPIRES_S: u64 = 4_294_967_295;
/// Maximum length in bytes of a record of a user in the store that nodes share, without what each entry adds.
const SHARED_BYTES_MAX: usize = 16 * 1024;
/// Minimum number of contacts that are parsed in one request.
const CONTACTS_READ_MIN: usize = 16;
