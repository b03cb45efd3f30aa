//! Adaptive jitter buffer: takes packets as they arrive and returns sound in blocks, with as little delay as needed, by
//! an estimate of transit times: the shortest one, and its distribution above that.
//!
//! Time is measured in samples. A sample with timestamp s is played at s + base + target: base is the
//! shortest recent transit time of a packet, target the additional time that nearly all packets needed, and the
//! length of a block, because a block is made when its first sample is played. When these change, the sound is
//! shortened or lengthened by one pitch period at a time until the playout time is right again.
//!
//! Where no packet has arrived, playout waits with concealed sound and plays the packet when it comes. If a later one
//! comes, the packet is lost: what was waited for is skipped.

mod packets;

use core::ops::Range;

use ringway_sansio::Instant;
use ringway_sdp::Codec;

use crate::concealment::{self, Concealer, PERIOD_MAX, Pitch};
use crate::g711;
pub use packets::Inserted;
use packets::{Head, PacketStore};

/// Limits of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// Maximum number of packets held. Above it, the oldest is dropped and counted.
    pub packets_max: usize,
    /// Minimum delay in milliseconds: covers the scheduling jitter of the local threads.
    pub delay_ms_min: u16,
    /// Maximum delay in milliseconds. Packets that arrive later are lost.
    pub delay_ms_max: u16,
}

impl Default for BufferLimits {
    fn default() -> Self {
        Self { packets_max: 50, delay_ms_min: 20, delay_ms_max: 400 }
    }
}

/// An audio packet for the buffer.
#[derive(Clone, Copy, Debug)]
pub struct SoundPacket<'a> {
    /// Extended sequence number.
    pub number: u64,
    /// RTP timestamp of its first sample.
    pub timestamp: u32,
    /// Codec of the payload.
    pub codec: Codec,
    /// Encoded samples.
    pub payload: &'a [u8],
}

/// Stores packets and plays them out.
#[derive(Debug)]
pub struct JitterBuffer {
    limits: BufferLimits,
    store: PacketStore,
    delay: DelayEstimate,
    concealer: Concealer,
    /// Extended timestamp of the next sample to play; `None` before the first packet.
    position: Option<i64>,
    /// Extended sequence number of the packet played last.
    last_played: Option<u64>,
    /// Highest sequence number that carried an event instead of sound.
    event: Option<u64>,
    /// Samples without a packet that the next packet will classify as lost or not sent.
    pending: u64,
    /// Samples of concealed sound during which the position did not advance.
    held: u64,
    /// Length of the blocks that are played, in samples.
    block: i64,
    /// Number of consecutive late packets.
    late_run: u32,
    blocks_since_scaling: u32,
    counts: BufferCounts,
}

/// Counters of the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Samples played as received.
    pub played_samples: u64,
    /// Samples concealed for lost or late packets.
    pub concealed_samples: u64,
    /// Samples of silence where nothing was sent.
    pub silent_samples: u64,
    /// Packets that arrived after their playout time.
    pub late: u64,
    /// Packets that were already in the buffer.
    pub duplicates: u64,
    /// Packets dropped because the buffer was full or the packet too long.
    pub dropped: u64,
    /// Samples removed to reduce the delay.
    pub shortened_samples: u64,
    /// Samples added to increase the delay.
    pub lengthened_samples: u64,
    /// Restarts of playout: a new source, or a jump of a clock.
    pub restarts: u64,
}

impl JitterBuffer {
    /// Creates an empty buffer and allocates all its memory.
    pub fn new(limits: BufferLimits) -> Self {
        let delay = DelayEstimate::new(&limits);
        Self {
            store: PacketStore::new(limits.packets_max),
            limits,
            delay,
            concealer: Concealer::new(),
            position: None,
            last_played: None,
            event: None,
            pending: 0,
            held: 0,
            block: BLOCK as i64,
            late_run: 0,
            blocks_since_scaling: 0,
            counts: BufferCounts::default(),
        }
    }

    /// Inserts a packet at the time when it is available.
    pub fn insert(&mut self, now: Instant, packet: &SoundPacket<'_>) -> Inserted {
        let stamp = self.store.extend(packet.timestamp);
        let arrived = clock(now, packet.codec);
        if self.delay.is_jump(arrived - stamp) {
            self.restart();
        }
        self.delay.on_packet(arrived, stamp);
        let result = self.store.insert(stamp, packet, self.position);
        match result {
            Inserted::Stored => self.late_run = 0,
            Inserted::Late => {
                self.counts.late += 1;
                self.late_run += 1;
                if self.late_run >= LATE_RUN_MAX {
                    self.counts.concealed_samples += core::mem::take(&mut self.pending);
                    self.restart();
                    self.delay.on_packet(arrived, stamp);
                    self.store.insert(stamp, packet, None);
                }
            }
            Inserted::Duplicate => self.counts.duplicates += 1,
            Inserted::OldestDropped | Inserted::TooLong => self.counts.dropped += 1,
        }
        result
    }

    /// Notes the sequence number of a packet with an event, so that it does not count as lost sound.
    pub fn on_event(&mut self, number: u64) {
        self.event = self.event.max(Some(number));
    }

    /// Discards the packets, because the source has changed or restarted its sequence numbers.
    pub fn on_new_source(&mut self) {
        self.restart();
        self.last_played = None;
        self.event = None;
        self.store.forget_stamps();
    }

    /// Writes the next `out.len()` samples to play.
    pub fn playout(&mut self, now: Instant, out: &mut [i16]) {
        self.block = out.len() as i64;
        let mut ideal = clock(now, Codec::Pcmu) - self.delay.base() - self.target();
        for block in out.chunks_mut(BLOCK) {
            self.play_block(ideal, block);
            ideal += block.len() as i64;
        }
    }

    /// Counters since the creation.
    pub const fn counts(&self) -> BufferCounts {
        self.counts
    }

    /// Current playout delay in milliseconds.
    pub fn delay_ms(&self) -> u32 {
        (self.target() / SAMPLES_A_MS) as u32
    }

    /// Limits of the buffer.
    pub const fn limits(&self) -> &BufferLimits {
        &self.limits
    }

    /// Playout delay of packets with the shortest transit time.
    fn target(&self) -> i64 {
        (self.delay.target() + self.block).max(i64::from(self.limits.delay_ms_min) * SAMPLES_A_MS)
    }

    fn restart(&mut self) {
        self.store.clear();
        self.delay.restart();
        self.counts.silent_samples += self.pending;
        self.counts.restarts += u64::from(self.position.is_some());
        self.counts.lengthened_samples += self.held;
        (self.pending, self.held) = (0, 0);
        self.late_run = 0;
        self.position = None;
    }

    fn play_block(&mut self, ideal: i64, out: &mut [i16]) {
        if self.store.is_empty() && self.position.is_none() {
            self.counts.silent_samples += out.len() as u64;
            return self.concealer.fill(out);
        }
        let position = self.position.unwrap_or_else(|| self.start(ideal));
        self.position = Some(position);
        let early = position - ideal;
        self.blocks_since_scaling = self.blocks_since_scaling.saturating_add(1);
        if self.store.head(position) == Head::Empty {
            self.produce(-early, out);
        } else if -early > LAG_MAX {
            self.play_shortened(-early, out);
        } else if early > 0 {
            self.play_lengthened(early, out);
        } else {
            self.produce(-early, out);
        }
    }

    /// First position: packets that came together at the beginning are all played.
    fn start(&self, ideal: i64) -> i64 {
        let room = (self.delay.target_max() - self.target()).max(0);
        self.store.oldest().map_or(ideal, |oldest| oldest.clamp(ideal - room, ideal))
    }

    /// Playout is late: shortens the sound where it is least audible.
    fn play_shortened(&mut self, behind: i64, out: &mut [i16]) {
        let Some(period) = self.scaling_period(behind, out.len()) else { return self.produce(behind, out) };
        let mut sound = [0; BLOCK + PERIOD_MAX];
        let Some(sound) = sound.get_mut(..out.len() + period) else { return self.produce(behind, out) };
        self.produce(behind, sound);
        concealment::shorten(sound, period, out);
        self.counts.shortened_samples += period as u64;
        self.blocks_since_scaling = 0;
    }

    /// Playout is early: lengthens the sound where it is least audible.
    fn play_lengthened(&mut self, early: i64, out: &mut [i16]) {
        let Some(period) = self.scaling_period(early, out.len()) else { return self.produce(-early, out) };
        let before = *self.concealer.history();
        let mut sound = [0; BLOCK];
        let Some(sound) = out.len().checked_sub(period).and_then(|len| sound.get_mut(..len)) else {
            return self.produce(-early, out);
        };
        self.produce(-early, sound);
        concealment::lengthen(&before, sound, period, out);
        self.counts.lengthened_samples += period as u64;
        self.blocks_since_scaling = 0;
    }

    /// Number of samples by which the next block may be shortened or lengthened: a pitch period if the last
    /// change is long enough ago; any number at once in silence; regardless of quality if the playout time is
    /// far off.
    fn scaling_period(&self, off: i64, len: usize) -> Option<usize> {
        let period = match self.concealer.pitch() {
            Pitch::Quiet => {
                let most = PERIOD_MAX.min(len.saturating_sub(1)).max(1);
                Some(usize::try_from(off).unwrap_or(most).clamp(1, most))
            }
            Pitch::Period(period) => (self.blocks_since_scaling >= SCALING_BLOCKS_MIN).then_some(period),
            Pitch::Unclear(period) => (off > FAR_OFF).then_some(period),
        };
        period.filter(|period| *period < len)
    }

    /// Produces the next samples and advances the position, which is `behind` its playout time.
    fn produce(&mut self, mut behind: i64, out: &mut [i16]) {
        let mut done = 0;
        while done < out.len() {
            let position = self.position.unwrap_or(0);
            let room = out.len() - done;
            let part = out.get_mut(done..).unwrap_or_default();
            let (taken, advanced) = match self.store.head(position) {
                Head::Sound { index, offset, len } => {
                    let taken = len.min(room);
                    self.settle(self.store.number(index), offset);
                    let part = part.get_mut(..taken).unwrap_or_default();
                    let (codec, coded) =
                        self.store.coded(index, Range { start: offset, end: offset + taken });
                    g711::decode(codec, coded, part);
                    self.concealer.on_sound(part);
                    self.counts.played_samples += taken as u64;
                    (taken, taken as i64)
                }
                Head::Gap { samples } if behind > 0 => {
                    let skipped = (samples as i64).min(behind);
                    self.pending += skipped as u64;
                    self.held = self.held.saturating_sub(skipped as u64);
                    behind -= skipped;
                    (0, skipped)
                }
                Head::Gap { samples } => {
                    let taken = samples.min(room);
                    self.concealer.fill(part.get_mut(..taken).unwrap_or_default());
                    self.pending += taken as u64;
                    (taken, taken as i64)
                }
                Head::Empty if self.target() + behind < self.delay.target_max() => {
                    self.concealer.fill(part);
                    self.held += room as u64;
                    (room, 0)
                }
                Head::Empty => {
                    self.concealer.fill(part);
                    self.pending += room as u64;
                    (room, room as i64)
                }
            };
            done += taken;
            let position = position + advanced;
            self.position = Some(position);
            self.store.forget_before(position);
        }
    }

    /// Classifies the concealed samples before a packet, which is played from sample `offset` on, as lost or
    /// not sent.
    fn settle(&mut self, number: u64, offset: usize) {
        let is_lost = offset > 0
            || self.last_played.is_some_and(|last_played| {
                let event_between = self.event.is_some_and(|event| last_played < event && event < number);
                number > last_played + 1 && !event_between
            });
        let pending = core::mem::take(&mut self.pending);
        self.counts.lengthened_samples += core::mem::take(&mut self.held);
        // Samples missing within a packet were sent, but the packet arrived after their playout time.
        if is_lost {
            self.counts.concealed_samples += pending;
        } else {
            self.counts.silent_samples += pending;
        }
        self.last_played = Some(number);
    }
}

/// A point in time in samples.
fn clock(now: Instant, codec: Codec) -> i64 {
    let ticks = u128::from(now.as_nanos()) * u128::from(codec.clock_rate_hz()) / 1_000_000_000;
    ticks as i64
}

/// Estimates the transit times of packets, in samples.
#[derive(Debug)]
struct DelayEstimate {
    target_max: i64,
    /// Shortest transit time of the previous window and of this one.
    shortest: Option<(i64, i64)>,
    window_end: i64,
    /// Distribution of the transit times above the shortest, in weights whose sum is about [`ONE`].
    longer: [u32; BUCKETS],
    packets: u32,
    target: i64,
}

impl DelayEstimate {
    fn new(limits: &BufferLimits) -> Self {
        let target_max = i64::from(limits.delay_ms_max.max(limits.delay_ms_min)) * SAMPLES_A_MS;
        Self { target_max, shortest: None, window_end: 0, longer: [0; BUCKETS], packets: 0, target: BUCKET }
    }

    /// Adds a packet with timestamp `stamp` that arrived at `arrived`.
    fn on_packet(&mut self, arrived: i64, stamp: i64) {
        let way = arrived - stamp;
        let (before, now) = self.shortest.unwrap_or((way, way));
        self.shortest = if arrived >= self.window_end {
            // With windows, a sender whose clock is slower than ours is followed after at most two windows.
            self.window_end = arrived + WINDOW;
            Some((now, way))
        } else {
            Some((before, now.min(way)))
        };
        let longer = way - self.base();
        let bucket = usize::try_from(longer / BUCKET).unwrap_or(0).min(BUCKETS - 1);
        self.packets = (self.packets + 1).min(MEMORY_PACKETS);
        for weight in &mut self.longer {
            *weight -= *weight / self.packets;
        }
        if let Some(weight) = self.longer.get_mut(bucket) {
            *weight += ONE / self.packets;
        }
        self.target = self.quantile().min(self.target_max);
    }

    /// True if a transit time indicates that one of the clocks was set.
    fn is_jump(&self, way: i64) -> bool {
        self.shortest.is_some() && (way - self.base()).abs() > JUMP
    }

    /// Discards the shortest transit time and keeps the distribution.
    fn restart(&mut self) {
        self.shortest = None;
    }

    /// Time that nearly all packets needed beyond the shortest transit time.
    const fn target(&self) -> i64 {
        self.target
    }

    const fn target_max(&self) -> i64 {
        self.target_max
    }

    /// Shortest recent transit time, on two clocks.
    fn base(&self) -> i64 {
        self.shortest.map_or(0, |(before, now)| before.min(now))
    }

    /// Upper end of the bucket up to which 97 % of the weight is.
    fn quantile(&self) -> i64 {
        let whole: u64 = self.longer.iter().map(|weight| u64::from(*weight)).sum();
        let mut below = 0;
        for (bucket, weight) in (1..).zip(self.longer) {
            below += u64::from(weight);
            if below * 100 >= whole * QUANTILE_PERCENT {
                return bucket * BUCKET;
            }
        }
        self.target_max
    }
}

/// Maximum number of samples produced at a time: 20 ms.
const BLOCK: usize = 160;
const SAMPLES_A_MS: i64 = 8;
/// Tolerance for late playout: 30 ms, so that the interleaving of packets and blocks alone changes nothing.
const LAG_MAX: i64 = 240;
/// Deviation from which on the playout time has precedence over quality: 80 ms.
const FAR_OFF: i64 = 640;
/// Minimum number of blocks between two changes in speech: 60 ms.
const SCALING_BLOCKS_MIN: u32 = 3;
/// Number of consecutive late packets that indicates a permanently longer transit time.
const LATE_RUN_MAX: u32 = 8;
/// 5 ms in samples.
const BUCKET: i64 = 40;
/// 500 ms in total.
const BUCKETS: usize = 100;
const ONE: u32 = 1 << 24;
/// Number of packets in the moving average: about 5 s.
const MEMORY_PACKETS: u32 = 256;
const QUANTILE_PERCENT: u64 = 97;
/// 5 s in samples.
const WINDOW: i64 = 40_000;
/// 2 s in samples.
const JUMP: i64 = 16_000;

#[cfg(test)]
#[path = "jitter_buffer/jitter_buffer_tests.rs"]
mod tests;

#[cfg(test)]
mod delay_tests {
    use super::*;

    fn estimate() -> DelayEstimate {
        DelayEstimate::new(&BufferLimits::default())
    }

    #[test]
    fn punctual_packets_wait_for_one_step() {
        let mut delay = estimate();
        (0..100).for_each(|at| delay.on_packet(5000 + 160 * at, 160 * at));
        assert_eq!((delay.target(), delay.base()), (BUCKET, 5000));
    }

    #[test]
    fn a_spread_of_50_ms_increases_the_delay() {
        let mut delay = estimate();
        (0..500).for_each(|at| delay.on_packet(160 * at + (at * 37 % 400), 160 * at));
        assert!((380..=400).contains(&delay.target()), "{}", delay.target());
        // Without jitter the delay is short again 10 s later.
        (500..1500).for_each(|at| delay.on_packet(160 * at, 160 * at));
        assert_eq!(delay.target(), BUCKET);
    }

    #[test]
    fn a_slow_sender_is_followed() {
        let mut delay = estimate();
        // 500 ppm over 100 s is 50 ms.
        (0..5000).for_each(|at| delay.on_packet(160 * at + at * 160 / 2000, 160 * at));
        assert!((400 - 50..=400).contains(&delay.base()), "{}", delay.base());
    }

    #[test]
    fn a_jump_is_distinguished_from_a_bad_network() {
        let mut delay = estimate();
        delay.on_packet(0, 0);
        assert!(!delay.is_jump(8000) && delay.is_jump(20_000) && delay.is_jump(-20_000));
        delay.restart();
        assert!(!delay.is_jump(20_000));
    }
}
