//! The phone's image in an emulated PC: it registers at a server on this computer, is called by a phone here, and calls one
//! by a key of its serial line. Each side must have heard the other's tone, with SRTP and without a wrong tag.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::emulator::{BootFrom, Card, Emulator, Network};
use super::{Image, build};
use crate::interop::audio::Recording;
use crate::interop::process::{Running, free_port};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The network card
    #[arg(long, value_enum, default_value = "virtio")]
    card: Card,
}

/// `cargo xtask metal phone`.
pub(super) fn run(args: &Args) -> Result<()> {
    build::build_elf(&Image::phone())?;
    let ringway = crate::workspace::built_server()?;
    let folder = tempfile::Builder::new().prefix("ringway-metal-phone-").tempdir()?;
    let checked = check(folder.path(), &ringway, args.card);
    if checked.is_err() {
        println!("traces are kept in {}", folder.keep().display());
    }
    checked
}

/// Boots the built image with `card`, and has it call and be called. `ringway`: the program for Linux. What all said is in
/// `folder`.
pub(crate) fn check(folder: &Path, ringway: &Path, card: Card) -> Result<()> {
    let place = Place { folder, ringway, own: own_address()?, server: free_port()? };
    let mut server = place.serve()?;
    server.wait_for_output("ready ")?;
    let mut machine = place.boot(card)?;
    machine.wait_for_output("account: sip:metal@example.org is registered for ")?;
    place.is_called(&mut machine).context("the machine is called")?;
    place.calls(&mut machine).context("the machine calls")
}

struct Place<'a> {
    folder: &'a Path,
    ringway: &'a Path,
    /// An address of this computer that the emulated PC reaches: its own 127.0.0.1 is another.
    own: Ipv4Addr,
    server: u16,
}

impl Place<'_> {
    /// A server with digest, and its three users.
    fn serve(&self) -> Result<Running> {
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
        let imported = import.output().context("cannot run `ringway user import`")?;
        if !imported.status.success() {
            bail!("`ringway user import`: {}", String::from_utf8_lossy(&imported.stderr));
        }
        let mut serve = Command::new(self.ringway);
        Running::start("server", serve.arg("serve").arg("--config").arg(config), self.folder)
    }

    fn boot(&self, card: Card) -> Result<Running> {
        let (sip_port, rtp) = (free_port()?, free_port()?);
        let words = format!(
            "account=sip:metal@example.org password={} server={}:{} srtp=sdes source=tone:{METAL_HZ} answer=auto \
             outside=127.0.0.1:{sip_port} rtp={rtp} dial1=sip:bob@example.org",
            password("metal"),
            self.own,
            self.server
        );
        let boot = BootFrom::Kernel(Image::phone().elf, words);
        let network = Network::Played { sip_port, more_ports: vec![rtp, rtp + 1], tftp: None };
        let mut command = Emulator { boot, card, memory_mib: MEMORY_MIB, network }.command()?;
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
        Running::start("machine", &mut command, self.folder)
    }

    /// alice, here, calls the machine.
    fn is_called(&self, machine: &mut Running) -> Result<()> {
        let mut call = self.phone("call", "sip:metal@example.org", "alice");
        call.args(["--from", "sip:alice@example.org", "--duration", "5"]);
        let mut alice = self.start(&mut call, "alice")?;
        alice.wait()?;
        self.expect(&alice, "alice")?;
        machine.wait_for_output("call: sip:alice@example.org: ended")?;
        expect_summary(machine, 1)
    }

    /// The machine calls bob, who is here, by key 1 of its serial line, and hangs up by another.
    fn calls(&self, machine: &mut Running) -> Result<()> {
        let mut answer = self.phone("answer", "", "bob");
        answer.args(["--as", "sip:bob@example.org", "--register", "--count", "1"]);
        let mut bob = self.start(&mut answer, "bob")?;
        bob.wait_for_output("ready ")?;
        // The first key gives the serial line the page.
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

    /// `ringway call` or `ringway answer`, so that it can be judged afterwards.
    fn phone(&self, command: &str, uri: &str, user: &str) -> Command {
        let mut phone = Command::new(self.ringway);
        phone.arg(command).args((!uri.is_empty()).then_some(uri));
        phone.args(["--server", &format!("{}:{}", self.own, self.server), "--password-stdin"]);
        phone.args(["--srtp", "sdes", "--play", "tone:1000", "--json"]);
        phone.arg("--record").arg(self.folder.join(format!("{user}.wav")));
        phone
    }

    fn start(&self, command: &mut Command, user: &str) -> Result<Running> {
        let mut phone = Running::start(user, command, self.folder)?;
        phone.type_line(&password(user))?;
        phone.close_input();
        Ok(phone)
    }

    /// The call stood, with SRTP and without a wrong tag, and the machine's tone was heard.
    fn expect(&self, phone: &Running, user: &str) -> Result<()> {
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
        let heard = Recording::read(&self.folder.join(format!("{user}.wav")))?;
        heard.expect_tone(f64::from(METAL_HZ), 3.0).with_context(|| format!("what {user} heard"))
    }
}

/// The machine, too, has had SRTP without a wrong tag: its log says so of its `count`th call.
fn expect_summary(machine: &mut Running, count: usize) -> Result<()> {
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

/// The address that this computer would use towards others. Nothing is sent for it.
fn own_address() -> Result<Ipv4Addr> {
    let missing = "this computer has no address but 127.0.0.1, which the emulated PC cannot reach; connect it to a network";
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // An address for documentation (RFC 5737).
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).context(missing)?;
    match socket.local_addr()?.ip() {
        IpAddr::V4(own) if !own.is_loopback() && !own.is_unspecified() => Ok(own),
        _ => bail!(missing),
    }
}

/// What the machine sends.
const METAL_HZ: u32 = 440;

const MEMORY_MIB: u32 = 64;
