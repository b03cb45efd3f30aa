//! A browser and phones that share no media protocol with it: the relay converts their media.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::audio::Recording;
use super::super::browser::{Phones, server_with};
use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use super::failover::first_media_port;
use super::start_relay;
use super::{Access, Talker, uri};
use crate::process::free_port;
use ringway_test_support::rtpengine::Rtpengine;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("relay/bridge/{name}"), body);
    vec![
        scenario("browser-calls-rtp", browser_calls),
        scenario("rtp-calls-browser", rtp_calls),
        scenario("sdes-calls-browser", sdes_calls),
    ]
}

/// The tab calls Ringway's phone, which accepts RTP only.
fn browser_calls(stage: &Stage) -> Result<()> {
    let mut world = World::start(stage)?;
    let mut phone = Talker::answer(stage, world.access(), &["--srtp", "none"])?;
    world.tab.command(TAB, &format!("call {}", uri(PHONE)))?;
    phone.connected()?;
    world.talk()?;
    world.tab.command(TAB, "hold")?;
    phone.says("holds the call", 1)?;
    world.tab.command(TAB, "resume")?;
    phone.says("is back", 1)?;
    world.talk()?;
    world.tab.command(TAB, "hangup")?;
    world.check(&mut phone)
}

/// Ringway's phone calls the tab with RTP only.
fn rtp_calls(stage: &Stage) -> Result<()> {
    let mut world = World::start(stage)?;
    let mut phone = Talker::call(stage, world.access(), TAB, &["--srtp", "none"])?;
    world.tab.expect(TAB, &format!("incoming {}", uri(PHONE)), 1)?;
    world.tab.command(TAB, "answer")?;
    phone.connected()?;
    world.talk()?;
    phone.hang_up();
    world.check(&mut phone)
}

/// baresip calls the tab with SRTP and keys in the SDP.
fn sdes_calls(stage: &Stage) -> Result<()> {
    let mut world = World::start(stage)?;
    let keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_80");
    let line = Line { keys, ..Line::at_server(PHONE, PHONE_HZ, world.server.port, Transport::Udp) };
    let mut phone = baresip::Phone::start(stage, line)?;
    phone.registered()?;
    phone.dial(&uri(TAB))?;
    world.tab.expect(TAB, &format!("incoming {}", uri(PHONE)), 1)?;
    world.tab.command(TAB, "answer")?;
    phone.established()?;
    world.talk()?;
    phone.hang_up()?;
    world.tab.expect(TAB, "ended remote Terminated", 1)?;
    expect_beeps(&Recording::read(&phone.recording()?)?)?;
    world.relay.expect_no_calls()
}

/// A server that bridges, with a relay and a tab that is registered.
struct World {
    server: Server,
    relay: Rtpengine,
    tab: Phones,
}

impl World {
    fn start(stage: &Stage) -> Result<Self> {
        let control = free_port()?;
        let relay = start_relay(stage, Ipv4Addr::LOCALHOST, control, first_media_port(control))?;
        let media = Some(("bridge = true", [control, 0]));
        let server = server_with(stage, Wanted { websocket: Some(""), media, ..Wanted::default() })?;
        let mut tab = Phones::start(stage)?;
        tab.register(TAB, &server.ws_url())?;
        Ok(Self { server, relay, tab })
    }

    fn access(&self) -> Access {
        Access {
            user: PHONE,
            host: Ipv4Addr::LOCALHOST,
            server: (Ipv4Addr::LOCALHOST, self.server.port),
            transport: Transport::Udp,
            tone_hz: PHONE_HZ,
        }
    }

    /// Fails unless the tab sends and receives sound.
    fn talk(&mut self) -> Result<()> {
        self.tab.expect(TAB, "confirmed", 1)?;
        self.tab.expect(TAB, "media connected", 1)?;
        let before = self.tab.figures(TAB)?;
        std::thread::sleep(TALK);
        self.tab.figures(TAB)?.expect_sound_since(&before)
    }

    /// Fails unless the phone heard the tab, and the call has ended everywhere.
    fn check(&mut self, phone: &mut Talker) -> Result<()> {
        let packets = phone.ended()?;
        ensure!(packets > 100, "the phone got {packets} packets");
        expect_beeps(&phone.received()?)?;
        self.relay.expect_no_calls()?;
        let counters = self.server.counters()?;
        ensure!(counters.get("media_failed")? == 0, "media failed");
        Ok(())
    }
}

/// Fails unless the microphone of the browser was heard, which beeps once a second.
fn expect_beeps(received: &Recording) -> Result<()> {
    let (seconds, rms) = (received.seconds(), received.rms());
    ensure!(rms > 0.01, "the phone heard {seconds:.1} s with an RMS of {rms:.4}");
    Ok(())
}

const TAB: &str = "alice";
const PHONE: &str = "bob";
const PHONE_HZ: f64 = 600.0;
/// More than 50 packets of 20 ms.
const TALK: Duration = Duration::from_secs(3);
