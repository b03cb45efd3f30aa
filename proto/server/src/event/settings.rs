//! Settings of presence.

/// `[presence]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceConfig {
    /// True: this server answers SUBSCRIBE and PUBLISH for its users. Needs [`Mode::Proxy`](crate::Mode::Proxy) and the
    /// feature `events`.
    pub enabled: bool,
    /// Users who may see the presence and the dialogs of a user.
    pub watchers: Watchers,
    /// Minimum in seconds; a shorter expiry gets 423.
    pub min_expires_s: u32,
    /// Maximum in seconds; longer expiries are reduced to it.
    pub max_expires_s: u32,
}

/// Users who may see the presence and the dialogs of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watchers {
    /// Every user of the same domain.
    #[default]
    Domain,
    /// The user itself.
    Oneself,
}

impl Default for PresenceConfig {
    fn default() -> Self {
        Self { enabled: false, watchers: Watchers::Domain, min_expires_s: 60, max_expires_s: 3600 }
    }
}

impl PresenceConfig {
    /// True if it is enabled and part of this build.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        cfg!(feature = "events") && self.enabled
    }
}
