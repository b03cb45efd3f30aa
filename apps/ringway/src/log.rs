//! Logs: to standard error, as text or JSON lines.

use crate::config::{Level, Log, LogFormat};
use std::io::{self, IsTerminal};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

/// Starts logging. Call it once.
pub(crate) fn start(log: &Log) {
    let level = match log.level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let builder = fmt().with_writer(io::stderr).with_max_level(level).with_target(false);
    // It fails when there is a subscriber already; then that one takes the logs.
    let _ = match log.format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
