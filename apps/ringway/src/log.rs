//! Logging to standard error, as text or JSON lines. Logging threads never block on the reader.

use crate::config::{Level, Log, LogFormat};
use ringway_sansio::TableSize;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, reload};

/// Handle of the logger; dropping it writes the queued lines, for at most [`FLUSH_MAX`].
#[must_use]
pub(crate) struct Logging {
    lines: SyncSender<Vec<u8>>,
    /// Disconnected when the writing thread has written the queued lines.
    written: Option<Receiver<()>>,
}

/// Lines dropped since the start because the reader was too slow.
pub(crate) fn lines_dropped() -> u64 {
    QUEUE.dropped.load(Ordering::Relaxed)
}

/// Starts logging. To be called once.
pub(crate) fn start(log: &Log) -> Logging {
    let (lines, waiting) = sync_channel(LINES_MAX);
    let (done, written) = sync_channel(1);
    let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
        write_lines(&waiting, &mut io::stderr());
        drop(done);
    });
    let (format, format_of_now) = reload::Layer::new(format_of(log.format, lines.clone()));
    let (filter, filter_of_now) = reload::Layer::new(filter_of(log.level));
    // It fails if a subscriber is set already; that one then receives the logs.
    if tracing_subscriber::registry().with(format).with(filter).try_init().is_ok() {
        let lines = lines.clone();
        // It cannot be set already: this is the only call.
        let _ = CHANGE.set(Box::new(move |log| {
            // It fails only if the subscriber is gone.
            let _ = format_of_now.reload(format_of(log.format, lines.clone()));
            let _ = filter_of_now.reload(filter_of(log.level));
        }));
    }
    Logging { lines, written: thread.is_ok().then_some(written) }
}

/// Changes level and format.
pub(crate) fn change(log: &Log) {
    if let Some(change) = CHANGE.get() {
        change(log);
    }
}

/// Changes the logger that was started.
static CHANGE: OnceLock<ChangeLog> = OnceLock::new();

type ChangeLog = Box<dyn Fn(&Log) + Send + Sync>;

fn format_of(format: LogFormat, lines: SyncSender<Vec<u8>>) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = fmt::layer().with_writer(Lines { lines }).with_target(false);
    match format {
        LogFormat::Text => layer.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// Lines of libraries may contain unescaped text from the network, and are not logged.
fn filter_of(level: Level) -> Targets {
    let level = match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("ringway", level)
}

impl Drop for Logging {
    fn drop(&mut self) {
        // If the queue is full the end is not queued, and the wait below times out.
        let _ = self.lines.try_send(END);
        if let Some(written) = self.written.take() {
            // It ends by the disconnection, or by the timeout if the log is not read.
            let _: Result<(), RecvTimeoutError> = written.recv_timeout(FLUSH_MAX);
        }
    }
}

/// State shared by the logging threads and the writing thread.
struct Queue {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

static QUEUE: Queue = Queue { bytes: AtomicUsize::new(0), dropped: AtomicU64::new(0) };

/// Sending end of the queue; lines that do not fit are dropped.
struct Lines {
    lines: SyncSender<Vec<u8>>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> &'a Lines {
        self
    }
}

impl Write for &Lines {
    /// Queues one complete line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let waiting = QUEUE.bytes.fetch_add(line.len(), Ordering::Relaxed);
        let taken = waiting + line.len() <= BYTES_MAX && self.lines.try_send(line.to_vec()).is_ok();
        if !taken {
            QUEUE.bytes.fetch_sub(line.len(), Ordering::Relaxed);
            QUEUE.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes lines until logging ends.
fn write_lines(waiting: &Receiver<Vec<u8>>, to: &mut impl Write) {
    for line in waiting.iter().take_while(|line| *line != END) {
        // An error means that standard error is closed.
        let _ = to.write_all(&line);
        QUEUE.bytes.fetch_sub(line.len(), Ordering::Relaxed);
    }
}

/// Marks the end; log lines are never empty.
const END: Vec<u8> = Vec::new();

/// The most memory of lines that wait.
pub(crate) const fn size() -> TableSize {
    TableSize::of_bytes("lines of the log", LINES_MAX, BYTES_MAX).with_each(SLOT_BYTES)
}

/// A full queue.
#[cfg(test)]
pub(crate) fn filled() -> Box<dyn std::any::Any> {
    let (lines, waiting) = sync_channel(LINES_MAX);
    let line = [b'x'; BYTES_MAX / LINES_MAX];
    let mut of_lines = &Lines { lines };
    (0..2 * LINES_MAX).for_each(|_| drop(of_lines.write(&line)));
    QUEUE.bytes.store(0, Ordering::Relaxed);
    Box::new(waiting)
}

/// Maximum number of queued lines.
const LINES_MAX: usize = 16_384;

/// Maximum number of queued bytes.
const BYTES_MAX: usize = 8 << 20;

/// Bytes of a line in the queue besides its text.
const SLOT_BYTES: usize = size_of::<Vec<u8>>() + size_of::<usize>();

/// Time limit of writing the queued lines at the end.
const FLUSH_MAX: Duration = Duration::from_secs(1);
