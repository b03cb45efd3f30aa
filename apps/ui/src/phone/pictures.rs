//! Pictures of the quiet screens for the documents, drawn from the views themselves; `tests/phone_screen.rs` captures
//! the others while a call is made.
//!
//! The test compares them with `docs/pictures`; `RINGWAY_PICTURES=write cargo test -p ringway-ui pictures` draws them anew.

use super::scene::Scene;
use crate::cells::{Cell, Cells};
use crate::keys::Key;
use crate::style::Style;
use crate::svg::{Glyph, Look, svg};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use ringway_phone::{CallNumber, NetworkFacts, PhoneEvent};
use std::path::Path;

/// The rows of a drawn screen.
fn rows(cells: &Cells) -> Vec<Vec<Glyph>> {
    let glyph = |cell: &Cell| Glyph { text: cell.characters().collect(), look: look(cell.style()) };
    cells.all().chunks(cells.columns()).map(|row| row.iter().map(glyph).collect()).collect()
}

/// The look of a style in a terminal with its own colours.
fn look(style: Style) -> Look {
    let mut look = Look::default();
    let words = style.sgr().split(';').map(|word| word.parse::<u8>().unwrap());
    for word in words {
        match word {
            1 => look.is_bold = true,
            4 => look.is_underlined = true,
            7 => look.is_reversed = true,
            30..=37 => look.front = Some(word - 30),
            40..=47 => look.back = Some(word - 40),
            90..=97 => look.front = Some(word - 82),
            _ => {}
        }
    }
    look
}

/// Every picture: its name, and the phone it shows.
fn pictures() -> Vec<(&'static str, Scene)> {
    let mut all = Vec::new();
    let mut keypad = Scene::new();
    keypad.phone(PhoneEvent::Registered { expires_s: 3600 });
    keypad.types("bob@192.0.2.7");
    all.push(("keypad", keypad));

    let mut contacts = Scene::new();
    contacts.press(Key::Function(3));
    all.push(("contacts", contacts));

    let mut help = Scene::new();
    help.press(Key::Function(1));
    all.push(("help", help));

    let mut network = Scene::new();
    network.phone(PhoneEvent::Registered { expires_s: 3600 });
    network.phone(PhoneEvent::Network(NetworkFacts {
        addresses: vec![("eth0".into(), [192, 0, 2, 7].into())],
        listening: vec![
            ("SIP udp".into(), ([192, 0, 2, 7], 5062).into()),
            ("RTP".into(), ([192, 0, 2, 7], 40000).into()),
        ],
        timing: "every 20 ms, with real-time priority".into(),
    }));
    network.phone(PhoneEvent::StunMapped {
        local: ([192, 0, 2, 7], 40000).into(),
        mapped: ([203, 0, 113, 9], 31234).into(),
    });
    network.press(Key::Function(6));
    all.push(("network", network));
    all
}

#[test]
fn the_pictures_in_the_documents_are_what_the_views_draw() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let is_written = std::env::var("RINGWAY_PICTURES").is_ok_and(|value| value == "write");
    for (name, scene) in pictures() {
        let file = folder.join(format!("phone-{name}.svg"));
        let drawn = svg(&rows(&scene.cells(80, 24)), &format!("ringway phone: {name}"));
        if is_written {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(kept == drawn, "{} is old: RINGWAY_PICTURES=write draws it anew", file.display());
    }
}

#[test]
fn a_picture_is_well_formed_and_holds_the_text() {
    let mut scene = Scene::new();
    scene.phone(PhoneEvent::Incoming {
        call: CallNumber(1),
        name: "<&>\"".into(),
        uri: "sip:a@b".into(),
        bypasses_server: false,
        is_sips: false,
        replaces: None,
    });
    let drawn = svg(&rows(&scene.cells(80, 24)), "a < b");
    assert!(drawn.contains("<title>a &lt; b</title>") && drawn.contains("&lt;&amp;&gt;"));
    assert_eq!(drawn.matches("<text").count(), drawn.matches("</text>").count());
    assert!(drawn.matches('<').count() == drawn.matches('>').count());
}
