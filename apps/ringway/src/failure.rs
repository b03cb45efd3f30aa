//! Failure of a command: messages and exit status.

use ringway_store::StoreError;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Failure of a command, as reported to the user.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    /// Messages of one line each: the error, its location, the remedy.
    lines: Vec<String>,
}

impl Failure {
    /// The operation failed: exit status 1.
    pub(crate) fn failed(line: impl Into<String>) -> Self {
        Self { status: 1, lines: vec![line.into()] }
    }

    /// Bad usage or bad configuration: exit status 2.
    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self { status: 2, lines: vec![line.into()] }
    }

    /// A bad configuration, an error a line: exit status 2.
    pub(crate) fn configuration(lines: Vec<String>) -> Self {
        Self { status: 2, lines }
    }

    /// The operation failed, and the error was printed before: exit status 1.
    pub(crate) fn said() -> Self {
        Self { status: 1, lines: Vec::new() }
    }

    /// A signal ended the operation before its end: exit status 130, as after SIGINT.
    pub(crate) fn interrupted() -> Self {
        Self { status: 130, lines: Vec::new() }
    }

    /// Messages, one line for each error.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Prints the messages to standard error and returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        for line in &self.lines {
            // An error means that standard error is closed.
            let _ = writeln!(io::stderr(), "ringway: {}", line.replace(['\n', '\r'], " "));
        }
        ExitCode::from(self.status)
    }
}

/// Standard output failed. A closed pipe (`| head`) is not a failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { status: 0, lines: Vec::new() },
            _ => Self::failed(format!("cannot write to standard output: {error}; check where it is sent")),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unusable { .. } => Self::usage(error.to_string()),
            StoreError::Corrupt { .. }
            | StoreError::Newer { .. }
            | StoreError::Journal(_)
            | StoreError::Io { .. }
            | StoreError::Locked { .. }
            | StoreError::Database { .. }
            | StoreError::Random(_)
            | StoreError::Exists(_)
            | StoreError::NoSuchUser(_)
            | StoreError::NoSuchContact { .. }
            | StoreError::BackupRow { .. }
            | StoreError::BadRow { .. } => Self::failed(error.to_string()),
        }
    }
}
