//! Limits of the parser.

/// Limits on the size of a description; exceeding one is a [`Fault`](crate::Fault).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a description in bytes.
    pub bytes_max: usize,
    /// Maximum number of lines of a description.
    pub lines_max: usize,
    /// Maximum number of media sections (`m=`).
    pub media_max: usize,
    /// Maximum number of attributes (`a=`) of the session, and of each media section.
    pub attributes_max: usize,
    /// Maximum number of formats in one `m=` line.
    pub formats_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 32_768, lines_max: 1024, media_max: 16, attributes_max: 256, formats_max: 64 }
    }
}
