//! Bytes into a rustls connection, and out of it.

use ringway_stream::Decoded;
use rustls::Connection;
use std::io::Read;

/// Processes received bytes, and passes on what they decode to.
pub(crate) fn receive(
    connection: &mut Connection,
    mut bytes: &[u8],
    decoded: &mut dyn FnMut(Decoded<'_>),
) -> Result<(), rustls::Error> {
    let mut room = [0; ROOM_BYTES];
    while !bytes.is_empty() {
        // Reading from memory fails only if the connection has too many undecoded bytes.
        let too_much = |_| rustls::Error::General("the peer sent too much at once".to_owned());
        if connection.read_tls(&mut bytes).map_err(too_much)? == 0 {
            return Ok(());
        }
        let state = connection.process_new_packets()?;
        let mut waiting = state.plaintext_bytes_to_read();
        while waiting > 0 {
            match connection.reader().read(&mut room) {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    decoded(Decoded::Bytes(room.get(..count).unwrap_or_default()));
                    waiting = waiting.saturating_sub(count);
                }
            }
        }
        if state.peer_has_closed() {
            decoded(Decoded::StreamEnd);
            return Ok(());
        }
    }
    Ok(())
}

/// Appends the records that the connection has for its peer.
pub(crate) fn write_records(connection: &mut Connection, wire: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to memory does not fail.
        if !connection.write_tls(wire).is_ok_and(|count| count > 0) {
            return;
        }
    }
}

/// Size of the buffer between a connection and its framer.
const ROOM_BYTES: usize = 4096;
