//! The administrator's pages.

use super::picture::check;
use super::scene::Scene;
use crate::admin::{Admin, Authentication, Change, Limit, Memory, Mode, Users, What};
use crate::{Address, Key, Level, Source};
use alloc::format;
use ringway_sansio::Transport;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[test]
fn overview_of_a_server_that_is_well() {
    let mut scene = Scene::new();
    scene.minute();
    check("admin-overview", scene.draw());
}

#[test]
fn overview_of_a_server_that_is_not() {
    let mut scene = Scene::new();
    scene.facts.mode = Mode::Redirect;
    scene.facts.authentication = Authentication::Off;
    scene.facts.users =
        Users::Failed { from: "tftp://192.0.2.1/users.csv", why: "line 7: no password. Write one." };
    scene.facts.network.card.as_mut().unwrap().is_up = false;
    scene.facts.network.address = Address::Asked { since: Duration::from_secs(95) };
    scene.facts.queue_delay = Duration::from_millis(310);
    scene.facts.memory = Memory { used: 131_000_000, peak: 131_900_000, limit: 134_217_728, is_short: true };
    scene.facts.trouble = &["No randomness: the machine has no RDRAND", "virtio-rng is missing too"];
    for _ in 0..3 {
        scene.draw();
        scene.now = scene.now + Duration::from_secs(1);
        scene.facts.totals.requests += 50_000;
        scene.facts.totals.server_errors += 49_000;
    }
    check("admin-overview-trouble", scene.draw());
}

#[test]
fn overview_while_it_starts() {
    let mut scene = Scene::new();
    scene.facts.uptime = Duration::from_secs(2);
    scene.facts.mode = Mode::Proxy { is_stateful: false, has_record_route: false };
    scene.facts.users = Users::Loading { from: "tftp://192.0.2.1/users.csv", bytes: 1_048_576 };
    scene.facts.network.address = Address::Known {
        ip: Ipv4Addr::new(198, 51, 100, 255),
        prefix: 20,
        gateway: None,
        dns: &[],
        source: Source::Fixed,
    };
    check("admin-overview-start", scene.draw());
}

#[test]
fn one_is_no_plural() {
    let mut scene = Scene::new();
    (scene.facts.users_registered, scene.facts.contacts) = (1, 1);
    let overview = scene.draw().clone();
    assert!((0..24).any(|y| overview.row_text(y).contains("1 user with 1 contact  ")));
    assert!(scene.press(&[Key::Char('2'), Key::End]).row_text(22).contains("1 contact, "));
}

#[test]
fn registered_users() {
    let mut scene = Scene::new();
    check("admin-users", scene.press(&[Key::Char('2')]));
    check("admin-users-last", scene.press(&[Key::End]));
    check("admin-users-search", scene.types("/Dave2"));
    let found = scene.press(&[Key::Enter, Key::Char('1')]).clone();
    assert!(found.row_text(1).contains(" 1 Overview "), "after Enter, digits are pages again");
    let everyone = scene.press(&[Key::Char('2'), Key::Escape]);
    assert!(everyone.row_text(3).contains("alice0@example.org"), "{}", everyone.row_text(3));
}

#[test]
fn leaving_the_page_ends_typing_and_keeps_the_search() {
    let mut scene = Scene::new();
    scene.press(&[Key::Char('2')]);
    scene.types("/bob");
    scene.press(&[Key::Tab, Key::Char('1')]);
    assert!(scene.draw().row_text(2).contains("Mode"), "the digit was no letter of a name");
    assert!(scene.press(&[Key::Char('2')]).row_text(22).contains("Names from: bob "));
}

#[test]
fn a_search_for_nobody_ends() {
    let mut scene = Scene::new();
    scene.press(&[Key::Char('2')]);
    let cells = scene.types("/zoe");
    assert!(cells.row_text(3).contains("No name begins so."), "{}", cells.row_text(3));
    let cells = scene.press(&[Key::Backspace, Key::Backspace, Key::Backspace, Key::Char('c'), Key::Enter]);
    assert!(cells.row_text(3).contains("carol2@example.org"), "{}", cells.row_text(3));
}

#[test]
fn changes_as_they_happen() {
    let mut scene = Scene::new();
    let all = [What::Registered, What::Refreshed, What::Removed, What::Expired];
    for (number, what) in (0_u16..250).zip(all.into_iter().cycle()) {
        let aor = format!("user{number}@example.org");
        let address = SocketAddr::from(([203, 0, 113, 9], 40_000 + number));
        let change = Change {
            what,
            aor: aor.as_bytes(),
            address: (number % 5 != 0).then_some(address),
            transport: Transport::Udp,
        };
        scene.admin.on_change(scene.now, &change);
        scene.now = scene.now + Duration::from_millis(700);
    }
    check("admin-live", scene.press(&[Key::Char('2'), Key::Char('l')]));

    scene.press(&[Key::Char('p')]);
    let change =
        Change { what: What::Removed, aor: b"late@example.org", address: None, transport: Transport::Tcp };
    scene.admin.on_change(scene.now, &change);
    let paused = scene.draw();
    assert!(!paused.row_text(3).contains("late@") && paused.row_text(22).contains("251 changes"));
    scene.press(&[Key::Char('p')]);
    scene.admin.on_change(scene.now, &change);
    assert!(scene.draw().row_text(3).contains("late@example.org"));
    assert!(scene.types("/user7").row_text(3).contains("user79@example.org"), "the search looks here too");
}

#[test]
fn limits_and_drops() {
    let mut scene = Scene::new();
    scene.draw();
    let mut limits = scene.facts.limits.to_vec();
    limits[2].hits += 3;
    scene.facts.limits = limits.clone().leak();
    scene.draw();
    scene.now = scene.now + Duration::from_secs(185);
    limits[4].hits += 1;
    scene.facts.limits = limits.leak();
    scene.draw();
    scene.now = scene.now + Duration::from_secs(2);
    check("admin-limits", scene.press(&[Key::Char('3')]));
    let cells = scene.press(&[Key::PageDown]);
    assert!(
        cells.row_text(21).contains("messages too large") && cells.row_text(22).contains("8 to 26 of 26")
    );
    scene.facts.limits = &[Limit { name: "alone", most: None, used: None, hits: 0 }];
    assert!(scene.draw().row_text(3).contains("alone"), "a list that became shorter is shown from its start");
}

#[test]
fn log() {
    let mut scene = Scene::new();
    for number in 0..30 {
        scene.now = scene.now + Duration::from_secs(61);
        let level = [Level::Info, Level::Info, Level::Warning, Level::Error][number % 4];
        let why = " because somebody wrote a very long reason for it".repeat(number % 3);
        scene.admin.on_log(scene.now, level, format!("thing {number} happened{why}"));
    }
    check("admin-log", scene.press(&[Key::Char('4')]));
    let older = scene.press(&[Key::PageUp]);
    assert!(older.row_text(24).contains("End newest"), "{}", older.row_text(24));
}

#[test]
fn help_and_the_way_between_pages() {
    let mut scene = Scene::new();
    check("admin-help", scene.press(&[Key::Char('?')]));
    let back = scene.press(&[Key::Char('4')]);
    assert!(back.row_text(2).contains("Mode"), "any key leaves the help and does nothing else");
    for heading in ["user", "limit, or reason", "Nothing yet.", "Mode"] {
        let cells = scene.press(&[Key::Tab]);
        assert!(cells.row_text(2).contains(heading), "{heading}: {}", cells.row_text(2));
    }
}

#[test]
fn without_passwords_every_page_says_so() {
    let mut scene = Scene::new();
    scene.facts.authentication = Authentication::Off;
    for page in ['1', '2', '3', '4', '?'] {
        assert!(scene.press(&[Key::Char(page)]).row_text(1).ends_with(" NO PASSWORDS "), "{page}");
    }
}

#[test]
fn it_is_drawn_when_there_is_something_to_see() {
    let mut scene = Scene::new();
    assert!(scene.admin.is_due(scene.now), "at once");
    scene.draw();
    let refresh = Duration::from_millis(Admin::REFRESH_MS);
    assert!(!scene.admin.is_due(scene.now + refresh - Duration::from_millis(1)));
    assert!(scene.admin.is_due(scene.now + refresh));
    scene.admin.on_key(scene.now, Key::Tab);
    assert!(scene.admin.is_due(scene.now), "after a key");
}
