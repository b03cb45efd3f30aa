//! A media session with its source and its sink, as the media thread runs it.

use crate::phone::line::Mute;
use ringway_audio::{CallSound, Level, Levels};
use ringway_linux::media::RTP_PORT;
use ringway_media::session::{DigitsError, MediaEvent, MediaSession, Report};
use ringway_sansio::{Deadline, Flow, Instant, Outbox, PacedNode, Token};
use ringway_sdp::MediaParams;
use ringway_zrtp::SasCheck;
use std::time::Duration;

/// What is asked of a call's sound.
#[derive(Debug)]
pub(crate) enum Ask {
    /// From now on it is like this.
    Params(Box<MediaParams>),
    /// It rings at the other side.
    RingThere,
    /// The call is answered.
    Answered,
    /// The call was given up or hung up: the other side hears no more of us.
    GivenUp,
    /// Press a key.
    Digit(char),
    /// Send silence, or our sound.
    Mute(Mute),
    /// People have compared what ZRTP gave them.
    Compared(SasCheck),
    /// Say goodbye: the call is over.
    Leave,
}

/// What a call's sound tells its line.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be allocated on the media thread")]
pub(crate) enum Heard {
    /// Something happened.
    Event(MediaEvent),
    /// A key was not sent.
    DigitNotSent(DigitsError),
    /// How it is, once a second.
    Figures(Report),
}

/// What runs on the media thread.
pub(crate) struct Stream {
    session: MediaSession,
    sound: CallSound,
    levels: Levels,
    mute: Mute,
    /// The ringback tone is played until something is heard.
    rings_there: bool,
    /// The other side hears nothing of us before.
    is_answered: bool,
    /// We hold the call: the other side hears nothing of us.
    is_holding: bool,
    /// Why a key was not sent, to be told.
    not_sent: Option<DigitsError>,
    figures_due: Instant,
}

impl Stream {
    pub(crate) fn new(session: MediaSession, sound: CallSound, levels: Levels, now: Instant) -> Self {
        Self {
            session,
            sound,
            levels,
            mute: Mute::Off,
            rings_there: false,
            is_answered: false,
            is_holding: false,
            not_sent: None,
            figures_due: now + FIGURES_EVERY,
        }
    }

    /// How it was, and where the sound went.
    pub(crate) fn into_parts(self) -> (Report, CallSound) {
        (self.session.report(), self.sound)
    }

    fn capture(&mut self, block: &mut [i16]) {
        let is_heard = self.is_answered && !self.is_holding && self.session.is_sending();
        // A file is not read while nobody hears it. A microphone is, or what it recorded meanwhile would be sent later.
        let goes_on = is_heard || self.is_answered && self.sound.sends_microphone();
        if goes_on {
            self.sound.capture(block);
        }
        if !is_heard || self.mute == Mute::On {
            block.fill(0);
        }
    }
}

impl PacedNode for Stream {
    type Command = Ask;
    type Report = Heard;

    fn packet_interval(&self) -> Duration {
        self.session.packet_time()
    }

    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox) {
        let mut room = [0; MediaSession::PACKET_SAMPLES_MAX];
        let samples = self.session.packet_samples();
        let Some(block) = room.get_mut(..samples) else { return };
        self.session.playout(now, block);
        self.levels.set_played(Level::of(block));
        // RFC 3960 §3.2: a description of early sound is no sound yet.
        if self.rings_there && self.session.report().received.counts.received == 0 {
            self.sound.play_ringback(block);
        } else {
            self.sound.play(block);
        }
        self.capture(block);
        self.levels.set_captured(Level::of(block));
        if let Some((packet, to)) = self.session.prepare(due, block) {
            out.send(Flow::udp(RTP_PORT, to), Token::NONE, packet);
        }
    }

    fn on_datagram(
        &mut self,
        now: Instant,
        arrived: Instant,
        flow: Flow,
        bytes: &mut [u8],
        out: &mut Outbox,
    ) {
        self.session.on_datagram(now, arrived, flow, bytes, out);
    }

    fn on_command(&mut self, now: Instant, command: Ask, out: &mut Outbox) {
        match command {
            Ask::Params(params) => {
                self.is_holding = !params.direction.receives();
                self.session.set_params(now, *params);
            }
            Ask::RingThere => self.rings_there = true,
            Ask::Answered => (self.rings_there, self.is_answered) = (false, true),
            Ask::GivenUp => (self.rings_there, self.is_answered) = (false, false),
            Ask::Digit(digit) => {
                if let Err(why) = self.session.send_digits(digit.encode_utf8(&mut [0; 4])) {
                    self.not_sent = Some(why);
                }
            }
            Ask::Mute(mute) => self.mute = mute,
            Ask::Compared(check) => self.session.on_sas_compared(now, check),
            Ask::Leave => self.session.close(now, out),
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.session.on_timeout(now, out);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let figures = Deadline { at: self.figures_due, reason: "figures for the screen" };
        self.session.next_deadline().filter(|session| session.at < figures.at).or(Some(figures))
    }

    fn poll_report(&mut self, now: Instant) -> Option<Heard> {
        if let Some(event) = self.session.poll_event() {
            return Some(Heard::Event(event));
        }
        if let Some(why) = self.not_sent.take() {
            return Some(Heard::DigitNotSent(why));
        }
        if now < self.figures_due {
            return None;
        }
        self.figures_due = now + FIGURES_EVERY;
        Some(Heard::Figures(self.session.report()))
    }
}

const FIGURES_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_audio::{Input, Sink, Source};
    use ringway_media::session::SessionConfig;
    use ringway_sansio::Seed;
    use ringway_sdp::{Codec, Direction, Protection};

    const START: Instant = Instant::from_secs(1);

    /// Sends a file whose blocks are numbered: block n is 100 n loud.
    struct Sender {
        stream: Stream,
        now: Instant,
    }

    impl Sender {
        fn new() -> Self {
            let samples = (1..=50_i16).flat_map(|block| [block * 100; 160]).collect();
            let sound = CallSound::new(Input::Source(Source::samples(samples)), Sink::Null, None);
            let session = MediaSession::new(SessionConfig::default(), Seed::from_number(1), START);
            Self { stream: Stream::new(session, sound, Levels::default(), START), now: START }
        }

        fn ask(&mut self, ask: Ask) {
            self.stream.on_command(self.now, ask, &mut Outbox::new());
        }

        fn agree(&mut self, direction: Direction) {
            let remote = "127.0.0.1:4000".parse().unwrap();
            let params = MediaParams {
                remote,
                remote_rtcp: "127.0.0.1:4001".parse().unwrap(),
                codec: Codec::Pcmu,
                payload_type: 0,
                receive: vec![(0, Codec::Pcmu)],
                telephone_event: None,
                receive_telephone_event: None,
                ptime_ms: 20,
                direction,
                protection: Protection::None,
                rtcp_mux: false,
            };
            self.ask(Ask::Params(Box::new(params)));
        }

        /// How loud the next blocks are.
        fn blocks(&mut self, count: usize) -> Vec<u16> {
            let peaks = (0..count).map(|_| {
                self.now = self.now + Duration::from_millis(20);
                self.stream.prepare(self.now, self.now, &mut Outbox::new());
                self.stream.levels.captured().peak
            });
            peaks.collect()
        }
    }

    #[test]
    fn a_file_waits_while_nobody_hears_it() {
        let mut sender = Sender::new();
        assert_eq!(sender.blocks(2), [0, 0], "nothing is agreed");
        sender.agree(Direction::SendRecv);
        assert_eq!(sender.blocks(2), [0, 0], "it is not answered");
        sender.ask(Ask::Answered);
        assert_eq!(sender.blocks(2), [100, 200]);
        sender.agree(Direction::SendOnly);
        assert_eq!(sender.blocks(3), [0, 0, 0], "we hold");
        sender.agree(Direction::SendRecv);
        assert_eq!(sender.blocks(2), [300, 400]);
        for direction in [Direction::RecvOnly, Direction::Inactive] {
            sender.agree(direction);
            assert_eq!(sender.blocks(2), [0, 0], "the other side holds");
        }
        sender.agree(Direction::SendRecv);
        assert_eq!(sender.blocks(1), [500]);
        sender.ask(Ask::Mute(Mute::On));
        assert_eq!(sender.blocks(1), [0]);
        sender.ask(Ask::Mute(Mute::Off));
        assert_eq!(sender.blocks(1), [700], "muted it goes on");
        sender.ask(Ask::GivenUp);
        assert_eq!(sender.blocks(1), [0], "the call was given up");
    }
}
