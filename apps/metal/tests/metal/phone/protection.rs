//! Protection of calls, and mapped ports.

use crate::phone::helper::MAPPED;
use crate::phone::network::{ALICE, BOB, Network, phone_ip};

fn talking(alice: &str, bob: &str) -> Network {
    let alice = format!("dial1=sip:phone@192.0.2.11 source=tone:440 {alice}");
    let mut network = Network::new(&[&alice, &format!("answer=auto {bob}")]);
    network.pass_ms(50);
    network.dial(ALICE, 1);
    network
}

/// The SAS on a screen.
fn sas(screen: &str) -> String {
    let after = screen.split("SAS ").nth(1).unwrap_or_default();
    after.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn with_zrtp_both_screens_show_the_same_string_and_nobody_on_the_cable_hears_the_call() {
    let mut network = talking("srtp=zrtp", "srtp=zrtp");
    network.wait(ALICE, "by ZRTP; compare by voice");
    network.wait(BOB, "by ZRTP; compare by voice");
    network.pass_ms(2000);
    network.page(BOB, 5);
    let (here, there) = (network.screen(ALICE), network.screen(BOB));
    assert_eq!(sas(&here), sas(&there), "{here}");
    assert!(sas(&here).len() >= 4 && here.contains("read it to each other"), "{here}");
    network.press(ALICE, 'v');
    assert!(network.screen(ALICE).contains("compared: nobody sits between you"));
    // The packets on the cable contain no tone.
    assert!(network.tap.share_at(phone_ip(ALICE), 440.0) < 0.1);
    network.hang_up(ALICE);
    network.wait(ALICE, "a wrong tag");
    let summary = network.phones[ALICE].line("sound: ");
    assert!(summary.contains("sound: ZRTP, ") && summary.contains(", 0 with a wrong tag"), "{summary}");
}

#[test]
fn without_srtp_the_screen_says_that_everybody_can_listen() {
    let mut network = talking("srtp=none", "");
    network.wait(ALICE, "connected");
    network.pass_ms(1500);
    let screen = network.screen(ALICE);
    assert!(screen.contains("anybody on the way can listen"), "{screen}");
    assert!(network.tap.share_at(phone_ip(ALICE), 440.0) > 0.95);
}

#[test]
fn a_call_is_not_made_with_less_protection_than_one_side_asks_for() {
    let mut network = talking("srtp=sdes", "srtp=none");
    network.wait(ALICE, "488 ");
    let mut network = talking("srtp=zrtp", "srtp=none");
    network.wait(ALICE, "the call is ended: ZRTP");
    network.wait(ALICE, "call: sip:phone@192.0.2.11: ");
    // ZRTP's own packets are no sound.
    assert_eq!(network.tap.sound(phone_ip(ALICE)).1, 0);
}

#[test]
fn a_stun_server_by_name_says_what_is_offered() {
    let mut network = talking("stun=stun.example.org", "");
    network.wait(ALICE, &format!("is mapped to {MAPPED}"));
    network.wait(ALICE, "connected");
    let invite = network.tap.messages("INVITE").next().unwrap().to_owned();
    assert!(invite.contains("c=IN IP4 198.51.100.9\r\n") && invite.contains("m=audio 40000 "), "{invite}");
    assert!(invite.contains("a=rtcp:41414\r\n"), "{invite}");
}

#[test]
fn a_stun_server_that_says_nothing_or_has_no_address_costs_three_seconds_at_most() {
    let mut network = Network::new(&["dial1=sip:phone@192.0.2.11 stun=192.0.2.2", "answer=auto"]);
    network.pass_ms(50);
    let now = network.now;
    network.helper.call(now, |helper, _| helper.is_mute = true);
    network.dial(ALICE, 1);
    network.pass_ms(2500);
    assert_eq!(network.tap.messages("INVITE").count(), 0);
    network.wait(ALICE, "our own address is offered");
    network.wait(ALICE, "connected");
    assert!(network.tap.messages("INVITE").next().unwrap().contains("c=IN IP4 192.0.2.10\r\n"));
    // There is no IPv6 here.
    for server in ["nobody.example.org", "[2001:db8::1]"] {
        let mut network = talking(&format!("stun={server}"), "");
        network.wait(ALICE, &format!("no address is known for {server}"));
        network.wait(ALICE, "connected");
    }
}

#[test]
fn an_address_given_from_outside_is_what_others_get() {
    let mut network = talking("outside=198.51.100.1:15060 rtp=20000", "");
    network.pass_ms(500);
    let invite = network.tap.messages("INVITE").next().unwrap().to_owned();
    assert!(invite.contains("198.51.100.1:15060") && invite.contains("m=audio 20000 "), "{invite}");
    assert!(invite.contains("c=IN IP4 198.51.100.1\r\n"), "{invite}");
    network.wait(BOB, "connected");
}
