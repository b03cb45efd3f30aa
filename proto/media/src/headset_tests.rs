//! The headset's buffer with cards that are in time, slow, fast or stopped.

use super::*;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

/// State of a fake card.
#[derive(Debug, Default)]
struct State {
    queued: usize,
    played: Vec<i16>,
    microphone: Vec<i16>,
}

#[derive(Clone, Debug, Default)]
struct Fake(Rc<RefCell<State>>);

impl SoundCard for Fake {
    fn name(&self) -> &str {
        "a fake"
    }

    fn queued(&mut self) -> usize {
        self.0.borrow().queued
    }

    fn play(&mut self, samples: &[i16]) {
        let mut state = self.0.borrow_mut();
        state.queued += samples.len();
        state.played.extend_from_slice(samples);
    }

    fn captured(&mut self) -> usize {
        self.0.borrow().microphone.len()
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
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
        let mut state = self.0.borrow_mut();
        state.queued = state.queued.saturating_sub(samples);
    }

    fn records(&self, samples: usize) {
        self.0.borrow_mut().microphone.extend(vec![7; samples]);
    }
}

fn headset() -> (Fake, Headset<Fake>) {
    let card = Fake::default();
    (card.clone(), Headset::new(card))
}

#[test]
fn a_card_in_time_plays_everything_after_the_margin() {
    let (card, mut headset) = headset();
    headset.start();
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
fn a_slow_card_drops_blocks_and_a_fast_one_has_gaps() {
    let (card, mut headset) = headset();
    for _ in 0..1000 {
        headset.play(&[5; 160]);
        card.played_by_card(150);
    }
    assert!(headset.counters.not_played > 50, "{:?}", headset.counters);
    assert!(card.0.borrow().queued <= QUEUE_MAX + 160);
    card.played_by_card(usize::MAX);
    headset.start();
    for _ in 0..1000 {
        headset.play(&[5; 160]);
        card.played_by_card(170);
    }
    assert!(headset.counters.gaps > 20 && headset.counters.not_played == 0, "{:?}", headset.counters);
}

#[test]
fn a_microphone_is_sent_after_the_margin_and_its_gaps_are_silence() {
    let (card, mut headset) = headset();
    card.records(500);
    headset.start();
    let mut block = [1; 160];
    headset.capture(&mut block);
    assert_eq!(block, [0; 160], "samples from before the call are discarded");
    card.records(160);
    headset.capture(&mut block);
    assert_eq!(block, [0; 160], "the margin is not full yet");
    for _ in 0..50 {
        card.records(160);
        headset.capture(&mut block);
    }
    assert_eq!(block, [7; 160]);
    card.records(80);
    let waits = card.0.borrow().microphone.len();
    for _ in 0..=waits / 160 {
        headset.capture(&mut block);
    }
    assert!(block.starts_with(&[7; 80]) && block.ends_with(&[0; 80]), "{block:?}");
    assert_eq!(headset.counters.missed, 1);
}

#[test]
fn a_microphone_that_gives_nothing_is_reported() {
    let (_, mut headset) = headset();
    headset.start();
    assert!(headset.summary().ends_with("microphone not used"), "{}", headset.summary());
    for _ in 0..100 {
        headset.capture(&mut [1; 160]);
    }
    assert_eq!(headset.counters.missed, 100 - START_BLOCKS);
    assert!(headset.summary().ends_with("microphone GAVE NOTHING"), "{}", headset.summary());
}

#[test]
fn excess_samples_of_a_fast_microphone_are_dropped() {
    let (card, mut headset) = headset();
    headset.start();
    let mut block = [0; 160];
    for _ in 0..1000 {
        card.records(170);
        headset.capture(&mut block);
    }
    assert!(card.0.borrow().microphone.len() <= QUEUE_MAX);
    assert!(headset.counters.not_sent > 5000 && headset.counters.missed == 0, "{:?}", headset.counters);
    assert!(headset.summary().contains("ms too many"));
}

#[test]
fn a_ring_is_a_second_in_five_and_the_queue_stays_short() {
    let (card, mut headset) = headset();
    for _ in 0..5_000 {
        headset.ring(Ringing::Here);
        card.played_by_card(8);
    }
    let played = &card.0.borrow().played;
    assert!((40_000..=40_000 + MARGIN).contains(&played.len()), "{}", played.len());
    assert!(played[..8_000].chunks(80).all(|block| block.iter().any(|sample| *sample > 2000)));
    assert!(played[8_000..40_000].iter().all(|sample| *sample == 0));
}

/// A card that accepts nothing must not block the program.
#[test]
fn a_stopped_card_does_not_block() {
    #[derive(Debug)]
    struct Dead;
    impl SoundCard for Dead {
        fn name(&self) -> &str {
            "a dead card"
        }
        fn queued(&mut self) -> usize {
            0
        }
        fn play(&mut self, _: &[i16]) {}
        fn captured(&mut self) -> usize {
            10_000
        }
        fn capture(&mut self, _: &mut [i16]) -> usize {
            0
        }
    }
    let mut headset = Headset::new(Dead);
    headset.start();
    headset.ring(Ringing::There);
    headset.play(&[1; 160]);
    headset.capture(&mut [0; 160]);
    assert_eq!((headset.counters.gaps, headset.counters.missed), (0, 1));
}
