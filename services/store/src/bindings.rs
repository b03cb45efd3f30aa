//! Bindings of a store in their journal, and log messages about it.

use crate::{StoreError, StoreUrl};
use ringway_journal::{Durability, Journal, LostKey, Recovery, SnapshotSource, Writer, WriterEvent};
use std::io;
use std::path::Path;

/// Bindings and kept messages recovered from a store's journal; empty for the store `memory:`. The key of a record is the
/// address-of-record, `user@domain`, for a message with its number behind it.
pub struct Bindings {
    journal: Option<Journal>,
}

impl Bindings {
    /// Reads the journal of `url` and calls `on_record` for each record, oldest first, with key and value; an empty value
    /// means that the key was removed. Damage is logged.
    ///
    /// # Errors
    /// See [`Journal::recover`].
    pub fn recover(url: &StoreUrl, on_record: impl FnMut(&[u8], &[u8])) -> Result<Self, StoreError> {
        let Some(path) = url.bindings() else { return Ok(Self { journal: None }) };
        let journal = Journal::recover(&path, on_record)?;
        log_damage(&path, journal.recovery());
        Ok(Self { journal: Some(journal) })
    }

    /// Starts writing. `source` walks the live table when a snapshot is due. `on_durable` gets the number up to which
    /// all records are durable, each time it grows; the journal's thread calls it, and it must not block.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn start(
        self,
        durability: Durability,
        source: SnapshotSource,
        on_durable: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Writer> {
        let Some(journal) = self.journal else { return Ok(Writer::memory()) };
        let path = journal.path().to_owned();
        let on_event = move |event: WriterEvent<'_>| on_event(&path, &event, &on_durable);
        Writer::start(journal, durability, source, Box::new(on_event))
    }
}

fn log_damage(path: &Path, found: &Recovery) {
    for damage in &found.damage {
        tracing::error!("{damage}");
    }
    for file in &found.damaged_headers {
        tracing::warn!("{}: one of the two copies of its header is damaged; nothing is lost", file.display());
    }
    let names: Vec<String> =
        found.lost_keys.iter().filter(is_plausible).map(|lost| lost.to_string()).collect();
    for some in names.chunks(NAMES_PER_LINE) {
        tracing::error!(
            "{}: last change lost of {}; the state before it is used until their phones register again",
            path.display(),
            some.join(", ")
        );
    }
    if found.lost_keys.more() > 0 {
        tracing::error!("{}: last change lost of {} more", path.display(), found.lost_keys.more());
    }
}

/// False for text that a damaged record has instead of its key and that is not an address-of-record.
fn is_plausible(lost: &LostKey<'_>) -> bool {
    lost.is_certain || lost.key.contains(&b'@')
}

fn on_event(path: &Path, event: &WriterEvent<'_>, on_durable: &impl Fn(u64)) {
    let file = path.display();
    match event {
        WriterEvent::Durable(number) => on_durable(*number),
        WriterEvent::Failing(error) => tracing::error!(
            "{file}: cannot write registrations: {error}; calls go on and registrations are kept in memory until it can be \
             written again: free disk space, raise the file size limit (ulimit -f), or repair the disk"
        ),
        WriterEvent::Recovered(after) => {
            tracing::warn!("{file}: registrations are written again after {} s", after.as_secs())
        }
        WriterEvent::StoppedWithLoss => tracing::error!(
            "{file}: the last registrations could not be written and are lost; they are back when the phones register again"
        ),
        WriterEvent::Panicked => tracing::error!(
            "the journal's thread panicked: registrations are kept in memory only; restart the server"
        ),
    }
}

/// Maximum number of keys in one line of the log.
const NAMES_PER_LINE: usize = 20;
