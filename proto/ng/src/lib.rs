//! Control of media relays by the ng protocol of rtpengine: bencoded dictionaries with a cookie, over UDP.
//!
//! Does: reads and writes bencode ([`Dictionary`]), writes the commands `ping`, `offer`, `answer` and `delete`
//! ([`Command`]), reads their answers ([`Answer`]); chooses the relay of a call, retransmits, limits the time, notes which
//! relays answer, and tries another one if a relay does not; counts the calls of each source and user ([`Client`]).
//!
//! Does not: open sockets, read clocks, interpret SDP, decide which call is relayed.
//!
//! Start reading at [`Client`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_ng;
#[cfg(test)]
extern crate std;

mod bencode;
mod calls;
mod client;
mod command;

pub use bencode::{BadBencode, Dictionary, Value, read_dictionary, write_bytes};
pub use calls::{STRANGER_STREAMS_MAX, STRANGERS_STREAMS_MAX, USER_STREAMS_MAX};
pub use client::{
    AnswerUse, Client, Counters, Datagram, Done, RELAYS_MAX, RelayChange, RelayState, STREAMS_MAX,
};
pub use command::{Answer, BadAnswer, Command, Cookie, read_answer};

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod corpus_tests;
