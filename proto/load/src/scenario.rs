//! Scenarios: the steps of an attempt.

use crate::arrivals::Length;
use crate::script::{Script, ScriptAction};
use crate::template::{Keyword, Kind, Template};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sip::HeaderName;

/// Steps of an attempt, checked for sense.
///
/// A scenario that begins with [`Step::Send`] is a caller's, one that begins with [`Step::Receive`] a callee's.
#[derive(Clone, Debug)]
pub struct Scenario {
    steps: Vec<Step>,
    /// Script of each step; empty if no step has one.
    scripts: Vec<Script>,
    /// For each step the needs of the messages that are sent after it.
    needs: Vec<Needs>,
    /// A step plays a recording.
    plays: bool,
}

/// Parts of a received message that later messages need.
#[derive(Clone, Debug, Default)]
struct Needs {
    /// Header fields for `[last_NAME:]` before the next mandatory received message, and for the 487 to an INVITE.
    headers: Vec<LastHeader>,
    /// True if a later message has keywords of the dialog.
    dialog: bool,
}

/// Name of header fields that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastHeader {
    /// As it is written.
    pub(crate) name: Box<str>,
    /// Its number; `Other` for a name without one.
    pub(crate) known: HeaderName,
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
    /// Does nothing besides its script.
    Nop,
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
    /// A jump to a step that does not exist.
    Jump(usize),
    /// Steps that jump to each other, always, without a message received or a pause between them.
    Endless(usize),
    /// More than [`Scenario::VARIABLES_MAX`] variables, or more than [`Scenario::ACTIONS_MAX`] actions of a step.
    TooManyActions(usize),
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
            Self::Jump(step) => write!(f, "step {step}: a jump to a step that does not exist"),
            Self::Endless(step) => write!(
                f,
                "step {step}: an endless loop of jumps without a received message or a pause; add one, or a `test`"
            ),
            Self::TooManyActions(step) => write!(
                f,
                "step {step}: at most {} actions of a step and {} variables are possible",
                Scenario::ACTIONS_MAX,
                Scenario::VARIABLES_MAX
            ),
        }
    }
}

impl core::error::Error for ScenarioError {}

impl Scenario {
    /// Maximum number of steps.
    pub const STEPS_MAX: usize = 256;
    /// Maximum number of variables.
    pub const VARIABLES_MAX: u16 = 64;
    /// Maximum number of actions of a step.
    pub const ACTIONS_MAX: usize = 64;

    /// Checks steps.
    ///
    /// # Errors
    /// Steps that no attempt can go through.
    pub fn new(steps: Vec<Step>) -> Result<Self, ScenarioError> {
        if steps.len() > Self::STEPS_MAX {
            return Err(ScenarioError::TooLong);
        }
        let is_request = match first_message(&steps) {
            Some(Step::Send(send)) => matches!(send.template.kind, Kind::Request(_)),
            Some(Step::Receive(receive)) => {
                matches!(receive.message, Received::Request(_)) && !receive.is_optional
            }
            Some(Step::Pause(_) | Step::Nop) | None => false,
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
                Step::Pause(_) | Step::Nop => {}
            }
        }
        Ok(Self::with_needs(steps, Vec::new()))
    }

    /// Checks steps with a script each.
    ///
    /// # Errors
    /// As [`Scenario::new`], and scripts that no attempt can do.
    pub fn scripted(steps: Vec<Step>, scripts: Vec<Script>) -> Result<Self, ScenarioError> {
        let Self { steps, .. } = Self::new(steps)?;
        for (index, script) in scripts.iter().enumerate() {
            let is_known = script.next.is_none_or(|jump| jump.to <= steps.len());
            if index >= steps.len() || !is_known {
                return Err(ScenarioError::Jump(index + 1));
            }
            if script.actions.len() > Self::ACTIONS_MAX
                || script.variable_max().is_some_and(|index| index >= Self::VARIABLES_MAX)
            {
                return Err(ScenarioError::TooManyActions(index + 1));
            }
            if is_endless(&steps, &scripts, index) {
                return Err(ScenarioError::Endless(index + 1));
            }
        }
        Ok(Self::with_needs(steps, scripts))
    }

    fn with_needs(steps: Vec<Step>, scripts: Vec<Script>) -> Self {
        let has_jumps = scripts.iter().any(|script| script.next.is_some());
        let needs = (0..steps.len()).map(|step| needs_after(&steps, &scripts, step, has_jumps)).collect();
        let mut actions = scripts.iter().flat_map(|script| &script.actions);
        let plays = actions.any(|action| matches!(action, ScriptAction::Play(_)));
        Self { steps, scripts, needs, plays }
    }

    /// The scenario with the values of the keywords that `constant` has a value for.
    pub(crate) fn with_constants(&self, constant: &dyn Fn(&Keyword) -> Option<Vec<u8>>) -> Self {
        let step = |step: &Step| match step {
            Step::Send(send) => Step::Send(Send { template: send.template.with_constants(constant) }),
            Step::Receive(_) | Step::Pause(_) | Step::Nop => step.clone(),
        };
        let scripts = self.scripts.iter().map(|script| script.with_constants(constant));
        Self::with_needs(self.steps.iter().map(step).collect(), scripts.collect())
    }

    /// Steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// True if the scenario begins with a request that is sent.
    pub fn is_caller(&self) -> bool {
        matches!(first_message(&self.steps), Some(Step::Send(_)))
    }

    /// True if a step plays a recording: then the attempts send no streams of their own.
    pub const fn plays(&self) -> bool {
        self.plays
    }

    /// Script of a step.
    pub(crate) fn script(&self, step: usize) -> Option<&Script> {
        self.scripts.get(step)
    }

    /// True if the order of the steps depends on the attempt.
    pub(crate) fn has_jumps(&self) -> bool {
        self.scripts.iter().any(|script| script.next.is_some())
    }

    /// True if a keyword of a sent message fulfils `test`.
    pub(crate) fn has(&self, test: impl Fn(&Keyword) -> bool) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Send(send) => send.template.has(&test),
            Step::Receive(_) | Step::Pause(_) | Step::Nop => false,
        })
    }

    /// Method of the request that begins an attempt of a callee.
    pub(crate) fn first_received(&self) -> Option<&[u8]> {
        match first_message(&self.steps) {
            Some(Step::Receive(Receive { message: Received::Request(method), .. })) => Some(method),
            Some(Step::Receive(_) | Step::Send(_) | Step::Pause(_) | Step::Nop) | None => None,
        }
    }

    /// True if a message after the one received at `step` has keywords of the dialog.
    pub(crate) fn needs_dialog_after(&self, step: usize) -> bool {
        self.needs.get(step).is_some_and(|needs| needs.dialog)
    }

    /// Header fields kept from the message received at `step`.
    pub(crate) fn kept_after(&self, step: usize) -> &[LastHeader] {
        self.needs.get(step).map_or(&[], |needs| &needs.headers)
    }
}

/// First step that is not [`Step::Nop`].
fn first_message(steps: &[Step]) -> Option<&Step> {
    steps.iter().find(|step| !matches!(step, Step::Nop))
}

/// True if the steps from `start` on lead back to it, whatever an attempt receives and without a wait.
fn is_endless(steps: &[Step], scripts: &[Script], start: usize) -> bool {
    let mut at = start;
    for _ in 0..=steps.len() {
        match steps.get(at) {
            Some(Step::Send(_) | Step::Nop) => {}
            Some(Step::Receive(_) | Step::Pause(_)) | None => return false,
        }
        at = match scripts.get(at).and_then(|script| script.next) {
            Some(jump) if jump.test.is_some() || jump.random_ppm < crate::Jump::ALWAYS_PPM => return false,
            Some(jump) => jump.to,
            None => at + 1,
        };
        if at == start {
            return true;
        }
    }
    false
}

/// With jumps every step may follow every other one.
fn needs_after(steps: &[Step], scripts: &[Script], step: usize, has_jumps: bool) -> Needs {
    let mut needs = Needs::default();
    if let Some(Step::Receive(Receive { message: Received::Request(method), .. })) = steps.get(step)
        && **method == *b"INVITE"
    {
        REFUSAL_HEADERS.iter().for_each(|name| needs.add(name));
    }
    let mut is_before_next = true;
    let texts = |step: usize| scripts.get(step).into_iter().flat_map(Script::texts);
    for text in texts(step) {
        needs.dialog |= text.has(Keyword::is_of_dialog);
        text.last_names().for_each(|name| needs.add(name));
    }
    let first = if has_jumps { 0 } else { step + 1 };
    for (index, step) in steps.iter().enumerate().skip(first) {
        match step {
            Step::Send(send) => {
                needs.dialog |= send.template.uses.dialog;
                send.template.last_names().filter(|_| is_before_next).for_each(|name| needs.add(name));
            }
            Step::Receive(receive) => is_before_next &= receive.is_optional || has_jumps,
            Step::Pause(_) | Step::Nop => {}
        }
        for text in texts(index) {
            needs.dialog |= text.has(Keyword::is_of_dialog);
            text.last_names().filter(|_| is_before_next).for_each(|name| needs.add(name));
        }
    }
    needs
}

impl Needs {
    fn add(&mut self, name: &str) {
        if !self.headers.iter().any(|header| *header.name == *name) {
            let known = HeaderName::from_bytes(name.as_bytes());
            self.headers.push(LastHeader { name: name.into(), known });
        }
    }
}

/// Header fields of a response without a body (RFC 3261 §8.2.6.2).
pub(crate) const REFUSAL_HEADERS: [&str; 5] = ["Via", "From", "To", "Call-ID", "CSeq"];

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
        let kept: Vec<_> = callee.kept_after(0).iter().map(|header| (&*header.name, header.known)).collect();
        assert_eq!((kept, callee.needs_dialog_after(0)), (vec![("Via", HeaderName::Via)], false));
    }
}
