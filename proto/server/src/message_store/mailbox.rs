//! Kept messages of a shard by number, user and sender, within their limits, and the contacts that failed to take them.

use super::Refusal;
use super::record::Record;
use crate::Aor;
use crate::location::Binding;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Defence, DialledId, Instant, PartHasher, Seed, TimerKey};
use ringway_transaction::{ClientId, Slab, SlabKey};
use siphasher::sip::SipHasher13;

/// Message for a user without a phone.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) mailbox: SlabKey,
    /// Its number: the keyed hash of its request.
    pub(super) number: u64,
    pub(super) sender: Box<[u8]>,
    pub(super) received: Instant,
    pub(super) expires: Instant,
    /// It was for a `sips:` URI.
    pub(super) is_sips: bool,
    /// As it is in the store.
    pub(super) record: Box<[u8]>,
    /// Number of requests that were sent to deliver it.
    pub(super) attempts: u32,
    /// Number of times that other messages went before it, because a phone answered with a failure.
    pub(super) set_back: u32,
    /// Contacts that refused it, and the time from which they are tried again.
    pub(super) refused: Failed,
    pub(super) paused_until: Instant,
    /// Timer of its expiry.
    pub(super) timer: TimerKey,
    /// Bytes that are reserved for it.
    pub(super) reserved: usize,
}

impl Kept {
    /// A message that was not sent yet; `record` is also in the store, and `reserved` bytes are reserved for it.
    pub(super) fn new(
        mailbox: SlabKey,
        number: u64,
        read: &Record<'_>,
        record: &[u8],
        now: Instant,
        reserved: usize,
    ) -> Self {
        Self {
            mailbox,
            number,
            sender: read.sender.into(),
            received: read.received,
            expires: read.expires,
            is_sips: read.is_sips,
            record: record.into(),
            attempts: 0,
            set_back: 0,
            refused: Failed::default(),
            paused_until: now,
            timer: TimerKey::NONE,
            reserved,
        }
    }
}

/// User with kept messages.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// `user@domain`.
    pub(super) aor: Box<[u8]>,
    /// Oldest first.
    pub(super) queue: VecDeque<SlabKey>,
    pub(super) delivery: Delivery,
    /// Timer of the next attempt, and its time.
    pub(super) timer: TimerKey,
    pub(super) due: Option<Instant>,
    /// The next attempt has its time in the pace of the shard.
    pub(super) is_paced: bool,
    /// Contact that registered last, or that took the last message.
    pub(super) preferred: Option<ContactId>,
    /// Contacts that were silent or busy, and the time from which they are tried again.
    pub(super) silent: Failed,
    pub(super) paused_until: Instant,
    /// Number of times that a phone was silent or busy since the last answer of one.
    pub(super) failures: u32,
    /// Time of the last of them.
    pub(super) failed_at: Instant,
    /// Bytes of the records.
    bytes: usize,
}

/// Delivery of the messages of a user, of which one is under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Idle,
    UnderWay(Attempt),
}

/// Message on its way to a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) client: ClientId,
    pub(super) message: SlabKey,
    pub(super) contact: ContactId,
    /// Connection of a neighbour that is used for this request only.
    pub(super) dialled: DialledId,
}

/// Number of messages, and bytes of their records.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl Sum {
    /// True if one more message with this record is within the limits.
    const fn has_room(self, bytes: usize, count_max: usize, bytes_max: usize) -> bool {
        self.count < count_max && self.bytes + bytes <= bytes_max
    }
}

/// All kept messages of a shard.
pub(super) struct Mailboxes {
    kept: Slab<Kept>,
    boxes: Slab<Mailbox>,
    by_name: HashMap<Box<[u8]>, SlabKey, SeededHash>,
    by_number: HashMap<u64, SlabKey, SeededHash>,
    /// Messages of each sender. Peers choose the names: a seeded hash.
    by_sender: HashMap<Box<[u8]>, Sum, SeededHash>,
    /// Senders of messages that are not kept any more and whose request may be repeated, by number. They count as messages of their
    /// senders, so that nobody fills the shard with them.
    ended: HashMap<u64, Box<[u8]>, SeededHash>,
    bytes: usize,
}

impl Mailboxes {
    pub(super) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            kept: Slab::default(),
            boxes: Slab::default(),
            by_name: HashMap::with_hasher(hash),
            by_number: HashMap::with_hasher(hash),
            by_sender: HashMap::with_hasher(hash),
            ended: HashMap::with_hasher(hash),
            bytes: 0,
        }
    }

    /// Checks the limits for a message of `sender` to `recipient` whose record has this length.
    pub(super) fn check(&self, recipient: &Aor, sender: &Aor, bytes: usize) -> Result<(), Refusal> {
        if !Defence::KeptTexts.is_on() {
            return Ok(());
        }
        if self.kept.len() + self.ended.len() >= OF_SHARD_MAX || self.bytes + bytes > OF_SHARD_BYTES_MAX {
            return Err(Refusal::ShardFull);
        }
        let of_sender = self.by_sender.get(sender.as_bytes()).copied().unwrap_or_default();
        if of_sender.count >= OF_SENDER_MAX || !self.leaves_room(of_sender, bytes) {
            return Err(Refusal::SenderFull);
        }
        let Some(mailbox) = self.find(recipient.as_bytes()).and_then(|key| self.boxes.get(key)) else {
            return Ok(());
        };
        if mailbox.queue.len() >= OF_RECIPIENT_MAX || mailbox.bytes + bytes > OF_RECIPIENT_BYTES_MAX {
            return Err(Refusal::RecipientFull);
        }
        let mut of_pair = Sum::default();
        for kept in mailbox.queue.iter().filter_map(|key| self.kept.get(*key)) {
            if *kept.sender == *sender.as_bytes() {
                of_pair = Sum { count: of_pair.count + 1, bytes: of_pair.bytes + kept.record.len() };
            }
        }
        match of_pair.has_room(bytes, OF_PAIR_MAX, OF_PAIR_BYTES_MAX) {
            true => Ok(()),
            false => Err(Refusal::PairFull),
        }
    }

    /// True if a sender with these messages leaves enough to the others: in a shard that is more than half full, a sender may have
    /// 1 / [`SENDER_SHARE`] of the rest.
    fn leaves_room(&self, of_sender: Sum, bytes: usize) -> bool {
        let used = self.kept.len() + self.ended.len();
        let (count, rest) =
            (OF_SHARD_MAX.saturating_sub(used), OF_SHARD_BYTES_MAX.saturating_sub(self.bytes));
        let is_scarce = count < OF_SHARD_MAX / 2 || rest < OF_SHARD_BYTES_MAX / 2;
        !is_scarce || of_sender.has_room(bytes, count / SENDER_SHARE, rest / SENDER_SHARE)
    }

    /// Bytes of the records of a sender.
    pub(super) fn bytes_of_sender(&self, sender: &[u8]) -> usize {
        self.by_sender.get(sender).map_or(0, |sum| sum.bytes)
    }

    pub(super) fn find_or_add(&mut self, aor: &[u8]) -> SlabKey {
        if let Some(key) = self.find(aor) {
            return key;
        }
        let key = self.boxes.insert(Mailbox {
            aor: aor.into(),
            queue: VecDeque::new(),
            delivery: Delivery::Idle,
            timer: TimerKey::NONE,
            due: None,
            is_paced: false,
            preferred: None,
            silent: Failed::default(),
            paused_until: Instant::default(),
            failures: 0,
            failed_at: Instant::default(),
            bytes: 0,
        });
        self.by_name.insert(aor.into(), key);
        key
    }

    /// Adds a message to its user's, in the order of receipt.
    pub(super) fn insert(&mut self, kept: Kept) -> SlabKey {
        let (mailbox, number, received, bytes) =
            (kept.mailbox, kept.number, kept.received, kept.record.len());
        self.count(&kept.sender, bytes);
        let key = self.kept.insert(kept);
        self.by_number.insert(number, key);
        self.bytes += bytes;
        let Self { kept, boxes, .. } = self;
        if let Some(mailbox) = boxes.get_mut(mailbox) {
            mailbox.bytes += bytes;
            let is_later = |other: &SlabKey| kept.get(*other).is_some_and(|other| other.received > received);
            let later = mailbox.queue.iter().rev().take_while(|other| is_later(other)).count();
            mailbox.queue.insert(mailbox.queue.len() - later, key);
        }
        key
    }

    /// Takes a message out. Its user's mailbox stays until it is [settled](Self::settle).
    pub(super) fn remove(&mut self, key: SlabKey) -> Option<Kept> {
        let kept = self.kept.remove(key)?;
        self.by_number.remove(&kept.number);
        self.bytes = self.bytes.saturating_sub(kept.record.len());
        self.uncount(&kept.sender, kept.record.len());
        if let Some(mailbox) = self.boxes.get_mut(kept.mailbox) {
            mailbox.bytes = mailbox.bytes.saturating_sub(kept.record.len());
            mailbox.queue.retain(|other| *other != key);
        }
        Some(kept)
    }

    /// Removes the mailbox of a user without messages, and returns it.
    pub(super) fn settle(&mut self, key: SlabKey) -> Option<Mailbox> {
        self.boxes.get(key).filter(|mailbox| mailbox.queue.is_empty())?;
        let mailbox = self.boxes.remove(key)?;
        self.by_name.remove(&mailbox.aor);
        Some(mailbox)
    }

    /// Notes that the message of `sender` with this number is not kept any more.
    pub(super) fn note_ended(&mut self, number: u64, sender: Box<[u8]>) {
        self.count(&sender, 0);
        self.ended.insert(number, sender);
    }

    pub(super) fn forget_ended(&mut self, number: u64) {
        if let Some(sender) = self.ended.remove(&number) {
            self.uncount(&sender, 0);
        }
    }

    fn count(&mut self, sender: &[u8], bytes: usize) {
        let sum = self.by_sender.entry(sender.into()).or_default();
        *sum = Sum { count: sum.count + 1, bytes: sum.bytes + bytes };
    }

    fn uncount(&mut self, sender: &[u8], bytes: usize) {
        if let Some(sum) = self.by_sender.get_mut(sender) {
            *sum = Sum { count: sum.count.saturating_sub(1), bytes: sum.bytes.saturating_sub(bytes) };
            if sum.count == 0 {
                self.by_sender.remove(sender);
            }
        }
    }

    /// True for a message that is kept, or was a short time ago.
    pub(super) fn has(&self, number: u64) -> bool {
        self.by_number.contains_key(&number) || self.ended.contains_key(&number)
    }

    pub(super) fn is_kept(&self, number: u64) -> bool {
        self.by_number.contains_key(&number)
    }

    pub(super) fn find(&self, aor: &[u8]) -> Option<SlabKey> {
        self.by_name.get(aor).copied()
    }

    pub(super) fn message(&self, key: SlabKey) -> Option<&Kept> {
        self.kept.get(key)
    }

    pub(super) fn message_mut(&mut self, key: SlabKey) -> Option<&mut Kept> {
        self.kept.get_mut(key)
    }

    pub(super) fn mailbox(&self, key: SlabKey) -> Option<&Mailbox> {
        self.boxes.get(key)
    }

    pub(super) fn mailbox_mut(&mut self, key: SlabKey) -> Option<&mut Mailbox> {
        self.boxes.get_mut(key)
    }

    /// Number of messages.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Number of messages of a user.
    pub(super) fn len_of(&self, aor: &[u8]) -> usize {
        self.find(aor).and_then(|key| self.boxes.get(key)).map_or(0, |mailbox| mailbox.queue.len())
    }

    /// Messages of a user.
    pub(super) fn keys_of(&self, aor: &[u8]) -> Vec<SlabKey> {
        let mailbox = self.find(aor).and_then(|key| self.boxes.get(key));
        mailbox.map(|mailbox| mailbox.queue.iter().copied().collect()).unwrap_or_default()
    }

    /// Message in a slot, with the `user@domain` that it is for; `None` after the last slot.
    pub(super) fn at(&self, slot: u32) -> Option<Option<(&[u8], &Kept)>> {
        let kept = self.kept.at(slot)?;
        Some(kept.and_then(|kept| self.boxes.get(kept.mailbox).map(|mailbox| (&*mailbox.aor, kept))))
    }
}

/// Maximum number of messages of a shard.
const OF_SHARD_MAX: usize = 10_000;
/// Maximum number of bytes of their records.
const OF_SHARD_BYTES_MAX: usize = 16 << 20;
/// Maximum number of messages for a user.
const OF_RECIPIENT_MAX: usize = 100;
/// Maximum number of bytes of their records.
const OF_RECIPIENT_BYTES_MAX: usize = 256 << 10;
/// Maximum number of messages of a sender to the users of a shard.
const OF_SENDER_MAX: usize = 50;
/// Part of the rest of a shard's limits, and of the memory of all messages, that a sender may have: 1 / `SENDER_SHARE`. The rest
/// then never ends: each further sender that takes its share leaves 63 / 64 of it.
pub(super) const SENDER_SHARE: usize = 64;
/// Maximum number of messages of one sender to one user.
const OF_PAIR_MAX: usize = 20;
/// Maximum number of bytes of their records.
const OF_PAIR_BYTES_MAX: usize = OF_RECIPIENT_BYTES_MAX / 5;

/// Keyed hash of a contact: of its instance and reg-id, or of its URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContactId(u64);

/// Contacts in the order in which they failed, the last one at the end.
#[derive(Debug, Default)]
pub(super) struct Failed(Vec<ContactId>);

impl ContactId {
    pub(super) fn of(key: &[u8; 16], binding: &Binding) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        match binding.flow_key() {
            Some(flow) => {
                hash.part(flow.instance);
                hash.fixed(&flow.reg_id.to_le_bytes());
            }
            None => hash.part(binding.uri()),
        }
        Self(hash.hasher().finish())
    }
}

impl Failed {
    pub(super) fn note(&mut self, id: ContactId) {
        self.forget(id);
        if self.0.len() >= FAILED_MAX {
            self.0.remove(0);
        }
        self.0.push(id);
    }

    /// Notes it as the one that failed first.
    pub(super) fn note_first(&mut self, id: ContactId) {
        self.forget(id);
        self.0.insert(0, id);
    }

    pub(super) fn forget(&mut self, id: ContactId) {
        self.0.retain(|other| *other != id);
    }

    /// Position among those that failed; the one that failed first has 0.
    pub(super) fn position(&self, id: ContactId) -> Option<usize> {
        self.0.iter().position(|other| *other == id)
    }

    pub(super) fn has(&self, id: ContactId) -> bool {
        self.position(id).is_some()
    }
}

/// Maximum number of failed contacts that are remembered.
const FAILED_MAX: usize = 32;
