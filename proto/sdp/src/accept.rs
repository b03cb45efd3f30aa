//! Handling of the peer's answers to our offers (RFC 3264 §7).

use crate::answer::{Remote, allowed_towards, disabled, params, ptime_ms, remote, usable_credentials};
use crate::formats::Formats;
use crate::offer_answer::PendingOffer;
use crate::{
    Direction, MediaDescription, MediaParams, Mismatch, OfferAnswer, Profile, Protection, Refused,
    SessionDescription,
};

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
