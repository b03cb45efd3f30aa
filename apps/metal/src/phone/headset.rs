//! Loudspeaker and microphone: between a sound card that keeps its own time and calls that keep ours.
//!
//! The card's clock and ours differ by some parts in a million, and a card is never exactly ready when a beat comes. So a little
//! waits in between, both ways ([`MARGIN`]); where it runs out silence fills the gap, where it grows a block is left out.

use super::source::Source;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// A sound card as a phone needs one: 16-bit samples, 8,000 a second, one channel. Nothing in it waits.
pub trait SoundCard: fmt::Debug {
    /// What it is, for people.
    fn name(&self) -> &'static str;

    /// How many of the samples that it was given were not played yet.
    fn waiting(&mut self) -> usize;

    /// Plays samples after those that wait. Those that it has no room for are lost; what does not fill 10 ms may wait for
    /// the rest of them.
    fn play(&mut self, samples: &[i16]);

    /// How many samples of the microphone were not taken yet.
    fn recorded(&mut self) -> usize;

    /// Takes the oldest samples of the microphone, and gives how many.
    fn record(&mut self, room: &mut [i16]) -> usize;
}

/// A sound card with what keeps it and a call together.
#[derive(Debug)]
pub(crate) struct Headset {
    card: Box<dyn SoundCard>,
    ring: Ring,
    /// False until the call has begun to be played.
    is_playing: bool,
    /// False until enough waits that the microphone does not run out at once.
    is_recording: bool,
    counters: Counters,
}

/// What did not fit, of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Blocks for which the card had waited in silence.
    gaps: u64,
    /// Blocks that were not played, because too much waited.
    not_played: u64,
    /// Blocks that were asked of the microphone.
    asked: u64,
    /// Samples that it gave.
    recorded: u64,
    /// Blocks in which it had too little to say.
    missed: u64,
    /// Samples of the microphone that were not sent, because too many waited.
    not_sent: u64,
}

/// What is heard before a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ringing {
    /// Somebody calls us: two tones in turn.
    Here,
    /// It rings at the other side: the ringing tone, 425 Hz (ITU-T E.180).
    There,
}

impl Headset {
    pub(crate) fn new(card: Box<dyn SoundCard>) -> Self {
        Self {
            card,
            ring: Ring::default(),
            is_playing: false,
            is_recording: false,
            counters: Counters::default(),
        }
    }

    /// What the card is.
    pub(crate) fn name(&self) -> &'static str {
        self.card.name()
    }

    /// Begins a call, or its ring: what the microphone heard before is forgotten.
    pub(crate) fn begin(&mut self) {
        let mut room = [0; 160];
        // As much as any card keeps, at most.
        for _ in 0..64 {
            if self.card.record(&mut room) == 0 {
                break;
            }
        }
        (self.is_playing, self.is_recording) = (false, false);
        self.ring = Ring::default();
        self.counters = Counters::default();
    }

    /// Plays a block of a call.
    pub(crate) fn play(&mut self, block: &[i16]) {
        match self.card.waiting() {
            0 => {
                self.counters.gaps += u64::from(self.is_playing);
                self.card.play(&[0; MARGIN]);
            }
            WAITING_MAX.. => {
                self.counters.not_played += 1;
                return;
            }
            _ => {}
        }
        self.is_playing = true;
        self.card.play(block);
    }

    /// Fills a block with what the microphone hears.
    pub(crate) fn record(&mut self, block: &mut [i16]) {
        let mut waits = self.card.recorded();
        self.counters.asked += 1;
        if !self.is_recording && waits < block.len() + MARGIN {
            self.counters.missed += u64::from(self.counters.asked > BEGINNING);
            return block.fill(0);
        }
        self.is_recording = true;
        if waits > WAITING_MAX {
            self.skip(&mut waits, block.len() + MARGIN);
        }
        let count = self.card.record(block).min(block.len());
        self.counters.recorded += count as u64;
        if count < block.len() {
            self.counters.missed += 1;
            self.is_recording = false;
        }
        if let Some(rest) = block.get_mut(count..) {
            rest.fill(0);
        }
    }

    /// Keeps it ringing. To be called at least every 20 ms; when it is answered, the ring is over within [`MARGIN`].
    pub(crate) fn ring(&mut self, ringing: Ringing) {
        let mut block = [0; 80];
        while self.card.waiting() + block.len() <= MARGIN {
            self.ring.fill(ringing, &mut block);
            let before = self.card.waiting();
            self.card.play(&block);
            if self.card.waiting() <= before {
                break;
            }
        }
    }

    /// Fills a block with what is heard while it rings at the other side.
    pub(crate) fn ring_there(&mut self, block: &mut [i16]) {
        self.ring.fill(Ringing::There, block);
    }

    /// How the call was for it, in words.
    pub(crate) fn summary(&self) -> String {
        let Counters { gaps, not_played, asked, recorded, missed, not_sent } = self.counters;
        let microphone = match (asked, recorded) {
            (0, _) => "not used".to_string(),
            (_, 0) => "GAVE NOTHING".to_string(),
            _ => format!("{missed} gaps, {} ms too many", not_sent / SAMPLES_PER_MS),
        };
        let name = self.card.name();
        format!("{name}: loudspeaker {gaps} gaps, {not_played} blocks too many; microphone {microphone}")
    }

    /// Drops the oldest of the `waits` samples of the microphone down to `keep`.
    fn skip(&mut self, waits: &mut usize, keep: usize) {
        let mut room = [0; 80];
        while *waits > keep {
            let part = room.len().min(*waits - keep);
            let Some(room) = room.get_mut(..part) else { return };
            let count = self.card.record(room);
            if count == 0 {
                return;
            }
            self.counters.not_sent += count as u64;
            *waits -= count.min(*waits);
        }
    }
}

/// A ring: a second of it, four of silence.
#[derive(Debug)]
struct Ring {
    there: Source,
    here: [Source; 2],
    /// Samples since it began.
    place: usize,
}

impl Default for Ring {
    fn default() -> Self {
        let tone = |frequency_hz| Source::Tone { frequency_hz, phase: 0.0 };
        Self { there: tone(425), here: [tone(800), tone(1000)], place: 0 }
    }
}

impl Ring {
    /// The block's samples are all in one part of the rhythm where its length divides 400.
    fn fill(&mut self, ringing: Ringing, block: &mut [i16]) {
        let place = self.place % RING_PERIOD;
        self.place = place + block.len();
        if place >= RING_ON {
            return block.fill(0);
        }
        match ringing {
            Ringing::There => self.there.fill(block),
            Ringing::Here => {
                let [low, high] = &mut self.here;
                let tone = if (place / RING_TURN).is_multiple_of(2) { low } else { high };
                tone.fill(block);
            }
        }
        for sample in block {
            *sample /= RING_SOFTER;
        }
    }
}

/// What waits on purpose, in samples: 30 ms.
const MARGIN: usize = 240;

/// What waits at most, in samples: 120 ms.
const WAITING_MAX: usize = 960;

/// Blocks of a call within which a microphone's margin fills.
const BEGINNING: u64 = 5;

const SAMPLES_PER_MS: u64 = 8;
/// A second of ring in five.
const RING_ON: usize = 8_000;
const RING_PERIOD: usize = 40_000;
/// How long each of the two tones lasts: 50 ms.
const RING_TURN: usize = 400;
/// A quarter of a test tone's loudness: it is near an ear.
const RING_SOFTER: i16 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    /// What a card has been told, and what its microphone hears.
    #[derive(Debug, Default)]
    struct Told {
        waiting: usize,
        played: Vec<i16>,
        microphone: Vec<i16>,
    }

    #[derive(Clone, Debug, Default)]
    struct Fake(Rc<RefCell<Told>>);

    impl SoundCard for Fake {
        fn name(&self) -> &'static str {
            "a fake"
        }

        fn waiting(&mut self) -> usize {
            self.0.borrow().waiting
        }

        fn play(&mut self, samples: &[i16]) {
            let mut told = self.0.borrow_mut();
            told.waiting += samples.len();
            told.played.extend_from_slice(samples);
        }

        fn recorded(&mut self) -> usize {
            self.0.borrow().microphone.len()
        }

        fn record(&mut self, room: &mut [i16]) -> usize {
            let microphone = &mut self.0.borrow_mut().microphone;
            let count = room.len().min(microphone.len());
            for (to, from) in room.iter_mut().zip(microphone.drain(..count)) {
                *to = from;
            }
            count
        }
    }

    impl Fake {
        fn played_by_card(&self, samples: usize) {
            let mut told = self.0.borrow_mut();
            told.waiting = told.waiting.saturating_sub(samples);
        }

        fn hears(&self, samples: usize) {
            self.0.borrow_mut().microphone.extend(vec![7; samples]);
        }
    }

    fn headset() -> (Fake, Headset) {
        let card = Fake::default();
        (card.clone(), Headset::new(Box::new(card)))
    }

    #[test]
    fn a_card_that_keeps_time_plays_everything_after_a_margin() {
        let (card, mut headset) = headset();
        headset.begin();
        for _ in 0..100 {
            headset.play(&[5; 160]);
            card.played_by_card(160);
        }
        let played = &card.0.borrow().played;
        assert_eq!(played.len(), MARGIN + 100 * 160);
        assert!(played[..MARGIN].iter().all(|sample| *sample == 0));
        assert_eq!(headset.counters, Counters::default());
    }

    #[test]
    fn a_slow_card_leaves_blocks_out_and_a_fast_one_has_gaps() {
        let (card, mut headset) = headset();
        for _ in 0..1000 {
            headset.play(&[5; 160]);
            card.played_by_card(150);
        }
        assert!(headset.counters.not_played > 50, "{:?}", headset.counters);
        assert!(card.0.borrow().waiting <= WAITING_MAX + 160);
        card.played_by_card(usize::MAX);
        headset.begin();
        for _ in 0..1000 {
            headset.play(&[5; 160]);
            card.played_by_card(170);
        }
        assert!(headset.counters.gaps > 20 && headset.counters.not_played == 0, "{:?}", headset.counters);
    }

    #[test]
    fn a_microphone_is_heard_after_a_margin_and_its_gaps_are_silence() {
        let (card, mut headset) = headset();
        card.hears(500);
        headset.begin();
        let mut block = [1; 160];
        headset.record(&mut block);
        assert_eq!(block, [0; 160], "what it heard before the call is nobody's business");
        card.hears(160);
        headset.record(&mut block);
        assert_eq!(block, [0; 160], "too little waits");
        for _ in 0..50 {
            card.hears(160);
            headset.record(&mut block);
        }
        assert_eq!(block, [7; 160]);
        card.hears(80);
        let waits = card.0.borrow().microphone.len();
        for _ in 0..=waits / 160 {
            headset.record(&mut block);
        }
        assert!(block.starts_with(&[7; 80]) && block.ends_with(&[0; 80]), "{block:?}");
        assert_eq!(headset.counters.missed, 1);
    }

    #[test]
    fn a_microphone_that_gives_nothing_is_told() {
        let (_, mut headset) = headset();
        headset.begin();
        assert!(headset.summary().ends_with("microphone not used"), "{}", headset.summary());
        for _ in 0..100 {
            headset.record(&mut [1; 160]);
        }
        assert_eq!(headset.counters.missed, 100 - BEGINNING);
        assert!(headset.summary().ends_with("microphone GAVE NOTHING"), "{}", headset.summary());
    }

    #[test]
    fn what_a_fast_microphone_has_too_much_is_skipped() {
        let (card, mut headset) = headset();
        headset.begin();
        let mut block = [0; 160];
        for _ in 0..1000 {
            card.hears(170);
            headset.record(&mut block);
        }
        assert!(card.0.borrow().microphone.len() <= WAITING_MAX);
        assert!(headset.counters.not_sent > 5000 && headset.counters.missed == 0, "{:?}", headset.counters);
        assert!(headset.summary().contains("ms too many"));
    }

    #[test]
    fn a_ring_is_a_second_in_five_and_no_more_waits_than_needed() {
        let (card, mut headset) = headset();
        for _ in 0..5_000 {
            headset.ring(Ringing::Here);
            card.played_by_card(8);
        }
        let played = &card.0.borrow().played;
        assert!((40_000..=40_000 + MARGIN).contains(&played.len()), "{}", played.len());
        assert!(played[..RING_ON].chunks(80).all(|block| block.iter().any(|sample| *sample > 2000)));
        assert!(played[RING_ON..RING_PERIOD].iter().all(|sample| *sample == 0));
    }

    /// A card that takes nothing must not hold the machine up.
    #[test]
    fn a_card_that_does_not_move_holds_nobody_up() {
        #[derive(Debug)]
        struct Dead;
        impl SoundCard for Dead {
            fn name(&self) -> &'static str {
                "a dead card"
            }
            fn waiting(&mut self) -> usize {
                0
            }
            fn play(&mut self, _: &[i16]) {}
            fn recorded(&mut self) -> usize {
                10_000
            }
            fn record(&mut self, _: &mut [i16]) -> usize {
                0
            }
        }
        let mut headset = Headset::new(Box::new(Dead));
        headset.begin();
        headset.ring(Ringing::There);
        headset.play(&[1; 160]);
        headset.record(&mut [0; 160]);
        assert_eq!((headset.counters.gaps, headset.counters.missed), (0, 1));
    }
}
