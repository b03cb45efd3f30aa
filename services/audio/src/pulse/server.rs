//! The place of the sound server.

use super::error::AudioError;
use std::path::{Path, PathBuf};

/// Address and credentials of a sound server.
#[derive(Clone, Debug)]
pub struct SoundServer {
    pub(super) socket: PathBuf,
    /// Shared secret of this user's programs; a server that knows the user by the socket does not need it.
    pub(super) cookie: Vec<u8>,
}

impl SoundServer {
    /// Finds the server of this session, as PulseAudio's own library does: `PULSE_SERVER`, `PULSE_RUNTIME_PATH`,
    /// `XDG_RUNTIME_DIR`, `/run/pulse`.
    pub fn from_environment() -> Result<Self, AudioError> {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let cookie = pulseaudio::cookie_path_from_env().and_then(|path| std::fs::read(path).ok());
        let found = |socket| Self { socket, cookie: cookie.unwrap_or_default() };
        if let Some(server) = variable("PULSE_SERVER") {
            let path = server.strip_prefix("unix:").unwrap_or(&server);
            return match path.starts_with('/') {
                true => Ok(found(path.into())),
                false => Err(AudioError::NotUnix(server)),
            };
        }
        let own = variable("PULSE_RUNTIME_PATH").map(|folder| Path::new(&folder).join("native"));
        let session = variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("pulse/native"));
        let system = PathBuf::from("/run/pulse/native");
        let places: Vec<_> = own.into_iter().chain(session).chain([system]).collect();
        let looked = places.first().map(|place| place.display().to_string()).unwrap_or_default();
        places.into_iter().find(|place| place.exists()).map(found).ok_or(AudioError::NoServer { looked })
    }

    /// The server at a socket.
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), cookie: Vec::new() }
    }
}
