//! Microphone and loudspeaker of this session, and `ringway audio`, which lists them.

use crate::failure::Failure;
use crate::output::{self, printable};
use crate::phone::args::AudioArgs;
use ringway_audio::Ringer;
use ringway_audio::pulse::{AudioError, AudioEvent, Device, Names, PulseCard, SoundServer};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::mpsc::Receiver;

/// The sound server, and the devices that calls use there.
#[derive(Clone, Debug)]
pub(crate) struct Audio {
    server: SoundServer,
    devices: Names,
}

impl Audio {
    /// Finds the sound server and the chosen devices; waits for the server, some seconds at most.
    pub(crate) fn find(chosen: &Names) -> Result<Self, Failure> {
        let server = SoundServer::from_environment().map_err(failure)?;
        let devices = server.devices().and_then(|devices| devices.resolve(chosen)).map_err(failure)?;
        Ok(Self { server, devices })
    }

    /// Opens a card for a call.
    pub(crate) fn open(&self) -> Result<(PulseCard, Receiver<AudioEvent>), Failure> {
        PulseCard::open(&self.server, &self.devices).map_err(no_thread)
    }

    /// Rings until the ringer is dropped.
    pub(crate) fn ring(&self) -> Result<Ringer, Failure> {
        Ringer::start(&self.server, &self.devices).map_err(no_thread)
    }
}

/// `ringway audio`.
pub(crate) fn list(args: &AudioArgs) -> Result<(), Failure> {
    let devices = SoundServer::from_environment().and_then(|server| server.devices()).map_err(failure)?;
    if args.json {
        let list = |devices: &[Device]| -> Value { devices.iter().map(as_json).collect() };
        let listed =
            json!({ "microphones": list(&devices.microphones), "loudspeakers": list(&devices.loudspeakers) });
        return Ok(output::line(&listed.to_string())?);
    }
    let mut out = output::buffered();
    for (title, devices) in [
        ("microphones (--audio-in)", &devices.microphones),
        ("loudspeakers (--audio-out)", &devices.loudspeakers),
    ] {
        writeln!(out, "{title}:")?;
        for Device { name, description, is_default } in devices {
            let mark = if *is_default { "*" } else { " " };
            writeln!(out, "{mark} {}  {}", printable(name), printable(description))?;
        }
    }
    Ok(out.flush()?)
}

fn as_json(Device { name, description, is_default }: &Device) -> Value {
    json!({ "name": name, "description": description, "default": is_default })
}

fn failure(error: AudioError) -> Failure {
    let text = printable(&error.to_string());
    match error {
        AudioError::UnknownDevice { .. } | AudioError::NotUnix(_) => Failure::usage(text),
        AudioError::NoServer { .. }
        | AudioError::Connect { .. }
        | AudioError::Refused { .. }
        | AudioError::Io(_)
        | AudioError::Protocol(_)
        | AudioError::TooLong { .. }
        | AudioError::Killed => Failure::failed(text),
    }
}

fn no_thread(error: io::Error) -> Failure {
    Failure::failed(format!("cannot start threads: {error}"))
}
