//! A phone that demands SRTP, with keys in the SDP, and one that has RTP only: the relay converts between them.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::audio::Recording;
use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use super::failover::first_media_port;
use super::start_relay;
use super::{Access, Talker, accounts, uri};
use crate::process::free_port;
use ringway_test_support::rtpengine::Rtpengine;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("relay/convert/{name}"), body);
    vec![
        scenario("both-ways", both_ways),
        scenario("rtp-calls-srtp", rtp_calls),
        scenario("end-to-end", end_to_end),
    ]
}

/// Ringway's phone with RTP only calls baresip with SRTP.
fn rtp_calls(stage: &Stage) -> Result<()> {
    let world = World::start(stage, BRIDGE)?;
    let mut srtp = world.baresip(stage, SRTP, SRTP_HZ, SDES)?;
    let mut rtp = Talker::call(stage, world.access(), SRTP, &["--srtp", "none"])?;
    rtp.connected()?;
    srtp.established()?;
    std::thread::sleep(TALK);
    srtp.hang_up()?;
    rtp.ended()?;
    rtp.expect_received(SRTP_HZ, 2.0).context("the phone with RTP")?;
    Recording::read(&srtp.recording()?)?.expect_tone(RTP_HZ, 2.0).context("the phone with SRTP")?;
    world.expect_converted(1)
}

/// Two baresips, of which each calls the other.
fn both_ways(stage: &Stage) -> Result<()> {
    let world = World::start(stage, BRIDGE)?;
    let mut srtp = world.baresip(stage, SRTP, SRTP_HZ, SDES)?;
    let mut rtp = world.baresip(stage, RTP, RTP_HZ, Keys::None)?;
    for call in 1..=2 {
        match call {
            1 => srtp.dial(&uri(RTP))?,
            _ => rtp.dial(&uri(SRTP))?,
        }
        srtp.established_calls(call).with_context(|| format!("call {call}"))?;
        rtp.established_calls(call)?;
        std::thread::sleep(TALK);
        rtp.hang_up()?;
        srtp.ended_calls(call)?;
        rtp.ended_calls(call)?;
    }
    ensure!(srtp.trace()?.contains(WARNING), "the caller with SRTP was not warned");
    Recording::read(&srtp.recording()?)?.expect_tone(RTP_HZ, 4.0).context("the phone with SRTP")?;
    Recording::read(&rtp.recording()?)?.expect_tone(SRTP_HZ, 4.0).context("the phone with RTP")?;
    world.expect_converted(2)
}

/// Without the setting the call fails.
fn end_to_end(stage: &Stage) -> Result<()> {
    let world = World::start(stage, "relay = \"always\"")?;
    let mut srtp = world.baresip(stage, SRTP, SRTP_HZ, SDES)?;
    let _rtp = world.baresip(stage, RTP, RTP_HZ, Keys::None)?;
    srtp.dial(&uri(RTP))?;
    srtp.ended().context("the refused call")?;
    world.expect_converted(0)
}

/// A server with a relay.
struct World {
    server: Server,
    relay: Rtpengine,
}

impl World {
    fn start(stage: &Stage, lines: &'static str) -> Result<Self> {
        let control = free_port()?;
        let relay = start_relay(stage, Ipv4Addr::LOCALHOST, control, first_media_port(control))?;
        let wanted = Wanted { media: Some((lines, [control, 0])), ..Wanted::default() };
        let server = Server::start(stage, wanted, &accounts(&[SRTP, RTP]))?;
        Ok(Self { server, relay })
    }

    fn baresip(&self, stage: &Stage, user: &str, hz: f64, keys: Keys) -> Result<baresip::Phone> {
        let line = Line { keys, ..Line::at_server(user, hz, self.server.port, Transport::Udp) };
        let mut phone = baresip::Phone::start(stage, line)?;
        phone.registered()?;
        Ok(phone)
    }

    /// Network settings of Ringway's phone.
    fn access(&self) -> Access {
        Access {
            user: RTP,
            host: Ipv4Addr::LOCALHOST,
            server: (Ipv4Addr::LOCALHOST, self.server.port),
            transport: Transport::Udp,
            tone_hz: RTP_HZ,
        }
    }

    /// Fails unless so many offers were converted, and the relay has no call left.
    fn expect_converted(&self, offers: u64) -> Result<()> {
        let counters = self.server.counters()?;
        let (converted, failed) = (counters.get("media_converted")?, counters.get("media_failed")?);
        ensure!((converted, failed) == (offers, 0), "{converted} offers converted, {failed} failures");
        self.relay.expect_no_calls()
    }
}

const BRIDGE: &str = "srtp = \"bridge\"";
const SDES: Keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_80");
const WARNING: &str = "\"Media Not Encrypted End To End\"";
const SRTP: &str = "alice";
const SRTP_HZ: f64 = 440.0;
const RTP: &str = "bob";
const RTP_HZ: f64 = 1000.0;
/// Duration of a call's sound.
const TALK: Duration = Duration::from_secs(3);
