//! Sides of a dialog: who they are, and where they are now (docs/decisions/0053).

mod current;

pub(crate) use current::{Known, current};
