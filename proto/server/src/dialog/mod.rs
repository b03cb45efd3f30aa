//! Sides of a dialog: who they are, and where they are now (docs/decisions/0053).

mod current;
mod flows;
mod identity;
mod owned;
mod table;

pub(crate) use current::{Known, Way, current};
pub(crate) use flows::{PhoneHash, side_of};
pub(crate) use identity::{Answer, Identities, TagHash, UriHash, UserHash};
pub(crate) use owned::Owner;
pub use table::SideTable;
pub(crate) use table::{DialogSide, Moved};
