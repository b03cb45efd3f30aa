//! Bounded buffer of written packets, between many threads and the one that sends.

use crate::packet::{Packet, PacketWriter};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Buffer {
    packets: Mutex<Packets>,
}

/// Written packets.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
}

/// Result of [`Buffer::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Kept,
    /// It is kept, and the sending thread should not wait any longer.
    HalfFull,
    /// There is no room, or it is too long.
    Lost,
}

impl Buffer {
    pub(crate) fn push(&self, writer: &PacketWriter, packet: &Packet<'_>) -> Pushed {
        let mut packets = self.lock();
        let before = packets.bytes.len();
        if before + packet.payload.len() > BYTES_MAX || writer.write(packet, &mut packets.bytes).is_err() {
            return Pushed::Lost;
        }
        packets.count += 1;
        let is_half = before < BYTES_MAX / 2 && packets.bytes.len() >= BYTES_MAX / 2;
        if is_half { Pushed::HalfFull } else { Pushed::Kept }
    }

    /// Exchanges the packets for `empty`, whose memory is used next.
    pub(crate) fn take(&self, empty: &mut Packets) {
        empty.bytes.clear();
        empty.count = 0;
        std::mem::swap(&mut *self.lock(), empty);
    }

    fn lock(&self) -> MutexGuard<'_, Packets> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of bytes that wait, without the chunks of the last packet.
const BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::TransportProtocol;
    use std::time::Duration;

    #[test]
    fn the_buffer_is_bounded_and_says_when_it_is_half_full() {
        let payload = vec![b'x'; 65_000];
        let packet = Packet {
            source: "192.0.2.1:1".parse().unwrap(),
            destination: "192.0.2.2:2".parse().unwrap(),
            protocol: TransportProtocol::Udp,
            time: Duration::ZERO,
            payload: &payload,
        };
        let (buffer, writer) = (Buffer::default(), PacketWriter::new(0, b"").unwrap());
        let pushed: Vec<_> = (0..100).map(|_| buffer.push(&writer, &packet)).collect();
        let count = |of| pushed.iter().filter(|pushed| **pushed == of).count();
        assert_eq!((count(Pushed::HalfFull), count(Pushed::Lost)), (1, 36));
        let mut packets = Packets::default();
        buffer.take(&mut packets);
        assert_eq!(packets.count, 64);
        assert!(packets.bytes.len() <= BYTES_MAX + 200);
        assert_eq!(buffer.push(&writer, &packet), Pushed::Kept);
    }
}
