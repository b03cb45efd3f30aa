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

use super::{Class, Effect, Step, Timer, step};

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

/// Event of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A retransmission of the request was received.
    Request,
    /// The user sends a response.
    Respond(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
    /// The transport could not deliver the response.
    TransportError,
}

/// Next state and effects of an event; the first state is [`State::Trying`].
pub const fn on(state: State, event: Event, reliable: bool) -> Step<State> {
    match state {
        State::Trying => trying(event, reliable),
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn trying(event: Event, reliable: bool) -> Step<State> {
    match event {
        Event::Respond(class) => respond(class, reliable),
        // Nothing was sent yet, so nothing can have failed.
        Event::Request | Event::Timer(_) | Event::TransportError => step(State::Trying, &[]),
    }
}

const fn proceeding(event: Event, reliable: bool) -> Step<State> {
    match event {
        Event::Respond(class) => respond(class, reliable),
        Event::Request => step(State::Proceeding, &[Effect::Send]),
        Event::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
        Event::Timer(_) => step(State::Proceeding, &[]),
    }
}

const fn completed(event: Event) -> Step<State> {
    match event {
        Event::Request => step(State::Completed, &[Effect::Send]),
        Event::Timer(Timer::J) => step(State::Terminated, &[]),
        Event::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
        Event::Respond(_) | Event::Timer(_) => step(State::Completed, &[]),
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
