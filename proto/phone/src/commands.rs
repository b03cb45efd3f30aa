//! Commands of the user or the program to a phone, and their execution.

use crate::call::Origin;
use crate::phone::{ACCOUNT, Phone};
use crate::{
    Action, Call, CallEnd, CallNumber, MediaCommand, Phase, PhoneEvent, Protection, SasStatus, Side,
};
use alloc::string::{String, ToString};
use ringway_agent::{CallError, CallId, UserAgent};
use ringway_sansio::Context;
use ringway_zrtp::SasCheck;

/// A command to a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneCommand {
    /// Call a SIP URI.
    Call {
        /// Request-URI.
        to: String,
    },
    /// Answer a ringing call.
    Answer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Refuse a ringing call with [`PhoneConfig::reject_status`](crate::PhoneConfig::reject_status).
    Reject {
        /// Number of the call.
        call: CallNumber,
    },
    /// End a call: CANCEL or BYE, and 603 for a ringing one.
    HangUp {
        /// Number of the call.
        call: CallNumber,
    },
    /// Put a call on hold.
    Hold {
        /// Number of the call.
        call: CallNumber,
    },
    /// End our hold of a call.
    Resume {
        /// Number of the call.
        call: CallNumber,
    },
    /// Send silence instead of the call's source.
    Mute {
        /// Number of the call.
        call: CallNumber,
    },
    /// End [`PhoneCommand::Mute`].
    Unmute {
        /// Number of the call.
        call: CallNumber,
    },
    /// Transfer the peer without asking the target first (RFC 3515).
    Transfer {
        /// Number of the call.
        call: CallNumber,
        /// URI of the target.
        to: String,
    },
    /// Accept the transfer that the peer requested: call the target.
    AcceptTransfer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Reject the transfer that the peer requested.
    RejectTransfer {
        /// Number of the call.
        call: CallNumber,
    },
    /// Send a digit (RFC 4733).
    Dtmf {
        /// In which call.
        call: CallNumber,
        /// The digit.
        digit: Digit,
    },
    /// The users compared the SAS, and it is equal (RFC 6189 §7.1).
    MarkSasVerified {
        /// Of which call.
        call: CallNumber,
    },
    /// The users compared the SAS, and it differs: somebody is between the phones.
    MarkSasDifferent {
        /// Of which call.
        call: CallNumber,
    },
    /// End all calls and the registration; nothing new is begun or accepted.
    Quit,
}

/// A digit of the telephone: 0-9, *, #, A-D (RFC 4733 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit(char);

impl Digit {
    /// The digit with this character; `None`: there is none.
    pub fn new(face: char) -> Option<Self> {
        matches!(face, '0'..='9' | '*' | '#' | 'A'..='D').then_some(Self(face))
    }

    /// Its character.
    pub const fn face(self) -> char {
        self.0
    }
}

impl Phone {
    /// Carries out a command. A command for a call that is over does nothing: the peer may have ended it meanwhile.
    pub fn command(&mut self, cx: &mut Context<'_, Action>, command: PhoneCommand) {
        match command {
            PhoneCommand::Call { to } => self.start_call(cx, Origin::Command, to),
            PhoneCommand::Answer { call } => self.answer(cx, call),
            PhoneCommand::Reject { call } => self.reject(cx, call, self.config.reject_status),
            PhoneCommand::HangUp { call } => self.hang_up(cx, call),
            PhoneCommand::Hold { call } => self.hold(cx, call, true),
            PhoneCommand::Resume { call } => self.hold(cx, call, false),
            PhoneCommand::Mute { call } => self.media(cx, call, MediaCommand::Mute),
            PhoneCommand::Unmute { call } => self.media(cx, call, MediaCommand::Unmute),
            PhoneCommand::Transfer { call, to } => {
                self.signal(cx, call, |agent, cx, id| agent.transfer(cx, id, &to));
            }
            PhoneCommand::AcceptTransfer { call } => self.accept_transfer(cx, call),
            PhoneCommand::RejectTransfer { call } => {
                self.signal(cx, call, |agent, cx, id| agent.reject_transfer(cx, id));
            }
            PhoneCommand::Dtmf { call, digit } => self.send_digit(cx, call, digit),
            PhoneCommand::MarkSasVerified { call } => self.mark_sas(cx, call, SasCheck::Matches),
            PhoneCommand::MarkSasDifferent { call } => self.mark_sas(cx, call, SasCheck::Differs),
            PhoneCommand::Quit => self.with_agent(cx, UserAgent::shut_down),
        }
        self.settle(cx);
    }

    /// Sends OPTIONS to a URI; the result is [`PhoneEvent::OptionsAnswered`].
    pub fn query_options(&mut self, cx: &mut Context<'_, Action>, to: &str) -> Result<(), CallError> {
        let sent = self.with_agent(cx, |agent, cx| agent.query(cx, ACCOUNT, to));
        self.settle(cx);
        sent.map(|_| ())
    }

    fn start_call(&mut self, cx: &mut Context<'_, Action>, origin: Origin, to: String) {
        if self.calls.len() >= self.config.limits.calls_max {
            return cx.emit(PhoneEvent::Refused { what: CallError::TooManyCalls.to_string() });
        }
        let number = self.new_number();
        self.calls.push(Call::new(number, origin, String::new(), to.clone()));
        cx.emit(PhoneEvent::Calling { call: number, to });
        self.open_media(cx, number);
    }

    pub(crate) fn answer(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let Some(call) = self.call_mut(number).filter(|call| call.phase == Phase::RingsHere) else { return };
        call.phase = Phase::Opening;
        self.open_media(cx, number);
    }

    /// Refuses an incoming call.
    pub(crate) fn reject(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, status: u16) {
        self.close_media(cx, number);
        if let Some(call) = self.call_mut(number) {
            call.phase = Phase::Ending;
        }
        self.signal(cx, number, |agent, cx, id| agent.reject(cx, id, status));
    }

    /// Ends a call: its media at once, for the peer may take its time to respond.
    pub(crate) fn hang_up(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        self.close_media(cx, number);
        let Some(call) = self.call_mut(number) else { return };
        call.phase = Phase::Ending;
        if call.id.is_none() {
            let end = CallEnd { by: Side::Us, status: REQUEST_TERMINATED, reason: "given up".into() };
            return self.end_call(cx, number, end);
        }
        self.signal(cx, number, |agent, cx, id| agent.hang_up(cx, id));
    }

    fn hold(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, is_wanted: bool) {
        let Some(call) = self.call_mut(number) else { return };
        if !matches!(call.phase, Phase::Talking(_)) {
            return;
        }
        call.wants_hold = is_wanted;
        if is_wanted {
            // The user does not want to be heard from now on, whatever the peer makes of the offer.
            self.media(cx, number, MediaCommand::Hold);
        }
        self.signal(cx, number, |agent, cx, id| match is_wanted {
            true => agent.hold(cx, id),
            false => agent.resume(cx, id),
        });
    }

    fn accept_transfer(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let Some(call) = self.call_mut(number) else { return };
        if let (Some(id), Some(to)) = (call.id, call.transfer_target.take()) {
            self.start_call(cx, Origin::Transfer(id), to);
        }
    }

    fn send_digit(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, digit: Digit) {
        let digits_max = self.config.limits.digits_max;
        let Some(call) = self.call_mut(number) else { return };
        call.digits_sent.push(digit.face());
        if call.digits_sent.len() > digits_max {
            call.digits_sent.remove(0);
            self.counters.digits_dropped += 1;
        }
        self.media(cx, number, MediaCommand::Digit(digit.face()));
    }

    /// Records the last comparison, also after the opposite one. The media session reports nothing about it.
    fn mark_sas(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, check: SasCheck) {
        let Some(call) = self.call_mut(number) else { return };
        let Protection::Zrtp { status, .. } = &mut call.protection else { return };
        *status = match check {
            SasCheck::Matches => SasStatus::Compared,
            SasCheck::Differs => SasStatus::Different,
        };
        cx.emit(PhoneEvent::Secured { call: number, protection: call.protection.clone() });
        self.media(cx, number, MediaCommand::Compared(check));
    }

    /// Gives a command to the media of a call.
    pub(crate) fn media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, command: MediaCommand) {
        if self.call(number).is_some_and(Call::has_media) {
            cx.emit(Action::Media { call: number, command });
        }
    }

    /// Gives a command for a call to the user agent. A call that is over there needs it no more.
    pub(crate) fn signal(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, ringway_agent::Action>, CallId) -> Result<(), CallError>,
    ) {
        let Some(id) = self.call(number).and_then(|call| call.id) else { return };
        match self.with_agent(cx, |agent, cx| f(agent, cx, id)) {
            Ok(()) | Err(CallError::NoCall) => {}
            Err(error) => cx.emit(PhoneEvent::Refused { what: error.to_string() }),
        }
    }
}

/// RFC 3261 §21.4.24, §21.4.25.
pub(crate) const BUSY_HERE: u16 = 486;
const REQUEST_TERMINATED: u16 = 487;
