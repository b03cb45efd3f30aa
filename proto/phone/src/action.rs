//! Actions that a phone requests from its front end.

use crate::{CallNumber, MediaCommand, PhoneEvent};
use alloc::boxed::Box;
use core::fmt;
use ringway_media::MediaSession;
use ringway_sansio::Target;
use ringway_zrtp::{Retained, Zid};

/// An action that a phone requests from its front end. Those about media are carried out in their order.
pub enum Action {
    /// Resolve a host name and answer with [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query.
        query: u64,
        /// The host name, and what its URI says.
        target: Target,
    },
    /// An event for the user.
    Event(PhoneEvent),
    /// Bind a pair of ports and run a [`CallMedia`](crate::CallMedia) there; answer with
    /// [`Phone::on_media_opened`](crate::Phone::on_media_opened).
    OpenMedia {
        /// Of which call.
        call: CallNumber,
        /// The session to run.
        session: Box<MediaSession>,
    },
    /// Give a command to the media of a call.
    Media {
        /// Of which call.
        call: CallNumber,
        /// The command.
        command: MediaCommand,
    },
    /// Close the media of a call: [`MediaCommand::Close`], its last events, then
    /// [`Phone::on_media_closed`](crate::Phone::on_media_closed).
    CloseMedia {
        /// Of which call.
        call: CallNumber,
    },
    /// Ring at the loudspeaker.
    StartRinging,
    /// End [`Action::StartRinging`].
    StopRinging,
    /// Store the retained secret of a phone with ZRTP.
    Retain(Retained),
    /// Remove the retained secret of a phone with ZRTP.
    Forget(Zid),
}

impl From<PhoneEvent> for Action {
    fn from(event: PhoneEvent) -> Self {
        Self::Event(event)
    }
}

impl fmt::Debug for Action {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve { query, target } => write!(f, "Resolve({query}, {})", target.host),
            Self::Event(event) => write!(f, "Event({event:?})"),
            Self::OpenMedia { call, .. } => write!(f, "OpenMedia({})", call.0),
            Self::Media { call, .. } => write!(f, "Media({})", call.0),
            Self::CloseMedia { call } => write!(f, "CloseMedia({})", call.0),
            Self::StartRinging => f.write_str("StartRinging"),
            Self::StopRinging => f.write_str("StopRinging"),
            Self::Retain(_) => f.write_str("Retain"),
            Self::Forget(_) => f.write_str("Forget"),
        }
    }
}
