//! Phones with a sound card that keeps the time of the test.

use crate::phone::network::{ALICE, BOB, Network, phone_ip};
use ringway_metal::SoundCard;
use ringway_test_support::tone::share_at;
use std::cell::RefCell;
use std::f64::consts::TAU;
use std::rc::Rc;

/// A card whose microphone delivers 700 Hz.
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

    /// Sound that it got to play since the last call.
    fn played(&self) -> Vec<i16> {
        std::mem::take(&mut self.0.borrow_mut().played)
    }
}

impl SoundCard for Card {
    fn name(&self) -> &str {
        "a card"
    }

    fn queued(&mut self) -> usize {
        self.0.borrow().waiting
    }

    fn play(&mut self, samples: &[i16]) {
        let mut state = self.0.borrow_mut();
        state.waiting += samples.len();
        state.played.extend_from_slice(samples);
    }

    fn captured(&mut self) -> usize {
        self.0.borrow().microphone.len()
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
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
    assert!(screen.contains("microphone sent, sound played (a card)"), "{screen}");
    // A second call finds the card where the first one left it.
    for call in 1..=2 {
        network.dial(ALICE, 1);
        network.wait(BOB, "calls");
        network.pass_ms(7000);
        let (there, here) = (alice.played(), bob.played());
        assert!(seconds_of(&there, 425.0) > 1.9, "the ringing tone, twice");
        assert!(seconds_of(&here, 800.0) > 0.9 && seconds_of(&here, 1000.0) > 0.9, "the ring, twice");
        assert!(here.len() < 8 * 7300, "no more than is heard: {}", here.len());
        network.answer(BOB);
        network.pass_ms(3000);
        for (phone, card) in [(ALICE, &alice), (BOB, &bob)] {
            assert!(network.tap.share_at(phone_ip(phone), 700.0) > 0.98);
            let played = card.played();
            assert!(seconds_of(&played, 700.0) > 2.5 && seconds_of(&played, 425.0) < 0.1);
        }
        network.hang_up(ALICE);
        network.pass_ms(500);
        for phone in [ALICE, BOB] {
            let log = network.phones[phone].log();
            assert_eq!(
                log.matches(
                    "a card: loudspeaker 0 gaps, 0 blocks too many; microphone 0 gaps, 0 ms too many"
                )
                .count(),
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
        network.dial(ALICE, 1);
        network.pass_ms(1000);
        assert!(seconds_of(&alice.played(), 425.0) > 0.8 && seconds_of(&bob.played(), 800.0) > 0.3);
        network.hang_up(BOB);
        network.pass_ms(100);
        alice.played();
        bob.played();
        network.pass_ms(300);
        assert!(alice.played().is_empty() && bob.played().is_empty(), "silence between calls");
    }
    assert_eq!(network.phones[ALICE].log().matches(": 603 ").count(), 2);
}

#[test]
fn who_is_on_hold_does_not_hear_the_microphone() {
    let mut network = Network::new(&[]);
    network.add_with_card(ALICE_WORDS);
    network.add_with_card("srtp=sdes");
    network.wait(BOB, "ready ");
    network.dial(ALICE, 1);
    network.wait(BOB, "calls");
    network.answer(BOB);
    network.pass_ms(1500);
    assert!(network.tap.share_at(phone_ip(ALICE), 700.0) > 0.98);
    network.press(ALICE, 'h');
    network.wait(BOB, "the other side holds it");
    network.pass_ms(1200);
    let (sound, _) = network.tap.sound(phone_ip(ALICE));
    assert!(sound[sound.len() - 8000..].iter().all(|sample| sample.unsigned_abs() < 10));
    network.press(ALICE, 'h');
    network.wait(BOB, "the other side is back");
    network.pass_ms(1200);
    assert!(network.tap.share_at(phone_ip(ALICE), 700.0) > 0.98);
}

#[test]
fn what_answers_by_itself_sends_no_microphone_unless_it_is_set_to() {
    let mut network = Network::new(&[]);
    network.add_with_card("answer=auto");
    network.add_with_card("answer=auto source=microphone");
    network.wait(BOB, "ready ");
    assert!(network.screen(ALICE).contains("recorded voice sent, sound played (a card)"));
    assert!(network.screen(BOB).contains("microphone sent, sound played (a card)"));
}

const SDP: &str =
    "v=0\r\no=- 1 1 IN IP4 192.0.2.2\r\ns=-\r\nc=IN IP4 192.0.2.2\r\nt=0 0\r\nm=audio 16384 RTP/AVP 0\r\n";

/// An answer to a request, with a tag of ours and this body.
fn answer(request: &str, line: &str, body: &str) -> String {
    let copied = request.lines().filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        ["Via", "From", "To", "Call-ID", "CSeq"].contains(&name)
    });
    let mut text = format!("SIP/2.0 {line}\r\n");
    for field in copied {
        let tag = if field.starts_with("To:") && !field.contains(";tag=") { ";tag=helper" } else { "" };
        text += &format!("{field}{tag}\r\n");
    }
    let length = body.len();
    text + &format!(
        "Contact: <sip:x@192.0.2.2>\r\nContent-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn a_description_alone_is_no_sound_and_who_hangs_up_is_neither_heard_nor_hears() {
    let mut network = Network::new(&[]);
    let alice = network.add_with_card("srtp=none dial1=sip:x@192.0.2.2");
    network.wait(ALICE, "ready ");
    network.dial(ALICE, 1);
    network.pass_ms(100);
    let invite = network.helper.node().unwrap().heard("INVITE").to_owned();
    network.say(ALICE, &answer(&invite, "180 Ringing", SDP));
    network.pass_ms(1000);
    assert!(seconds_of(&alice.played(), 425.0) > 0.8, "it rings, since nothing is heard from there");
    network.hang_up(ALICE);
    network.pass_ms(100);
    assert!(network.helper.node().unwrap().heard("CANCEL").contains("CSeq: "));
    let (_, before) = network.tap.sound(phone_ip(ALICE));
    alice.played();
    // Its INVITE is never answered, and more comes that belongs to a call.
    network.say(ALICE, &answer(&invite, "183 Session Progress", SDP));
    network.pass_ms(5000);
    assert!(alice.played().is_empty() && network.tap.sound(phone_ip(ALICE)).1 == before);
    assert!(network.screen(ALICE).contains("hanging up"));
}

#[test]
fn a_second_enter_while_the_other_side_does_not_know_yet_costs_nothing() {
    let mut network = Network::new(&[]);
    network.add_with_card(ALICE_WORDS);
    let bob = network.add_with_card("srtp=sdes");
    network.wait(BOB, "ready ");
    // Without a description: ours is the offer, and the answer comes with the ACK.
    let head = |method: &str, number: u32, to: &str| {
        format!(
            "{method} sip:phone@192.0.2.11 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2;branch=z9hG4bK{method}{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:x@192.0.2.2>;tag=x\r\nTo: {to}\r\nCall-ID: late\r\n\
             CSeq: {number} {method}\r\nContact: <sip:x@192.0.2.2>\r\nContent-Length: 0\r\n\r\n"
        )
    };
    network.say(BOB, &head("INVITE", 1, "<sip:phone@192.0.2.11>"));
    network.wait(BOB, "sip:x@192.0.2.2 calls");
    network.answer(BOB);
    network.pass_ms(100);
    assert!(network.screen(BOB).contains("answering"));
    network.answer(BOB);
    assert!(!network.phones[BOB].log().contains("not answered"));
    network.hang_up(BOB);
    let ok = network.helper.node().unwrap().heard("SIP/2.0 200").to_owned();
    let to = ok.lines().find_map(|line| line.strip_prefix("To: ")).unwrap();
    network.say(BOB, &head("ACK", 1, to));
    let bye = network.helper.node().unwrap().heard("BYE").to_owned();
    network.say(BOB, &answer(&bye, "200 OK", ""));
    let screen = network.screen(BOB);
    assert!(screen.contains("sip:x@192.0.2.2") && screen.contains("over: "), "{screen}");
    bob.played();
    network.dial(ALICE, 1);
    network.wait(BOB, "192.0.2.10 calls");
    network.pass_ms(1000);
    assert!(seconds_of(&bob.played(), 800.0) > 0.3, "the card is where it was");
    network.answer(BOB);
    network.pass_ms(1500);
    assert!(network.tap.share_at(phone_ip(BOB), 700.0) > 0.98);
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
