//! A command that did not do what it was asked: what it says, and the exit status.

use ringway_store::StoreError;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command ends, as it is told to a person.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    /// Each is one line: what is wrong, where, what to do.
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

    /// The operation failed, and all has been said: exit status 1.
    pub(crate) fn said() -> Self {
        Self { status: 1, lines: Vec::new() }
    }

    /// What it says, a line for each error.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Says it on standard error and gives the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        for line in &self.lines {
            // Whoever closed standard error does not want to know.
            let _ = writeln!(io::stderr(), "ringway: {}", line.replace(['\n', '\r'], " "));
        }
        ExitCode::from(self.status)
    }
}

/// Standard output failed. A reader that has seen enough (`| head`) is no failure.
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
            | StoreError::Database { .. }
            | StoreError::Random(_)
            | StoreError::Exists(_)
            | StoreError::NoSuchUser(_)
            | StoreError::NoSuchContact { .. }
            | StoreError::BadRow { .. } => Self::failed(error.to_string()),
        }
    }
}
