//! baresip: two phones register with digest and call each other, with sound in both directions.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_test_support::eventually::holds;
use ringway_test_support::namespace;

use super::audio::{Recording, SoundCard, write_tone};
use super::certificates::CA_FILE;
use super::server::{Server, Wanted};
use super::softphone::{Keys, Line, Softphone};
use super::{Scenario, Stage, Transport};
use crate::process::{PATIENCE, Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let call = |transport: Transport| {
        Scenario::new(format!("baresip/call/{}", transport.name()), move |stage: &Stage| {
            call(stage, transport)
        })
    };
    Transport::ALL.map(call).into()
}

fn call(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start(stage, Wanted::default(), &[])?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let mut alice = Phone::start(stage, Line::at_server("alice", 440.0, server.port, transport))?;
    let mut bob = Phone::start(stage, Line::at_server("bob", 1000.0, server.port, transport))?;
    alice.registered()?;
    bob.registered()?;
    server.expect_registered(["alice", "bob"].into_iter(), true)?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    std::thread::sleep(Duration::from_secs(3));
    alice.hang_up()?;
    bob.ended()?;
    Recording::read(&alice.recording()?)?.expect_tone(1000.0, 2.0).context("alice")?;
    Recording::read(&bob.recording()?)?.expect_tone(440.0, 2.0).context("bob")
}

/// Parameter of an account with flows (RFC 5626).
pub(crate) const WITH_FLOWS: &str = ";sipnat=outbound";

/// Home folder of the phone of `user`.
pub(crate) fn home_of(stage: &Stage, user: &str) -> PathBuf {
    stage.path(&format!("{user}-baresip"))
}

/// Parameter of an account with ICE, as a full agent.
pub(crate) const WITH_ICE: &str = ";medianat=ice";

/// Parameter of an account that rings until [`Phone::reject`].
pub(crate) const WITHOUT_ANSWER: &str = ";extra=rings";

/// A baresip that sends a tone and records received sound. It answers every call, unless it has [`WITHOUT_ANSWER`].
pub(crate) struct Phone {
    running: Process,
    control: Control,
    card: SoundCard,
    uri: String,
}

impl Phone {
    /// Starts baresip, which registers automatically if it has a server, with or without success.
    pub(crate) fn start(stage: &Stage, line: Line<'_>) -> Result<Self> {
        Self::start_with(stage, line, "")
    }

    /// The same with `more` parameters of its account, each with a semicolon before it.
    pub(crate) fn start_with(stage: &Stage, line: Line<'_>, more: &str) -> Result<Self> {
        Self::start_in(stage, line, (more, None), Watching::Nothing)
    }

    /// Starts one that finds the servers of its domain at the DNS server with this port on loopback.
    pub(crate) fn start_by_name(stage: &Stage, line: Line<'_>, dns_port: u16) -> Result<Self> {
        Self::start_in(stage, line, ("", Some(dns_port)), Watching::Nothing)
    }

    /// Starts one whose requests go to the proxy with this URI, whose name the DNS server with this port on loopback has.
    pub(crate) fn start_through(stage: &Stage, line: Line<'_>, proxy: &str, dns_port: u16) -> Result<Self> {
        let outbound = format!(";outbound=\"{proxy}\"");
        Self::start_in(stage, line, (&outbound, Some(dns_port)), Watching::Nothing)
    }

    /// Starts one that publishes its presence, and subscribes to that of `watched`.
    pub(crate) fn start_watching(stage: &Stage, line: Line<'_>, watched: &str) -> Result<Self> {
        Self::start_in(stage, line, (";pubint=300", None), Watching::User(watched))
    }

    /// Starts one that can send texts to `peer`.
    pub(crate) fn start_writing(stage: &Stage, line: Line<'_>, peer: &str) -> Result<Self> {
        Self::start_in(stage, line, ("", None), Watching::Texts(peer))
    }

    /// Starts one that subscribes to the summary of its messages.
    pub(crate) fn start_with_messages(stage: &Stage, line: Line<'_>) -> Result<Self> {
        Self::start_in(stage, line, (";mwi=yes", None), Watching::Messages)
    }

    fn start_in(
        stage: &Stage,
        line: Line<'_>,
        (more, dns_port): (&str, Option<u16>),
        watching: Watching<'_>,
    ) -> Result<Self> {
        let Line { user, host, transport, .. } = line;
        let home = home_of(stage, user);
        std::fs::create_dir_all(&home)?;
        let card = SoundCard::insert(&home, line.tone_hz, 6)?;
        let tone = home.join("tone.wav");
        write_tone(&tone, line.tone_hz, line.seconds)?;
        let (port, control, rtp) = (free_port()?, free_port()?, free_port()?);
        let registration = line.server.map_or("regint=0".to_owned(), |server| {
            let outbound = format!("sip:{}:{server};transport={}", line.server_host, transport.name());
            let outbound =
                if dns_port.is_some() { String::new() } else { format!("outbound=\"{outbound}\";") };
            format!("auth_user={user};auth_pass=secret-{user};{outbound}regint=120")
        });
        // Without TLS it needs no such file, and refuses to start if there is none.
        let ca = match transport {
            Transport::Tls => format!("sip_cafile {}", stage.path(CA_FILE).display()),
            Transport::Udp | Transport::Tcp => String::new(),
        };
        let words = [
            ("@HOST@", host.to_string()),
            ("@PORT@", port.to_string()),
            ("@CONTROL@", control.to_string()),
            ("@RTP_FIRST@", rtp.to_string()),
            // It selects a pair at random; here there is only one.
            ("@RTP_LAST@", (rtp + 1).to_string()),
            ("@TONE@", tone.display().to_string()),
            ("@MODULES@", modules()?),
            ("@USER@", user.to_owned()),
            ("@DOMAIN@", line.domain(port)),
            ("@REGISTRATION@", registration),
            ("@TRANSPORT@", transport.name().to_owned()),
            ("@CA@", ca),
            ("@DNS@", dns_port.map_or(String::new(), |port| format!("dns_server 127.0.0.1:{port}"))),
            // Its ICE with RTCP as a second component is not used by Ringway.
            ("@RTCP_MUX@", if more == WITH_ICE { "rtcp_mux yes".to_owned() } else { String::new() }),
            ("@ANSWER@", if more == WITHOUT_ANSWER { "manual" } else { "auto" }.to_owned()),
            ("@KEYS@", format!("{}{more}", keys(line.keys)?)),
            ("@WATCHING@", watching.modules().to_owned()),
        ];
        for file in ["config", "accounts"] {
            stage.fill(&format!("baresip/{file}"), &words, &home.join(file))?;
        }
        std::fs::write(home.join("contacts"), watching.contacts())?;
        let mut command = stage.command("baresip");
        command.env("HOME", &home).arg("-s").arg("-f").arg(&home);
        let running = Process::start(user, &mut command, &stage.folder)?;
        running.wait_for_output("baresip is ready")?;
        Ok(Self {
            running,
            control: namespace::enter(stage.namespace.as_deref(), || Control::connect(control))??,
            card,
            uri: line.uri(port),
        })
    }

    /// Kills it: it does not end its registration.
    pub(crate) fn kill(self) {
        self.running.kill();
    }

    /// Waits until it is registered.
    pub(crate) fn registered(&mut self) -> Result<()> {
        self.running.wait_for_output("registered successfully").context("baresip did not register")
    }
}

impl Phone {
    /// Publishes that its user is there.
    pub(crate) fn come_online(&mut self) -> Result<()> {
        self.control.command("presence_online", "")
    }

    /// Publishes that its user is away.
    pub(crate) fn go_offline(&mut self) -> Result<()> {
        self.control.command("presence_offline", "")
    }

    /// Waits until it has sent or received `text`.
    pub(crate) fn gets(&mut self, text: &str) -> Result<()> {
        self.running.wait_for_output(text)
    }

    /// Waits until it shows that the presence of a user changed to `status`.
    pub(crate) fn sees(&mut self, user: &str, status: &str) -> Result<()> {
        // The words have colours.
        let is_it = |line: &str| {
            let after =
                line.split_once("changed status from ").and_then(|(_, after)| after.split_once(" to "));
            line.contains(&format!("sip:{user}@")) && after.is_some_and(|(_, after)| after.contains(status))
        };
        self.running.wait_until(&format!("{user} is {status}"), |output| output.lines().any(is_it))
    }

    /// Sends a text to its peer.
    pub(crate) fn says(&mut self, text: &str) -> Result<()> {
        self.control.command("message", text)
    }

    /// Waits until it shows a text of a user.
    pub(crate) fn reads(&mut self, user: &str, text: &str) -> Result<()> {
        let shown = format!("\"{text}\"");
        self.running.wait_until(&format!("{user} says {text}"), |output| {
            output.lines().any(|line| line.contains(&format!("sip:{user}@")) && line.contains(&shown))
        })
    }

    /// Waits until it shows that messages wait. False: it subscribes again and again and handles nothing else, as baresip 1.0 does
    /// if it was registered before its timer for the subscription fired.
    pub(crate) fn has_messages(&mut self) -> Result<bool> {
        let is_shown = |output: &str| {
            let shown = output.split_once("----- MWI for");
            shown.is_some_and(|(_, shown)| shown.contains("Messages-Waiting: yes"))
        };
        self.running.wait_until("----- MWI for", |output| {
            is_shown(output) || output.matches("mwi: subscribing").count() > SUBSCRIBING_MAX
        })?;
        Ok(is_shown(&self.running.output()))
    }

    /// Waits until it rings.
    pub(crate) fn rings(&self) -> Result<()> {
        self.control.wait_for("CALL_INCOMING").context("baresip does not ring")
    }

    /// Rejects the call that rings, with 486.
    pub(crate) fn reject(&mut self) -> Result<()> {
        self.control.command("hangup", "")
    }

    /// Waits until as many calls were established.
    pub(crate) fn established_calls(&self, calls: usize) -> Result<()> {
        self.control.wait_for_times("CALL_ESTABLISHED", calls)
    }

    /// Waits until as many calls have ended.
    pub(crate) fn ended_calls(&self, calls: usize) -> Result<()> {
        self.control.wait_for_times("CALL_CLOSED", calls)
    }

    /// Number of calls that it got.
    pub(crate) fn incoming(&self) -> usize {
        self.control.output().matches("CALL_INCOMING").count()
    }
}

impl Softphone for Phone {
    fn uri(&self) -> String {
        self.uri.clone()
    }

    fn dial(&mut self, uri: &str) -> Result<()> {
        self.control.command("dial", uri)
    }

    fn answer(&mut self) -> Result<()> {
        Ok(())
    }

    fn established(&mut self) -> Result<()> {
        self.control.wait_for("CALL_ESTABLISHED").context("baresip has no call")
    }

    fn hold(&mut self) -> Result<()> {
        self.control.command("hold", "")
    }

    fn resume(&mut self) -> Result<()> {
        self.control.command("resume", "")
    }

    fn press(&mut self, digit: char) -> Result<()> {
        self.control.command("sndcode", &digit.to_string())
    }

    fn hang_up(&mut self) -> Result<()> {
        self.control.command("hangup", "")
    }

    fn ended(&mut self) -> Result<()> {
        self.control.wait_for("CALL_CLOSED").context("baresip's call did not end")
    }

    fn digits(&self) -> String {
        let output = self.control.output();
        let pressed = output.split("\"CALL_DTMF_START\"").skip(1);
        pressed.filter_map(|rest| rest.split("\"param\":\"").nth(1)?.chars().next()).collect()
    }

    fn trace(&self) -> Result<String> {
        Ok(self.running.output())
    }

    fn sas(&self) -> Option<String> {
        None
    }

    fn recording(&mut self) -> Result<PathBuf> {
        self.running.stop();
        self.card.take_out()
    }
}

/// Control port of baresip: commands and responses, with events between them.
struct Control {
    stream: TcpStream,
    output: Arc<Mutex<String>>,
    commands: u32,
}

impl Control {
    /// baresip serves one client at a time: this connection is kept.
    fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("baresip has no control port")?;
        let output = Arc::new(Mutex::new(String::new()));
        let (mut reading, all) = (stream.try_clone()?, output.clone());
        std::thread::spawn(move || {
            let mut piece = [0_u8; 4096];
            while let Ok(length @ 1..) = reading.read(&mut piece) {
                let text = String::from_utf8_lossy(piece.get(..length).unwrap_or_default());
                all.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Ok(Self { stream, output, commands: 0 })
    }

    /// Sends a command and waits for its response.
    fn command(&mut self, name: &str, parameters: &str) -> Result<()> {
        self.commands += 1;
        let token = format!("command-{}", self.commands);
        let json = serde_json::json!({ "command": name, "params": parameters, "token": token }).to_string();
        write!(self.stream, "{}:{json},", json.len())?;
        self.wait_for(&format!("\"token\":\"{token}\""))
            .with_context(|| format!("baresip did not answer its command {name}"))
    }

    /// Waits until baresip has sent `text`.
    fn wait_for(&self, text: &str) -> Result<()> {
        self.wait_for_times(text, 1)
    }

    /// Waits until baresip has sent `text` as often.
    fn wait_for_times(&self, text: &str, times: usize) -> Result<()> {
        let is_so = || self.output().matches(text).count() >= times;
        ensure!(holds(PATIENCE, is_so), "not {times} times {text} within {} s", PATIENCE.as_secs());
        Ok(())
    }

    fn output(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// State that a phone subscribes to.
#[derive(Clone, Copy)]
enum Watching<'a> {
    Nothing,
    /// Presence of this user.
    User(&'a str),
    /// Its own messages.
    Messages,
    /// Nothing, but it writes texts to this user.
    Texts(&'a str),
}

impl Watching<'_> {
    /// Lines of its configuration.
    const fn modules(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::User(_) => "module_app contact.so\nmodule_app presence.so",
            Self::Messages => "module_app mwi.so",
            Self::Texts(_) => "module_app contact.so",
        }
    }

    /// Its contact list.
    fn contacts(self) -> String {
        match self {
            Self::User(user) => format!("\"{user}\" <sip:{user}@example.org>;presence=p2p\n"),
            Self::Texts(user) => format!("\"{user}\" <sip:{user}@example.org>\n"),
            Self::Nothing | Self::Messages => String::new(),
        }
    }
}

fn keys(keys: Keys) -> Result<&'static str> {
    match keys {
        Keys::None => Ok(""),
        // The other side selects the suite: it offers only one, and accepts all that it supports.
        Keys::Sdes(_) => Ok(";mediaenc=srtp-mand"),
        Keys::Dtls(_) => Ok(";mediaenc=dtls_srtp"),
        Keys::Zrtp => bail!("baresip has no ZRTP"),
    }
}

/// Folder of baresip's modules in the Debian package.
pub(crate) fn modules() -> Result<String> {
    let places = ["/usr/lib/baresip/modules", "/usr/lib/x86_64-linux-gnu/baresip/modules"];
    let found = places.into_iter().find(|place| std::path::Path::new(place).join("g711.so").is_file());
    found.map(str::to_owned).context("baresip's modules are not installed: apt-get install baresip-core")
}

/// More SUBSCRIBEs than baresip sends until messages are shown.
const SUBSCRIBING_MAX: usize = 20;
