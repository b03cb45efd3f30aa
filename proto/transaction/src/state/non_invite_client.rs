//! The non-INVITE client transaction (RFC 3261 §17.1.2, figure 6).
//!
//! ```text
//!                | request: send, E, F
//!                v
//!   timer E    +--------+  timer F or transport error: report
//!   send  +----| Trying |------------------------------+
//!         +--->|        |                              |
//!              +--------+                              |
//!     1xx: pass  |    \   200-699: pass, K             |
//!                v     \                               |
//!   timer E    +------------+  timer F: report         |
//!   send  +----| Proceeding |------------------------->|
//!         +--->|            |--+                       |
//!              +------------+  | 200-699: pass, K      |
//!                              v                       |
//!                        +-----------+  timer K        |
//!                        | Completed |---------> Terminated
//!                        +-----------+
//! ```

use super::{Class, Effect, Step, Timer, step};

/// State, named as in the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No response was received.
    Trying,
    /// A provisional response was received.
    Proceeding,
    /// A final response was received; retransmissions of it are absorbed.
    Completed,
    /// The transaction is over.
    Terminated,
}

/// Event of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A response was received.
    Response(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
    /// The transport could not deliver the request.
    TransportError,
}

/// First step. Over a reliable transport timer E does not run.
pub const fn start(reliable: bool) -> Step<State> {
    if reliable {
        step(State::Trying, &[Effect::Send, Effect::Start(Timer::F)])
    } else {
        step(State::Trying, &[Effect::Send, Effect::Start(Timer::E), Effect::Start(Timer::F)])
    }
}

/// Next state and effects of an event.
pub const fn on(state: State, event: Event, reliable: bool) -> Step<State> {
    match state {
        State::Trying => waiting(State::Trying, event, reliable),
        State::Proceeding => waiting(State::Proceeding, event, reliable),
        State::Completed => completed(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn waiting(state: State, event: Event, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (Event::Response(Class::Provisional), _) => step(State::Proceeding, &[Effect::PassUp]),
        // Timer K is zero seconds for reliable transports.
        (Event::Response(_), true) => step(State::Terminated, &[Effect::PassUp]),
        (Event::Response(_), false) => step(State::Completed, FINAL),
        (Event::Timer(Timer::E), _) => step(state, &[Effect::Send, Effect::Repeat(Timer::E)]),
        (Event::Timer(Timer::F), _) => step(State::Terminated, &[Effect::ReportTimeout]),
        (Event::TransportError, _) => step(State::Terminated, &[Effect::ReportTransportError]),
        (Event::Timer(_), _) => step(state, &[]),
    }
}

const fn completed(event: Event) -> Step<State> {
    match event {
        Event::Timer(Timer::K) => step(State::Terminated, &[]),
        Event::Response(_) | Event::Timer(_) | Event::TransportError => step(State::Completed, &[]),
    }
}

const FINAL: &[Effect] = &[Effect::StopRetransmitting, Effect::Start(Timer::K), Effect::PassUp];
