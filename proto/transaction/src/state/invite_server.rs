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
//! A transport error is reported and changes no state (RFC 6026 §7.1): a retransmitted INVITE must still match its
//! transaction, or it would be a second call.

use super::{Class, Effect, Step, Timer, step};

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

/// Event of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A retransmission of the INVITE was received.
    Request,
    /// An ACK of this transaction was received.
    Ack,
    /// The user sends a response.
    Respond(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
    /// The transport could not deliver the response.
    TransportError,
}

/// Next state and effects of an event; the first state is [`State::Proceeding`].
pub const fn on(state: State, event: Event, reliable: bool) -> Step<State> {
    match state {
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event, reliable),
        State::Confirmed => confirmed(event),
        State::Accepted => accepted(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn proceeding(event: Event, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (Event::Request | Event::Respond(Class::Provisional), _) => step(State::Proceeding, &[Effect::Send]),
        (Event::Respond(Class::Success), _) => {
            step(State::Accepted, &[Effect::Send, Effect::Start(Timer::L)])
        }
        (Event::Respond(Class::Failure), true) => {
            step(State::Completed, &[Effect::Send, Effect::Start(Timer::H)])
        }
        (Event::Respond(Class::Failure), false) => {
            step(State::Completed, &[Effect::Send, Effect::Start(Timer::G), Effect::Start(Timer::H)])
        }
        (Event::TransportError, _) => step(State::Proceeding, &[Effect::ReportTransportError]),
        (Event::Ack | Event::Timer(_), _) => step(State::Proceeding, &[]),
    }
}

const fn completed(event: Event, reliable: bool) -> Step<State> {
    match (event, reliable) {
        (Event::Request, _) => step(State::Completed, &[Effect::Send]),
        // Timer I is zero seconds for reliable transports.
        (Event::Ack, true) => step(State::Terminated, &[]),
        (Event::Ack, false) => step(State::Confirmed, &[Effect::StopRetransmitting, Effect::Start(Timer::I)]),
        (Event::Timer(Timer::G), _) => step(State::Completed, &[Effect::Send, Effect::Repeat(Timer::G)]),
        (Event::Timer(Timer::H), _) => step(State::Terminated, &[Effect::ReportTimeout]),
        (Event::TransportError, _) => step(State::Completed, &[Effect::ReportTransportError]),
        (Event::Respond(_) | Event::Timer(_), _) => step(State::Completed, &[]),
    }
}

const fn confirmed(event: Event) -> Step<State> {
    match event {
        Event::Timer(Timer::I) => step(State::Terminated, &[]),
        Event::Request | Event::Ack | Event::Respond(_) | Event::Timer(_) | Event::TransportError => {
            step(State::Confirmed, &[])
        }
    }
}

const fn accepted(event: Event) -> Step<State> {
    match event {
        Event::Respond(Class::Success) => step(State::Accepted, &[Effect::Send]),
        Event::Ack => step(State::Accepted, &[Effect::PassUp]),
        Event::Timer(Timer::L) => step(State::Terminated, &[]),
        Event::TransportError => step(State::Accepted, &[Effect::ReportTransportError]),
        Event::Request | Event::Respond(_) | Event::Timer(_) => step(State::Accepted, &[]),
    }
}
