//! Sides of a dialog: who they are, and where they are now (docs/decisions/0053).

mod current;
mod identity;
mod table;

pub(crate) use current::{Known, Way, current};
pub(crate) use identity::{Answer, Identities, TagHash, UriHash, UserHash};
pub use table::SideTable;
pub(crate) use table::{DialogSide, Moved, side_of};
