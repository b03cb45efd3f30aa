//! Media of one call: RTP, RTCP, jitter buffer, concealment, G.711, DTMF, STUN and call quality, combined
//! with SRTP, ZRTP and DTLS into one [`MediaSession`], and a buffer between a call and a sound card ([`headset`]).
//!
//! Does: everything about one audio stream; time, randomness, packets and blocks of samples are arguments.
//!
//! Does not: parse SDP (`ringway-sdp`), implement SRTP, ZRTP or DTLS (`ringway-srtp`, `ringway-zrtp`,
//! `ringway-dtls` behind [`dtls`]), handle SIP,
//! open a socket or drive a sound card.
//!
//! Start reading at [`MediaSession`]; signalling gives it a [`ringway_sdp::MediaParams`].
//! [`stun::StunClient`] is a separate state machine that a session drives.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod concealment;
pub mod dtls;
pub mod dtmf;
pub mod g711;
pub mod headset;
pub mod jitter_buffer;
pub mod quality;
pub mod reception;
pub mod rtcp;
pub mod rtp;
pub mod session;
pub mod tone;

pub use ringway_stun as stun;
pub use session::MediaSession;
pub use tone::{Level, Sound};
