//! Thread of a card: one connection with a playback and a record stream, which reconnects when it is lost; events of the
//! card.
//!
//! The server's clock drives it. Each `Request` for samples is answered at once with queued samples, padded with
//! silence, so that the server never waits. Each fragment of the microphone is queued for the call.

use super::{AudioError, Connection, Frame, Names, Reply, SoundServer};
use crate::SAMPLE_RATE_HZ;
use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    ChannelMap, Command, CreatePlaybackStreamReply, CreateRecordStreamReply, DESCRIPTOR_SIZE,
    PlaybackStreamParams, Prop, Props, RecordStreamParams, Request, SampleFormat, SampleSpec,
};
use ringway_media::headset::MARGIN;
use rtrb::{Consumer, Producer};
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// State that the card and its thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) wants_microphone: AtomicBool,
    pub(super) is_closing: AtomicBool,
    /// The server requests samples. A sink may begin with that seconds after it has opened the stream.
    pub(super) is_playing: AtomicBool,
    /// Microphone samples dropped because the queue was full.
    pub(super) overruns: AtomicU64,
}

/// The thread's ends of the queues to a card.
pub(super) struct Ends {
    from_call: Consumer<i16>,
    to_call: Producer<i16>,
    shared: Arc<Shared>,
    events: SyncSender<AudioEvent>,
    is_sound_lost: bool,
    is_microphone_lost: bool,
}

impl Ends {
    pub(super) fn new(
        from_call: Consumer<i16>,
        to_call: Producer<i16>,
        shared: Arc<Shared>,
        events: SyncSender<AudioEvent>,
    ) -> Self {
        Self { from_call, to_call, shared, events, is_sound_lost: false, is_microphone_lost: false }
    }

    fn is_closing(&self) -> bool {
        self.shared.is_closing.load(Ordering::Relaxed)
    }

    /// Drops old samples before a stream begins to play: the headset's margin remains. After a loss all samples are old.
    fn discard(&mut self) {
        let keep = if self.is_sound_lost { 0 } else { MARGIN };
        let count = self.from_call.slots().saturating_sub(keep);
        if let Ok(old) = self.from_call.read_chunk(count) {
            old.commit_all();
        }
    }

    /// Fills `bytes` with queued samples, then silence.
    fn fill(&mut self, bytes: &mut [u8]) {
        for pair in bytes.chunks_exact_mut(2) {
            pair.copy_from_slice(&self.from_call.pop().unwrap_or(0).to_le_bytes());
        }
    }

    /// Queues samples of the microphone.
    fn take(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(2) {
            let sample = pair.try_into().map(i16::from_le_bytes).unwrap_or_default();
            if self.to_call.push(sample).is_err() {
                self.shared.overruns.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Reports a loss once.
    fn lost(&mut self, part: Part, why: AudioError) {
        if !std::mem::replace(self.lost_flag(part), true) {
            // The event is dropped if the program does not read events.
            let _ = self.events.try_send(AudioEvent::Lost(part, why));
        }
    }

    fn works(&mut self, part: Part) {
        if std::mem::take(self.lost_flag(part)) {
            let _ = self.events.try_send(AudioEvent::Restored(part));
        }
    }

    fn lost_flag(&mut self, part: Part) -> &mut bool {
        match part {
            Part::Sound => &mut self.is_sound_lost,
            Part::Microphone => &mut self.is_microphone_lost,
        }
    }
}

/// Runs until the card is dropped.
pub(super) fn run(server: &SoundServer, devices: &Names, mut ends: Ends) {
    while !ends.is_closing() {
        let ended = Session::open(server, devices).and_then(|mut session| session.run(devices, &mut ends));
        let Err(why) = ended else { return };
        ends.shared.is_playing.store(false, Ordering::Relaxed);
        ends.lost(Part::Sound, why);
        let again = Instant::now() + RETRY_AFTER;
        while Instant::now() < again && !ends.is_closing() {
            std::thread::sleep(CLOSE_POLL_INTERVAL);
        }
    }
}

/// The streams of one connection.
struct Session {
    connection: Connection,
    playback: Stream,
    record: Stream,
    /// Buffer for a frame of samples and its descriptor.
    frame: Vec<u8>,
}

/// State of a stream at the server.
enum Stream {
    /// Closed, and to be opened at this time.
    Closed(Instant),
    /// Requested with this sequence number.
    Opening(u32),
    /// Open with this channel.
    Open(u32),
}

impl Stream {
    fn is_opening(&self, sequence: u32) -> bool {
        matches!(self, Self::Opening(asked) if *asked == sequence)
    }

    fn is_open(&self, channel: u32) -> bool {
        matches!(self, Self::Open(own) if *own == channel)
    }
}

impl Session {
    fn open(server: &SoundServer, devices: &Names) -> Result<Self, AudioError> {
        let mut connection = Connection::open(server)?;
        let command = Command::CreatePlaybackStream(PlaybackStreamParams {
            sample_spec: SPEC,
            channel_map: ChannelMap::mono(),
            sink_name: device(devices.loudspeaker.as_ref()),
            buffer_attr: BufferAttr {
                max_length: 4 * TARGET_BYTES,
                target_length: TARGET_BYTES,
                pre_buffering: FRAGMENT_BYTES,
                minimum_request_length: FRAGMENT_BYTES,
                fragment_size: u32::MAX,
            },
            flags: StreamFlags { adjust_latency: true, ..StreamFlags::default() },
            props: props(c"call, received"),
            ..PlaybackStreamParams::default()
        });
        let playback = Stream::Opening(connection.send(&command)?);
        Ok(Self { connection, playback, record: Stream::Closed(Instant::now()), frame: Vec::new() })
    }

    /// Runs until the card is dropped (`Ok`), or the connection or the loudspeaker is lost.
    fn run(&mut self, devices: &Names, ends: &mut Ends) -> Result<(), AudioError> {
        while !ends.is_closing() {
            let wants_microphone = ends.shared.wants_microphone.load(Ordering::Relaxed);
            if wants_microphone && matches!(self.record, Stream::Closed(until) if until <= Instant::now()) {
                self.record = Stream::Opening(self.open_microphone(devices)?);
            }
            match self.connection.receive()? {
                Some(Frame::Samples { channel, bytes }) => {
                    if self.record.is_open(channel) {
                        ends.take(bytes);
                    }
                }
                Some(Frame::Request(Request { channel, length })) => {
                    if self.playback.is_open(channel) {
                        if !ends.shared.is_playing.swap(true, Ordering::Relaxed) {
                            ends.discard();
                        }
                        self.play(channel, length, |samples| ends.fill(samples))?;
                    }
                }
                Some(Frame::Reply { sequence, result }) => {
                    if self.playback.is_opening(sequence) {
                        let refused = |why| AudioError::Refused { what: "the loudspeaker", why };
                        let reply: CreatePlaybackStreamReply = result.map_err(refused)?.read()?;
                        self.playback = Stream::Open(reply.channel);
                        ends.discard();
                        ends.works(Part::Sound);
                        // The server's buffer is filled with silence first.
                        self.play(reply.channel, reply.requested_bytes, |_| {})?;
                    } else if self.record.is_opening(sequence) {
                        let refused = |why| AudioError::Refused { what: "the microphone", why };
                        let reply = result.map_err(refused).and_then(Reply::read);
                        self.record = microphone(reply, ends);
                    }
                }
                Some(Frame::PlaybackKilled(channel)) if self.playback.is_open(channel) => {
                    return Err(AudioError::Killed);
                }
                Some(Frame::RecordKilled(channel)) if self.record.is_open(channel) => {
                    self.record = microphone(Err(AudioError::Killed), ends);
                }
                Some(Frame::PlaybackKilled(_) | Frame::RecordKilled(_) | Frame::Other) | None => {}
            }
        }
        Ok(())
    }

    /// Sends the requested samples to the server.
    fn play(&mut self, channel: u32, bytes: u32, fill: impl FnOnce(&mut [u8])) -> Result<(), AudioError> {
        // A whole number of samples, limited to the server's buffer.
        let bytes = bytes.min(4 * TARGET_BYTES) as usize & !1;
        self.frame.clear();
        self.frame.resize(DESCRIPTOR_SIZE + bytes, 0);
        if let Some(samples) = self.frame.get_mut(DESCRIPTOR_SIZE..) {
            fill(samples);
        }
        self.connection.send_samples(channel, &mut self.frame)
    }

    fn open_microphone(&mut self, devices: &Names) -> Result<u32, AudioError> {
        self.connection.send(&Command::CreateRecordStream(RecordStreamParams {
            sample_spec: SPEC,
            channel_map: ChannelMap::mono(),
            source_name: device(devices.microphone.as_ref()),
            buffer_attr: BufferAttr { fragment_size: FRAGMENT_BYTES, ..BufferAttr::default() },
            flags: StreamFlags { adjust_latency: true, ..StreamFlags::default() },
            props: props(c"call, sent"),
            ..RecordStreamParams::default()
        }))
    }
}

/// State of the microphone after the server's reply. Without a microphone the call continues with the loudspeaker.
fn microphone(reply: Result<CreateRecordStreamReply, AudioError>, ends: &mut Ends) -> Stream {
    match reply {
        Ok(reply) => {
            ends.works(Part::Microphone);
            Stream::Open(reply.channel)
        }
        Err(why) => {
            ends.lost(Part::Microphone, why);
            Stream::Closed(Instant::now() + RETRY_AFTER)
        }
    }
}

/// Name of a device for the server. A name with a NUL becomes empty, which the server refuses.
fn device(name: Option<&String>) -> Option<CString> {
    name.map(|name| CString::new(name.as_str()).unwrap_or_default())
}

/// Properties of a stream. Desktops lower other sound during a stream with the role `phone`, and some cancel its echo.
fn props(name: &'static std::ffi::CStr) -> Props {
    let mut props = Props::new();
    props.set(Prop::MediaName, name);
    props.set(Prop::MediaRole, c"phone");
    props
}

/// Sample format of a call; the server converts it to the device's.
const SPEC: SampleSpec = SampleSpec { format: SampleFormat::S16Le, channels: 1, sample_rate: SAMPLE_RATE_HZ };

/// Size of the server's playback buffer: 40 ms.
const TARGET_BYTES: u32 = 640;

/// Size of playback requests and microphone fragments: 10 ms.
const FRAGMENT_BYTES: u32 = 160;

/// Delay before a lost server or microphone is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Change of a card's state, to be shown to the user.
#[derive(Debug)]
pub enum AudioEvent {
    /// A part failed. The call continues, and the part is retried every second.
    Lost(Part, AudioError),
    /// A lost part works again.
    Restored(Part),
}

/// Part of a card that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Both directions.
    Sound,
    /// The microphone alone.
    Microphone,
}

impl fmt::Display for AudioEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(Part::Sound, why) => write!(f, "no sound, retrying: {why}"),
            Self::Lost(Part::Microphone, why) => write!(f, "no microphone, retrying: {why}"),
            Self::Restored(Part::Sound) => f.write_str("there is sound again"),
            Self::Restored(Part::Microphone) => f.write_str("the microphone works again"),
        }
    }
}
