//! The negotiation of one call's audio (RFC 3264).
//!
//! ```text
//!              offer()             accept_answer(), abandon_offer(), retract_offer()
//!   Stable ───────────────► OfferPending ──────────────────────────────────► Stable
//!   Stable ── answer() ───► Stable
//! ```
//!
//! What was agreed stays until something else is agreed: a refused offer, ours or theirs, changes nothing.

use crate::formats::TELEPHONE_EVENT_TYPE;
use crate::protect::{OfferedProtection, PriorProtection};
use crate::write::address;
use crate::{
    Codec, Connection, CryptoSuite, Direction, Downgrade, Limits, MasterKey, MediaDescription, MediaParams,
    Origin, Profile, Protection, SecurityPolicy, SessionDescription,
};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Entropy, Flow, Seed};

/// Our side of a stream, as we offer it and answer with it.
#[derive(Clone, Debug)]
pub struct LocalMedia {
    /// Where we listen for RTP, as the peer must write it (behind a NAT, the address that STUN found).
    pub rtp: SocketAddr,
    /// The port we listen at for RTCP, at the same address.
    pub rtcp_port: u16,
    /// What we can send and hear, the one liked best first; at least one.
    pub codecs: Vec<Codec>,
    /// Milliseconds of sound we like in a packet: 10-200.
    pub ptime_ms: u16,
    /// Whether we send and take DTMF as telephone events (RFC 4733).
    pub telephone_event: bool,
    /// What must protect the stream, and what may.
    pub policy: SecurityPolicy,
    /// Whether RTCP may come to the port of RTP (RFC 5761).
    pub rtcp_mux: bool,
}

impl LocalMedia {
    /// Behind a NAT: our ports as STUN found them. Where RTCP's is not known, or at another address, the peer is told
    /// nothing of it and takes the next port (RFC 3550 §11), which is a guess, but nobody else's port.
    pub fn seen_as(&mut self, rtp: SocketAddr, rtcp: Option<SocketAddr>) {
        let rtcp = rtcp.filter(|rtcp| rtcp.ip() == rtp.ip());
        self.rtcp_port = rtcp.map_or(rtp.port().wrapping_add(1), |rtcp| rtcp.port());
        self.rtp = rtp;
    }
}

/// One call's negotiation: every offer and answer of the call, in order, ours and theirs.
///
/// Send keys stay the same from offer to offer, one for each suite, so that the SRTP contexts and their rollover
/// counters live on. A key that was in use and is no longer is never used again. As answerer we change our key when the
/// peer changes its own: a peer that begins anew does not know our rollover counter.
pub struct OfferAnswer {
    pub(crate) local: LocalMedia,
    pub(crate) entropy: Entropy,
    pub(crate) limits: Limits,
    pub(crate) downgrade: Downgrade,
    username: Vec<u8>,
    session_id: u64,
    pub(crate) version: u64,
    /// The last description we gave the peer; empty before the first.
    pub(crate) sent: Vec<u8>,
    /// Our send key for each suite that we have offered or answered with.
    keys: Vec<(CryptoSuite, MasterKey)>,
    /// All media sections of the session, in order, each as it is written when it is not used (RFC 3264 §8: sections
    /// are never removed).
    pub(crate) sections: Vec<MediaDescription>,
    /// Which of them is ours.
    pub(crate) slot: usize,
    /// The protocol of our section.
    pub(crate) profile: Profile,
    /// The payload type we last used for telephone events.
    pub(crate) telephone_event_type: u8,
    /// Dynamic payload types that stand for something else in this call, a bit each.
    pub(crate) taken: u128,
    pub(crate) pending: Option<PendingOffer>,
    /// The suite that was last taken from the peer under another name than ours, and that name.
    pub(crate) spelling: Option<(CryptoSuite, String)>,
    agreed: Option<MediaParams>,
}

/// An offer of ours that has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct PendingOffer {
    pub(crate) direction: Direction,
    pub(crate) formats: crate::formats::Formats,
    pub(crate) offered: OfferedProtection,
    /// The version before it, and the description that went with that.
    pub(crate) published: (u64, Vec<u8>),
}

impl OfferAnswer {
    /// A negotiation that has not begun. `username` goes into `o=` (`-` tells nothing); `session_id` should be unlike
    /// any other of ours, and is cut to 62 bits (RFC 3264 §5); `entropy` makes the keys.
    pub fn new(mut local: LocalMedia, username: &str, session_id: u64, entropy: Entropy) -> Self {
        local.rtp = Flow::canonical(local.rtp);
        let is_plain = !username.is_empty() && username.bytes().all(|byte| byte.is_ascii_graphic());
        let profile = match local.policy {
            SecurityPolicy::Sdes { .. } => Profile::Savp,
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
            agreed: None,
        }
    }

    /// A negotiation of its own for another answer to the offer that is pending: a forked call (RFC 3261 §12.1) has one
    /// for each dialog. The forks know the same send keys, as RFC 4568 §7.3 has it, until one of them renews its own.
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
            agreed: self.agreed.clone(),
        }
    }

    /// Says whether the user lets the call go on unprotected after it was protected.
    pub const fn set_downgrade(&mut self, downgrade: Downgrade) {
        self.downgrade = downgrade;
    }

    /// From the next offer or answer on, we listen elsewhere. New keys come with it: the peer cannot know whether who
    /// listens there has the old rollover counters (RFC 4568 §7.1.4).
    pub fn relocate(&mut self, rtp: SocketAddr, rtcp_port: u16) {
        self.local.rtp = Flow::canonical(rtp);
        self.local.rtcp_port = rtcp_port;
        self.renew_keys();
    }

    /// The next offer or answer has new send keys: for a key at the end of its life.
    pub fn renew_keys(&mut self) {
        self.keys.clear();
    }

    /// Our offer was refused (488, 491, …): what was agreed before stays (RFC 3264 §8).
    pub fn abandon_offer(&mut self) {
        self.pending = None;
    }

    /// Our offer never left: it is as if it had not been made, and the next description has its version (RFC 3264 §8).
    pub fn retract_offer(&mut self) {
        if let Some(pending) = self.pending.take() {
            (self.version, self.sent) = pending.published;
        }
    }

    /// What was agreed last.
    pub const fn agreed(&self) -> Option<&MediaParams> {
        self.agreed.as_ref()
    }

    /// True while our own offer waits for its answer.
    pub const fn is_offer_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn before(&self) -> PriorProtection {
        PriorProtection {
            is_agreed: self.agreed.is_some(),
            key_management: self.agreed.as_ref().and_then(MediaParams::key_management),
            downgrade: self.downgrade,
        }
    }

    /// Our send key for `suite`, made if there is none.
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

    /// Forgets the send key for `suite`, so that the next use makes another.
    pub(crate) fn forget_key_for(&mut self, suite: CryptoSuite) {
        self.keys.retain(|(of, _)| *of != suite);
    }

    /// True for a key that we send with or have offered.
    pub(crate) fn is_ours(&self, key: &MasterKey) -> bool {
        self.keys.iter().any(|(_, ours)| ours.key == key.key)
    }

    /// A description of ours with every section disabled.
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

    /// RFC 3264 §8: another version exactly when something else has changed.
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

    /// Both sides have spoken.
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
