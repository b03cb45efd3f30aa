//! Session of a call: offer/answer for the signalling, and refusals of session descriptions.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ringway_sansio::{Entropy, Seed};
use ringway_sdp::{
    Codec, Direction, Downgrade, Limits, LocalMedia, MediaParams, OfferAnswer, Refused, SessionDescription,
};

/// Negotiation of one call.
pub(crate) struct Session(OfferAnswer);

/// Refusal of the peer's session description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotAcceptable {
    /// 400, 415, 488, 491 or 513.
    pub(crate) status: u16,
    /// Reason as text for the user.
    pub(crate) reason: String,
    /// Warning code of the response.
    pub(crate) warning: u16,
    /// With 415: the property of the body that is not supported.
    pub(crate) unsupported: Option<Unsupported>,
}

/// Property of a body that is not supported (RFC 3261 §21.4.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// Content-Type, or Content-Disposition.
    Type,
    /// Content-Encoding.
    Encoding,
}

impl Session {
    pub(crate) fn new(local: LocalMedia, secrets: &mut Entropy, visible: &mut Entropy) -> Self {
        let session_id = u64::from_be_bytes(visible.bytes());
        Self(OfferAnswer::new(local, "-", session_id, Entropy::new(&Seed::from_bytes(secrets.bytes()))))
    }

    /// Negotiation of one more dialog of the pending offer.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    pub(crate) fn offer(&mut self, direction: Direction) -> Vec<u8> {
        self.0.offer(direction)
    }

    /// The refused first offer again as RTP/SAVP, if that can succeed; see [`OfferAnswer::offer_as_savp`].
    pub(crate) fn offer_as_savp(&mut self) -> Option<Vec<u8>> {
        self.0.offer_as_savp(Direction::SendRecv)
    }

    pub(crate) fn accept_answer(&mut self, answer: &[u8]) -> Result<MediaParams, NotAcceptable> {
        self.0.accept_answer(answer).map_err(NotAcceptable::of)
    }

    pub(crate) fn answer(
        &mut self,
        offer: &[u8],
        wanted: Direction,
    ) -> Result<(Vec<u8>, MediaParams), NotAcceptable> {
        self.0.answer(offer, wanted).map_err(NotAcceptable::of)
    }

    pub(crate) fn offered_codecs(&self) -> Option<&[(u8, Codec)]> {
        self.0.offered_codecs()
    }

    pub(crate) fn abandon_offer(&mut self) {
        self.0.abandon_offer();
    }

    pub(crate) fn retract_offer(&mut self) {
        self.0.retract_offer();
    }

    pub(crate) const fn allow_unprotected(&mut self, allowed: bool) {
        self.0.set_downgrade(if allowed { Downgrade::Allowed } else { Downgrade::Refused });
    }
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Session(..)")
    }
}

impl NotAcceptable {
    fn of(refused: Refused) -> Self {
        let (status, warning) = (refused.status(), refused.warning());
        Self { status, reason: refused.to_string(), warning, unsupported: None }
    }

    /// Refusal of a message without the necessary description.
    pub(crate) fn missing(reason: &str) -> Self {
        Self::new(488, reason)
    }

    /// Refusal of a body over a limit.
    pub(crate) fn too_large(reason: &str) -> Self {
        Self::new(513, reason)
    }

    /// Refusal of a body that does not follow its grammar.
    pub(crate) fn malformed(reason: &str) -> Self {
        Self::new(400, reason)
    }

    /// Refusal of a body that is not understood.
    pub(crate) fn unsupported(what: Unsupported, reason: &str) -> Self {
        Self { unsupported: Some(what), ..Self::new(415, reason) }
    }

    fn new(status: u16, reason: &str) -> Self {
        Self { status, reason: reason.into(), warning: WARNING_MISCELLANEOUS, unsupported: None }
    }
}

/// Refuses a malformed offer before the program is notified.
pub(crate) fn check_offer(offer: &[u8]) -> Result<(), NotAcceptable> {
    let description = SessionDescription::parse(offer, &Limits::default());
    description.map(|_| ()).map_err(|malformed| NotAcceptable::of(Refused::from(malformed)))
}

pub(crate) const SDP: &str = "application/sdp";
const WARNING_MISCELLANEOUS: u16 = 399;
