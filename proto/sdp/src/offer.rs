//! Offers (RFC 3264 §5, §8), and the parts that our offers and answers have in common.

use crate::dtls;
use crate::formats::{Formats, taken_by, telephone_event_type};
use crate::offer_answer::PendingOffer;
use crate::protect::{OfferedProtection, zrtp_attribute};
use crate::sdes::CryptoLine;
use crate::{
    Attribute, Codec, CryptoSuite, Direction, Fingerprint, KeyManagement, MediaDescription, OfferAnswer,
    Profile, Protection, SecurityPolicy,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl OfferAnswer {
    /// Makes the first or a further offer of a call. It replaces an offer that is still pending.
    pub fn offer(&mut self, direction: Direction) -> Vec<u8> {
        let formats = self.own_formats();
        let fingerprint = self.offered_fingerprint();
        let is_dtls = fingerprint.is_some();
        let lines = if is_dtls { Vec::new() } else { self.own_lines() };
        let offered = OfferedProtection { lines, profile: self.profile, is_dtls };
        let rtcp_mux = self.local.rtcp_mux || is_dtls;
        let mut section = self.own_section(&formats, self.local.ptime_ms, rtcp_mux);
        section.attributes.extend(fingerprint.iter().flat_map(|own| dtls::attributes(own, None)));
        section.attributes.extend(offered.lines.iter().filter_map(crypto_attribute));
        // ZRTP starts in plain RTP (RFC 6189 §8).
        let hello_hash = self.local.policy.hello_hash().filter(|_| !self.profile.is_secure() && !is_dtls);
        section.attributes.extend(hello_hash.map(zrtp_attribute));
        section.attributes.push(Attribute::flag(direction.name()));
        let of_session = match fingerprint {
            Some(_) => self.ice.offer(&mut self.entropy, self.local.rtp, &mut section),
            None => Vec::new(),
        };
        let published = (self.version, self.sent.clone());
        self.pending = Some(PendingOffer { direction, formats, offered, published });

        let mut description = self.description();
        description.attributes = of_session;
        match description.media.get_mut(self.slot) {
            Some(place) => *place = section,
            None => {
                self.slot = description.media.len();
                self.sections.push(section.disabled());
                description.media.push(section);
            }
        }
        self.publish(description)
    }

    /// Makes the first offer again as RTP/SAVP, for a peer that requires SRTP and rejects RTP/AVP with keys
    /// (RFC 8643). Only an answer with a key is then accepted. Returns `None` if SRTP is not optional by
    /// policy, there is no suite to offer, an agreement exists, or this offer was made before.
    pub fn offer_as_savp(&mut self, direction: Direction) -> Option<Vec<u8>> {
        let has_optional_suites = match &self.local.policy {
            SecurityPolicy::Opportunistic { suites, .. } => !suites.is_empty(),
            SecurityPolicy::None
            | SecurityPolicy::Sdes { .. }
            | SecurityPolicy::Zrtp { .. }
            | SecurityPolicy::Dtls { .. } => false,
        };
        if !has_optional_suites || self.agreed().is_some() || self.profile.is_secure() {
            return None;
        }
        self.abandon_offer();
        self.profile = Profile::Savp;
        Some(self.offer(direction))
    }

    /// Our section with its first line, formats and ports.
    pub(crate) fn own_section(&self, formats: &Formats, ptime_ms: u16, rtcp_mux: bool) -> MediaDescription {
        let (port, profile) = (self.local.rtp.port(), self.profile.name().as_bytes());
        let mut section = MediaDescription::new(b"audio", port, profile, formats.list());
        formats.describe(&mut section.attributes);
        section.attributes.push(Attribute::with("ptime", format!("{ptime_ms}")));
        if self.local.rtcp_port != port.wrapping_add(1) {
            section.attributes.push(Attribute::with("rtcp", format!("{}", self.local.rtcp_port)));
        }
        if rtcp_mux {
            section.attributes.push(Attribute::flag("rtcp-mux"));
        }
        section
    }

    /// Records the meaning of the payload types in the peer's section, so that our next offer does not change
    /// it (RFC 3264 §8.3.2).
    pub(crate) fn note_formats_of(&mut self, section: &MediaDescription, formats: &Formats) {
        self.taken |= taken_by(section);
        if let Some(payload_type) = formats.telephone_event {
            self.telephone_event_type = payload_type;
        }
    }

    /// Our fingerprint, if the offer is for DTLS-SRTP: by policy, or because the call has it. The role is offered as
    /// `actpass` again; the peer keeps its own, or makes a new association (RFC 5763 §6.6).
    fn offered_fingerprint(&self) -> Option<Fingerprint> {
        let is_required = matches!(self.local.policy, SecurityPolicy::Dtls { .. });
        let is_in_use = self.before().key_management == Some(KeyManagement::Dtls);
        self.local.policy.fingerprint().filter(|_| is_required || is_in_use).cloned()
    }

    fn own_formats(&self) -> Formats {
        let codecs = &self.local.codecs;
        let codecs: Vec<(u8, Codec)> =
            codecs.iter().map(|codec| (codec.static_payload_type(), *codec)).collect();
        let events = telephone_event_type(self.telephone_event_type, self.taken);
        Formats { codecs, telephone_event: events.filter(|_| self.local.telephone_event) }
    }

    /// One key line for each suite, the suite in use first, so that a peer that chooses the first supported
    /// line keeps it.
    fn own_lines(&mut self) -> Vec<CryptoLine> {
        let in_use = match self.agreed().map(|agreed| &agreed.protection) {
            Some(Protection::Sdes { suite, .. }) => Some(*suite),
            Some(Protection::None | Protection::Zrtp { .. } | Protection::Dtls { .. }) | None => None,
        };
        let mut suites: Vec<CryptoSuite> = self.local.policy.suites().to_vec();
        suites.sort_by_key(|suite| Some(*suite) != in_use);
        let keys = suites.into_iter().map(|suite| (suite, self.key_for(suite)));
        let lines: Vec<CryptoLine> =
            (1..).zip(keys).map(|(tag, (suite, key))| CryptoLine::new(tag, suite, key)).collect();
        let spelling = |line: &CryptoLine| self.spelling.clone().filter(|(suite, _)| *suite == line.suite);
        lines
            .into_iter()
            .map(|line| match spelling(&line) {
                Some((_, name)) => CryptoLine { suite_name: Some(name), ..line },
                None => line,
            })
            .collect()
    }
}

/// A key line as an attribute; `None` for a key that does not match its suite, which cannot happen with our
/// keys.
pub(crate) fn crypto_attribute(line: &CryptoLine) -> Option<Attribute> {
    let mut value = String::new();
    line.write(&mut value).ok()?;
    Some(Attribute::with("crypto", value))
}
