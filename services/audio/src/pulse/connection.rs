//! Connection to a sound server.
//!
//! The crate `pulseaudio` encodes and decodes messages. Its client is not used, because it grows without limit and has
//! no timeouts. A frame is a descriptor (length, channel, offset, flags) and a payload: a command, or samples of a
//! stream.

use super::error::AudioError;
use super::server::SoundServer;
use pulseaudio::protocol::{
    self, AuthParams, AuthReply, Command, CommandReply, CommandTag, DESCRIPTOR_SIZE, Prop, Props, PulseError,
    Request, SetClientNameReply, TagStructReader,
};
use std::ffi::CString;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection after its handshake.
pub(super) struct Connection {
    socket: UnixStream,
    version: u16,
    next_sequence: u32,
    /// Received bytes; the first `taken` are the frame that was returned last.
    received: Vec<u8>,
    taken: usize,
}

/// A received frame.
pub(super) enum Frame<'c> {
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
pub(super) struct Reply<'c> {
    bytes: &'c [u8],
    version: u16,
}

impl Reply<'_> {
    /// Decodes the payload.
    pub(super) fn read<R: CommandReply>(mut self) -> Result<R, AudioError> {
        let version = self.version;
        Ok(TagStructReader::new(&mut self.bytes, version).read()?)
    }
}

impl Connection {
    /// Connects and authenticates, within [`REQUEST_TIMEOUT`] for each request.
    pub(super) fn open(server: &SoundServer) -> Result<Self, AudioError> {
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
    pub(super) fn send(&mut self, command: &Command) -> Result<u32, AudioError> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, sequence, command, self.version)?;
        self.socket.write_all(&bytes)?;
        Ok(sequence)
    }

    /// Sends a command and waits for its reply; other frames are dropped. `what` names the request in errors.
    pub(super) fn request<R: CommandReply>(
        &mut self,
        what: &'static str,
        command: &Command,
    ) -> Result<R, AudioError> {
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
    pub(super) fn send_samples(&mut self, channel: u32, frame: &mut [u8]) -> Result<(), AudioError> {
        let Some((head, samples)) = frame.split_first_chunk_mut::<DESCRIPTOR_SIZE>() else { return Ok(()) };
        let length = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        let flags = protocol::DescriptorFlags::empty();
        protocol::encode_descriptor(head, &protocol::Descriptor { length, channel, offset: 0, flags });
        Ok(self.socket.write_all(frame)?)
    }

    /// Receives the next frame; `None` if none arrives within [`READ_TIMEOUT`].
    pub(super) fn receive(&mut self) -> Result<Option<Frame<'_>>, AudioError> {
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
pub(super) const FRAME_MAX: usize = 1 << 20;

/// Length of PulseAudio's cookies.
const COOKIE_BYTES: usize = 256;

const READ_BYTES: usize = 16 << 10;

/// Timeout of a read, after which the stream's thread checks the state of its card.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
