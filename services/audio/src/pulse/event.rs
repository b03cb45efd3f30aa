//! Events of a card.

use super::error::AudioError;
use std::fmt;

/// Change of a card's state, to be shown to the user.
#[derive(Debug)]
pub enum AudioEvent {
    /// A part failed. The call continues, and the part is retried every second.
    Lost(Part, AudioError),
    /// A lost part works again.
    Restored(Part),
}

/// Part of a card that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both directions.
    Sound,
    /// The microphone alone.
    Microphone,
}

impl fmt::Display for AudioEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(Part::Sound, why) => write!(f, "no sound, retrying: {why}"),
            Self::Lost(Part::Microphone, why) => write!(f, "no microphone, retrying: {why}"),
            Self::Restored(Part::Sound) => f.write_str("there is sound again"),
            Self::Restored(Part::Microphone) => f.write_str("the microphone works again"),
        }
    }
}
