//! Strangers, long messages, and small windows.

use crate::keys::Key;
use crate::phone::scene::{Scene, lines};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use ringway_phone::{CallNumber, CryptoSuite, PhoneEvent, Protection, SasStatus, Side};

fn calls(scene: &mut Scene, number: u64, (name, uri): (&str, &str), bypasses_server: bool) -> CallNumber {
    let call = CallNumber(number);
    scene.phone(PhoneEvent::Incoming {
        call,
        name: name.into(),
        uri: uri.into(),
        bypasses_server,
        is_sips: false,
        replaces: None,
    });
    call
}

#[test]
fn a_caller_who_bypasses_the_server_is_marked_even_with_a_contacts_address() {
    let mut scene = Scene::new();
    let call = calls(&mut scene, 1, ("Bob Bäcker", "sip:bob@example.org"), true);
    assert!(scene.line(">>").starts_with(" >> (direct) B"), "{}", scene.line(">>"));
    scene.press(Key::Function(5));
    assert!(scene.line("(direct)").starts_with(" (direct) Bob Bäcker <sip:bob@example.org>"));
    assert!(scene.shows("not through your server, nobody verified the address"));
    scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 486, reason: String::new() });
    assert!(scene.shows("you rejected (direct) sip:bob@example.org"));
    let call = calls(&mut scene, 2, ("Bob", "sip:bob@example.org"), false);
    assert!(scene.line(">>").starts_with(" >> Bob <sip:bob@example.org> calls"));
    scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 486, reason: String::new() });
    let long = format!("sip:{}@example.org", "b".repeat(60));
    let call_of_long = calls(&mut scene, 3, ("Bob", &long), true);
    assert!(scene.line(">>").starts_with(" >> (direct) sip:bbbb"), "{}", scene.line(">>"));
    scene.phone(PhoneEvent::Ended { call: call_of_long, by: Side::Us, status: 486, reason: String::new() });
    scene.press(Key::Function(4));
    let lines = scene.lines().split_off(1);
    assert!(lines[4].contains("in   Bob                  rejected"), "{}", lines[4]);
    assert!(lines[5].contains("in   (direct) sip:bob@ex… rejected"), "{}", lines[5]);
    let mut next = Scene::new();
    assert_eq!(next.model.set_past_calls(&scene.model.past_calls()), 0);
    next.press(Key::Function(4));
    assert_eq!(next.lines()[5..7], lines[4..6], "the file keeps the mark");
}

#[test]
fn the_call_list_names_contacts_and_shows_the_address_of_others_in_the_order_of_their_beginning() {
    let mut scene = Scene::new();
    let first = calls(&mut scene, 1, ("Bob", "sip:eve@example.net"), false);
    scene.wait_ms(60_000);
    let second = scene.bob_calls(2);
    scene.phone(PhoneEvent::Ended { call: second, by: Side::Peer, status: 487, reason: String::new() });
    scene.press(Key::Function(4));
    scene.press(Key::Down);
    scene.wait_ms(60_000);
    scene.phone(PhoneEvent::Ended { call: first, by: Side::Peer, status: 487, reason: String::new() });
    let lines = scene.lines();
    assert_eq!(lines[4], " > 05-01 14:04  in   Bob                  MISSED", "it stays chosen");
    assert_eq!(lines[5], "   05-01 14:03  in   sip:eve@example.net  MISSED");
}

#[test]
fn a_sound_card_that_fails_is_shown_as_long_as_it_does() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    let what = "no microphone, retrying: there is none".to_owned();
    scene.phone(PhoneEvent::Sound { what, is_working: false });
    scene.wait_ms(60_000);
    scene.second_of_sound(call, 1);
    assert_eq!(scene.line("Sound"), " Sound     no microphone, retrying: there is none");
    scene.phone(PhoneEvent::Sound { what: "the microphone works again".to_owned(), is_working: true });
    assert!(!scene.shows("no microphone"));
    scene.phone(PhoneEvent::Sound { what: "no sound server".to_owned(), is_working: false });
    scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 200, reason: String::new() });
    scene.talk_to(2, "sip:bob@example.org");
    assert!(!scene.shows("no sound server"), "that was another call");
}

#[test]
fn a_long_message_has_two_lines_and_the_network_page_the_whole_reason() {
    let mut scene = Scene::new();
    let advice = "give the one that the operator of the server told you, in phone.toml";
    let reason = format!("the user name or password is wrong; {advice}");
    scene.phone(PhoneEvent::RegistrationFailed { status: 401, reason: reason.clone(), retry_s: Some(30) });
    let shown = scene.lines();
    assert_eq!(
        format!("{} {}", shown[21].trim(), shown[22].trim()),
        format!("failed: not registered: 401 {reason}")
    );
    scene.press(Key::Function(6));
    assert!(
        scene.line("Registered").contains("NOT REGISTERED: 401 the user name or password is wrong; give")
    );
    assert!(scene.shows("told you, in phone.toml;"), "{:#?}", scene.lines());
    scene.phone(PhoneEvent::Registered { expires_s: 90 });
    assert_eq!(scene.line("Registered"), " Registered  1m 30s left");
    scene.phone(PhoneEvent::Refused { what: "short".to_owned() });
    assert_eq!(scene.lines()[21], scene.lines()[2], "the rule is back");
}

#[test]
fn a_narrow_window_has_every_tab_and_only_calls_with_a_sas_have_its_key() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    let narrow = lines(&scene.cells(60, 16));
    assert_eq!(narrow[1], " F2  F3  F4 [F5 Call] F6  F7  F8");
    assert!(!scene.lines()[23].contains("SAS"));
    let status = SasStatus::FirstCall;
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    scene.secured(call, Protection::Zrtp { suite, sas: "jf4k".to_owned(), status });
    assert!(scene.lines()[23].contains("v SAS equal"));
}
