//! Calls from the first key to the last.

use crate::phone::network::{ALICE, BOB, CAROL, Network, phone_ip};

const ALICE_WORDS: &str = "account=sip:alice@example.org password=wonderland server=192.0.2.1 srtp=sdes source=tone:440 \
                           dial1=sip:bob@example.org dial2=sip:carol@example.org";
const BOB_WORDS: &str =
    "account=sip:bob@example.org password=builder server=192.0.2.1 srtp=sdes source=tone:1000 answer=auto";

fn registered(words: &[&str]) -> Network {
    let mut network = Network::new(words);
    for phone in 0..words.len() {
        network.wait(phone, "is registered for");
    }
    network
}

/// Quality of the last call's sound, as logged.
fn summary(network: &Network, phone: usize) -> String {
    network.phones[phone].line("sound: ").to_owned()
}

#[test]
fn phones_register_with_digest_and_talk_with_srtp_through_the_server() {
    let mut network = registered(&[ALICE_WORDS, BOB_WORDS]);
    assert!(network.tap.messages("SIP/2.0 401").count() >= 2, "both were asked for their passwords");
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected, PCMU");
    network.pass_ms(5000);
    let screen = network.screen(ALICE);
    for wanted in [
        "registered, ",
        "sip:bob@example.org",
        "SDES over plain SIP (weak)",
        "test tone sent, sound measured only",
        "PCMU",
    ] {
        assert!(screen.contains(wanted), "{wanted}:\n{screen}");
    }
    assert!(screen.contains("20.00 ms") && screen.contains("MOS"), "{screen}");
    network.hang_up(ALICE);
    network.wait(ALICE, "sip:bob@example.org: ended");
    network.wait(BOB, "sip:alice@example.org: ended");
    network.wait(ALICE, "a wrong tag");
    network.wait(BOB, "a wrong tag");
    for (phone, frequency_hz) in [(ALICE, 440.0), (BOB, 1000.0)] {
        let text = summary(&network, phone);
        for wanted in [
            "SDES over plain SIP (weak), AEAD_AES_256_GCM",
            " 0 lost, 0 with a wrong tag",
            ", 0 left out",
            "MOS 4.3",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(network.tap.share_at(phone_ip(phone), frequency_hz) > 0.98);
        let (_, packets) = network.tap.sound(phone_ip(phone));
        assert!((255..280).contains(&packets), "{packets}");
    }
    let screen = network.screen(ALICE);
    assert!(screen.contains("sip:bob@example.org") && screen.contains("over: you hung up"), "{screen}");
}

#[test]
fn hold_resume_and_keys_reach_the_other_side() {
    let mut network = registered(&[ALICE_WORDS, BOB_WORDS]);
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected");
    network.pass_ms(1000);
    for digit in ['5', '0', '9'] {
        network.press(ALICE, digit);
    }
    network.wait(BOB, "key pressed there: 9");
    let pressed: Vec<_> = network.phones[BOB]
        .log()
        .lines()
        .filter_map(|line| line.split("there: ").nth(1))
        .map(str::to_owned)
        .collect();
    assert_eq!(pressed, ["5", "0", "9"]);
    network.press(ALICE, 'h');
    network.wait(BOB, "the other side holds it");
    assert!(network.screen(ALICE).contains("ON HOLD by you"));
    let (_, before) = network.tap.sound(phone_ip(BOB));
    network.pass_ms(2000);
    let (_, held) = network.tap.sound(phone_ip(BOB));
    assert!(held - before < 3, "who is held sends nothing: {}", held - before);
    network.press(ALICE, 'h');
    network.wait(BOB, "the other side is back");
    network.pass_ms(2000);
    assert!(network.tap.sound(phone_ip(BOB)).1 - held > 80);
    // The other way round: who was called hangs up.
    network.hang_up(BOB);
    network.wait(ALICE, "ended");
    network.wait(ALICE, "a wrong tag");
    assert!(summary(&network, ALICE).contains(", 0 with a wrong tag"), "{}", summary(&network, ALICE));
}

#[test]
fn an_echo_sends_back_what_it_hears_and_a_voice_can_be_heard() {
    let bob = BOB_WORDS.replace("tone:1000", "echo");
    let alice = ALICE_WORDS.replace("source=tone:440", "source=tone:600");
    let mut network = registered(&[&alice, &bob]);
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected");
    network.pass_ms(3000);
    assert!(network.tap.share_at(phone_ip(BOB), 600.0) > 0.95);
    let bob = BOB_WORDS.replace("tone:1000", "voice");
    let mut network = registered(&[ALICE_WORDS, &bob]);
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected");
    network.pass_ms(4000);
    let (sound, _) = network.tap.sound(phone_ip(BOB));
    let loud =
        sound.chunks(800).filter(|block| block.iter().any(|sample| sample.unsigned_abs() > 2000)).count();
    assert!(loud > 15 && network.tap.share_at(phone_ip(BOB), 440.0) < 0.5, "{loud}");
}

#[test]
fn a_call_rings_until_somebody_answers_or_refuses_and_a_second_one_gets_busy() {
    let bob = BOB_WORDS.replace("answer=auto", "answer=ask");
    let carol = "account=sip:carol@example.org password=carol server=192.0.2.1 dial3=sip:bob@example.org";
    let mut network = registered(&[ALICE_WORDS, &bob, carol]);
    network.dial(ALICE, 1);
    network.wait(ALICE, "it rings there");
    let screen = network.screen(BOB);
    assert!(
        screen.contains("calls ")
            && screen.contains("Enter answer")
            && screen.contains("sip:alice@example.org"),
        "{screen}"
    );
    network.hang_up(BOB);
    network.wait(ALICE, "603 ");
    network.dial(ALICE, 1);
    network.pass_ms(500);
    network.answer(BOB);
    network.wait(ALICE, "connected");
    network.dial(CAROL, 3);
    network.wait(CAROL, "486 ");
    assert!(network.phones[BOB].log().contains("sip:carol@example.org calls too"));
    assert!(network.screen(BOB).contains("talking"), "the first call goes on");
    // Giving up before anybody answers.
    network.hang_up(ALICE);
    network.wait(BOB, "sip:alice@example.org: ended");
    network.dial(ALICE, 2);
    network.pass_ms(300);
    network.hang_up(ALICE);
    network.wait(CAROL, "487 ");
}

#[test]
fn a_key_that_nobody_has_and_one_that_is_not_registered_say_so() {
    let mut network = registered(&[ALICE_WORDS.replace("dial1", "dial3").as_str()]);
    network.dial(ALICE, 1);
    let screen = network.screen(ALICE);
    assert!(screen.contains("nobody has quick dial 1; give dial1=URI"), "{screen}");
    network.dial(ALICE, 3);
    network.wait(ALICE, "sip:bob@example.org: 480 ");
}

#[test]
fn without_a_server_phones_call_each_other_by_address_and_tcp_carries_calls_too() {
    let mut network = Network::new(&[
        "dial1=sip:phone@192.0.2.11 source=tone:440 srtp=sdes",
        "answer=auto source=tone:500 srtp=sdes",
    ]);
    network.wait(BOB, "ready udp:192.0.2.11:5060");
    assert!(network.screen(ALICE).contains("not registered"));
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected");
    network.pass_ms(1500);
    assert!(network.tap.share_at(phone_ip(BOB), 500.0) > 0.95);
    let words = [format!("{ALICE_WORDS} transport=tcp"), format!("{BOB_WORDS} transport=tcp")];
    let mut network = registered(&[&words[0], &words[1]]);
    network.dial(ALICE, 1);
    network.wait(ALICE, "connected");
    network.pass_ms(1500);
    network.hang_up(ALICE);
    network.wait(BOB, "ended");
    assert!(network.server.connections_len() >= 2);
}
