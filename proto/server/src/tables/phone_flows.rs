//! Flows that phones left, and the present flows of phones behind a front.

use super::owned::{EntryOwner, Lifetime, Owned, Shares};
use crate::token::{Side, TargetHash, UserHash};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::Hasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Flow, Instant, PartHasher, TableSize};
use siphasher::sip::SipHasher13;

/// Flows that a phone left for another one. The earliest ones give way: of a user to those of the same user, of all to all.
#[derive(Debug)]
pub(super) struct LeftFlows {
    flows: HashMap<u64, Left, SeededHash>,
    /// Keys by number.
    order: BTreeMap<u64, u64>,
    order_of_owner: BTreeMap<(EntryOwner, u64), u64>,
    shares: Shares,
    entries_max: usize,
    /// Number of the next entry.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    /// Flow that the phone has since.
    to: Side,
    user: UserHash,
    at_s: u64,
    until: Instant,
    number: u64,
}

/// Phone behind a front: a user, and an instance with its `reg-id`, or a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhoneHash(u64);

/// The flow that each phone behind a front has registered over last.
#[derive(Debug)]
pub(super) struct PhoneFlows(Owned<Side>);

impl PhoneHash {
    /// `name`: what tells the phones of a user apart.
    pub(crate) fn of(key: &[u8; 16], user: UserHash, name: [&[u8]; 2]) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"phone");
        hash.fixed(&user.number().to_le_bytes());
        name.iter().for_each(|part| hash.part(part));
        Self(hash.hasher().finish())
    }
}

impl LeftFlows {
    /// Maximum number of flows that a phone took one after another since the mark was made.
    const STEPS_MAX: usize = 8;

    pub(super) fn new(hash: SeededHash, entries_max: usize) -> Self {
        Self {
            flows: HashMap::with_hasher(hash),
            order: BTreeMap::new(),
            order_of_owner: BTreeMap::new(),
            shares: Shares::new(hash, entries_max),
            entries_max,
            next: 0,
        }
    }

    pub(super) const fn size(entries_max: usize) -> TableSize {
        TableSize::of_map("flows that phones left", entries_max, size_of::<(u64, Left)>())
            .with_tree(entries_max, size_of::<(u64, u64)>())
            .with_tree(entries_max, size_of::<((EntryOwner, u64), u64)>())
            .with_bytes(Shares::bytes_of(entries_max))
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Notes that a phone of `user` has registered over `to` instead of `from`; false, if another one that had not ended was forgotten
    /// for it.
    pub(super) fn note(
        &mut self,
        key: &[u8; 16],
        from: Side,
        to: Side,
        user: UserHash,
        lifetime: Lifetime,
    ) -> bool {
        let Lifetime { now, until } = lifetime;
        let (from, owner) = (key_of(key, from), EntryOwner::of_user(user));
        self.remove(from);
        let mut has_room = true;
        while let Some(earliest) = self.earliest_in_the_way(owner) {
            has_room &= self.remove(earliest).is_none_or(|left| left.until <= now);
        }
        let number = self.next;
        self.next += 1;
        self.flows.insert(from, Left { to, user, at_s: now.as_secs(), until, number });
        self.order.insert(number, from);
        self.order_of_owner.insert((owner, number), from);
        self.shares.add(owner);
        has_room
    }

    /// Key of the flow that must give way to one of this owner.
    fn earliest_in_the_way(&self, owner: EntryOwner) -> Option<u64> {
        if !self.shares.has_room(owner) {
            let of_owner = self.order_of_owner.range((owner, 0)..=(owner, u64::MAX));
            return of_owner.map(|(_, key)| *key).next();
        }
        self.order.values().next().copied().filter(|_| self.flows.len() >= self.entries_max)
    }

    fn remove(&mut self, from: u64) -> Option<Left> {
        let left = self.flows.remove(&from)?;
        let owner = EntryOwner::of_user(left.user);
        self.order.remove(&left.number);
        self.order_of_owner.remove(&(owner, left.number));
        self.shares.remove(owner);
        Some(left)
    }

    /// Flow that the phone of `user` has registered with since `since_s`, instead of `side`.
    pub(super) fn registered(
        &self,
        key: &[u8; 16],
        side: Side,
        user: UserHash,
        now: Instant,
        mut since_s: u64,
    ) -> Option<Side> {
        let mut current = None;
        for _ in 0..Self::STEPS_MAX {
            let left = self.flows.get(&key_of(key, current.unwrap_or(side)));
            let is_it = |left: &&Left| left.until > now && left.user == user && left.at_s >= since_s;
            let Some(left) = left.filter(is_it) else { break };
            (current, since_s) = (Some(left.to), left.at_s);
        }
        current
    }
}

impl PhoneFlows {
    pub(super) const fn size(entries_max: usize) -> TableSize {
        Owned::<Side>::size("flows of phones behind a front", entries_max)
    }

    pub(super) fn new(hash: SeededHash, entries_max: usize) -> Self {
        Self(Owned::new(hash, entries_max))
    }

    /// Notes the flow of a phone of `user`; returns the one before, if that is another one, and false if there is no room.
    pub(super) fn note(
        &mut self,
        phone: PhoneHash,
        flow: &Flow,
        user: UserHash,
        lifetime: Lifetime,
    ) -> (Option<Side>, bool) {
        let side = side_of(flow);
        let before = self.0.get(lifetime.now, phone.0).copied().filter(|before| *before != side);
        let has_room = self.0.insert(lifetime, phone.0, side, EntryOwner::of_user(user));
        (before, has_room)
    }
}

/// Side at the other end of a flow.
pub(crate) fn side_of(flow: &Flow) -> Side {
    match flow.connection {
        Some(connection) => Side::Connection(connection, flow.listener, TargetHash::NONE),
        None => Side::Address(flow.listener, flow.remote),
    }
}

fn key_of(key: &[u8; 16], side: Side) -> u64 {
    let mut text = Vec::new();
    match side {
        Side::Connection(connection, listener, _) => {
            Side::Connection(connection, listener, TargetHash::NONE).write(&mut text);
        }
        side => side.write(&mut text),
    }
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.fixed(b"flow");
    hash.part(&text);
    hash.hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::super::owned::OWNER_SHARE;
    use super::*;
    use alloc::string::ToString;
    use core::time::Duration;
    use ringway_sansio::{ListenerId, Seed};

    const KEY: [u8; 16] = [7; 16];
    const NOW: Instant = Instant::from_secs(1000);
    const UNTIL: Instant = Instant::from_secs(1100);
    const LIFETIME: Lifetime = Lifetime { now: NOW, until: UNTIL };

    fn flow(port: u16) -> Flow {
        Flow::udp(ListenerId(0), ([192, 0, 2, 1], port).into())
    }

    fn side(port: u16) -> Side {
        side_of(&flow(port))
    }

    fn user(name: &str) -> UserHash {
        UserHash::of(&KEY, name.as_bytes(), b"example.org")
    }

    fn table(entries_max: usize) -> LeftFlows {
        LeftFlows::new(SeededHash::new(&Seed::from_number(1)), entries_max)
    }

    #[test]
    fn a_phone_is_followed_over_several_flows() {
        let (mut table, alice) = (table(4 * OWNER_SHARE), user("alice"));
        for port in 1..4 {
            assert!(table.note(&KEY, side(port), side(port + 1), alice, LIFETIME));
        }
        let of =
            |table: &LeftFlows, port, user, since_s| table.registered(&KEY, side(port), user, NOW, since_s);
        assert_eq!(of(&table, 1, alice, 1000), Some(side(4)));
        assert_eq!(of(&table, 4, alice, 1000), None);
        assert_eq!(of(&table, 1, alice, 1001), None, "the dialog began over that flow afterwards");
        assert_eq!(of(&table, 1, UserHash::UNNAMED, 1000), None, "another user has the flow now");
        assert_eq!(table.registered(&KEY, side(1), alice, UNTIL, 0), None);
        table.note(&KEY, side(4), side(1), alice, LIFETIME);
        assert!(of(&table, 1, alice, 0).is_some(), "a circle ends");
        assert!(!table.note(&KEY, side(5), side(9), alice, LIFETIME), "the earliest gives way");
        assert_eq!((of(&table, 5, alice, 0), of(&table, 1, alice, 0)), (Some(side(9)), None));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn one_user_takes_no_flow_of_another_one() {
        let mut table = table(2 * OWNER_SHARE);
        let (alice, mallory) = (user("alice"), user("mallory"));
        assert!(table.note(&KEY, side(1), side(2), alice, LIFETIME));
        let kept =
            (10..1000).filter(|port| table.note(&KEY, side(*port), side(1), mallory, LIFETIME)).count();
        assert_eq!((kept, table.len()), (2, 3));
        assert_eq!(table.registered(&KEY, side(1), alice, NOW, 0), Some(side(2)));
        let later = Lifetime { now: UNTIL, until: UNTIL + Duration::from_secs(1) };
        assert!(table.note(&KEY, side(9), side(1), mallory, later), "the one that gives way has ended");
        for number in 0..1000_u16 {
            table.note(&KEY, side(number), side(1), user(&number.to_string()), later);
        }
        assert_eq!((table.len(), table.order.len()), (2 * OWNER_SHARE, 2 * OWNER_SHARE));
        assert_eq!(table.order_of_owner.len(), 2 * OWNER_SHARE);
        assert_eq!(table.registered(&KEY, side(1), alice, NOW, 0), None, "the earliest of all");
    }

    #[test]
    fn a_phone_behind_a_front_leaves_a_flow_when_it_registers_over_another_one() {
        let mut phones = PhoneFlows::new(SeededHash::new(&Seed::from_number(1)), 2 * OWNER_SHARE);
        let (alice, bob) = (user("alice"), user("bob"));
        let phone = |user, instance: &str| PhoneHash::of(&KEY, user, [instance.as_bytes(), b"1"]);
        let mut note =
            |phone, port, user, now| phones.note(phone, &flow(port), user, Lifetime { now, until: UNTIL });
        assert_eq!(note(phone(alice, "a"), 1, alice, NOW), (None, true));
        assert_eq!(note(phone(alice, "a"), 1, alice, NOW), (None, true), "a refresh");
        assert_eq!(note(phone(alice, "b"), 2, alice, NOW), (None, true), "another phone");
        assert_eq!(note(phone(bob, "a"), 3, bob, NOW), (None, true), "another user");
        assert_eq!(note(phone(alice, "c"), 4, alice, NOW), (None, false), "her share");
        assert_eq!(note(phone(alice, "a"), 5, alice, NOW), (Some(side(1)), true));
        assert_eq!(note(phone(alice, "a"), 6, alice, UNTIL), (None, true), "it was long ago");
    }
}
