//! The phone's image in an emulated PC: it registers at a server on this computer, receives a call from a
//! phone here, and calls one by a key on its serial port. Each side must receive the other's tone, with SRTP
//! and without authentication failures.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ringway_test_support::process::run_to_end;
use serde_json::Value;
use xtask::image::Image;

use crate::machine::{BootFrom, Card, Emulator, Network};

use crate::interop::audio::Recording;
use crate::process::{Process, free_port};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The network card
    #[arg(long, value_enum, default_value = "virtio")]
    card: Card,
}

/// `cargo xtask metal phone`.
pub(super) fn run(args: &Args) -> Result<()> {
    Image::phone().build_elf()?;
    let ringway = xtask::workspace::built_server(xtask::workspace::Form::Debug)?;
    let folder = tempfile::Builder::new().prefix("ringway-metal-phone-").tempdir()?;
    let checked = check(folder.path(), &ringway, args.card);
    if checked.is_err() {
        println!("logs are kept in {}", folder.keep().display());
    }
    checked
}

/// Boots the built image with `card`, and tests an incoming and an outgoing call. `ringway` is the program
/// for Linux. All output is in `folder`.
pub(crate) fn check(folder: &Path, ringway: &Path, card: Card) -> Result<()> {
    let network = TestNetwork { folder, ringway, own: own_address()?, server: free_port()? };
    let server = network.serve()?;
    server.wait_for_output("ready ")?;
    let mut machine = network.boot(card)?;
    machine.wait_for_output("account: sip:metal@example.org is registered for ")?;
    network.is_called(&mut machine).context("call to the machine")?;
    network.calls(&mut machine).context("call from the machine")
}

struct TestNetwork<'a> {
    folder: &'a Path,
    ringway: &'a Path,
    /// Address of this computer that the emulated PC reaches; its own 127.0.0.1 is another one.
    own: Ipv4Addr,
    server: u16,
}

impl TestNetwork<'_> {
    /// Starts a server with digest and three users.
    fn serve(&self) -> Result<Process> {
        let config = self.folder.join("ringway.toml");
        let (own, server, admin) = (self.own, self.server, free_port()?);
        std::fs::write(
            &config,
            format!(
                "domains = [\"example.org\"]\nlisten = [\"udp:{own}:{server}\", \"tcp:{own}:{server}\"]\n\
                 [store]\nurl = \"sqlite://ringway.db\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n"
            ),
        )?;
        let users = self.folder.join("users.csv");
        let row = |name: &str| format!("{name},{}\n", password(name));
        let rows: String = ["alice", "bob", "metal"].iter().map(|name| row(name)).collect();
        std::fs::write(&users, format!("username,password\n{rows}"))?;
        let mut import = Command::new(self.ringway);
        import.args(["user", "import"]).arg(&users).arg("--config").arg(&config).current_dir(self.folder);
        run_to_end(&mut import, "")?;
        let mut serve = Command::new(self.ringway);
        Process::start("server", serve.arg("serve").arg("--config").arg(config), self.folder)
    }

    fn boot(&self, card: Card) -> Result<Process> {
        let (sip_port, rtp) = (free_port()?, free_port()?);
        let words = format!(
            "account=sip:metal@example.org password={} server={}:{} srtp=sdes source=tone:{METAL_HZ} answer=auto \
             outside=127.0.0.1:{sip_port} rtp={rtp} dial1=sip:bob@example.org",
            password("metal"),
            self.own,
            self.server
        );
        let boot = BootFrom::Kernel(Image::phone().elf, words, None);
        let network =
            Network::Played { sip_port, tls_port: None, more_ports: vec![rtp, rtp + 1], tftp: None };
        let mut command = Emulator { boot, card, memory_mib: MEMORY_MIB, network }.command()?;
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
        Process::start("machine", &mut command, self.folder)
    }

    /// Tests a call from alice on this computer to the machine.
    fn is_called(&self, machine: &mut Process) -> Result<()> {
        let mut call = self.phone("call", "sip:metal@example.org", "alice");
        call.args(["--from", "sip:alice@example.org", "--duration", "5"]);
        let alice = self.start(&mut call, "alice")?;
        alice.wait()?;
        self.expect(&alice, "alice")?;
        machine.wait_for_output("call: sip:alice@example.org: ended")?;
        expect_summary(machine, 1)
    }

    /// Tests a call from the machine to bob on this computer, started by key 1 on its serial port, and hung
    /// up by another key.
    fn calls(&self, machine: &mut Process) -> Result<()> {
        let mut answer = self.phone("answer", "", "bob");
        answer.args(["--as", "sip:bob@example.org", "--register", "--count", "1"]);
        let bob = self.start(&mut answer, "bob")?;
        bob.wait_for_output("ready ")?;
        // The first key shows the page on the serial port.
        machine.type_keys(" ")?;
        machine.wait_for_output("Quick dial")?;
        machine.type_keys("1")?;
        bob.wait_for_output("is connected")?;
        std::thread::sleep(Duration::from_secs(5));
        machine.type_keys("h")?;
        bob.wait()?;
        self.expect(&bob, "bob")?;
        machine.type_keys("q")?;
        expect_summary(machine, 2)
    }

    /// Command for `ringway call` or `ringway answer` with JSON output.
    fn phone(&self, command: &str, uri: &str, user: &str) -> Command {
        let mut phone = Command::new(self.ringway);
        phone.arg(command).args((!uri.is_empty()).then_some(uri));
        phone.args(["--server", &format!("{}:{}", self.own, self.server), "--password-stdin"]);
        phone.args(["--srtp", "sdes", "--play", "tone:1000", "--json"]);
        phone.arg("--record").arg(self.folder.join(format!("{user}.wav")));
        phone
    }

    fn start(&self, command: &mut Command, user: &str) -> Result<Process> {
        let mut phone = Process::start(user, command, self.folder)?;
        phone.type_line(&password(user))?;
        phone.close_input();
        Ok(phone)
    }

    /// Checks that the call was established with SRTP and without authentication failures, and that the
    /// machine's tone was received.
    fn expect(&self, phone: &Process, user: &str) -> Result<()> {
        let said = phone.output();
        let line = said.lines().find(|line| line.starts_with('{'));
        let outcome: Value = serde_json::from_str(line.context("it printed no JSON")?)?;
        let is = |path: &str, wanted: Value| match outcome.pointer(path) {
            Some(value) if *value == wanted => Ok(()),
            other => Err(anyhow::anyhow!("{user}: {path} is {other:?}, not {wanted}")),
        };
        is("/result", "answered".into())?;
        is("/security/method", "sdes".into())?;
        is("/received/auth_failures", 0.into())?;
        let packets = outcome.pointer("/received/packets").and_then(Value::as_u64).unwrap_or_default();
        if packets < 200 {
            bail!("{user} received only {packets} packets in 5 s");
        }
        let received = Recording::read(&self.folder.join(format!("{user}.wav")))?;
        received.expect_tone(f64::from(METAL_HZ), 3.0).with_context(|| format!("recording of {user}"))
    }
}

/// Checks that the machine's log reports SRTP without authentication failures for its `count`th call.
fn expect_summary(machine: &mut Process, count: usize) -> Result<()> {
    let is_summary =
        |line: &&str| line.contains("sound: ") && line.contains(" with a wrong tag") && line.ends_with('\n');
    machine.wait_until("how its sound was", |said| {
        said.split_inclusive('\n').filter(is_summary).count() >= count
    })?;
    let said = machine.output();
    let summary = said.split_inclusive('\n').filter(is_summary).nth(count - 1).unwrap_or_default();
    for wanted in ["sound: SDES over plain SIP (weak)", ", 0 with a wrong tag"] {
        if !summary.contains(wanted) {
            bail!("the machine does not say \"{wanted}\": {summary}");
        }
    }
    println!("{}", summary.trim());
    Ok(())
}

fn password(user: &str) -> String {
    format!("secret-{user}")
}

/// Address that this computer would use towards others; nothing is sent.
fn own_address() -> Result<Ipv4Addr> {
    let missing = "this computer has no address but 127.0.0.1, which the emulated PC cannot reach; connect it to a network";
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Address for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).context(missing)?;
    match socket.local_addr()?.ip() {
        IpAddr::V4(own) if !own.is_loopback() && !own.is_unspecified() => Ok(own),
        _ => bail!(missing),
    }
}

/// Frequency of the machine's tone.
const METAL_HZ: u32 = 440;

const MEMORY_MIB: u32 = 64;
