//! The phone's pages.
//!
//! Does: keeps what the user sees of the phone ([`Model`]): keys, pasted text and the phone's events go in, drawn pages
//! and [`Effect`]s come out. The same pages run in a terminal on Linux and on a machine without an operating system.
//!
//! Does not: speak SIP or RTP, read clocks, files or terminals.
//!
//! Start reading at [`Model::update`].

mod form;
mod model;
mod moment;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod scene;
mod settings;
mod view;

pub use model::{Effect, Event, Host, Model, PAST_CALLS_BYTES_MAX};
pub use moment::{Now, WallTime};
pub use settings::{
    Account, Contact, PasswordPlace, Registration, Secret, Settings, complete_uri, escaped_user,
    is_host_port, is_sips,
};
pub use view::{Machine, SPARE_ROW, draw};
