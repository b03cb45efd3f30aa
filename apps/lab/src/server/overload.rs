//! Overload control of a Ringway server.

/// Overload control of a Ringway server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverloadUse {
    /// That of a server without keys for it.
    Shipped,
    /// It measures, and refuses nothing: a closed loop keeps a saturated server busy all the time.
    Patient,
    /// None.
    Off,
}

impl OverloadUse {
    /// Its section of the configuration.
    pub(super) const fn toml(self) -> &'static str {
        match self {
            Self::Shipped => "",
            Self::Patient => "[overload]\ntarget_delay_ms = 1000\nmax_delay_ms = 10000\n",
            Self::Off => "[overload]\nenabled = false\n",
        }
    }
}
