//! The phone's image with a sound card: ringing, playback and microphone.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::image::Image;

use crate::interop::audio::{Recording, write_stereo_tone};
use crate::interop::{Scenario, Stage};
use crate::machine::{BootFrom, Card, Emulator, Network, SoundCard};
use crate::process::{Process, free_port};

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new(NAME, answered_by_a_person)]
}

/// Name of the check that needs the phone's image.
pub(super) const NAME: &str = "phone/sound-card";

/// Checks an incoming call: it rings until Enter, then each side receives the other's tone.
fn answered_by_a_person(stage: &Stage) -> Result<()> {
    let microphone = stage.path("microphone.raw");
    write_stereo_tone(&microphone, MICROPHONE_HZ, MICROPHONE_S)?;
    let sound = SoundCard { microphone, loudspeaker: stage.path("loudspeaker.raw") };
    let port = free_port()?;
    let mut machine = boot(&stage.folder, port, &sound)?;
    machine.wait_for_output("sound: Intel 82801AA AC97")?;
    machine.wait_for_output("ready ")?;
    machine.type_keys(" ")?;
    machine.wait_for_output("microphone sent, sound played (Intel 82801AA AC97)")?;

    let caller = call(port, stage)?;
    machine.wait_for_output("Enter answer")?;
    std::thread::sleep(RINGING_TIME);
    machine.type_keys("\r")?;
    caller.wait()?;
    expect_call(&caller.output())?;
    machine.type_keys("\x11")?;
    machine.wait_for_output("AC97: loudspeaker")?;
    machine.wait_for_output(" ms too many")?;
    machine.stop();
    if let Some(line) = machine.output().lines().find(|line| line.contains("AC97: ")) {
        println!("          {}", line.trim());
    }

    let received = Recording::read(&stage.path("caller.wav"))?;
    received.expect_tone(MICROPHONE_HZ, 2.0).context("microphone tone at the caller")?;
    let played = Recording::read_stereo(&sound.loudspeaker)?;
    expect_ring(&played)?;
    played.expect_tone(CALLER_HZ, 2.0).context("caller's tone at the loudspeaker")
}

/// Checks that the ring had both tones, lasted at most a second, and stopped when the caller's sound started.
fn expect_ring(played: &Recording) -> Result<()> {
    // Each tone lasts 50 ms and covers at least these windows of 10 ms.
    let moments = |hz: f64| played.moments_of(hz, 0.01, 0.03);
    let answered = moments(CALLER_HZ).first().copied().context("the caller was not heard")?;
    for hz in [800.0, 1000.0] {
        let rings = moments(hz);
        let seconds = rings.len() as f64 * 0.01;
        let late = rings.iter().filter(|moment| **moment > answered + 0.1).count();
        if !(0.15..0.6).contains(&seconds) || late > 2 {
            bail!("the loudspeaker rang with {hz} Hz for {seconds:.2} s, {late} times after the answer");
        }
    }
    Ok(())
}

fn boot(folder: &Path, port: u16, sound: &SoundCard) -> Result<Process> {
    let rtp = free_port()?;
    let words = format!("srtp=sdes outside=127.0.0.1:{port} rtp={rtp}");
    let network =
        Network::Played { sip_port: port, tls_port: None, more_ports: vec![rtp, rtp + 1], tftp: None };
    let boot = BootFrom::Kernel(Image::phone().elf, words, None);
    let mut command = Emulator { boot, card: Card::Virtio, memory_mib: MEMORY_MIB, network }.command()?;
    sound.plug_in(&mut command, folder)?;
    command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
    Process::start("machine", &mut command, folder)
}

/// Starts `ringway call` of the program for Linux.
fn call(port: u16, stage: &Stage) -> Result<Process> {
    let program = stage.ringway.program().context("the caller is Ringway's program")?;
    let mut call = stage.command(program);
    call.args(["call", &format!("sip:phone@127.0.0.1:{port}"), "--bind", "127.0.0.1:0", "--srtp", "sdes"]);
    call.args(["--play", &format!("tone:{CALLER_HZ}"), "--duration", "5", "--json", "--record"]);
    Process::start("caller", call.arg(stage.path("caller.wav")), &stage.folder)
}

/// Checks that the call was established with SRTP.
fn expect_call(said: &str) -> Result<()> {
    let line = said.lines().find(|line| line.starts_with('{')).context("it printed no JSON")?;
    let outcome: Value = serde_json::from_str(line)?;
    let is = |path: &str, wanted: &str| outcome.pointer(path).and_then(Value::as_str) == Some(wanted);
    if !is("/result", "answered") || !is("/security/method", "sdes") {
        bail!("the caller says {outcome:#}");
    }
    Ok(())
}

const CALLER_HZ: f64 = 1600.0;
const MICROPHONE_HZ: f64 = 600.0;
/// Longer than the whole check.
const MICROPHONE_S: u32 = 120;
const RINGING_TIME: Duration = Duration::from_millis(1500);
const MEMORY_MIB: u32 = 64;
