//! Several relays, of which some end: between calls, in a call, all.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage, Transport};
use super::start_relay;
use super::{Access, Talker, accounts};
use crate::process::free_port;
use ringway_test_support::rtpengine::Rtpengine;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("relay/failover/{name}"), body);
    vec![
        scenario("between-calls", between_calls),
        scenario("in-a-call", in_a_call),
        scenario("all-down/direct", |stage| all_down(stage, "relay = \"always\"\ntime_limit_ms = 500", None)),
        scenario("all-down/refuse", |stage| {
            let lines = "relay = \"always\"\ntime_limit_ms = 500\non_failure = \"refuse\"";
            all_down(stage, lines, Some(500))
        }),
    ]
}

/// Calls go through a relay that is left, at once or after the time for its silence.
fn between_calls(stage: &Stage) -> Result<()> {
    let mut world = World::start(stage, ALWAYS)?;
    world.call(&[])?.talk_and_end()?;
    let used = world.relays.iter().map(Rtpengine::relayed).collect::<Result<Vec<_>>>()?;
    let first = usize::from(used[1] > 0);
    ensure!(used[first] > 0 && used[1 - first] == 0, "a call goes through one relay: {used:?}");
    world.relays[first].kill();
    for _ in 0..4 {
        world.call(&[])?.talk_and_end()?;
    }
    let relayed = world.relays[1 - first].relayed()?;
    ensure!(relayed > 4 * PACKETS_MIN, "{relayed} packets of four calls went through the relay that is left");
    world.relays[1 - first].expect_no_calls()?;
    let counters = world.server.counters()?;
    ensure!(counters.get("relays_up")? == 1, "the relay that ended counts as up");
    ensure!(counters.get("media_failed")? == 0, "a call had no relay");
    Ok(())
}

/// The relay of a call ends; a re-INVITE of the caller moves both sides to the other one.
fn in_a_call(stage: &Stage) -> Result<()> {
    let mut world = World::start(stage, ALWAYS)?;
    // It holds the call at 3 s and resumes it at 4 s: two re-INVITEs.
    let mut call = world.call(&["--hold-at", "3", "--hold-s", "1"])?;
    std::thread::sleep(Duration::from_millis(1500));
    let used = world.relays.iter().map(Rtpengine::relayed).collect::<Result<Vec<_>>>()?;
    let first = usize::from(used[1] > 0);
    world.relays[first].kill();
    call.bob.says("is back", 1)?;
    let before = world.relays[1 - first].relayed()?;
    std::thread::sleep(TALK);
    let moved = world.relays[1 - first].relayed()? - before;
    ensure!(moved > 2 * PACKETS_MIN, "{moved} packets went through the other relay");
    call.end()?;
    let seconds = 1.0 + TALK.as_secs_f64() / 2.0;
    call.alice.expect_received(BOB_HZ, seconds).context("alice")?;
    call.bob.expect_received(ALICE_HZ, seconds).context("bob")?;
    world.relays[1 - first].expect_no_calls()
}

/// No relay answers: calls are direct, or get this status.
fn all_down(stage: &Stage, lines: &'static str, refused: Option<u64>) -> Result<()> {
    let mut world = World::start(stage, lines)?;
    world.call(&[])?.talk_and_end()?;
    world.relays.iter_mut().for_each(Rtpengine::kill);
    // Once after their silence, once when they are known to be down.
    for _ in 0..2 {
        let mut call = world.dial(&[])?;
        match refused {
            Some(expected) => {
                let status = call.alice.refused()?;
                call.bob.hang_up();
                if status != expected {
                    bail!("without a relay the call got {status}");
                }
            }
            None => {
                call.connected()?;
                call.talk_and_end()?;
            }
        }
    }
    let failed = world.server.counters()?.get("media_failed")?;
    ensure!(failed >= 2, "{failed} calls are counted as without a relay");
    Ok(())
}

/// A server with two relays.
struct World {
    stage: Stage,
    server: Server,
    relays: [Rtpengine; 2],
}

/// A call of alice to bob.
struct Call {
    alice: Talker,
    bob: Talker,
}

impl World {
    fn start(stage: &Stage, lines: &'static str) -> Result<Self> {
        let ports = [free_port()?, free_port()?];
        let relay = |port: u16| start_relay(stage, Ipv4Addr::LOCALHOST, port, first_media_port(port));
        let relays = [relay(ports[0])?, relay(ports[1])?];
        let wanted = Wanted { media: Some((lines, ports)), ..Wanted::default() };
        let server = Server::start(stage, wanted, &accounts(&["alice", "bob"]))?;
        Ok(Self { stage: stage.clone(), server, relays })
    }

    /// Starts a call and waits until it is answered.
    fn call(&self, more: &[&str]) -> Result<Call> {
        let mut call = self.dial(more)?;
        call.connected()?;
        Ok(call)
    }

    fn dial(&self, more: &[&str]) -> Result<Call> {
        let access = |user, tone_hz| Access {
            user,
            host: Ipv4Addr::LOCALHOST,
            server: (Ipv4Addr::LOCALHOST, self.server.port),
            transport: Transport::Udp,
            tone_hz,
        };
        let bob = Talker::answer(&self.stage, access("bob", BOB_HZ), &["--srtp", "none"])?;
        let more = [&["--srtp", "none"], more].concat();
        let alice = Talker::call(&self.stage, access("alice", ALICE_HZ), "bob", &more)?;
        Ok(Call { alice, bob })
    }
}

impl Call {
    fn connected(&mut self) -> Result<()> {
        self.alice.connected()?;
        self.bob.connected()
    }

    /// Ends the call after a while; fails unless both heard each other.
    fn talk_and_end(&mut self) -> Result<()> {
        std::thread::sleep(TALK);
        self.end()?;
        self.alice.expect_received(BOB_HZ, TALK.as_secs_f64() / 2.0).context("alice")?;
        self.bob.expect_received(ALICE_HZ, TALK.as_secs_f64() / 2.0).context("bob")
    }

    fn end(&mut self) -> Result<()> {
        self.alice.hang_up();
        for phone in [&mut self.alice, &mut self.bob] {
            let packets = phone.ended()?;
            ensure!(packets > PACKETS_MIN, "a phone got {packets} packets");
        }
        Ok(())
    }
}

/// First port for media of the relay with this control port: relays that run at the same time have others.
pub(super) const fn first_media_port(control: u16) -> u16 {
    30_000 + control % 100 * 200
}

const ALWAYS: &str = "relay = \"always\"";
const ALICE_HZ: f64 = 600.0;
const BOB_HZ: f64 = 1000.0;
const TALK: Duration = Duration::from_secs(2);
/// Packets of a direction in half of this time.
const PACKETS_MIN: u64 = 50;
