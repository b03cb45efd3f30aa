//! The INVITE server transaction (RFC 3261 §17.2.1, figure 7, with RFC 6026 §7.1).
//!
//! ```text
//!                  | INVITE: pass
//!                  v
//!   INVITE: send  +------------+
//!   1xx: send  +--| Proceeding |
//!              +->|            |
//!                 +------------+
//!     300-699: send  |       \  2xx: send, L
//!     G, H           v        v
//!   INVITE: send  +-----------+   +----------+  2xx: send
//!   timer G: send | Completed |   | Accepted |  ACK: pass
//!                 +-----------+   +----------+  INVITE: absorbed
//!     timer H:     | ACK   |          |
//!     report       |  I    |          | timer L
//!                  v       |          |
//!             +-----------+|          |
//!             | Confirmed |+----+     |
//!             +-----------+     v     v
//!                  | timer I  Terminated
//!                  +------------^
//! ```
//!
//! A transport error changes no state (RFC 6026 §7.1): a retransmitted INVITE must still match its transaction, or it
//! would be a second call.

use super::{Class, Effect, ServerEvent, Step, Timer, step};

/// State, named as in the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No final response was sent.
    Proceeding,
    /// A failure was sent; its ACK is missing.
    Completed,
    /// The ACK was received; retransmissions of it are absorbed.
    Confirmed,
    /// A 2xx was sent; retransmissions of the INVITE are absorbed, further 2xx are sent.
    Accepted,
    /// The transaction is over.
    Terminated,
}

/// Next state and effects of an event; the first state is [`State::Proceeding`].
pub const fn on(state: State, event: ServerEvent, reliable: bool) -> Step<State> {
    match state {
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event, reliable),
        State::Confirmed => confirmed(event),
        State::Accepted => accepted(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn proceeding(event: ServerEvent, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (ServerEvent::Request | ServerEvent::Respond(Class::Provisional), _) => {
            step(State::Proceeding, &[Effect::Send])
        }
        (ServerEvent::Respond(Class::Success), _) => {
            step(State::Accepted, &[Effect::Send, Effect::Start(Timer::L)])
        }
        (ServerEvent::Respond(Class::Failure), true) => {
            step(State::Completed, &[Effect::Send, Effect::Start(Timer::H)])
        }
        (ServerEvent::Respond(Class::Failure), false) => {
            step(State::Completed, &[Effect::Send, Effect::Start(Timer::G), Effect::Start(Timer::H)])
        }
        (ServerEvent::Ack | ServerEvent::Timer(_), _) => step(State::Proceeding, &[]),
    }
}

const fn completed(event: ServerEvent, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (ServerEvent::Request, _) => step(State::Completed, &[Effect::Send]),
        // Timer I is zero seconds for reliable transports.
        (ServerEvent::Ack, true) => step(State::Terminated, &[]),
        (ServerEvent::Ack, false) => {
            step(State::Confirmed, &[Effect::StopRetransmitting, Effect::Start(Timer::I)])
        }
        (ServerEvent::Timer(Timer::G), _) => {
            step(State::Completed, &[Effect::Send, Effect::Repeat(Timer::G)])
        }
        (ServerEvent::Timer(Timer::H), _) => step(State::Terminated, &[Effect::ReportTimeout]),
        (ServerEvent::Respond(_) | ServerEvent::Timer(_), _) => step(State::Completed, &[]),
    }
}

const fn confirmed(event: ServerEvent) -> Step<State> {
    match event {
        ServerEvent::Timer(Timer::I) => step(State::Terminated, &[]),
        ServerEvent::Request | ServerEvent::Ack | ServerEvent::Respond(_) | ServerEvent::Timer(_) => {
            step(State::Confirmed, &[])
        }
    }
}

const fn accepted(event: ServerEvent) -> Step<State> {
    match event {
        ServerEvent::Respond(Class::Success) => step(State::Accepted, &[Effect::Send]),
        ServerEvent::Ack => step(State::Accepted, &[Effect::PassUp]),
        ServerEvent::Timer(Timer::L) => step(State::Terminated, &[]),
        ServerEvent::Request | ServerEvent::Respond(_) | ServerEvent::Timer(_) => step(State::Accepted, &[]),
    }
}
