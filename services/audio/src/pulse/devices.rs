//! Microphones and loudspeakers of a sound server.

use super::connection::Connection;
use super::error::AudioError;
use super::server::SoundServer;
use pulseaudio::protocol::{Command, ServerInfo, SinkInfoList, SourceInfoList};
use std::ffi::{CStr, CString};

/// A microphone or a loudspeaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name that the server uses.
    pub name: String,
    /// Name for display.
    pub description: String,
    /// True for the server's default device.
    pub is_default: bool,
}

/// Devices of a sound server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Microphones, including monitors of loudspeakers.
    pub microphones: Vec<Device>,
    /// Loudspeakers and headphones.
    pub loudspeakers: Vec<Device>,
}

/// Devices chosen by the user; `None`: the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Name or description of a microphone.
    pub microphone: Option<String>,
    /// Name or description of a loudspeaker.
    pub loudspeaker: Option<String>,
}

impl SoundServer {
    /// Lists the devices; blocks for at most three seconds for each reply of the server.
    pub fn devices(&self) -> Result<Devices, AudioError> {
        let mut connection = Connection::open(self)?;
        let info: ServerInfo = connection.request("its description", &Command::GetServerInfo)?;
        let sinks: SinkInfoList =
            connection.request("the list of loudspeakers", &Command::GetSinkInfoList)?;
        let sources: SourceInfoList =
            connection.request("the list of microphones", &Command::GetSourceInfoList)?;
        let device = |name: &CString, description: &Option<CString>, default: &Option<CString>| Device {
            name: text(name),
            description: description.as_deref().map(text).unwrap_or_default(),
            is_default: default.as_ref() == Some(name),
        };
        let sinks = sinks.iter().map(|sink| device(&sink.name, &sink.description, &info.default_sink_name));
        let sources =
            sources.iter().map(|source| device(&source.name, &source.description, &info.default_source_name));
        Ok(Devices { microphones: sources.collect(), loudspeakers: sinks.collect() })
    }
}

impl Devices {
    /// Converts the chosen names into names of the server.
    ///
    /// # Errors
    /// [`AudioError::UnknownDevice`] if no device has a chosen name.
    pub fn resolve(&self, chosen: &Names) -> Result<Names, AudioError> {
        Ok(Names {
            microphone: find("microphone", &self.microphones, chosen.microphone.as_deref())?,
            loudspeaker: find("loudspeaker", &self.loudspeakers, chosen.loudspeaker.as_deref())?,
        })
    }
}

fn find(what: &'static str, devices: &[Device], chosen: Option<&str>) -> Result<Option<String>, AudioError> {
    let Some(chosen) = chosen else { return Ok(None) };
    let found = devices.iter().find(|device| device.name == chosen);
    let found = found.or_else(|| devices.iter().find(|device| device.description == chosen));
    match found {
        Some(device) => Ok(Some(device.name.clone())),
        None => {
            let known: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(AudioError::UnknownDevice { what, name: chosen.to_owned(), known })
        }
    }
}

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}
