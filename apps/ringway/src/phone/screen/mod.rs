//! The terminal interface of `ringway phone`: the pages of `ringway-ui` in a terminal, and the phone behind them. Inputs of
//! the loop that draws the pages.
//!
//! Start reading at [`mod@run`].

mod calls;
mod run;
pub(crate) mod settings;
mod setup;
mod terminal;
mod worker;

use ringway_ui::phone::Event;
pub(crate) use run::{PhoneScreenArgs, run};

/// An input of the loop that draws the pages.
enum Input {
    /// An event of the pages.
    Event(Event),
    /// The account is in use; its events follow.
    SignedIn,
    /// The account cannot be used: one line.
    NotSignedIn(String),
}
