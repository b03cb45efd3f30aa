//! How much of a description is read at most.

/// Bounds on what a peer can make the parser work on. Each is a [`Fault`](crate::Fault) of its own where it is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole description.
    pub bytes_max: usize,
    /// Lines of a whole description.
    pub lines_max: usize,
    /// Media sections (`m=`).
    pub media_max: usize,
    /// Attributes (`a=`) of the session, and of each media section.
    pub attributes_max: usize,
    /// Formats in one `m=` line.
    pub formats_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 32_768, lines_max: 1024, media_max: 16, attributes_max: 256, formats_max: 64 }
    }
}
