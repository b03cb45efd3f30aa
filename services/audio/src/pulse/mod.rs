//! Sound cards by PulseAudio's native protocol, which PipeWire's `pipewire-pulse` supports too: loudspeaker and
//! microphone of a sound server, as a [`SoundCard`]; the connection to it, errors of sound.
//!
//! Does: lists devices ([`SoundServer::devices`]), and connects a call to a loudspeaker and a microphone
//! ([`PulseCard`]) on a separate thread, which reconnects when the server is lost.
//!
//! Does not: resample (the server does), mix, set volumes, or connect to servers on other machines.
//!
//! Start reading at [`PulseCard`]; the protocol is in `connection.rs`.
//!
//! The crate `pulseaudio` encodes and decodes messages. Its client is not used, because it grows without limit and has
//! no timeouts. A frame is a descriptor (length, channel, offset, flags) and a payload: a command, or samples of a
//! stream.

mod stream;

use pulseaudio::protocol;
use pulseaudio::protocol::{
    AuthParams, AuthReply, Command, CommandReply, CommandTag, DESCRIPTOR_SIZE, Prop, Props, ProtocolError,
    PulseError, Request, ServerInfo, SetClientNameReply, SinkInfoList, SourceInfoList, TagStructReader,
};
use ringway_media::headset::SoundCard;
use rtrb::{Consumer, Producer, RingBuffer};
use std::ffi::{CStr, CString};
use std::io::{Cursor, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use std::{fmt, io};
use stream::Shared;
pub use stream::{AudioEvent, Part};

/// Loudspeaker and microphone of a sound server.
///
/// Its methods exchange samples with a thread, which communicates with the server; none of them blocks or allocates.
/// The microphone's stream is opened at the first call of [`SoundCard::captured`]. Dropping the card ends the thread
/// within some 20 ms.
pub struct PulseCard {
    to_play: Producer<i16>,
    captured: Consumer<i16>,
    shared: Arc<Shared>,
}

impl PulseCard {
    /// Starts the thread, which connects at once. `devices` has names of the server
    /// ([`Devices::resolve`](Devices::resolve)).
    pub fn open(server: &SoundServer, devices: &Names) -> io::Result<(Self, Receiver<AudioEvent>)> {
        let (to_play, from_call) = RingBuffer::new(RING_SAMPLES);
        let (to_call, captured) = RingBuffer::new(RING_SAMPLES);
        let (sender, events) = sync_channel(EVENTS_MAX);
        let shared = Arc::new(Shared::default());
        let ends = stream::Ends::new(from_call, to_call, Arc::clone(&shared), sender);
        let (server, devices) = (server.clone(), devices.clone());
        std::thread::Builder::new()
            .name("sound".to_owned())
            .spawn(move || stream::run(&server, &devices, ends))?;
        Ok((Self { to_play, captured, shared }, events))
    }

    /// Microphone samples lost because the call did not read them in time.
    pub fn overruns(&self) -> u64 {
        self.shared.overruns.load(Ordering::Relaxed)
    }
}

impl SoundCard for PulseCard {
    fn name(&self) -> &str {
        "sound server"
    }

    fn queued(&mut self) -> usize {
        RING_SAMPLES - self.to_play.slots()
    }

    fn play(&mut self, samples: &[i16]) {
        // The rest is dropped, as the trait permits; a headset queues less than this.
        let _ = self.to_play.push_partial_slice(samples);
    }

    fn is_playing(&self) -> bool {
        self.shared.is_playing.load(Ordering::Relaxed)
    }

    fn captured(&mut self) -> usize {
        self.shared.wants_microphone.store(true, Ordering::Relaxed);
        self.captured.slots()
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
        self.captured.pop_partial_slice(room).0.len()
    }
}

impl Drop for PulseCard {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for PulseCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PulseCard").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// A connection after its handshake.
struct Connection {
    socket: UnixStream,
    version: u16,
    next_sequence: u32,
    /// Received bytes; the first `taken` are the frame that was returned last.
    received: Vec<u8>,
    taken: usize,
}

/// A received frame.
enum Frame<'c> {
    /// Samples of a record stream.
    Samples { channel: u32, bytes: &'c [u8] },
    /// Reply to the request with this sequence number.
    Reply { sequence: u32, result: Result<Reply<'c>, PulseError> },
    /// The server requests samples of a playback stream.
    Request(Request),
    /// The server ended the playback stream of this channel.
    PlaybackKilled(u32),
    /// The server ended the record stream of this channel.
    RecordKilled(u32),
    /// A command that needs no answer.
    Other,
}

/// Payload of a reply.
struct Reply<'c> {
    bytes: &'c [u8],
    version: u16,
}

impl Reply<'_> {
    /// Decodes the payload.
    fn read<R: CommandReply>(mut self) -> Result<R, AudioError> {
        let version = self.version;
        Ok(TagStructReader::new(&mut self.bytes, version).read()?)
    }
}

impl Connection {
    /// Connects and authenticates, within [`REQUEST_TIMEOUT`] for each request.
    fn open(server: &SoundServer) -> Result<Self, AudioError> {
        let connect = |why| AudioError::Connect { path: server.socket.display().to_string(), why };
        let socket = UnixStream::connect(&server.socket).map_err(connect)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        let version = protocol::MAX_VERSION;
        let mut connection = Self { socket, version, next_sequence: 0, received: Vec::new(), taken: 0 };
        // A server refuses a cookie of another length as a protocol error, even if it requires none.
        let mut cookie = server.cookie.clone();
        cookie.resize(COOKIE_BYTES, 0);
        let auth = AuthParams { version, supports_shm: false, supports_memfd: false, cookie };
        let accepted: AuthReply = connection.request("the connection", &Command::Auth(auth))?;
        connection.version = version.min(accepted.version);
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c"Ringway");
        if let Ok(id) = CString::new(std::process::id().to_string()) {
            props.set(Prop::ApplicationProcessId, id);
        }
        let _: SetClientNameReply = connection.request("our name", &Command::SetClientName(props))?;
        Ok(connection)
    }

    /// Sends a command and returns its sequence number.
    fn send(&mut self, command: &Command) -> Result<u32, AudioError> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, sequence, command, self.version)?;
        self.socket.write_all(&bytes)?;
        Ok(sequence)
    }

    /// Sends a command and waits for its reply; other frames are dropped. `what` names the request in errors.
    fn request<R: CommandReply>(&mut self, what: &'static str, command: &Command) -> Result<R, AudioError> {
        let asked = self.send(command)?;
        let end = Instant::now() + REQUEST_TIMEOUT;
        while Instant::now() < end {
            match self.receive()? {
                Some(Frame::Reply { sequence, result }) if sequence == asked => {
                    return result.map_err(|why| AudioError::Refused { what, why })?.read();
                }
                Some(
                    Frame::Samples { .. }
                    | Frame::Reply { .. }
                    | Frame::Request(_)
                    | Frame::PlaybackKilled(_)
                    | Frame::RecordKilled(_)
                    | Frame::Other,
                )
                | None => {}
            }
        }
        Err(io::Error::from(ErrorKind::TimedOut).into())
    }

    /// Sends samples of a playback stream; `frame` has room for the descriptor before them.
    fn send_samples(&mut self, channel: u32, frame: &mut [u8]) -> Result<(), AudioError> {
        let Some((head, samples)) = frame.split_first_chunk_mut::<DESCRIPTOR_SIZE>() else { return Ok(()) };
        let length = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        let flags = protocol::DescriptorFlags::empty();
        protocol::encode_descriptor(head, &protocol::Descriptor { length, channel, offset: 0, flags });
        Ok(self.socket.write_all(frame)?)
    }

    /// Receives the next frame; `None` if none arrives within [`READ_TIMEOUT`].
    fn receive(&mut self) -> Result<Option<Frame<'_>>, AudioError> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let length = loop {
            if let Some(length) = self.frame_length()? {
                break length;
            }
            let mut room = [0; READ_BYTES];
            match self.socket.read(&mut room) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => self.received.extend_from_slice(room.get(..count).unwrap_or_default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        self.taken = length;
        let frame = self.received.get(..length).unwrap_or_default();
        let descriptor = protocol::read_descriptor(&mut Cursor::new(frame))?;
        let payload = frame.get(DESCRIPTOR_SIZE..).unwrap_or_default();
        Ok(Some(match descriptor.channel {
            CONTROL => command(payload, self.version),
            channel => Frame::Samples { channel, bytes: payload },
        }))
    }

    /// Length of the first frame, if it is complete.
    fn frame_length(&self) -> Result<Option<usize>, AudioError> {
        let Some(head) = self.received.get(..DESCRIPTOR_SIZE) else { return Ok(None) };
        let payload = protocol::read_descriptor(&mut Cursor::new(head))?.length as usize;
        if payload > FRAME_MAX {
            return Err(AudioError::TooLong { length: payload, max: FRAME_MAX });
        }
        let length = DESCRIPTOR_SIZE + payload;
        Ok((self.received.len() >= length).then_some(length))
    }
}

/// Decodes a control frame.
fn command(payload: &[u8], version: u16) -> Frame<'_> {
    let mut bytes = payload;
    let mut reader = TagStructReader::new(&mut bytes, version);
    let head = reader.read_enum::<CommandTag>().and_then(|tag| Ok((tag, reader.read_u32()?)));
    match head {
        Ok((CommandTag::Reply, sequence)) => Frame::Reply { sequence, result: Ok(Reply { bytes, version }) },
        Ok((CommandTag::Error, sequence)) => {
            let code = reader.read_enum();
            Frame::Reply { sequence, result: Err(code.unwrap_or(PulseError::Unknown)) }
        }
        Ok((CommandTag::Request, _)) => reader.read().map_or(Frame::Other, Frame::Request),
        Ok((CommandTag::PlaybackStreamKilled, _)) => {
            reader.read_u32().map_or(Frame::Other, Frame::PlaybackKilled)
        }
        Ok((CommandTag::RecordStreamKilled, _)) => {
            reader.read_u32().map_or(Frame::Other, Frame::RecordKilled)
        }
        // All other commands of the crate's enum.
        Ok(_) | Err(_) => Frame::Other,
    }
}

/// Channel of control frames.
const CONTROL: u32 = u32::MAX;

/// Maximum payload of a frame. The longest replies are device lists, with some KiB for each device.
const FRAME_MAX: usize = 1 << 20;

/// Length of PulseAudio's cookies.
const COOKIE_BYTES: usize = 256;

const READ_BYTES: usize = 16 << 10;

/// Timeout of a read, after which the stream's thread checks the state of its card.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Address and credentials of a sound server.
#[derive(Clone, Debug)]
pub struct SoundServer {
    socket: PathBuf,
    /// Shared secret of the user's programs; not needed if the server authenticates the user by the socket.
    cookie: Vec<u8>,
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

/// Capacity of each direction in samples: 256 ms, twice the queue of a headset.
const RING_SAMPLES: usize = 2048;

/// Maximum number of unread events; further ones are dropped.
const EVENTS_MAX: usize = 16;

#[cfg(test)]
mod tests;
