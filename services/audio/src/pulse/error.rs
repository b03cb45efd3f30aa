//! Errors of sound.

use pulseaudio::protocol::{ProtocolError, PulseError};
use std::io;

/// Error of a sound server or a device.
#[derive(Debug, thiserror::Error)]
pub enum AudioError {
    /// No socket of a sound server was found.
    #[error(
        "no sound server: {checked} is not there; start PipeWire (with pipewire-pulse) or PulseAudio in this session, or \
         set PULSE_SERVER=unix:PATH"
    )]
    NoServer {
        /// Last path that was checked.
        checked: String,
    },
    /// `PULSE_SERVER` does not name a Unix socket.
    #[error("PULSE_SERVER={0:?}: only Unix sockets are supported; write unix:PATH")]
    NotUnix(String),
    /// Connecting to the socket failed.
    #[error("the sound server at {path} does not answer: {why}; start it, or set PULSE_SERVER=unix:PATH")]
    Connect {
        /// Path of the socket.
        path: String,
        /// Error of the system.
        why: io::Error,
    },
    /// The server refused a request.
    #[error("the sound server refused {what}: {why:?}")]
    Refused {
        /// The request, for display.
        what: &'static str,
        /// Error code of the server.
        why: PulseError,
    },
    /// The connection was lost.
    #[error("lost the connection to the sound server: {0}")]
    Io(#[from] io::Error),
    /// The server violated the protocol.
    #[error("the sound server violated PulseAudio's protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server sent a message that exceeds the limit.
    #[error("the sound server sent a message of {length} bytes; the limit is {max}")]
    TooLong {
        /// Length of the message in bytes.
        length: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The server ended a stream, for example because its device was removed.
    #[error("the sound server ended the stream")]
    Killed,
    /// No device has the chosen name.
    #[error("no {what} is called {name:?}; there are: {known}")]
    UnknownDevice {
        /// `microphone` or `loudspeaker`.
        what: &'static str,
        /// The chosen name.
        name: String,
        /// Names of the existing devices.
        known: String,
    },
}
