//! A connection of the reader to all masters.

use crate::connection::REPLY_TIME_MAX;
use crate::connection::socket::OnWait;
use crate::connection::topology::Topology;
use crate::connection::{bytes, items, number, text};
use crate::reader::stream::{Id, News, is_valid, number_of};
use crate::reader::{COUNT_MAX, ReaderState, wait};
use crate::scripts::{self, Scripts, TAGS};
use crate::shared::{Part, Shared, lock};
use crate::{Event, Kind, StoreError, nodes};
use redis::{Cmd, Value, cmd};
use ringway_location::{BYTES_MAX, Record, UpdateId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) struct ReadSession<'r> {
    state: &'r mut ReaderState,
    scripts: Scripts,
    /// Connections that wait for news, and times of their commands.
    follow: Topology,
    asked: Vec<Option<Instant>>,
    follow_at: Instant,
    /// Connections for all else.
    ask: Topology,
    nodes_at: Instant,
    /// Time when the sink got the nodes in this session.
    nodes_reported_at: Option<Instant>,
    /// Time of the last reply with news or without.
    followed_at: Instant,
    is_behind: bool,
    has_followed: bool,
}

/// Reply of the script `read`.
struct Page {
    last: Id,
    first: Option<Id>,
    cursor: String,
    damaged: u64,
    records: Vec<Value>,
}

impl<'r> ReadSession<'r> {
    /// Connects, and finds out what was missed.
    pub(crate) fn open(state: &'r mut ReaderState) -> Result<Self, StoreError> {
        let (shared, now, scripts) = (Arc::clone(&state.shared), Instant::now(), Scripts::new());
        let follow = shared.connect(&on_wait(&shared))?;
        let mut session = Self {
            state,
            asked: vec![None; follow.masters.len()],
            follow,
            follow_at: now,
            ask: connect(&shared, &scripts)?,
            scripts,
            nodes_at: now,
            nodes_reported_at: None,
            followed_at: now,
            is_behind: false,
            has_followed: false,
        };
        session.state.walk.restart();
        session.state.nodes.reconnected(now);
        session.read_nodes()?;
        session.check_positions()?;
        lock(&shared.lookups).is_open = true;
        if !shared.settings.holds_all {
            shared.is_warm.store(true, Ordering::Release);
        }
        Ok(session)
    }

    /// Reads until the store is stopped or something fails.
    pub(crate) fn run(&mut self) -> Result<(), StoreError> {
        while !self.state.shared.stopped() {
            match self.run_once(Instant::now()) {
                // Somebody flushed the scripts. Replies may be on their way: other connections are simpler.
                Err(error) if error.is_script_missing() => {
                    self.ask = connect(&self.state.shared, &self.scripts)?
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn run_once(&mut self, now: Instant) -> Result<(), StoreError> {
        if now >= self.nodes_at {
            self.read_nodes()?;
            if self.is_behind || now.saturating_duration_since(self.followed_at) > BEHIND_TIME_MAX {
                self.check_positions()?;
            }
            self.nodes_at = now + NODES_INTERVAL;
        }
        let checks = self.state.shared.checks.load(Ordering::Acquire);
        let losses = self.state.shared.losses.load(Ordering::Acquire);
        if losses != self.state.losses {
            self.state.losses = losses;
            self.check_positions()?;
            self.state.walk_again(&(0..TAGS).collect::<Vec<_>>(), true);
        }
        self.state.report_walked(checks);
        self.ask_for_news(now)?;
        if lock(&self.state.shared.lookups).is_under_way() {
            self.state.shared.expire_lookups();
            self.answer_lookups()?;
        }
        if !self.state.fetches.is_empty() {
            self.fetch()?;
        }
        if self.page_at().is_some_and(|at| at <= Instant::now()) {
            self.read_page()?;
        }
        self.wait_for_news()
    }

    /// Sends XREAD to the masters that have none.
    fn ask_for_news(&mut self, now: Instant) -> Result<(), StoreError> {
        if now < self.follow_at || !self.state.fetches.has_room() {
            return Ok(());
        }
        let count = self.state.count;
        // The first one is answered at once.
        let block = if self.has_followed { BLOCK_MS } else { 1 };
        let is_cluster = self.follow.kind == Kind::Cluster;
        for index in 0..self.follow.masters.len() {
            if self.asked.get(index).is_none_or(Option::is_some) {
                continue;
            }
            let (tags, streams) = (self.follow.tags(index).collect::<Vec<_>>(), &mut self.state.streams);
            let (Some(master), Some(asked)) = (self.follow.masters.get_mut(index), self.asked.get_mut(index))
            else {
                continue;
            };
            if is_cluster {
                // A command of a cluster has keys of one slot, so that none can wait for all.
                for tag in tags {
                    let mut command = cmd("XREAD");
                    command.arg("COUNT").arg(count).arg("STREAMS").arg(streams.key(tag)).arg(streams.id(tag));
                    master.connection.push(&command);
                }
            } else {
                let mut command = cmd("XREAD");
                command.arg("COUNT").arg(count).arg("BLOCK").arg(block).arg("STREAMS");
                for tag in &tags {
                    command.arg(streams.key(*tag));
                }
                for tag in &tags {
                    command.arg(streams.id(*tag));
                }
                master.connection.push(&command);
            }
            master.connection.send()?;
            *asked = Some(now);
        }
        // Changes of the same moment are read together.
        self.follow_at = now + if is_cluster { POLL_INTERVAL } else { FOLLOW_INTERVAL };
        Ok(())
    }

    /// Time of the next page of a read of all. It waits until this node has its name: it would end bindings of another process.
    fn page_at(&self) -> Option<Instant> {
        self.state.walk.next_at().filter(|_| self.state.shared.has_name.load(Ordering::Acquire))
    }

    /// Waits until there is something to do, and delivers news.
    fn wait_for_news(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let is_unasked = self.asked.iter().any(Option::is_none);
        // A lookup is left only if its connection was replaced: it ends by its deadline.
        let has_lookups = lock(&self.state.shared.lookups).is_under_way();
        let due = [
            Some(self.nodes_at),
            is_unasked.then_some(self.follow_at),
            self.page_at(),
            has_lookups.then_some(now + LOOKUP_STEP),
            (!self.state.fetches.is_empty()).then_some(now),
        ];
        let due = due.into_iter().flatten().min().unwrap_or(now);
        let waiting: Vec<usize> = self
            .asked
            .iter()
            .enumerate()
            .filter(|(_, asked)| asked.is_some())
            .map(|(index, _)| index)
            .collect();
        let masters = waiting.iter().filter_map(|index| self.follow.masters.get(*index));
        let descriptors: Vec<_> = masters.map(|master| master.connection.descriptor()).collect();
        let ready = wait(&self.state.shared, &descriptors, due.saturating_duration_since(now));
        for index in ready.into_iter().filter_map(|index| waiting.get(index)) {
            self.take_news(*index)?;
        }
        let is_late = |asked: &Instant| asked.elapsed() > BLOCK_TIME + REPLY_TIME_MAX;
        match self.asked.iter().position(|asked| asked.as_ref().is_some_and(is_late)) {
            Some(index) => {
                let server = self.follow.masters.get(index).map(|master| master.connection.server());
                Err(StoreError::new(format_args!("{}: no answer in time", server.unwrap_or_default())))
            }
            None => Ok(()),
        }
    }

    fn take_news(&mut self, index: usize) -> Result<(), StoreError> {
        let replies = if self.follow.kind == Kind::Cluster { self.follow.tags(index).count() } else { 1 };
        let (count, now_ms) = (self.state.count, self.state.now_ms());
        let sink = Arc::clone(&self.state.shared.sink);
        let mut is_full = false;
        for _ in 0..replies {
            let Some(master) = self.follow.masters.get_mut(index) else { return Ok(()) };
            let reply = match master.connection.receive(REPLY_TIME_MAX) {
                Err(error) if error.is_too_long() => return Err(self.skip_news(error)),
                reply => master.connection.checked(reply?),
            };
            let reply = match reply {
                Err(error) if error.is_wrong_type() && self.remove_other_types(index)? > 0 => Value::Nil,
                reply => reply?,
            };
            let (holds_all, mut taken) = (self.state.shared.settings.holds_all, Vec::new());
            let deliver = &mut |aor: &[u8], news: News<'_>| match news {
                News::Record(record) => sink.on_record(aor, record, now_ms),
                News::Taken(number) if holds_all => sink.on_taken(aor, number),
                // The bindings of other nodes come with the record.
                News::Taken(number) => taken.push((aor.to_vec(), number)),
            };
            let own = self.state.own();
            let result = self.state.streams.deliver(reply, count, own, deliver);
            result
                .to_read
                .into_iter()
                .chain(taken)
                .for_each(|(aor, number)| self.state.fetches.add(aor, number));
            self.state.shared.counters.followed.fetch_add(result.records, Ordering::Relaxed);
            self.state.note_damaged(result.damaged, "an entry of a stream");
            is_full |= result.is_full;
        }
        if let Some(asked) = self.asked.get_mut(index) {
            *asked = None;
        }
        if !std::mem::replace(&mut self.has_followed, true) {
            self.state.shared.works(Part::Reader, self.follow.kind, self.follow.masters.len());
        }
        (self.is_behind, self.followed_at) = (is_full, Instant::now());
        if is_full {
            self.follow_at = self.followed_at;
        }
        self.state.count = (self.state.count * 2).min(COUNT_MAX);
        Ok(())
    }

    /// Reads fewer entries next time, and passes over all of them if one alone is too long.
    fn skip_news(&mut self, error: StoreError) -> StoreError {
        self.state.note_damaged(1, "an entry of a stream is too long");
        if self.state.count == 1 {
            // The positions are those of the streams' ends then.
            self.state.has_positions = false;
        }
        self.state.count = 1;
        error
    }

    /// Removes keys that are no streams, which would end each read of the news, and returns their number.
    fn remove_other_types(&mut self, master: usize) -> Result<u64, StoreError> {
        let tags: Vec<usize> = self.follow.tags(master).collect();
        let mut removed = 0;
        for tag in tags {
            let key = scripts::log(tag);
            let Ok(connection) = self.ask.of_tag(tag) else { continue };
            // A refusal of the server leaves the key; without a reply the next one would be that of another command.
            let kind = connection.reply(cmd("TYPE").arg(&key))?;
            let is_other =
                matches!(&kind, Value::SimpleString(kind) if !["stream", "none"].contains(&kind.as_str()));
            if is_other && number(&connection.reply(&Cmd::del(&key))?).is_some() {
                removed += 1;
            }
        }
        self.state.note_damaged(removed, "a stream has another type");
        Ok(removed)
    }

    /// Compares the positions with the streams, and reads the records of those that were trimmed or begun anew.
    fn check_positions(&mut self) -> Result<(), StoreError> {
        let (mut again, mut is_loss) = (Vec::new(), false);
        for tag in 0..TAGS {
            let page = self.read(tag, &[b"get"])?;
            let Some(position) = self.state.streams.position(tag) else { continue };
            // A stream without entries has lost all of them up to its last id.
            let is_trimmed = page.first.is_none_or(|first| first > position.id) && page.last > position.id;
            if !self.state.has_positions || is_trimmed || page.last < position.id {
                // Entries in front of the position are delivered twice, which is no harm: their order is that of the stream.
                is_loss |= page.last < position.id;
                position.reset(page.last);
                again.push(tag);
            }
        }
        self.state.has_positions = true;
        if !again.is_empty() {
            // Entries of updates of this node may be among those that are not read.
            if self.state.shared.pending().last > 0 {
                self.state.shared.sink.on_event(Event::Unanswered);
            }
            self.state.walk_again(&again, is_loss);
        }
        Ok(())
    }

    /// Runs the script `read` for a tag.
    fn read(&mut self, tag: usize, arguments: &[&[u8]]) -> Result<Page, StoreError> {
        self.push_read(tag, arguments)?;
        self.ask.of_tag(tag)?.send()?;
        self.receive_page(tag)
    }

    fn push_read(&mut self, tag: usize, arguments: &[&[u8]]) -> Result<(), StoreError> {
        let mut command = self.scripts.read.run(2);
        command
            .arg(scripts::log(tag))
            .arg(scripts::all(tag))
            .arg(scripts::records(tag))
            .arg(BYTES_MAX)
            .arg(arguments);
        self.ask.of_tag(tag)?.push(&command);
        Ok(())
    }

    fn receive_page(&mut self, tag: usize) -> Result<Page, StoreError> {
        let connection = self.ask.of_tag(tag)?;
        let reply = connection.receive(REPLY_TIME_MAX)?;
        let mut parts = items(connection.checked(reply)?);
        let id = |part: Option<&Value>| part.and_then(text).and_then(Id::read);
        let page = Page {
            last: id(parts.first()).unwrap_or_default(),
            first: id(parts.get(1)),
            cursor: parts.get(2).and_then(text).unwrap_or("0").to_owned(),
            damaged: parts.get(3).and_then(number).unwrap_or_default(),
            records: Vec::new(),
        };
        Ok(Page { records: parts.split_off(parts.len().min(4)), ..page })
    }

    /// Delivers the records of a page, and returns their number.
    fn deliver(&mut self, tag: usize, page: Page) -> u64 {
        let (mut delivered, mut damaged) = (0, page.damaged);
        let mut records = page.records.into_iter();
        while let (Some(aor), Some(record)) = (records.next(), records.next()) {
            let Value::BulkString(mut record) = record else { continue };
            let Some(aor) = bytes(&aor).filter(|aor| is_valid(aor, &record)) else {
                damaged += 1;
                continue;
            };
            // One of this node answers its update, whose entry of the stream may be passed over.
            if number_of(&record, self.state.own()).is_none() {
                Record::set_number(&mut record, 0);
            }
            self.deliver_read(tag, page.last, aor, &record);
            delivered += 1;
        }
        self.state.note_damaged(damaged, "a record");
        delivered
    }

    /// Delivers a record that was read when the stream of its tag was at `at`.
    fn deliver_read(&mut self, tag: usize, at: Id, aor: &[u8], record: &[u8]) {
        if let Some(position) = self.state.streams.position(tag) {
            position.note_read(aor, at);
        }
        self.state.shared.sink.on_record(aor, record, self.state.now_ms());
        self.state.shared.counters.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the next page of all records.
    fn read_page(&mut self) -> Result<(), StoreError> {
        let Some((tag, cursor)) = self.state.walk.page() else { return Ok(()) };
        let mut page = self.read(tag, &[b"scan", cursor.as_bytes(), PAGE])?;
        let cursor = std::mem::take(&mut page.cursor);
        let records = self.deliver(tag, page);
        let now = Instant::now();
        let done = self.state.walk.read(&cursor, records, now);
        if let Some(rate) = self.state.walk.rate(now) {
            self.state.shared.counters.read_per_second.store(rate, Ordering::Relaxed);
        }
        if let Some((records, took)) = done {
            self.state.shared.is_warm.store(true, Ordering::Release);
            self.state.shared.sink.on_event(Event::Warm { records, took });
        }
        Ok(())
    }

    /// Reads records of which entries of a stream do not say enough, some at a time.
    fn fetch(&mut self) -> Result<(), StoreError> {
        let users = self.state.fetches.next();
        for (aor, _) in &users {
            self.push_read(scripts::tag_of_user(aor), &[b"get", aor])?;
        }
        for master in &mut self.ask.masters {
            master.connection.send()?;
        }
        for (aor, number) in users {
            let tag = scripts::tag_of_user(&aor);
            let page = self.receive_page(tag)?;
            self.state.fetches.remove(&aor);
            let own = self.state.own();
            let ((node, incarnation), mut record) = (own, Vec::new());
            match page.records.as_slice() {
                [_, Value::BulkString(read)] if is_valid(&aor, read) && number == 0 => {
                    record.clone_from(read)
                }
                // The update of this node was in the store before: it is in the record, which another one may have written.
                [_, Value::BulkString(read)] if is_valid(&aor, read) => {
                    let number = number.max(number_of(read, own).unwrap_or_default());
                    Record::write_as(read, &UpdateId { node, incarnation, number }, &mut record);
                }
                [] if page.damaged == 0 => {
                    let update = UpdateId { node, incarnation, number };
                    Record::write(&update, std::iter::empty(), &mut record);
                }
                _ => {
                    self.state.note_damaged(1, "a record");
                    continue;
                }
            }
            self.deliver_read(tag, page.last, &aor, &record);
        }
        Ok(())
    }

    fn answer_lookups(&mut self) -> Result<(), StoreError> {
        let lookups = lock(&self.state.shared.lookups).ask();
        for lookup in &lookups {
            self.push_read(scripts::tag_of_user(&lookup.aor), &[b"get", &lookup.aor])?;
        }
        for master in &mut self.ask.masters {
            master.connection.send()?;
        }
        for lookup in lookups {
            let tag = scripts::tag_of_user(&lookup.aor);
            let page = self.receive_page(tag)?;
            self.deliver(tag, page);
            if lock(&self.state.shared.lookups).end(lookup.query) {
                self.state.shared.sink.on_located(lookup.query);
            }
        }
        Ok(())
    }

    /// Reads the list of nodes and the time of the store.
    fn read_nodes(&mut self) -> Result<(), StoreError> {
        let own = self.state.shared.settings.node;
        let connection = self.ask.of_tag(scripts::NODES_TAG)?;
        let mut command = self.scripts.nodes.run(1);
        command.arg(scripts::NODES).arg(own.as_bytes());
        for node in self.state.nodes.list() {
            command.arg(node.name.as_bytes());
        }
        let reply: Vec<Value> = connection.run(&command)?;
        let now_ms = reply.first().and_then(number).unwrap_or_default();
        let mut damaged = reply.get(1).and_then(number).unwrap_or_default();
        self.state.set_clock(now_ms);
        let mut listed = Vec::new();
        for pair in reply.get(2..).unwrap_or_default().chunks_exact(2) {
            let [name, value] = pair else { continue };
            match bytes(name).zip(bytes(value)).and_then(|(name, value)| nodes::read(name, value)) {
                Some(node) => listed.push(node),
                None => damaged += 1,
            }
        }
        self.state.note_damaged(damaged, "a node");
        let changes = self.state.nodes.update(own, &listed, now_ms, Instant::now());
        let (shared, nodes) = (&self.state.shared, &self.state.nodes);
        shared.counters.nodes.store(nodes.alive(), Ordering::Relaxed);
        let is_due = self.nodes_reported_at.is_none_or(|at| at.elapsed() >= NODES_REPORT_INTERVAL);
        if changes.is_changed || is_due {
            self.nodes_reported_at = Some(Instant::now());
            shared.sink.on_nodes(nodes.list());
        }
        changes.up.into_iter().for_each(|node| shared.sink.on_event(Event::NodeUp(node)));
        changes.gone.into_iter().for_each(|node| shared.sink.on_event(Event::NodeGone(node)));
        Ok(())
    }
}

fn on_wait(shared: &Arc<Shared>) -> OnWait {
    let shared = Arc::clone(shared);
    Arc::new(move || shared.expire_lookups())
}

/// Connections with the scripts.
fn connect(shared: &Arc<Shared>, scripts: &Scripts) -> Result<Topology, StoreError> {
    let mut store = shared.connect(&on_wait(shared))?;
    for master in &mut store.masters {
        master.connection.load(scripts)?;
    }
    Ok(store)
}

const NODES_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two reports of the nodes without a change.
const NODES_REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two reads of news.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(10);
/// The same in a cluster, where no read waits.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Time between two checks of deadlines of lookups.
const LOOKUP_STEP: Duration = Duration::from_millis(10);
/// Time without a reply after which a stream may have been trimmed.
const BEHIND_TIME_MAX: Duration = Duration::from_secs(5);
const BLOCK_MS: u32 = 1_000;
const BLOCK_TIME: Duration = Duration::from_secs(1);
/// Number of records of a page.
const PAGE: &[u8] = b"256";
