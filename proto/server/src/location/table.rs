//! Location table: all addresses-of-record of one shard, and their bindings.

use super::binding::{Binding, BindingKey, Bindings, Kind, Terms, Text, path_values};
use super::change::{Change, Room, SaveError, apply, check};
use super::name_index::NameIndex;
use super::owner::{Nodes, Owner, RegisteredAt};
use super::record::{self, BadRecord};
use crate::{Aor, Authenticated, StoreFailed};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::{HashMap, HashSet};
use ringway_auth::SeededHash;
use ringway_location::NodeName;
use ringway_sansio::{
    ConnectionId, Flow, Instant, ListenerId, PlantedFault, Seed, TimerKey, Transport, Wheel,
};
use ringway_sip::Uri;
use ringway_transaction::{Slab, SlabKey};
use smallvec::SmallVec;

/// Bindings of the users of one shard.
#[derive(Debug)]
pub struct LocationTable {
    pub(super) users: Slab<User>,
    by_name: NameIndex,
    /// Users with a binding on a stream connection; as many entries as there are such bindings.
    by_connection: HashMap<ConnectionId, HashSet<SlabKey, SeededHash>, SeededHash>,
    seeded: SeededHash,
    /// One timer for each user, for the earliest possible end of a binding.
    wheel: Wheel<SlabKey>,
    bindings: usize,
    pub(super) nodes: Nodes,
    /// Number of the newest read of all records of the store that nodes share.
    pub(super) walk: u32,
    /// Flow that a phone had until its last REGISTER and has left.
    left: Option<Flow>,
}

#[derive(Debug)]
pub(super) struct User {
    pub(super) name: Box<[u8]>,
    pub(super) bindings: Bindings,
    /// Number of the newest update of this node that did not come back from the store that nodes share; 0: none.
    pub(super) pending: u64,
    /// [`LocationTable::walk`] at the last record of the user.
    pub(super) walk: u32,
    /// Time of the timer; refreshes do not move it, and it checks again when it fires.
    wakes_at: Instant,
    timer: TimerKey,
}

/// Result of a REGISTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Key of the user until the next change; `None` without bindings.
    pub(crate) key: Option<SlabKey>,
    /// False for a retransmission, or if there was nothing to remove.
    pub(crate) changed: bool,
}

/// Binding for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// `user@domain`.
    pub aor: Vec<u8>,
    /// Contact URI.
    pub contact: Vec<u8>,
    /// Transport of the REGISTER, or of a permanent contact's URI.
    pub transport: Transport,
    /// Source address of the REGISTER; unspecified for a permanent contact.
    pub address: core::net::SocketAddr,
    /// End of the binding.
    pub expires: Instant,
    /// q-value in thousandths.
    pub q: u16,
    /// True for an administrator's contact.
    pub is_permanent: bool,
    /// Instance of the phone, if the contact names one.
    pub instance: Option<Vec<u8>>,
    /// Number of the flow, if outbound applies.
    pub reg_id: Option<u32>,
    /// Path values, the first hop first.
    pub path: Vec<Vec<u8>>,
    /// Node that it was registered at, if that is another one.
    pub node: Option<NodeName>,
}

/// Borrowed form of [`Registration`].
#[derive(Clone, Copy, Debug)]
pub struct RegistrationRef<'a> {
    pub(crate) aor: &'a [u8],
    pub(crate) binding: &'a Binding,
    node: Option<&'a NodeName>,
}

impl RegistrationRef<'_> {
    /// `user@domain`.
    pub const fn aor(&self) -> &[u8] {
        self.aor
    }

    /// Contact URI.
    pub fn contact(&self) -> &[u8] {
        self.binding.uri()
    }

    /// Transport of the REGISTER, or of a permanent contact's URI.
    pub const fn transport(&self) -> Transport {
        self.binding.flow.transport
    }

    /// Source address of the REGISTER; unspecified for a permanent contact.
    pub const fn address(&self) -> core::net::SocketAddr {
        self.binding.flow.remote
    }

    /// Node that it was registered at, if that is another one.
    pub const fn node(&self) -> Option<&NodeName> {
        self.node
    }

    /// End of the binding.
    pub const fn expires(&self) -> Instant {
        self.binding.expires
    }

    /// True for an administrator's contact.
    pub fn is_permanent(&self) -> bool {
        self.binding.is_permanent()
    }

    /// Call-ID of the REGISTER; empty for a permanent contact.
    pub fn call_id(&self) -> &[u8] {
        self.binding.call_id()
    }

    /// CSeq of the REGISTER.
    pub const fn cseq(&self) -> u32 {
        self.binding.cseq
    }

    /// Copies the registration.
    pub fn to_owned(&self) -> Registration {
        Registration {
            aor: self.aor.to_vec(),
            contact: self.contact().to_vec(),
            transport: self.transport(),
            address: self.address(),
            expires: self.expires(),
            q: self.binding.q,
            is_permanent: self.is_permanent(),
            instance: self.binding.instance().map(<[u8]>::to_vec),
            reg_id: self.binding.flow_key().map(|key| key.reg_id),
            // The link to its node is not the phone's.
            path: path_values(self.binding.text().path)
                .skip(usize::from(self.binding.owner.is_over_link()))
                .map(<[u8]>::to_vec)
                .collect(),
            node: self.node.copied(),
        }
    }
}

impl LocationTable {
    /// Creates an empty table whose hashes have keys from `seed`.
    pub fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            users: Slab::default(),
            by_name: NameIndex::new(seed),
            by_connection: HashMap::with_hasher(SeededHash::new(seed)),
            seeded: SeededHash::new(seed),
            wheel: Wheel::new(now),
            bindings: 0,
            nodes: Nodes::default(),
            walk: 0,
            left: None,
        }
    }

    /// Number of bindings, permanent ones included.
    pub const fn bindings_len(&self) -> usize {
        self.bindings
    }

    /// Number of users with a binding.
    pub fn users_len(&self) -> usize {
        self.users.len()
    }

    /// Unexpired bindings of a user, permanent ones included, in order of registration.
    pub(crate) fn lookup(&self, aor: &[u8], now: Instant) -> impl Iterator<Item = &Binding> {
        self.lookup_at(self.find(aor), now)
    }

    /// Like [`LocationTable::lookup`], for the key of a user.
    pub(crate) fn lookup_at(&self, key: Option<SlabKey>, now: Instant) -> impl Iterator<Item = &Binding> {
        key.and_then(|key| self.users.get(key))
            .map(|user| user.bindings.as_slice())
            .unwrap_or_default()
            .iter()
            .filter(move |binding| binding.expires > now || PlantedFault::LateExpiry.is_planted())
    }

    /// Key of a user, valid until the next change.
    pub(crate) fn key_of(&self, aor: &[u8]) -> Option<SlabKey> {
        self.find(aor)
    }

    /// Takes the flow that a phone had until the last change and has left.
    pub(crate) const fn take_left(&mut self) -> Option<Flow> {
        self.left.take()
    }

    /// Applies the changes of one REGISTER, all or none (RFC 3261 §10.3 step 7).
    ///
    /// A binding of this same REGISTER (same Call-ID, same CSeq) is not changed: the REGISTER is a retransmission.
    pub(crate) fn save(
        &mut self,
        proof: &Authenticated<&Aor>,
        changes: &[Change<'_>],
        cseq: u32,
        flow: Flow,
        now: Instant,
        room: Room,
    ) -> Result<Saved, SaveError> {
        let aor = proof.subject().as_bytes();
        let found = self.find(aor);
        let bindings = found
            .and_then(|key| self.users.get(key))
            .map(|user| user.bindings.as_slice())
            .unwrap_or_default();
        if !check(bindings, changes, cseq, now, room)? {
            return Ok(Saved { key: found, changed: false });
        }
        let key = found.unwrap_or_else(|| self.add_user(aor));
        let mut left = None;
        self.change_bindings(key, |bindings| {
            bindings.retain(|binding| binding.expires > now);
            for change in changes {
                apply(bindings, change, cseq, flow, now, &mut left);
            }
        });
        if left.is_some() {
            self.left = left;
        }
        // A user without bindings is removed.
        let key = self.users.get(key).map(|_| key);
        Ok(Saved { key, changed: true })
    }

    /// Removes all bindings of REGISTER requests; none if one of them has a newer CSeq of the same phone (RFC 3261 §10.3
    /// step 6). Returns true if there were any.
    pub(crate) fn clear(
        &mut self,
        proof: &Authenticated<&Aor>,
        call_id: &[u8],
        cseq: u32,
        now: Instant,
        room: Room,
    ) -> Result<bool, SaveError> {
        let aor = proof.subject().as_bytes();
        let is_newer = |binding: &Binding| {
            !binding.is_permanent() && binding.cseq >= cseq && binding.call_id() == call_id
        };
        if self.lookup(aor, now).any(is_newer) {
            return Err(SaveError::OutOfOrder);
        }
        if self.lookup(aor, now).any(|binding| !binding.is_permanent()) {
            room.record_bytes.map_err(|StoreFailed| SaveError::StoreFailed)?;
        }
        Ok(self.remove_where(aor, |binding| !binding.is_permanent()))
    }

    /// Removes everything of a user who is no subscriber any more.
    pub(crate) fn forget(&mut self, aor: &[u8]) -> bool {
        self.remove_where(aor, |_| true)
    }

    /// Replaces the permanent contacts of a user.
    pub(crate) fn set_permanent(&mut self, aor: &[u8], contacts: &[&[u8]]) {
        self.remove_where(aor, Binding::is_permanent);
        if contacts.is_empty() {
            return;
        }
        let key = self.find(aor).unwrap_or_else(|| self.add_user(aor));
        self.change_bindings(key, |bindings| {
            bindings.extend(contacts.iter().filter_map(|contact| permanent(contact)));
        });
    }

    /// Restores the bindings of a user after a restart; none ends after `latest`.
    pub(crate) fn restore(
        &mut self,
        aor: &[u8],
        record: &[u8],
        now: Instant,
        latest: Instant,
        listeners: usize,
    ) -> Result<(), BadRecord> {
        let bindings = record::read(record, now, latest, listeners)?;
        self.remove_where(aor, |binding| !binding.is_permanent());
        if bindings.is_empty() {
            return Ok(());
        }
        let key = self.find(aor).unwrap_or_else(|| self.add_user(aor));
        self.change_bindings(key, |present| {
            present.extend(bindings);
            present.shrink_to_fit();
        });
        Ok(())
    }

    /// Appends the record of a user for [`LocationTable::restore`]; nothing if it has no bindings to store.
    pub(crate) fn write_record(&self, key: Option<SlabKey>, out: &mut Vec<u8>) {
        if let Some(user) = key.and_then(|key| self.users.get(key)) {
            record::write(&user.bindings, out);
        }
    }

    /// Records of up to `count` users from slot `from`; returns the next slot, `None` at the end. Users that change
    /// between two calls are stored by that change.
    pub fn records_from(&self, from: u32, count: u32, mut each: impl FnMut(&[u8], &[u8])) -> Option<u32> {
        let mut bytes = Vec::new();
        for slot in from..from.saturating_add(count) {
            match self.users.at(slot)? {
                None => {}
                Some(user) => {
                    bytes.clear();
                    record::write(&user.bindings, &mut bytes);
                    if !bytes.is_empty() {
                        each(&user.name, &bytes);
                    }
                }
            }
        }
        Some(from.saturating_add(count))
    }

    /// Bindings of up to `count` users from slot `from`; returns the next slot, `None` at the end.
    pub fn bindings_from(
        &self,
        from: u32,
        count: u32,
        mut each: impl FnMut(RegistrationRef<'_>),
    ) -> Option<u32> {
        for slot in from..from.saturating_add(count) {
            if let Some(user) = self.users.at(slot)? {
                user.bindings.iter().for_each(|binding| each(self.registration(user, binding)));
            }
        }
        Some(from.saturating_add(count))
    }

    /// All bindings, in no order.
    pub fn iter(&self) -> impl Iterator<Item = RegistrationRef<'_>> {
        self.users
            .iter()
            .flat_map(|(_, user)| user.bindings.iter().map(|binding| self.registration(user, binding)))
    }

    /// Handles the end of a connection: contacts that only it reached are removed, others are dialled in future. `ended`
    /// gets each removed binding with its user, `changed` each user, with true if it has fewer bindings now.
    pub(crate) fn on_closed(
        &mut self,
        connection: ConnectionId,
        ended: impl Fn(&[u8], &Binding),
        mut changed: impl FnMut(&mut Self, &[u8], bool),
    ) {
        let Some(keys) = self.by_connection.remove(&connection) else { return };
        for key in keys {
            let Some(name) = self.users.get(key).map(|user| user.name.clone()) else { continue };
            let before = self.bindings;
            self.change_bindings(key, |bindings| {
                for binding in bindings.iter_mut() {
                    if binding.flow.connection == Some(connection) {
                        binding.flow.connection = None;
                    }
                }
                retain(bindings, Binding::is_reachable, |binding| ended(&name, binding));
            });
            let has_fewer = self.bindings < before;
            changed(self, &name, has_fewer);
        }
    }

    /// Removes the bindings of REGISTER requests of a user. `ended` gets each of them with its user, `changed` the user.
    pub(crate) fn end_registrations(
        &mut self,
        aor: &[u8],
        ended: impl Fn(&[u8], &Binding),
        mut changed: impl FnMut(&mut Self, &[u8]),
    ) {
        let Some(key) = self.find(aor) else { return };
        self.change_and_report(key, &mut changed, |name, bindings| {
            retain(bindings, Binding::is_permanent, |binding| ended(name, binding));
        });
    }

    /// Bindings on a stream connection, each with its user.
    pub(crate) fn connected(&self, mut each: impl FnMut(&[u8], &Binding)) {
        for (connection, keys) in &self.by_connection {
            for user in keys.iter().filter_map(|key| self.users.get(*key)) {
                let over_it =
                    user.bindings.iter().filter(|binding| binding.flow.connection == Some(*connection));
                over_it.for_each(|binding| each(&user.name, binding));
            }
        }
    }

    /// Bindings of a user, expired ones included.
    pub fn bindings_of(&self, aor: &[u8], mut each: impl FnMut(RegistrationRef<'_>)) {
        if let Some(user) = self.find(aor).and_then(|key| self.users.get(key)) {
            user.bindings.iter().for_each(|binding| each(self.registration(user, binding)));
        }
    }

    /// Removes expired bindings. `ended` gets each of them with its user, `changed` the users that have fewer bindings
    /// now.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        ended: impl Fn(&[u8], &Binding),
        mut changed: impl FnMut(&mut Self, &[u8]),
    ) {
        while let Some(key) = self.wheel.expire(now) {
            if let Some(user) = self.users.get_mut(key) {
                user.wakes_at = Instant::FAR;
            }
            self.change_and_report(key, &mut changed, |name, bindings| {
                retain(bindings, |binding| binding.expires > now, |binding| ended(name, binding));
            });
        }
    }

    /// Time of the next necessary call of [`LocationTable::expire`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.wheel.next_due()
    }

    fn registration<'a>(&'a self, user: &'a User, binding: &'a Binding) -> RegistrationRef<'a> {
        RegistrationRef { aor: &user.name, binding, node: self.nodes.name_of(binding.owner) }
    }

    fn remove_where(&mut self, aor: &[u8], unwanted: impl Fn(&Binding) -> bool) -> bool {
        let Some(key) = self.find(aor) else { return false };
        let before = self.bindings;
        self.change_bindings(key, |bindings| bindings.retain(|binding| !unwanted(binding)));
        self.bindings < before
    }

    pub(super) fn change_and_report(
        &mut self,
        key: SlabKey,
        changed: &mut impl FnMut(&mut Self, &[u8]),
        change: impl FnOnce(&[u8], &mut Bindings),
    ) {
        let Some(name) = self.users.get(key).map(|user| user.name.clone()) else { return };
        let before = self.bindings;
        self.change_bindings(key, |bindings| change(&name, bindings));
        if self.bindings < before {
            changed(self, &name);
        }
    }

    /// Changes the bindings of a user, and all data derived from them.
    pub(super) fn change_bindings(&mut self, key: SlabKey, change: impl FnOnce(&mut Bindings)) {
        let Some(user) = self.users.get_mut(key) else { return };
        let before = user.bindings.len();
        let connections: SmallVec<[_; 1]> = connections_of(&user.bindings).collect();
        change(&mut user.bindings);
        self.bindings = self.bindings + user.bindings.len() - before;
        // A refresh over the same connection changes nothing in the index.
        if connections_of(&user.bindings).eq(connections.iter().copied()) {
            return self.settle(key);
        }
        for connection in connections {
            let is_left = connections_of(&user.bindings).any(|other| other == connection);
            if !is_left && let Some(keys) = self.by_connection.get_mut(&connection) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.by_connection.remove(&connection);
                }
            }
        }
        for connection in connections_of(&user.bindings) {
            let seeded = self.seeded;
            self.by_connection.entry(connection).or_insert_with(|| HashSet::with_hasher(seeded)).insert(key);
        }
        self.settle(key);
    }

    pub(super) fn find(&self, aor: &[u8]) -> Option<SlabKey> {
        self.by_name.find(aor)
    }

    pub(super) fn add_user(&mut self, aor: &[u8]) -> SlabKey {
        let user = User {
            name: aor.into(),
            bindings: Bindings::new(),
            pending: 0,
            walk: 0,
            wakes_at: Instant::FAR,
            timer: TimerKey::NONE,
        };
        let key = self.users.insert(user);
        let users = &self.users;
        self.by_name.insert(aor, key, |key| users.get(key).map(|user| &*user.name));
        key
    }

    /// Removes a user without bindings, or arms its timer early enough.
    fn settle(&mut self, key: SlabKey) {
        let Some(user) = self.users.get_mut(key) else { return };
        if user.bindings.is_empty() {
            self.wheel.cancel(user.timer);
            self.by_name.remove(&user.name);
            self.users.remove(key);
            return;
        }
        let first = user.bindings.iter().map(|binding| binding.expires).min().unwrap_or(Instant::FAR);
        let first = if PlantedFault::LateExpiry.is_planted() { first + LATE } else { first };
        if first < user.wakes_at {
            self.wheel.cancel(user.timer);
            user.wakes_at = first;
            user.timer = self.wheel.arm(first, key);
        }
    }

    /// Keyed hash of an address-of-record.
    pub(crate) fn hash(&self, name: &[u8]) -> (u64, u64) {
        self.by_name.hash(name)
    }
}

pub(super) fn retain(bindings: &mut Bindings, is_kept: impl Fn(&Binding) -> bool, ended: impl Fn(&Binding)) {
    bindings.retain(|binding| {
        let is_kept = is_kept(binding);
        if !is_kept {
            ended(binding);
        }
        is_kept
    });
}

fn connections_of(bindings: &[Binding]) -> impl Iterator<Item = ConnectionId> {
    bindings.iter().filter_map(|binding| binding.flow.connection)
}

/// Binding of a permanent contact; `None` if it is not a URI.
fn permanent(contact: &[u8]) -> Option<Binding> {
    let uri = Uri::parse(contact).ok()?;
    let transport = uri.params().value(b"transport").and_then(Transport::from_token);
    let nowhere = core::net::SocketAddr::from(([0, 0, 0, 0], 0));
    let flow = Flow::new(transport.unwrap_or(Transport::DEFAULT), ListenerId(0), nowhere);
    let text = Text { uri: contact, params: b"", path: b"", call_id: b"" };
    let (kind, key, expires) = (Kind::Permanent, BindingKey::Contact, Instant::FAR);
    let (owner, registered) = (Owner::HERE, RegisteredAt::new(Instant::default()));
    Binding::new(text, Terms { q: 1000, kind, key, cseq: 0, expires, owner, registered, flow })
}

/// Delay of [`PlantedFault::LateExpiry`].
const LATE: Duration = Duration::from_secs(60);

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
