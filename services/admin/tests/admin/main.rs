//! The admin API over real sockets, and long polls of traces.

mod http;
mod traces;
