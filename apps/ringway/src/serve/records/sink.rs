//! File and database that records are written to, each with those that wait for it.

use super::Numbered;
use super::line::{row_of, stored, write_line, written};
use crate::config::Records;
use crate::failure::Failure;
use ringway_sansio::Instant as WallTime;
use ringway_server::CallSender;
use ringway_store::{REMOVED_MAX, RecordDatabase, RecordFile, StoreError};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File, or database.
pub(crate) enum Output {
    File { file: RecordFile, lines: Vec<u8> },
    Database { database: RecordDatabase, keep_days: u32, bytes_max: Option<u64>, cleaned: Option<Instant> },
}

/// Records that an output takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepts {
    All,
    /// Records of calls whose callers proved something, or are believed.
    Users,
    /// Records of all other calls, which anyone can cause.
    Strangers,
}

/// Output with the records that it has not taken yet.
pub(crate) struct Sink {
    output: Output,
    accepts: Accepts,
    waiting: VecDeque<Arc<Numbered>>,
    bytes: usize,
    /// Number of those that wait of strangers.
    strangers: usize,
    lost: u64,
    removed_rows: u64,
    failure: Option<Failing>,
}

/// State of an output that fails.
struct Failing {
    retry_at: Instant,
    /// True after it was said that records are lost.
    is_loss_reported: bool,
}

/// Output whose file does not take these records.
#[cfg(test)]
pub(super) fn filled(records: VecDeque<ringway_server::CallRecord>) -> Sink {
    let file = RecordFile::closed(Path::new("/"), None);
    let mut sink = Sink::new(Output::File { file, lines: Vec::new() }, Accepts::All);
    records.into_iter().for_each(|record| sink.push(&Arc::new(Numbered { n: 1, record })));
    sink
}

/// Opens the outputs of a configuration.
pub(crate) fn open(config: &Records) -> Result<Vec<Sink>, Failure> {
    let mut sinks = Vec::new();
    if let Some(path) = &config.file {
        let part = |of_eight| config.bytes_max().map(|bytes| bytes / 8 * of_eight);
        let file = RecordFile::open(path, part(8 - STRANGERS_EIGHTHS)).map_err(of_file(path))?;
        // Without strangers there is no such file.
        let of_strangers = RecordFile::closed(&strangers_path(path), part(STRANGERS_EIGHTHS));
        sinks.push(Sink::new(Output::File { file, lines: Vec::new() }, Accepts::Users));
        sinks.push(Sink::new(Output::File { file: of_strangers, lines: Vec::new() }, Accepts::Strangers));
    }
    if let Some(path) = &config.database {
        let database = RecordDatabase::open(path).map_err(of_database)?;
        let (keep_days, bytes_max) = (config.keep_days, config.bytes_max());
        warn_of_removal(&database, bytes_max);
        let output = Output::Database { database, keep_days, bytes_max, cleaned: None };
        sinks.push(Sink::new(output, Accepts::All));
    }
    Ok(sinks)
}

/// Checks that [`open`] would open the outputs, without changing them.
pub(crate) fn check(config: &Records) -> Result<(), Failure> {
    config.file.as_ref().map_or(Ok(()), |path| RecordFile::check(path).map_err(of_file(path)))?;
    config.database.as_ref().map_or(Ok(()), |path| RecordDatabase::check(path).map_err(of_database))
}

fn of_file(path: &Path) -> impl Fn(io::Error) -> Failure {
    let file = path.display().to_string();
    move |error| {
        Failure::failed(format!("[records] file: {file}: {error}; check the path and its permissions"))
    }
}

fn of_database(error: StoreError) -> Failure {
    Failure::failed(format!("[records] url: {error}"))
}

/// Says that records will be removed, as after an upgrade from a version without `max_mb`.
fn warn_of_removal(database: &RecordDatabase, bytes_max: Option<u64>) {
    if let (Some(max), Ok(used)) = (bytes_max, database.used_bytes())
        && u64::try_from(used).is_ok_and(|used| used > max)
    {
        let (database, used_mb, max_mb) = (database.path().display(), used >> 20, max >> 20);
        tracing::warn!(
            %database, used_mb, max_mb,
            "the oldest call records will be removed: their database is larger than [records] max_mb; \
             set a larger one, or 0 for no limit"
        );
    }
}

/// `calls.jsonl.strangers`
fn strangers_path(path: &Path) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(".strangers");
    path.into()
}

impl Sink {
    const fn new(output: Output, accepts: Accepts) -> Self {
        let waiting = VecDeque::new();
        Self { output, accepts, waiting, bytes: 0, strangers: 0, lost: 0, removed_rows: 0, failure: None }
    }

    /// Adds a record to those that wait.
    pub(super) fn push(&mut self, ended: &Arc<Numbered>) {
        let is_strangers = ended.record.sender == CallSender::Stranger;
        match self.accepts {
            Accepts::All => {}
            Accepts::Users if !is_strangers => {}
            Accepts::Strangers if is_strangers => {}
            Accepts::Users | Accepts::Strangers => return,
        }
        let size = ended.size();
        let has_share = !is_strangers || self.strangers < STRANGERS_MAX;
        if has_share && self.waiting.len() < RECORDS_MAX && self.bytes + size <= BYTES_MAX {
            self.bytes += size;
            self.strangers += usize::from(is_strangers);
            self.waiting.push_back(Arc::clone(ended));
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

    /// True if another record may not fit.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= RECORDS_MAX || self.strangers >= STRANGERS_MAX || self.bytes >= BYTES_MAX / 2
    }

    /// Writes what waits; after a failure a second later.
    pub(super) fn write(&mut self, now: Instant, wall: WallTime) {
        if self.failure.as_ref().is_some_and(|failure| now < failure.retry_at) {
            return;
        }
        while !self.waiting.is_empty() {
            let count = match self.append() {
                Ok(count) => count,
                Err(error) => return self.note_failure(now, &error),
            };
            for ended in self.waiting.drain(..count) {
                self.bytes -= ended.size();
                self.strangers -= usize::from(ended.record.sender == CallSender::Stranger);
            }
            if self.failure.take().is_some() {
                let output = self.output.path().display();
                tracing::info!(%output, lost = self.lost, "call records are written again");
            }
        }
        if let Err(error) = self.output.clean(now, wall) {
            self.note_failure(now, &error);
        }
    }

    /// Appends a batch of what waits; returns its number of records.
    fn append(&mut self) -> Result<usize, String> {
        let Self { output, waiting, removed_rows, .. } = self;
        match output {
            Output::File { file, lines } => {
                lines.clear();
                let mut count = 0;
                while let Some(ended) = waiting.get(count)
                    && lines.len() < BATCH_BYTES
                {
                    write_line(lines, ended).map_err(|error| error.to_string())?;
                    count += 1;
                }
                file.append(lines).map_err(|error| error.to_string())?;
                Ok(count)
            }
            Output::Database { database, bytes_max, .. } => {
                if let Some(bytes_max) = bytes_max {
                    let removed = database.shrink(*bytes_max).map_err(|error| error.to_string())?;
                    *removed_rows += removed as u64;
                }
                let count = waiting.len().min(BATCH);
                let rows: Vec<_> =
                    waiting.range(..count).map(|ended| (row_of(ended), ended.record.sender)).collect();
                let rows = rows.iter().map(|(row, sender)| stored(row, *sender));
                database.append(rows).map_err(|error| error.to_string())?;
                Ok(count)
            }
        }
    }

    /// Opens a file again, which another program may have moved.
    pub(super) fn reopen(&mut self) {
        if let Output::File { file, .. } = &mut self.output {
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

    /// Older files that were replaced, and rows that were removed, because of `max_mb`.
    pub(super) const fn removed(&self) -> (u64, u64) {
        match &self.output {
            Output::File { file, .. } => (file.removed(), 0),
            Output::Database { .. } => (0, self.removed_rows),
        }
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
            Self::File { file, .. } => file.path(),
            Self::Database { database, .. } => database.path(),
        }
    }

    /// Removes old records, at most once a minute.
    fn clean(&mut self, now: Instant, wall: WallTime) -> Result<(), String> {
        let Self::Database { database, keep_days, cleaned, .. } = self else { return Ok(()) };
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

/// Maximum number of records that wait for one output, and of those of strangers.
const RECORDS_MAX: usize = 10_000;
const STRANGERS_MAX: usize = RECORDS_MAX / 4;
pub(crate) const BYTES_MAX: usize = 32 << 20;
/// Part of `max_mb` that the file of strangers has.
const STRANGERS_EIGHTHS: u64 = 2;
/// Records of one transaction.
const BATCH: usize = 1000;
/// Bytes of one write, without the last line.
const BATCH_BYTES: usize = 64 << 10;
/// Time after a failure until the next attempt.
const RETRY: Duration = Duration::from_secs(1);
const CLEANING: Duration = Duration::from_secs(60);
