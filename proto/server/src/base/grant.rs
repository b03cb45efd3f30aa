//! Permission of a request: proof of its sender, and the next hops that it may be sent to.

use crate::CallSender;
use crate::token::{Returned, Side};
use core::net::IpAddr;

/// Next hops that a request may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any.
    Anywhere,
    /// The bindings of a user of ours.
    OurUsers,
    /// This side of its dialog.
    Side(Side),
    /// A binding of the user who is this side of its dialog.
    User,
    /// The flow of a token in our Path.
    Flow(Side),
}

/// Proof of identity of a request's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The password of a user of `domains`.
    Proven,
    /// The same, while From is of another domain: who it is was not kept.
    ProvenUnnamed,
    /// An address in `[auth] trusted`, or the request comes from this server.
    Trusted,
    /// Authentication is off.
    Believed,
    /// The valid mark of its dialog.
    InDialog,
    /// None.
    Stranger,
    /// The rules were not applied yet: counts as a stranger.
    Unknown,
}

impl Sender {
    /// The same for the log and the records of calls.
    pub(crate) const fn of_call(self) -> CallSender {
        match self {
            Self::Proven => CallSender::Proven,
            Self::ProvenUnnamed | Self::Trusted | Self::Believed | Self::InDialog => CallSender::Believed,
            Self::Stranger | Self::Unknown => CallSender::Stranger,
        }
    }
}

/// Permission to forward a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) reach: Reach,
    pub(crate) sender: Sender,
    /// The source address is verified: it sent a nonce that was sent there. A mark does not verify it, because the other
    /// side has it too. Streams always have a verified address.
    pub(crate) is_verified: bool,
    /// Side of its dialog that sends it, if it is for the other side: the mark, with the last bit for the caller.
    pub(crate) dialog: Option<u64>,
    /// Request-URI, if it is for a trunk.
    pub(crate) trunk: TrunkTarget,
    /// A challenge of a trunk to a request in a dialog is answered with the account there.
    pub(crate) uses_accounts: bool,
    /// Client of a request that this server sent to itself. Its header fields were removed by the rules before.
    pub(crate) returned: Option<IpAddr>,
    /// This server wrote the Request-URI, for a phone of its user.
    pub(crate) has_own_uri: bool,
    /// An emergency call that no limit of calls, numbers and sources refuses: the account of its memory.
    pub(crate) above_limits: Option<u64>,
    /// Result of the verification of the caller's identity.
    pub(crate) verstat: Verstat,
}

/// Result of the verification of a caller's identity, as the called phone gets it (3GPP TS 24.229 §7.2A.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verstat {
    /// None was wanted.
    #[default]
    Absent,
    /// A carrier states that the caller may use the number.
    Passed,
    /// The identity is not valid.
    Failed,
    /// There is none, it could not be verified, or its carrier states less.
    NotVerified,
}

/// Request-URI of a request in a dialog with a trunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TrunkTarget {
    /// It is for no trunk, or the mark is of the earlier form.
    #[default]
    None,
    /// The Contact of the trunk.
    Recorded,
    /// Another one.
    Other,
    /// Any; the To tag is not the trunk's.
    Foreign,
}

/// Part of this server in a request of a phone of another registrar, or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgePart {
    /// None.
    Absent,
    /// The sender and the next hop are in domains of `edge_domains`; if these have nodes behind this server, also any sender.
    ToRegistrar,
    /// The request goes over this flow.
    ToFlow(Side),
    /// The flow is gone: 430.
    FlowGone,
    /// The token is not ours: 403.
    Forged,
}

impl Grant {
    /// Grant of a request before the rules are applied.
    pub(crate) const UNKNOWN: Self = Self::new(Reach::OurUsers, Sender::Unknown);

    /// True for a sender who may call anywhere, and is not a stranger on the way to the registrar of an edge proxy.
    pub(crate) const fn may_call_anywhere(self) -> bool {
        matches!(self.reach, Reach::Anywhere) && self.sender.is_believed()
    }

    pub(crate) const fn new(reach: Reach, sender: Sender) -> Self {
        let (trunk, uses_accounts) = (TrunkTarget::None, true);
        let is_verified = sender.is_believed();
        let (dialog, returned, has_own_uri, above_limits, verstat) =
            (None, None, false, None, Verstat::Absent);
        Self {
            reach,
            sender,
            is_verified,
            dialog,
            trunk,
            uses_accounts,
            returned,
            has_own_uri,
            above_limits,
            verstat,
        }
    }

    /// Grant of a request that this server sent to itself, for a user of ours: its sender has the rights and the limits from before.
    pub(crate) const fn of_returned(returned: Returned) -> Self {
        let Returned { sender, dialog, client, has_own_uri } = returned;
        let sender = Sender::of_letter(sender);
        // The dialog has an account for each pass.
        let dialog = match dialog {
            Some(mark) => Some(mark.wrapping_add(NEXT_PASS)),
            None => None,
        };
        let grant = Self::new(Reach::OurUsers, sender);
        Self { dialog, returned: Some(client), has_own_uri, is_verified: true, ..grant }
    }
}

impl Verstat {
    /// Value of the parameter.
    pub(crate) const fn value(self) -> Option<&'static [u8]> {
        match self {
            Self::Absent => None,
            Self::Passed => Some(b"TN-Validation-Passed"),
            Self::Failed => Some(b"TN-Validation-Failed"),
            Self::NotVerified => Some(b"No-TN-Validation"),
        }
    }
}

impl Sender {
    /// Letter in the mark of a request that this server sends to itself.
    pub(crate) const fn letter(self) -> u8 {
        match self {
            Self::Proven => b'p',
            Self::ProvenUnnamed => b'u',
            Self::Trusted => b't',
            Self::Believed => b'b',
            Self::InDialog => b'd',
            Self::Stranger | Self::Unknown => b's',
        }
    }

    /// Sender with this letter; any other is a stranger's.
    const fn of_letter(letter: u8) -> Self {
        match letter {
            b'p' => Self::Proven,
            b'u' => Self::ProvenUnnamed,
            b't' => Self::Trusted,
            b'b' => Self::Believed,
            b'd' => Self::InDialog,
            _ => Self::Stranger,
        }
    }

    /// True if its contacts and identities are believed.
    pub(crate) const fn is_believed(self) -> bool {
        match self {
            Self::Proven | Self::ProvenUnnamed | Self::Trusted | Self::Believed => true,
            Self::InDialog | Self::Stranger | Self::Unknown => false,
        }
    }

    /// True for a user of ours, whose word counts for itself only.
    pub(crate) const fn is_user(self) -> bool {
        matches!(self, Self::Proven | Self::ProvenUnnamed)
    }

    /// True with a password that was verified, or from a trusted address.
    pub(crate) const fn is_proven(self) -> bool {
        matches!(self, Self::Proven | Self::ProvenUnnamed | Self::Trusted)
    }
}

/// Distinguishes the account of a dialog's request at its next pass; the last bit is the side's.
const NEXT_PASS: u64 = 1 << 62;
