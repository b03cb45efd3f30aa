//! Commands of the user or the program to a phone.

use crate::CallNumber;
use alloc::string::String;

/// A command to a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneCommand {
    /// Call a SIP URI.
    Call {
        /// Request-URI.
        to: String,
    },
    /// Answer a ringing call.
    Answer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Refuse a ringing call with [`PhoneConfig::reject_status`](crate::PhoneConfig::reject_status).
    Reject {
        /// Number of the call.
        call: CallNumber,
    },
    /// End a call: CANCEL or BYE, and 603 for a ringing one.
    HangUp {
        /// Number of the call.
        call: CallNumber,
    },
    /// Put a call on hold.
    Hold {
        /// Number of the call.
        call: CallNumber,
    },
    /// End our hold of a call.
    Resume {
        /// Number of the call.
        call: CallNumber,
    },
    /// Send silence instead of the call's source.
    Mute {
        /// Number of the call.
        call: CallNumber,
    },
    /// End [`PhoneCommand::Mute`].
    Unmute {
        /// Number of the call.
        call: CallNumber,
    },
    /// Transfer the peer without asking the target first (RFC 3515).
    Transfer {
        /// Number of the call.
        call: CallNumber,
        /// URI of the target.
        to: String,
    },
    /// Accept the transfer that the peer requested: call the target.
    AcceptTransfer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Reject the transfer that the peer requested.
    RejectTransfer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Send a digit (RFC 4733).
    Dtmf {
        /// In which call.
        call: CallNumber,
        /// The digit.
        digit: Digit,
    },
    /// The users compared the SAS, and it is equal (RFC 6189 §7.1).
    MarkSasVerified {
        /// Of which call.
        call: CallNumber,
    },
    /// The users compared the SAS, and it differs: somebody is between the phones.
    MarkSasDifferent {
        /// Of which call.
        call: CallNumber,
    },
    /// End all calls and the registration; nothing new is begun or accepted.
    Quit,
}

/// A digit of the telephone: 0-9, *, #, A-D (RFC 4733 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit(char);

impl Digit {
    /// The digit with this character; `None`: there is none.
    pub fn new(face: char) -> Option<Self> {
        matches!(face, '0'..='9' | '*' | '#' | 'A'..='D').then_some(Self(face))
    }

    /// Its character.
    pub const fn face(self) -> char {
        self.0
    }
}
