//! Scenarios: the steps of an attempt.

use crate::length::Length;
use crate::template::{Keyword, Kind, Template};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Steps of an attempt, checked for sense.
///
/// A scenario that begins with [`Step::Send`] is a caller's, one that begins with [`Step::Receive`] a callee's.
#[derive(Clone, Debug)]
pub struct Scenario {
    steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a message.
    Send(Send),
    /// Waits for a message.
    Receive(Receive),
    /// Waits.
    Pause(Length),
}

/// Message that is sent.
#[derive(Clone, Debug)]
pub struct Send {
    /// Text of the message.
    pub template: Template,
}

/// Message that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Expected message.
    pub message: Received,
    /// True if the scenario goes on without it.
    pub is_optional: bool,
    /// True if it is a challenge that the next message answers. A request with `[authentication]` is sent again for a challenge
    /// that is not expected, so that a scenario needs this only to count the two requests as steps.
    pub is_challenge: bool,
}

/// Expected message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A response of this status to the last request.
    Response(u16),
    /// A request of this method.
    Request(Box<[u8]>),
}

/// Reason why steps are refused, with the number of the step, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioError {
    /// There is no step, or the first one is a pause or an optional message.
    Beginning,
    /// More than [`Scenario::STEPS_MAX`] steps.
    TooLong,
    /// A response is expected before a request was sent, or sent before one was received.
    NoRequest(usize),
    /// An optional message without a mandatory one behind it.
    Optional(usize),
}

impl core::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Beginning => f.write_str("a scenario begins with a request that is sent or received"),
            Self::TooLong => write!(f, "a scenario has at most {} steps", Scenario::STEPS_MAX),
            Self::NoRequest(step) => write!(f, "step {step}: a response without a request before it"),
            Self::Optional(step) => {
                write!(f, "step {step}: an optional message needs a mandatory one behind it")
            }
        }
    }
}

impl core::error::Error for ScenarioError {}

impl Scenario {
    /// Maximum number of steps.
    pub const STEPS_MAX: usize = 256;

    /// Checks steps.
    ///
    /// # Errors
    /// Steps that no attempt can go through.
    pub fn new(steps: Vec<Step>) -> Result<Self, ScenarioError> {
        if steps.len() > Self::STEPS_MAX {
            return Err(ScenarioError::TooLong);
        }
        let is_request = match steps.first() {
            Some(Step::Send(send)) => matches!(send.template.kind, Kind::Request(_)),
            Some(Step::Receive(receive)) => {
                matches!(receive.message, Received::Request(_)) && !receive.is_optional
            }
            Some(Step::Pause(_)) | None => false,
        };
        if !is_request {
            return Err(ScenarioError::Beginning);
        }
        let (mut has_sent, mut has_received) = (false, false);
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Send(send) => match send.template.kind {
                    Kind::Request(_) => has_sent = true,
                    Kind::Response(_) if !has_received => return Err(ScenarioError::NoRequest(index + 1)),
                    Kind::Response(_) => {}
                },
                Step::Receive(receive) => {
                    match receive.message {
                        Received::Request(_) => has_received = true,
                        Received::Response(_) if !has_sent => {
                            return Err(ScenarioError::NoRequest(index + 1));
                        }
                        Received::Response(_) => {}
                    }
                    if receive.is_optional && !matches!(steps.get(index + 1), Some(Step::Receive(_))) {
                        return Err(ScenarioError::Optional(index + 1));
                    }
                }
                Step::Pause(_) => {}
            }
        }
        Ok(Self { steps })
    }

    /// Steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// True if the scenario begins with a request that is sent.
    pub fn is_caller(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Send(_)))
    }

    /// True if a keyword of a sent message fulfils `test`.
    pub(crate) fn has(&self, test: impl Fn(&Keyword) -> bool) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Send(send) => send.template.has(&test),
            Step::Receive(_) | Step::Pause(_) => false,
        })
    }

    /// Method of the request that begins an attempt of a callee.
    pub(crate) fn first_received(&self) -> Option<&[u8]> {
        match self.steps.first() {
            Some(Step::Receive(Receive { message: Received::Request(method), .. })) => Some(method),
            Some(Step::Receive(_) | Step::Send(_) | Step::Pause(_)) | None => None,
        }
    }

    /// True if a message that is sent before the next mandatory received one needs the message received at `step`.
    pub(crate) fn needs_last(&self, step: usize) -> bool {
        self.steps
            .iter()
            .skip(step)
            .take_while(|step| !matches!(step, Step::Receive(receive) if !receive.is_optional))
            .any(|step| match step {
                Step::Send(send) => send.template.has(|word| matches!(word, Keyword::Last(_))),
                Step::Receive(_) | Step::Pause(_) => false,
            })
    }

    /// True if a message from `step` on has keywords of the dialog.
    pub(crate) fn needs_dialog(&self, step: usize) -> bool {
        self.steps.iter().skip(step).any(|step| match step {
            Step::Send(send) => send
                .template
                .has(|word| matches!(word, Keyword::PeerTag | Keyword::Routes | Keyword::NextUrl)),
            Step::Receive(_) | Step::Pause(_) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::time::Duration;

    fn send(text: &str) -> Step {
        Step::Send(Send { template: Template::parse(text).unwrap() })
    }

    fn receive(message: Received, is_optional: bool) -> Step {
        Step::Receive(Receive { message, is_optional, is_challenge: false })
    }

    #[test]
    fn senseless_steps_are_refused() {
        let request = || send("OPTIONS sip:x SIP/2.0\nVia: v;branch=[branch]\n");
        let response = || send("SIP/2.0 200 OK\n[last_Via:]\n");
        let pause = || Step::Pause(Length::Fixed(Duration::ZERO));
        let ok = |is_optional| receive(Received::Response(200), is_optional);
        let asked = || receive(Received::Request(b"OPTIONS".as_slice().into()), false);
        let error = |steps| Scenario::new(steps).unwrap_err();
        assert_eq!(error(vec![]), ScenarioError::Beginning);
        assert_eq!(error(vec![pause()]), ScenarioError::Beginning);
        assert_eq!(error(vec![ok(false)]), ScenarioError::Beginning);
        assert_eq!(error(vec![response()]), ScenarioError::Beginning);
        assert_eq!(error(vec![asked(), ok(false)]), ScenarioError::NoRequest(2));
        assert_eq!(error(vec![request(), response()]), ScenarioError::NoRequest(2));
        assert_eq!(error(vec![request(), ok(true)]), ScenarioError::Optional(2));
        assert_eq!(error(vec![pause(); 257]), ScenarioError::TooLong);
        assert!(Scenario::new(vec![request(), ok(true), ok(false)]).unwrap().is_caller());
        let callee = Scenario::new(vec![asked(), pause(), response()]).unwrap();
        assert_eq!((callee.first_received(), callee.is_caller()), (Some(&b"OPTIONS"[..]), false));
        assert!(callee.needs_last(1) && !callee.needs_dialog(1));
    }
}
