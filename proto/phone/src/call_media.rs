//! Media session of a call with its sound, run by a driver for paced nodes; detection of a peer that may send sound and does
//! not.

use crate::{Levels, MediaReport};
use alloc::boxed::Box;
use core::time::Duration;
use ringway_media::session::{DigitsError, MediaEvent, MediaSession, OfferedSound, RTP_PORT, Report};
use ringway_media::{Level, Sound};
use ringway_sansio::{Deadline, Flow, Instant, Outbox, PacedNode, Token};
use ringway_sdp::MediaParams;
use ringway_zrtp::SasCheck;

/// A command to a [`CallMedia`].
#[derive(Debug)]
pub enum MediaCommand {
    /// Play sound of our offer that comes before the parameters.
    Offered(OfferedSound),
    /// Use these parameters from now on.
    Params(Box<MediaParams>),
    /// The peer rings: play the ringback tone until sound arrives.
    Ringback,
    /// The call is answered: the peer may hear the source.
    Answered,
    /// We hold the call: the peer receives silence.
    Hold,
    /// We do not hold the call.
    Resume,
    /// Send silence in place of the source.
    Mute,
    /// End [`MediaCommand::Mute`].
    Unmute,
    /// Send a digit.
    Digit(char),
    /// The users compared the SAS.
    Compared(SasCheck),
    /// Send what ends the session (RTCP BYE).
    Close,
}

/// An event of a [`CallMedia`].
#[derive(Debug)]
pub enum CallMediaEvent {
    /// Of the media session.
    Session(MediaEvent),
    /// A digit was not sent.
    DigitNotSent(DigitsError),
    /// Loudness, every 100 ms.
    Levels(Levels),
    /// Figures, every second.
    Report(MediaReport),
    /// No packet came in the first seconds in which the peer could send: true; then one came: false.
    Silent(bool),
}

/// A media session with its sound.
pub struct CallMedia<S> {
    session: MediaSession,
    sound: S,
    rings_there: bool,
    is_answered: bool,
    is_held: bool,
    is_muted: bool,
    /// Levels of the last blocks sent and played.
    levels: (Level, Level),
    not_sent: Option<DigitsError>,
    silence: SilenceWatch,
    /// A change of it that is not reported yet.
    is_silent: Option<bool>,
    levels_due: Instant,
    report_due: Instant,
    before: Totals,
}

/// Totals of the report before, for the figures of the last second.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    received: u64,
    lost: u64,
    deltas: u64,
    deltas_ms: f64,
}

impl<S: Sound> CallMedia<S> {
    /// A session that sends nothing until its call is answered.
    pub fn new(session: MediaSession, sound: S, now: Instant) -> Self {
        Self {
            session,
            sound,
            rings_there: false,
            is_answered: false,
            is_held: false,
            is_muted: false,
            levels: (Level::default(), Level::default()),
            not_sent: None,
            silence: SilenceWatch::default(),
            is_silent: None,
            levels_due: now + LEVELS_EVERY,
            report_due: now + REPORT_EVERY,
            before: Totals::default(),
        }
    }

    /// Figures of the whole call.
    pub fn report(&self) -> Report {
        self.session.report()
    }

    /// True once the two sides agreed on media.
    pub const fn is_negotiated(&self) -> bool {
        self.session.params().is_some()
    }

    /// Encoding name of the codec that was negotiated last.
    pub fn codec(&self) -> Option<&'static str> {
        self.session.params().map(|params| params.codec.name())
    }

    /// The sound.
    pub const fn sound(&self) -> &S {
        &self.sound
    }

    /// Ends it, and gives the sound back.
    pub fn into_sound(self) -> S {
        self.sound
    }

    fn capture(&mut self, block: &mut [i16]) {
        let is_heard = self.is_answered && !self.is_held && self.session.is_sending();
        // A file pauses while it is not sent. A microphone does not, or what it captured meanwhile would be sent later.
        if is_heard || self.is_answered && self.sound.is_microphone() {
            self.sound.capture(block);
        }
        if !is_heard || self.is_muted {
            block.fill(0);
        }
    }

    fn measure(&mut self) -> MediaReport {
        let report = self.session.report();
        let incoming = &report.received;
        let (received, lost) = (incoming.counts.received, incoming.counts.lost());
        let before = self.before;
        let (deltas, deltas_ms) = (incoming.deltas, incoming.delta_mean_ms * incoming.deltas as f64);
        self.before = Totals { received, lost, deltas, deltas_ms };
        let fresh = received.saturating_sub(before.received);
        let missed = lost.saturating_sub(before.lost);
        let delta_ms = match deltas.saturating_sub(before.deltas) {
            0 => 0.0,
            fresh => (deltas_ms - before.deltas_ms) / fresh as f64,
        };
        let loss = if fresh + missed == 0 { 0.0 } else { missed as f64 / (fresh + missed) as f64 };
        MediaReport {
            sent_packets: report.sent.packets,
            received_packets: received,
            lost_packets: lost,
            delta_ms: delta_ms.max(0.0) as f32,
            delta_ms_max: incoming.delta_max_ms as f32,
            jitter_ms: incoming.jitter_last_ms as f32,
            jitter_ms_max: incoming.jitter_max_ms as f32,
            loss_percent: (100.0 * loss) as f32,
            mos: report.mos.map(|mos| mos as f32),
            auth_failures: report.refused.auth_failures,
            replays: report.refused.replays,
        }
    }
}

impl<S: Sound> PacedNode for CallMedia<S> {
    type Command = MediaCommand;
    type Report = CallMediaEvent;

    fn packet_interval(&self) -> Duration {
        self.session.packet_time()
    }

    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox) {
        let mut room = [0; MediaSession::PACKET_SAMPLES_MAX];
        let samples = self.session.packet_samples();
        let Some(block) = room.get_mut(..samples) else { return };
        self.session.playout(now, block);
        self.levels.1 = Level::of(block);
        let is_due = self.is_answered && !self.is_held && self.session.is_due_to_receive();
        let last_received_at = self.session.last_received_at();
        self.is_silent = self.silence.check(now, is_due, last_received_at).or(self.is_silent);
        // RFC 3960 §3.2: a description of early media is no sound yet.
        if self.rings_there && last_received_at.is_none() {
            self.sound.play_ringback(block);
        } else {
            self.sound.play(block);
        }
        self.capture(block);
        self.levels.0 = Level::of(block);
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

    fn on_command(&mut self, now: Instant, command: MediaCommand, out: &mut Outbox) {
        match command {
            MediaCommand::Offered(sound) => self.session.set_offered(sound),
            MediaCommand::Params(params) => {
                self.is_held = !params.direction.receives();
                self.session.set_params(now, *params);
            }
            MediaCommand::Ringback => self.rings_there = true,
            MediaCommand::Answered => {
                (self.rings_there, self.is_answered) = (false, true);
                self.sound.on_answered();
            }
            MediaCommand::Hold => self.is_held = true,
            MediaCommand::Resume => self.is_held = false,
            MediaCommand::Mute => self.is_muted = true,
            MediaCommand::Unmute => self.is_muted = false,
            MediaCommand::Digit(digit) => {
                if let Err(error) = self.session.send_digits(digit.encode_utf8(&mut [0; 4])) {
                    self.not_sent = Some(error);
                }
            }
            MediaCommand::Compared(check) => self.session.on_sas_compared(now, check),
            MediaCommand::Close => {
                self.is_answered = false;
                self.session.close(now, out);
            }
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.session.on_timeout(now, out);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let levels = Deadline { at: self.levels_due, reason: "levels and figures of a call" };
        self.session.next_deadline().filter(|session| session.at < levels.at).or(Some(levels))
    }

    fn poll_report(&mut self, now: Instant) -> Option<CallMediaEvent> {
        if let Some(event) = self.session.poll_event() {
            return Some(CallMediaEvent::Session(event));
        }
        if let Some(error) = self.not_sent.take() {
            return Some(CallMediaEvent::DigitNotSent(error));
        }
        if let Some(is_silent) = self.is_silent.take() {
            return Some(CallMediaEvent::Silent(is_silent));
        }
        // Before anything is agreed on there is nothing to measure.
        let is_negotiated = self.is_negotiated();
        if now >= self.levels_due {
            self.levels_due = now + LEVELS_EVERY;
            if is_negotiated {
                let (sent_db, received_db) = (self.levels.0.dbfs(), self.levels.1.dbfs());
                return Some(CallMediaEvent::Levels(Levels { sent_db, received_db }));
            }
        }
        if now >= self.report_due {
            self.report_due = now + REPORT_EVERY;
            if is_negotiated {
                return Some(CallMediaEvent::Report(self.measure()));
            }
        }
        None
    }
}

const LEVELS_EVERY: Duration = Duration::from_millis(100);
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Reports when no packet of an answered call arrives although the peer may send. One packet is enough: a peer with silence
/// suppression or comfort noise (RFC 3389) sends no further ones while its user is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SilenceWatch {
    /// The peer need not send: the call is not answered, one side holds it, or there are no keys yet.
    #[default]
    Idle,
    /// The peer may send since this time.
    Waiting(Instant),
    /// No packet has arrived since this time, and that was reported.
    Silent(Instant),
    /// A packet has arrived.
    Heard,
}

impl SilenceWatch {
    /// Takes the present state: `is_due` if the peer may send, and the arrival of its last packet. Returns true when the
    /// silence is to be reported, false when it has ended after that.
    pub(crate) fn check(&mut self, now: Instant, is_due: bool, last_packet: Option<Instant>) -> Option<bool> {
        let has_come = |since: Instant| last_packet.is_some_and(|at| at >= since);
        match *self {
            Self::Waiting(since) if has_come(since) => *self = Self::Heard,
            Self::Silent(since) if has_come(since) => {
                *self = Self::Heard;
                return Some(false);
            }
            Self::Idle if is_due => *self = Self::Waiting(now),
            Self::Waiting(_) if !is_due => *self = Self::Idle,
            Self::Waiting(since) if now.since(since) >= SILENCE => {
                *self = Self::Silent(since);
                return Some(true);
            }
            Self::Idle | Self::Waiting(_) | Self::Silent(_) | Self::Heard => {}
        }
        None
    }
}

/// Time without a packet after which the silence is reported.
const SILENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
#[path = "call_media_tests.rs"]
mod tests;
