//! A phone behind a NAT that queries coturn for its mapped address. A peer behind a NAT that assigns ports
//! consecutively, called by a phone behind a NAT that accepts packets only from destinations of the phone: there is no
//! sound until the phone probes the ports after the announced one.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::super::audio::Recording;
use super::super::nat::{CountingNat, Nat};
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

/// With a row of ports, and without: then both record silence.
pub(crate) fn port_row_scenarios() -> Vec<Scenario> {
    [("phone/port-row/6", 6), ("phone/port-row/none", 0)]
        .map(|(name, ports)| {
            let mut scenario = Scenario::new(name, move |stage: &Stage| call(stage, ports));
            scenario.reference = false;
            scenario
        })
        .into()
}

fn call(stage: &Stage, ports: u8) -> Result<()> {
    let nat = CountingNat::start()?;
    let more = format!(";medianat=stun;stunserver=\"stun:{}\"", nat.peer_stun);
    let mut peer = baresip::Phone::start_with(stage, PORT_ROW_LINE, &more)?;
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(["call", &peer.uri(), "--from", "sip:alice@127.0.0.1", "--bind", "127.0.0.1:0"]);
    command.args(["--stun", &nat.phone_stun.to_string(), "--port-row", &ports.to_string()]);
    command.args([
        "--srtp",
        "none",
        "--play",
        "tone:600",
        "--duration",
        &PORT_ROW_TALK.as_secs().to_string(),
    ]);
    command.args(["--trace", "--json", "--record"]).arg(stage.path("heard-by-phone.wav"));
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    let status = phone.wait()?;
    peer.ended().context("the peer")?;
    let printed = phone.printed_json()?;
    stage.keep_text(&printed.to_string(), "phone.json")?;
    let received = printed["received"]["packets"].as_u64().context("no count of packets")?;
    let named = nat.named_by_peer().context("the peer asked no STUN server")?;
    ensure!(peer.trace()?.contains(&format!("m=audio {} ", named.port())), "the peer did not name {named}");
    if ports == 0 {
        ensure!(received == 0, "without a row of ports {received} packets came in: {printed}");
        ensure!(status.code() == Some(1), "{status} after a call without sound: {printed}");
        return Ok(());
    }
    ensure!(status.success() && received > 100, "{status}, {received} packets came in: {printed}");
    let seconds = PORT_ROW_TALK.as_secs_f64() / 3.0;
    let recording = Recording::read(&stage.path("heard-by-phone.wav"))?;
    recording.expect_tone(PORT_ROW_LINE.tone_hz, seconds).context("recording of the phone")?;
    Recording::read(&peer.recording()?)?.expect_tone(600.0, seconds).context("recording of the peer")
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
const PORT_ROW_LINE: Line<'static> = Line {
    user: "bob",
    host: Ipv4Addr::LOCALHOST,
    server_host: Ipv4Addr::LOCALHOST,
    server: None,
    transport: Transport::Udp,
    keys: Keys::None,
    tone_hz: 1000.0,
    seconds: 20,
};

/// The probing starts after 2 s.
const PORT_ROW_TALK: Duration = Duration::from_secs(9);
