//! Attackers' text on the screen.

use super::scene::{Scene, Town, network};
use crate::admin::{Authentication, Change, Limit, Users, What};
use crate::phone::{self, Event, Host, Machine, Model, Now, Settings};
use crate::{Cells, Key, Level, SPARE_ROW, Terminal, Vga};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_phone::{CallNumber, PhoneEvent};
use ringway_sansio::Transport;
use std::time::Duration;

/// Text that wants out of its field.
fn hostile() -> Vec<Vec<u8>> {
    vec![
        b"\x1b[2J\x1b[1;1Hgone\x1b]0;title\x07".to_vec(),
        b"\x9b2J\x90q\x9c\x85\x84".to_vec(),
        "\u{9b}2J\u{202e}evil\u{200b}\u{feff}\u{301}\u{301}".as_bytes().to_vec(),
        "山田太郎😀ｗｉｄｅ".as_bytes().to_vec(),
        b"line\r\nline\tline\x0b\x0c\x08\x08\x08\x7f\x0e\x0f".to_vec(),
        b"x".repeat(500),
        "é".repeat(500).into_bytes(),
        b"\xff\xfe\xc3\x28\xf0\x9f".repeat(100),
        (0..=255).collect(),
        Vec::new(),
    ]
}

/// Nothing but characters reaches a screen.
fn assert_harmless(cells: &Cells) {
    for cell in cells.all() {
        assert!(matches!(cell.code(), 0x20..=0x7e | 0x80..=0xfe), "{cell:?}");
        assert!(!cell.character().is_control());
    }
    Vga::new().draw(cells, |place, word| {
        assert!(place < Cells::COUNT && word & 0x8000 == 0, "no cell blinks");
    });
    let (mut terminal, mut out, mut sent) = (Terminal::serial(SPARE_ROW), [0; 64], Vec::new());
    loop {
        let count = terminal.step(cells, &mut out);
        sent.extend_from_slice(&out[..count]);
        if count == 0 {
            break;
        }
    }
    let sent = String::from_utf8(sent).unwrap();
    // Every command is one of ours: they end in these letters, and hold digits.
    let mut rest = sent.as_str();
    while let Some(at) = rest.find(|c: char| c.is_control()) {
        let command = &rest[at..];
        let parameters = command.strip_prefix("\x1b[").unwrap_or_else(|| panic!("{command:?}"));
        let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';' && c != '?').unwrap();
        assert!("HCmJnlh".contains(&parameters[end..=end]), "{command:?}");
        rest = &parameters[end + 1..];
    }
}

/// The page differs from the page with harmless text in these columns of these rows only.
fn assert_inside(
    plain: &Cells,
    cells: &Cells,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) {
    for (place, (before, after)) in plain.all().iter().zip(cells.all()).enumerate() {
        let (y, x) = (place / 80, place % 80);
        let is_inside = rows.contains(&y) && columns.contains(&x);
        assert!(before == after || is_inside, "row {y}, column {x}: {before:?} became {after:?}");
    }
}

#[test]
fn names_of_registered_users_stay_in_their_column() {
    for text in hostile() {
        let draw = |aor: &[u8]| {
            let mut scene = Scene::new();
            scene.town = Town(vec![(aor.to_vec(), "192.0.2.7:5060".parse().ok()); 25]);
            scene.press(&[Key::Char('2')]).clone()
        };
        let cells = draw(&text);
        assert_harmless(&cells);
        assert_inside(&draw(b""), &cells, 3..22, 1..41);
    }
}

#[test]
fn changes_and_log_lines_stay_in_theirs() {
    for text in hostile() {
        let draw = |text: &[u8], page: &[Key]| {
            let mut scene = Scene::new();
            for what in [What::Registered, What::Expired] {
                let change = Change { what, aor: text, address: None, transport: Transport::Udp };
                scene.admin.on_change(scene.now, &change);
            }
            scene.admin.on_log(scene.now, Level::Error, text);
            scene.press(page).clone()
        };
        let live = [Key::Char('2'), Key::Char('l')];
        assert_inside(&draw(b"", &live), &draw(&text, &live), 3..5, 25..53);
        assert_harmless(&draw(&text, &live));
        let log = [Key::Char('4')];
        assert_inside(&draw(b"", &log), &draw(&text, &log), 2..5, 19..80);
        assert_harmless(&draw(&text, &log));
    }
}

#[test]
fn settings_from_a_file_stay_in_their_rows() {
    for text in hostile() {
        let text: &'static str = String::from_utf8_lossy(&text).into_owned().leak();
        let draw = |text: &'static str| {
            let mut scene = Scene::new();
            scene.facts.domains = vec![text.to_owned(); 3].leak();
            scene.facts.authentication = Authentication::On { realm: text, algorithms: vec![text; 2].leak() };
            scene.facts.users = Users::Failed { from: text, why: text };
            scene.facts.trouble = vec![text; 2].leak();
            scene.facts.network.card.as_mut().unwrap().name = text;
            scene.draw().clone()
        };
        let (plain, cells) = (draw(""), draw(text));
        assert_harmless(&cells);
        let end = |cells: &Cells| cells.row_text(0).chars().skip(60).collect::<String>();
        assert_eq!(end(&plain), end(&cells), "the first domain leaves the uptime alone");
        for y in [1, 2, 6, 7, 9, 10, 11, 12, 13, 20, 21, 23, 24] {
            assert_eq!(plain.row_text(y), cells.row_text(y), "row {y}");
        }
        for y in [3, 4, 5, 8] {
            assert_eq!(plain.row_text(y).get(..14), cells.row_text(y).get(..14), "row {y}");
        }
    }
}

#[test]
fn names_of_limits_stay_in_their_column() {
    for text in hostile() {
        let name: &'static str = String::from_utf8_lossy(&text).into_owned().leak();
        let draw = |name: &'static str| {
            let mut scene = Scene::new();
            let limit = Limit { name, most: Some(u64::MAX), used: Some(u64::MAX), hits: u64::MAX };
            scene.facts.limits = vec![limit; 30].leak();
            scene.press(&[Key::Char('3')]).clone()
        };
        assert_harmless(&draw(name));
        assert_inside(&draw(""), &draw(name), 3..22, 1..41);
    }
}

#[test]
fn figures_of_any_size_stay_in_their_columns() {
    let mut scene = Scene::new();
    scene.facts.uptime = Duration::MAX;
    scene.facts.calls = u64::MAX;
    scene.facts.queue_delay = Duration::MAX;
    scene.facts.contacts = u64::MAX;
    scene.facts.memory.used = u64::MAX;
    scene.draw();
    scene.now = scene.now + Duration::from_millis(1001);
    scene.facts.totals.requests = u64::MAX;
    let cells = scene.draw();
    assert_harmless(cells);
    assert!(cells.row_text(19).contains("##########"), "{}", cells.row_text(19));
    scene.now = scene.now + Duration::from_secs(400 * 365 * 86_400);
    assert_harmless(scene.press(&[Key::Char('2')]));
}

#[test]
fn who_calls_the_phone_stays_in_its_rows() {
    let draw = |text: &str, key: u8| {
        let mut model = Model::new(Settings::default(), Host::Machine);
        let (now, mut effects) = (Now::default(), Vec::new());
        let (call, text) = (CallNumber(1), text.to_owned());
        let events = [
            PhoneEvent::RegistrationFailed { status: 403, reason: text.clone(), retry_s: Some(7) },
            PhoneEvent::Incoming {
                call,
                name: text.clone(),
                uri: text.clone(),
                bypasses_server: false,
                is_sips: false,
                replaces: None,
            },
            PhoneEvent::Answered { call, codec: text },
        ];
        for event in events {
            model.update(now, Event::Phone(event), &mut effects);
        }
        model.update(now, Event::Key(Key::Function(key)), &mut effects);
        let machine = Machine { network: network(), sound: "test tone sent", halted: None };
        let mut cells = Cells::new();
        phone::draw(&model, now, Some(&machine), &mut cells);
        cells
    };
    for text in hostile() {
        let text = String::from_utf8_lossy(&text);
        for key in 2..=8 {
            let (plain, cells) = (draw("", key), draw(&text, key));
            assert_harmless(&cells);
            for y in [1, 2, 22, 24] {
                assert_eq!(plain.row_text(y), cells.row_text(y), "row {y}");
            }
            let clock = |cells: &Cells| cells.row_text(0).chars().rev().take(10).collect::<String>();
            assert_eq!(clock(&plain), clock(&cells));
        }
        let call = draw(&text, 5);
        for y in [5, 6, 7, 8, 9, 21] {
            assert_eq!(call.row_text(y), draw("", 5).row_text(y), "row {y}");
        }
    }
}
