//! Both ends of a phone call as processes, and the timing of the machine as a reference.

pub mod handset;
pub mod sleep_floor;
