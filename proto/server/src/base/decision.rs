//! Decision of a stage about the media of a call.

use ringway_sansio::RelayMedia;

/// Media of the sides of a call that is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaPlan {
    pub(crate) caller: RelayMedia,
    pub(crate) callee: RelayMedia,
}

/// Media of the call of a target, as a stage decides about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StageDecision {
    /// The rule of the configuration decides when the next hop has been chosen.
    #[default]
    ByRule,
    /// No relay has them.
    Direct,
    /// A relay has them: without one the call fails.
    Relayed(MediaPlan),
}

impl StageDecision {
    /// True if a stage decided that a relay has them.
    pub(crate) const fn is_relayed(self) -> bool {
        matches!(self, Self::Relayed(_))
    }
}
