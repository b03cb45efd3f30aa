//! Sending direction: sound and digits to packets.

use super::srtp_state::{SendError, SrtpState};
use crate::dtmf::{Digit, DigitSender};
use crate::rtcp::SenderInfo;
use crate::rtp::RtpHeader;
use crate::{g711, rtcp};
use alloc::boxed::Box;
use alloc::vec;
use ringway_sansio::{Entropy, Instant};
use ringway_sdp::MediaParams;
use ringway_srtp::SrtpSender;

/// Sent stream. SSRC, sequence numbers and timestamps continue through holds and key changes.
#[derive(Debug)]
pub(super) struct Outgoing {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    /// Time of the current timestamp.
    stamped_at: Instant,
    /// Sound starts after silence or a hold.
    begins: bool,
    digits: DigitSender,
    packet: Box<[u8]>,
    len: usize,
    counts: SentCounts,
}

/// Counters of prepared packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SentCounts {
    pub(super) packets: u64,
    /// Payload bytes.
    pub(super) octets: u64,
    pub(super) ip_bytes: u64,
    pub(super) last_ip_bytes: u32,
    pub(super) first_at: Instant,
    pub(super) last_at: Instant,
}

impl Outgoing {
    pub(super) fn new(digits_max: usize, entropy: &mut Entropy, now: Instant) -> Self {
        Self {
            ssrc: u32::from_be_bytes(entropy.bytes()),
            // RFC 4568 §6.4: below 2^15, so that a peer that misses the first packets still has the right
            // rollover counter.
            sequence: u16::from_be_bytes(entropy.bytes()) & 0x7fff,
            timestamp: u32::from_be_bytes(entropy.bytes()),
            stamped_at: now,
            begins: true,
            digits: DigitSender::new(digits_max),
            packet: vec![0; PACKET_BYTES_MAX].into_boxed_slice(),
            len: 0,
            counts: SentCounts::default(),
        }
    }

    /// Queues a digit; false if the queue is full.
    pub(super) fn push_digit(&mut self, digit: Digit, duration_ticks: u16) -> bool {
        self.digits.push(digit, duration_ticks)
    }

    /// Advances the timestamp without a packet.
    pub(super) fn skip(&mut self, now: Instant, ticks: usize) {
        self.advance(now, ticks);
        self.begins = true;
    }

    /// Prepares the next packet. `ip_header_bytes`: length of the IP and UDP headers.
    pub(super) fn prepare(
        &mut self,
        now: Instant,
        sound: &[i16],
        params: &MediaParams,
        srtp: &mut SrtpState,
        ip_header_bytes: u32,
    ) -> Result<&[u8], SendError> {
        let sound = sound.get(..sound.len().min(SAMPLES_MAX)).unwrap_or_default();
        let event = match params.telephone_event {
            Some(payload_type) => {
                self.digits.next(self.timestamp, sound.len() as u16).map(|event| (payload_type, event))
            }
            None => {
                self.digits.clear();
                None
            }
        };
        let (header, payload_len) = match event {
            Some((payload_type, event)) => {
                self.write_payload(4, |room| room.copy_from_slice(&event.payload));
                (self.header(event.marker, payload_type, event.timestamp), 4)
            }
            None => {
                self.write_payload(sound.len(), |room| g711::encode(params.codec, sound, room));
                (self.header(self.begins, params.payload_type, self.timestamp), sound.len())
            }
        };
        // A digit is no silence: the sound continues after it.
        self.begins = false;
        if let Some(room) = self.packet.first_chunk_mut::<{ RtpHeader::BYTES }>() {
            *room = header.to_bytes();
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.advance(now, sound.len());
        self.len = srtp.protect_rtp(&mut self.packet, RtpHeader::BYTES + payload_len)?;
        self.count(now, payload_len, self.len as u32 + ip_header_bytes);
        Ok(self.last_packet())
    }

    /// Packet that was prepared last.
    pub(super) fn last_packet(&self) -> &[u8] {
        self.packet.get(..self.len).unwrap_or_default()
    }

    pub(super) const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    pub(super) const fn counts(&self) -> &SentCounts {
        &self.counts
    }

    /// Sender information for a report.
    pub(super) fn info(&self, now: Instant, clock_hz: u32) -> SenderInfo {
        let since = now.since(self.stamped_at).as_micros() * u128::from(clock_hz) / 1_000_000;
        SenderInfo {
            ntp: rtcp::ntp_time(now),
            timestamp: self.timestamp.wrapping_add(since as u32),
            packets: self.counts.packets as u32,
            octets: self.counts.octets as u32,
        }
    }

    fn header(&self, marker: bool, payload_type: u8, timestamp: u32) -> RtpHeader {
        RtpHeader { marker, payload_type, sequence: self.sequence, timestamp, ssrc: self.ssrc }
    }

    fn write_payload(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        if let Some(room) = self.packet.get_mut(RtpHeader::BYTES..RtpHeader::BYTES + len) {
            write(room);
        }
    }

    fn advance(&mut self, now: Instant, ticks: usize) {
        self.timestamp = self.timestamp.wrapping_add(ticks as u32);
        self.stamped_at = now;
    }

    fn count(&mut self, now: Instant, octets: usize, ip_bytes: u32) {
        let counts = &mut self.counts;
        if counts.packets == 0 {
            counts.first_at = now;
        }
        counts.packets += 1;
        counts.octets += octets as u64;
        counts.ip_bytes += u64::from(ip_bytes);
        counts.last_ip_bytes = ip_bytes;
        counts.last_at = now;
    }
}

/// Maximum number of samples in a packet: 200 ms.
const SAMPLES_MAX: usize = 1600;
const PACKET_BYTES_MAX: usize = RtpHeader::BYTES + SAMPLES_MAX + SrtpSender::OVERHEAD_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    impl Outgoing {
        /// Sets the sequence number.
        pub(in crate::session) fn set_sequence(&mut self, sequence: u16) {
            self.sequence = sequence;
        }
    }
}
