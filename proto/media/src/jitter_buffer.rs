//! The jitter buffer: packets in as they come, sound out block by block, as late as needed and no later.
//!
//! Time is counted in samples. What was sampled at stamp s is heard when the clock shows s + base + target: base is the
//! shortest way a packet took lately, target what nearly all of them took longer. When the two move, the sound is
//! stretched or shortened by a pitch period at a time until it is heard at the right moment again.

mod delay;
mod packets;

pub use packets::Kept;

use crate::concealment::{Concealer, PERIOD_MAX, Pitch};
use crate::{g711, time_scale};
use core::ops::Range;
use delay::DelayEstimate;
use packets::{Head, PacketStore};
use ringway_sansio::Instant;
use ringway_sdp::Codec;

/// What the buffer holds and waits at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// Packets held at a time. Over it the oldest is dropped and counted.
    pub packets_max: usize,
    /// The least delay, in milliseconds: covers how punctual the machine's own threads are.
    pub delay_ms_min: u16,
    /// The greatest delay, in milliseconds. What comes later is lost.
    pub delay_ms_max: u16,
}

impl Default for BufferLimits {
    fn default() -> Self {
        Self { packets_max: 50, delay_ms_min: 20, delay_ms_max: 400 }
    }
}

/// A packet of sound for the buffer.
#[derive(Clone, Copy, Debug)]
pub struct SoundPacket<'a> {
    /// Its sequence number with its wraps.
    pub number: u64,
    /// The moment of its first sample.
    pub timestamp: u32,
    /// How it is coded.
    pub codec: Codec,
    /// The coded sound.
    pub payload: &'a [u8],
}

/// Holds packets and plays them out.
#[derive(Debug)]
pub struct JitterBuffer {
    limits: BufferLimits,
    store: PacketStore,
    delay: DelayEstimate,
    concealer: Concealer,
    /// The stamp of the next sample to be heard, counted on over the wraps. `None`: not begun.
    position: Option<i64>,
    /// The number of the packet heard last.
    heard: Option<u64>,
    /// The last number that carried an event in place of sound.
    event: Option<u64>,
    /// Samples filled whose reason the next packet will tell.
    pending: u64,
    /// Late packets in a row.
    late_run: u32,
    blocks_since_scaling: u32,
    counts: BufferCounts,
}

/// What became of the sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Samples heard as they were sent.
    pub played_samples: u64,
    /// Samples made up for lost or late packets.
    pub concealed_samples: u64,
    /// Samples of silence where nothing was sent.
    pub silent_samples: u64,
    /// Packets that came after their moment.
    pub late: u64,
    /// Packets that were there already.
    pub duplicates: u64,
    /// Packets dropped because there were too many, or one too long.
    pub dropped: u64,
    /// Samples left out to shorten the delay.
    pub shortened_samples: u64,
    /// Samples put in to lengthen it.
    pub lengthened_samples: u64,
    /// Times that playing began anew: a new source, or a clock that jumped.
    pub restarts: u64,
}

impl JitterBuffer {
    /// An empty buffer. All memory it will ever need is taken here.
    pub fn new(limits: BufferLimits) -> Self {
        let delay = DelayEstimate::new(&limits);
        Self {
            store: PacketStore::new(limits.packets_max),
            limits,
            delay,
            concealer: Concealer::new(),
            position: None,
            heard: None,
            event: None,
            pending: 0,
            late_run: 0,
            blocks_since_scaling: 0,
            counts: BufferCounts::default(),
        }
    }

    /// Takes a packet at the moment it can first be used.
    pub fn insert(&mut self, now: Instant, packet: &SoundPacket<'_>) -> Kept {
        let stamp = self.store.extend(packet.timestamp);
        let arrived = clock(now, packet.codec);
        if self.delay.is_jump(arrived - stamp) {
            self.restart();
        }
        self.delay.on_packet(arrived, stamp);
        let kept = self.store.insert(stamp, packet, self.position);
        match kept {
            Kept::Yes => self.late_run = 0,
            Kept::Late => {
                self.counts.late += 1;
                self.late_run += 1;
                if self.late_run >= LATE_RUN_MAX {
                    self.restart();
                    self.delay.on_packet(arrived, stamp);
                    self.store.insert(stamp, packet, None);
                }
            }
            Kept::Duplicate => self.counts.duplicates += 1,
            Kept::InPlaceOfOldest | Kept::TooLong => self.counts.dropped += 1,
        }
        kept
    }

    /// A packet with this number carries an event, so that it is not missed among the sound.
    pub fn on_event(&mut self, number: u64) {
        self.event = self.event.max(Some(number));
    }

    /// Another source, or numbers that begin anew: what is held belongs to the old one.
    pub fn on_new_source(&mut self) {
        self.restart();
        self.heard = None;
        self.event = None;
        self.store.forget_stamps();
    }

    /// The next `out.len()` samples to be heard.
    pub fn playout(&mut self, now: Instant, out: &mut [i16]) {
        let mut ideal = clock(now, Codec::Pcmu) - self.delay.total();
        for block in out.chunks_mut(BLOCK) {
            self.play_block(ideal, block);
            ideal += block.len() as i64;
        }
    }

    /// What became of the sound so far.
    pub const fn counts(&self) -> BufferCounts {
        self.counts
    }

    /// How long sound waits here at present, in milliseconds.
    pub fn delay_ms(&self) -> u32 {
        (self.delay.target().max(0) / SAMPLES_A_MS) as u32
    }

    /// What the buffer holds at most.
    pub const fn limits(&self) -> &BufferLimits {
        &self.limits
    }

    fn restart(&mut self) {
        self.store.clear();
        self.delay.restart();
        self.counts.silent_samples += self.pending;
        self.counts.restarts += u64::from(self.position.is_some());
        self.pending = 0;
        self.late_run = 0;
        self.position = None;
    }

    fn play_block(&mut self, ideal: i64, out: &mut [i16]) {
        if self.store.is_empty() && self.position.is_none() {
            self.counts.silent_samples += out.len() as u64;
            return self.concealer.fill(out);
        }
        let position = *self.position.get_or_insert(ideal);
        let early = position - ideal;
        self.blocks_since_scaling = self.blocks_since_scaling.saturating_add(1);
        if -early > LAG_MAX {
            self.play_shortened(-early, out);
        } else if early > LEAD_MAX {
            self.play_lengthened(early, out);
        } else {
            self.produce(out);
        }
    }

    /// We are behind the right moment: leaves out what nobody misses.
    fn play_shortened(&mut self, behind: i64, out: &mut [i16]) {
        let Some(period) = self.scaling_period(behind, out.len()) else { return self.produce(out) };
        let mut sound = [0; BLOCK + PERIOD_MAX];
        let Some(sound) = sound.get_mut(..out.len() + period) else { return self.produce(out) };
        self.produce(sound);
        time_scale::shorten(sound, period, out);
        self.counts.shortened_samples += period as u64;
        self.blocks_since_scaling = 0;
    }

    /// We are ahead of it: repeats what nobody notices.
    fn play_lengthened(&mut self, early: i64, out: &mut [i16]) {
        let Some(period) = self.scaling_period(early, out.len()) else { return self.produce(out) };
        let before = *self.concealer.history();
        let mut sound = [0; BLOCK];
        let Some(sound) = out.len().checked_sub(period).and_then(|len| sound.get_mut(..len)) else {
            return self.produce(out);
        };
        self.produce(sound);
        time_scale::lengthen(&before, sound, period, out);
        self.counts.lengthened_samples += period as u64;
        self.blocks_since_scaling = 0;
    }

    /// By how much the next block may be made shorter or longer: a period, when the last change is over; at once and
    /// freely in silence; at any price when the moment is far off.
    fn scaling_period(&self, off: i64, len: usize) -> Option<usize> {
        let period = match self.concealer.pitch() {
            Pitch::Quiet => Some(usize::try_from(off).unwrap_or(PERIOD_MAX).clamp(1, PERIOD_MAX)),
            Pitch::Period(period) => (self.blocks_since_scaling >= SCALING_BLOCKS_MIN).then_some(period),
            Pitch::Unclear(period) => (off > FAR_OFF).then_some(period),
        };
        period.filter(|period| *period < len)
    }

    /// The next samples at the position, which moves on by as many.
    fn produce(&mut self, out: &mut [i16]) {
        let mut done = 0;
        while done < out.len() {
            let position = self.position.unwrap_or(0);
            let room = out.len() - done;
            let taken = match self.store.head(position) {
                Head::Sound { index, offset, len } => {
                    let taken = len.min(room);
                    self.settle(self.store.number(index), offset);
                    let part = out.get_mut(done..done + taken).unwrap_or_default();
                    let (codec, coded) =
                        self.store.coded(index, Range { start: offset, end: offset + taken });
                    g711::decode(codec, coded, part);
                    self.concealer.on_sound(part);
                    self.counts.played_samples += taken as u64;
                    taken
                }
                Head::Gap { samples } => {
                    let taken = samples.min(room);
                    self.concealer.fill(out.get_mut(done..done + taken).unwrap_or_default());
                    self.pending += taken as u64;
                    taken
                }
            };
            done += taken;
            let position = position + taken as i64;
            self.position = Some(position);
            self.store.forget_before(position);
        }
    }

    /// A packet is heard from sample `offset` on: were the samples filled before it lost, or was nothing sent?
    fn settle(&mut self, number: u64, offset: usize) {
        let is_lost = offset > 0
            || self.heard.is_some_and(|heard| {
                let event_between = self.event.is_some_and(|event| heard < event && event < number);
                number > heard + 1 && !event_between
            });
        let pending = core::mem::take(&mut self.pending);
        // Within a packet there is nothing that was not sent: it came too late for its first samples.
        if is_lost {
            self.counts.concealed_samples += pending;
        } else {
            self.counts.silent_samples += pending;
        }
        self.heard = Some(number);
    }
}

/// A moment in samples.
fn clock(now: Instant, codec: Codec) -> i64 {
    let ticks = u128::from(now.as_nanos()) * u128::from(codec.clock_rate_hz()) / 1_000_000_000;
    ticks as i64
}

/// The most that is made at a time: 20 ms.
const BLOCK: usize = 160;
const SAMPLES_A_MS: i64 = 8;
/// How far behind the right moment we may be: 30 ms, so that the rhythm of packets and blocks alone moves nothing.
const LAG_MAX: i64 = 240;
/// How far ahead: 5 ms.
const LEAD_MAX: i64 = 40;
/// From here on the moment is more important than how it sounds: 80 ms.
const FAR_OFF: i64 = 640;
/// Blocks between two changes in a voice: 60 ms.
const SCALING_BLOCKS_MIN: u32 = 3;
/// So many late packets one after the other are a way that became longer for good.
const LATE_RUN_MAX: u32 = 8;

#[cfg(test)]
#[path = "jitter_buffer/jitter_buffer_tests.rs"]
mod tests;
