//! The pages as pictures, and what a terminal makes of them.
//!
//! Tested: every page of the administrator and of the phone, with good and with bad news, against pictures kept as text
//! (`pictures/`); what keys do; that a terminal shows the cells, with few bytes at a time; that nothing from the network
//! leaves its columns or reaches a terminal as a command. Not tested here: scrolling in detail, keys' bytes, VGA memory,
//! which have tests beside the code.
//!
//! `RINGWAY_PICTURES=write cargo test -p ringway-ui` draws the pictures anew.

mod admin_pages;
mod hostile;
mod picture;
mod scene;
mod terminal;
