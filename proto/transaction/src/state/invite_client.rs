//! The INVITE client transaction (RFC 3261 §17.1.1, figure 5, with RFC 6026 §7.2).
//!
//! ```text
//!                 | INVITE: send, A, B
//!                 v
//!   timer A     +---------+   timer B or transport error: report
//!   send   +----| Calling |----------------------------------+
//!          +--->|         |                                  |
//!               +---------+                                  |
//!     1xx   /      |  2xx  \    300-699                      |
//!     pass /       | pass,M \   ACK, pass, D                 |
//!         v        |         v                               |
//!   +------------+ |     +-----------+  300-699: ACK         |
//!   | Proceeding |-------| Completed |-----+                 |
//!   +------------+ |     +-----------+<----+                 |
//!     1xx: pass |  v           | timer D                     |
//!          2xx  +>+----------+ |                             |
//!          pass,M | Accepted | |                             |
//!                 +----------+ |                             |
//!      2xx: pass     | timer M v                             |
//!                    +--> Terminated <-----------------------+
//! ```

use super::{Class, ClientEvent, Effect, Step, Timer, step};

/// State, named as in the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No response was received.
    Calling,
    /// A provisional response was received.
    Proceeding,
    /// A failure was received; retransmissions of it are acknowledged.
    Completed,
    /// A 2xx was received; further 2xx are passed up.
    Accepted,
    /// The transaction is over.
    Terminated,
}

/// First step. Over a reliable transport timer A does not run.
pub const fn start(reliable: bool) -> Step<State> {
    if reliable {
        step(State::Calling, &[Effect::Send, Effect::Start(Timer::B)])
    } else {
        step(State::Calling, &[Effect::Send, Effect::Start(Timer::A), Effect::Start(Timer::B)])
    }
}

/// Next state and effects of an event.
pub const fn on(state: State, event: ClientEvent, reliable: bool) -> Step<State> {
    match state {
        State::Calling => calling(event, reliable),
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event),
        State::Accepted => accepted(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn calling(event: ClientEvent, reliable: bool) -> Step<State> {
    match event {
        ClientEvent::Response(Class::Provisional) => step(State::Proceeding, PROVISIONAL),
        ClientEvent::Response(class) => final_response(class, reliable),
        ClientEvent::Timer(Timer::A) => step(State::Calling, &[Effect::Send, Effect::Repeat(Timer::A)]),
        ClientEvent::Timer(Timer::B) => step(State::Terminated, &[Effect::ReportTimeout]),
        ClientEvent::Timer(_) => step(State::Calling, &[]),
        ClientEvent::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
    }
}

const fn proceeding(event: ClientEvent, reliable: bool) -> Step<State> {
    match event {
        ClientEvent::Response(Class::Provisional) => step(State::Proceeding, &[Effect::PassUp]),
        ClientEvent::Response(class) => final_response(class, reliable),
        ClientEvent::Timer(_) | ClientEvent::TransportError => step(State::Proceeding, &[]),
    }
}

const fn completed(event: ClientEvent) -> Step<State> {
    match event {
        ClientEvent::Response(Class::Failure) => step(State::Completed, &[Effect::SendAck]),
        ClientEvent::Timer(Timer::D) => step(State::Terminated, &[]),
        ClientEvent::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
        ClientEvent::Response(_) | ClientEvent::Timer(_) => step(State::Completed, &[]),
    }
}

const fn accepted(event: ClientEvent) -> Step<State> {
    match event {
        ClientEvent::Response(Class::Success) => step(State::Accepted, &[Effect::PassUp]),
        ClientEvent::Timer(Timer::M) => step(State::Terminated, &[]),
        ClientEvent::Response(_) | ClientEvent::Timer(_) | ClientEvent::TransportError => {
            step(State::Accepted, &[])
        }
    }
}

const fn final_response(class: Class, reliable: bool) -> Step<State> {
    match (class, reliable) {
        (Class::Success, _) => step(State::Accepted, SUCCESS),
        // Timer D is zero seconds for reliable transports.
        (_, true) => step(State::Terminated, &[Effect::SendAck, Effect::PassUp]),
        (_, false) => step(State::Completed, FAILURE),
    }
}

const PROVISIONAL: &[Effect] = &[Effect::StopRetransmitting, Effect::StopWaiting, Effect::PassUp];
const SUCCESS: &[Effect] = &[Effect::StopRetransmitting, Effect::Start(Timer::M), Effect::PassUp];
const FAILURE: &[Effect] =
    &[Effect::StopRetransmitting, Effect::SendAck, Effect::Start(Timer::D), Effect::PassUp];
