//! The phone as a machine: phones, the server, names and STUN on a network in memory, with a clock that only tests move.
//!
//! Tested: registration with digest over UDP and TCP, calls with SDES, with ZRTP, without SRTP and without a server, tones and
//! echo as they lie on the cable, hold, resume, DTMF, refusing, a busy phone, STUN, names, wrong words, ringing, loudspeaker
//! and microphone, what screen and log say. Not tested here: hardware, DHCP (the server's tests have it).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod calls;
mod helper;
mod network;
mod protection;
mod sound_card;
mod starting;
mod tap;
