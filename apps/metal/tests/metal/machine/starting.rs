//! From power-on to serving, and errors on the way.

use crate::machine::world::{USERS, World, register};
use std::net::Ipv4Addr;

#[test]
fn it_leases_an_address_fetches_its_users_and_serves() {
    let mut world = World::new("users=users.csv domains=example.org").with_file("users.csv", USERS);
    world.pass(100);
    assert!(world.machine.is_serving(), "{}", world.said());
    for line in [
        "192.0.2.1/24 by DHCP from 192.0.2.2",
        "users: 2 from tftp://192.0.2.2/users.csv",
        "ready udp:192.0.2.1:5060 tcp:192.0.2.1:5060",
    ] {
        assert!(world.has_said(line), "{line}: {}", world.said());
    }
}

#[test]
fn missing_dhcp_is_logged_and_retried() {
    let mut world = World::new("auth=off domains=example.org");
    let server = world.dhcp.take();
    world.pass_seconds(4);
    assert!(!world.has_said("nobody answers DHCP"), "{}", world.said());
    world.pass_seconds(100);
    assert_eq!(world.said().matches("nobody answers DHCP yet").count(), 2, "{}", world.said());
    world.dhcp = server;
    world.pass_seconds(100);
    assert!(world.machine.is_serving(), "{}", world.said());
    assert_eq!(world.said().matches("nobody answers DHCP yet").count(), 2, "{}", world.said());
}

#[test]
fn a_fixed_address_needs_no_dhcp() {
    let mut world = World::new("ip=192.0.2.1/24 gateway=192.0.2.2 auth=off domains=example.org");
    world.dhcp = None;
    world.pass(20);
    assert!(world.machine.is_serving(), "{}", world.said());
    assert!(world.has_said("AUTHENTICATION IS OFF"));
    assert!(world.ask(&register("alice", 1, "")).starts_with("SIP/2.0 200 "));
}

#[test]
fn settings_come_by_tftp_and_the_command_line_has_precedence() {
    let settings = "domains = [\"example.org\"]\n[auth]\nenabled = true\n[users]\nfile = \"people.csv\"\n";
    let mut world = World::new("config=ringway.toml auth=off")
        .with_file("ringway.toml", settings)
        .with_file("people.csv", USERS);
    world.pass(100);
    assert!(world.has_said("users: 2 from tftp://192.0.2.2/people.csv"), "{}", world.said());
    assert!(world.has_said("AUTHENTICATION IS OFF"));
}

#[test]
fn invalid_settings_are_logged_by_line_and_nothing_is_served() {
    let mut world =
        World::new("config=ringway.toml").with_file("ringway.toml", "domains = []\n[auth]\nenable = true\n");
    world.pass(100);
    assert!(!world.machine.is_serving());
    assert!(world.has_said("ringway.toml:3: [auth] enable: unknown key"), "{}", world.said());
    let mut world = World::new("mode=prxy");
    world.pass(100);
    assert!(!world.machine.is_serving() && world.has_said("mode"), "{}", world.said());
}

#[test]
fn an_unknown_word_is_logged_and_ignored() {
    let mut world = World::new("auth=off user=users.csv fault=stop");
    world.pass(100);
    let wanted = "warning: command line: \"user=users.csv\" is unknown and ignored; remove or correct it";
    assert!(world.machine.is_serving() && world.has_said(wanted), "{}", world.said());
    assert_eq!(world.said().matches("and ignored").count(), 1, "{}", world.said());
}

#[test]
fn a_list_with_an_invalid_row_is_refused_and_fetched_again() {
    let mut world =
        World::new("users=users.csv").with_file("users.csv", "username,password\nalice,a\nalice,b\n");
    world.pass(100);
    assert!(!world.machine.is_serving());
    assert!(world.has_said("/users.csv:3: alice@localhost is there already"), "{}", world.said());
    assert!(world.has_said("nobody of this list is taken"), "{}", world.said());
    world.files.insert("users.csv".to_owned(), USERS.as_bytes().to_vec());
    world.pass_seconds(11);
    assert!(world.machine.is_serving(), "{}", world.said());
}

#[test]
fn a_missing_file_is_logged_and_fetched_again() {
    let mut world = World::new("users=users.csv");
    world.pass(100);
    assert!(world.has_said("users.csv") && world.has_said("trying again in 10 s"), "{}", world.said());
    world.files.insert("users.csv".to_owned(), USERS.as_bytes().to_vec());
    world.pass_seconds(11);
    assert!(world.machine.is_serving(), "{}", world.said());
}

#[test]
fn without_a_random_seed_authentication_prevents_serving() {
    let mut world = World::with_seed("users=users.csv", None).with_file("users.csv", USERS);
    world.pass(100);
    assert!(
        !world.machine.is_serving() && world.has_said("neither RDRAND nor virtio-rng"),
        "{}",
        world.said()
    );
    let mut world = World::with_seed("auth=off", None);
    world.pass(100);
    assert!(world.machine.is_serving(), "{}", world.said());
}

#[test]
fn dhcp_is_retried_until_it_answers() {
    let mut world = World::new("auth=off");
    let dhcp = world.dhcp.take();
    world.pass_seconds(30);
    assert!(!world.machine.is_serving());
    world.dhcp = dhcp;
    world.pass_seconds(2);
    assert!(world.machine.is_serving(), "{}", world.said());
}

#[test]
fn a_new_address_after_a_lost_lease_is_served() {
    let mut world = World::new("auth=off domains=example.org");
    world.pass(100);
    let dhcp = world.dhcp.take();
    world.pass_seconds(700);
    assert!(!world.machine.is_serving() && world.has_said("the lease is gone"), "{}", world.said());
    world.dhcp = dhcp.map(|mut dhcp| {
        dhcp.dhcp.offer.address = Ipv4Addr::new(192, 0, 2, 77);
        dhcp
    });
    world.pass_seconds(3);
    assert!(world.has_said("ready udp:192.0.2.77:5060"), "{}", world.said());
}
