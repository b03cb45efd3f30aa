//! What a user agent tells and wishes.

use crate::{AccountId, CallId, QueryId};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::Flow;
use ringway_sdp::MediaParams;

/// What is not a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a phone has few events, and a box would be in every program's way"
)]
pub enum Action {
    /// Look a host name up and answer with [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// The number to answer with.
        query: u64,
        /// The host name.
        host: Box<str>,
    },
    /// For the program.
    Event(AgentEvent),
}

impl From<AgentEvent> for Action {
    fn from(event: AgentEvent) -> Self {
        Self::Event(event)
    }
}

/// What the program is told. Texts that came from a peer have no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// An account is registered, or still is.
    Registered {
        /// Which.
        account: AccountId,
        /// For how many seconds.
        expires_s: u32,
    },
    /// An account is not registered (any more).
    RegistrationFailed {
        /// Which.
        account: AccountId,
        /// The status code; 408 when nobody answered, 503 when it could not be sent.
        status: u16,
        /// Why, for a person.
        reason: String,
        /// It is tried again after so many seconds; `None`: only [`UserAgent::register`](crate::UserAgent::register) does.
        retry_s: Option<u32>,
    },
    /// The registration was taken back.
    Unregistered {
        /// Of which account.
        account: AccountId,
    },
    /// Somebody calls. Ring, answer or reject.
    Incoming {
        /// The new call.
        call: CallId,
        /// Who is called.
        account: AccountId,
        /// The caller's URI, as the caller says.
        from: String,
        /// The URI in To.
        to: String,
        /// The caller's name, as the caller says; may be empty.
        display_name: String,
        /// The user whose password the caller proved; `None`: callers are not challenged.
        proven_user: Option<String>,
        /// False: what sound it wants is known only when it has been answered.
        has_offer: bool,
        /// The call that this one takes the place of (RFC 3891). Answering ends that one; a program answers without asking.
        replaces: Option<CallId>,
    },
    /// A caller was refused because its password is wrong, or it has none here.
    CallerRefused {
        /// The caller's URI, as the caller says.
        from: String,
        /// The user that it tried to be.
        user: String,
        /// Address that the INVITE came from.
        source: SocketAddr,
    },
    /// A provisional answer came.
    Progress {
        /// To which call.
        call: CallId,
        /// 101 to 199; 180 means that it rings.
        status: u16,
    },
    /// The other side sends sound although nobody has answered yet.
    EarlyMedia {
        /// In which call.
        call: CallId,
        /// What was agreed; another dialog of the same call, or the answer, may agree on something else.
        params: MediaParams,
    },
    /// The call stands, and this is its sound.
    Answered {
        /// Which.
        call: CallId,
        /// What was agreed.
        params: MediaParams,
    },
    /// The two sides have agreed anew.
    MediaChanged {
        /// In which call.
        call: CallId,
        /// What was agreed.
        params: MediaParams,
    },
    /// The other side put the call on hold.
    HeldByPeer {
        /// Which.
        call: CallId,
    },
    /// The other side took it up again.
    ResumedByPeer {
        /// Which.
        call: CallId,
    },
    /// Our hold or resume was refused, or could not be sent; everything is as before.
    ChangeRefused {
        /// In which call.
        call: CallId,
        /// The status code; 503 when it could not be sent.
        status: u16,
        /// Why, for a person.
        reason: String,
    },
    /// An offer of the other side was refused; everything is as before.
    OfferRefused {
        /// In which call.
        call: CallId,
        /// What it was answered.
        status: u16,
        /// Why, for a person.
        reason: String,
    },
    /// The call is over; its number means nothing any more.
    Ended {
        /// Which.
        call: CallId,
        /// How.
        cause: Ended,
    },
    /// The other side wants us to call somebody else instead. Accept or reject it.
    TransferRequested {
        /// In which call.
        call: CallId,
        /// Whom.
        target: String,
        /// Who says so; may be empty.
        referred_by: String,
    },
    /// How far the call has come that the other side makes for us.
    TransferProgress {
        /// Our call with it.
        call: CallId,
        /// The status of its new call.
        status: u16,
    },
    /// The transfer has come to its end. After a status of 2xx our call with the other side is ended.
    TransferDone {
        /// Our call with it.
        call: CallId,
        /// The status of its new call, or of the transfer itself when it was refused.
        status: u16,
        /// Why, for a person.
        reason: String,
    },
    /// A query (OPTIONS) was answered.
    QueryAnswered {
        /// Which.
        query: QueryId,
        /// The status code; 408: nobody answered.
        status: u16,
        /// The reason phrase.
        reason: String,
        /// Contents of the response; `None`: there was no response.
        abilities: Option<Box<Abilities>>,
    },
    /// A message was sent or received; only with [`Config::trace`](crate::Config::trace).
    Message {
        /// Which way.
        direction: MessageDirection,
        /// From or to where.
        flow: Flow,
        /// Its first line.
        line: String,
        /// Its CSeq, so that a response tells its request.
        cseq: String,
        /// Its Call-ID.
        call_id: String,
        /// Its length in bytes.
        bytes: usize,
        /// Itself, as it was on the wire, with [`Trace::Whole`](crate::Trace::Whole); else empty.
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

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageDirection {
    /// From us.
    Sent,
    /// To us.
    Received,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The status code that ended it; 200 after a BYE, 487 after a CANCEL, 408 when nobody answered.
    pub status: u16,
    /// Why, for a person.
    pub reason: String,
    /// Who ended it.
    pub by: By,
}

/// Whose doing something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Ours.
    Local,
    /// The other side's.
    Remote,
}
