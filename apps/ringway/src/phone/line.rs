//! A call's sound: a media session with a source and a sink, at a pair of ports, on a thread of its own.

mod stream;

use crate::failure::Failure;
use crate::phone::audio::Audio;
use crate::phone::outcome::{Heard, Received, Sent};
use crate::phone::settings::{MediaSettings, Recording, Wish};
use ringway_agent::Role;
use ringway_audio::pulse::AudioEvent;
use ringway_audio::{CallSound, Levels, Sink, WavRecorder};
use ringway_linux::Clock;
use ringway_linux::media::{MediaConfig, MediaPorts, MediaThread, Priority};
use ringway_media::session::{MediaEvent, MediaSession, PortRow, Report, SessionConfig, ZrtpSettings};
use ringway_phone::Protection;
use ringway_sansio::{Entropy, Seed};
use ringway_sdp::{LocalMedia, MediaParams, SecurityPolicy};
use ringway_srtp::SrtpSettings;
use ringway_zrtp::{Retained, SasCheck, Zid, ZidCache, ZrtpConfig};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use stream::{Ask, Stream};

/// A call's sound, from outside its thread.
pub(crate) struct Line {
    media: MediaThread<Stream>,
    levels: Levels,
    /// Events of its sound card.
    card: Option<Receiver<AudioEvent>>,
    digits: String,
    security: Protection,
    codec: Option<&'static str>,
    /// Where our RTP is received.
    rtp: SocketAddr,
    /// What was told before anybody asked.
    untold: VecDeque<Told>,
    /// Commands that found no room.
    unasked: VecDeque<Ask>,
}

/// Whether the other side hears us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mute {
    /// It hears silence.
    On,
    Off,
}

/// What a call's sound tells.
#[derive(Debug)]
pub(crate) enum Told {
    /// What protects it now.
    Secured(Protection),
    /// What was to protect it did not come about; why, for a person. Nothing is sent or heard.
    SecurityFailed(String),
    /// The other side pressed a key.
    Digit(char),
    /// A key of ours was not sent; why, for a person.
    DigitNotSent(String),
    /// How our port looks from outside.
    Mapped { local: SocketAddr, mapped: SocketAddr },
    /// The STUN server did not say; why, for a person.
    NotMapped(String),
    /// The sound card's state changed, or its figures after the call; for a person.
    Audio(String),
    /// To be remembered of the other phone.
    Retain(Retained),
    /// To be forgotten.
    Forget(Zid),
    /// How it is, once a second.
    Figures(Box<Report>),
}

impl Line {
    /// Binds ports at `ip` and begins; until there are parameters nothing is sent or heard. With it comes what is to be
    /// offered.
    pub(crate) fn open(
        settings: &MediaSettings,
        role: Role,
        ip: IpAddr,
        stun: Option<SocketAddr>,
        seed: Seed,
        clock: Clock,
    ) -> Result<(Self, LocalMedia), Failure> {
        let ports =
            MediaPorts::bind(ip, settings.ports).map_err(|error| Failure::failed(error.to_string()))?;
        let rtp = ports.rtp_address();
        let rtcp_port = rtp.port() + 1;
        let now = clock.now();
        let known = || settings.zrtp.clone().unwrap_or_else(|| zrtp(&seed));
        let zrtp = settings.wants_zrtp().then(known);
        let config = SessionConfig {
            stun_server: stun,
            port_row: PortRow::of(settings.port_row),
            srtp: SrtpSettings { window_packets: settings.replay_window.into(), ..SrtpSettings::default() },
            zrtp,
            ..SessionConfig::default()
        };
        let session = MediaSession::new(config, seed.part(SESSION), now);
        let policy = policy(settings, role, session.zrtp_hello_hash())?;
        let levels = Levels::default();
        let (card, events) = settings.audio.as_ref().map(Audio::open).transpose()?.unzip();
        let sound = CallSound::new(settings.input.clone(), sink(&settings.record)?, card);
        let stream = Stream::new(session, sound, levels.clone(), now);
        let media = MediaThread::start(ports, stream, clock, MediaConfig::default())
            .map_err(|error| Failure::failed(format!("cannot start the media thread: {error}")))?;
        let mut line = Self {
            media,
            levels,
            card: events,
            digits: String::new(),
            security: Protection::None,
            codec: None,
            rtp,
            untold: VecDeque::new(),
            unasked: VecDeque::new(),
        };
        let mut local = LocalMedia {
            rtp,
            rtcp_port,
            codecs: settings.codecs.clone(),
            ptime_ms: 20,
            telephone_event: true,
            policy,
            rtcp_mux: false,
        };
        if stun.is_some()
            && let Some((rtp, rtcp)) = line.mapped()
        {
            local.seen_as(rtp, rtcp);
        }
        Ok((line, local))
    }

    /// The sound is like this from now on.
    pub(crate) fn set_params(&mut self, params: MediaParams) {
        self.codec = Some(params.codec.name());
        self.ask(Ask::Params(Box::new(params)));
    }

    /// It rings at the other side: the ringback tone is played until something is heard from there.
    pub(crate) fn ring_there(&mut self) {
        self.ask(Ask::RingThere);
    }

    /// The call is answered: the microphone is on from now on.
    pub(crate) fn answered(&mut self) {
        self.ask(Ask::Answered);
    }

    /// The call was given up or hung up: the other side hears no more of us.
    pub(crate) fn given_up(&mut self) {
        self.ask(Ask::GivenUp);
    }

    /// Presses a key.
    pub(crate) fn dtmf(&mut self, digit: char) {
        self.ask(Ask::Digit(digit));
    }

    /// Sends silence, or our sound.
    pub(crate) fn mute(&mut self, mute: Mute) {
        self.ask(Ask::Mute(mute));
    }

    /// People have compared what ZRTP gave them.
    pub(crate) fn sas_compared(&mut self, check: SasCheck) {
        self.ask(Ask::Compared(check));
    }

    /// Where RTP is received.
    pub(crate) fn rtp_address(&self) -> SocketAddr {
        self.rtp
    }

    /// How the system lets the thread run that sends.
    pub(crate) fn priority(&self) -> Priority {
        self.media.priority()
    }

    /// How loud it is, both ways.
    pub(crate) fn levels(&self) -> &Levels {
        &self.levels
    }

    /// The next thing that its sound tells.
    pub(crate) fn poll(&mut self) -> Option<Told> {
        while let Some(ask) = self.unasked.pop_front() {
            if let Err(ask) = self.media.command(ask) {
                self.unasked.push_front(ask);
                break;
            }
        }
        if let Some(told) = self.untold.pop_front() {
            return Some(told);
        }
        if let Some(event) = self.card.as_ref().and_then(|events| events.try_recv().ok()) {
            return Some(Told::Audio(event.to_string()));
        }
        while let Some(heard) = self.media.poll() {
            match heard {
                stream::Heard::Figures(report) => return Some(Told::Figures(Box::new(report))),
                stream::Heard::DigitNotSent(why) => return Some(Told::DigitNotSent(why.to_string())),
                stream::Heard::Event(event) => {
                    if let Some(told) = self.told(event) {
                        return Some(told);
                    }
                }
            }
        }
        None
    }

    /// Ends it: what was heard, with the recording closed, and what it told last, which may have to be remembered.
    pub(crate) fn close(mut self) -> Result<(Heard, Vec<Told>), Failure> {
        self.ask(Ask::Leave);
        let mut last: Vec<Told> = std::iter::from_fn(|| self.poll()).collect();
        let (priority, tally) = (self.media.priority(), self.media.tally());
        let stream = self.media.stop().ok_or_else(|| Failure::failed("the media thread ended by itself"))?;
        last.extend(std::iter::from_fn(|| self.poll()));
        let (report, sound) = stream.into_parts();
        last.extend(sound.card_summary().map(Told::Audio));
        let kept = match sound.into_sink() {
            Sink::Memory(kept) => kept,
            other => {
                let finished = other.finish();
                finished.map_err(|error| Failure::failed(format!("--record: {error}; free some space")))?;
                Vec::new()
            }
        };
        let heard = Heard {
            security: self.security,
            codec: self.codec,
            sent: Sent { packets: report.sent.packets, kbit_s: report.sent.kbit_s },
            received: received(&report, self.digits),
            priority,
            counts: tally.counts(),
            kept,
        };
        Ok((heard, last))
    }

    /// How our ports look from outside, that of RTCP with them, when the STUN server says so in time.
    fn mapped(&mut self) -> Option<(SocketAddr, Option<SocketAddr>)> {
        let end = Instant::now() + STUN_WITHIN;
        let mut mapped = None;
        while Instant::now() < end && !matches!(mapped, Some((_, Some(_)))) {
            match self.media.poll() {
                Some(stream::Heard::Event(MediaEvent::StunMapped { rtp, rtcp })) => {
                    mapped = Some((rtp, rtcp))
                }
                Some(stream::Heard::Event(MediaEvent::StunFailed(why))) => {
                    self.untold.push_back(Told::NotMapped(why.to_string()));
                    return None;
                }
                Some(_) => {}
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        self.untold.push_back(match mapped {
            Some((mapped, _)) => Told::Mapped { local: self.rtp, mapped },
            None => Told::NotMapped("the STUN server does not answer".to_owned()),
        });
        mapped
    }

    fn told(&mut self, event: MediaEvent) -> Option<Told> {
        match event {
            MediaEvent::Digit(digit) => {
                if self.digits.len() < DIGITS_MAX {
                    self.digits.push(digit);
                }
                Some(Told::Digit(digit))
            }
            MediaEvent::Secured { suite, sas } => {
                self.security = Protection::new(suite, sas);
                Some(Told::Secured(self.security.clone()))
            }
            MediaEvent::Unprotected => {
                self.security = Protection::None;
                Some(Told::Secured(Protection::None))
            }
            MediaEvent::SecurityFailed(why) => Some(Told::SecurityFailed(why.to_string())),
            MediaEvent::PeerNotZrtp => Some(Told::SecurityFailed(
                "ZRTP: the other phone does not answer it, so the call cannot be protected".to_owned(),
            )),
            MediaEvent::StunMapped { rtp, .. } => Some(Told::Mapped { local: self.rtp, mapped: rtp }),
            MediaEvent::StunFailed(why) => Some(Told::NotMapped(why.to_string())),
            MediaEvent::Retain(retained) => Some(Told::Retain(retained)),
            MediaEvent::Forget(zid) => Some(Told::Forget(zid)),
            MediaEvent::LatchedTo(_) | MediaEvent::PeerLeft => None,
        }
    }

    /// In order, also when the thread is busy.
    fn ask(&mut self, ask: Ask) {
        self.unasked.push_back(ask);
        while let Some(ask) = self.unasked.pop_front() {
            if let Err(ask) = self.media.command(ask) {
                return self.unasked.push_front(ask);
            }
        }
    }
}

impl MediaSettings {
    fn wants_zrtp(&self) -> bool {
        matches!(self.protection, Wish::Opportunistic | Wish::Zrtp)
    }
}

/// What protects the sound, as SDP negotiates it.
fn policy(
    settings: &MediaSettings,
    role: Role,
    hello_hash: Option<[u8; 32]>,
) -> Result<SecurityPolicy, Failure> {
    let suites = settings.suites_for(role);
    Ok(match settings.protection {
        Wish::None => SecurityPolicy::None,
        Wish::Sdes => SecurityPolicy::Sdes { suites },
        Wish::Opportunistic => SecurityPolicy::Opportunistic { suites, hello_hash },
        Wish::Zrtp => {
            let hello_hash =
                hello_hash.ok_or_else(|| Failure::failed("ZRTP cannot be started; use --srtp sdes"))?;
            SecurityPolicy::Zrtp { hello_hash }
        }
    })
}

/// An identity for this call: without a memory there is none to keep.
fn zrtp(seed: &Seed) -> ZrtpSettings {
    let zid: Zid = Entropy::new(&seed.part(ZRTP_IDENTITY)).bytes();
    ZrtpSettings {
        config: ZrtpConfig { cache_interval_s: 0, ..ZrtpConfig::new(zid) },
        cache: ZidCache::default(),
    }
}

fn sink(record: &Recording) -> Result<Sink, Failure> {
    match record {
        Recording::Nowhere => Ok(Sink::Null),
        Recording::Memory(samples) => Ok(Sink::memory(*samples)),
        Recording::File(path) => WavRecorder::create(path).map(Sink::Wav).map_err(|error| {
            Failure::failed(format!("--record {}: {error}; give a file that can be written", path.display()))
        }),
    }
}

fn received(report: &Report, dtmf: String) -> Received {
    let heard = &report.received;
    Received {
        packets: heard.counts.received,
        lost: heard.counts.lost(),
        reordered: heard.counts.reordered,
        duplicates: heard.counts.duplicates,
        max_delta_ms: heard.delta_max_ms,
        mean_delta_ms: heard.delta_mean_ms,
        p999_delta_ms: heard.delta_p999_ms,
        max_jitter_ms: heard.jitter_max_ms,
        mean_jitter_ms: heard.jitter_mean_ms,
        mean_difference_ms: heard.difference_mean_ms,
        max_skew_ms: heard.skew_max_ms,
        drift_ppm: heard.drift_ppm,
        kbit_s: heard.kbit_s,
        auth_failures: report.refused.auth_failures,
        replays: report.refused.replays,
        strangers: report.refused.strangers,
        early: report.refused.early,
        after_end: report.refused.after_end,
        concealed: report.sound.concealed_samples / BLOCK_SAMPLES,
        mos: report.mos,
        dtmf,
    }
}

/// Parts of a call's seed.
const SESSION: u64 = 1;
const ZRTP_IDENTITY: u64 = 2;

/// How long a call waits for the STUN server.
const STUN_WITHIN: Duration = Duration::from_secs(3);

/// Keys of the other side that are kept.
const DIGITS_MAX: usize = 256;

const BLOCK_SAMPLES: u64 = 160;
