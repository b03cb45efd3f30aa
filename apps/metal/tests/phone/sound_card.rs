//! Phones with a sound card that keeps the time of the test.

use crate::network::{ALICE, BOB, Network, phone_ip};
use crate::tap::share_at;
use ringway_metal::SoundCard;
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::rc::Rc;

/// A card whose microphone hears 700 Hz.
#[derive(Clone, Debug, Default)]
pub(crate) struct Card(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    waiting: usize,
    played: Vec<i16>,
    microphone: Vec<i16>,
    heard: u32,
}

impl Card {
    /// Another millisecond.
    pub(crate) fn pass(&self) {
        let mut state = self.0.borrow_mut();
        state.waiting = state.waiting.saturating_sub(8);
        for _ in 0..8 {
            let phase = TAU * 700.0 * f64::from(state.heard) / 8000.0;
            state.microphone.push((phase.sin() * 8000.0) as i16);
            state.heard += 1;
        }
        // No more is kept.
        let excess = state.microphone.len().saturating_sub(2400);
        state.microphone.drain(..excess);
    }

    /// What it was given to play since it was last asked.
    fn played(&self) -> Vec<i16> {
        std::mem::take(&mut self.0.borrow_mut().played)
    }
}

impl SoundCard for Card {
    fn name(&self) -> &'static str {
        "a card"
    }

    fn waiting(&mut self) -> usize {
        self.0.borrow().waiting
    }

    fn play(&mut self, samples: &[i16]) {
        let mut state = self.0.borrow_mut();
        state.waiting += samples.len();
        state.played.extend_from_slice(samples);
    }

    fn recorded(&mut self) -> usize {
        self.0.borrow().microphone.len()
    }

    fn record(&mut self, room: &mut [i16]) -> usize {
        let microphone = &mut self.0.borrow_mut().microphone;
        let count = room.len().min(microphone.len());
        room.iter_mut().zip(microphone.drain(..count)).for_each(|(to, from)| *to = from);
        count
    }
}

const ALICE_WORDS: &str = "srtp=sdes dial1=sip:phone@192.0.2.11";

#[test]
fn a_call_rings_at_both_ends_and_then_each_hears_the_others_microphone() {
    let mut network = Network::new(&[]);
    let alice = network.add_with_card(ALICE_WORDS);
    let bob = network.add_with_card("srtp=sdes");
    network.wait(BOB, "ready ");
    let screen = network.screen(BOB);
    assert!(screen.contains("the microphone is sent; what is heard is played (a card)"), "{screen}");
    // A second call finds the card where the first one left it.
    for call in 1..=2 {
        network.press(ALICE, '1');
        network.wait(BOB, "calls");
        network.pass_ms(7000);
        let (there, here) = (alice.played(), bob.played());
        assert!(seconds_of(&there, 425.0) > 1.9, "the ringing tone, twice");
        assert!(seconds_of(&here, 800.0) > 0.9 && seconds_of(&here, 1000.0) > 0.9, "the ring, twice");
        assert!(here.len() < 8 * 7300, "no more than is heard: {}", here.len());
        network.press(BOB, '\n');
        network.pass_ms(3000);
        for (phone, card) in [(ALICE, &alice), (BOB, &bob)] {
            assert!(network.tap.share_at(phone_ip(phone), 700.0) > 0.98);
            let played = card.played();
            assert!(seconds_of(&played, 700.0) > 2.5 && seconds_of(&played, 425.0) < 0.1);
        }
        network.press(ALICE, 'h');
        network.pass_ms(500);
        for phone in [ALICE, BOB] {
            let log = network.phones[phone].log();
            assert_eq!(
                log.matches("a card: 0 gaps, 0 blocks too many; microphone 0 gaps, 0 ms too many").count(),
                call
            );
        }
        alice.played();
        bob.played();
    }
}

#[test]
fn a_refused_call_gives_the_card_back() {
    let mut network = Network::new(&[]);
    let alice = network.add_with_card(ALICE_WORDS);
    let bob = network.add_with_card("srtp=sdes");
    network.wait(BOB, "ready ");
    for _ in 0..2 {
        network.press(ALICE, '1');
        network.pass_ms(1000);
        assert!(seconds_of(&alice.played(), 425.0) > 0.8 && seconds_of(&bob.played(), 800.0) > 0.3);
        network.press(BOB, 'h');
        network.pass_ms(100);
        alice.played();
        bob.played();
        network.pass_ms(300);
        assert!(alice.played().is_empty() && bob.played().is_empty(), "silence between calls");
    }
    assert_eq!(network.phones[ALICE].log().matches(": 603 ").count(), 2);
}

#[test]
fn a_microphone_needs_a_sound_card() {
    let mut network = Network::new(&["source=microphone"]);
    network.pass_ms(500);
    let log = network.phones[ALICE].log();
    assert!(log.contains("source=microphone needs a sound card") && log.contains("tone:HZ"), "{log}");
    assert!(!network.phones[ALICE].machine.is_ready());
}

/// For how long a tone is heard, and nothing else.
fn seconds_of(samples: &[i16], frequency_hz: f64) -> f64 {
    let is_it = |window: &&[i16]| {
        window.iter().any(|sample| sample.unsigned_abs() > 1000) && share_at(window, frequency_hz) > 0.8
    };
    samples.chunks_exact(400).filter(is_it).count() as f64 * 0.05
}
