//! Answers: ours to the peer's offers (RFC 3264 §6), and handling of the peer's to ours (RFC 3264 §7).

use crate::formats::Formats;
use crate::offer::crypto_attribute;
use crate::offer_answer::PendingOffer;
use crate::protect::{ChosenProtection, choose, zrtp_attribute};
use crate::sdes::CryptoLine;
use crate::{
    Attribute, Direction, IceCredentials, MediaDescription, MediaParams, Mismatch, OfferAnswer, Profile,
    Protection, Refused, SessionDescription, dtls, ice,
};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Result of an offered section, if it were used.
struct Candidate {
    slot: usize,
    profile: Profile,
    formats: Formats,
    /// `None` for an address that nothing can be sent to.
    remote: Option<Remote>,
    chosen: ChosenProtection,
}

/// Addresses at which the peer receives a section's packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) rtp: SocketAddr,
    pub(crate) rtcp: SocketAddr,
}

impl Remote {
    /// For a peer whose description has only candidates of ICE.
    const NONE: Self = {
        let none = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Self { rtp: none, rtcp: none }
    };
}

impl OfferAnswer {
    /// Answers an offer; `wanted` is the direction on our side, if the peer allows it. Of several audio
    /// sections, the first acceptable one is used, with protected ones before others; all other sections are
    /// rejected with port 0.
    ///
    /// A later offer that disables the audio gets a disabled section in the answer; the agreement is kept,
    /// inactive and with port 0.
    ///
    /// # Errors
    /// The reason why the offer is not accepted; [`Refused::status`] gives the SIP status code.
    pub fn answer(&mut self, offer: &[u8], wanted: Direction) -> Result<(Vec<u8>, MediaParams), Refused> {
        if self.is_offer_pending() {
            return Err(Refused::OfferPending);
        }
        let offer = SessionDescription::parse(offer, &self.limits)?;
        let candidate = match (self.candidate(&offer), self.agreed()) {
            (Ok(candidate), _) => candidate,
            (Err(Refused::NoAudio), Some(agreed)) if has_disabled_audio(&offer) => {
                let params = disabled(agreed);
                return Ok(self.answer_disabled(&offer, params));
            }
            (Err(refused), _) => return Err(refused),
        };
        let section = offer.media.get(candidate.slot).ok_or(Refused::NoAudio)?;
        let direction = offer.direction_of(section).reversed().and(wanted);
        let (protection, line) = self.own_protection(candidate.chosen)?;
        // The DTLS association of RTP serves RTCP too; no second one is made (RFC 5764 §4.1.1 permits both).
        let may_mux = self.local.rtcp_mux || matches!(protection, Protection::Dtls { .. });
        let rtcp_mux = may_mux && section.has_rtcp_mux() && candidate.formats.allow_rtcp_mux();
        let ptime_ms = ptime_ms(section, self.local.ptime_ms);
        let peer = usable_credentials(&offer, section, &protection, rtcp_mux);
        let remote = candidate.remote.or(peer.as_ref().map(|_| Remote::NONE)).ok_or(Refused::Address)?;
        // With ICE an unspecified address is no hold (RFC 8839 §4.3.1).
        let allowed = if peer.is_some() { Direction::SendRecv } else { allowed_towards(remote) };
        let direction = direction.and(allowed);
        let receive = candidate.formats.clone();
        let mut params =
            params(&candidate.formats, receive, remote, rtcp_mux, ptime_ms, direction, protection)?;
        let before = self.agreed.as_ref().and_then(|agreed| agreed.ice.as_ref());
        params.ice = peer.map(|peer| self.ice.answer(&mut self.entropy, before, peer));

        self.note_formats_of(section, &candidate.formats);
        self.sections = offer.media.iter().map(MediaDescription::disabled).collect();
        self.slot = candidate.slot;
        self.profile = candidate.profile;
        let mut own = self.own_section(&candidate.formats, ptime_ms, rtcp_mux);
        own.protocol.clone_from(&section.protocol);
        own.attributes.extend(line);
        match &params.protection {
            Protection::Zrtp { .. } => {
                own.attributes.extend(self.local.policy.hello_hash().map(zrtp_attribute));
            }
            Protection::Dtls { role, .. } => {
                let fingerprint = self.local.policy.fingerprint();
                own.attributes
                    .extend(fingerprint.into_iter().flat_map(|own| dtls::attributes(own, Some(*role))));
            }
            Protection::None | Protection::Sdes { .. } => {}
        }
        own.attributes.push(Attribute::flag(direction.name()));
        let of_session = params
            .ice
            .as_ref()
            .map(|params| ice::answer_attributes(params, self.local.rtp, &offer, section, &mut own));
        let mut description = self.description();
        description.attributes = of_session.unwrap_or_default();
        description.times.clone_from(&offer.times);
        if let Some(place) = description.media.get_mut(self.slot) {
            *place = own;
        }
        self.agree(&params);
        Ok((self.publish(description), params))
    }

    /// Selects the section to use: the one in use comes first, then protected ones.
    fn candidate(&self, offer: &SessionDescription) -> Result<Candidate, Refused> {
        let in_use = self.agreed().map(|_| self.slot);
        let slots = in_use.into_iter().chain((0..offer.media.len()).filter(|slot| Some(*slot) != in_use));
        let mut unprotected = None;
        let mut refused = None;
        for slot in slots {
            let Some(section) = offer.media.get(slot) else { continue };
            match self.consider(offer, section, slot) {
                Ok(Candidate { chosen: ChosenProtection::Nothing, .. }) if unprotected.is_some() => {}
                Ok(candidate @ Candidate { chosen: ChosenProtection::Nothing, .. }) => {
                    unprotected = Some(candidate)
                }
                Ok(candidate) => return Ok(candidate),
                Err(Refused::NoAudio) => {}
                Err(reason) => refused = refused.or(Some(reason)),
            }
        }
        unprotected.ok_or(refused.unwrap_or(Refused::NoAudio))
    }

    fn consider(
        &self,
        offer: &SessionDescription,
        section: &MediaDescription,
        slot: usize,
    ) -> Result<Candidate, Refused> {
        if section.medium != b"audio" || section.port == 0 {
            return Err(Refused::NoAudio);
        }
        let profile = section.profile().filter(|_| !section.has_several_ports()).ok_or(Refused::Transport)?;
        let chosen = choose(&self.local.policy, profile, offer, section, self.before())?;
        let formats = Formats::of(section).limited_to(&self.local.codecs, self.local.telephone_event);
        if formats.codecs.is_empty() {
            return Err(Refused::Codec);
        }
        let remote = remote(offer, section, self.local.rtp);
        if remote.is_none() && !matches!(chosen, ChosenProtection::Dtls { .. }) {
            return Err(Refused::Address);
        }
        Ok(Candidate { slot, profile, formats, remote, chosen })
    }

    /// Our half of the protection: our send key, and the line of the answer that carries it.
    fn own_protection(
        &mut self,
        chosen: ChosenProtection,
    ) -> Result<(Protection, Option<Attribute>), Refused> {
        let offered = match chosen {
            ChosenProtection::Nothing => return Ok((Protection::None, None)),
            ChosenProtection::Zrtp { peer_hello_hash } => {
                return Ok((Protection::Zrtp { peer_hello_hash }, None));
            }
            ChosenProtection::Dtls { role, fingerprints } => {
                return Ok((Protection::Dtls { role, fingerprints }, None));
            }
            ChosenProtection::Sdes(line) => line,
        };
        if self.is_ours(&offered.key) {
            return Err(Refused::Mismatch(Mismatch::KeyReused));
        }
        if let Some(Protection::Sdes { receive, .. }) = self.agreed().map(|agreed| &agreed.protection)
            && *receive != offered.key
        {
            self.forget_key_for(offered.suite);
        }
        let send = self.key_for(offered.suite);
        self.spelling = offered.suite_name.clone().map(|name| (offered.suite, name));
        let line = CryptoLine {
            suite_name: offered.suite_name,
            ..CryptoLine::new(offered.tag, offered.suite, send.clone())
        };
        let line = crypto_attribute(&line).ok_or(Refused::Crypto)?;
        Ok((Protection::Sdes { suite: offered.suite, send, receive: offered.key }, Some(line)))
    }

    fn answer_disabled(&mut self, offer: &SessionDescription, params: MediaParams) -> (Vec<u8>, MediaParams) {
        self.sections = offer.media.iter().map(MediaDescription::disabled).collect();
        self.slot = offer.media.iter().position(|section| section.medium == b"audio").unwrap_or_default();
        let mut description = self.description();
        description.times.clone_from(&offer.times);
        self.agree(&params);
        (self.publish(description), params)
    }
}

/// Parameters for the media session: sound is sent in the first of the formats `send`.
pub(crate) fn params(
    send: &Formats,
    receive: Formats,
    remote: Remote,
    rtcp_mux: bool,
    ptime_ms: u16,
    direction: Direction,
    protection: Protection,
) -> Result<MediaParams, Refused> {
    let (payload_type, codec) = *send.codecs.first().ok_or(Refused::Codec)?;
    Ok(MediaParams {
        remote: remote.rtp,
        remote_rtcp: if rtcp_mux { remote.rtp } else { remote.rtcp },
        rtcp_mux,
        codec,
        payload_type,
        receive: receive.codecs,
        telephone_event: send.telephone_event,
        receive_telephone_event: receive.telephone_event,
        ptime_ms,
        direction,
        protection,
        ice: None,
    })
}

/// The agreement with the stream disabled: nothing is sent or received, and the keys are kept.
pub(crate) fn disabled(agreed: &MediaParams) -> MediaParams {
    let mut params = agreed.clone();
    params.remote.set_port(0);
    params.remote_rtcp.set_port(0);
    params.direction = Direction::Inactive;
    params
}

/// Addresses at which a section's packets are received, if we can send there from `local`. An unspecified
/// address (hold) has no family.
pub(crate) fn remote(
    description: &SessionDescription,
    section: &MediaDescription,
    local: SocketAddr,
) -> Option<Remote> {
    let connection = match section.connections.as_slice() {
        [] => description.connection.as_ref()?,
        [one] => one,
        [_, _, ..] => return None,
    };
    let is_ours = |ip: &IpAddr| ip.is_unspecified() || ip.is_ipv4() == local.is_ipv4();
    let ip = connection.unicast().filter(is_ours)?;
    let rtp = SocketAddr::new(ip, section.port);
    // Behind RTP at port 65535 there is no port for RTCP, which is then not sent.
    let next = SocketAddr::new(ip, section.port.checked_add(1).unwrap_or(0));
    let rtcp = section
        .rtcp()
        .map_or(next, |rtcp| SocketAddr::new(rtcp.address.filter(is_ours).unwrap_or(ip), rtcp.port));
    Some(Remote { rtp, rtcp })
}

/// Credentials of a peer with which ICE is used: with DTLS, and RTP and RTCP as one component.
fn usable_credentials(
    description: &SessionDescription,
    section: &MediaDescription,
    protection: &Protection,
    rtcp_mux: bool,
) -> Option<IceCredentials> {
    let is_usable = rtcp_mux && matches!(protection, Protection::Dtls { .. });
    ice::credentials(description, section).filter(|_| is_usable)
}

/// Direction that the peer's address permits: nothing is sent to 0.0.0.0 (RFC 3264 §8.4).
fn allowed_towards(remote: Remote) -> Direction {
    Direction::from_parts(!remote.rtp.ip().is_unspecified(), true)
}

/// Packet length for the peer in milliseconds: a multiple of 10, at most its `maxptime`.
pub(crate) fn ptime_ms(section: &MediaDescription, otherwise_ms: u16) -> u16 {
    let wanted = section.ptime_ms().unwrap_or(otherwise_ms);
    let wanted = wanted.min(section.maxptime_ms().unwrap_or(PTIME_MS_MAX)).clamp(PTIME_MS_MIN, PTIME_MS_MAX);
    wanted - wanted % PTIME_MS_MIN
}

fn has_disabled_audio(offer: &SessionDescription) -> bool {
    offer.media.iter().any(|section| section.medium == b"audio" && section.port == 0)
}

const PTIME_MS_MIN: u16 = 10;
const PTIME_MS_MAX: u16 = 200;

impl OfferAnswer {
    /// Handles the answer to the pending offer, which is no longer pending afterwards. An answer that is not
    /// accepted leaves the earlier agreement in force.
    ///
    /// An answer to a later offer that disables the audio keeps the agreement, inactive and with port 0.
    ///
    /// # Errors
    /// The reason why the answer is not accepted.
    pub fn accept_answer(&mut self, answer: &[u8]) -> Result<MediaParams, Refused> {
        let pending = self.pending.take().ok_or(Refused::NoOffer)?;
        let answer = SessionDescription::parse(answer, &self.limits)?;
        if answer.media.len() != self.sections.len() {
            return Err(Refused::Mismatch(Mismatch::Sections));
        }
        if self.sections.iter().zip(&answer.media).any(|(ours, theirs)| ours.medium != theirs.medium) {
            return Err(Refused::Mismatch(Mismatch::Medium));
        }
        let section = answer.media.get(self.slot).ok_or(Refused::Mismatch(Mismatch::Sections))?;
        let params = match (section.port, self.agreed()) {
            (0, None) => return Err(Refused::Rejected),
            (0, Some(agreed)) => disabled(agreed),
            _ => self.params_of_answer(&pending, &answer, section)?,
        };
        if secures(&pending, section) {
            self.profile = Profile::Savp;
        }
        self.taken |= crate::formats::taken_by(section);
        self.agree(&params);
        Ok(params)
    }

    fn params_of_answer(
        &self,
        pending: &PendingOffer,
        answer: &SessionDescription,
        section: &MediaDescription,
    ) -> Result<MediaParams, Refused> {
        let is_offered = section.profile() == Some(pending.offered.profile);
        if !(is_offered || secures(pending, section)) || section.has_several_ports() {
            return Err(Refused::Mismatch(Mismatch::Profile));
        }
        let protection = pending.offered.answered_by(&self.local.policy, answer, section, self.before())?;
        if !is_offered && !matches!(protection, Protection::Sdes { .. }) {
            return Err(Refused::Mismatch(Mismatch::Profile));
        }
        // We send with the payload types of the answer and receive with those of our offer (RFC 3264 §5.1).
        let theirs = Formats::of(section).limited_to(&self.local.codecs, self.local.telephone_event);
        let mut receive = pending.formats.clone();
        receive.codecs.retain(|(_, codec)| theirs.codecs.iter().any(|(_, other)| other == codec));
        receive.telephone_event = receive.telephone_event.filter(|_| theirs.telephone_event.is_some());
        let offered_mux = self.local.rtcp_mux || pending.offered.is_dtls;
        let rtcp_mux = offered_mux && section.has_rtcp_mux() && theirs.allow_rtcp_mux();
        let ice = self.ice.answered(usable_credentials(answer, section, &protection, rtcp_mux));
        let remote = remote(answer, section, self.local.rtp).or(ice.as_ref().map(|_| Remote::NONE));
        let remote = remote.ok_or(Refused::Address)?;
        let allowed = if ice.is_some() { Direction::SendRecv } else { allowed_towards(remote) };
        let direction = answer.direction_of(section).reversed().and(pending.direction).and(allowed);
        let ptime_ms = ptime_ms(section, self.local.ptime_ms);
        let params = params(&theirs, receive, remote, rtcp_mux, ptime_ms, direction, protection)?;
        Ok(MediaParams { ice, ..params })
    }
}

/// True for an answer with RTP/SAVP to an offer of RTP/AVP with keys (RFC 8643): session border controllers write the profile of what they do.
fn secures(pending: &PendingOffer, section: &MediaDescription) -> bool {
    pending.offered.profile == Profile::Avp
        && !pending.offered.lines.is_empty()
        && section.port != 0
        && section.profile() == Some(Profile::Savp)
}
