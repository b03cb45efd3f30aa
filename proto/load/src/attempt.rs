//! One attempt: its step, its dialog, its times, and the values of the keywords in its messages.

use crate::authentication::Answerable;
use crate::session::{Own, Session};
use crate::template::Keyword;
use crate::{Config, MediaUse, Outcome, Report, Scenario, Step};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Seed, TimerKey};
use ringway_sip::{HeaderName, Limits, Message, Method, NameAddr, read_hex, write_hex, write_number};
use ringway_transaction::{ClientId, ServerId, SlabKey};

/// Maximum length of a received message that is kept.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 10;

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
    /// True if `last` is a challenge that the next request answers.
    pub(crate) is_challenged: bool,
    /// Number of requests so far.
    pub(crate) cseq: u32,
    /// Flow to the server or, of a callee, from it.
    pub(crate) flow: Flow,
    pub(crate) client: Option<ClientId>,
    pub(crate) server: Option<ServerId>,
    pub(crate) invite: Invite,
    /// Keyed hash of the Call-ID of a callee's attempt.
    pub(crate) call_id_hash: Option<u64>,
    /// Last message, if a later one needs it.
    pub(crate) last: Vec<u8>,
    pub(crate) dialog: Option<Box<Dialog>>,
    /// Media, once the peer's description is received.
    pub(crate) session: Option<Box<Session>>,
    /// Pause, or the limit of a wait.
    pub(crate) timer: TimerKey,
    /// Sent 2xx to an INVITE until its ACK.
    pub(crate) unacknowledged: Option<Box<Unacknowledged>>,
    /// Sent ACK of a 2xx.
    pub(crate) ack: Vec<u8>,
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

/// Values that later requests of the dialog need.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    next_url: Vec<u8>,
    /// Value of a Route header.
    routes: Vec<u8>,
    /// `;tag=…`.
    peer_tag: Vec<u8>,
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
}

impl Times {
    pub(crate) const fn new(planned: Instant, started: Instant) -> Self {
        Self { planned, started, first_response: None, final_response: None, bye: None, disconnect: None }
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
            cseq: 0,
            flow,
            client: None,
            server: None,
            invite: Invite::None,
            call_id_hash: None,
            last: Vec::new(),
            dialog: None,
            session: None,
            timer: TimerKey::NONE,
            unacknowledged: None,
            ack: Vec::new(),
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
        }
    }

    /// Our half of the media.
    pub(crate) const fn own_media<'a>(&self, seed: &'a Seed, run: u64) -> Own<'a> {
        Own { seed, run, call: self.number }
    }

    /// Keeps a message for `[last_…]` and `[authentication]`. False: it is too long.
    pub(crate) fn keep_last(&mut self, message: &Message<'_>) -> bool {
        self.last.clear();
        if message.as_bytes().len() > MESSAGE_BYTES_MAX {
            return false;
        }
        self.last.extend_from_slice(message.as_bytes());
        true
    }

    /// Keeps the values that later requests of the dialog need (RFC 3261 §12.1).
    pub(crate) fn keep_dialog(&mut self, message: &Message<'_>) {
        let dialog = self.dialog.get_or_insert_default();
        let peer = if message.is_response() { message.to() } else { message.from() };
        if let Some(tag) = peer.tag() {
            dialog.peer_tag.clear();
            dialog.peer_tag.extend_from_slice(b";tag=");
            dialog.peer_tag.extend_from_slice(tag);
        }
        if let Some(Ok(contact)) = message.values(HeaderName::Contact).next().map(NameAddr::parse) {
            dialog.next_url.clear();
            dialog.next_url.extend_from_slice(contact.uri.as_bytes());
        }
        dialog.routes.clear();
        let mut add = |value: &[u8]| {
            if !dialog.routes.is_empty() {
                dialog.routes.extend_from_slice(b", ");
            }
            dialog.routes.extend_from_slice(value);
        };
        if message.is_response() {
            let routes: Vec<&[u8]> = message.values(HeaderName::RecordRoute).take(ROUTES_MAX).collect();
            routes.into_iter().rev().for_each(&mut add);
        } else {
            message.values(HeaderName::RecordRoute).take(ROUTES_MAX).for_each(&mut add);
        }
    }

    /// True if `[next_url]` has a value.
    pub(crate) fn has_next_url(&self) -> bool {
        self.dialog.as_ref().is_some_and(|dialog| !dialog.next_url.is_empty())
    }

    /// True if the last request has `[authentication]` and was not challenged before.
    pub(crate) fn answers_challenges(&self, scenario: &Scenario) -> bool {
        self.retried_step != Some(self.request_step)
            && match scenario.steps().get(self.request_step) {
                Some(Step::Send(send)) => send.template.has(|word| *word == Keyword::Authentication),
                Some(Step::Receive(_) | Step::Pause(_)) | None => false,
            }
    }

    /// Flow of a request to `[next_url]`: to the peer itself if no route leads through the server.
    pub(crate) fn dialog_flow(&self) -> Flow {
        let direct = self.dialog.as_ref().filter(|dialog| dialog.routes.is_empty()).and_then(|dialog| {
            let uri = ringway_sip::Uri::parse(&dialog.next_url).ok()?;
            let port = uri.port().unwrap_or(self.flow.transport.default_port());
            Some(SocketAddr::new(uri.host().ip()?, port))
        });
        match direct {
            Some(remote) => Flow { remote: Flow::canonical(remote), connection: None, ..self.flow },
            None => self.flow,
        }
    }
}

/// Maximum number of Record-Route values of a dialog.
const ROUTES_MAX: usize = 16;

/// Values of the keywords in one message.
pub(crate) struct Filling<'a> {
    pub(crate) config: &'a Config,
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
        let local = config.locals.get(usize::from(attempt.flow.listener.0)).copied().unwrap_or(config.media);
        match keyword {
            Keyword::User => config.users.write_name(attempt.user, out),
            Keyword::Peer => config.peers.write_name(attempt.user, out),
            Keyword::Domain => out.extend_from_slice(config.domain.as_bytes()),
            Keyword::RemoteIp => write_ip(config.remote, out),
            Keyword::RemotePort => write_number(out, u64::from(config.remote.port())),
            Keyword::Transport => out.extend_from_slice(config.transport.via_token().as_bytes()),
            Keyword::LocalIp => write_ip(local, out),
            Keyword::LocalPort => write_number(out, u64::from(local.port())),
            Keyword::IpType => out.push(if local.is_ipv4() { b'4' } else { b'6' }),
            Keyword::MediaIp => write_bare_ip(config.media, out),
            Keyword::MediaPort => write_number(out, u64::from(config.media.port())),
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
                write_ip(local, out);
            }
            Keyword::CallNumber => write_number(out, attempt.number),
            Keyword::UserCallId => {
                config.users.write_name(attempt.user, out);
                out.push(b'-');
                write_hex(out, self.run, 16);
            }
            Keyword::CSeq => write_number(out, u64::from(attempt.cseq)),
            Keyword::UserCSeq => write_number(out, u64::from(self.user_cseq)),
            Keyword::Run => write_hex(out, self.run, 8),
            // Template::write writes it.
            Keyword::Length => {}
            Keyword::PeerTag => {
                out.extend_from_slice(attempt.dialog.as_ref().map_or(&[], |dialog| &dialog.peer_tag));
            }
            Keyword::Routes => {
                if let Some(dialog) = attempt.dialog.as_ref().filter(|dialog| !dialog.routes.is_empty()) {
                    out.extend_from_slice(b"Route: ");
                    out.extend_from_slice(&dialog.routes);
                }
            }
            Keyword::NextUrl => {
                out.extend_from_slice(attempt.dialog.as_ref().map_or(&[], |dialog| &dialog.next_url));
            }
            Keyword::Authentication => self.authenticate(start, out),
            Keyword::Last(name) => self.copy_last(name, out),
        }
    }

    fn authenticate(&self, start: usize, out: &mut Vec<u8>) {
        if !self.attempt.is_challenged {
            return;
        }
        let Ok(last) = Message::parse(&self.attempt.last, &Limits::default()) else { return };
        let Some(challenge) = Answerable::of(&last) else { return };
        let line = out.get(start..).and_then(|message| message.split(|&byte| byte == b'\r').next());
        let line = line.unwrap_or_default().to_vec();
        challenge.write(&self.config.users, self.attempt.user, &line, self.random, out);
    }

    fn copy_last(&self, name: &str, out: &mut Vec<u8>) {
        let Ok(last) = Message::parse(&self.attempt.last, &Limits::default()) else { return };
        let mut is_first = true;
        for field in last.iter().filter(|field| field.name.eq_ignore_ascii_case(name.as_bytes())) {
            if !is_first {
                out.extend_from_slice(b"\r\n");
            }
            is_first = false;
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(field.value);
        }
    }
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
