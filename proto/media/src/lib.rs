//! The sound of one call: how it is described (SDP), carried (RTP, RTCP), protected (SRTP with SDES or ZRTP), smoothed
//! (jitter buffer, concealment), joined with a sound card ([`headset`]) and judged (delay, jitter, loss, MOS).
//!
//! Does: everything about one stream, with time, chance, packets and blocks of sound as arguments.
//!
//! Does not: know SIP, open a socket, or drive a sound card.
//!
//! Start reading at [`MediaParams`], the one value that signalling hands over; [`zrtp::Zrtp`] and [`stun::StunClient`] are
//! machines of their own that a session drives.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod codec;
pub mod concealment;
mod crc;
pub mod dtmf;
mod entropy;
pub mod g711;
pub mod headset;
pub mod jitter_buffer;
mod params;
pub mod quality;
pub mod reception;
pub mod rtcp;
pub mod rtp;
pub mod sdes;
pub mod sdp;
pub mod session;
pub mod srtp;
pub mod stun;
mod suite;
mod time_scale;
pub mod tone;
pub mod zrtp;

pub use codec::{Codec, Direction};
pub use entropy::Entropy;
pub use params::{MasterKey, MediaParams, Protection};
pub use session::MediaSession;
pub use suite::Suite;
