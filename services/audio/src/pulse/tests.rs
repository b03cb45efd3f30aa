//! Tests of a card against a fake sound server without a clock: samples in both directions, a lost server, a missing
//! microphone, too long frames; choice of devices.

use super::*;
use crate::Ringer;
use crate::pulse::FRAME_MAX;
use pulseaudio::protocol::{
    self, AuthReply, Command, CreatePlaybackStreamReply, CreateRecordStreamReply, DescriptorFlags,
    MAX_VERSION, PulseError, Request, ServerInfo, SetClientNameReply, SinkInfo, SourceInfo,
};
use ringway_media::headset::{Headset, SoundCard};
use std::ffi::CString;
use std::io::{Cursor, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const PLAYBACK: u32 = 3;
const RECORD: u32 = 4;

/// A listening server with its own folder.
struct Fake {
    folder: tempfile::TempDir,
    listener: UnixListener,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("native")).unwrap();
        Self { folder, listener }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("native")
    }

    fn server(&self) -> SoundServer {
        SoundServer::at(&self.socket())
    }

    fn card(&self) -> (PulseCard, Receiver<AudioEvent>) {
        PulseCard::open(&self.server(), &Names::default()).unwrap()
    }

    /// Accepts a client and its authentication.
    fn accept(&self) -> Client {
        let (socket, _) = self.listener.accept().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Client { socket };
        let (seq, auth) = client.command();
        assert!(matches!(&auth, Command::Auth(params) if params.cookie.len() == 256), "{auth:?}");
        client.reply(seq, &AuthReply { version: MAX_VERSION, ..AuthReply::default() });
        let (seq, name) = client.command();
        assert!(matches!(name, Command::SetClientName(_)), "{name:?}");
        client.reply(seq, &SetClientNameReply { client_id: 1 });
        client
    }
}

/// A client's connection.
struct Client {
    socket: UnixStream,
}

impl Client {
    /// Receives the next frame: channel and payload.
    fn frame(&mut self) -> (u32, Vec<u8>) {
        let descriptor = protocol::read_descriptor(&mut self.socket).unwrap();
        let mut payload = vec![0; descriptor.length as usize];
        self.socket.read_exact(&mut payload).unwrap();
        (descriptor.channel, payload)
    }

    /// Receives the next command; samples before it are dropped.
    fn command(&mut self) -> (u32, Command) {
        loop {
            if let (u32::MAX, payload) = self.frame() {
                return Command::read_tag_prefixed(&mut Cursor::new(payload), MAX_VERSION).unwrap();
            }
        }
    }

    /// Receives the samples of the next frame.
    fn samples(&mut self) -> Vec<i16> {
        let (channel, payload) = self.frame();
        assert_eq!(channel, PLAYBACK);
        payload.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
    }

    fn reply(&mut self, seq: u32, reply: &impl protocol::CommandReply) {
        protocol::write_reply_message(&mut self.socket, seq, reply, MAX_VERSION).unwrap();
    }

    fn send(&mut self, command: &Command) {
        protocol::write_command_message(&mut self.socket, u32::MAX, command, MAX_VERSION).unwrap();
    }

    fn request(&mut self, length: u32) {
        self.send(&Command::Request(Request { channel: PLAYBACK, length }));
    }

    /// Opens the playback stream and receives its first samples.
    fn open_playback(&mut self) -> Vec<i16> {
        let (seq, command) = self.command();
        let Command::CreatePlaybackStream(params) = command else { panic!("{command:?}") };
        assert_eq!((params.sample_spec.sample_rate, params.sample_spec.channels), (8000, 1));
        let reply = CreatePlaybackStreamReply {
            channel: PLAYBACK,
            requested_bytes: params.buffer_attr.target_length,
            ..CreatePlaybackStreamReply::default()
        };
        self.reply(seq, &reply);
        self.samples()
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn requests_get_queued_samples_and_then_silence() {
    let fake = Fake::new();
    let (mut card, _events) = fake.card();
    card.play(&[1; 960]);
    card.play(&[7; 560]);
    let mut client = fake.accept();
    assert_eq!(client.open_playback(), [0; 320]);
    client.request(480);
    assert_eq!(client.samples(), [7; 240], "of what waited for the stream, the newest is played");
    card.play(&[7; 100]);
    assert_eq!(card.queued(), 100);
    client.request(320);
    let samples = client.samples();
    assert_eq!((&samples[..100], &samples[100..]), (&[7; 100][..], &[0; 60][..]));
    assert_eq!(card.queued(), 0);
    // A request without a limit is reduced to the size of the buffer.
    client.request(u32::MAX);
    assert_eq!(client.samples(), [0; 1280]);
    card.play(&[1; 10_000]);
    assert_eq!(card.queued(), 2048, "the queue is bounded");
}

#[test]
fn blocks_are_too_many_only_for_a_server_that_plays() {
    let fake = Fake::new();
    let (card, _events) = fake.card();
    let mut headset = Headset::new(card);
    let mut summary_after_2_s = || {
        (0..100).for_each(|_| headset.play(&[5; 160]));
        headset.summary()
    };
    assert!(summary_after_2_s().contains(" 0 blocks too many"), "there is no server");
    let mut client = fake.accept();
    client.open_playback();
    assert!(summary_after_2_s().contains(" 0 blocks too many"), "the sink does not play yet");
    client.request(320);
    client.samples();
    let summary = summary_after_2_s();
    assert!(!summary.contains(" 0 blocks too many"), "{summary}");
}

#[test]
fn the_microphone_is_opened_at_the_first_use() {
    let fake = Fake::new();
    let (mut card, events) = fake.card();
    let mut client = fake.accept();
    client.open_playback();
    assert_eq!(card.capture(&mut [0; 10]), 0, "draining does not open it");
    client.request(320);
    client.samples();
    assert_eq!(card.captured(), 0);
    let (seq, command) = client.command();
    assert!(matches!(command, Command::CreateRecordStream(_)), "{command:?}");
    client.reply(seq, &CreateRecordStreamReply { channel: RECORD, ..CreateRecordStreamReply::default() });
    protocol::write_memblock(&mut client.socket, RECORD, &[1, 2].repeat(80), 0).unwrap();
    protocol::write_memblock(&mut client.socket, 99, &[9, 9].repeat(80), 0).unwrap();
    protocol::write_memblock(&mut client.socket, RECORD, &[3, 4].repeat(80), 0).unwrap();
    wait_until("the microphone's samples", || card.captured() == 160);
    let mut block = [0; 200];
    assert_eq!(card.capture(&mut block), 160);
    assert_eq!((block[0], block[80], block[160]), (0x0201, 0x0403, 0));
    protocol::write_memblock(&mut client.socket, RECORD, &[0; 6000], 0).unwrap();
    wait_until("the queue overflows", || card.overruns() > 0);
    assert_eq!((card.captured(), card.overruns()), (2048, 3000 - 2048));
    assert!(events.try_recv().is_err());
}

#[test]
fn a_missing_microphone_is_reported_and_the_loudspeaker_continues() {
    let fake = Fake::new();
    let (mut card, events) = fake.card();
    let mut client = fake.accept();
    client.open_playback();
    card.captured();
    let (seq, _) = client.command();
    protocol::write_error(&mut client.socket, seq, &PulseError::NoEntity).unwrap();
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, AudioEvent::Lost(Part::Microphone, AudioError::Refused { .. })), "{event:?}");
    assert!(event.to_string().contains("no microphone"), "{event}");
    card.play(&[5; 160]);
    client.request(320);
    assert_eq!(client.samples(), [5; 160]);
    let (seq, command) = client.command();
    assert!(matches!(command, Command::CreateRecordStream(_)), "it is tried again");
    client.reply(seq, &CreateRecordStreamReply { channel: RECORD, ..CreateRecordStreamReply::default() });
    assert!(matches!(events.recv_timeout(PATIENCE), Ok(AudioEvent::Restored(Part::Microphone))));
    client.send(&Command::RecordStreamKilled(RECORD));
    let event = events.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(event, AudioEvent::Lost(Part::Microphone, AudioError::Killed)), "{event:?}");
}

#[test]
fn a_lost_server_is_reported_once_and_reconnected() {
    let fake = Fake::new();
    let (mut card, events) = fake.card();
    let mut client = fake.accept();
    client.open_playback();
    drop(client);
    assert!(matches!(events.recv_timeout(PATIENCE), Ok(AudioEvent::Lost(Part::Sound, AudioError::Io(_)))));
    // Samples queued meanwhile are old and not played.
    card.play(&[5; 900]);
    drop(fake.accept());
    let mut client = fake.accept();
    assert_eq!(client.open_playback(), [0; 320]);
    assert!(matches!(events.recv_timeout(PATIENCE), Ok(AudioEvent::Restored(Part::Sound))));
    client.send(&Command::PlaybackStreamKilled(PLAYBACK));
    assert!(matches!(events.recv_timeout(PATIENCE), Ok(AudioEvent::Lost(Part::Sound, AudioError::Killed))));
    drop(card);
    wait_until("the thread ends", || {
        matches!(events.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
    });
}

#[test]
fn a_ringer_rings_until_it_is_dropped() {
    let fake = Fake::new();
    let ringer = Ringer::start(&fake.server(), &Names::default()).unwrap();
    let mut client = fake.accept();
    client.open_playback();
    wait_until("it rings", || {
        client.request(160);
        client.samples().iter().any(|sample| sample.unsigned_abs() > 2000)
    });
    drop(ringer);
    let mut rest = Vec::new();
    client.socket.read_to_end(&mut rest).unwrap();
}

#[test]
fn protocol_violations_are_errors_and_allocate_nothing() {
    let fake = Fake::new();
    let (_card, events) = fake.card();
    let mut client = fake.accept();
    client.open_playback();
    let length = u32::try_from(FRAME_MAX).unwrap() + 1;
    let flags = DescriptorFlags::empty();
    let descriptor = protocol::Descriptor { length, channel: 0, offset: 0, flags };
    protocol::write_descriptor(&mut client.socket, &descriptor).unwrap();
    assert!(matches!(
        events.recv_timeout(PATIENCE),
        Ok(AudioEvent::Lost(Part::Sound, AudioError::TooLong { .. }))
    ));
}

#[test]
fn devices_are_listed_and_chosen_by_name_or_description() {
    let fake = Fake::new();
    let server = fake.server();
    let listing = std::thread::spawn(move || server.devices());
    let mut client = fake.accept();
    let (seq, _) = client.command();
    let info = ServerInfo { default_sink_name: Some(c"b".to_owned()), ..ServerInfo::default() };
    client.reply(seq, &info);
    let sink = |name: &str, description: &str| SinkInfo {
        name: CString::new(name).unwrap(),
        description: Some(CString::new(description).unwrap()),
        ..SinkInfo::new_dummy(1)
    };
    let (seq, _) = client.command();
    client.reply(seq, &vec![sink("a", "Loudspeakers"), sink("b", "Headset")]);
    let (seq, _) = client.command();
    client.reply(seq, &Vec::<SourceInfo>::new());
    let devices = listing.join().unwrap().unwrap();
    let device = |name: &str, description: &str, is_default| Device {
        name: name.to_owned(),
        description: description.to_owned(),
        is_default,
    };
    assert_eq!(devices.loudspeakers, [device("a", "Loudspeakers", false), device("b", "Headset", true)]);
    let chosen = |loudspeaker: &str| Names { microphone: None, loudspeaker: Some(loudspeaker.to_owned()) };
    assert_eq!(devices.resolve(&chosen("Loudspeakers")).unwrap(), chosen("a"));
    assert_eq!(devices.resolve(&chosen("b")).unwrap(), chosen("b"));
    let error = devices.resolve(&chosen("c")).unwrap_err().to_string();
    assert_eq!(error, "no loudspeaker is called \"c\"; there are: a, b");
    let microphone = Names { microphone: Some("x".to_owned()), loudspeaker: None };
    assert!(devices.resolve(&microphone).unwrap_err().to_string().ends_with("there are: none"));
}

#[test]
fn a_missing_server_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let error = SoundServer::at(&folder.path().join("native")).devices().unwrap_err().to_string();
    assert!(error.contains("native") && error.contains("PULSE_SERVER"), "{error}");
}
