//! A phone behind a NAT that queries coturn for its mapped address.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::super::audio::Recording;
use super::super::nat::Nat;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use crate::process::{Process, Signal, UDP, await_listener, free_port};

/// baresip is called and calls, and sends its RTP to the address that coturn reported.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, body: fn(&Stage) -> Result<()>| {
        let mut scenario = Scenario::new(name, body);
        scenario.reference = false;
        scenario
    };
    vec![scenario("phone/stun/called", called), scenario("phone/stun/calls", calls)]
}

fn called(stage: &Stage) -> Result<()> {
    let world = World::new(stage)?;
    let mut peer = baresip::Phone::start(stage, LINE)?;
    let mut command = world.phone(stage)?;
    command.args(["call", &peer.uri(), "--bind", "127.0.0.1:0"]);
    let phone = world.options(stage, command)?;
    world.talk(stage, phone, &mut peer)
}

fn calls(stage: &Stage) -> Result<()> {
    let world = World::new(stage)?;
    let mut peer = baresip::Phone::start(stage, LINE)?;
    let uri = format!("sip:alice@127.0.0.1:{}", free_port()?);
    let mut command = world.phone(stage)?;
    command.args([
        "answer",
        "--as",
        &uri,
        "--bind",
        uri.rsplit('@').next().unwrap_or_default(),
        "--count",
        "1",
    ]);
    let phone = world.options(stage, command)?;
    phone.wait_for_output("ready")?;
    peer.dial(&uri)?;
    world.talk(stage, phone, &mut peer)
}

/// coturn, and the NAT in front of it.
struct World {
    nat: Nat,
    _server: Process,
}

impl World {
    fn new(stage: &Stage) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("turnserver");
        command.args(["-n", "--stun-only", "--no-cli", "--no-tls", "--no-dtls", "--no-tcp", "--no-rfc5780"]);
        command.args(["--listening-ip", "127.0.0.1", "--listening-port", &port.to_string()]);
        command.arg("--userdb").arg(stage.path("turn.db")).arg("--pidfile").arg(stage.path("turn.pid"));
        command.args(["--log-file", "stdout"]);
        let server = Process::start("coturn", &mut command, &stage.folder)?;
        await_listener(port, UDP)?;
        let nat = Nat::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        Ok(Self { nat, _server: server })
    }

    fn phone(&self, stage: &Stage) -> Result<Command> {
        stage.ringway.program().map(Command::new).context("only Ringway's program can run this scenario")
    }

    fn options(&self, stage: &Stage, mut command: Command) -> Result<Process> {
        command.args(["--stun", &self.nat.inside.to_string(), "--srtp", "sdes", "--play", "tone:600"]);
        command.args(["--json", "--record"]).arg(stage.path("heard-by-phone.wav"));
        Process::start("alice", &mut command, &stage.folder)
    }

    /// Both send sound through the NAT for a while, and the phone hangs up.
    fn talk(&self, stage: &Stage, phone: Process, peer: &mut baresip::Phone) -> Result<()> {
        phone.wait_for_output("is connected")?;
        std::thread::sleep(TALK);
        phone.signal(Signal::TERM);
        phone.succeeds()?;
        peer.ended().context("the peer")?;
        let trace = peer.trace()?;
        let [rtp, rtcp] = self.nat.outside;
        for line in [
            format!("c=IN IP4 {}\r\n", rtp.ip()),
            format!("m=audio {} ", rtp.port()),
            format!("a=rtcp:{}", rtcp.port()),
        ] {
            if !trace.contains(&line) {
                bail!("coturn sees the phone at {rtp} and {rtcp}, and its SDP has no {line:?}");
            }
        }
        let [(inwards, outwards), (reports_in, _)] = self.nat.passed();
        ensure!(inwards > 50 && outwards > 50, "{inwards} datagrams came in by the NAT, {outwards} went out");
        ensure!(reports_in > 0, "no RTCP came in by the NAT");
        let seconds = TALK.as_secs_f64() / 2.0;
        let received = Recording::read(&stage.path("heard-by-phone.wav"))?;
        received.expect_tone(LINE.tone_hz, seconds).context("recording of the phone")?;
        Recording::read(&peer.recording()?)?.expect_tone(600.0, seconds).context("recording of the peer")
    }
}

const LINE: Line<'static> = Line {
    user: "bob",
    host: Ipv4Addr::LOCALHOST,
    server_host: Ipv4Addr::LOCALHOST,
    server: None,
    transport: Transport::Udp,
    keys: Keys::Sdes("AES_CM_128_HMAC_SHA1_80"),
    tone_hz: 1000.0,
    seconds: 20,
};

/// RTCP is sent about every five seconds.
const TALK: Duration = Duration::from_secs(8);
