//! Sending of datagram batches.

use crate::counters::Counters;
use crate::sys::{Sending, wait_writable};
use ringway_sansio::Token;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Sends the batch in order and clears it. Tags are tokens; `refused` gets the tokens of packets that the kernel
/// refuses. If the socket's buffer remains full, the rest is dropped and counted, like a loss on the network; SIP
/// retransmits.
pub(crate) fn send_all(
    sending: &mut Sending<'_, '_>,
    socket: BorrowedFd<'_>,
    counters: &Counters,
    mut refused: impl FnMut(Token),
) {
    let mut waits_left = WAITS_MAX;
    let mut tries_left = TRIES_MAX;
    while sending.left() > 0 {
        let error = match sending.send(socket) {
            Ok(sent) => {
                counters.datagrams_out.add(sent as u64);
                tries_left = TRIES_MAX;
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
            // An ICMP error for an earlier packet makes one call fail; a refusal of this packet repeats itself.
            tries_left -= 1;
            if tries_left > 0 {
                continue;
            }
            tries_left = TRIES_MAX;
            counters.send_errors.increment();
            if let Some(tag) = sending.skip() {
                refused(Token(tag));
            }
        }
    }
    sending.clear();
}

/// Maximum duration of one wait for buffer space.
const WAIT: Duration = Duration::from_millis(2);

/// Number of failures after which a packet is refused. So many ICMP errors do not arrive between as many calls.
const TRIES_MAX: u32 = 5;

/// Maximum number of waits in one batch.
const WAITS_MAX: u32 = 4;
