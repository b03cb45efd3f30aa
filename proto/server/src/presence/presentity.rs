//! Presentities: users with a subscription or a publication.

use super::package::Package;
use super::reg::ContactEnd;
use crate::Aor;
use crate::location::LocationTable;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, TimerKey};
use ringway_transaction::{Slab, SlabKey};

/// Presentities of a shard.
pub(super) struct Presentities {
    slab: Slab<Presentity>,
    by_name: HashMap<Box<[u8]>, SlabKey, SeededHash>,
    publications: usize,
}

/// User whose state is watched or published.
#[derive(Debug)]
pub(super) struct Presentity {
    pub(super) aor: Aor,
    pub(super) subscriptions: Vec<SlabKey>,
    /// The latest last.
    publications: Vec<Publication>,
    /// URIs of its contacts at their last change, each cut to [`URI_BYTES_MAX`].
    contacts: Vec<Box<[u8]>>,
    /// Contacts that ended a short time ago.
    ended: Vec<EndedContact>,
    /// Number of the last change of its calls that its watchers were notified of.
    pub(super) calls_seen: u64,
    /// Timer of its calls.
    pub(super) calls_timer: TimerKey,
}

/// Document of a user (RFC 3903).
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) package: Package,
    /// Entity tag.
    pub(super) etag: u64,
    pub(super) body: Box<[u8]>,
    pub(super) timer: TimerKey,
    /// Source that its memory is reserved for, and the number of bytes.
    pub(super) reserved: (IpAddr, usize),
}

/// Contact that ended.
#[derive(Debug)]
pub(super) struct EndedContact {
    pub(super) uri: Box<[u8]>,
    pub(super) end: ContactEnd,
    pub(super) at: Instant,
}

/// Difference of a change of the location table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContactsChanged {
    /// There is another set of contacts.
    pub(super) contacts: bool,
    /// There was none and is one, or the reverse.
    pub(super) is_open: bool,
}

impl Presentities {
    pub(super) fn new(seed: &Seed) -> Self {
        let by_name = HashMap::with_hasher(SeededHash::new(seed));
        Self { slab: Slab::default(), by_name, publications: 0 }
    }

    pub(super) fn find(&self, aor: &[u8]) -> Option<SlabKey> {
        self.by_name.get(aor).copied()
    }

    /// Finds or adds a user; one that is left without subscription and publication must be [settled](Self::settle).
    pub(super) fn find_or_add(&mut self, aor: &Aor, table: &LocationTable, now: Instant) -> SlabKey {
        if let Some(key) = self.find(aor.as_bytes()) {
            return key;
        }
        let presentity = Presentity {
            aor: aor.clone(),
            subscriptions: Vec::new(),
            publications: Vec::new(),
            contacts: contacts_of(table, aor, now),
            ended: Vec::new(),
            calls_seen: 0,
            calls_timer: TimerKey::NONE,
        };
        let key = self.slab.insert(presentity);
        self.by_name.insert(aor.as_bytes().into(), key);
        key
    }

    pub(super) fn get(&self, key: SlabKey) -> Option<&Presentity> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: SlabKey) -> Option<&mut Presentity> {
        self.slab.get_mut(key)
    }

    /// Removes a user without subscriptions and publications.
    pub(super) fn settle(&mut self, key: SlabKey) {
        let is_unused = |user: &Presentity| user.subscriptions.is_empty() && user.publications.is_empty();
        if self.slab.get(key).is_some_and(is_unused)
            && let Some(user) = self.slab.remove(key)
        {
            self.by_name.remove(user.aor.as_bytes());
        }
    }

    /// Adds a publication, which is the latest one now.
    pub(super) fn publish(&mut self, key: SlabKey, publication: Publication) {
        if let Some(user) = self.slab.get_mut(key) {
            user.publications.push(publication);
            self.publications += 1;
        }
    }

    /// Exchanges a publication for one with the same document, in its position; returns the earlier one.
    pub(super) fn refresh(
        &mut self,
        key: SlabKey,
        etag: u64,
        mut publication: Publication,
    ) -> Option<Publication> {
        let mut publications = self.slab.get_mut(key)?.publications.iter_mut();
        let earlier = publications.find(|publication| publication.etag == etag)?;
        core::mem::swap(&mut earlier.body, &mut publication.body);
        Some(core::mem::replace(earlier, publication))
    }

    /// Takes a publication out.
    pub(super) fn withdraw(&mut self, key: SlabKey, etag: u64) -> Option<Publication> {
        let user = self.slab.get_mut(key)?;
        let at = user.publications.iter().position(|publication| publication.etag == etag)?;
        self.publications = self.publications.saturating_sub(1);
        Some(user.publications.remove(at))
    }

    /// Number of publications.
    pub(super) const fn publications_len(&self) -> usize {
        self.publications
    }

    pub(super) fn keys(&self) -> Vec<SlabKey> {
        self.slab.iter().map(|(key, _)| key).collect()
    }
}

impl Presentity {
    /// The latest publication of a package.
    pub(super) fn latest(&self, package: Package) -> Option<&Publication> {
        self.publications.iter().rev().find(|publication| publication.package == package)
    }

    pub(super) fn publication(&self, etag: u64) -> Option<&Publication> {
        self.publications.iter().find(|publication| publication.etag == etag)
    }

    pub(super) fn publications(&self) -> &[Publication] {
        &self.publications
    }

    /// Contacts that ended after `since`.
    pub(super) fn ended_after(&self, since: Instant) -> impl Iterator<Item = &EndedContact> {
        self.ended.iter().filter(move |contact| contact.at > since)
    }

    /// Compares the contacts with those of the last change.
    pub(super) fn note_contacts(
        &mut self,
        table: &LocationTable,
        end: ContactEnd,
        now: Instant,
    ) -> ContactsChanged {
        let contacts = contacts_of(table, &self.aor, now);
        let changed = ContactsChanged {
            contacts: contacts != self.contacts,
            is_open: contacts.is_empty() != self.contacts.is_empty(),
        };
        if changed.contacts {
            let before = core::mem::replace(&mut self.contacts, contacts);
            let gone = before.into_iter().filter(|uri| !self.contacts.contains(uri));
            self.ended.extend(gone.map(|uri| EndedContact { uri, end, at: now }));
            let surplus = self.ended.len().saturating_sub(ENDED_MAX);
            self.ended.drain(..surplus);
        }
        changed
    }
}

fn contacts_of(table: &LocationTable, aor: &Aor, now: Instant) -> Vec<Box<[u8]>> {
    let cut = |uri: &[u8]| uri.get(..URI_BYTES_MAX).unwrap_or(uri).into();
    table.lookup(aor.as_bytes(), now).map(|binding| cut(binding.uri())).collect()
}

/// Bytes of a contact's URI that are kept, to report its end.
const URI_BYTES_MAX: usize = 255;

/// Maximum number of ended contacts that are reported.
const ENDED_MAX: usize = 8;
