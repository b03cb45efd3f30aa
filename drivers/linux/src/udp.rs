//! Sending datagrams: all of a batch, in order, past those that the kernel refuses.

use crate::counters::Counters;
use crate::sys::{Sending, wait_writable};
use ringway_sansio::Token;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sends the batch and empties it. Tags are tokens; `refused` gets those of packets that the kernel does not take for
/// what they are. When there is no room for longer than a worker may wait, the rest is dropped and counted: that is
/// what a network does, and retransmission is there for it.
pub(crate) fn send_all(
    sending: &mut Sending<'_, '_>,
    socket: BorrowedFd<'_>,
    counters: &Counters,
    mut refused: impl FnMut(Token),
) {
    let mut waits_left = WAITS_MAX;
    while sending.left() > 0 {
        let error = match sending.send(socket) {
            Ok(sent) => {
                counters.datagrams_out.add(sent as u64);
                continue;
            }
            Err(error) => error,
        };
        let no_room = error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS);
        if no_room {
            if waits_left == 0 || !wait_writable(socket, WAIT) {
                counters.send_drops.add(sending.left() as u64);
                break;
            }
            waits_left -= 1;
        } else if error.kind() != ErrorKind::Interrupted {
            counters.send_errors.one();
            if let Some(tag) = sending.skip() {
                refused(Token(tag));
            }
        }
    }
    sending.clear();
}

/// How long one wait for room in a socket may last.
const WAIT: Duration = Duration::from_millis(2);

/// Waits for room in one batch.
const WAITS_MAX: u32 = 4;
