//! Both ends of a phone call as processes, and the machine's own timing beside them.

pub mod handset;
pub mod sleep_floor;
