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
    /// The microphone is not used before.
    is_answered: bool,
    /// We hold the call: the other side does not hear the microphone.
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
        let is_microphone = self.sound.sends_microphone();
        if is_microphone && !self.is_answered {
            return block.fill(0);
        }
        // A source goes on while it is not heard.
        self.sound.capture(block);
        if self.mute == Mute::On || is_microphone && self.is_holding {
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
