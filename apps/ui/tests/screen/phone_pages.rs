//! The phone's screen.

use crate::picture::check;
use crate::scene::network;
use ringway_sansio::Instant;
use ringway_ui::image_phone::{
    Call, Command, Facts, Hold, Phase, Phone, Quick, Registration, Security, Sound,
};
use ringway_ui::{Cells, Key, Level};
use std::time::Duration;

const QUICK: [Quick<'static>; 6] = [
    Quick { name: "Bob", uri: "sip:bob@example.org" },
    Quick { name: "Carol", uri: "sip:carol@example.org" },
    Quick { name: "Front desk", uri: "sip:100@example.org" },
    Quick { name: "", uri: "sip:200@example.org" },
    Quick { name: "A very long name", uri: "sip:somebody.with.a.long.name@example.org" },
    Quick { name: "Echo", uri: "sip:echo@192.0.2.77:5070" },
];

const SOUND: Sound = Sound {
    sent_db: -18.0,
    received_db: -42.4,
    sent_packets: 4_180,
    received_packets: 4_109,
    lost_packets: 63,
    delta_ms: 20.01,
    delta_ms_max: 61.7,
    jitter_ms: 0.42,
    jitter_ms_max: 3.1,
    mos: Some(4.06),
};

fn facts() -> Facts<'static> {
    Facts {
        version: "0.1.0",
        uptime: Duration::from_secs(754),
        own: b"sip:alice@example.org",
        registration: Registration::Registered { left: Duration::from_secs(3412) },
        quick: &QUICK,
        call: None,
        last: Some(b"busy here (486)"),
        sound: "test tone sent, sound measured only",
        network: network(),
    }
}

fn call(phase: Phase) -> Call<'static> {
    Call {
        phase,
        name: b"Bob",
        uri: b"sip:bob@example.org",
        codec: "PCMA",
        hold: Hold::None,
        security: Security::None,
        digits: "",
        sound: None,
    }
}

fn drawn(facts: &Facts<'_>) -> Cells {
    let mut cells = Cells::new();
    Phone::new(Instant::from_secs(1)).draw(Instant::from_secs(1), facts, &mut cells);
    cells
}

#[test]
fn without_a_call() {
    check("phone-idle", &drawn(&facts()));
}

#[test]
fn without_a_registration() {
    let reason = "Forbidden, and a long story about why that is so and will stay so".as_bytes();
    let retry = Some(Duration::from_secs(75));
    let failed = Facts { registration: Registration::Failed { reason, retry }, last: None, ..facts() };
    check("phone-not-registered", &drawn(&Facts { quick: &[], ..failed }));
}

#[test]
fn somebody_calls() {
    let call = Call { codec: "", ..call(Phase::RingsHere) };
    check("phone-rings", &drawn(&Facts { call: Some(call), ..facts() }));
}

#[test]
fn talking_with_zrtp() {
    let security = Security::Zrtp { suite: "AES_CM_128_HMAC_SHA1_80", sas: "k4pe", is_compared: false };
    let talking = Phase::Talking(Duration::from_secs(83));
    let call = Call { security, digits: "12#", sound: Some(SOUND), ..call(talking) };
    check("phone-zrtp", &drawn(&Facts { call: Some(call), ..facts() }));
}

#[test]
fn talking_on_hold_with_sdes() {
    let security = Security::SdesPlain { suite: "AES_CM_128_HMAC_SHA1_80" };
    let sound = Some(Sound { mos: None, lost_packets: 0, sent_db: -96.0, received_db: 0.0, ..SOUND });
    let call = Call { security, hold: Hold::Both, sound, ..call(Phase::Talking(Duration::from_secs(3_700))) };
    check("phone-hold", &drawn(&Facts { call: Some(call), ..facts() }));
}

#[test]
fn security_is_said_in_exact_words() {
    let compared = Security::Zrtp { suite: "x", sas: "k4pe", is_compared: true };
    let all = [
        (Security::None, "none", "not encrypted: anybody on the way can listen"),
        (Security::Agreeing, "none", "ZRTP is under way; nothing is protected yet"),
        (Security::SdesPlain { suite: "x" }, "SDES over plain SIP (weak)", "the key travelled readable"),
        (compared, "ZRTP  x", "SAS k4pe  compared: nobody sits between you"),
    ];
    for (security, name, meaning) in all {
        let call = Call { security, ..call(Phase::Talking(Duration::ZERO)) };
        let cells = drawn(&Facts { call: Some(call), ..facts() });
        let lock = cells.row_text(5);
        assert!(lock.get(14..).unwrap().starts_with(name), "{lock}");
        assert!(cells.row_text(6).contains(meaning), "{}", cells.row_text(6));
    }
}

#[test]
fn keys_mean_what_the_call_allows() {
    let mut phone = Phone::new(Instant::from_secs(1));
    let mut press = |call: Option<Call<'_>>, key: Key| {
        phone.on_key(Instant::from_secs(1), key, &Facts { call, ..facts() })
    };
    let talking = call(Phase::Talking(Duration::ZERO));
    let held = Call { hold: Hold::Ours, ..talking };
    let zrtp = |is_compared| Call {
        security: Security::Zrtp { suite: "", sas: "", is_compared },
        ..call(Phase::Talking(Duration::ZERO))
    };
    let calling = call(Phase::Calling(Duration::ZERO));
    let cases = [
        (None, Key::Char('1'), Some(Command::Dial(0))),
        (None, Key::Char('6'), Some(Command::Dial(5))),
        (None, Key::Char('7'), None),
        (None, Key::Char('0'), None),
        (None, Key::Char('h'), None),
        (None, Key::Enter, None),
        (Some(call(Phase::RingsHere)), Key::Enter, Some(Command::Answer)),
        (Some(call(Phase::RingsHere)), Key::Char('h'), Some(Command::HangUp)),
        (Some(call(Phase::RingsHere)), Key::Char('1'), None),
        (Some(calling), Key::Char('h'), Some(Command::HangUp)),
        (Some(calling), Key::Char('1'), None),
        (Some(calling), Key::Enter, None),
        (Some(call(Phase::EarlySound)), Key::Char('1'), Some(Command::Dtmf('1'))),
        (Some(talking), Key::Char('#'), Some(Command::Dtmf('#'))),
        (Some(talking), Key::Char('o'), Some(Command::Hold)),
        (Some(held), Key::Char('o'), Some(Command::Resume)),
        (Some(talking), Key::Char('v'), None),
        (Some(zrtp(false)), Key::Char('v'), Some(Command::SasIsEqual)),
        (Some(zrtp(true)), Key::Char('v'), None),
        (Some(call(Phase::Answering)), Key::Enter, None),
        (Some(call(Phase::Answering)), Key::Char('h'), Some(Command::HangUp)),
        (Some(call(Phase::Ending)), Key::Char('h'), None),
    ];
    for (call, key, command) in cases {
        assert_eq!(press(call, key), command, "{key:?} in {:?}", call.map(|call| call.phase));
    }
}

#[test]
fn the_log_is_behind_tab() {
    let (mut phone, now, mut cells) =
        (Phone::new(Instant::from_secs(1)), Instant::from_secs(9), Cells::new());
    phone.on_log(now, Level::Warning, "the server is slow");
    phone.draw(now, &facts(), &mut cells);
    assert!(!phone.is_due(now) && phone.is_due(now + Duration::from_millis(Phone::REFRESH_MS)));
    assert_eq!(phone.on_key(now, Key::Tab, &facts()), None);
    assert!(phone.is_due(now));
    phone.draw(now, &facts(), &mut cells);
    assert!(cells.row_text(2).contains("0:00:08 warning the server is slow"), "{}", cells.row_text(2));
    assert_eq!(
        phone.on_key(now, Key::Char('1'), &facts()),
        Some(Command::Dial(0)),
        "calls are made from there too"
    );
    phone.on_key(now, Key::Escape, &facts());
    phone.draw(now, &facts(), &mut cells);
    assert!(cells.row_text(3).contains("the last one: busy here"));
}
