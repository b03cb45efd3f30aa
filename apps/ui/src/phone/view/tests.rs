//! The pages in 80 by 24, the lines that matter.
//!
//! Tested: every screen and overlay, all locks, small and large windows, and texts that would like to run the terminal.

use super::{help_line, overlay};
use crate::keys::Key;
use crate::phone::model::Event;
use crate::phone::scene::{LADDER, Scene, lines};
use crate::phone::settings::Settings;
use crate::text::{is_typeable, width};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use ringway_phone::{
    CallNumber, CryptoSuite, Hold, MessageDirection, NetworkFacts, PhoneEvent, Protection, SasStatus, Side,
    Signalling, TransferStep,
};

fn talking() -> (Scene, CallNumber) {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:bob@example.org");
    for second in 1..=40 {
        scene.second_of_sound(call, second);
    }
    (scene, call)
}

#[test]
fn the_keypad_says_what_enter_would_do() {
    let mut scene = Scene::new();
    scene.phone(PhoneEvent::Registered { expires_s: 3600 });
    scene.types("bob@192.0.2.7");
    let lines = scene.lines();
    assert_eq!(lines[0], " Ringway  sip:alice@example.org  registered, 1h 0m left                14:03:07");
    assert_eq!(lines[1], "[F2 Keypad] F3 Contacts  F4 Calls  F5 Call  F6 Network  F7 Ladder  F8 Account");
    assert_eq!(lines[4], " Address  bob@192.0.2.7");
    assert_eq!(lines[5], "          Enter calls sip:bob@192.0.2.7 (SRTP if they can)");
    assert!(lines[8].starts_with("  │   1   │   2   │   3   │"), "{}", lines[8]);
    assert!(lines[9].ends_with("1  Bob              sip:bob@example.org"), "{}", lines[9]);
    assert!(lines[23].contains("Enter call") && lines[23].contains("F1 help"));
    scene.press(Key::Ctrl('u'));
    scene.types("4");
    assert!(scene.shows("Enter calls quick dial 4: Carol Danvers"));
}

#[test]
fn the_login_hides_the_password() {
    let mut scene = Scene::with(Settings::default());
    scene.types("alice@example.org");
    scene.press(Key::Down);
    scene.types("topsecret");
    assert_eq!(scene.line("Password"), " > Password       •••••••••");
    assert!(!scene.shows("topsecret") && scene.shows("Welcome") && scene.shows("< udp >"));
    assert!(scene.shows("Never shown"), "{:#?}", scene.lines());
}

#[test]
fn a_call_shows_sound_both_ways_and_its_quality() {
    let (mut scene, call) = talking();
    scene.phone(PhoneEvent::Digit { call, digit: '5' });
    scene.types("12#");
    assert_eq!(scene.line("Bob"), " Bob <sip:bob@example.org>");
    assert_eq!(scene.line("talking"), " 00:00:40, talking, PCMU");
    assert_eq!(
        scene.line("You send"),
        " You send  █████████████████████████···········    -18 dB, 2000 packets"
    );
    assert!(scene.line("You hear").contains("dB, 1997 packets"));
    let delta = scene.line("Delta");
    assert!(delta.contains('▃') && delta.ends_with("20.50 ms, most 22.40"), "{delta}");
    assert!(scene.line("Loss").ends_with("0.0 %, 3 lost of 2000"));
    assert_eq!(scene.line("MOS"), " MOS       4.36  very satisfied");
    assert_eq!(scene.line("Keys"), " Keys      sent 12#, received 5");
}

#[test]
fn the_lock_says_exactly_what_protects_the_call() {
    let (mut scene, call) = talking();
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let sas = "jf4k".to_owned();
    let zrtp = |status| Protection::Zrtp { suite, sas: sas.clone(), status };
    assert_eq!(scene.line("Lock"), " Lock      none");
    for (lock, line, meaning) in [
        (
            Protection::Sdes { suite, signalling: Signalling::Open },
            " Lock      SDES over plain SIP (weak)  AES_CM_128_HMAC_SHA1_80",
            "the key travelled readable",
        ),
        (
            Protection::Sdes { suite, signalling: Signalling::TlsToServer },
            " Lock      SDES over TLS  AES_CM_128_HMAC_SHA1_80",
            "the servers, and who sees SIP behind yours, can listen",
        ),
        (
            Protection::Dtls { suite, signalling: Signalling::Open },
            " Lock      DTLS over plain SIP (weak)  AES_CM_128_HMAC_SHA1_80",
            "who can change SIP on its way can sit between you",
        ),
        (
            Protection::Dtls { suite, signalling: Signalling::TlsToServer },
            " Lock      DTLS  AES_CM_128_HMAC_SHA1_80",
            "only the servers of the call could sit between you",
        ),
        (
            zrtp(SasStatus::FirstCall),
            " Lock      ZRTP  AES_CM_128_HMAC_SHA1_80",
            "SAS jf4k  read it to each other; v: it is equal, V: it is not",
        ),
        (
            zrtp(SasStatus::Compared),
            " Lock      ZRTP  AES_CM_128_HMAC_SHA1_80",
            "SAS jf4k  compared: nobody sits between you",
        ),
        (
            zrtp(SasStatus::Broken),
            " Lock      ZRTP  AES_CM_128_HMAC_SHA1_80",
            "SAS jf4k  UNKNOWN PHONE: compare; v: it is equal, V: it is not",
        ),
        (Protection::None, " Lock      none", "anybody on the way can listen"),
    ] {
        scene.secured(call, lock);
        assert_eq!(scene.line("Lock"), line);
        assert!(scene.shows(meaning), "{meaning}\n{:#?}", scene.lines());
    }
    assert!(scene.line("careful:").contains("no longer protected"));
    scene.phone(PhoneEvent::Securing { call });
    assert_eq!(scene.line("Lock"), " Lock      none");
    assert!(scene.shows("the phones agree on keys"));
}

#[test]
fn who_calls_is_seen_on_every_screen() {
    let eve_calls = |replaces| PhoneEvent::Incoming {
        call: CallNumber(2),
        name: "Eve".into(),
        uri: "sip:eve@example.net".into(),
        bypasses_server: false,
        is_sips: false,
        replaces,
    };
    let (mut scene, call) = talking();
    scene.phone(PhoneEvent::Held { call, hold: Hold::Ours });
    scene.press(Key::Char('m'));
    assert!(scene.line("talking").contains("ON HOLD by you, MUTED"));
    scene.phone(eve_calls(None));
    for key in 2..=8 {
        scene.press(Key::Function(key));
        let banner = scene.line(">>");
        let answer = if matches!(key, 3 | 4 | 7 | 8) { "   F9" } else { "Enter" };
        assert_eq!(
            banner,
            format!(" >> Eve <sip:eve@example.net> calls                 {answer} answer  Ctrl-R reject")
        );
    }
    scene.phone(PhoneEvent::Ended {
        call: CallNumber(2),
        by: Side::Peer,
        status: 487,
        reason: String::new(),
    });
    scene.phone(eve_calls(Some(call)));
    let banner = scene.line(">>");
    assert!(banner.ends_with("Enter answer, ending a call  Ctrl-R reject"), "{banner}");
    scene.bob_calls(3);
    assert!(scene.line(">>").contains("(+1)"));
    scene.press(Key::Function(5));
    assert!(scene.line("Bob").ends_with("call 1 of 3, n shows the next"));
    scene.press(Key::Char('n'));
    assert!(scene.shows("rings here: Enter answers, r rejects"));
    assert!(scene.lines()[23].contains("Enter answer  r reject"));
}

#[test]
fn the_address_of_who_calls_is_seen_behind_any_name() {
    for name in ["Robert ".repeat(20), "山田太郎".repeat(9), "👍🏽 Zoë 🇩🇪".repeat(7)] {
        let mut scene = Scene::new();
        let uri = "sip:mallory@example.net".to_owned();
        scene.phone(PhoneEvent::Incoming {
            call: CallNumber(1),
            name: name.clone(),
            uri,
            bypasses_server: false,
            is_sips: false,
            replaces: None,
        });
        for columns in [60, 80, 132] {
            let cells = scene.cells(columns, 24);
            let banner = cells.row_text(22);
            assert!(columns == 60 || banner.contains("… <sip:mallory@example.net> calls"), "{banner}");
            assert!(banner.contains("sip:mallory@example.net"), "{columns}: {banner}");
            assert!(banner.trim_end().ends_with("Enter answer  Ctrl-R reject"), "{columns}: {banner}");
            assert_eq!(width(&banner), columns, "{banner}");
        }
    }
}

#[test]
fn columns_behind_wide_letters_are_aligned() {
    let mut settings = crate::phone::scene::settings();
    for (contact, name) in settings.contacts.iter_mut().zip(["山田太郎", "👍🏽 Zoë 🇩🇪", "عمر"])
    {
        contact.name = name.to_owned();
    }
    let mut scene = Scene::with(settings);
    scene.press(Key::Function(3));
    let cells = scene.cells(80, 24);
    for row in 4..7 {
        let text = cells.row_text(row);
        let before = text.split("sip:").next().unwrap();
        assert_eq!(width(before), 34, "{text}");
    }
}

#[test]
fn no_line_of_help_is_cut_in_80_columns() {
    let mut scene = Scene::new();
    for line in overlay::HELP {
        assert!(width(line) <= overlay::HELP_COLUMNS, "{line}");
    }
    scene.press(Key::Function(1));
    assert!(lines(&scene.cells(60, 48)).iter().any(|line| line.contains("the last one counts")));
    scene.press(Key::Escape);
    let whole = |scene: &Scene| {
        let line = help_line(&scene.model);
        assert!(width(&line) <= 80, "{line}");
    };
    for key in 2..=8 {
        scene.press(Key::Function(key));
        whole(&scene);
    }
    scene.press(Key::Function(2));
    scene.bob_calls(1);
    whole(&scene);
    scene.press(Key::Function(5));
    whole(&scene);
    scene.talk_to(2, "sip:bob@example.org");
    whole(&scene);
}

#[test]
fn a_transfer_that_is_asked_for_is_shown() {
    let (mut scene, call) = talking();
    scene.phone(PhoneEvent::TransferAsked { call, to: "sip:carol@example.org".into() });
    assert_eq!(
        scene.line(">>"),
        " >> Bob sends you to sip:carol@example.org             F9 call there  Ctrl-R no"
    );
}

#[test]
fn the_call_list_has_live_calls_first() {
    let mut scene = Scene::new();
    let call = scene.talk_to(1, "sip:carol@example.org");
    let (suite, signalling) = (CryptoSuite::AesCm128HmacSha1_80, Signalling::Open);
    scene.secured(call, Protection::Sdes { suite, signalling });
    scene.wait_ms(65_000);
    scene.phone(PhoneEvent::Ended { call, by: Side::Us, status: 0, reason: String::new() });
    let call = scene.bob_calls(2);
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
    let call = CallNumber(3);
    scene.phone(PhoneEvent::Calling { call, to: "sip:door@192.0.2.30".into() });
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 486, reason: "Busy Here".into() });
    scene.talk_to(4, "sip:dan@example.org");
    scene.press(Key::Function(4));
    let lines = scene.lines();
    assert_eq!(lines[4], " > NOW 00:00:00 out  sip:dan@example.org  talking; none");
    assert_eq!(lines[5], "   05-01 14:04  out  Door                 486 Busy Here");
    assert_eq!(lines[6], "   05-01 14:04  in   Bob                  MISSED");
    assert_eq!(lines[7], "   05-01 14:03  out  Carol Danvers        00:01:05; SDES over plain SIP (weak)");
}

#[test]
fn the_network_says_where_we_are() {
    let mut scene = Scene::new();
    scene.press(Key::Function(6));
    assert!(scene.shows("no server is given"));
    scene.phone(PhoneEvent::Network(NetworkFacts {
        addresses: vec![
            ("eth0".into(), "192.0.2.7".parse().unwrap()),
            ("eth0".into(), "2001:db8::7".parse().unwrap()),
        ],
        listening: vec![("SIP udp".into(), "0.0.0.0:5062".parse().unwrap())],
        timing: "without real-time priority: permission denied".into(),
    }));
    scene.phone(PhoneEvent::StunMapped {
        local: "192.0.2.7:40000".parse().unwrap(),
        mapped: "203.0.113.9:31234".parse().unwrap(),
    });
    assert!(scene.line("Account ").contains("sip:alice@example.org, udp through 192.0.2.10:5060"));
    assert_eq!(scene.line("Addresses"), " Addresses   eth0       192.0.2.7");
    assert_eq!(scene.line("2001"), "             eth0       2001:db8::7");
    assert_eq!(scene.line("Listening"), " Listening   SIP udp    0.0.0.0:5062");
    assert_eq!(scene.line("STUN"), " STUN        192.0.2.7:40000 is seen as 203.0.113.9:31234");
    assert!(scene.line("Sending").contains("permission denied"));
}

#[test]
fn the_ladder_shows_times_ways_and_whole_messages() {
    let mut scene = Scene::new();
    for (way, text) in LADDER {
        scene.message(way, text);
        scene.wait_ms(12);
    }
    scene.press(Key::Function(7));
    let lines = scene.lines();
    assert_eq!(lines[4], "   14:03:07.120            ├─ INVITE sip:bob@example.o… ─► 192.0.2.10:5060 udp");
    assert_eq!(lines[5], "   14:03:07.132     +0.012 ◄─ 407 Proxy Authentication… ─┤ 192.0.2.10:5060 udp");
    assert_eq!(lines[8], "   14:03:07.168     +0.012 ◄─ 180 Ringing (INVITE) ──────┤ 192.0.2.10:5060 udp");
    scene.press(Key::Home);
    scene.press(Key::Enter);
    assert_eq!(scene.lines()[3], " 14:03:07.120 sent to 192.0.2.10:5060 by udp");
    assert_eq!(scene.lines()[4], " INVITE sip:bob@example.org SIP/2.0");
    scene.press(Key::PageDown);
    assert!(scene.line("a=crypto").contains("inline:(hidden, k shows it)|2^31"), "{:#?}", scene.lines());
    assert!(!scene.shows("d0RmdmcmVCspeEc3"));
    scene.press(Key::Char('k'));
    assert!(scene.shows("d0RmdmcmVCspeEc3"));
    scene.press(Key::Escape);
    assert!(scene.shows("since"));
}

#[test]
fn overlays_lie_over_the_screen() {
    let (mut scene, call) = talking();
    scene.press(Key::Char('t'));
    scene.types("carol");
    assert!(scene.shows("Send Bob <sip:bob@example.org>") && scene.shows("│ to  carol"));
    scene.press(Key::Escape);
    scene.phone(PhoneEvent::Transfer { call, step: TransferStep::Trying { status: 180 } });
    assert_eq!(scene.line("Transfer"), " Transfer  under way: 180");
    scene.press(Key::Char('?'));
    assert!(scene.shows("answer; another call is held first"));
    for _ in 0..10 {
        scene.press(Key::PageDown);
    }
    assert!(scene.shows("with the SAS that you read to each other."));
    scene.press(Key::Escape);
    scene.press(Key::Char('q'));
    assert!(scene.shows("A call is live.") && scene.shows("y hang up and leave"));
    scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 0, reason: String::new() });
    assert!(scene.shows("The call has ended.") && scene.shows("y leave, any other key stay"));
    scene.press(Key::Escape);
    scene.press(Key::Function(3));
    assert_eq!(scene.line("Bob"), " > 1    Bob                       sip:bob@example.org");
    scene.press(Key::Char('e'));
    assert!(scene.shows("> Name        Bob") && scene.shows("Quick dial  < 1 >"));
    scene.press(Key::Escape);
    scene.press(Key::Char('d'));
    assert!(scene.shows("Delete?"));
}

#[test]
fn nothing_from_the_network_reaches_the_terminal_raw() {
    let evil =
        "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}bob\u{200b}\u{feff}e\u{301}\u{301}\u{301}\u{301}"
            .repeat(20);
    let mut scene = Scene::new();
    let call = CallNumber(1);
    scene.phone(PhoneEvent::Incoming {
        call,
        name: evil.clone(),
        uri: format!("sip:{evil}@x"),
        bypasses_server: false,
        is_sips: false,
        replaces: None,
    });
    scene.phone(PhoneEvent::Answered { call, codec: evil.clone() });
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    scene.secured(call, Protection::Zrtp { suite, sas: evil.clone(), status: SasStatus::FirstCall });
    scene.phone(PhoneEvent::Digit { call, digit: '\u{1b}' });
    scene.phone(PhoneEvent::Transfer {
        call,
        step: TransferStep::Failed { status: 603, reason: evil.clone() },
    });
    scene.phone(PhoneEvent::TransferAsked { call, to: evil.clone() });
    scene.phone(PhoneEvent::OfferRefused { call, status: 488, reason: evil.clone() });
    assert_clean(&scene);
    scene.phone(PhoneEvent::RegistrationFailed { status: 403, reason: evil.clone(), retry_s: Some(5) });
    scene.phone(PhoneEvent::StunFailed { reason: evil.clone() });
    scene.phone(PhoneEvent::Network(NetworkFacts {
        addresses: vec![(evil.clone(), "192.0.2.7".parse().unwrap())],
        listening: vec![(evil.clone(), "192.0.2.7:1".parse().unwrap())],
        timing: evil.clone(),
    }));
    scene.message(
        MessageDirection::Received,
        &format!("INVITE {evil} SIP/2.0\r\nCall-ID: {evil}\r\nX: {evil}\r\n\r\n{evil}"),
    );
    scene.message(MessageDirection::Received, "");
    scene.event(Event::NotSaved(evil.clone()));
    let rings = CallNumber(2);
    scene.phone(PhoneEvent::Incoming {
        call: rings,
        name: evil.clone(),
        uri: evil.clone(),
        bypasses_server: false,
        is_sips: false,
        replaces: None,
    });
    let over = CallNumber(3);
    scene.phone(PhoneEvent::Calling { call: over, to: evil.clone() });
    scene.phone(PhoneEvent::Ended { call: over, by: Side::Peer, status: 999, reason: evil.clone() });
    for key in 2..=8 {
        scene.press(Key::Function(key));
        assert_clean(&scene);
        scene.press(Key::Home);
        scene.press(Key::Enter);
        assert_clean(&scene);
        scene.press(Key::Char('s'));
        scene.press(Key::Char('t'));
        assert_clean(&scene);
        scene.press(Key::Escape);
    }
}

fn assert_clean(scene: &Scene) {
    for (columns, rows) in [(80, 24), (61, 17), (200, 60)] {
        let cells = scene.cells(columns, rows);
        for cell in cells.all() {
            let symbol: String = cell.characters().collect();
            assert!(symbol.chars().all(is_typeable), "{symbol:?}");
            assert!(symbol.chars().count() <= 3, "{symbol:?}");
        }
    }
}

#[test]
fn wide_letters_keep_columns_in_line() {
    let mut scene = Scene::new();
    scene.phone(PhoneEvent::Incoming {
        call: CallNumber(1),
        name: "山田太郎".repeat(20),
        uri: "sip:山@x".into(),
        bypasses_server: false,
        is_sips: false,
        replaces: None,
    });
    scene.press(Key::Function(4));
    let banner = scene.line(">>");
    assert_eq!(crate::text::width(&banner), 79, "{banner}");
    assert!(banner.contains("… <sip:山@x> calls"), "{banner}");
    assert!(banner.ends_with("  Enter answer  Ctrl-R reject"), "{banner}");
}

#[test]
fn any_window_is_drawn_without_a_panic() {
    let (mut scene, _) = talking();
    for (way, text) in LADDER {
        scene.message(way, text);
    }
    scene.bob_calls(2);
    for overlay in [None, Some('t'), Some('?'), Some('q')] {
        scene.press(Key::Function(5));
        if let Some(key) = overlay {
            scene.press(Key::Char(key));
        }
        for (columns, rows) in [(0, 0), (1, 1), (59, 30), (60, 16), (80, 24), (133, 40), (300, 100)] {
            for screen in 2..=8 {
                if overlay.is_none() {
                    scene.press(Key::Function(screen));
                }
                scene.cells(columns, rows);
            }
        }
        scene.press(Key::Escape);
    }
    assert!(lines(&scene.cells(59, 30))[0].contains("larger"));
    // More room is used: longer lists, longer lines.
    scene.press(Key::Function(5));
    let delta = |columns| {
        lines(&scene.cells(columns, 40)).iter().find(|line| line.contains("Delta")).cloned().unwrap()
    };
    assert!(delta(120).chars().filter(|c| ('▁'..='█').contains(c)).count() > 39);
}
