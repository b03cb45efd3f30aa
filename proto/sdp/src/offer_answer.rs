//! Offer/answer negotiation of the audio of one call (RFC 3264).
//!
//! ```text
//!              offer()             accept_answer(), abandon_offer(), retract_offer()
//!   Stable ───────────────► OfferPending ──────────────────────────────────► Stable
//!   Stable ── answer() ───► Stable
//! ```
//!
//! An agreement stays in force until the next one: an offer that is rejected, ours or the peer's, changes
//! nothing.

use crate::description::address;
use crate::formats::TELEPHONE_EVENT_TYPE;
use crate::ice::LocalIce;
use crate::protect::{OfferedProtection, PriorProtection};
use crate::{
    Codec, Connection, CryptoSuite, Direction, Downgrade, Limits, MasterKey, MediaDescription, MediaParams,
    Origin, Profile, Protection, SecurityPolicy, SessionDescription,
};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Entropy, Flow, Seed};

/// Our side of a stream, for offers and answers.
#[derive(Clone, Debug)]
pub struct LocalMedia {
    /// Our RTP address as the peer must use it (behind a NAT, the address that STUN found).
    pub rtp: SocketAddr,
    /// Our RTCP port, at the same address.
    pub rtcp_port: u16,
    /// Supported codecs in order of preference; at least one.
    pub codecs: Vec<Codec>,
    /// Preferred packet length in milliseconds: 10 to 200.
    pub ptime_ms: u16,
    /// Support for DTMF as telephone events (RFC 4733).
    pub telephone_event: bool,
    /// Required and permitted protection.
    pub policy: SecurityPolicy,
    /// Support for RTP and RTCP on one port (RFC 5761).
    pub rtcp_mux: bool,
}

impl LocalMedia {
    /// Sets the addresses that STUN found behind a NAT. If the RTCP mapping is unknown or has another
    /// address, `a=rtcp` is omitted and the peer uses the next port (RFC 3550 §11), which may not be mapped,
    /// but belongs to nobody else.
    pub fn seen_as(&mut self, rtp: SocketAddr, rtcp: Option<SocketAddr>) {
        let rtcp = rtcp.filter(|rtcp| rtcp.ip() == rtp.ip());
        self.rtcp_port = rtcp.map_or(rtp.port().wrapping_add(1), |rtcp| rtcp.port());
        self.rtp = rtp;
    }
}

/// Negotiation of one call: all offers and answers of both sides, in order.
///
/// Send keys stay the same from offer to offer, one for each suite, so that the SRTP contexts and their
/// rollover counters are kept. A key that is no longer in use is never used again. As answerer, our key
/// changes when the peer's key changes, because a peer that restarts does not have our rollover counter.
pub struct OfferAnswer {
    pub(crate) local: LocalMedia,
    pub(crate) entropy: Entropy,
    pub(crate) limits: Limits,
    pub(crate) downgrade: Downgrade,
    username: Vec<u8>,
    session_id: u64,
    pub(crate) version: u64,
    /// Last description sent to the peer; empty before the first.
    pub(crate) sent: Vec<u8>,
    /// Our send key for each suite that was offered or answered.
    keys: Vec<(CryptoSuite, MasterKey)>,
    /// All media sections of the session in their order, each as it is written when it is not used (RFC 3264
    /// §8: sections are never removed).
    pub(crate) sections: Vec<MediaDescription>,
    /// Index of our section.
    pub(crate) slot: usize,
    /// Protocol of our section.
    pub(crate) profile: Profile,
    /// Payload type last used for telephone events.
    pub(crate) telephone_event_type: u8,
    /// Dynamic payload types that are reserved in this call, one bit each.
    pub(crate) taken: u128,
    pub(crate) pending: Option<PendingOffer>,
    /// Suite last accepted under another name than ours, and that name.
    pub(crate) spelling: Option<(CryptoSuite, String)>,
    pub(crate) ice: LocalIce,
    pub(crate) agreed: Option<MediaParams>,
}

/// Our offer that has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingOffer {
    pub(crate) direction: Direction,
    pub(crate) formats: crate::formats::Formats,
    pub(crate) offered: OfferedProtection,
    /// Version and description before the offer.
    pub(crate) published: (u64, Vec<u8>),
}

impl OfferAnswer {
    /// Creates a negotiation. `username` goes into `o=` (`-` for none); `session_id` should be unique among
    /// our calls and is truncated to 62 bits (RFC 3264 §5); `entropy` generates the keys.
    pub fn new(mut local: LocalMedia, username: &str, session_id: u64, entropy: Entropy) -> Self {
        local.rtp = Flow::canonical(local.rtp);
        let is_plain = !username.is_empty() && username.bytes().all(|byte| byte.is_ascii_graphic());
        let profile = match local.policy {
            SecurityPolicy::Sdes { .. } => Profile::Savp,
            SecurityPolicy::Dtls { .. } => Profile::DtlsSavp,
            SecurityPolicy::Opportunistic { .. } | SecurityPolicy::None | SecurityPolicy::Zrtp { .. } => {
                Profile::Avp
            }
        };
        Self {
            local,
            entropy,
            limits: Limits::default(),
            downgrade: Downgrade::Refused,
            username: if is_plain { username.into() } else { b"-".to_vec() },
            session_id: session_id & SESSION_ID_MASK,
            version: 1,
            sent: Vec::new(),
            keys: Vec::new(),
            sections: Vec::new(),
            slot: 0,
            profile,
            telephone_event_type: TELEPHONE_EVENT_TYPE,
            taken: 0,
            pending: None,
            spelling: None,
            ice: LocalIce::default(),
            agreed: None,
        }
    }

    /// Creates the negotiation for a further answer to the pending offer: a forked call (RFC 3261 §12.1) has
    /// one for each dialog. The forks share the send keys (RFC 4568 §7.3) until one of them renews its own.
    pub fn fork(&mut self) -> Self {
        Self {
            local: self.local.clone(),
            entropy: Entropy::new(&Seed::from_bytes(self.entropy.bytes())),
            limits: self.limits.clone(),
            downgrade: self.downgrade,
            username: self.username.clone(),
            session_id: self.session_id,
            version: self.version,
            sent: self.sent.clone(),
            keys: self.keys.clone(),
            sections: self.sections.clone(),
            slot: self.slot,
            profile: self.profile,
            telephone_event_type: self.telephone_event_type,
            taken: self.taken,
            pending: self.pending.clone(),
            spelling: self.spelling.clone(),
            ice: self.ice.clone(),
            agreed: self.agreed.clone(),
        }
    }

    /// Sets whether the user permits continuing without protection.
    pub const fn set_downgrade(&mut self, downgrade: Downgrade) {
        self.downgrade = downgrade;
    }

    /// Renews the send keys in the next offer or answer, for a key at the end of its lifetime.
    pub fn renew_keys(&mut self) {
        self.keys.clear();
    }

    /// Reports that our offer was rejected (488, 491, …): the earlier agreement stays in force (RFC 3264 §8).
    pub fn abandon_offer(&mut self) {
        self.pending = None;
    }

    /// Reports that our offer was not sent: the next description has its version (RFC 3264 §8).
    pub fn retract_offer(&mut self) {
        if let Some(pending) = self.pending.take() {
            (self.version, self.sent) = pending.published;
        }
    }

    /// Current agreement.
    pub const fn agreed(&self) -> Option<&MediaParams> {
        self.agreed.as_ref()
    }

    /// Payload types and codecs of our pending offer: the peer may send them before its answer arrives (RFC 3264 §5.1).
    pub fn offered_codecs(&self) -> Option<&[(u8, Codec)]> {
        self.pending.as_ref().map(|pending| pending.formats.codecs.as_slice())
    }

    /// True while our offer is pending.
    pub const fn is_offer_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn before(&self) -> PriorProtection {
        PriorProtection {
            is_agreed: self.agreed.is_some(),
            key_management: self.agreed.as_ref().and_then(MediaParams::key_management),
            dtls_role: match self.agreed.as_ref().map(|agreed| &agreed.protection) {
                Some(Protection::Dtls { role, .. }) => Some(*role),
                Some(Protection::None | Protection::Sdes { .. } | Protection::Zrtp { .. }) | None => None,
            },
            downgrade: self.downgrade,
        }
    }

    /// Our send key for `suite`; generated if there is none.
    pub(crate) fn key_for(&mut self, suite: CryptoSuite) -> MasterKey {
        if let Some((_, key)) = self.keys.iter().find(|(of, _)| *of == suite) {
            return key.clone();
        }
        let mut bytes = alloc::vec![0; suite.key_bytes() + suite.salt_bytes()];
        self.entropy.fill(&mut bytes);
        let salt = bytes.split_off(suite.key_bytes());
        let key = MasterKey { key: bytes, salt, lifetime_packets: None, mki: Vec::new() };
        self.keys.push((suite, key.clone()));
        key
    }

    /// Removes the send key for `suite`, so that the next use generates another.
    pub(crate) fn forget_key_for(&mut self, suite: CryptoSuite) {
        self.keys.retain(|(of, _)| *of != suite);
    }

    /// True for a key that we use or have offered.
    pub(crate) fn is_ours(&self, key: &MasterKey) -> bool {
        self.keys.iter().any(|(_, ours)| ours.key == key.key)
    }

    /// A description of ours with all sections disabled.
    pub(crate) fn description(&self) -> SessionDescription {
        let origin = Origin {
            username: self.username.clone(),
            session_id: alloc::format!("{}", self.session_id).into_bytes(),
            version: alloc::format!("{}", self.version).into_bytes(),
            address: address(self.local.rtp.ip()),
        };
        let mut description = SessionDescription::empty(origin);
        description.connection = Some(Connection::Address(self.local.rtp.ip()));
        description.media.clone_from(&self.sections);
        description
    }

    /// Sets the version: it increases exactly if something else has changed (RFC 3264 §8).
    pub(crate) fn publish(&mut self, mut description: SessionDescription) -> Vec<u8> {
        let mut bytes = Vec::new();
        description.write_to(&mut bytes);
        if bytes != self.sent && !self.sent.is_empty() {
            self.version += 1;
            description.origin.version = alloc::format!("{}", self.version).into_bytes();
            bytes.clear();
            description.write_to(&mut bytes);
        }
        self.sent.clone_from(&bytes);
        bytes
    }

    /// Stores an agreement.
    pub(crate) fn agree(&mut self, params: &MediaParams) {
        let before = self.agreed.as_ref().map(|agreed| &agreed.protection);
        if let Some(Protection::Sdes { suite, send, .. }) = before {
            let goes_on = matches!(&params.protection, Protection::Sdes { send: now, .. } if now == send);
            let (suite, send) = (*suite, send.clone());
            if !goes_on {
                self.keys.retain(|(of, key)| *of != suite || *key != send);
            }
        }
        self.agreed = Some(params.clone());
        self.pending = None;
    }
}

impl core::fmt::Debug for OfferAnswer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = f.debug_struct("OfferAnswer");
        shown.field("version", &self.version).field("pending", &self.pending.is_some());
        shown.field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

const SESSION_ID_MASK: u64 = (1 << 62) - 1;

#[cfg(test)]
#[path = "offer_answer_tests.rs"]
pub(crate) mod tests;
