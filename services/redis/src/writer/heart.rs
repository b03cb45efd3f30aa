//! Heartbeat of this node, and marks by which a loss of data in the store is found.

use crate::connection::topology::Topology;
use crate::connection::{REPLY_TIME_MAX, bytes};
use crate::scripts::{self, TAGS};
use crate::shared::Shared;
use crate::{Event, StoreError, nodes};
use redis::{Cmd, Value, cmd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct Heart {
    shared: Arc<Shared>,
    /// Mark of each tag, and process of its master.
    marks: Vec<Option<Mark>>,
    run_ids: Vec<String>,
    /// Number of marks made, so that no two are equal.
    made: u64,
    /// Another process with the same name whose heartbeat is fresh.
    rival: Option<Rival>,
    has_loss: bool,
}

/// Heartbeat of another process with the same name.
struct Rival {
    incarnation: u64,
    seen_ms: u64,
    /// Heartbeats of this process since then.
    unchanged: u32,
}

type Mark = Vec<u8>;

impl Heart {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            marks: vec![None; TAGS],
            run_ids: vec![String::new(); TAGS],
            made: 0,
            rival: None,
            has_loss: false,
        }
    }

    /// Compares the masters after a connection.
    pub(crate) fn connected(&mut self, store: &mut Topology) -> Result<(), StoreError> {
        for (known, master) in self.run_ids.iter_mut().zip(store.master_of) {
            let run_id = store.masters.get(master).map(|master| master.run_id.as_str()).unwrap_or_default();
            if known != run_id {
                self.has_loss |= !known.is_empty();
                run_id.clone_into(known);
            }
        }
        self.check_marks(store)?;
        if self.has_loss {
            // The first heartbeat has it.
            self.shared.set_appending_again(true);
        }
        Ok(())
    }

    /// Returns true if updates that were confirmed may be lost, once for each loss. A failure of the store between a look and this call
    /// forgets nothing.
    pub(crate) const fn take_loss(&mut self) -> bool {
        std::mem::replace(&mut self.has_loss, false)
    }

    /// Sends a heartbeat, and looks for a loss.
    pub(crate) fn heartbeat(&mut self, store: &mut Topology) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        let name = settings.node.as_bytes();
        let connection = store.of_tag(scripts::NODES_TAG)?;
        let (seconds, micros): (u64, u64) = connection.run(&cmd("TIME"))?;
        let now_ms = seconds.saturating_mul(1_000).saturating_add(micros / 1_000);
        // Only its length and numbers are of interest: a long value is another program's.
        let long: u64 = match connection.run(cmd("HSTRLEN").arg(scripts::NODES).arg(name)) {
            Err(error) if error.is_wrong_type() => connection.run(&Cmd::del(scripts::NODES))?,
            long => long?,
        };
        let known: Option<Vec<u8>> = match long {
            1..=256 => connection.run(&Cmd::hget(scripts::NODES, name))?,
            _ => None,
        };
        let rival = known.and_then(|text| nodes::read(name, &text)).filter(|rival| {
            // A process that has the name keeps it, whatever the machines' clocks say; of two that began at once the earlier one has it.
            let is_earlier = rival.incarnation < settings.incarnation;
            let has_name = self.shared.has_name.load(Ordering::Acquire);
            rival.incarnation != settings.incarnation
                && (is_earlier || !has_name)
                && now_ms.saturating_sub(rival.last_seen_ms) < RIVAL_TIME_MAX_MS
        });
        if self.may_send_heartbeat(rival.map(|rival| (rival.incarnation, rival.last_seen_ms))) {
            let is_draining = self.shared.is_draining.load(Ordering::Relaxed);
            let state = (is_draining, self.shared.writes_again());
            let trunks = self.shared.trunks.load(Ordering::Relaxed);
            let text = nodes::heartbeat(&self.shared.settings, state, trunks, now_ms);
            let connection = store.of_tag(scripts::NODES_TAG)?;
            let name = self.shared.settings.node.as_bytes();
            connection.run::<()>(&Cmd::hset(scripts::NODES, name, text))?;
        }
        self.check_marks(store)
    }

    /// Takes a fresh heartbeat of another process with the same name: its incarnation and time. True: this process has the name. That
    /// one runs if its time rises; what a killed one left does not.
    fn may_send_heartbeat(&mut self, rival: Option<(u64, u64)>) -> bool {
        let Some((incarnation, seen_ms)) = rival else {
            self.rival = None;
            if self.shared.is_name_taken.swap(false, Ordering::AcqRel) {
                self.shared.sink.on_event(Event::NameFree);
            }
            self.take_name();
            return true;
        };
        let unchanged = match self.rival.as_ref().filter(|known| known.incarnation == incarnation) {
            Some(known) if seen_ms > known.seen_ms => {
                self.shared.has_name.store(false, Ordering::Release);
                if !self.shared.is_name_taken.swap(true, Ordering::AcqRel) {
                    self.shared.sink.on_event(Event::NameTaken { incarnation });
                }
                0
            }
            Some(known) => known.unchanged + 1,
            None => 0,
        };
        self.rival = Some(Rival { incarnation, seen_ms, unchanged });
        let has_name = unchanged >= LEFT_HEARTBEATS && !self.shared.is_name_taken.load(Ordering::Acquire);
        if has_name {
            self.take_name();
        }
        has_name
    }

    /// Lets the reader read all records: it removes what earlier processes of this node left.
    fn take_name(&self) {
        if !self.shared.has_name.swap(true, Ordering::AcqRel) {
            self.shared.wake_reader();
        }
    }

    /// Compares the marks of all tags, and makes those that are missing.
    fn check_marks(&mut self, store: &mut Topology) -> Result<(), StoreError> {
        let found = self.pipeline(store, 0..TAGS, Cmd::get)?;
        let of_other_type: Vec<usize> = found
            .iter()
            .enumerate()
            .filter(|(_, mark)| matches!(mark, Value::ServerError(error) if error.code() == "WRONGTYPE"))
            .map(|(tag, _)| tag)
            .collect();
        self.pipeline(store, of_other_type.into_iter(), Cmd::del)?;
        let is_valid = |mark: &Value| bytes(mark).is_some_and(|mark| mark.len() <= MARK_BYTES_MAX);
        let missing: Vec<usize> =
            found.iter().enumerate().filter(|(_, mark)| !is_valid(mark)).map(|(tag, _)| tag).collect();
        let mut found: Vec<Option<Mark>> = found.iter().map(|mark| bytes(mark).map(<[u8]>::to_vec)).collect();
        if !missing.is_empty() {
            let settings = &self.shared.settings;
            self.made += 1;
            let mark = format!("{}-{}-{}", settings.node, settings.incarnation, self.made).into_bytes();
            self.pipeline(store, missing.iter().copied(), |key| {
                cmd("SET").arg(key).arg(&mark).arg("NX").take()
            })?;
            let made = self.pipeline(store, missing.iter().copied(), Cmd::get)?;
            for (tag, mark) in missing.into_iter().zip(made) {
                if let Some(found) = found.get_mut(tag) {
                    *found = bytes(&mark).map(<[u8]>::to_vec);
                }
            }
        }
        for (known, found) in self.marks.iter_mut().zip(found) {
            self.has_loss |= known.is_some() && *known != found;
            *known = found;
        }
        Ok(())
    }

    /// True if a replica of each master has all updates: a write on the connection that wrote them, and a wait for it.
    pub(crate) fn confirm(&mut self, store: &mut Topology) -> Result<bool, StoreError> {
        let mut is_confirmed = true;
        let first_tags: Vec<usize> =
            (0..store.masters.len()).filter_map(|master| store.tags(master).next()).collect();
        for tag in first_tags {
            let Some(Some(mark)) = self.marks.get(tag) else { continue };
            let connection = store.of_tag(tag)?;
            connection.run::<()>(cmd("SET").arg(scripts::epoch(tag)).arg(mark).arg("XX"))?;
            let replicas: i64 = connection.run(cmd("WAIT").arg(1).arg(CONFIRM_TIME_MS))?;
            is_confirmed &= replicas > 0;
        }
        Ok(is_confirmed)
    }

    /// Removes this node from the list.
    pub(crate) fn leave(&mut self, store: &mut Topology) -> Result<(), StoreError> {
        if self.rival.is_none() {
            let name = self.shared.settings.node.as_bytes();
            store.of_tag(scripts::NODES_TAG)?.run::<()>(&Cmd::hdel(scripts::NODES, name))?;
        }
        Ok(())
    }

    /// Runs a command on the mark of each tag, and returns the replies in order.
    fn pipeline(
        &self,
        store: &mut Topology,
        tags: impl Iterator<Item = usize> + Clone,
        command: impl Fn(String) -> Cmd,
    ) -> Result<Vec<Value>, StoreError> {
        for tag in tags.clone() {
            store.of_tag(tag)?.push(&command(scripts::epoch(tag)));
        }
        for master in &mut store.masters {
            master.connection.send()?;
        }
        let replies = tags.map(|tag| {
            let connection = store.of_tag(tag)?;
            match connection.receive(REPLY_TIME_MAX)? {
                Value::ServerError(error) if error.code() != "WRONGTYPE" => Err(connection.refused(&error)),
                reply => Ok(reply),
            }
        });
        replies.collect()
    }
}

const MARK_BYTES_MAX: usize = 256;
/// Time for a replica to confirm, in milliseconds.
const CONFIRM_TIME_MS: u32 = 100;
/// Age of a heartbeat of a process that runs.
const RIVAL_TIME_MAX_MS: u64 = 3_000;
/// Heartbeats of this process after which one that did not change was left by a process that ended.
const LEFT_HEARTBEATS: u32 = 2;
