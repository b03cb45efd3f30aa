//! A media session with its sound, as the station keeps its beat.

use super::Headset;
use super::source::{Source, level};
use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use ringway_media::session::{DigitsError, MediaEvent, MediaSession, RTP_PORT, Report};
use ringway_sansio::{Deadline, Flow, Instant, Outbox, PacedNode, Token};
use ringway_sdp::MediaParams;
use ringway_zrtp::SasCheck;

/// What is asked of a call's sound.
#[derive(Debug)]
pub(crate) enum Ask {
    /// From now on it is like this.
    Params(Box<MediaParams>),
    /// It rings there, or no more: the loudspeaker says so as long as nothing is heard from there.
    RingThere(bool),
    /// We hold the call, or no more: while we do, the other side hears nothing of us.
    Hold(bool),
    /// Send silence, or no longer.
    Mute(bool),
    /// Press a key.
    Digit(char),
    /// People have compared what ZRTP gave them.
    Compared(SasCheck),
    /// Say goodbye: the call is over.
    Leave,
}

/// What a call's sound tells.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened.
    Event(Box<MediaEvent>),
    /// A key was not sent.
    DigitNotSent(DigitsError),
}

pub(crate) struct Stream {
    session: MediaSession,
    source: Source,
    headset: Option<Headset>,
    rings_there: bool,
    is_held: bool,
    is_muted: bool,
    /// How loud the last blocks were: ours, and the other side's.
    levels: (u16, u16),
    /// Why a key was not sent, to be told.
    not_sent: Option<DigitsError>,
    second: Second,
}

/// The mean time between packets of the last whole second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    began: Instant,
    /// Packets, and the sum of the times between them in milliseconds, when it began.
    before: (u64, f64),
    mean_ms: f64,
}

impl Stream {
    /// With a headset what is heard is played, and its microphone may be the source.
    pub(crate) fn new(
        session: MediaSession,
        source: Source,
        mut headset: Option<Headset>,
        now: Instant,
    ) -> Self {
        if let Some(headset) = &mut headset {
            headset.start();
        }
        let second = Second { began: now, ..Second::default() };
        let (rings_there, is_held, is_muted) = (false, false, false);
        Self {
            session,
            source,
            headset,
            rings_there,
            is_held,
            is_muted,
            levels: (0, 0),
            not_sent: None,
            second,
        }
    }

    /// Gives the headset back.
    pub(crate) fn into_headset(self) -> Option<Headset> {
        self.headset
    }

    /// Loudspeaker and microphone.
    pub(crate) const fn headset(&self) -> Option<&Headset> {
        self.headset.as_ref()
    }

    /// How the call was for the headset, in words; `None`: there is none.
    pub(crate) fn headset_summary(&self) -> Option<String> {
        self.headset.as_ref().map(Headset::summary)
    }

    /// How it is.
    pub(crate) fn report(&self) -> Report {
        self.session.report()
    }

    /// The parameters in force.
    pub(crate) const fn params(&self) -> Option<&MediaParams> {
        self.session.params()
    }

    /// How loud it is: ours, and the other side's (0 to 32,768).
    pub(crate) const fn levels(&self) -> (u16, u16) {
        self.levels
    }

    /// The mean time between packets of the last second, in milliseconds.
    pub(crate) const fn delta_ms(&self) -> f64 {
        self.second.mean_ms
    }
}

impl Second {
    fn note(&mut self, now: Instant, report: &Report) {
        let packets = report.received.counts.received.saturating_sub(1);
        let sum_ms = report.received.delta_mean_ms * packets as f64;
        let fresh = packets.saturating_sub(self.before.0);
        self.mean_ms = if fresh > 0 { (sum_ms - self.before.1) / fresh as f64 } else { 0.0 };
        (self.began, self.before) = (now, (packets, sum_ms));
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
        self.levels.1 = level(block);
        if let Some(headset) = &mut self.headset {
            // RFC 3960 §3.2: a description of early sound is no sound yet.
            if self.rings_there && self.session.report().received.counts.received == 0 {
                headset.fill_ringback(block);
            }
            headset.play(block);
        }
        // A recording is not read while nobody hears it. A microphone is, or what it recorded meanwhile would be sent later.
        let is_heard = !self.is_held && self.session.is_sending();
        match (&mut self.source, &mut self.headset) {
            (Source::Microphone, Some(headset)) => headset.capture(block),
            (source, _) if is_heard => source.fill(block),
            (_, _) => {}
        }
        if !is_heard {
            block.fill(0);
        }
        if self.is_muted {
            block.fill(0);
        }
        self.levels.0 = level(block);
        if let Some((packet, to)) = self.session.prepare(due, block) {
            out.send(Flow::udp(RTP_PORT, to), Token::NONE, packet);
        }
        if now.since(self.second.began) >= SECOND {
            self.second.note(now, &self.session.report());
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
            Ask::Params(params) => self.session.set_params(now, *params),
            Ask::RingThere(rings) => self.rings_there = rings,
            Ask::Hold(holds) => self.is_held = holds,
            Ask::Mute(mutes) => self.is_muted = mutes,
            Ask::Digit(digit) => {
                if let Err(why) = self.session.send_digits(digit.encode_utf8(&mut [0; 4])) {
                    self.not_sent = Some(why);
                }
            }
            Ask::Compared(check) => self.session.on_sas_compared(now, check),
            Ask::Leave => self.session.close(now, out),
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.session.on_timeout(now, out);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.session.next_deadline()
    }

    fn poll_report(&mut self, _now: Instant) -> Option<Heard> {
        if let Some(event) = self.session.poll_event() {
            return Some(Heard::Event(Box::new(event)));
        }
        self.not_sent.take().map(Heard::DigitNotSent)
    }
}

const SECOND: Duration = Duration::from_secs(1);
