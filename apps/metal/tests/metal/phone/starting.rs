//! From the command line to an account that can be called, or to the reason why not.

use ringway_metal::Program;

use crate::phone::network::{ALICE, BOB, Network};

#[test]
fn a_server_is_found_by_name_and_a_wrong_password_is_reported() {
    let mut network = Network::new(&[
        "account=sip:alice@example.org password=wonderland server=pbx.example.org",
        "account=sip:bob@example.org password=mistyped server=192.0.2.1",
    ]);
    network.wait(ALICE, "sip:alice@example.org is registered for 3600 s");
    network.wait(BOB, "is NOT registered: 401");
    let screen = network.screen(BOB);
    assert!(screen.contains("NOT REGISTERED: 401"), "{screen}");
    assert!(!network.phones[BOB].log().contains("mistyped") && !screen.contains("mistyped"));
}

#[test]
fn a_server_that_is_not_there_is_asked_again() {
    let mut network = Network::new(&["account=sip:alice@example.org password=wonderland server=192.0.2.77"]);
    network.wait(ALICE, "is NOT registered: ");
    network.page(ALICE, 6);
    assert!(network.screen(ALICE).contains("again in"));
    assert!(network.phones[ALICE].machine.is_ready());
}

#[test]
fn wrong_words_stop_the_phone_and_name_what_is_wrong() {
    let mut network = Network::new(&["srtp=best source=radio color=red fault=stop"]);
    network.pass_ms(2000);
    let log = network.phones[ALICE].log();
    for word in ["source=radio", "color=red"] {
        assert_eq!(log.matches(&format!("command line: {word}: ")).count(), 1, "{word} once: {log}");
    }
    assert!(log.contains("the phone does not start") && !log.contains("fault"), "{log}");
    assert!(!network.phones[ALICE].machine.is_ready());
    assert!(network.screen(ALICE).contains("NOT REGISTERED: command line: source=radio"));
    network.dial(ALICE, 1);
}

#[test]
fn without_randomness_there_are_neither_keys_nor_passwords() {
    let mut network = Network::new(&[]);
    network.add("ip=192.0.2.10/24", None);
    network.add("ip=192.0.2.11/24 srtp=none", None);
    network.pass_ms(2000);
    assert!(network.phones[ALICE].log().contains("neither RDRAND nor virtio-rng"));
    assert!(!network.phones[ALICE].machine.is_ready() && network.phones[BOB].machine.is_ready());
}

#[test]
fn the_serial_line_has_the_page_after_a_key_and_the_log_after_q() {
    let mut network = Network::new(&["dial1=sip:bob@192.0.2.77"]);
    network.wait(ALICE, "ready udp:");
    let machine = &mut network.phones[ALICE].machine;
    machine.on_serial_byte(network.now, b' ');
    network.pass_ms(3000);
    assert!(network.phones[ALICE].log().contains("Quick dial"));
    for byte in *b"\x1b1" {
        network.phones[ALICE].machine.on_serial_byte(network.now, byte);
    }
    network.pass_ms(500);
    network.phones[ALICE].machine.on_serial_byte(network.now, b'q');
    network.wait(ALICE, "call: calling sip:bob@192.0.2.77");
}
