//! Microphone and loudspeaker: a PulseAudio daemon without hardware, whose null sinks replace the devices.
//!
//! A sink's monitor is a source, so a tone that is played into the sink `mic` is captured by the phone's
//! microphone, and the monitor of `speaker` records the phone's output.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use ringway_test_support::eventually::retry;

use super::super::audio::{Recording, write_tone};
use super::super::{Scenario, Stage};
use crate::process::{PATIENCE, Process, Signal, free_port};

/// Calls with a sound server, with one that is lost, and without one.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, body: fn(&Stage) -> Result<()>| {
        let mut scenario = Scenario::new(name, body);
        scenario.reference = false;
        scenario
    };
    vec![
        scenario("phone/sound/calls", calls),
        scenario("phone/sound/called", called),
        scenario("phone/sound/server-lost", server_lost),
        scenario("phone/sound/devices", devices),
    ]
}

/// The caller plays the ringback tone until the answer and then the other side's sound, and sends the
/// microphone.
fn calls(stage: &Stage) -> Result<()> {
    let daemon = Daemon::start(stage, "first")?;
    let other = ["--ring-s", "3", "--count", "1", "--play", "tone:1000", "--record", "heard.wav"];
    let (mut bob, uri) = answer(stage, Command::new(program(stage)?), &other)?;
    let mut alice = call(stage, daemon.phone(stage)?, &uri, &[&DEVICES[..], &["--duration", "4"]].concat())?;
    ends_well(&mut alice)?;
    ends_well(&mut bob)?;
    let summary = alice.output();
    ensure!(summary.contains("sound server: loudspeaker "), "no figures of the sound card: {summary}");
    Recording::read(&stage.path("heard.wav"))?.expect_tone(MICROPHONE_HZ, 2.0).context("recording of bob")?;
    expect_in_turn(&daemon.played(stage)?, 425.0, 1000.0).context("alice's loudspeaker")
}

/// The called side rings until it answers.
fn called(stage: &Stage) -> Result<()> {
    let daemon = Daemon::start(stage, "first")?;
    let own = [&DEVICES[..], &["--ring-s", "3", "--count", "1"]].concat();
    let (mut bob, uri) = answer(stage, daemon.phone(stage)?, &own)?;
    let other = ["--play", "tone:440", "--record", "heard.wav", "--duration", "4"];
    let mut alice = call(stage, Command::new(program(stage)?), &uri, &other)?;
    ends_well(&mut alice)?;
    ends_well(&mut bob)?;
    Recording::read(&stage.path("heard.wav"))?
        .expect_tone(MICROPHONE_HZ, 2.0)
        .context("recording of alice")?;
    expect_in_turn(&daemon.played(stage)?, 800.0, 440.0).context("bob's loudspeaker")
}

/// The end of the sound server does not end the call, and it is used again when it is back.
fn server_lost(stage: &Stage) -> Result<()> {
    let first = Daemon::start(stage, "first")?;
    let other = ["--count", "1", "--play", "tone:1000", "--record", "heard.wav"];
    let (mut bob, uri) = answer(stage, Command::new(program(stage)?), &other)?;
    let mut alice = call(stage, first.phone(stage)?, &uri, &DEVICES)?;
    alice.wait_for_output("is connected")?;
    first.played_until(stage, 1000.0, 1.0)?;
    first.crash();
    alice.wait_for_output("no sound, retrying")?;
    let second = Daemon::start(stage, "second")?;
    alice.wait_for_output("there is sound again")?;
    second.played_until(stage, 1000.0, 1.0)?;
    ensure!(!alice.has_ended()? && !bob.has_ended()?, "the call has ended: {}", alice.output());
    alice.signal(Signal::TERM);
    ends_well(&mut alice)?;
    ends_well(&mut bob)?;
    Recording::read(&stage.path("heard.wav"))?.expect_tone(MICROPHONE_HZ, 1.0).context("recording of bob")
}

/// Devices are listed and selected by name; a missing one is reported.
fn devices(stage: &Stage) -> Result<()> {
    let run = |args: &[&str], server: &str| -> Result<(Option<i32>, String)> {
        let Output { status, stdout, stderr } =
            Command::new(program(stage)?).args(args).env("PULSE_SERVER", server).output()?;
        let text = [stdout, stderr].concat();
        Ok((status.code(), String::from_utf8_lossy(&text).into_owned()))
    };
    let expect = |args: &[&str], server: &str, status: i32, texts: &[&str]| -> Result<()> {
        let (code, text) = run(args, server)?;
        ensure!(code == Some(status), "{args:?}: {code:?}, not {status}: {text}");
        for part in texts {
            ensure!(text.contains(part), "{args:?} does not say {part:?}: {text}");
        }
        Ok(())
    };
    let call = ["call", "sip:nobody@127.0.0.1:9", "--bind", "127.0.0.1:0"];
    let nowhere = format!("unix:{}", stage.path("nothing").display());
    expect(&["audio"], &nowhere, 1, &["PULSE_SERVER"])?;
    expect(&[&call[..], &["--audio"]].concat(), &nowhere, 1, &["sound server", "PULSE_SERVER"])?;
    let daemon = Daemon::start(stage, "first")?;
    expect(&["audio"], &daemon.server, 0, &["mic.monitor", "speaker"])?;
    expect(&["audio", "--json"], &daemon.server, 0, &["\"microphones\":[", "\"name\":\"speaker\""])?;
    let unknown = [&call[..], &["--audio-in", "nobody"]].concat();
    expect(&unknown, &daemon.server, 2, &["no microphone is called \"nobody\"", "mic.monitor"])
}

/// A sound server with a tone at its microphone and a recorder at its loudspeaker.
struct Daemon {
    server: String,
    /// Recording of the loudspeaker.
    recording: PathBuf,
    running: Process,
    _tone: Process,
    _recorder: Process,
}

impl Daemon {
    /// Starts it on a socket that is the same for the whole scenario.
    fn start(stage: &Stage, name: &str) -> Result<Self> {
        let socket = stage.path("pulse.socket");
        let server = format!("unix:{}", socket.display());
        let mut command = Command::new("pulseaudio");
        command.args([
            "-n",
            "--daemonize=no",
            "--use-pid-file=no",
            "--exit-idle-time=-1",
            "--disable-shm=yes",
        ]);
        command.args(["--high-priority=no", "--realtime=no"]);
        command
            .arg("-L")
            .arg(format!("module-native-protocol-unix auth-anonymous=1 socket={}", socket.display()));
        for sink in ["mic", "speaker"] {
            command.arg("-L").arg(format!("module-null-sink sink_name={sink}"));
        }
        own_home(&mut command, &stage.folder);
        let running = Process::start(&format!("{name}-pulseaudio"), &mut command, &stage.folder)?;
        await_server(stage, &server, &running)?;
        let (tone, recording) = (stage.path("tone.wav"), stage.path(&format!("{name}-speaker.wav")));
        write_tone(&tone, MICROPHONE_HZ, 120)?;
        let client = |program: &str, args: &[&str], file: &Path| {
            let mut command = Command::new(program);
            command.args(args).arg(file).env("PULSE_SERVER", &server);
            own_home(&mut command, &stage.folder);
            Process::start(&format!("{name}-{program}"), &mut command, &stage.folder)
        };
        let player = client("paplay", &["--device=mic", "--latency-msec=40"], &tone)?;
        let format = ["--rate=8000", "--channels=1", "--format=s16le", "--file-format=wav"];
        let recorder = ["--device=speaker.monitor", "--latency-msec=20"];
        let recorder = client("parec", &[&recorder[..], &format].concat(), &recording)?;
        let daemon = Self { server, recording, running, _tone: player, _recorder: recorder };
        daemon.wait_until("the recorder runs", || {
            Ok(daemon.recording().is_ok_and(|received| received.seconds() > 0.1))
        })?;
        Ok(daemon)
    }

    /// Command of the phone under test, with this server.
    fn phone(&self, stage: &Stage) -> Result<Command> {
        let mut command = Command::new(program(stage)?);
        command.env("PULSE_SERVER", &self.server);
        Ok(command)
    }

    fn recording(&self) -> Result<Recording> {
        Recording::read(&self.recording)
    }

    /// Recording of the loudspeaker so far, which is kept.
    fn played(&self, stage: &Stage) -> Result<Recording> {
        stage.keep(&self.recording, "loudspeaker.wav")?;
        self.recording()
    }

    /// Waits until a tone was played for this many seconds.
    fn played_until(&self, stage: &Stage, hz: f64, seconds: f64) -> Result<()> {
        let is_played = || Ok(self.recording()?.expect_tone(hz, seconds).is_ok());
        self.wait_until(&format!("{hz} Hz at the loudspeaker"), is_played)?;
        self.played(stage).map(|_| ())
    }

    fn wait_until(&self, what: &str, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        retry(PATIENCE, || is_so()?.then_some(()).with_context(|| format!("{what}: not in time")))
    }

    /// Kills it.
    fn crash(self) {
        self.running.kill();
    }
}

fn own_home(command: &mut Command, folder: &Path) {
    command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).env_remove("DBUS_SESSION_BUS_ADDRESS");
}

fn await_server(stage: &Stage, server: &str, running: &Process) -> Result<()> {
    retry(PATIENCE, || {
        let mut command = Command::new("pactl");
        command.arg("info").env("PULSE_SERVER", server);
        own_home(&mut command, &stage.folder);
        let answer = command.output().context("cannot run pactl; is pulseaudio-utils installed?")?;
        ensure!(answer.status.success(), "pulseaudio does not answer: {}", running.output().trim());
        Ok(())
    })
}

fn program(stage: &Stage) -> Result<&Path> {
    stage.ringway.program().context("only Ringway's program can run this scenario")
}

/// Starts `ringway answer`; returns its address too.
fn answer(stage: &Stage, mut command: Command, more: &[&str]) -> Result<(Process, String)> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let uri = format!("sip:bob@{address}");
    command.args(["answer", "--as", &uri, "--bind", &address, "--json"]).args(more);
    let bob = Process::start("bob", &mut command, &stage.folder)?;
    bob.wait_for_output("ready")?;
    Ok((bob, uri))
}

/// Starts `ringway call`.
fn call(stage: &Stage, mut command: Command, uri: &str, more: &[&str]) -> Result<Process> {
    command.args(["call", uri, "--bind", "127.0.0.1:0", "--json"]).args(more);
    Process::start("alice", &mut command, &stage.folder)
}

fn ends_well(phone: &mut Process) -> Result<()> {
    let status = phone.wait()?;
    let output = phone.output();
    ensure!(status.success() && output.contains("\"result\":\"answered\""), "{status}: {}", output.trim());
    Ok(())
}

/// Fails unless `first` is present, then `second` for two seconds, and `first` no more.
fn expect_in_turn(received: &Recording, first: f64, second: f64) -> Result<()> {
    let moments = |hz| received.moments_of(hz, WINDOW_S, LOUD);
    let seconds = moments(first).len() as f64 * WINDOW_S;
    ensure!(seconds > 0.25, "{first} Hz for {seconds:.2} s only");
    received.expect_tone(second, 2.0)?;
    let last = moments(first).last().copied().unwrap_or_default();
    let begin = moments(second).first().copied().unwrap_or_default();
    ensure!(last < begin, "{first} Hz until {last:.2} s, but {second} Hz from {begin:.2} s on");
    Ok(())
}

const DEVICES: [&str; 4] = ["--audio-in", "mic.monitor", "--audio-out", "speaker"];

/// Frequency of the tone at the microphone.
const MICROPHONE_HZ: f64 = 600.0;

/// A quarter of one of the two tones of a ring.
const WINDOW_S: f64 = 0.0125;

/// Minimum RMS of a tone; the ring has 0.088.
const LOUD: f64 = 0.05;
