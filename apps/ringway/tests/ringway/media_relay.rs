//! Calls through a media relay: the built server and phones, with rtpengine on loopback.
//!
//! Tested: sound through the relay's ports, SRTP too, the end of the call at the relay, a relay that is not there. Not
//! tested here: rules, limits and hostile input (`proto/server`, `proto/ng`); NATs (`cargo xtask interop`).

use crate::program::{POLL_INTERVAL, Running, TIME_LIMIT};
use ringway_test_support::programs::has;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

static COOKIES: AtomicU32 = AtomicU32::new(0);

/// rtpengine on free ports of loopback.
struct Rtpengine {
    child: Child,
    control: SocketAddr,
    /// Its configuration: that of the system has fixed ports.
    _folder: TempDir,
}

impl Rtpengine {
    fn start() -> Self {
        Self::start_with(|control| {
            let first = 20_000 + control.port() % 100 * 100;
            vec![
                "--interface=127.0.0.1".to_owned(),
                format!("--listen-ng={control}"),
                format!("--port-min={first}"),
                format!("--port-max={}", first + 99),
            ]
        })
    }

    /// Starts it with these arguments for a free control port.
    fn start_with(arguments: impl Fn(SocketAddr) -> Vec<String>) -> Self {
        let control = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let folder = TempDir::new().unwrap();
        let config = folder.path().join("rtpengine.conf");
        fs::write(&config, "[rtpengine]\n").unwrap();
        let child = Command::new("rtpengine")
            .arg(format!("--config-file={}", config.display()))
            .args(["--foreground", "--log-stderr", "--table=-1"])
            .args(arguments(control))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("rtpengine: {error}; run .ci/install"));
        let relay = Self { child, control, _folder: folder };
        let end = Instant::now() + TIME_LIMIT;
        while relay.ask("d7:command4:pinge").is_none() {
            assert!(Instant::now() < end, "rtpengine does not answer, or has ended");
            std::thread::sleep(POLL_INTERVAL);
        }
        relay
    }

    fn ask(&self, command: &str) -> Option<String> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // A cookie that was used before gets the answer of that command.
        let cookie = COOKIES.fetch_add(1, Ordering::Relaxed);
        socket.send_to(format!("{cookie} {command}").as_bytes(), self.control).unwrap();
        let mut buffer = [0; 65_535];
        let length = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

impl Rtpengine {
    /// Packets that the relay has forwarded since its start.
    fn relayed(&self) -> u64 {
        let statistics = self.ask("d7:command10:statisticse").unwrap();
        let (_, number) = statistics.rsplit_once("19:relayedpackets_useri").unwrap();
        number.split('e').next().unwrap().parse().unwrap()
    }
}

impl Drop for Rtpengine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let relay = Rtpengine::start_with(|control| {
        let arguments =
            one.replace("203.0.113.5", "127.0.0.1").replace("127.0.0.1:2223", &control.to_string());
        format!("--{arguments}").split(' ').map(str::to_owned).collect()
    });
    assert_eq!(relay.relayed(), 0);
}

#[test]
fn rtpengine_takes_the_line_of_the_page_on_public_addresses() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let page = include_str!("../../../../docs/recipes/public-address.md");
    let addresses = page.lines().find_map(|line| line.strip_prefix("interface = ")).unwrap();
    let (own, shown) = addresses.split_once('!').unwrap();
    assert_eq!((own, shown), ("10.0.0.5", "203.0.113.1"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rtpengine.conf");
    let relay = Rtpengine::start_with(|control| {
        let text = format!(
            "[rtpengine]\ninterface = {}\nlisten-ng = {control}\n",
            addresses.replace(own, "127.0.0.1")
        );
        std::fs::write(&file, text).unwrap();
        vec![format!("--config-file={}", file.display())]
    });
    assert_eq!(relay.relayed(), 0);
}

#[test]
fn sound_goes_through_the_relay() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let relay = Rtpengine::start();
    let (_folder, _server, address) = serve(&[relay.control], "");
    for srtp in ["none", "sdes"] {
        let before = relay.relayed();
        let received = call(&address, &["--srtp", srtp]);
        let relayed = relay.relayed() - before;
        assert!(received.iter().all(|packets| *packets > 50), "{srtp}: {received:?}");
        assert!(relayed >= received.iter().sum(), "{srtp}: {relayed} relayed of {received:?}");
        let end = Instant::now() + TIME_LIMIT;
        while !relay.ask("d7:command4:liste").unwrap().contains("5:callsle") {
            assert!(Instant::now() < end, "the call has not ended at the relay");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[test]
fn a_relay_that_is_not_there_is_passed_over() {
    if !has("rtpengine", "rtpengine-daemon") {
        return;
    }
    let relay = Rtpengine::start();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (_folder, _server, address) = serve(&[nobody.local_addr().unwrap(), relay.control], "");
    let received = call(&address, &["--srtp", "none"]);
    assert!(received.iter().all(|packets| *packets > 50), "{received:?}");
    assert!(relay.relayed() >= received.iter().sum(), "{received:?}");
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
