//! Overload control of a Ringway server.

/// Overload control of a Ringway server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverloadUse {
    /// That of a server without keys for it.
    Shipped,
    /// On, with its usual limits.
    On,
}

impl OverloadUse {
    /// Its section of the configuration.
    pub(super) const fn toml(self) -> &'static str {
        match self {
            Self::Shipped => "",
            Self::On => "[overload]\nenabled = true\n",
        }
    }
}
