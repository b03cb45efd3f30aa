//! Settings of presence.

use core::time::Duration;

/// `[presence]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceConfig {
    /// True: this server answers SUBSCRIBE and PUBLISH for its users. Needs [`Mode::Proxy`](crate::Mode::Proxy) and the
    /// feature `events`. Default: false.
    pub enabled: bool,
    /// Users who may see the presence and the dialogs of a user. Default: [`Watchers::Domain`].
    pub watchers: Watchers,
    /// Minimum in seconds, 10 to 86,400; a shorter expiry gets 423. Default: 60.
    pub min_expires_s: u32,
    /// Maximum in seconds, 10 to 86,400, not below the minimum; longer expiries are reduced to it. Default: 3,600.
    pub max_expires_s: u32,
    /// True: a MESSAGE of a user to a user without a phone is kept, and delivered later. Needs
    /// [`Mode::Proxy`](crate::Mode::Proxy) and the feature `events`, and not [`PresenceConfig::enabled`]. Default: false.
    pub messages: bool,
    /// Days for which a message is kept, 1 to 30. Default: 7.
    pub message_keep_days: u32,
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
        Self {
            enabled: false,
            watchers: Watchers::Domain,
            min_expires_s: 60,
            max_expires_s: 3600,
            messages: false,
            message_keep_days: 7,
        }
    }
}

impl PresenceConfig {
    /// True if it is enabled and part of this build.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        cfg!(feature = "events") && self.enabled
    }

    /// True if messages are kept, and that is part of this build.
    #[inline]
    pub(crate) const fn keeps_messages(&self) -> bool {
        cfg!(feature = "events") && self.messages
    }

    /// Maximum time for which a message is kept.
    pub(crate) const fn message_lifetime(&self) -> Duration {
        Duration::from_secs(self.message_keep_days as u64 * 86_400)
    }
}
