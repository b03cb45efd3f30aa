//! Table of the calls of watched users, and the filter in front of it.

use crate::Aor;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, PartHasher, Seed, TableSize, TimerKey, Wheel};
use ringway_transaction::{Slab, SlabKey};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

/// Calls of watched users, one entry for each user in a call. All shards share one table, because a call, its BYE, and its two users
/// may each be in another shard. A call of a user whom nobody watches is not in it.
///
/// Every entry ends: by the end of its call, or at the time that its last step set.
#[derive(Debug)]
pub struct DialogStates {
    filter: Arc<DialogStateFilter>,
    legs: Slab<Leg>,
    /// Watched users, and those with calls. Peers choose the names: a seeded hash.
    users: HashMap<Box<[u8]>, User, SeededHash>,
    /// Open entries by the hash of their Call-ID.
    by_call: HashMap<u64, SmallVec<[SlabKey; 2]>, SeededHash>,
    ends: Wheel<SlabKey>,
    changes: u64,
    displaced: u64,
}

/// User in a call.
///
/// ```text
/// Trying -> Early -> Confirmed -> Terminated -> removed 5 s later
///    \________\_______________________/
/// ```
#[derive(Debug)]
struct Leg {
    user: Aor,
    role: Role,
    state: DialogState,
    remote: Box<[u8]>,
    /// Hashes of Call-ID and tags; the tag of the callee is 0 before the answer.
    call: u64,
    from: u64,
    to: u64,
    until: Instant,
    timer: TimerKey,
}

#[derive(Debug, Default)]
struct User {
    watchers: usize,
    legs: SmallVec<[SlabKey; 2]>,
    /// Number of the last change.
    changed: u64,
}

/// Part of a user in a call (RFC 4235 §4.1.2, `direction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It called.
    Initiator,
    /// It is called.
    Recipient,
}

/// State of a call (RFC 4235 §3.7.1), in the order in which it shows: of two calls with one name the greater one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DialogState {
    /// Ended a short time ago.
    Terminated,
    /// Its INVITE is forwarded.
    Trying,
    /// A phone rings.
    Early,
    /// Answered.
    Confirmed,
}

/// Call as a document shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCall {
    /// Identifier of the dialog in the documents of its user; the same for the whole call.
    pub id: u64,
    /// Part of the user.
    pub role: Role,
    /// State.
    pub state: DialogState,
    /// URI of the other side; empty: not shown to anybody.
    pub remote: Box<[u8]>,
}

/// Call that begins.
#[derive(Clone, Copy, Debug)]
pub struct NewLeg<'a> {
    /// Watched user.
    pub user: &'a Aor,
    /// Its part.
    pub role: Role,
    /// URI of the other side; empty: not shown to anybody.
    pub remote: &'a [u8],
    /// Call-ID.
    pub call_id: &'a [u8],
    /// Tag of the caller.
    pub from_tag: &'a [u8],
}

/// Reason why a call is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotShown {
    /// Nobody watches the user.
    Unwatched,
    /// A limit: [`DialogStates::CALLS_MAX`], [`DialogStates::OF_USER_MAX`], [`DialogStates::OF_CALL_MAX`], [`DialogStates::AOR_BYTES_MAX`].
    Limit,
}

/// State of a user's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DialogStatus {
    /// Number of the last change; it only increases.
    pub changed: u64,
    /// Time at which the first of its open calls ends if no other step comes; `None`: it has none.
    pub next_end: Option<Instant>,
}

impl DialogStates {
    /// Creates an empty table, which keeps `filter` up to date.
    pub fn new(filter: Arc<DialogStateFilter>, seed: &Seed, now: Instant) -> Self {
        Self {
            filter,
            legs: Slab::default(),
            users: HashMap::with_hasher(SeededHash::new(&seed.part(0))),
            by_call: HashMap::with_hasher(SeededHash::new(&seed.part(1))),
            ends: Wheel::new(now),
            changes: 0,
            displaced: 0,
        }
    }

    /// Memory of all calls in lamps, and of so many watched users.
    pub const fn sizes(watched: usize) -> [TableSize; 2] {
        let (calls, users) = (Self::CALLS_MAX, watched + Self::CALLS_MAX);
        let user = size_of::<(Box<[u8]>, User)>();
        [
            Slab::<Leg>::size("calls in lamps", calls)
                .with_each(Self::AOR_BYTES_MAX + Self::REMOTE_BYTES_MAX + Self::OF_USER_MAX * LEG_KEY_BYTES)
                .with_map(calls, size_of::<(u64, SmallVec<[SlabKey; 2]>)>())
                .with_bytes(Wheel::<SlabKey>::bytes_of(calls)),
            TableSize::of_map("watched users", users, user).with_each(Self::AOR_BYTES_MAX),
        ]
    }

    /// Notes a subscription to the dialogs of a user. Its calls are followed from now on.
    pub fn watch(&mut self, user: &Aor) {
        self.users.entry(user.as_bytes().into()).or_default().watchers += 1;
        self.filter.count_user(user.as_bytes(), Change::More);
    }

    /// Notes the end of a subscription. Calls that are followed stay so.
    pub fn unwatch(&mut self, user: &Aor) {
        let Some(entry) = self.users.get_mut(user.as_bytes()).filter(|entry| entry.watchers > 0) else {
            return;
        };
        entry.watchers -= 1;
        self.filter.count_user(user.as_bytes(), Change::Less);
        self.settle(user.as_bytes());
    }

    /// Begins a call of a watched user. The users whose watchers have to be notified are added to `changed`, here and in all other steps.
    ///
    /// # Errors
    /// The call is not followed.
    pub fn begin(
        &mut self,
        now: Instant,
        new: &NewLeg<'_>,
        changed: &mut Vec<Aor>,
    ) -> Result<SlabKey, NotShown> {
        self.expire(now, changed);
        let name = new.user.as_bytes();
        if self.users.get(name).is_none_or(|user| user.watchers == 0) {
            return Err(NotShown::Unwatched);
        }
        let call = self.filter.hash(new.call_id);
        let is_full = self.legs.len() >= Self::CALLS_MAX
            || name.len() > Self::AOR_BYTES_MAX
            || self.by_call.get(&call).is_some_and(|legs| legs.len() >= Self::OF_CALL_MAX);
        if is_full || !self.make_room(name) {
            return Err(NotShown::Limit);
        }
        let until = now + UNANSWERED_MAX;
        let remote = if new.remote.len() > Self::REMOTE_BYTES_MAX { &[] } else { new.remote };
        let key = self.legs.insert(Leg {
            user: new.user.clone(),
            role: new.role,
            state: DialogState::Trying,
            remote: remote.into(),
            call,
            from: self.filter.hash(new.from_tag),
            to: 0,
            until,
            timer: TimerKey::NONE,
        });
        self.by_call.entry(call).or_default().push(key);
        self.filter.count_call(call, Change::More);
        if let Some(user) = self.users.get_mut(name) {
            user.legs.push(key);
        }
        self.set(key, DialogState::Trying, until, changed);
        Ok(key)
    }

    /// Notes that a phone rings.
    pub fn ring(&mut self, now: Instant, key: SlabKey, changed: &mut Vec<Aor>) {
        self.expire(now, changed);
        if let Some(leg) = self.legs.get(key).filter(|leg| leg.state == DialogState::Trying) {
            self.set(key, DialogState::Early, leg.until, changed);
        }
    }

    /// Notes the answer, with the tag of the callee. The call ends at `until` at the latest.
    pub fn answer(
        &mut self,
        now: Instant,
        key: SlabKey,
        to_tag: &[u8],
        until: Instant,
        changed: &mut Vec<Aor>,
    ) {
        self.expire(now, changed);
        let to = self.filter.hash(to_tag);
        let leg = self.legs.get_mut(key);
        if let Some(leg) = leg.filter(|leg| matches!(leg.state, DialogState::Trying | DialogState::Early)) {
            leg.to = to;
            self.set(key, DialogState::Confirmed, until, changed);
        }
    }

    /// Ends a call that was not answered.
    pub fn end_unanswered(&mut self, now: Instant, key: SlabKey, changed: &mut Vec<Aor>) {
        self.expire(now, changed);
        let leg = self.legs.get(key);
        if leg.is_some_and(|leg| matches!(leg.state, DialogState::Trying | DialogState::Early)) {
            self.end(now, key, changed);
        }
    }

    /// Ends the answered calls with these tags, in either order.
    pub fn end_dialog(&mut self, now: Instant, call_id: &[u8], tags: (&[u8], &[u8]), changed: &mut Vec<Aor>) {
        self.expire(now, changed);
        for key in self.of_dialog(call_id, tags.0, tags.1) {
            self.end(now, key, changed);
        }
    }

    /// Ends the answered calls with these tags for the user whose tag is the first.
    pub fn end_side(&mut self, now: Instant, call_id: &[u8], tags: (&[u8], &[u8]), changed: &mut Vec<Aor>) {
        self.expire(now, changed);
        let side = self.filter.hash(tags.0);
        for key in self.of_dialog(call_id, tags.0, tags.1) {
            let own = self.legs.get(key).map(|leg| match leg.role {
                Role::Initiator => leg.from,
                Role::Recipient => leg.to,
            });
            if own == Some(side) {
                self.end(now, key, changed);
            }
        }
    }

    /// Changes the end of the answered calls with these tags, in either order.
    pub fn extend(
        &mut self,
        now: Instant,
        call_id: &[u8],
        tags: (&[u8], &[u8]),
        until: Instant,
        changed: &mut Vec<Aor>,
    ) {
        self.expire(now, changed);
        for key in self.of_dialog(call_id, tags.0, tags.1) {
            if let Some(leg) = self.legs.get_mut(key) {
                self.ends.cancel(leg.timer);
                (leg.until, leg.timer) = (until, self.ends.arm(until, key));
            }
        }
    }

    /// Ends the calls whose time has passed, and forgets those that ended a while ago.
    pub fn expire(&mut self, now: Instant, changed: &mut Vec<Aor>) {
        while let Some(key) = self.ends.expire(now) {
            let Some(leg) = self.legs.get_mut(key) else { continue };
            leg.timer = TimerKey::NONE;
            match leg.state {
                DialogState::Terminated => self.remove(key),
                DialogState::Trying | DialogState::Early | DialogState::Confirmed => {
                    self.end(now, key, changed)
                }
            }
        }
    }

    /// Forgets all calls and watchers.
    pub fn clear(&mut self) {
        for (name, user) in &mut self.users {
            let watchers = core::mem::take(&mut user.watchers);
            (0..watchers).for_each(|_| self.filter.count_user(name, Change::Less));
        }
        self.forget_unwatched();
    }

    /// Forgets the calls of users without watchers, because their ends are not reported any more.
    pub fn forget_unwatched(&mut self) {
        let unwatched = self.users.extract_if(|_, user| user.watchers == 0);
        let keys: Vec<_> = unwatched.flat_map(|(_, user)| user.legs).collect();
        for key in keys {
            if self.legs.get(key).is_some_and(|leg| leg.state != DialogState::Terminated) {
                self.forget_call(key);
            }
            self.remove(key);
        }
    }

    /// State of the calls of `user@domain`.
    pub fn status(&mut self, now: Instant, user: &[u8], changed: &mut Vec<Aor>) -> DialogStatus {
        self.expire(now, changed);
        let Some(user) = self.users.get(user) else { return DialogStatus::default() };
        let open = user.legs.iter().filter_map(|key| self.legs.get(*key));
        let open = open.filter(|leg| leg.state != DialogState::Terminated);
        DialogStatus { changed: user.changed, next_end: open.map(|leg| leg.until).min() }
    }

    /// Adds the calls of `user@domain` to `shown`. Several entries of one call, as after a fork before this server, are one.
    pub fn calls_of(&self, user: &[u8], shown: &mut Vec<ShownCall>) {
        let legs = self.users.get(user).map_or(&[][..], |user| &user.legs);
        for leg in legs.iter().filter_map(|key| self.legs.get(*key)) {
            let id = self.filter.shown_id(leg.user.as_bytes(), leg.call, leg.from);
            let earlier = shown.iter_mut().find(|call| (call.id, call.role) == (id, leg.role));
            match earlier {
                Some(call) => call.state = call.state.max(leg.state),
                None => {
                    let remote = leg.remote.clone();
                    shown.push(ShownCall { id, role: leg.role, state: leg.state, remote });
                }
            }
        }
    }

    /// Number of calls that have not ended: of all, and of those that were not answered.
    pub fn open(&self) -> (usize, usize) {
        self.legs.iter().fold((0, 0), |(open, unanswered), (_, leg)| match leg.state {
            DialogState::Terminated => (open, unanswered),
            DialogState::Trying | DialogState::Early => (open + 1, unanswered + 1),
            DialogState::Confirmed => (open + 1, unanswered),
        })
    }

    /// Number of unanswered calls that later ones of their users displaced; it only increases.
    pub const fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Number of entries, with those of calls that ended a short time ago.
    pub fn len(&self) -> usize {
        self.legs.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.legs.is_empty()
    }

    /// Number of watched users, and of those with calls.
    pub fn users_len(&self) -> usize {
        self.users.len()
    }

    /// Makes room among the calls of a user: one that has ended is forgotten, or the oldest that nobody answered. False: all are answered.
    fn make_room(&mut self, name: &[u8]) -> bool {
        let Some(user) = self.users.get(name).filter(|user| user.legs.len() >= Self::OF_USER_MAX) else {
            return true;
        };
        // In the order in which they began.
        let first = |is_it: fn(DialogState) -> bool| {
            user.legs.iter().copied().find(|key| self.legs.get(*key).is_none_or(|leg| is_it(leg.state)))
        };
        if let Some(ended) = first(|state| state == DialogState::Terminated) {
            self.remove(ended);
            return true;
        }
        let unanswered = first(|state| matches!(state, DialogState::Trying | DialogState::Early));
        let Some(unanswered) = unanswered else { return false };
        self.forget_call(unanswered);
        self.remove(unanswered);
        self.displaced += 1;
        true
    }

    fn of_dialog(&self, call_id: &[u8], one: &[u8], other: &[u8]) -> SmallVec<[SlabKey; 2]> {
        let Some(legs) = self.by_call.get(&self.filter.hash(call_id)) else { return SmallVec::new() };
        let tags = (self.filter.hash(one), self.filter.hash(other));
        let is_it = |key: &SlabKey| {
            self.legs.get(*key).is_some_and(|leg| {
                leg.state == DialogState::Confirmed
                    && ((leg.from, leg.to) == tags || (leg.to, leg.from) == tags)
            })
        };
        legs.iter().copied().filter(is_it).collect()
    }

    fn set(&mut self, key: SlabKey, state: DialogState, until: Instant, changed: &mut Vec<Aor>) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        self.ends.cancel(leg.timer);
        (leg.state, leg.until, leg.timer) = (state, until, self.ends.arm(until, key));
        self.changes += 1;
        if let Some(user) = self.users.get_mut(leg.user.as_bytes()) {
            user.changed = self.changes;
            if user.watchers > 0 && !changed.contains(&leg.user) {
                changed.push(leg.user.clone());
            }
        }
    }

    /// Ends a call; it is shown as ended for a while.
    fn end(&mut self, now: Instant, key: SlabKey, changed: &mut Vec<Aor>) {
        if self.legs.get(key).is_some_and(|leg| leg.state != DialogState::Terminated) {
            self.set(key, DialogState::Terminated, now + ENDED_SHOWN_FOR, changed);
            self.forget_call(key);
        }
    }

    /// Removes the Call-ID of an open call.
    fn forget_call(&mut self, key: SlabKey) {
        let Some(call) = self.legs.get(key).map(|leg| leg.call) else { return };
        self.filter.count_call(call, Change::Less);
        if let Entry::Occupied(mut entry) = self.by_call.entry(call) {
            entry.get_mut().retain(|other| *other != key);
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    /// Removes a call whose Call-ID is removed.
    fn remove(&mut self, key: SlabKey) {
        let Some(leg) = self.legs.remove(key) else { return };
        self.ends.cancel(leg.timer);
        if let Some(user) = self.users.get_mut(leg.user.as_bytes()) {
            user.legs.retain(|other| *other != key);
        }
        self.settle(leg.user.as_bytes());
    }

    /// Forgets a user without watchers and calls.
    fn settle(&mut self, name: &[u8]) {
        if self.users.get(name).is_some_and(|user| user.watchers == 0 && user.legs.is_empty()) {
            self.users.remove(name);
        }
    }

    /// Maximum number of entries, about 1 KiB each at most.
    pub const CALLS_MAX: usize = 16_384;
    /// Maximum number of entries of a user.
    pub const OF_USER_MAX: usize = 8;
    /// Maximum number of open entries with one Call-ID.
    pub const OF_CALL_MAX: usize = 8;
    /// Maximum length in bytes of `user@domain`.
    pub const AOR_BYTES_MAX: usize = 320;
    /// Maximum length in bytes of the URI of the other side; a longer one is not shown.
    pub const REMOTE_BYTES_MAX: usize = 128;
}

/// Bytes of a key in the list of a user, which grows by doubling.
const LEG_KEY_BYTES: usize = 2 * size_of::<SlabKey>();
/// Longest time without a final response: an hour of ringing, and the time for the targets that follow. The end of its transaction
/// ends a call before.
const UNANSWERED_MAX: Duration = Duration::from_secs(4200);
/// Time for which an ended call is in documents, so that watchers get its end by a NOTIFY that is delayed by their interval.
const ENDED_SHOWN_FOR: Duration = Duration::from_secs(5);

/// Counts of watched users and of lit calls, by parts of their keyed hashes. All shards read it, the table changes it.
#[derive(Debug)]
pub struct DialogStateFilter {
    key: [u8; 16],
    watched: AtomicU32,
    shown: AtomicU32,
    users: [AtomicU32; SLOTS],
    calls: [AtomicU32; SLOTS],
}

/// Direction of a change of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    More,
    Less,
}

impl DialogStateFilter {
    /// Creates an empty filter; the key is the first half of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().split_at(16).0);
        Self {
            key,
            watched: AtomicU32::new(0),
            shown: AtomicU32::new(0),
            users: [const { AtomicU32::new(0) }; SLOTS],
            calls: [const { AtomicU32::new(0) }; SLOTS],
        }
    }

    /// True if the dialogs of any user are watched.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    /// True if any call of a watched user is open.
    #[inline]
    pub fn has_calls(&self) -> bool {
        self.shown.load(Ordering::Relaxed) > 0
    }

    /// False if nobody watches the dialogs of `user@domain`.
    pub fn may_watch(&self, aor: &[u8]) -> bool {
        self.is_watching() && is_set(&self.users, self.hash(aor))
    }

    /// False if no call of a watched user has this Call-ID.
    pub fn may_have(&self, call_id: &[u8]) -> bool {
        self.has_calls() && is_set(&self.calls, self.hash(call_id))
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(bytes);
        hash.hasher().finish()
    }

    /// Identifier of a call in the documents of a user: a watcher of two users cannot tell that they are in one call.
    pub(super) fn shown_id(&self, user: &[u8], call: u64, from: u64) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(user);
        hash.fixed(&call.to_be_bytes());
        hash.fixed(&from.to_be_bytes());
        hash.hasher().finish()
    }

    pub(super) fn count_user(&self, aor: &[u8], change: Change) {
        count(&self.watched, change);
        count(slot(&self.users, self.hash(aor)), change);
    }

    pub(super) fn count_call(&self, call: u64, change: Change) {
        count(&self.shown, change);
        count(slot(&self.calls, call), change);
    }
}

fn is_set(counts: &[AtomicU32; SLOTS], hash: u64) -> bool {
    slot(counts, hash).load(Ordering::Relaxed) > 0
}

const fn slot(counts: &[AtomicU32; SLOTS], hash: u64) -> &AtomicU32 {
    &counts[hash as usize % SLOTS]
}

fn count(count: &AtomicU32, change: Change) {
    match change {
        Change::More => count.fetch_add(1, Ordering::Relaxed),
        Change::Less => count.fetch_sub(1, Ordering::Relaxed),
    };
}

/// Parts of the hashes. With few watched users, and few calls of theirs, most others find their part empty.
const SLOTS: usize = 1024;
