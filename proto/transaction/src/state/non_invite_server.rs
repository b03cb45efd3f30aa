//! The non-INVITE server transaction (RFC 3261 §17.2.2, figure 8).
//!
//! ```text
//!                 | request: pass
//!                 v
//!              +--------+
//!              | Trying |  request: absorbed
//!              +--------+
//!     1xx: send  |    \  200-699: send, J
//!                v     \
//!   request:   +------------+
//!   send   +---| Proceeding |  1xx: send
//!          +-->|            |
//!              +------------+
//!                   | 200-699: send, J
//!                   v
//!   request:   +-----------+  timer J
//!   send   +---| Completed |---------> Terminated
//!          +-->|           |
//!              +-----------+
//! ```

use super::{Class, Effect, ServerEvent, Step, Timer, step};

/// State, named as in the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No response was sent.
    Trying,
    /// A provisional response was sent.
    Proceeding,
    /// A final response was sent; retransmissions of the request get it again.
    Completed,
    /// The transaction is over.
    Terminated,
}

/// Next state and effects of an event; the first state is [`State::Trying`].
pub const fn on(state: State, event: ServerEvent, reliable: bool) -> Step<State> {
    match state {
        State::Trying => trying(event, reliable),
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn trying(event: ServerEvent, reliable: bool) -> Step<State> {
    match event {
        ServerEvent::Respond(class) => respond(class, reliable),
        // Nothing was sent yet, so nothing can have failed.
        ServerEvent::Request | ServerEvent::Timer(_) | ServerEvent::Ack => step(State::Trying, &[]),
    }
}

const fn proceeding(event: ServerEvent, reliable: bool) -> Step<State> {
    match event {
        ServerEvent::Respond(class) => respond(class, reliable),
        ServerEvent::Request => step(State::Proceeding, &[Effect::Send]),
        ServerEvent::Ack | ServerEvent::Timer(_) => step(State::Proceeding, &[]),
    }
}

const fn completed(event: ServerEvent) -> Step<State> {
    match event {
        ServerEvent::Request => step(State::Completed, &[Effect::Send]),
        ServerEvent::Timer(Timer::J) => step(State::Terminated, &[]),
        ServerEvent::Ack | ServerEvent::Respond(_) | ServerEvent::Timer(_) => step(State::Completed, &[]),
    }
}

const fn respond(class: Class, reliable: bool) -> Step<State> {
    match (class, reliable) {
        (Class::Provisional, _) => step(State::Proceeding, &[Effect::Send]),
        // Timer J is zero seconds for reliable transports.
        (Class::Success | Class::Failure, true) => step(State::Terminated, &[Effect::Send]),
        (Class::Success | Class::Failure, false) => {
            step(State::Completed, &[Effect::Send, Effect::Start(Timer::J)])
        }
    }
}
