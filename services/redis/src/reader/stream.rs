//! Positions in streams, and what is newer than they are.

use crate::connection::{bytes, items, text};
use crate::scripts::{self, AOR_BYTES_MAX, TAGS};
use redis::Value;
use ringway_location::{BYTES_MAX, NodeName, Record, UpdateId};
use std::collections::HashMap;

/// Identity of an entry of a stream: milliseconds and a number. Those of a stream rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(u64, u64);

impl Id {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (time, number) = text.split_once('-')?;
        Some(Self(time.parse().ok()?, number.parse().ok()?))
    }
}

/// Position in the stream of a tag.
#[derive(Default)]
pub(crate) struct Position {
    pub(crate) id: Id,
    /// The same as a text.
    text: String,
    /// Records that were read from keys, and are newer than the stream up to here: no older ones follow them.
    ahead: HashMap<Vec<u8>, Id>,
    ahead_until: Id,
}

impl Position {
    /// Moves to an id; what was read ahead counts no more when the stream is there.
    fn advance(&mut self, id: Id) {
        self.id = id;
        self.text.clear();
        if !self.ahead.is_empty() && id >= self.ahead_until {
            self.ahead.clear();
        }
    }

    /// Moves to a position of another stream, or one further on.
    pub(crate) fn reset(&mut self, id: Id) {
        self.ahead.clear();
        self.advance(id);
    }

    /// Notes that the record of `aor` was read from its key, when the stream was at `at`.
    pub(crate) fn note_read(&mut self, aor: &[u8], at: Id) {
        if at > self.id {
            if self.ahead.len() >= AHEAD_MAX {
                self.ahead.clear();
            }
            self.ahead.insert(aor.to_vec(), at);
            self.ahead_until = self.ahead_until.max(at);
        }
    }

    /// True if a record that was delivered is at least as new as this entry.
    fn has_newer(&self, aor: &[u8], id: Id) -> bool {
        !self.ahead.is_empty() && self.ahead.get(aor).is_some_and(|ahead| *ahead >= id)
    }

    fn text(&mut self) -> &str {
        if self.text.is_empty() {
            self.text = format!("{}-{}", self.id.0, self.id.1);
        }
        &self.text
    }
}

/// Positions of all tags.
pub(crate) struct Streams {
    keys: Vec<String>,
    positions: Vec<Position>,
}

/// Entries of a reply.
#[derive(Default)]
pub(crate) struct Delivered {
    pub(crate) records: u64,
    pub(crate) damaged: u64,
    /// True if a stream may have more.
    pub(crate) is_full: bool,
    /// Users whose records must be read by their keys, with the number of the update of this node that they answer, or 0: its entry was
    /// passed over for a newer record, which did not say that the update is in it, or an entry has the head of its record only.
    pub(crate) to_read: Vec<(Vec<u8>, u64)>,
}

/// News of a user.
pub(crate) enum News<'a> {
    /// Its record.
    Record(&'a [u8]),
    /// The update of this node with this number was taken as it is.
    Taken(u64),
}

/// Record of an entry.
enum Content<'a> {
    Whole(&'a [u8]),
    /// Head of a long one; true: the update was taken as it is.
    Head(&'a [u8], bool),
}

impl Streams {
    pub(crate) fn new() -> Self {
        let positions = (0..TAGS).map(|_| Position::default()).collect();
        Self { keys: (0..TAGS).map(scripts::log).collect(), positions }
    }

    pub(crate) fn position(&mut self, tag: usize) -> Option<&mut Position> {
        self.positions.get_mut(tag)
    }

    /// Tag of a key.
    fn tag(&self, key: &[u8]) -> Option<usize> {
        let tag: usize = std::str::from_utf8(key.get(4..6)?).ok()?.parse().ok()?;
        self.keys.get(tag).is_some_and(|known| known.as_bytes() == key).then_some(tag)
    }

    /// Key of a tag, for a command.
    pub(crate) fn key(&self, tag: usize) -> &str {
        self.keys.get(tag).map(String::as_str).unwrap_or_default()
    }

    /// Position of a tag, for a command.
    pub(crate) fn id(&mut self, tag: usize) -> &str {
        self.positions.get_mut(tag).map(Position::text).unwrap_or_default()
    }

    /// Passes the records of a reply to XREAD, with `count` entries of each stream at most. `own` is this node and its incarnation.
    pub(crate) fn deliver(
        &mut self,
        reply: Value,
        count: usize,
        own: (NodeName, u64),
        deliver: &mut dyn FnMut(&[u8], News<'_>),
    ) -> Delivered {
        let mut result = Delivered::default();
        for stream in items(reply) {
            let mut parts = items(stream).into_iter();
            let (Some(key), Some(entries)) = (parts.next(), parts.next()) else { continue };
            let tag = bytes(&key).and_then(|key| self.tag(key));
            let Some(position) = tag.and_then(|tag| self.positions.get_mut(tag)) else { continue };
            let entries = items(entries);
            result.is_full |= entries.len() >= count;
            for entry in entries {
                let Value::Array(entry) = entry else { continue };
                let Some(id) = entry.first().and_then(text).and_then(Id::read) else { continue };
                let Some((aor, content)) = entry.get(1).and_then(read_fields) else {
                    result.damaged += 1;
                    position.advance(id);
                    continue;
                };
                let number = content.number_of(own);
                match (content, number) {
                    _ if position.has_newer(aor, id) => {
                        result.to_read.extend(number.map(|number| (aor.to_vec(), number)));
                    }
                    (Content::Head(_, true), Some(number)) => deliver(aor, News::Taken(number)),
                    (Content::Head(..), _) => result.to_read.push((aor.to_vec(), number.unwrap_or_default())),
                    (Content::Whole(record), _) => {
                        result.records += 1;
                        deliver(aor, News::Record(record));
                    }
                }
                position.advance(id);
            }
        }
        result
    }
}

/// Address-of-record and record of an entry.
fn read_fields(fields: &Value) -> Option<(&[u8], Content<'_>)> {
    let Value::Array(fields) = fields else { return None };
    let mut found = (None, None);
    for pair in fields.chunks_exact(2) {
        let value = pair.get(1).and_then(bytes);
        match pair.first().and_then(bytes)? {
            b"a" => found.0 = value,
            b"r" => found.1 = value.map(Content::Whole),
            b"h" => found.1 = value.map(|head| Content::Head(head, false)),
            b"e" => found.1 = value.map(|head| Content::Head(head, true)),
            _ => {}
        }
    }
    let (aor, content) = found.0.zip(found.1)?;
    let is_sound = match content {
        Content::Whole(record) => is_valid(aor, record),
        Content::Head(head, _) => {
            is_user(aor) && Record::read_head(head).is_ok_and(|(_, rest)| rest.is_empty())
        }
    };
    is_sound.then_some((aor, content))
}

impl Content<'_> {
    /// Number of the update, if it is one of the node `own`.
    fn number_of(&self, own: (NodeName, u64)) -> Option<u64> {
        let (Self::Whole(bytes) | Self::Head(bytes, _)) = self;
        number_of(bytes, own)
    }
}

/// Number of the update that led to a record, if it is one of the node `own`.
pub(crate) fn number_of(record: &[u8], own: (NodeName, u64)) -> Option<u64> {
    let (UpdateId { node: by, incarnation, number }, _) = Record::read_head(record).ok()?;
    ((by, incarnation) == own).then_some(number)
}

/// True for a record that a sink may get.
pub(crate) fn is_valid(aor: &[u8], record: &[u8]) -> bool {
    is_user(aor) && record.len() <= BYTES_MAX && Record::read(record).is_ok()
}

fn is_user(aor: &[u8]) -> bool {
    !aor.is_empty() && aor.len() <= AOR_BYTES_MAX
}

/// Maximum number of records read ahead of a stream.
const AHEAD_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_location::Registrations;

    fn record(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let update = UpdateId { node: NodeName::read(b"a").unwrap(), incarnation: 1, number };
        Registrations::default().write_record(&update, 0, &mut out);
        out
    }

    fn text(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    fn reply(entries: &[(&str, &[u8], Vec<u8>)]) -> Value {
        let entries = entries.iter().map(|(id, aor, record)| {
            let fields = Value::Array(vec![text(b"a"), text(aor), text(b"r"), text(record)]);
            Value::Array(vec![text(id.as_bytes()), fields])
        });
        let stream = Value::Array(vec![text(b"rw:{03}:log"), Value::Array(entries.collect())]);
        Value::Array(vec![stream])
    }

    fn own() -> (NodeName, u64) {
        (NodeName::read(b"own").unwrap(), 1)
    }

    /// Number of the record; that of a taken update, plus 100.
    fn number(news: &News<'_>) -> u64 {
        match news {
            News::Record(record) => Record::read(record).unwrap().number,
            News::Taken(number) => number + 100,
        }
    }

    fn delivered(streams: &mut Streams, reply: Value) -> Vec<u64> {
        let mut numbers = Vec::new();
        streams.deliver(reply, 9, own(), &mut |_, news| numbers.push(number(&news)));
        numbers
    }

    #[test]
    fn nothing_older_follows_a_record_that_was_read_ahead_of_the_stream() {
        let mut streams = Streams::new();
        let position = streams.position(3).unwrap();
        position.reset(Id(10, 0));
        position.note_read(b"x", Id(10, 0));
        assert!(position.ahead.is_empty(), "the stream is there");
        position.note_read(b"x", Id(12, 1));
        let entries =
            [("11-0", b"x" as &[u8], record(1)), ("12-0", b"y", record(2)), ("12-1", b"x", record(3))];
        assert_eq!(delivered(&mut streams, reply(&entries)), [2]);
        assert!(streams.position(3).unwrap().ahead.is_empty());
        assert_eq!(delivered(&mut streams, reply(&[("12-2", b"x", record(4))])), [4]);
        assert_eq!(streams.id(3), "12-2");
    }

    #[test]
    fn an_update_of_this_node_whose_entry_is_passed_over_is_not_answered() {
        let mut streams = Streams::new();
        streams.position(3).unwrap().note_read(b"x", Id(12, 0));
        let (this, earlier) = (NodeName::read(b"own").unwrap(), 0);
        let as_own = |number, incarnation| {
            let mut out = Vec::new();
            Record::write_as(&record(0), &UpdateId { node: this, incarnation, number }, &mut out);
            out
        };
        let entries = [
            ("11-0", b"x" as &[u8], as_own(4, earlier)),
            ("11-1", b"x", as_own(5, 1)),
            ("12-0", b"x", record(6)),
            ("13-0", b"x", as_own(7, 1)),
        ];
        let mut numbers = Vec::new();
        let deliver = &mut |_: &[u8], news: News<'_>| numbers.push(number(&news));
        let result = streams.deliver(reply(&entries), 9, own(), deliver);
        assert_eq!((result.to_read, numbers), (vec![(b"x".to_vec(), 5)], vec![7]));
    }

    #[test]
    fn a_record_whose_head_is_in_the_stream_is_read_by_its_key() {
        let mut streams = Streams::new();
        let of = |name: &[u8], number| {
            let mut out = Vec::new();
            let update = UpdateId { node: NodeName::read(name).unwrap(), incarnation: 1, number };
            Record::write_as(&record(0), &update, &mut out);
            out.truncate(out.len() - 2);
            out
        };
        let entry = |id: &str, aor: &str, field: &str, value: Vec<u8>| {
            let fields = [text(b"a"), text(aor.as_bytes()), text(field.as_bytes()), text(&value)];
            Value::Array(vec![text(id.as_bytes()), Value::Array(fields.to_vec())])
        };
        let entries = vec![
            entry("1-0", "other", "e", of(b"a", 1)),
            entry("1-1", "refused", "h", of(b"own", 2)),
            entry("1-2", "taken", "e", of(b"own", 3)),
            entry("1-3", "other", "r", record(4)),
            entry("1-4", "long", "h", record(5)),
            entry("1-5", "short", "e", of(b"own", 6)[..9].to_vec()),
        ];
        let stream = Value::Array(vec![text(b"rw:{03}:log"), Value::Array(entries)]);
        let mut numbers = Vec::new();
        let deliver = &mut |_: &[u8], news: News<'_>| numbers.push(number(&news));
        let result = streams.deliver(Value::Array(vec![stream]), 9, own(), deliver);
        assert_eq!(result.to_read, [(b"other".to_vec(), 0), (b"refused".to_vec(), 2)]);
        assert_eq!((numbers, result.damaged), (vec![103, 4], 2));
    }

    #[test]
    fn each_key_has_its_tag() {
        let streams = Streams::new();
        assert!((0..TAGS).all(|tag| streams.tag(scripts::log(tag).as_bytes()) == Some(tag)));
        for key in ["", "rw:{0", "rw:{64}:log", "rw:{+3}:log", "rw:{03}:all", "other"] {
            assert_eq!(streams.tag(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn what_is_not_valid_is_passed_over_and_counted() {
        let mut streams = Streams::new();
        let bad = Value::Array(vec![text(b"1-0"), Value::Array(vec![text(b"a")])]);
        let stream = Value::Array(vec![text(b"rw:{00}:log"), Value::Array(vec![bad, Value::Nil])]);
        let other = Value::Array(vec![text(b"other"), Value::Array(vec![])]);
        let result =
            streams.deliver(Value::Array(vec![stream, other, Value::Int(1)]), 9, own(), &mut |_, _| panic!());
        assert_eq!((result.records, result.damaged), (0, 1));
        let long = vec![b'a'; AOR_BYTES_MAX + 1];
        let entries =
            [("1-0", b"" as &[u8], record(1)), ("1-1", &long, record(1)), ("1-2", b"x", b"\x02".to_vec())];
        let result = streams.deliver(reply(&entries), 3, own(), &mut |_, _| panic!());
        assert_eq!((result.damaged, result.is_full), (3, true));
        assert_eq!(streams.id(3), "1-2");
    }
}
