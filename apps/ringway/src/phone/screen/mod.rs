//! The terminal interface of `ringway phone`: the pages of `ringway-ui` in a terminal, and the phone behind them.
//!
//! Start reading at [`mod@run`].

mod calls;
mod input;
mod run;
pub(crate) mod settings;
mod setup;
mod terminal;
mod worker;

pub(crate) use run::{PhoneScreenArgs, run};
