//! Reasons why there is no sound.

use pulseaudio::protocol::{ProtocolError, PulseError};
use std::io;

/// A sound server or a device that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AudioError {
    /// No socket of a sound server was found.
    #[error(
        "no sound server: {looked} is not there; start PipeWire (with pipewire-pulse) or PulseAudio in this session, or \
         set PULSE_SERVER=unix:PATH"
    )]
    NoServer {
        /// The last place looked at.
        looked: String,
    },
    /// `PULSE_SERVER` does not name a Unix socket.
    #[error("PULSE_SERVER={0:?}: only Unix sockets are supported; write unix:PATH")]
    NotUnix(String),
    /// The socket cannot be connected to.
    #[error("the sound server at {path} does not answer: {why}; start it, or set PULSE_SERVER=unix:PATH")]
    Connect {
        /// The socket.
        path: String,
        /// The system's error.
        why: io::Error,
    },
    /// The server refused a request.
    #[error("the sound server refused {what}: {why:?}")]
    Refused {
        /// The request, for people.
        what: &'static str,
        /// The server's error code.
        why: PulseError,
    },
    /// The connection broke.
    #[error("the sound server is gone: {0}")]
    Io(#[from] io::Error),
    /// The server sent something that is not the protocol.
    #[error("the sound server does not speak PulseAudio's protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The server sent a message that is too long.
    #[error("the sound server sent a message of {length} bytes; {max} are the limit")]
    TooLong {
        /// Length of the message.
        length: usize,
        /// Maximum length.
        max: usize,
    },
    /// The server ended a stream, for example because its device is gone.
    #[error("the sound server ended the stream")]
    Killed,
    /// No device has the given name.
    #[error("no {what} is called {name:?}; there are: {known}")]
    UnknownDevice {
        /// `microphone` or `loudspeaker`.
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that exist.
        known: String,
    },
}
