//! Inputs of the loop that draws the pages.

use ringway_ui::phone::Event;

/// An input of the loop that draws the pages.
pub(super) enum Input {
    /// An event of the pages.
    Event(Event),
    /// The account is in use; its events follow.
    SignedIn,
    /// The account cannot be used: one line.
    NotSignedIn(String),
}
