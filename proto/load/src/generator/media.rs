//! Start and end of the media of attempts.

use super::{Action, Generator};
use crate::MediaUse;
use crate::attempt::Attempt;
use crate::session::{MediaEvent, Session, State};
use ringway_sansio::Context;
use ringway_sip::Message;
use ringway_transaction::SlabKey;

impl Generator {
    /// Keeps the peer's description: the offer in an INVITE, or the answer in a 2xx.
    pub(super) fn note_session(attempt: &mut Attempt, media: MediaUse, message: &Message<'_>) {
        if media != MediaUse::None {
            attempt.session = Some(Session::read(message.body(), media).into());
        }
    }

    /// Starts the media of an attempt, if there is a description of the peer.
    pub(super) fn start_media(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, is_confirmed: bool) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        let own = attempt.own_media(&self.media_seed, self.run);
        if let Some(session) = attempt.session.as_mut().filter(|session| session.state == State::Described) {
            cx.emit(Action::Media(session.start(&own, self.config.media_use, is_confirmed)));
        }
    }

    /// Lets a callee send, whose answer has arrived.
    pub(super) fn confirm_media(cx: &mut Context<'_, Action>, attempt: &mut Attempt) {
        if let Some(session) = attempt.session.as_mut().filter(|session| session.state == State::Started) {
            session.state = State::Confirmed;
            cx.emit(Action::Media(MediaEvent::Confirmed(attempt.number)));
        }
    }

    /// Ends the media of an attempt.
    pub(super) fn end_media(cx: &mut Context<'_, Action>, attempt: &mut Attempt) {
        if let Some(session) = &mut attempt.session
            && matches!(session.state, State::Started | State::Confirmed)
        {
            session.state = State::Ended;
            cx.emit(Action::Media(MediaEvent::Ended(attempt.number)));
        }
    }
}
