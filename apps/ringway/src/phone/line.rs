//! Media of a call on Linux: a [`CallMedia`] with a sound, at a pair of ports, on a thread of its own.

use crate::failure::Failure;
use crate::phone::audio::Audio;
use crate::phone::outcome::MediaOutcome;
use crate::phone::settings::{MediaSettings, Recording};
use ringway_audio::pulse::AudioEvent;
use ringway_audio::{CallSound, Sink, WavRecorder};
use ringway_linux::Clock;
use ringway_linux::media::{MediaConfig, MediaPorts, MediaThread, Priority};
use ringway_media::MediaSession;
use ringway_phone::{CallMedia, CallMediaEvent, MediaCommand};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

/// Handle of a call's media thread.
pub(crate) struct Line {
    media: MediaThread<CallMedia<CallSound>>,
    /// Events of its sound card.
    card: Option<Receiver<AudioEvent>>,
    rtp: SocketAddr,
    /// Commands that wait for room.
    commands: VecDeque<MediaCommand>,
}

impl Line {
    /// Binds ports at `ip` and runs the session there. `number` counts the calls of this program from 1.
    pub(crate) fn open(
        session: MediaSession,
        settings: &MediaSettings,
        audio: Option<&Audio>,
        (ip, number): (IpAddr, u32),
        clock: Clock,
    ) -> Result<Self, Failure> {
        let ports =
            MediaPorts::bind(ip, settings.ports).map_err(|error| Failure::failed(error.to_string()))?;
        let rtp = ports.rtp_address();
        let (card, events) = audio.map(Audio::open).transpose()?.unzip();
        let sound = CallSound::new(settings.input.clone(), sink(&settings.record, number)?, card);
        let media = CallMedia::new(session, sound, clock.now());
        let media = MediaThread::start(ports, media, clock, MediaConfig::default())
            .map_err(|error| Failure::failed(format!("cannot start the media thread: {error}")))?;
        Ok(Self { media, card: events, rtp, commands: VecDeque::new() })
    }

    /// Address where RTP is received.
    pub(crate) fn rtp_address(&self) -> SocketAddr {
        self.rtp
    }

    /// Priority that the system gives to the media thread.
    pub(crate) fn priority(&self) -> Priority {
        self.media.priority()
    }

    /// Gives a command to the media; commands keep their order while the thread is busy.
    pub(crate) fn command(&mut self, command: MediaCommand) {
        self.commands.push_back(command);
        self.send_commands();
    }

    /// The next event of the sound card, as a line for a person; true if it works again.
    pub(crate) fn poll_card(&self) -> Option<(String, bool)> {
        let event = self.card.as_ref()?.try_recv().ok()?;
        Some((event.to_string(), matches!(event, AudioEvent::Restored(_))))
    }

    /// The next event of the media.
    pub(crate) fn poll(&mut self) -> Option<CallMediaEvent> {
        self.send_commands();
        self.media.poll()
    }

    /// Ends it: the last events, and the figures, with the recording closed.
    pub(crate) fn close(mut self) -> (Vec<CallMediaEvent>, Result<MediaOutcome, Failure>) {
        self.command(MediaCommand::Close);
        let mut events: Vec<_> = std::iter::from_fn(|| self.poll()).collect();
        let (priority, counters) = (self.media.priority(), self.media.counters());
        let media = self.media.stop();
        events.extend(std::iter::from_fn(|| self.media.poll()));
        let Some(media) = media else {
            return (events, Err(Failure::failed("the media thread ended unexpectedly")));
        };
        let report = media.report();
        let codec = media.codec();
        let sound = media.into_sound();
        let card = sound.card_summary();
        let kept = match sound.into_sink() {
            Sink::Memory(kept) => Ok(kept),
            other => other.finish().map(|()| Vec::new()),
        };
        let media = kept.map(|kept| MediaOutcome {
            codec,
            report,
            priority,
            counts: counters.counts(),
            kept,
            card,
            ..MediaOutcome::default()
        });
        (events, media.map_err(|error| Failure::failed(format!("--record: {error}; free some space"))))
    }

    fn send_commands(&mut self) {
        while let Some(command) = self.commands.pop_front() {
            if let Err(command) = self.media.command(command) {
                return self.commands.push_front(command);
            }
        }
    }
}

/// The file of call `number`: `heard.wav`, `media-2.wav`, and so on.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number <= 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn sink(record: &Recording, number: u32) -> Result<Sink, Failure> {
    match record {
        Recording::Nowhere => Ok(Sink::Null),
        Recording::Memory(samples) => Ok(Sink::memory(*samples)),
        Recording::File(path) => recorder(&numbered(path, number)),
        Recording::Folder(folder) => {
            // A conversation is for its two sides only. A folder that is there already keeps its mode.
            std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(|error| {
                let folder = folder.display();
                Failure::failed(format!(
                    "{folder}: cannot make this folder for recordings: {error}; give another"
                ))
            })?;
            // A name of the peer's would let it choose a file. Two calls of the same second have different numbers.
            let when = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
            let names =
                (1..=RECORDINGS_OF_A_SECOND).map(|number| folder.join(format!("{when}-{number}.wav")));
            let free = names.into_iter().find(|path| !path.exists());
            let full = || Failure::failed(format!("{}: too many recordings", folder.display()));
            recorder(&free.ok_or_else(full)?)
        }
    }
}

fn recorder(path: &Path) -> Result<Sink, Failure> {
    WavRecorder::create(path).map(Sink::Wav).map_err(|error| {
        Failure::failed(format!("--record {}: {error}; give a file that can be written", path.display()))
    })
}

/// Mode of a new folder for recordings.
const FOLDER_MODE: u32 = 0o700;

/// More calls than a phone has at once.
const RECORDINGS_OF_A_SECOND: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_after_the_first_are_numbered() {
        let name = |path: &str, number| numbered(Path::new(path), number).display().to_string();
        assert_eq!(name("in/heard.wav", 1), "in/heard.wav");
        assert_eq!(name("in/heard.wav", 2), "in/heard-2.wav");
        assert_eq!(name("heard", 12), "heard-12");
    }
}
