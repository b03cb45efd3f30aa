//! One attempt: its step, its dialog, its times, its result, and the values of the keywords in its messages.

use crate::authentication::Challenge;
use crate::kept::{Dialog, LastHeaders, MESSAGE_BYTES_MAX};
use crate::outcome::Outcome;
use crate::script::{Values, Variable, write_sum};
use crate::session::{Own, Session};
use crate::template::Keyword;
use crate::{Config, MediaUse, Scenario, Step};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Seed, TimerKey};
use ringway_sip::{Message, Method, read_hex, write_hex, write_number};
use ringway_transaction::{ClientId, ServerId, SlabKey};

/// One pass through the scenario.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Number of the attempt, from 1 on.
    pub(crate) number: u64,
    /// Index of the user.
    pub(crate) user: u32,
    pub(crate) step: usize,
    /// Step that sent the last request.
    pub(crate) request_step: usize,
    /// Request that was sent again with credentials.
    pub(crate) retried_step: Option<usize>,
    /// True if the next request answers a challenge.
    pub(crate) is_challenged: bool,
    /// Challenge that can be answered.
    pub(crate) challenge: Option<Box<Challenge>>,
    /// Number of requests so far.
    pub(crate) cseq: u32,
    /// Flow to the server or, of a callee, from it.
    pub(crate) flow: Flow,
    pub(crate) client: Option<ClientId>,
    pub(crate) server: Option<ServerId>,
    pub(crate) invite: Invite,
    /// Keyed hash of the Call-ID of a callee's attempt.
    pub(crate) call_id_hash: Option<u64>,
    /// Header fields of the last message that a later one needs.
    pub(crate) last: LastHeaders,
    pub(crate) dialog: Option<Box<Dialog>>,
    /// Media, once the peer's description is received.
    pub(crate) session: Option<Box<Session>>,
    /// Pause, or the limit of a wait.
    pub(crate) timer: TimerKey,
    /// Sent 2xx to an INVITE until its ACK.
    pub(crate) unacknowledged: Option<Box<Unacknowledged>>,
    /// Sent ACK of a 2xx.
    pub(crate) ack: Vec<u8>,
    /// Values of the scenario's variables.
    pub(crate) values: Values,
    pub(crate) times: Times,
}

/// State of the last INVITE of an attempt, sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invite {
    None,
    Pending,
    Accepted,
    Refused,
}

/// 2xx that is retransmitted until its ACK (RFC 3261 §13.3.1.4).
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) flow: Flow,
    pub(crate) bytes: Vec<u8>,
    pub(crate) interval: Duration,
    pub(crate) until: Instant,
    pub(crate) timer: TimerKey,
}

/// Times of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) planned: Instant,
    pub(crate) started: Instant,
    pub(crate) first_response: Option<Duration>,
    pub(crate) final_response: Option<Duration>,
    /// Time of the BYE.
    pub(crate) bye: Option<Instant>,
    pub(crate) disconnect: Option<Duration>,
    /// Start of the current pause.
    pub(crate) pause: Option<Instant>,
    /// First provisional response other than 100, until the final one.
    ringing: Option<Instant>,
    /// Sum of the pauses and of the ring time.
    paused: Duration,
}

impl Times {
    pub(crate) const fn new(planned: Instant, started: Instant) -> Self {
        Self {
            planned,
            started,
            first_response: None,
            final_response: None,
            bye: None,
            disconnect: None,
            pause: None,
            ringing: None,
            paused: Duration::ZERO,
        }
    }
}

impl Attempt {
    pub(crate) fn new(number: u64, user: u32, flow: Flow, times: Times) -> Self {
        Self {
            number,
            user,
            step: 0,
            request_step: 0,
            retried_step: None,
            is_challenged: false,
            challenge: None,
            cseq: 0,
            flow,
            client: None,
            server: None,
            invite: Invite::None,
            call_id_hash: None,
            last: LastHeaders::default(),
            dialog: None,
            session: None,
            timer: TimerKey::NONE,
            unacknowledged: None,
            ack: Vec::new(),
            values: Values::default(),
            times,
        }
    }

    /// Notes a final response that is no challenge.
    pub(crate) fn note_final(&mut self, now: Instant, method: Method<'_>) {
        match self.times.bye {
            Some(bye) if method == Method::Bye => self.times.disconnect = Some(now.since(bye)),
            Some(_) | None => {
                self.times.final_response.get_or_insert(now.since(self.times.started));
            }
        }
    }

    /// Notes the end of a pause of the scenario.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        if let Some(start) = self.times.pause.take() {
            self.times.paused += now.since(start);
        }
    }

    /// Notes a response that begins or ends the ring time.
    pub(crate) fn note_ringing(&mut self, now: Instant, status: u16) {
        match status {
            101..200 => drop(self.times.ringing.get_or_insert(now)),
            200.. => {
                if let Some(start) = self.times.ringing.take() {
                    self.times.paused += now.since(start);
                }
            }
            _ => {}
        }
    }

    /// Notes the final response to an INVITE.
    pub(crate) fn note_invite_final(&mut self, status: u16) {
        self.invite = if status < 300 { Invite::Accepted } else { Invite::Refused };
    }

    /// Result of the attempt at `ended`.
    pub(crate) const fn report(&self, ended: Instant, outcome: Outcome) -> Report {
        Report {
            planned: self.times.planned,
            started: self.times.started,
            ended,
            outcome,
            first_response: self.times.first_response,
            final_response: self.times.final_response,
            disconnect: self.times.disconnect,
            paused: self.times.paused,
        }
    }

    /// Our half of the media.
    pub(crate) const fn own_media<'a>(&self, seed: &'a Seed, run: u64) -> Own<'a> {
        Own { seed, run, call: self.number }
    }

    /// Keeps what the messages after `step`, which received `message`, need. False: the message is too long.
    pub(crate) fn keep(&mut self, scenario: &Scenario, step: usize, message: &Message<'_>) -> bool {
        if message.as_bytes().len() > MESSAGE_BYTES_MAX {
            return false;
        }
        if scenario.needs_dialog_after(step) {
            self.dialog.get_or_insert_default().keep(message);
        }
        scenario.kept_after(step).is_empty() || self.last.keep(scenario, step, message)
    }

    /// True if `[next_url]` has a value.
    pub(crate) fn has_next_url(&self) -> bool {
        self.dialog.as_ref().is_some_and(|dialog| !dialog.next_url().is_empty())
    }

    /// True if the last request has `[authentication]` and was not challenged before.
    pub(crate) fn answers_challenges(&self, scenario: &Scenario) -> bool {
        self.retried_step != Some(self.request_step)
            && match scenario.steps().get(self.request_step) {
                Some(Step::Send(send)) => send.template.uses.authentication,
                Some(Step::Receive(_) | Step::Pause(_) | Step::Nop) | None => false,
            }
    }

    /// Flow of a request to `[next_url]`: to the peer itself if no route and no outbound proxy leads through the server.
    pub(crate) fn dialog_flow(&self, config: &Config) -> Flow {
        let is_direct = |dialog: &&Dialog| dialog.routes().is_empty() && !config.is_outbound_proxy;
        let direct = self.dialog.as_deref().filter(is_direct).and_then(|dialog| {
            let uri = ringway_sip::Uri::parse(dialog.next_url()).ok()?;
            let port = uri.port().unwrap_or(self.flow.transport.default_port());
            Some(SocketAddr::new(uri.host().ip()?, port))
        });
        match direct {
            Some(remote) => Flow { remote: Flow::canonical(remote), connection: None, ..self.flow },
            None => self.flow,
        }
    }
}

/// Values of the keywords in one message.
pub(crate) struct Filling<'a> {
    pub(crate) config: &'a Config,
    pub(crate) locals: &'a [LocalText],
    pub(crate) run: u64,
    pub(crate) key: SlabKey,
    pub(crate) attempt: &'a Attempt,
    pub(crate) user_cseq: u32,
    pub(crate) random: u64,
    pub(crate) media_seed: &'a Seed,
}

impl Filling<'_> {
    /// Appends the value of a keyword. `start` is the position of the message's first line.
    pub(crate) fn fill(&self, keyword: &Keyword, branch: &[u8], start: usize, out: &mut Vec<u8>) {
        let Self { config, attempt, .. } = self;
        match keyword {
            Keyword::User => config.users.write_name(attempt.user, out),
            Keyword::Peer => config.peers.write_name(attempt.user, out),
            Keyword::Domain
            | Keyword::RemoteIp
            | Keyword::RemotePort
            | Keyword::Transport
            | Keyword::IpType
            | Keyword::MediaIp
            | Keyword::MediaPort
            | Keyword::Run => {
                // A value that is empty; the others are in the template (see [`constant`]).
            }
            Keyword::LocalIp => out.extend_from_slice(self.local().0),
            Keyword::LocalPort => out.extend_from_slice(self.local().1),
            Keyword::MediaSsrc => {
                write_number(out, attempt.own_media(self.media_seed, self.run).ssrc().into());
            }
            Keyword::CryptoTag => {
                let tag = attempt.session.as_ref().map_or(1, |session| session.crypto_tag());
                write_number(out, tag.into());
            }
            Keyword::CryptoKey => {
                if let MediaUse::Srtp(suite) = config.media_use {
                    attempt.own_media(self.media_seed, self.run).write_key(suite, out);
                }
            }
            Keyword::Branch => out.extend_from_slice(branch),
            Keyword::CallId => {
                write_call_id(self.key, attempt.number, self.run, out);
                out.push(b'@');
                out.extend_from_slice(self.local().0);
            }
            Keyword::CallNumber => write_number(out, attempt.number),
            Keyword::UserCallId => {
                config.users.write_name(attempt.user, out);
                out.push(b'-');
                write_hex(out, self.run, 16);
            }
            Keyword::CSeq => write_number(out, u64::from(attempt.cseq)),
            Keyword::UserCSeq => write_number(out, u64::from(self.user_cseq)),
            // Template::write writes it.
            Keyword::Length => {}
            Keyword::PeerTag => {
                out.extend_from_slice(attempt.dialog.as_ref().map_or(&[], |dialog| dialog.peer_tag()));
            }
            Keyword::Routes => {
                if let Some(dialog) = attempt.dialog.as_ref().filter(|dialog| !dialog.routes().is_empty()) {
                    out.extend_from_slice(b"Route: ");
                    out.extend_from_slice(dialog.routes());
                }
            }
            Keyword::NextUrl => {
                out.extend_from_slice(attempt.dialog.as_ref().map_or(&[], |dialog| dialog.next_url()));
            }
            Keyword::Authentication => self.authenticate(start, out),
            Keyword::Last(name) => out.extend_from_slice(attempt.last.lines(&config.scenario, name)),
            Keyword::Field(list, field) => {
                let draw = self.run ^ attempt.number.wrapping_mul(DRAW_MULTIPLE);
                config.users.write_field(*list, *field, attempt.user, attempt.number, draw, out);
            }
            Keyword::Variable(index) => attempt.values.write(Variable(*index), out),
            Keyword::Sum(keyword, offset) => {
                let value = written(|value| self.fill(keyword, branch, start, value));
                write_sum(&value, *offset, out);
            }
        }
    }

    /// Text of the local address: host, port.
    fn local(&self) -> (&[u8], &[u8]) {
        let local = self.locals.get(usize::from(self.attempt.flow.listener.0)).or(self.locals.first());
        local.map_or((&[], &[]), |local| (&local.host, &local.port))
    }

    fn authenticate(&self, start: usize, out: &mut Vec<u8>) {
        let challenge = self.attempt.challenge.as_ref().filter(|_| self.attempt.is_challenged);
        let Some(challenge) = challenge.and_then(|challenge| challenge.answerable()) else { return };
        let line = out.get(start..).and_then(|message| message.split(|&byte| byte == b'\r').next());
        let line = line.unwrap_or_default().to_vec();
        challenge.write(&self.config.users, self.attempt.user, &line, self.random, out);
    }
}

/// Odd number that spreads the numbers of attempts (the golden ratio of 2^64).
const DRAW_MULTIPLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Text of a local address as a SIP URI needs it.
#[derive(Debug)]
pub(crate) struct LocalText {
    host: Box<[u8]>,
    port: Box<[u8]>,
}

impl LocalText {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let text = |write: &dyn Fn(&mut Vec<u8>)| written(write).into_boxed_slice();
        Self {
            host: text(&|out| write_ip(address, out)),
            port: text(&|out| write_number(out, u64::from(address.port()))),
        }
    }
}

/// Value of a keyword that is the same in all messages of a generator.
pub(crate) fn constant(config: &Config, run: u64, keyword: &Keyword) -> Option<Vec<u8>> {
    let only_local = config.locals.first().filter(|_| config.locals.len() == 1);
    Some(match keyword {
        Keyword::Domain => config.domain.as_bytes().to_vec(),
        Keyword::RemoteIp => written(|out| write_ip(config.remote, out)),
        Keyword::RemotePort => written(|out| write_number(out, u64::from(config.remote.port()))),
        Keyword::Transport => config.transport.via_token().as_bytes().to_vec(),
        Keyword::LocalIp => {
            let local = *only_local?;
            written(|out| write_ip(local, out))
        }
        Keyword::LocalPort => {
            let port = only_local?.port();
            written(|out| write_number(out, u64::from(port)))
        }
        Keyword::IpType => {
            let local = config.locals.first().unwrap_or(&config.media);
            [if local.is_ipv4() { b'4' } else { b'6' }].to_vec()
        }
        Keyword::MediaIp => written(|out| write_bare_ip(config.media, out)),
        Keyword::MediaPort => written(|out| write_number(out, u64::from(config.media.port()))),
        Keyword::Run => written(|out| write_hex(out, run, 8)),
        Keyword::User
        | Keyword::Peer
        | Keyword::MediaSsrc
        | Keyword::CryptoTag
        | Keyword::CryptoKey
        | Keyword::Branch
        | Keyword::CallId
        | Keyword::CallNumber
        | Keyword::UserCallId
        | Keyword::CSeq
        | Keyword::UserCSeq
        | Keyword::Length
        | Keyword::PeerTag
        | Keyword::Routes
        | Keyword::NextUrl
        | Keyword::Authentication
        | Keyword::Last(_)
        | Keyword::Field(..)
        | Keyword::Variable(_) => return None,
        Keyword::Sum(keyword, offset) => {
            let value = constant(config, run, keyword)?;
            written(|out| write_sum(&value, *offset, out))
        }
    })
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Appends the part of a Call-ID before the `@`: key and number of the attempt, and the run.
fn write_call_id(key: SlabKey, number: u64, run: u64, out: &mut Vec<u8>) {
    write_hex(out, u64::from(key.index) << 16 | u64::from(key.generation), 12);
    out.push(b'-');
    write_hex(out, number, 1);
    out.push(b'-');
    write_hex(out, run, 16);
}

/// Key of the attempt of this run that has this Call-ID, and the number of that attempt.
pub(crate) fn read_call_id(call_id: &[u8], run: u64) -> Option<(SlabKey, u64)> {
    let mut parts = call_id.split(|&byte| byte == b'@').next()?.split(|&byte| byte == b'-');
    let (key, number) = (read_hex(parts.next()?)?, read_hex(parts.next()?)?);
    if read_hex(parts.next()?)? != run || parts.next().is_some() {
        return None;
    }
    let key = SlabKey { index: u32::try_from(key >> 16).ok()?, generation: (key & 0xffff) as u32 };
    Some((key, number))
}

/// Appends an address as a SIP URI and a Via need it: IPv6 in brackets.
fn write_ip(address: SocketAddr, out: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(_) => write_bare_ip(address, out),
        SocketAddr::V6(_) => {
            out.push(b'[');
            write_bare_ip(address, out);
            out.push(b']');
        }
    }
}

fn write_bare_ip(address: SocketAddr, out: &mut Vec<u8>) {
    match address {
        SocketAddr::V4(address) => {
            for (index, byte) in address.ip().octets().into_iter().enumerate() {
                if index > 0 {
                    out.push(b'.');
                }
                write_number(out, u64::from(byte));
            }
        }
        SocketAddr::V6(address) => {
            use core::fmt::Write;
            let mut text = alloc::string::String::new();
            // Writing into a string does not fail.
            let _ = write!(text, "{}", address.ip());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// Times and outcome of one attempt. Delays are those of RFC 6076, measured at the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Planned start. For a callee the start.
    pub planned: Instant,
    /// Time of the first send.
    pub started: Instant,
    /// End of the attempt.
    pub ended: Instant,
    /// End of the attempt in words.
    pub outcome: Outcome,
    /// Time from the first send to the first response other than 100 (session request delay).
    pub first_response: Option<Duration>,
    /// Time from the first send to the final response that is no challenge: registration request delay of a
    /// REGISTER, time to the 200 of a call.
    pub final_response: Option<Duration>,
    /// Time from the BYE to its final response (session disconnect delay).
    pub disconnect: Option<Duration>,
    /// Sum of the pauses of the scenario, such as the talk time, and of the ring time: from the first provisional response other
    /// than 100 to the final one. No server shortens it.
    pub paused: Duration,
}

impl Report {
    /// Report of an attempt that sent nothing.
    pub(crate) const fn of_nothing(planned: Instant, now: Instant, outcome: Outcome) -> Self {
        Self {
            planned,
            started: now,
            ended: now,
            outcome,
            first_response: None,
            final_response: None,
            disconnect: None,
            paused: Duration::ZERO,
        }
    }

    /// Time from the planned start to the first send.
    pub fn lag(&self) -> Duration {
        self.started.since(self.planned)
    }
}
