//! Two phones behind NATs that cannot reach each other.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::audio::Recording;
use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use super::start_relay;
use super::{Access, Talker, accounts, uri};
use super::{Kind, Network, PRIVATE, PUBLIC};
use crate::process::{Process, free_port};
use ringway_test_support::namespace;

pub(super) fn scenarios() -> Vec<Scenario> {
    let relayed = |name: &str, kinds: [Kind; 2]| {
        Scenario::new(format!("relay/nat/{name}"), move |stage: &Stage| relayed(stage, kinds))
    };
    let direct = |name: &str, kind: Kind, is_received: bool| {
        Scenario::new(format!("relay/nat/without-relay/{name}"), move |stage: &Stage| {
            direct(stage, kind, is_received)
        })
    };
    vec![
        relayed("symmetric", [Kind::Symmetric, Kind::Symmetric]),
        relayed("restricted", [Kind::Restricted, Kind::Restricted]),
        relayed("full-cone-with-loss", [Kind::Symmetric, Kind::Cone]),
        // What the NATs do without a relay: the test of the test.
        direct("symmetric", Kind::Symmetric, false),
        direct("restricted", Kind::Restricted, true),
    ]
}

/// baresip by UDP with flows (RFC 5626) and Ringway's phone by TCP call each other through the relay.
fn relayed(stage: &Stage, kinds: [Kind; 2]) -> Result<()> {
    let Some(network) = Network::make(kinds)? else { return Ok(()) };
    let public = network.public(stage);
    let relay = start_relay(&public, PUBLIC, CONTROL, FIRST_PORT)?;
    let wanted = Wanted { host: PUBLIC, media: Some(("relay = \"nat\"", [CONTROL, 0])), ..Wanted::default() };
    let server = Server::start(&public, wanted, &accounts(&["alice", "bob"]))?;
    let line = Line {
        user: "alice",
        host: PRIVATE,
        server_host: PUBLIC,
        server: Some(server.port),
        transport: Transport::Udp,
        keys: Keys::None,
        tone_hz: ALICE_HZ,
        seconds: 60,
    };
    let mut alice = baresip::Phone::start_with(&network.phone(stage, 0), line, baresip::WITH_FLOWS)?;
    alice.registered()?;
    // The NAT of ours forwards no TCP.
    let transport = if kinds[1] == Kind::Cone { Transport::Udp } else { Transport::Tcp };
    let access = access("bob", server.port, transport, BOB_HZ);
    let mut bob = Talker::answer(&network.phone(stage, 1), access, &[])?;
    alice.dial(&uri("bob"))?;
    bob.connected()?;
    alice.established()?;
    // A stranger who is faster than a phone's first packet gets its sound until that packet.
    std::thread::sleep(FIRST_PACKETS);
    let stranger = Stranger::start(&public);
    std::thread::sleep(TALK);
    let received = stranger.stop()?;
    alice.hang_up()?;
    alice.ended()?;
    let packets = bob.ended()?;
    // baresip has ports for one call, until its BYE is answered.
    std::thread::sleep(BYE_TIME);
    bob.expect_received(ALICE_HZ, TALK.as_secs_f64() / 2.0).context("bob, who was called")?;
    ensure!(received == 0, "a stranger who sends to all ports of the relay got {received} packets");
    let mut bob = Talker::call(&network.phone(stage, 1), access, "alice", &[])?;
    bob.connected()?;
    std::thread::sleep(TALK);
    bob.hang_up();
    let packets = packets + bob.ended()?;
    bob.expect_received(ALICE_HZ, TALK.as_secs_f64() / 2.0).context("bob, who called")?;
    let received = Recording::read(&alice.recording()?)?;
    received.expect_tone(BOB_HZ, TALK.as_secs_f64()).context("alice, in two calls")?;
    let relayed = relay.relayed()?;
    ensure!(relayed >= packets, "{relayed} packets were relayed, bob got {packets}");
    relay.expect_no_calls()?;
    let counters = server.counters()?;
    for (name, least, most) in [
        ("media_relayed", 2, 2),
        ("media_failed", 0, 0),
        ("relay_timeouts", 0, 0),
        ("relay_limited", 0, 0),
        ("relay_rejected", 0, 0),
    ] {
        let value = counters.get(name)?;
        ensure!((least..=most).contains(&value), "{name} is {value}");
    }
    if let Some((passed, lost)) = network.passed(1) {
        ensure!(passed > 200 && lost > 5, "the NAT forwarded {passed} datagrams and lost {lost}");
    }
    Ok(())
}

/// Ringway's phones learn their mapped addresses by STUN and call each other without a relay.
fn direct(stage: &Stage, kind: Kind, is_received: bool) -> Result<()> {
    let Some(network) = Network::make([kind, kind])? else { return Ok(()) };
    let public = network.public(stage);
    let stun = free_port()?;
    let mut command = public.command("turnserver");
    command.args(["-n", "--stun-only", "--no-cli", "--no-tls", "--no-dtls", "--no-tcp", "--no-rfc5780"]);
    command.args(["--listening-ip", &PUBLIC.to_string(), "--listening-port", &stun.to_string()]);
    command.arg("--userdb").arg(stage.path("turn.db")).arg("--pidfile").arg(stage.path("turn.pid"));
    command.args(["--log-file", "stdout"]);
    let _stun = Process::start("coturn", &mut command, &stage.folder)?;
    let server =
        Server::start(&public, Wanted { host: PUBLIC, ..Wanted::default() }, &accounts(&["alice", "bob"]))?;
    let stun = format!("{PUBLIC}:{stun}");
    let more = ["--srtp", "none", "--stun", &stun];
    let bob = access("bob", server.port, Transport::Tcp, BOB_HZ);
    let mut bob = Talker::answer(&network.phone(stage, 1), bob, &more)?;
    let alice = access("alice", server.port, Transport::Udp, ALICE_HZ);
    let mut alice = Talker::call(&network.phone(stage, 0), alice, "bob", &more)?;
    alice.connected()?;
    std::thread::sleep(TALK);
    alice.hang_up();
    if !is_received {
        alice.ended_in_silence().context("alice")?;
        return bob.ended_in_silence().context("bob");
    }
    alice.ended()?;
    bob.ended()?;
    alice.expect_received(BOB_HZ, TALK.as_secs_f64() / 2.0).context("alice")?;
    bob.expect_received(ALICE_HZ, TALK.as_secs_f64() / 2.0).context("bob")
}

/// Somebody in the public network who sends RTP to all ports of the relay, to be sent the sound of a call.
struct Stranger {
    is_over: std::sync::Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<u32>>,
}

impl Stranger {
    fn start(public: &Stage) -> Self {
        let is_over = std::sync::Arc::new(AtomicBool::new(false));
        let (flag, namespace) = (is_over.clone(), public.namespace.clone());
        let thread = std::thread::spawn(move || {
            let socket = namespace::enter(namespace.as_deref(), || UdpSocket::bind("203.0.113.1:0"))??;
            socket.set_nonblocking(true)?;
            let (mut received, mut room) = (0, [0; 2048]);
            let mut packet = vec![0xff; 172];
            packet[..12].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 160, 1, 2, 3, 4]);
            while !flag.load(Ordering::Relaxed) {
                for port in FIRST_PORT..FIRST_PORT + 40 {
                    // A port that is not open answers by ICMP.
                    let _ = socket.send_to(&packet, (PUBLIC, port));
                }
                while let Ok((length, _)) = socket.recv_from(&mut room) {
                    // Not its own packets and first reports: it is both sides of the RTCP ports until the phones use them.
                    let is_sound = length > 12 && room[1] & 0x7f < 64;
                    received += u32::from(is_sound && !room[..length].ends_with(&packet[12..]));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(received)
        });
        Self { is_over, thread }
    }

    /// Number of packets that it got.
    fn stop(self) -> Result<u32> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the stranger's thread failed"))?
    }
}

fn access(user: &'static str, server: u16, transport: Transport, tone_hz: f64) -> Access {
    Access { user, host: PRIVATE, server: (PUBLIC, server), transport, tone_hz }
}

const ALICE_HZ: f64 = 600.0;
const BOB_HZ: f64 = 1000.0;
const TALK: Duration = Duration::from_secs(5);
/// Less than the time for which the relay learns addresses, 3 s.
const FIRST_PACKETS: Duration = Duration::from_millis(500);
/// Time for a BYE that is lost twice.
const BYE_TIME: Duration = Duration::from_secs(2);
/// Control port of the relay, in a namespace of its own.
const CONTROL: u16 = 2223;
const FIRST_PORT: u16 = 30_000;
