//! Configuration of a phone.

use crate::SrtpPolicy;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_media::session::{SessionConfig, ZrtpSettings};
use ringway_sdp::{Codec, CryptoSuite};

/// Configuration of a phone.
#[derive(Clone, Debug)]
pub struct PhoneConfig {
    /// Signalling: the account (the first in the list), listeners, ringing time, trace.
    pub agent: ringway_agent::Config,
    /// Protection that every call must have.
    pub srtp: SrtpPolicy,
    /// Crypto suites for keys in the SDP, best first. Empty: offers the common ones, accepts all.
    pub suites: Vec<CryptoSuite>,
    /// True when a peer may take the protection away during a call.
    pub allows_downgrade: bool,
    /// Codecs, best first.
    pub codecs: Vec<Codec>,
    /// STUN server for the mapped media ports of each call.
    pub stun: Option<StunServer>,
    /// ZRTP identity and the retained secrets of earlier calls. `None`: each call has a new identity, and nothing is
    /// retained.
    pub zrtp: Option<ZrtpSettings>,
    /// Template of each call's media session; its STUN server and ZRTP settings are those above.
    pub session: SessionConfig,
    /// Treatment of incoming calls.
    pub incoming: IncomingPolicy,
    /// Status of [`PhoneCommand::Reject`](crate::PhoneCommand::Reject): 486 refuses for this phone, 603 for all phones of the
    /// user.
    pub reject_status: u16,
    /// Treatment of transfers that a peer requests.
    pub transfers: TransferPolicy,
    /// Limits.
    pub limits: PhoneLimits,
}

/// Treatment of incoming calls within [`PhoneLimits::calls_max`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingPolicy {
    /// They ring until the user decides.
    Ask,
    /// They are answered at once.
    Answer,
    /// They are refused with this status, 400 to 699.
    Reject(u16),
}

/// Treatment of transfers that a peer requests: REFER (RFC 3515), and INVITE with Replaces (RFC 3891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferPolicy {
    /// The user decides about a REFER; so it does about a call that replaces another.
    Ask,
    /// A REFER is rejected; a call that replaces another is treated like any call.
    Reject,
}

/// A STUN server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StunServer {
    /// IP address or host name.
    pub host: String,
    /// UDP port.
    pub port: u16,
}

/// Limits on what a peer or a user can make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhoneLimits {
    /// Calls at once, ringing ones included. An incoming call beyond it gets 486.
    pub calls_max: usize,
    /// Incoming calls that wait until the media of calls that have ended are closed. One beyond it gets 486.
    pub waiting_max: usize,
    /// Digits that are kept of a call, in each direction.
    pub digits_max: usize,
    /// Calls in the history.
    pub history_max: usize,
}

impl Default for PhoneLimits {
    fn default() -> Self {
        Self { calls_max: 8, waiting_max: 16, digits_max: 256, history_max: 100 }
    }
}

impl PhoneConfig {
    /// A configuration for this signalling, with the defaults of everything else.
    pub fn new(agent: ringway_agent::Config) -> Self {
        Self {
            agent,
            srtp: SrtpPolicy::default(),
            suites: Vec::new(),
            allows_downgrade: false,
            codecs: [Codec::Pcmu, Codec::Pcma].into(),
            stun: None,
            zrtp: None,
            session: SessionConfig::default(),
            incoming: IncomingPolicy::Ask,
            reject_status: 486,
            transfers: TransferPolicy::Reject,
            limits: PhoneLimits::default(),
        }
    }
}
