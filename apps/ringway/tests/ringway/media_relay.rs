//! Calls through a media relay: the built server and phones, with rtpengine on loopback.
//!
//! Tested: sound through the relay's ports, SRTP too, the end of the call at the relay, a relay that is not there. Not
//! tested here: rules, limits and hostile input (`proto/server`, `proto/ng`); NATs (`cargo xtask interop`).

use crate::program::Running;
use ringway_test_support::programs::has;
use ringway_test_support::rtpengine::{Rtpengine, media_ports};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use tempfile::TempDir;

/// rtpengine on free ports of loopback.
fn relay() -> Rtpengine {
    Rtpengine::start(|control| media_ports(Ipv4Addr::LOCALHOST, 20_000 + control % 100 * 100, 100)).unwrap()
}

/// A server with these relays.
fn serve(relays: &[SocketAddr], more: &str) -> (TempDir, Running, String) {
    let folder = TempDir::new().unwrap();
    let relays: Vec<String> = relays.iter().map(|address| format!("\"{address}\"")).collect();
    let config = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[auth]\nenabled = false\n\
         [store]\nurl = \"memory:\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [media]\nrelay = \"always\"\nrtpengine = [{}]\n{more}",
        relays.join(", ")
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    (folder, server, address)
}

/// A call of alice to bob: the packets that each received.
fn call(server: &str, args: &[&str]) -> [u64; 2] {
    let here = Path::new(".");
    let bob = ["answer", "--as", "sip:bob@example.org", "--server", server, "--register", "--count", "1"];
    let more = ["--json", "--play", "tone:440"];
    let bob = Running::start(here, &[&bob[..], &more, args].concat(), "");
    bob.says("registered");
    let alice = ["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--server", server];
    let alice = Running::start(here, &[&alice[..], &more, args, &["--duration", "2"]].concat(), "");
    [alice.done(), bob.done()].map(|done| {
        assert_eq!((done.status, &done.json()["result"]), (0, &"answered".into()), "{done:?}");
        done.json()["received"]["packets"].as_u64().unwrap()
    })
}

#[test]
fn rtpengine_takes_the_command_of_the_documents() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let documents = [
        include_str!("../../../../docs/recipes/cookbook.md"),
        include_str!("../../../../docs/recipes/media-relay.md"),
    ];
    let [one, other] =
        documents.map(|text| text.lines().find_map(|line| line.strip_prefix("rtpengine --")).unwrap());
    assert_eq!(one, other);
    let relay = Rtpengine::start(|control| {
        let arguments = one.replace("203.0.113.5", "127.0.0.1").replace("2223", &control.to_string());
        format!("--{arguments}").split(' ').map(str::to_owned).collect()
    });
    let relay = relay.unwrap();
    assert_eq!(relay.relayed().unwrap(), 0);
}

#[test]
fn rtpengine_takes_the_lines_of_the_page_on_public_addresses() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let page = include_str!("../../../../docs/recipes/public-address.md");
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("interface = ")).collect();
    let named = ["inside/192.168.1.10;outside/192.168.1.10!203.0.113.1", "priv/10.0.0.5;pub/192.168.7.5"];
    assert_eq!(lines, [named[0], "10.0.0.5!203.0.113.1", named[1]]);
    for line in lines {
        // An option of the command line is a line of the file.
        let own = ["192.168.1.10", "10.0.0.5", "192.168.7.5"];
        let line = own.iter().fold(line.to_owned(), |line, own| line.replace(own, "127.0.0.1"));
        let interfaces = line.split(';').map(|one| format!("--interface={one}")).collect();
        assert_eq!(Rtpengine::start(|_| interfaces).unwrap().relayed().unwrap(), 0);
    }
}

#[test]
fn sound_goes_through_the_relay() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let relay = relay();
    let (_folder, _server, address) = serve(&[relay.control()], "");
    for srtp in ["none", "sdes"] {
        let before = relay.relayed().unwrap();
        let received = call(&address, &["--srtp", srtp]);
        let relayed = relay.relayed().unwrap() - before;
        assert!(received.iter().all(|packets| *packets > 50), "{srtp}: {received:?}");
        assert!(relayed >= received.iter().sum(), "{srtp}: {relayed} relayed of {received:?}");
        relay.expect_no_calls().unwrap();
    }
}

#[test]
fn a_relay_that_is_not_there_is_passed_over() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let relay = relay();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (_folder, _server, address) = serve(&[nobody.local_addr().unwrap(), relay.control()], "");
    let received = call(&address, &["--srtp", "none"]);
    assert!(received.iter().all(|packets| *packets > 50), "{received:?}");
    assert!(relay.relayed().unwrap() >= received.iter().sum(), "{received:?}");
}

#[test]
fn without_a_relay_a_call_is_direct_or_refused() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (_folder, _server, address) = serve(&[nobody], "time_limit_ms = 500\n");
    assert!(call(&address, &["--srtp", "none"]).iter().all(|packets| *packets > 50));
    let (_folder, _server, address) = serve(&[nobody], "time_limit_ms = 500\non_failure = \"refuse\"\n");
    let bob = ["answer", "--as", "sip:bob@example.org", "--server", &address, "--register"];
    let bob = Running::start(Path::new("."), &bob, "");
    bob.says("registered");
    let alice =
        ["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--server", &address, "--json"];
    let alice = Running::start(Path::new("."), &alice, "").done();
    assert_eq!(alice.json()["status"], 500, "{alice:?}");
}
