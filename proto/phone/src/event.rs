//! Events of a phone.

use crate::Protection;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_agent::{Abilities, MessageDirection};
use ringway_sansio::Transport;

/// Number of a call; a phone does not use it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(pub u64);

/// An event of a phone. Names, URIs and reasons come from the network: make them safe before showing them.
#[derive(Clone, Debug, PartialEq)]
pub enum PhoneEvent {
    /// A REGISTER is sent.
    Registering,
    /// The account is registered.
    Registered {
        /// For how long, in seconds.
        expires_s: u32,
    },
    /// The account is not registered (any more).
    RegistrationFailed {
        /// Status code; 408 without an answer, 503 when nothing could be sent.
        status: u16,
        /// Reason for a person.
        reason: String,
        /// Time to the next attempt in seconds; `None`: there is none.
        retry_s: Option<u32>,
    },
    /// The account is not registered and is not to be.
    Unregistered,
    /// An outgoing call began; its INVITE is sent once the media ports are known.
    Calling {
        /// The new call.
        call: CallNumber,
        /// Request-URI.
        to: String,
    },
    /// The INVITE of an outgoing call was sent.
    Inviting {
        /// Number of the call.
        call: CallNumber,
    },
    /// Somebody calls.
    Incoming {
        /// The new call.
        call: CallNumber,
        /// Display name in From; may be empty.
        name: String,
        /// URI in From.
        uri: String,
        /// True if the account's server did not send the INVITE; nobody verified the URI.
        bypasses_server: bool,
        /// True for a `sips:` call: each hop used TLS.
        is_sips: bool,
        /// Call that ends when this one is answered (RFC 3891).
        replaces: Option<CallNumber>,
    },
    /// The caller of the next [`PhoneEvent::Incoming`] proved its password; only where callers are challenged.
    CallerProven {
        /// URI in From.
        uri: String,
        /// User name of the password.
        user: String,
    },
    /// A caller was refused because its password is wrong or unknown.
    CallerRefused {
        /// URI in From.
        uri: String,
        /// User name that the caller gave.
        user: String,
        /// Source of the INVITE.
        source: SocketAddr,
    },
    /// Somebody called, and got 486 because there are as many calls as allowed.
    Busy {
        /// Display name in From; may be empty.
        name: String,
        /// URI in From.
        uri: String,
    },
    /// The peer rings (180).
    Ringing {
        /// Number of the call.
        call: CallNumber,
    },
    /// The server is busy and asked to call later (503 with a short Retry-After): so is done.
    Postponed {
        /// Call that waits.
        call: CallNumber,
        /// Time to the next INVITE.
        wait: Duration,
    },
    /// Another provisional response than 100 and 180.
    Progress {
        /// Of which call.
        call: CallNumber,
        /// 101 to 199.
        status: u16,
    },
    /// The peer described sound of a call that is not answered yet.
    Early {
        /// Number of the call.
        call: CallNumber,
    },
    /// The call is established.
    Answered {
        /// Number of the call.
        call: CallNumber,
        /// Encoding name.
        codec: String,
    },
    /// Protection that is in force now; never what is only wanted.
    Secured {
        /// Of which call.
        call: CallNumber,
        /// The protection.
        protection: Protection,
    },
    /// ZRTP or DTLS is running; the protection stays as it is until [`PhoneEvent::Secured`].
    Securing {
        /// In which call.
        call: CallNumber,
    },
    /// The call cannot be protected as negotiated. Nothing is sent or played, and the phone ends the call.
    SecurityFailed {
        /// Number of the call.
        call: CallNumber,
        /// Reason for a person.
        reason: String,
    },
    /// Loudness of the last block.
    Levels {
        /// Of which call.
        call: CallNumber,
        /// The levels.
        levels: Levels,
    },
    /// Figures of the media, once a second.
    Media {
        /// Of which call.
        call: CallNumber,
        /// The figures.
        report: MediaReport,
    },
    /// No RTP packet came in the first seconds in which the peer of an answered call could send, or one came after that.
    Silent {
        /// Of which call.
        call: CallNumber,
        /// False: a packet has come now.
        is_silent: bool,
    },
    /// Neither ports nor sound could be opened for a call; it ends.
    MediaFailed {
        /// Number of the call.
        call: CallNumber,
        /// Reason for a person.
        reason: String,
    },
    /// Sides that hold the call.
    Held {
        /// Number of the call.
        call: CallNumber,
        /// The sides.
        hold: Hold,
    },
    /// Our hold or resume was refused, or could not be sent.
    HoldRefused {
        /// Of which call.
        call: CallNumber,
        /// Status code; 503 when it could not be sent.
        status: u16,
        /// Reason for a person.
        reason: String,
    },
    /// An offer of the peer was refused, such as one without the call's protection.
    OfferRefused {
        /// In which call.
        call: CallNumber,
        /// Status code of the response.
        status: u16,
        /// Reason for a person.
        reason: String,
    },
    /// Progress of a transfer that we requested.
    Transfer {
        /// Of which call.
        call: CallNumber,
        /// The progress.
        step: TransferStep,
    },
    /// The peer requests a transfer; with [`TransferPolicy::Reject`](crate::TransferPolicy::Reject) it is rejected already.
    TransferAsked {
        /// In which call.
        call: CallNumber,
        /// URI of the target.
        to: String,
    },
    /// The peer sent a digit.
    Digit {
        /// In which call.
        call: CallNumber,
        /// 0-9, *, #, A-D.
        digit: char,
    },
    /// A digit of ours was not sent.
    DigitNotSent {
        /// In which call.
        call: CallNumber,
        /// Reason for a person.
        reason: String,
    },
    /// The call is over.
    Ended {
        /// Number of the call.
        call: CallNumber,
        /// Side that ended it.
        by: Side,
        /// Status code; 200 after a BYE, 0 when no INVITE was sent.
        status: u16,
        /// Reason for a person.
        reason: String,
    },
    /// The response to [`Phone::query_options`](crate::Phone::query_options), or its failure.
    OptionsAnswered {
        /// Status code; 408 without a response.
        status: u16,
        /// Reason phrase.
        reason: String,
        /// Contents of the response; `None`: there was none.
        abilities: Option<Box<Abilities>>,
    },
    /// A SIP message was sent or received; only with a [`Trace`](ringway_agent::Trace).
    Message(SipMessage),
    /// The STUN server sees our media port at this address.
    StunMapped {
        /// Our port.
        local: SocketAddr,
        /// The mapped address.
        mapped: SocketAddr,
    },
    /// The STUN server gave no mapped address: our own address is offered.
    StunFailed {
        /// Reason for a person.
        reason: String,
    },
    /// A command could not be carried out: one line.
    Refused {
        /// Reason for a person.
        what: String,
    },
    /// Addresses and ports of the phone; emitted by the front end.
    Network(NetworkFacts),
    /// The state of the sound card changed; emitted by the front end.
    Sound {
        /// One line for a person.
        what: String,
        /// False: silence is sent, or nothing is heard, until the next such event.
        is_working: bool,
    },
}

/// Sides that hold a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// None: sound flows in both directions.
    #[default]
    None,
    /// We do.
    Ours,
    /// The peer does.
    Theirs,
    /// Both do.
    Both,
}

/// Progress of a transfer (the sipfrag bodies of RFC 3515 §2.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferStep {
    /// The peer calls the target.
    Trying {
        /// Status code of that call.
        status: u16,
    },
    /// The peer has reached the target.
    Done,
    /// The peer has not reached the target, or refused to try.
    Failed {
        /// Status code.
        status: u16,
        /// Reason for a person.
        reason: String,
    },
}

/// The cause of a call's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Our user, or a policy.
    Us,
    /// The peer.
    Peer,
    /// A time limit or an error.
    Failure,
}

/// Loudness in dB relative to full scale, 0 to -96.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Of what is sent.
    pub sent_db: f32,
    /// Of what is played.
    pub received_db: f32,
}

/// Figures of a call's media. Delta and jitter are Wireshark's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MediaReport {
    /// Packets sent since the call began.
    pub sent_packets: u64,
    /// Packets received since the call began.
    pub received_packets: u64,
    /// Packets lost since the call began.
    pub lost_packets: u64,
    /// Mean time between two packets in the last second.
    pub delta_ms: f32,
    /// Maximum time between two packets since the call began.
    pub delta_ms_max: f32,
    /// Jitter now (RFC 3550 §6.4.1).
    pub jitter_ms: f32,
    /// Maximum jitter since the call began.
    pub jitter_ms_max: f32,
    /// Percentage of the last second's packets that were lost.
    pub loss_percent: f32,
    /// Mean opinion score, 1 (bad) to 4.5 (ITU-T G.107); `None`: nothing was received.
    pub mos: Option<f32>,
    /// SRTP packets with a wrong tag.
    pub auth_failures: u64,
    /// SRTP packets that were replayed.
    pub replays: u64,
}

/// A SIP message as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipMessage {
    /// Sent or received.
    pub direction: MessageDirection,
    /// Transport.
    pub transport: Transport,
    /// Address of the next hop or the source.
    pub peer: SocketAddr,
    /// First line.
    pub line: String,
    /// CSeq.
    pub cseq: String,
    /// Number of bytes.
    pub length: usize,
    /// The bytes, with [`Trace::Whole`](ringway_agent::Trace::Whole); else empty.
    pub bytes: Vec<u8>,
}

/// Addresses and ports of a phone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Addresses of the machine, with their interfaces.
    pub addresses: Vec<(String, IpAddr)>,
    /// Listening ports, with their purposes (`SIP udp`, `RTP`).
    pub listening: Vec<(String, SocketAddr)>,
    /// Priority of the media thread, for a person.
    pub timing: String,
}
