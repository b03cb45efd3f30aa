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

use super::{Class, ClientEvent, Effect, Step, Timer, step};

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

/// First step. Over a reliable transport timer E does not run.
pub const fn start(reliable: bool) -> Step<State> {
    if reliable {
        step(State::Trying, &[Effect::Send, Effect::Start(Timer::F)])
    } else {
        step(State::Trying, &[Effect::Send, Effect::Start(Timer::E), Effect::Start(Timer::F)])
    }
}

/// Next state and effects of an event.
pub const fn on(state: State, event: ClientEvent, reliable: bool) -> Step<State> {
    match state {
        State::Trying => waiting(State::Trying, event, reliable),
        State::Proceeding => waiting(State::Proceeding, event, reliable),
        State::Completed => completed(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn waiting(state: State, event: ClientEvent, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (ClientEvent::Response(Class::Provisional), _) => step(State::Proceeding, &[Effect::PassUp]),
        // Timer K is zero seconds for reliable transports.
        (ClientEvent::Response(_), true) => step(State::Terminated, &[Effect::PassUp]),
        (ClientEvent::Response(_), false) => step(State::Completed, FINAL),
        (ClientEvent::Timer(Timer::E), _) => step(state, &[Effect::Send, Effect::Repeat(Timer::E)]),
        (ClientEvent::Timer(Timer::F), _) => step(State::Terminated, &[Effect::ReportTimeout]),
        (ClientEvent::TransportError, _) => step(State::Terminated, &[Effect::ReportTransportError]),
        (ClientEvent::Timer(_), _) => step(state, &[]),
    }
}

const fn completed(event: ClientEvent) -> Step<State> {
    match event {
        ClientEvent::Timer(Timer::K) => step(State::Terminated, &[]),
        ClientEvent::Response(_) | ClientEvent::Timer(_) | ClientEvent::TransportError => {
            step(State::Completed, &[])
        }
    }
}

const FINAL: &[Effect] = &[Effect::StopRetransmitting, Effect::Start(Timer::K), Effect::PassUp];
