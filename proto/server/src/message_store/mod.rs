//! MESSAGE for users without a phone: kept, and delivered later (RFC 3428 §7).

mod choice;
mod deliver;
mod keep;
mod mailbox;
mod record;

use crate::base::{Env, Owner};
use crate::location::BadRecord;
use crate::tables::SharedTables;
use crate::{Config, Host, Payer};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use mailbox::{Delivery, Kept, Mailboxes};
use record::Record;
use ringway_sansio::{Instant, Seed, TimerKey, Wheel};
use ringway_sip::hex16;
use ringway_transaction::{Notice, SlabKey};

/// Kept messages of the users of one shard.
pub(crate) struct Messages {
    is_on: bool,
    /// True: nothing is delivered any more.
    is_stopping: bool,
    /// Maximum time for which a message is kept.
    longest: Duration,
    boxes: Mailboxes,
    wheel: Wheel<Due>,
    /// Earliest time of the next delivery, by the pace of the shard.
    paced_to: Instant,
    /// Memory of removed messages that is not yet released.
    unreleased: Vec<usize>,
    /// Buffer for the key of a record.
    key: Vec<u8>,
}

/// Timer.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The next attempt for a user.
    Mailbox(SlabKey),
    /// A message expires.
    Expiry(SlabKey),
    /// The request of a message that is not kept any more is not repeated any more.
    Ended(u64),
}

/// Reason for not keeping a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NoUser,
    TooLarge,
    HeadTooLarge,
    RecipientFull,
    SenderFull,
    PairFull,
    ShardFull,
    Memory,
    Store,
}

/// End of a kept message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Delivered,
    Rejected,
    Expired,
}

impl Messages {
    pub(crate) fn new(config: &Config, seed: &Seed, now: Instant) -> Self {
        Self {
            is_on: config.presence.keeps_messages(),
            is_stopping: false,
            longest: config.presence.message_lifetime(),
            boxes: Mailboxes::new(&seed.part(MESSAGES_KEY)),
            wheel: Wheel::new(now),
            paced_to: now,
            unreleased: Vec::new(),
            key: Vec::new(),
        }
    }

    /// True if messages are kept, or some are left of a time when they were.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        cfg!(feature = "events") && (self.is_on || self.boxes.len() > 0)
    }

    /// Applies a configuration. What is kept stays until its time.
    pub(crate) fn reconfigure(&mut self, config: &Config) {
        self.is_on = config.presence.keeps_messages();
        self.longest = config.presence.message_lifetime();
    }

    /// Delivers nothing any more, because the server stops.
    pub(crate) const fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Number of kept messages.
    pub(crate) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Number of kept messages of a user.
    pub(crate) fn len_of(&self, aor: &[u8]) -> usize {
        self.boxes.len_of(aor)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        match (cfg!(feature = "events"), self.unreleased.is_empty()) {
            (false, _) => None,
            (true, true) => self.wheel.next_due(),
            (true, false) => Some(Instant::default()),
        }
    }

    /// Restores a message after a restart; the key and the record were passed to [`Host::store`].
    pub(crate) fn restore(
        &mut self,
        tables: &SharedTables,
        key: &[u8],
        record: &[u8],
        now: Instant,
    ) -> Result<(), BadRecord> {
        if !cfg!(feature = "events") {
            return Ok(());
        }
        let (aor, number) = parts_of_key(key).ok_or(BadRecord)?;
        if record.is_empty() {
            // An earlier record of the same journal was restored before.
            self.boxes.keys_of(aor).into_iter().for_each(|key| {
                if self.boxes.message(key).is_some_and(|kept| kept.number == number) {
                    self.remove(key);
                }
            });
            self.unreleased.drain(..).for_each(|bytes| tables.release(SOURCE, bytes));
            return Ok(());
        }
        let mut read = Record::read(record).ok_or(BadRecord)?;
        // The clock may have been set back, or the limit lowered.
        read.received = read.received.min(now);
        read.expires = read.expires.min(read.received + self.longest);
        if read.expires <= now || self.boxes.is_kept(number) {
            return Ok(());
        }
        let bytes = reserved_bytes(record.len());
        // It was accepted: it is kept also where there is no memory left for it.
        let reserved = if tables.reserve(SOURCE, bytes) { bytes } else { 0 };
        let mailbox = self.boxes.find_or_add(aor);
        self.add(Kept::new(mailbox, number, &read, record, now, reserved));
        // Its user may have registered before the restart.
        self.schedule(mailbox, now + AFTER_RESTART);
        Ok(())
    }

    /// Records of the messages in up to `count` slots from slot `from`; returns the next slot, `None` at the end.
    pub(crate) fn records_from(
        &self,
        from: u32,
        count: u32,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Option<u32> {
        let mut key = Vec::new();
        for slot in from..from.saturating_add(count) {
            if let Some((aor, kept)) = self.boxes.at(slot)? {
                write_key(aor, kept.number, &mut key);
                each(&key, &kept.record);
            }
        }
        Some(from.saturating_add(count))
    }

    /// Removes the messages of a removed subscriber.
    pub(crate) fn remove_user(&mut self, host: &dyn Host, tables: &SharedTables, aor: &[u8]) {
        for key in self.boxes.keys_of(aor) {
            self.end_stored(host, key);
        }
        self.unreleased.drain(..).for_each(|bytes| tables.release(SOURCE, bytes));
    }

    /// Takes the notices of deliveries without answer out of the list.
    pub(crate) fn take_notices(&mut self, env: &mut Env<'_>, notices: &mut Vec<Notice<Owner>>) {
        notices.retain(|notice| {
            let (Notice::ClientTimedOut { client, owner } | Notice::ClientUnreachable { client, owner }) =
                *notice;
            let Owner::Message(key) = owner else { return true };
            let delivery = self.boxes.mailbox(key).map(|mailbox| mailbox.delivery);
            if let Some(Delivery::UnderWay(attempt)) = delivery
                && attempt.client == client
            {
                self.on_silence(env, key, attempt);
            }
            false
        });
        self.release(env);
    }

    /// Adds a message to its mailbox, and arms the timer of its expiry.
    fn add(&mut self, mut kept: Kept) -> SlabKey {
        let expires = kept.expires;
        kept.timer = TimerKey::NONE;
        let key = self.boxes.insert(kept);
        let timer = self.wheel.arm(expires, Due::Expiry(key));
        if let Some(kept) = self.boxes.message_mut(key) {
            kept.timer = timer;
        }
        key
    }

    /// Makes the next attempt for a user due at `at`, unless one is due before.
    fn schedule(&mut self, key: SlabKey, at: Instant) {
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        let is_under_way = mailbox.delivery != Delivery::Idle;
        if is_under_way || mailbox.is_paced || mailbox.due.is_some_and(|due| due <= at) {
            return;
        }
        self.wheel.cancel(mailbox.timer);
        mailbox.due = Some(at);
        mailbox.timer = self.wheel.arm(at, Due::Mailbox(key));
    }

    /// Ends a message: removes it from memory and from the store.
    fn end(&mut self, env: &mut Env<'_>, key: SlabKey, end: End) {
        let counter = match end {
            End::Delivered => &mut env.counters.messages_delivered,
            End::Rejected => &mut env.counters.messages_rejected,
            End::Expired => &mut env.counters.messages_expired,
        };
        *counter += 1;
        let repeated_until = self.boxes.message(key).map(|kept| {
            // Timer F of the sender and of its last retransmission.
            (kept.number, kept.sender.clone(), kept.received + env.config.timers.t1 * 64 * 2)
        });
        self.end_stored(env.host, key);
        if let Some((number, sender, until)) = repeated_until.filter(|(_, _, until)| *until > env.cx.now) {
            self.boxes.note_ended(number, sender);
            self.wheel.arm(until, Due::Ended(number));
        }
    }

    fn end_stored(&mut self, host: &dyn Host, key: SlabKey) {
        let mailbox = self.boxes.message(key).map(|kept| (kept.mailbox, kept.number));
        if let Some((mailbox, number)) = mailbox
            && let Some(mailbox) = self.boxes.mailbox(mailbox)
        {
            write_key(&mailbox.aor, number, &mut self.key);
            host.store(&self.key, b"");
        }
        self.remove(key);
    }

    /// Takes a message out of memory.
    fn remove(&mut self, key: SlabKey) {
        let Some(kept) = self.boxes.remove(key) else { return };
        self.wheel.cancel(kept.timer);
        self.unreleased.push(kept.reserved);
        if let Some(mailbox) = self.boxes.settle(kept.mailbox) {
            self.wheel.cancel(mailbox.timer);
        }
    }

    /// Gives back the memory of everything that was removed.
    fn release(&mut self, env: &Env<'_>) {
        self.unreleased.drain(..).for_each(|bytes| env.tables.release(SOURCE, bytes));
    }
}

/// True for the key of a message in the journal, which has other keys for bindings. A user part may have a zero byte too, but
/// then the domain follows it.
pub(crate) fn is_key(key: &[u8]) -> bool {
    parts_of_key(key).is_some()
}

fn parts_of_key(key: &[u8]) -> Option<(&[u8], u64)> {
    let (aor, end) = key.split_at_checked(key.len().checked_sub(NUMBER_BYTES)?)?;
    let number = end.strip_prefix(b"\0").and_then(ringway_sip::read_hex)?;
    Some((aor, number))
}

/// Writes the key of a message's record.
fn write_key(aor: &[u8], number: u64, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(aor);
    key.push(0);
    key.extend_from_slice(&hex16(number));
}

/// Bytes that are reserved for a message with a record of this length: it, and the request that delivers it.
const fn reserved_bytes(record: usize) -> usize {
    2 * record + size_of::<Kept>() + REQUEST_BYTES
}

/// Memory of all kept messages is accounted to this source, so that they leave the rest of the memory of their senders'
/// addresses to calls.
const SOURCE: Payer = Payer::Known(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
/// Bytes of a zero byte and the digits of a number.
const NUMBER_BYTES: usize = 17;
/// Bytes of the header fields that this server writes.
const REQUEST_BYTES: usize = 2048;
/// Time from a restart to the first attempt for users that registered before.
const AFTER_RESTART: Duration = Duration::from_secs(30);
/// Minimum time between two attempts for a user after a failed one.
const RETRY_MIN: Duration = Duration::from_secs(60);
/// Maximum time between two attempts for a user that is registered.
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// Maximum number of attempts to deliver a message.
const ATTEMPTS_MAX: u32 = 100;
/// Time of a delivery in the pace of a shard: 100 in a second.
const DELIVERY_TIME: Duration = Duration::from_millis(10);
/// 100 deliveries at once.
const DELIVERY_BURST: Duration = Duration::from_secs(1);
/// Part of a shard's seed for the hashes.
const MESSAGES_KEY: u64 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_bindings_is_none_of_a_message() {
        let mut key = Vec::new();
        write_key(b"bob@example.org", 7, &mut key);
        assert!(is_key(&key));
        assert_eq!(parts_of_key(&key), Some((&b"bob@example.org"[..], 7)));
        for other in [&b"bob@example.org"[..], b"", b"a\x000123456789abcdef@example.org", b"\0"] {
            assert!(!is_key(other));
        }
    }
}
