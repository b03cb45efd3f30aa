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

use super::{Class, Effect, Step, Timer, step};

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

/// First step. Over a reliable transport timer A does not run.
pub const fn start(reliable: bool) -> Step<State> {
    if reliable {
        step(State::Calling, &[Effect::Send, Effect::Start(Timer::B)])
    } else {
        step(State::Calling, &[Effect::Send, Effect::Start(Timer::A), Effect::Start(Timer::B)])
    }
}

/// Next state and effects of an event.
pub const fn on(state: State, event: Event, reliable: bool) -> Step<State> {
    match state {
        State::Calling => calling(event, reliable),
        State::Proceeding => proceeding(event, reliable),
        State::Completed => completed(event),
        State::Accepted => accepted(event),
        State::Terminated => step(State::Terminated, &[]),
    }
}

const fn calling(event: Event, reliable: bool) -> Step<State> {
    match event {
        Event::Response(Class::Provisional) => step(State::Proceeding, PROVISIONAL),
        Event::Response(class) => final_response(class, reliable),
        Event::Timer(Timer::A) => step(State::Calling, &[Effect::Send, Effect::Repeat(Timer::A)]),
        Event::Timer(Timer::B) => step(State::Terminated, &[Effect::ReportTimeout]),
        Event::Timer(_) => step(State::Calling, &[]),
        Event::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
    }
}

const fn proceeding(event: Event, reliable: bool) -> Step<State> {
    match event {
        Event::Response(Class::Provisional) => step(State::Proceeding, &[Effect::PassUp]),
        Event::Response(class) => final_response(class, reliable),
        Event::Timer(_) | Event::TransportError => step(State::Proceeding, &[]),
    }
}

const fn completed(event: Event) -> Step<State> {
    match event {
        Event::Response(Class::Failure) => step(State::Completed, &[Effect::SendAck]),
        Event::Timer(Timer::D) => step(State::Terminated, &[]),
        Event::TransportError => step(State::Terminated, &[Effect::ReportTransportError]),
        Event::Response(_) | Event::Timer(_) => step(State::Completed, &[]),
    }
}

const fn accepted(event: Event) -> Step<State> {
    match event {
        Event::Response(Class::Success) => step(State::Accepted, &[Effect::PassUp]),
        Event::Timer(Timer::M) => step(State::Terminated, &[]),
        Event::Response(_) | Event::Timer(_) | Event::TransportError => step(State::Accepted, &[]),
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
