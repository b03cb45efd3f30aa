//! DTLS before its handshake, and the interface between a driver and its associations.
//!
//! Does: parse a first [`ClientHello`] without allocation; answer it with a HelloVerifyRequest whose [`Cookies`] need no state
//! (RFC 6347 §4.2.1); cut a datagram into [`Records`]; say by [`Association`] and [`Associations`] what a driver needs of an
//! implementation of DTLS.
//!
//! Does not: encrypt, shake hands, hold an association, open a socket, or read a clock.
//!
//! Start reading at [`ClientHello`], then [`Associations`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_datagram;
#[cfg(test)]
extern crate std;

mod association;
mod hello;

pub use association::{Association, Associations, FirstDatagram, Output, SendError};
pub use hello::{
    COOKIE_BYTES, ClientHello, ContentType, Cookies, HELLO_VERIFY_REQUEST_BYTES, Judged, NotHello, Record,
    Records, write_hello_verify_request,
};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod hello_tests;
