//! `cargo xtask interop --only relay/`: calls through the real rtpengine, between phones (`ringway call` and `ringway
//! answer`) in private networks behind NATs, with a public one between them.
//!
//! Does: phones behind NATs of three kinds in network namespaces, failover between relays, browsers that call other phones,
//! calls between phones with SRTP and with RTP, a stranger who sends to a call's ports.
//!
//! Does not: test rules and limits (`proto/server`, `proto/ng`).
//!
//! ```text
//!   phone 192.168.1.2 ── NAT 203.0.113.11 ──┐
//!                                           ├── bridge 203.0.113.1: server, media relay
//!   phone 192.168.1.2 ── NAT 203.0.113.12 ──┘
//! ```
//! Both private networks have the same addresses, so that none of a phone is reachable by accident.

mod bridge;
mod cone;
mod convert;
mod failover;
mod nat;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use cone::Cone;
use ringway_test_support::namespace::Namespace;
use ringway_test_support::rtpengine::{Rtpengine, media_ports};

use super::audio::Recording;
use super::{Scenario, Stage, Transport};
use crate::process::{Process, Signal};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = nat::scenarios();
    all.extend(failover::scenarios());
    all.extend(bridge::scenarios());
    all.extend(convert::scenarios());
    for scenario in &mut all {
        scenario.reference = false;
    }
    all
}

/// Starts rtpengine with its control port on loopback, and 200 ports for media at `interface` from `first` on.
fn start_relay(stage: &Stage, interface: Ipv4Addr, control: u16, first: u16) -> Result<Rtpengine> {
    Rtpengine::start_at(&stage.site(), control, &media_ports(interface, first, 200))
}

/// Address of the server and of the media relay.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// Address of each phone.
const PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);

/// Behaviour of a NAT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The kernel's, with a random port for each destination: address- and port-dependent mapping and filtering.
    Symmetric,
    /// The kernel's, which keeps the port: address- and port-dependent filtering.
    Restricted,
    /// Ours, which lets in packets of everybody to a port in use, delays all and loses some. UDP only.
    Cone,
}

/// The networks, which are removed when this value is dropped.
struct Network {
    public: Namespace,
    sides: [Side; 2],
}

/// A phone's network.
struct Side {
    phone: Namespace,
    /// It ends before its namespaces.
    cone: Option<Cone>,
    _nat: Namespace,
}

impl Network {
    /// Makes the networks; `None`: this user may not.
    fn make(kinds: [Kind; 2]) -> Result<Option<Self>> {
        let Some(public) = Namespace::with_bridge("public", PUBLIC)? else { return Ok(None) };
        let [one, two] = kinds;
        let (Some(one), Some(two)) = (Side::make(&public, one, 11)?, Side::make(&public, two, 12)?) else {
            return Ok(None);
        };
        Ok(Some(Self { public, sides: [one, two] }))
    }

    /// Stage of the server and the media relay.
    fn public(&self, stage: &Stage) -> Stage {
        stage.inside(&self.public)
    }

    /// Stage of the phone on a side.
    fn phone(&self, stage: &Stage, side: usize) -> Stage {
        stage.inside(&self.sides[side].phone)
    }

    /// Numbers of datagrams that the full-cone NAT of a side forwarded and lost.
    fn passed(&self, side: usize) -> Option<(u32, u32)> {
        self.sides[side].cone.as_ref().map(Cone::passed)
    }
}

impl Side {
    fn make(public: &Namespace, kind: Kind, number: u8) -> Result<Option<Self>> {
        let (Some(nat), Some(phone)) = (Namespace::create("nat")?, Namespace::create("phone")?) else {
            return Ok(None);
        };
        let outer = Ipv4Addr::new(203, 0, 113, number);
        nat.join(public, "outer", outer)?;
        if kind == Kind::Cone {
            phone.ip("tuntap add inner mode tun")?;
        } else {
            nat.ip(&format!("link add inner type veth peer name inner netns {}", phone.name()))?;
            nat.ip("addr add 192.168.1.1/24 dev inner")?;
            nat.ip("link set inner up")?;
            nat.run("sysctl", "-q -w net.ipv4.ip_forward=1")?;
            // As routers do: otherwise the packets of a peer that sends first take the mapping of the phone.
            nat.run("iptables", "-A INPUT -i outer -j DROP")?;
            let random = if kind == Kind::Symmetric { " --random-fully" } else { "" };
            nat.run("iptables", &format!("-t nat -A POSTROUTING -o outer -j MASQUERADE{random}"))?;
        }
        phone.ip(&format!("addr add {PRIVATE}/24 dev inner"))?;
        phone.ip("link set inner up")?;
        let cone = match kind {
            Kind::Cone => Some(Cone::start((&phone, PRIVATE), &nat, outer)?),
            Kind::Symmetric | Kind::Restricted => None,
        };
        phone.ip(if kind == Kind::Cone {
            "route add default dev inner"
        } else {
            "route add default via 192.168.1.1"
        })?;
        Ok(Some(Self { phone, cone, _nat: nat }))
    }
}

/// `ringway call` or `ringway answer` with a tone.
struct Talker {
    running: Process,
    recording: PathBuf,
}

/// Network settings of a phone.
#[derive(Clone, Copy)]
struct Access {
    user: &'static str,
    host: Ipv4Addr,
    server: (Ipv4Addr, u16),
    transport: Transport,
    tone_hz: f64,
}

impl Talker {
    /// Registers and answers one call.
    fn answer(stage: &Stage, access: Access, more: &[&str]) -> Result<Self> {
        let aor = uri(access.user);
        let arguments = ["answer", "--as", &aor, "--register", "--count", "1"];
        let phone = Self::start(stage, access, &[&arguments[..], more].concat())?;
        phone.running.wait_for_output("ready")?;
        Ok(phone)
    }

    /// Calls a user.
    fn call(stage: &Stage, access: Access, user: &str, more: &[&str]) -> Result<Self> {
        let arguments = ["call", &uri(user), "--from", &uri(access.user)];
        Self::start(stage, access, &[&arguments[..], more].concat())
    }

    /// Waits until the call is answered.
    fn connected(&mut self) -> Result<()> {
        self.running.wait_for_output("is connected")
    }

    /// Waits until it has printed this text so many times.
    fn says(&mut self, text: &str, times: usize) -> Result<()> {
        self.running.wait_until(text, |output| output.matches(text).count() >= times)
    }

    fn hang_up(&mut self) {
        self.running.signal(Signal::TERM);
    }

    /// Waits for the end of the call; fails unless it was answered. Returns the number of received packets.
    fn ended(&mut self) -> Result<u64> {
        self.running.succeeds()?;
        let printed = self.running.printed_json()?;
        ensure!(printed["result"] == "answered", "{printed}");
        printed
            .pointer("/received/packets")
            .and_then(serde_json::Value::as_u64)
            .context("no packets in the JSON")
    }

    /// Waits for the end of a call without any sound, which has failed for its phone.
    fn ended_in_silence(&mut self) -> Result<()> {
        self.running.wait()?;
        let printed = self.running.printed_json()?;
        let is_silent = printed["reason"].as_str().is_some_and(|reason| reason.starts_with("no sound"));
        let packets = printed.pointer("/received/packets").and_then(serde_json::Value::as_u64);
        ensure!(printed["result"] == "failed" && is_silent && packets == Some(0), "{printed}");
        Ok(())
    }

    /// Status with which its call failed.
    fn refused(&mut self) -> Result<u64> {
        self.running.wait()?;
        self.running.printed_json()?["status"].as_u64().context("no status in the JSON")
    }

    /// Sound that it received.
    fn received(&self) -> Result<Recording> {
        Recording::read(&self.recording)
    }

    /// Fails unless it heard `hz` for `seconds`.
    fn expect_received(&self, hz: f64, seconds: f64) -> Result<()> {
        self.received()?.expect_tone(hz, seconds)
    }

    fn start(stage: &Stage, access: Access, arguments: &[&str]) -> Result<Self> {
        let Access { user, host, server: (server, port), transport, tone_hz } = access;
        let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
        let recording = stage.path(&format!("heard-by-{user}.wav"));
        let mut command = stage.command(program);
        command.args(arguments).args(["--server", &format!("{server}:{port}")]);
        command.args(["--transport", transport.name(), "--bind", &format!("{host}:0"), "--password-stdin"]);
        command.args(["--play", &format!("tone:{tone_hz}"), "--json", "--trace", "--record"]).arg(&recording);
        let mut running = Process::start(user, &mut command, &stage.folder)?;
        running.type_line(&format!("secret-{user}"))?;
        running.close_input();
        Ok(Self { running, recording })
    }
}

/// Accounts of users, each with the password that the phones have.
fn accounts(users: &[&str]) -> Vec<(String, String)> {
    users.iter().map(|user| ((*user).to_owned(), format!("secret-{user}"))).collect()
}

fn uri(user: &str) -> String {
    format!("sip:{user}@example.org")
}
