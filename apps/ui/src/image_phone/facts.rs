//! Values of the phone's page, borrowed for one drawing. Bytes are as they came from the network.

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
    /// State of the registration.
    pub registration: Registration<'a>,
    /// Quick dial: called by the keys `1` to `9`.
    pub quick: &'a [Quick<'a>],
    /// The call.
    pub call: Option<Call<'a>>,
    /// Result of the last call, while there is none.
    pub last: Option<&'a [u8]>,
    /// Source and sink of the sound: `test tone sent, sound measured only`.
    pub sound: &'a str,
    /// The machine in its network.
    pub network: Network<'a>,
}

/// State of the phone's registration.
#[derive(Clone, Copy, Debug)]
pub enum Registration<'a> {
    /// No registration is configured.
    Off,
    /// A REGISTER was sent, and not answered yet.
    Asking,
    /// Registered.
    Registered {
        /// Remaining time.
        left: Duration,
    },
    /// Rejected.
    Failed {
        /// Reason phrase of the server.
        reason: &'a [u8],
        /// Time until the next attempt; `None`: there is none.
        retry: Option<Duration>,
    },
}

/// An entry of the quick dial.
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
    /// Phase of the call.
    pub phase: Phase,
    /// The other side's name, as it says; may be empty.
    pub name: &'a [u8],
    /// The other side's URI, as it says.
    pub uri: &'a [u8],
    /// Codec; empty: not negotiated yet.
    pub codec: &'a str,
    /// Sides that hold the call.
    pub hold: Hold,
    /// Current protection of the sound.
    pub security: Security<'a>,
    /// Keys sent in this call.
    pub digits: &'a str,
    /// Figures, once there is sound.
    pub sound: Option<Sound>,
}

/// Phase of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// We call; time since the INVITE.
    Calling(Duration),
    /// Ringing at the other side.
    RingsThere,
    /// Ringing at the other side, with early media.
    EarlySound,
    /// An incoming call rings.
    RingsHere,
    /// Answered by us, and not acknowledged yet.
    Answering,
    /// Established; time since the answer.
    Talking(Duration),
    /// Ended by us, and not confirmed by the other side yet.
    Ending,
}

/// Sides that hold a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Neither side.
    None,
    /// This phone.
    Ours,
    /// The other side.
    Theirs,
    /// Both sides.
    Both,
}

/// Current protection of the sound, not the configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security<'a> {
    /// None.
    None,
    /// None yet: ZRTP is running.
    Agreeing,
    /// SRTP with keys from the SDP in clear text.
    SdesPlain {
        /// Cipher suite: `AES_CM_128_HMAC_SHA1_80`.
        suite: &'a str,
    },
    /// SRTP whose keys the two phones agreed on (RFC 6189).
    Zrtp {
        /// Cipher suite.
        suite: &'a str,
        /// Short authentication string, which the two people read to each other.
        sas: &'a str,
        /// True if it was compared and is equal.
        is_compared: bool,
    },
}

/// Figures of a call's sound. Delta and jitter are Wireshark's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sound {
    /// Level of the sent sound, in dB relative to full scale (0 to -96).
    pub sent_db: f64,
    /// Level of the received sound, in the same unit.
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
