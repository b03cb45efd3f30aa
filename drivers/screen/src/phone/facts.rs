//! What the phone's screen shows: plain values, borrowed for one drawing. Bytes are as they came from the network.

use crate::network::Network;
use core::time::Duration;

/// Everything about the phone.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Time since the start.
    pub uptime: Duration,
    /// The phone's own address-of-record.
    pub own: &'a [u8],
    /// Whether its server knows where it is.
    pub registration: Registration<'a>,
    /// Who is called by one key: the first by `1`, up to nine.
    pub quick: &'a [Quick<'a>],
    /// The call.
    pub call: Option<Call<'a>>,
    /// How the last call ended, while there is none.
    pub last: Option<&'a [u8]>,
    /// Where sound comes from and goes to: `test tone sent, sound measured only`.
    pub sound: &'a str,
    /// The machine in its network.
    pub network: Network<'a>,
}

/// Whether the phone's server knows where it is.
#[derive(Clone, Copy, Debug)]
pub enum Registration<'a> {
    /// It is not asked to.
    Off,
    /// It is being asked.
    Asking,
    /// It does.
    Registered {
        /// For so long.
        left: Duration,
    },
    /// It does not.
    Failed {
        /// What it said.
        reason: &'a [u8],
        /// When it is asked again; `None`: not.
        retry: Option<Duration>,
    },
}

/// Somebody who is called by one key.
#[derive(Clone, Copy, Debug)]
pub struct Quick<'a> {
    /// A name; may be empty.
    pub name: &'a str,
    /// A SIP URI.
    pub uri: &'a str,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// How far it is.
    pub phase: Phase,
    /// The other side's name, as it says; may be empty.
    pub name: &'a [u8],
    /// The other side's URI, as it says.
    pub uri: &'a [u8],
    /// How the sound is encoded; empty: not agreed yet.
    pub codec: &'a str,
    /// Who holds it.
    pub hold: Hold,
    /// What protects the sound now.
    pub security: Security<'a>,
    /// Keys sent in this call.
    pub digits: &'a str,
    /// Figures, once there is sound.
    pub sound: Option<Sound>,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// We call, for so long.
    Calling(Duration),
    /// It rings there.
    RingsThere,
    /// It rings there, and sound comes already.
    EarlySound,
    /// Somebody calls.
    RingsHere,
    /// We answered, and wait for the other side to know.
    Answering,
    /// We talk, for so long.
    Talking(Duration),
    /// It is over as soon as the other side has said so.
    Ending,
}

/// Who holds a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nobody.
    None,
    /// We do.
    Ours,
    /// The other side does.
    Theirs,
    /// Both do.
    Both,
}

/// What protects the sound now; never what is wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security<'a> {
    /// Nothing.
    None,
    /// Nothing yet: ZRTP is under way.
    Agreeing,
    /// SRTP whose keys travelled readable.
    SdesPlain {
        /// What encrypts: `AES_CM_128_HMAC_SHA1_80`.
        suite: &'a str,
    },
    /// SRTP whose keys the two phones agreed on (RFC 6189).
    Zrtp {
        /// What encrypts.
        suite: &'a str,
        /// What the two people read to each other.
        sas: &'a str,
        /// True when they have, and it was equal.
        is_compared: bool,
    },
}

/// Figures of a call's sound. Delta and jitter are Wireshark's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sound {
    /// How loud our sound is, in dB below the loudest there is (0 to -96).
    pub sent_db: f64,
    /// How loud the other side's is.
    pub received_db: f64,
    /// RTP packets sent since the call began.
    pub sent_packets: u64,
    /// RTP packets received.
    pub received_packets: u64,
    /// RTP packets that never came.
    pub lost_packets: u64,
    /// The mean distance of two packets in the last second, in milliseconds.
    pub delta_ms: f64,
    /// The largest distance since the call began.
    pub delta_ms_max: f64,
    /// Jitter now (RFC 3550 §6.4.1), in milliseconds.
    pub jitter_ms: f64,
    /// The most since the call began.
    pub jitter_ms_max: f64,
    /// Mean opinion score, 1 to 4.41 (ITU-T G.107); `None`: not known yet.
    pub mos: Option<f64>,
}
