//! The phone: `ringway phone`, `call` and `answer`, and what they share.
//!
//! ```text
//! screen                        a user at a terminal
//! call.rs, answer.rs, demo      programs without a user; attend.rs: one call and its script
//!        │ commands       ▲ events
//!        v                │
//!   telephone.rs          the front end of ringway_phone::Phone: a worker thread, and for each call
//!        │                ▲
//!        v                │ events of the media
//!     line.rs             a ringway_phone::CallMedia on a media thread
//! ```

mod answer;
mod args;
mod attend;
mod audio;
mod call;
mod demo;
mod known_phones;
mod line;
mod options;
mod outcome;
mod private_file;
#[cfg(test)]
mod replay;
mod screen;
mod settings;
mod telephone;

pub(crate) use args::{AnswerArgs, AudioArgs, CallArgs, DemoArgs, OptionsArgs};
pub(crate) use screen::PhoneScreenArgs;

use crate::failure::Failure;
use crate::output;
use attend::{say, say_message};
use outcome::Outcome;
use ringway_linux::process::Signal;
use ringway_phone::PhoneEvent;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use telephone::Telephone;

/// `ringway call`.
pub(crate) fn call(args: &CallArgs) -> Result<(), Failure> {
    call::run(args)
}

/// `ringway answer`.
pub(crate) fn answer(args: &AnswerArgs) -> Result<(), Failure> {
    answer::run(args)
}

/// `ringway options`.
pub(crate) fn options(args: OptionsArgs) -> Result<(), Failure> {
    options::run(args)
}

/// `ringway phone`.
pub(crate) fn phone(args: &PhoneScreenArgs) -> Result<(), Failure> {
    screen::run(args)
}

/// `ringway audio`.
pub(crate) fn audio(args: &AudioArgs) -> Result<(), Failure> {
    audio::list(args)
}

/// `ringway demo`.
pub(crate) fn demo(args: &DemoArgs) -> Result<(), Failure> {
    demo::run(args)
}

/// Waits until the account is registered.
fn register(telephone: &mut Telephone, signals: &Receiver<Signal>) -> Result<(), Failure> {
    let end = Instant::now() + REGISTER_WITHIN;
    while Instant::now() < end {
        if let Ok(Signal::Terminate) = signals.try_recv() {
            return Err(Failure::failed("ended by a signal before it was registered"));
        }
        let Some((_, event)) = telephone.wait(LOOK_EVERY)? else { continue };
        say_message(&event);
        match event {
            PhoneEvent::Registered { expires_s, .. } => {
                say(&format!("registered for {expires_s} s"));
                return Ok(());
            }
            PhoneEvent::RegistrationFailed { status, reason, .. } => {
                let reason = output::printable(&reason);
                let advice = match status {
                    401 | 403 | 407 => "check the user and the password",
                    404 => "check the user's name and domain",
                    408 | 503 => "check --server with its port, --transport and the network",
                    _ => "ask the operator of the server",
                };
                return Err(Failure::failed(format!("not registered: {status} {reason}; {advice}")));
            }
            _ => {}
        }
    }
    Err(Failure::failed("not registered: the server does not answer; check --server and the network"))
}

/// Prints how a call went.
fn print_outcome(outcome: &Outcome, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(output::line(&outcome.json().to_string())?);
    }
    Ok(output::line(&outcome.lines().join("\n"))?)
}

/// Longer than a request without an answer lives (64·T1).
const REGISTER_WITHIN: Duration = Duration::from_secs(35);

const LOOK_EVERY: Duration = Duration::from_millis(100);
