//! Actions and events of a user agent, and the identifiers of accounts, calls and queries in them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Target};
use ringway_sdp::MediaParams;
use ringway_transaction::SlabKey;

/// Identifies an account: its index in [`Config::accounts`](crate::Config::accounts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub usize);

/// Identifies a call. A number is not reused for a long time after the call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// Identifies a query (OPTIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub u64);

impl CallId {
    pub(crate) fn from_key(key: SlabKey) -> Self {
        Self(number_of(key))
    }

    pub(crate) const fn key(self) -> SlabKey {
        key_of(self.0)
    }
}

/// A slab key as one number, for a lookup's query or a [`CallId`].
pub(crate) fn number_of(key: SlabKey) -> u64 {
    (u64::from(key.generation) << 32) | u64::from(key.index)
}

/// The inverse of [`number_of`].
pub(crate) const fn key_of(number: u64) -> SlabKey {
    SlabKey { index: number as u32, generation: (number >> 32) as u32 }
}

/// Requested action: anything but a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a phone has few events, and a box would be in every program's way"
)]
pub enum Action {
    /// Look up the servers of a host name; the result is [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query, for the result.
        query: u64,
        /// The host name, and what its URI says.
        target: Target,
    },
    /// Event for the program.
    Event(AgentEvent),
}

impl From<AgentEvent> for Action {
    fn from(event: AgentEvent) -> Self {
        Self::Event(event)
    }
}

/// Event for the program. Texts from a peer have no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// An account was registered or refreshed.
    Registered {
        /// Registered account.
        account: AccountId,
        /// Expiry in seconds.
        expires_s: u32,
    },
    /// An account is not registered, or not any more.
    RegistrationFailed {
        /// Account.
        account: AccountId,
        /// Status code; 408 after a timeout, 503 if the REGISTER could not be sent.
        status: u16,
        /// Reason as text for the user.
        reason: String,
        /// Time until the next attempt in seconds; `None`: only after
        /// [`UserAgent::register`](crate::UserAgent::register).
        retry_s: Option<u32>,
    },
    /// The binding was removed.
    Unregistered {
        /// Account.
        account: AccountId,
    },
    /// An INVITE was received. The program rings, answers or rejects.
    Incoming {
        /// Identifier of the new call.
        call: CallId,
        /// Called account.
        account: AccountId,
        /// URI of the caller in From.
        from: String,
        /// URI in To.
        to: String,
        /// Display name in From; may be empty.
        display_name: String,
        /// True if the account's server did not send the INVITE. False where the account has no server.
        bypasses_server: bool,
        /// True if the Request-URI is a `sips:` URI: each hop used TLS (RFC 5630).
        is_sips: bool,
        /// User whose password the caller proved; `None`: callers are not challenged.
        proven_user: Option<String>,
        /// False: the INVITE has no offer, so the media is not negotiated before the ACK.
        has_offer: bool,
        /// Call that this one replaces (RFC 3891). Answering ends that one. Its user decides: who sent the INVITE is not proven.
        replaces: Option<CallId>,
    },
    /// The server is busy (503 with a short Retry-After): the INVITE of a call is sent again after this time.
    Postponed {
        /// Call that waits.
        call: CallId,
        /// Time to the next INVITE.
        wait: Duration,
    },
    /// A caller was refused because its password is wrong, or the user unknown.
    CallerRefused {
        /// URI of the caller in From.
        from: String,
        /// User name in the credentials.
        user: String,
        /// Source address of the INVITE.
        source: SocketAddr,
    },
    /// A provisional response was received.
    Progress {
        /// Identifier of the call.
        call: CallId,
        /// 101 to 199; 180 is ringing.
        status: u16,
    },
    /// The peer sends media before the answer.
    EarlyMedia {
        /// Identifier of the call.
        call: CallId,
        /// Negotiated media; another early dialog of the call, or the answer, may have other parameters.
        params: MediaParams,
    },
    /// The call is established.
    Answered {
        /// Identifier of the call.
        call: CallId,
        /// Negotiated media.
        params: MediaParams,
    },
    /// The media was negotiated again.
    MediaChanged {
        /// Identifier of the call.
        call: CallId,
        /// Negotiated media.
        params: MediaParams,
    },
    /// The peer put the call on hold.
    HeldByPeer {
        /// Identifier of the call.
        call: CallId,
    },
    /// The peer resumed the call.
    ResumedByPeer {
        /// Identifier of the call.
        call: CallId,
    },
    /// Our hold or resume was refused, or could not be sent; the session is not changed.
    ChangeRefused {
        /// Identifier of the call.
        call: CallId,
        /// Status code; 503 if it could not be sent.
        status: u16,
        /// Reason as text for the user.
        reason: String,
    },
    /// An offer of the peer was refused; the session is not changed.
    OfferRefused {
        /// Identifier of the call.
        call: CallId,
        /// Status code of the response.
        status: u16,
        /// Reason as text for the user.
        reason: String,
    },
    /// The call has ended; its identifier is invalid now.
    Ended {
        /// Identifier of the call.
        call: CallId,
        /// Cause of the end.
        cause: Ended,
    },
    /// The peer requests a call to another target (REFER). The program accepts or rejects it.
    TransferRequested {
        /// Identifier of the call.
        call: CallId,
        /// URI of the target.
        target: String,
        /// Referred-By; may be empty.
        referred_by: String,
    },
    /// Progress of the call that the peer makes for our transfer.
    TransferProgress {
        /// Identifier of our call with it.
        call: CallId,
        /// Status of its new call.
        status: u16,
    },
    /// Result of our transfer. After a 2xx our call with the peer is ended.
    TransferDone {
        /// Identifier of our call with it.
        call: CallId,
        /// Status of its new call, or of the response to the REFER if that was refused.
        status: u16,
        /// Reason as text for the user.
        reason: String,
    },
    /// Result of a query (OPTIONS).
    QueryAnswered {
        /// Identifier of the query.
        query: QueryId,
        /// Status code; 408 after a timeout.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Contents of the response; `None`: there was no response.
        abilities: Option<Box<Abilities>>,
    },
    /// A message was sent or received; only with [`Config::trace`](crate::Config::trace).
    Message {
        /// Direction.
        direction: MessageDirection,
        /// Flow of the message.
        flow: Flow,
        /// First line.
        line: String,
        /// Value of CSeq, to match responses to requests.
        cseq: String,
        /// Call-ID.
        call_id: String,
        /// Length in bytes.
        bytes: usize,
        /// Bytes of the message with [`Trace::Whole`](crate::Trace::Whole); else empty.
        whole: Vec<u8>,
    },
}

/// Contents of a response to OPTIONS (RFC 3261 §11.2); header fields that are missing are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Allow.
    pub allow: String,
    /// Supported.
    pub supported: String,
    /// Accept.
    pub accept: String,
    /// User-Agent, or Server.
    pub user_agent: String,
    /// Time from the request, without the challenged ones before it, to its response.
    pub round_trip: Duration,
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageDirection {
    /// From this agent.
    Sent,
    /// To this agent.
    Received,
}

/// End of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Status code of the end; 200 after a BYE, 487 after a CANCEL, 408 after a timeout.
    pub status: u16,
    /// Reason as text for the user.
    pub reason: String,
    /// Side that ended it.
    pub by: By,
}

/// Side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// This agent.
    Local,
    /// The peer.
    Remote,
}
