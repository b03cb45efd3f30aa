//! Consoles of the server.

use ringway_metal::Program;

use crate::machine::world::{USERS, World, register};

/// Words of VGA's text memory.
struct Monitor(Vec<u16>);

impl Monitor {
    fn new() -> Self {
        Self(vec![0x20; 80 * 25])
    }

    fn watch(&mut self, world: &mut World) {
        let screen = &mut self.0;
        world.machine.draw(world.now, |place, word| screen[place] = word);
    }

    fn text(&self) -> String {
        let rows = self.0.chunks(80);
        rows.map(|row| row.iter().map(|word| char::from(*word as u8)).collect::<String>() + "\n").collect()
    }
}

#[test]
fn the_screen_shows_the_machine_and_its_registrations() {
    let mut world = World::new("users=users.csv domains=example.org auth=off").with_file("users.csv", USERS);
    let mut monitor = Monitor::new();
    world.pass(100);
    world.ask(&register("alice", 1, ""));
    world.pass(1000);
    monitor.watch(&mut world);
    let text = monitor.text();
    for wanted in [
        "a cable",
        "192.0.2.1",
        "255.255.255.0",
        "2 loaded from tftp://192.0.2.2/users.csv",
        "example.org",
        "12 % of 64.0 MiB",
    ] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
    // The key 2 of a PC's keyboard: press and release.
    world.machine.on_scan_code(world.now, 0x03);
    world.machine.on_scan_code(world.now, 0x83);
    world.pass(600);
    monitor.watch(&mut world);
    let text = monitor.text();
    assert!(text.contains("alice@example.org") && text.contains("192.0.2.2:5060"), "{text}");
}

#[test]
fn changes_are_shown_as_they_happen() {
    let mut world = World::new("domains=example.org auth=off");
    let mut monitor = Monitor::new();
    world.pass(100);
    // The keys 2 and l.
    for code in [0x03, 0x83, 0x26, 0xa6] {
        world.machine.on_scan_code(world.now, code);
    }
    world.ask(&register("alice", 1, ""));
    world.ask(&register("alice", 2, ""));
    world.ask(&register("alice", 3, "").replace("Expires: 3600", "Expires: 0"));
    world.pass(600);
    monitor.watch(&mut world);
    let text = monitor.text();
    for wanted in ["alice@example.org", "registered", "refreshed", "removed", "192.0.2.2:5060"] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
}

#[test]
fn the_serial_line_shows_the_log_until_a_key_is_pressed() {
    let mut world = World::new("auth=off domains=example.org");
    world.pass(100);
    assert!(world.has_said("ready udp:"));
    let before = world.serial.len();
    world.machine.on_serial_byte(world.now, b' ');
    for _ in 0..20 {
        world.pass(100);
        world.machine.draw(world.now, |_, _| {});
    }
    let mut terminal = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
    terminal.process(&world.serial[before..]);
    assert!(terminal.screen().contents().contains("192.0.2.1"), "{}", terminal.screen().contents());
    let before = world.serial.len();
    world.dhcp = None;
    world.pass_seconds(700);
    terminal.process(&world.serial[before..]);
    assert!(!terminal.screen().contents().contains("the lease is gone"), "{}", terminal.screen().contents());
    let before = world.serial.len();
    world.machine.on_serial_byte(world.now, b'q');
    world.pass(100);
    terminal.process(&world.serial[before..]);
    let log = terminal.screen().contents();
    assert!(log.starts_with("The log. Any key shows the screen.\n") && !log.contains("Overview"), "{log}");
    assert!(log.contains("the lease is gone"), "logged while the page was shown: {log}");
}

#[test]
fn names_of_limits_are_not_truncated() {
    // The key 3.
    let mut world = World::new("auth=off domains=example.org");
    let mut monitor = Monitor::new();
    world.pass(100);
    world.machine.on_scan_code(world.now, 0x04);
    monitor.watch(&mut world);
    let text = monitor.text();
    assert!(text.contains("log lines lost, the serial line was slow") && !text.contains('~'), "{text}");
}

#[test]
fn errors_that_prevent_serving_are_on_the_screen() {
    let mut world = World::new("users=users.csv");
    let mut monitor = Monitor::new();
    world.pass(100);
    monitor.watch(&mut world);
    assert!(monitor.text().contains("could not be fetched"), "{}", monitor.text());
}
