//! Error of a scenario file or a list.

/// Reason why a scenario file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SippError {
    /// Line, from 1 on.
    pub line: usize,
    /// Reason and remedy.
    pub reason: String,
}

impl std::fmt::Display for SippError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for SippError {}
