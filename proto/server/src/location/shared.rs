//! Bindings of all nodes: updates for the store that they share, records from it, ways to bindings of other nodes.

use super::binding::{Binding, Kind, PATH_END, Terms, Text, path_values};
use super::change::{Change, removed_by};
use super::owner::{Owner, RegisteredAt};
use super::record::{Stored, read_body};
use super::table::{LocationTable, retain};
use crate::{Cluster, Config, Hold, Host, NodeState};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use ringway_location::{ENTRIES_MAX, EntryId, Record, RecordEntry, Registered, Removal, UpdateWriter};
use ringway_sansio::{Flow, Instant, PlantedFault};
use ringway_sip::{NameAddr, Params, Uri};
use ringway_transaction::SlabKey;
use smallvec::SmallVec;

/// Bindings that a REGISTER removed, at any node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removed {
    /// Contact `*`, or the end of all registrations.
    pub(crate) all: bool,
    pub(crate) ids: SmallVec<[EntryId; 1]>,
    /// Milliseconds since the REGISTER.
    pub(crate) age_ms: u32,
    /// Hash of its Call-ID.
    pub(crate) call: u64,
    pub(crate) cseq: u32,
}

/// Binding to which requests can be sent, and the way to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) binding: &'a Binding,
    /// Path values of the way, each with [`PATH_END`].
    pub(crate) path: &'a [u8],
}

/// Time of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordTime {
    pub(crate) now: Instant,
    /// Time of the store's clock now, in milliseconds since the epoch.
    pub(crate) store_now_ms: u64,
    pub(crate) holding: Holding,
}

/// Time for which bindings of other nodes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Until they end.
    Whole,
    /// For a minute at most: there are too many users.
    Briefly,
    /// Not at all: the user is not served here.
    No,
}

/// Changes by a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    /// True if bindings were added, refreshed or removed.
    pub(crate) is_changed: bool,
    /// Call-ID of the last one that was added or refreshed.
    pub(crate) call_id: Vec<u8>,
    /// Entries that this version cannot read, that no REGISTER could have made, or of more nodes than there may be.
    pub(crate) passed_over: u64,
    /// Bindings of an earlier process of this node whose connections ended with it.
    pub(crate) dead: SmallVec<[Removal; 1]>,
}

/// Entry of a record.
struct Incoming<'r> {
    id: EntryId,
    owner: Owner,
    /// `None` for a binding of this process, which only this process changes.
    binding: Option<(Text<'r>, Terms)>,
}

impl LocationTable {
    /// Bindings that the changes of a REGISTER remove from the store that nodes share.
    pub(crate) fn removed_by(&self, aor: &[u8], changes: &[Change<'_>]) -> SmallVec<[EntryId; 1]> {
        let user = self.find(aor).and_then(|key| self.users.get(key));
        removed_by(user.map(|user| user.bindings.as_slice()).unwrap_or_default(), changes)
    }

    /// Completes the update of a user: the bindings of this node, and what was removed. `link` appends the Path value by which other
    /// nodes reach a flow.
    pub(crate) fn write_update(
        &self,
        key: Option<SlabKey>,
        mut writer: UpdateWriter<'_>,
        removed: &Removed,
        now: Instant,
        link: impl Fn(&Flow, &mut Vec<u8>),
    ) {
        let user = key.and_then(|key| self.users.get(key));
        let mut value = Vec::new();
        for binding in user.map(|user| user.bindings.as_slice()).unwrap_or_default() {
            if binding.is_permanent() || binding.owner.is_other() || binding.expires <= now {
                continue;
            }
            value.clear();
            if binding.needs_link() {
                link(&binding.flow, &mut value);
                value.push(PATH_END);
            }
            let call = Registered::call(binding.call_id());
            let registered = Registered { age_ms: binding.registered.age_ms(now), call, cseq: binding.cseq };
            let left = u32::try_from(binding.expires.since(now).as_millis()).unwrap_or(u32::MAX);
            writer.entry(binding.entry_id(), registered, left, |out| {
                super::record::write_body(binding, &value, out);
            });
        }
        for &id in &removed.ids {
            let registered = Registered { age_ms: removed.age_ms, call: removed.call, cseq: removed.cseq };
            writer.removal(&Removal { id, registered });
        }
        writer.finish();
    }

    /// Users with bindings of this node in up to `count` slots from slot `from`, and the next slot, `None` at the end. One that
    /// registered here less than `age_ms` ago is none of them.
    pub(crate) fn own_users_from(
        &self,
        now: Instant,
        age_ms: u32,
        from: u32,
        count: u32,
    ) -> (Vec<Box<[u8]>>, Option<u32>) {
        let mut names = Vec::new();
        let end = from.saturating_add(count);
        let is_own = |binding: &Binding| !binding.is_permanent() && !binding.owner.is_other();
        let is_later =
            |binding: &Binding| binding.owner == Owner::HERE && binding.registered.age_ms(now) < age_ms;
        for slot in from..end {
            let Some(user) = self.users.at(slot) else { return (names, None) };
            let user = user.filter(|user| {
                let mut own = user.bindings.iter().filter(|binding| is_own(binding)).peekable();
                own.peek().is_some() && !own.any(is_later)
            });
            names.extend(user.map(|user| user.name.clone()));
        }
        (names, Some(end))
    }

    /// Notes the newest update of a user that did not come back.
    pub(crate) fn set_pending(&mut self, key: Option<SlabKey>, number: u64) {
        if let Some(user) = key.and_then(|key| self.users.get_mut(key))
            && !PlantedFault::UpdateOvertaken.is_planted()
        {
            user.pending = number;
        }
    }

    /// Number of the newest update of a user that did not come back; 0: none.
    pub(crate) fn pending(&self, key: Option<SlabKey>) -> u64 {
        key.and_then(|key| self.users.get(key)).map_or(0, |user| user.pending)
    }

    /// Notes that the store took an update of this node as it is.
    pub(crate) fn on_taken(&mut self, aor: &[u8], number: u64) {
        if let Some(user) = self.find(aor).and_then(|key| self.users.get_mut(key))
            && number >= user.pending
        {
            user.pending = 0;
        }
    }

    /// Decides if the bindings of a record are held here.
    pub(crate) fn holding(&self, hold: Hold, aor: &[u8], is_looked_up: bool) -> Holding {
        if hold == Hold::All {
            return Holding::Whole;
        }
        let Some(user) = self.find(aor).and_then(|key| self.users.get(key)) else {
            return match is_looked_up {
                true if self.users.len() < HELD_MAX => Holding::Whole,
                true => Holding::Briefly,
                false => Holding::No,
            };
        };
        let is_own = |binding: &Binding| !binding.owner.is_other();
        if self.users.len() <= HELD_MAX || user.bindings.iter().any(is_own) {
            return Holding::Whole;
        }
        Holding::Briefly
    }

    /// Joins a record of the store: bindings of other nodes become those of the record. Those of this node stay while an update of them
    /// did not come back; otherwise one that the record does not have, or has of another node, ends here. `ended` gets each of these.
    pub(crate) fn join(
        &mut self,
        aor: &[u8],
        record: &Record<'_>,
        time: RecordTime,
        cluster: &Cluster,
        config: &Config,
        ended: impl Fn(&[u8], &Binding),
    ) -> Joined {
        let (mut joined, walk) = (Joined::default(), self.walk);
        let entries: Vec<_> = record
            .entries()
            .take(ENTRIES_MAX)
            .filter(|entry| entry.expires_at_ms > time.store_now_ms)
            .filter_map(|entry| {
                let incoming = self.read_entry(&entry, time, cluster, config);
                joined.passed_over += u64::from(incoming.is_none());
                // With the largest number none is later: it ends by its time.
                if incoming.as_ref().is_some_and(Incoming::is_dead)
                    && let Some(cseq) = entry.cseq.checked_add(1)
                {
                    // Later than the binding: with an equal CSeq it would stay. And not later than that in time: the phone may have
                    // registered elsewhere since, and the trace of this removal would keep that out.
                    let age_ms = time.store_now_ms.saturating_sub(entry.registered_at_ms);
                    let age_ms = u32::try_from(age_ms).unwrap_or(u32::MAX);
                    let registered = Registered { age_ms, call: entry.call, cseq };
                    joined.dead.push(Removal { id: entry.id, registered });
                }
                incoming
            })
            .collect();
        let is_from_here = record.by == cluster.node && record.incarnation == cluster.incarnation;
        let key = match self.find(aor) {
            Some(key) => key,
            None if entries.iter().any(Incoming::is_added) => self.add_user(aor),
            None => return joined,
        };
        let Some(user) = self.users.get_mut(key) else { return joined };
        user.walk = walk;
        if is_from_here && record.number >= user.pending {
            user.pending = 0;
        }
        let is_pending = user.pending != 0;
        self.change_bindings(key, |bindings| {
            bindings.retain(|binding| {
                let is_kept = binding.is_permanent() || is_kept(binding, &entries, is_pending);
                if !is_kept {
                    joined.is_changed = true;
                    if !binding.owner.is_other() {
                        ended(aor, binding);
                    }
                }
                is_kept
            });
            for entry in entries {
                let Some((text, terms)) = entry.binding.filter(|_| entry.is_added()) else { continue };
                let known = bindings
                    .iter_mut()
                    .find(|binding| !binding.is_permanent() && binding.entry_id() == entry.id);
                let is_news = match &known {
                    // It stays until the update of this node comes back.
                    Some(known) if !known.owner.is_other() && (is_pending || known.owner == Owner::HERE) => {
                        continue;
                    }
                    Some(known) => known.cseq != terms.cseq || known.call_id() != text.call_id,
                    None if entry.owner == Owner::EARLIER && is_pending => continue,
                    None => true,
                };
                match known {
                    Some(known) => known.replace(text, terms),
                    None => bindings.extend(Binding::new(text, terms)),
                }
                if is_news {
                    joined.is_changed = true;
                    joined.call_id = text.call_id.to_vec();
                }
            }
        });
        joined
    }

    /// Notes that a read of all records begins.
    pub(crate) const fn begin_walk(&mut self, walk: u32) {
        self.walk = walk;
    }

    /// Ends the bindings of other nodes that run of users without a record since the number of a read of all for which `is_confirmed` is
    /// false, in some slots; returns the next slot, `None` at the end. `ended` gets each of them with its user, `changed` the users.
    ///
    /// Bindings of a lost node stay. If nothing else of the user would, a node that holds the users that it serves ends them, too: it looks
    /// up a user of whom it has nothing, but takes a part of the bindings for all.
    pub(crate) fn sweep(
        &mut self,
        slots: Range<u32>,
        hold: Hold,
        host: &dyn Host,
        is_confirmed: impl Fn(&[u8], u32) -> bool,
        ended: impl Fn(&[u8], &Binding),
        mut changed: impl FnMut(&[u8]),
    ) -> Option<u32> {
        let end = slots.end;
        for slot in slots {
            let Some(user) = self.users.at(slot)? else { continue };
            // Nobody but its node writes a binding of a lost node again after a loss of the store.
            let is_left = |binding: &Binding| {
                !binding.is_permanent()
                    && binding.owner.is_other()
                    && self
                        .nodes
                        .name_of(binding.owner)
                        .is_some_and(|name| host.node_state(name) != NodeState::Gone)
            };
            let ids: SmallVec<[EntryId; 1]> =
                user.bindings.iter().filter(|binding| is_left(binding)).map(Binding::entry_id).collect();
            if ids.is_empty() || is_confirmed(&user.name, user.walk) {
                continue;
            }
            let Some(key) = self.find(&user.name.clone()) else { continue };
            let stays = |binding: &Binding| binding.is_permanent() || !binding.owner.is_other();
            let keeps_lost = hold == Hold::All || user.bindings.iter().any(stays);
            let is_kept =
                |binding: &Binding| stays(binding) || keeps_lost && !ids.contains(&binding.entry_id());
            self.change_and_report(key, &mut |_, aor| changed(aor), |name, bindings| {
                retain(bindings, is_kept, |binding| ended(name, binding));
            });
        }
        Some(end)
    }

    /// Bindings of a user to which requests can be sent. One that only a lost node reaches is none.
    pub(crate) fn offers<'a>(
        &'a self,
        aor: &[u8],
        now: Instant,
        host: &'a dyn Host,
    ) -> impl Iterator<Item = Offer<'a>> {
        self.lookup(aor, now).filter_map(|binding| {
            let path = binding.text().path;
            if !binding.owner.is_over_link() || !self.is_gone(binding.owner, host) {
                return Some(Offer { binding, path });
            }
            let path = without_link(path);
            (binding.kind == Kind::Dialable).then_some(Offer { binding, path })
        })
    }

    fn is_gone(&self, owner: Owner, host: &dyn Host) -> bool {
        self.nodes.name_of(owner).is_some_and(|name| host.node_state(name) == NodeState::Gone)
    }

    /// Reads an entry; `None` if it cannot be used.
    fn read_entry<'r>(
        &mut self,
        entry: &RecordEntry<'r>,
        RecordTime { now, store_now_ms, holding }: RecordTime,
        cluster: &Cluster,
        config: &Config,
    ) -> Option<Incoming<'r>> {
        let id = entry.id;
        let is_own = entry.node == cluster.node;
        if is_own && entry.incarnation == cluster.incarnation {
            return Some(Incoming { id, owner: Owner::HERE, binding: None });
        }
        let left_ms = entry.expires_at_ms.saturating_sub(store_now_ms).min(u64::from(u32::MAX));
        let left = Duration::from_millis(left_ms);
        let left = if holding == Holding::Briefly { left.min(HOLD_TIME_BRIEF) } else { left };
        let longest = Duration::from_secs(u64::from(config.registrar.max_expires_s));
        let read = read_body(entry.body, now + left.min(longest), config.listeners.len());
        let Stored { mut text, mut terms, has_link } = read.ok().filter(|stored| is_valid(&stored.text))?;
        let age = Duration::from_millis(store_now_ms.saturating_sub(entry.registered_at_ms));
        terms.registered = RegisteredAt::before(now, age);
        let owner = if is_own { Owner::EARLIER } else { self.nodes.owner_of(&entry.node)? };
        terms.owner = match (is_own, has_link) {
            (false, true) => owner.over_link(),
            (true, _) | (false, false) => owner,
        };
        if is_own && has_link {
            text.path = without_link(text.path);
        }
        Some(Incoming { id, owner, binding: Some((text, terms)) })
    }
}

impl Incoming<'_> {
    /// True for a binding that ended with the connections of an earlier process of this node.
    fn is_dead(&self) -> bool {
        self.owner == Owner::EARLIER && !self.is_added()
    }

    /// False for a binding that this process ended, or that ended with the connections of an earlier one.
    fn is_added(&self) -> bool {
        self.binding.as_ref().is_some_and(|(_, terms)| {
            self.owner.is_other() || terms.kind == Kind::Dialable || !terms.flow.transport.has_connections()
        })
    }
}

fn is_kept(binding: &Binding, entries: &[Incoming<'_>], is_pending: bool) -> bool {
    let is_unread = binding.owner.is_other() && PlantedFault::RemovalUnread.is_planted();
    if is_unread || !binding.owner.is_other() && is_pending {
        return true;
    }
    let id = binding.entry_id();
    let entry = entries.iter().find(|entry| entry.id == id);
    entry.is_some_and(
        |entry| {
            if binding.owner.is_other() { entry.is_added() } else { !entry.owner.is_other() }
        },
    )
}

/// Number of users of a shard beyond which those that were looked up are held briefly.
const HELD_MAX: usize = 1_000_000;
/// Time for which users beyond [`HELD_MAX`] are held.
const HOLD_TIME_BRIEF: Duration = Duration::from_secs(60);

/// True if these texts can be written into messages, as those of a REGISTER: others would end each request for the user.
fn is_valid(text: &Text<'_>) -> bool {
    let is_line = |text: &[u8]| text.iter().all(|&byte| byte == b'\t' || (byte >= b' ' && byte != 127));
    let is_way = |value: &[u8]| {
        let uri = NameAddr::parse(value).map(|value| value.uri);
        is_line(value) && uri.is_ok_and(|uri| uri.is_sip() && uri.is_loose_router())
    };
    is_line(text.uri)
        && Uri::parse(text.uri).is_ok()
        && is_line(text.params)
        && Params::parse(text.params).is_ok()
        && is_line(text.call_id)
        && path_values(text.path).all(is_way)
}

/// Path values without the first one.
fn without_link(path: &[u8]) -> &[u8] {
    let end = path.iter().position(|&byte| byte == PATH_END).map_or(path.len(), |end| end + 1);
    path.get(end..).unwrap_or_default()
}
