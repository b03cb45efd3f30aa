//! What the screen and the phone tell each other. The screen knows nothing of signalling but this.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A call, numbered by the phone; numbers are not used again while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallNumber(pub(crate) u64);

/// What happened at the phone. Texts are as they came from the network: the screen makes them safe to show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PhoneEvent {
    /// A REGISTER is on its way.
    Registering,
    /// The account's server knows where we are, for so many seconds.
    Registered { expires_s: u32 },
    /// It does not; tried again after so many seconds, or not at all.
    RegistrationFailed { reason: String, retry_s: Option<u32> },
    /// We are not registered and do not try to be.
    Unregistered,
    /// A call that we asked for has begun.
    Calling { call: CallNumber, to: String },
    /// Somebody calls.
    Incoming { call: CallNumber, name: String, uri: String },
    /// The other side rings.
    Ringing { call: CallNumber },
    /// Sound of a call that is not answered yet.
    Early { call: CallNumber },
    /// The call stands.
    Answered { call: CallNumber, codec: String },
    /// What protects the sound now. Never what is wished for.
    Secured { call: CallNumber, lock: Lock },
    /// The media sessions are agreeing on keys; until `Secured` says otherwise nothing changes.
    Securing { call: CallNumber },
    /// How loud the last moment was.
    Levels { call: CallNumber, levels: Levels },
    /// Figures of the last second.
    Media { call: CallNumber, report: MediaReport },
    /// Who holds the call now.
    Held { call: CallNumber, hold: Hold },
    /// How a transfer that we asked for goes on.
    Transfer { call: CallNumber, step: TransferStep },
    /// The other side wants us to call somebody else instead.
    TransferAsked { call: CallNumber, to: String },
    /// The other side wanted to change the call in a way that we do not take, as without its protection.
    OfferRefused { call: CallNumber, reason: String },
    /// The other side pressed a key.
    Digit { call: CallNumber, digit: char },
    /// The call is over.
    Ended { call: CallNumber, by: Side, status: u16, reason: String },
    /// A SIP message was sent or received.
    Message(SeenMessage),
    /// Where we are.
    Network(NetworkFacts),
    /// A STUN server sees our port at this address.
    StunMapped { local: SocketAddr, mapped: SocketAddr },
    /// No STUN server told.
    StunFailed { reason: String },
    /// The sound card's state changed: one line.
    Sound { what: String },
    /// Something that was asked for could not be done: one line.
    Refused { what: String },
}

/// What a person wants from the phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PhoneCommand {
    /// Use this account from now on, and register it if it wants that.
    Register { account: super::settings::Account, password: Secret },
    /// Call a SIP URI.
    Call { to: String },
    /// Answer a call that rings here.
    Answer { call: CallNumber },
    /// Refuse a call that rings here.
    Reject { call: CallNumber },
    /// End a call, or cancel one that is not answered.
    HangUp { call: CallNumber },
    /// Put the other side on hold.
    Hold { call: CallNumber },
    /// Take it back.
    Resume { call: CallNumber },
    /// Send silence instead of our sound.
    Mute { call: CallNumber },
    /// Send our sound again.
    Unmute { call: CallNumber },
    /// Send the other side to somebody else (blind transfer, RFC 3515).
    Transfer { call: CallNumber, to: String },
    /// Do as the other side asks, and call whom it named.
    AcceptTransfer { call: CallNumber },
    /// Do not.
    RejectTransfer { call: CallNumber },
    /// Press a key (RFC 4733).
    Dtmf { call: CallNumber, digit: Digit },
    /// The person has compared the SAS, and it was not equal: somebody sits between.
    MarkSasDifferent { call: CallNumber },
    /// The person has compared the SAS, and it was equal (RFC 6189 §7.1).
    MarkSasVerified { call: CallNumber },
    /// Hang up everything, unregister, and end.
    Quit,
}

/// A password. It is not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A key of the telephone: 0-9, *, #, A-D (RFC 4733 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digit(char);

impl Digit {
    /// The key with this face.
    pub(crate) fn new(face: char) -> Option<Self> {
        matches!(face, '0'..='9' | '*' | '#' | 'A'..='D').then_some(Self(face))
    }

    /// What is written on it.
    pub(crate) fn face(self) -> char {
        self.0
    }
}

/// What protects a call's sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Nothing.
    #[default]
    None,
    /// SRTP whose keys travelled readable.
    SdesPlain { suite: String },
    /// SRTP whose keys the servers on the way know, and nobody else.
    #[allow(dead_code, reason = "made as soon as there is TLS")]
    SdesTls { suite: String },
    /// SRTP whose keys the two phones agreed on.
    Zrtp { suite: String, sas: String, compared: Compared },
}

/// Whether people have compared the SAS of ZRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// Not yet: somebody could sit between.
    No,
    /// In this call, or in an earlier one whose secret was kept.
    Yes,
    /// The other side should know the secret of an earlier call, and does not: it lost it, or somebody sits between.
    Broken,
}

/// Who holds a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nobody: sound goes both ways.
    #[default]
    None,
    /// We do.
    Ours,
    /// The other side does.
    Theirs,
    /// Both do.
    Both,
}

/// How far a transfer is (the sipfrag bodies of RFC 3515 §2.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TransferStep {
    /// It calls the target and says how that goes.
    Trying { status: u16, reason: String },
    /// It has reached the target.
    Done,
    /// It has not, or has refused to try.
    Failed { status: u16, reason: String },
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// This phone's person.
    Us,
    /// The other side.
    Peer,
    /// Nobody: time ran out or something broke.
    Failure,
}

/// How loud sound is, in dB below the loudest there is (0 to -96).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Levels {
    /// What we send.
    pub(crate) sent_db: f32,
    /// What we hear.
    pub(crate) received_db: f32,
}

/// Figures of a call's sound. Delta and jitter are Wireshark's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MediaReport {
    /// Packets since the call began.
    pub(crate) sent_packets: u64,
    /// Packets since the call began.
    pub(crate) received_packets: u64,
    /// Packets since the call began that never came.
    pub(crate) lost_packets: u64,
    /// The mean distance of two packets in the last second.
    pub(crate) delta_ms: f32,
    /// The largest distance since the call began.
    pub(crate) delta_ms_max: f32,
    /// Jitter now (RFC 3550 §6.4.1).
    pub(crate) jitter_ms: f32,
    /// The most since the call began.
    pub(crate) jitter_ms_max: f32,
    /// Lost of the last second's packets, in percent.
    pub(crate) loss_percent: f32,
    /// How a listener would judge it: 1 (bad) to 4.5 (as good as a telephone gets) (ITU-T G.107).
    pub(crate) mos: Option<f32>,
    /// SRTP packets whose tag was wrong.
    pub(crate) auth_failures: u64,
    /// SRTP packets that came again.
    pub(crate) replays: u64,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From us.
    Sent,
    /// To us.
    Received,
}

/// A SIP message as it was on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenMessage {
    pub(crate) way: Way,
    /// `udp`, `tcp`.
    pub(crate) transport: &'static str,
    pub(crate) peer: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// Where this phone is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkFacts {
    /// The machine's addresses, each with its interface.
    pub(crate) addresses: Vec<(String, IpAddr)>,
    /// What listens: what for (`SIP udp`, `RTP`), and where.
    pub(crate) listening: Vec<(String, SocketAddr)>,
    /// Whether packets are sent with real-time priority, in words.
    pub(crate) timing: String,
}

/// A moment, told by whoever drives the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the program began, on a clock that never jumps.
    pub(crate) elapsed: Duration,
    /// What the clock on the wall says.
    pub(crate) wall: WallTime,
}

/// A local date and time, for people to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WallTime {
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) millisecond: u16,
}

impl WallTime {
    /// `14:03:07`
    pub(crate) fn clock(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }

    /// `14:03:07.123`
    pub(crate) fn precise(&self) -> String {
        format!("{}.{:03}", self.clock(), self.millisecond)
    }

    /// `05-01 14:03`
    pub(crate) fn day_and_minute(&self) -> String {
        format!("{:02}-{:02} {:02}:{:02}", self.month, self.day, self.hour, self.minute)
    }
}
