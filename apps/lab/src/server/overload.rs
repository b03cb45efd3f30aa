//! Overload control of a Ringway server.

/// Overload control of a Ringway server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverloadUse {
    /// On, with its usual limits.
    On,
    /// It measures, and refuses nothing: a closed loop keeps a saturated server busy all the time.
    Patient,
    /// None.
    Off,
}

impl OverloadUse {
    /// Its section of the configuration.
    pub(super) const fn toml(self) -> &'static str {
        match self {
            Self::On => "[overload]\nenabled = true\n",
            Self::Patient => "[overload]\nenabled = true\ntarget_delay_ms = 1000\nmax_delay_ms = 10000\n",
            Self::Off => "[overload]\nenabled = false\n",
        }
    }
}
