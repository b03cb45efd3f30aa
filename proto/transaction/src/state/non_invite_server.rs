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

/// Named for what is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The user's first response.
    Trying,
    /// The user's final response.
    Proceeding,
    /// Nothing but retransmissions of the request.
    Completed,
    /// Nothing.
    Terminated,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request came again.
    Request,
    /// The user answers.
    Respond(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
    /// The transport could not deliver.
    TransportError,
}

/// The machine; it begins in [`State::Trying`].
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
