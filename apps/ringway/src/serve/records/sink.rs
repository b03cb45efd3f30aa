//! File and database that records are written to, each with those that wait for it.

use super::row::{stored, written};
use crate::config::Records;
use crate::failure::Failure;
use ringway_admin::CallRecord as Row;
use ringway_sansio::Instant as WallTime;
use ringway_store::{REMOVED_MAX, RecordDatabase, RecordFile};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File, or database.
pub(crate) enum Output {
    File(RecordFile),
    Database { database: RecordDatabase, keep_days: u32, cleaned: Option<Instant> },
}

/// Output with the records that it has not taken yet.
pub(crate) struct Sink {
    output: Output,
    waiting: VecDeque<Arc<Row>>,
    bytes: usize,
    lost: u64,
    failure: Option<Failing>,
}

/// State of an output that fails.
struct Failing {
    retry_at: Instant,
    /// True after it was said that records are lost.
    is_loss_reported: bool,
}

/// Opens the outputs of a configuration.
pub(crate) fn open(config: &Records) -> Result<Vec<Sink>, Failure> {
    let mut sinks = Vec::new();
    if let Some(path) = &config.file {
        let file = RecordFile::open(path).map_err(|error| {
            Failure::failed(format!(
                "[records] file: {}: {error}; check the path and its permissions",
                path.display()
            ))
        })?;
        sinks.push(Sink::new(Output::File(file)));
    }
    if let Some(path) = &config.database {
        let database =
            RecordDatabase::open(path).map_err(|error| Failure::failed(format!("[records] url: {error}")))?;
        let keep_days = config.keep_days;
        sinks.push(Sink::new(Output::Database { database, keep_days, cleaned: None }));
    }
    Ok(sinks)
}

impl Sink {
    fn new(output: Output) -> Self {
        Self { output, waiting: VecDeque::new(), bytes: 0, lost: 0, failure: None }
    }

    /// Adds a record to those that wait.
    pub(super) fn push(&mut self, row: &Arc<Row>) {
        let size = size_of_row(row);
        if self.waiting.len() < RECORDS_MAX && self.bytes + size <= BYTES_MAX {
            self.bytes += size;
            self.waiting.push_back(Arc::clone(row));
            return;
        }
        self.lost += 1;
        if let Some(failure) = &mut self.failure
            && !std::mem::replace(&mut failure.is_loss_reported, true)
        {
            let output = self.output.path().display();
            tracing::warn!(%output, "call records are lost: more of them wait than may");
        }
    }

    /// Writes what waits; after a failure a second later.
    pub(super) fn write(&mut self, now: Instant, wall: WallTime) {
        if self.failure.as_ref().is_some_and(|failure| now < failure.retry_at) {
            return;
        }
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(BATCH);
            match self.output.append(self.waiting.range(..count)) {
                Ok(()) => {
                    self.bytes -= self.waiting.drain(..count).map(|row| size_of_row(&row)).sum::<usize>();
                    if self.failure.take().is_some() {
                        let output = self.output.path().display();
                        tracing::info!(%output, lost = self.lost, "call records are written again");
                    }
                }
                Err(error) => return self.note_failure(now, &error),
            }
        }
        if let Err(error) = self.output.clean(now, wall) {
            self.note_failure(now, &error);
        }
    }

    /// Opens a file again, which another program may have moved.
    pub(super) fn reopen(&mut self) {
        if let Output::File(file) = &mut self.output {
            file.close();
        }
    }

    /// Records that were lost, with those that wait if the sink ends now.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Number of records that wait.
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) const fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    fn note_failure(&mut self, now: Instant, error: &str) {
        let retry_at = now + RETRY;
        match &mut self.failure {
            Some(failure) => failure.retry_at = retry_at,
            None => {
                let output = self.output.path().display();
                tracing::error!(
                    %output,
                    "call records cannot be written: {error}; at most {RECORDS_MAX} of them wait until they can"
                );
                self.failure = Some(Failing { retry_at, is_loss_reported: false });
            }
        }
    }
}

impl Output {
    fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Database { database, .. } => database.path(),
        }
    }

    fn append<'r>(&mut self, rows: impl Iterator<Item = &'r Arc<Row>>) -> Result<(), String> {
        match self {
            Self::File(file) => {
                let mut lines = Vec::new();
                for row in rows {
                    serde_json::to_writer(&mut lines, &**row).map_err(|error| error.to_string())?;
                    lines.push(b'\n');
                }
                file.append(&lines).map_err(|error| error.to_string())
            }
            Self::Database { database, .. } => {
                database.append(rows.map(|row| stored(row))).map_err(|error| error.to_string())
            }
        }
    }

    /// Removes old records, at most once a minute.
    fn clean(&mut self, now: Instant, wall: WallTime) -> Result<(), String> {
        let Self::Database { database, keep_days, cleaned } = self else { return Ok(()) };
        if *keep_days == 0 || cleaned.is_some_and(|cleaned| now < cleaned + CLEANING) {
            return Ok(());
        }
        let kept_s = u64::from(*keep_days) * 86_400;
        let before = WallTime::from_secs(wall.as_secs().saturating_sub(kept_s));
        let removed = database.remove_before(&written(before));
        // A full batch has more behind it.
        if !matches!(removed, Ok(REMOVED_MAX..)) {
            *cleaned = Some(now);
        }
        removed.map(drop).map_err(|error| error.to_string())
    }
}

fn size_of_row(row: &Row) -> usize {
    size_of::<Row>() + row.call_id.len() + row.from.len() + row.to.len() + TEXT_BYTES
}

/// Maximum number of records that wait for one output.
const RECORDS_MAX: usize = 10_000;
const BYTES_MAX: usize = 32 << 20;
/// Texts of a row beside its URIs.
const TEXT_BYTES: usize = 256;
/// Records of one write, or of one transaction.
const BATCH: usize = 1000;
/// Time after a failure until the next attempt.
const RETRY: Duration = Duration::from_secs(1);
const CLEANING: Duration = Duration::from_secs(60);
