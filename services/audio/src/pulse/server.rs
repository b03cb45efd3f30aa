//! Address of the sound server.

use super::error::AudioError;
use std::path::{Path, PathBuf};

/// Address and credentials of a sound server.
#[derive(Clone, Debug)]
pub struct SoundServer {
    pub(super) socket: PathBuf,
    /// Shared secret of the user's programs; not needed if the server authenticates the user by the socket.
    pub(super) cookie: Vec<u8>,
}

impl SoundServer {
    /// Finds the server of this session in the order of PulseAudio's library: `PULSE_SERVER`, `PULSE_RUNTIME_PATH`,
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
        let paths: Vec<_> = own.into_iter().chain(session).chain([system]).collect();
        let checked = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        paths.into_iter().find(|path| path.exists()).map(found).ok_or(AudioError::NoServer { checked })
    }

    /// Server at a socket.
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), cookie: Vec::new() }
    }
}
