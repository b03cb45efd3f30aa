//! The parts of the project's tasks that its testbed uses too.
//!
//! Does: runs the tools of the workspace (`workspace`); builds and checks the image without an operating system (`image`).
//!
//! Does not: any check of the project; those are modules of the program `xtask`.
//!
//! Start reading at [`workspace`].

pub mod image;
pub mod workspace;
