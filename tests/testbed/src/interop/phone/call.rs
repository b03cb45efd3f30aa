//! One call between Ringway's phone, or a substitute, and a peer.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::audio::Recording;
use super::super::certificates::{Authority, Certificate};
use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Stage, Transport, baresip, linphone, twinkle};
use super::subject::{Plan, Subject};

/// Parameters of a call.
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) peer: Peer,
    pub(crate) caller: Caller,
    pub(crate) route: Route,
    pub(crate) keys: Keys,
    /// Side that holds the call.
    pub(crate) holder: Side,
    /// Number of holds.
    pub(crate) holds: u32,
    /// Time before and after each hold.
    pub(crate) talk: Duration,
}

/// Implementation of the other side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Baresip,
    Linphone,
    Twinkle,
}

/// Side that calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Phone,
    Peer,
}

/// Path of SIP between them.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    Direct(Transport),
    Ringway(Transport),
    Kamailio(Transport),
}

/// One of the two sides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Phone,
    Peer,
}

impl Peer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Baresip => "baresip",
            Self::Linphone => "linphone",
            Self::Twinkle => "twinkle",
        }
    }

    /// Starts it and waits until it accepts calls.
    fn start(self, stage: &Stage, line: Line<'_>) -> Result<Box<dyn Softphone>> {
        Ok(match self {
            Self::Baresip => {
                let mut phone = baresip::Phone::start(stage, line)?;
                line.server.map_or(Ok(()), |_| phone.registered())?;
                Box::new(phone)
            }
            Self::Linphone => {
                let mut phone = linphone::Phone::start(stage, line)?;
                line.server.map_or(Ok(()), |_| phone.registered())?;
                Box::new(phone)
            }
            Self::Twinkle => {
                let mut phone = twinkle::Phone::start(stage, line)?;
                line.server.map_or(Ok(()), |_| phone.registered())?;
                Box::new(phone)
            }
        })
    }
}

impl Caller {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Phone => "called",
            Self::Peer => "calls",
        }
    }
}

impl Route {
    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Direct(transport) | Self::Ringway(transport) | Self::Kamailio(transport) => transport,
        }
    }

    fn server(self, stage: &Stage, host: Ipv4Addr) -> Result<Option<Server>> {
        let mut wanted = Wanted { host, ..Wanted::default() };
        if self.transport() == Transport::Tls {
            Authority::create(&stage.folder)?.issue(Certificate::SERVER)?;
            wanted.tls = Some("");
        }
        let account = |name: &str| (name.to_owned(), format!("secret-{name}"));
        Ok(match self {
            Self::Direct(_) => None,
            Self::Ringway(_) => Some(Server::start(stage, wanted, &[account(PHONE), account(PEER)])?),
            Self::Kamailio(_) => Some(Server::start_reference(stage, wanted)?),
        })
    }
}

impl Call {
    /// Time before and after a hold in most calls. It is so much longer than a hold that silence after the
    /// hold is noticed, even if starting and stopping take long.
    pub(crate) const TALK: Duration = Duration::from_millis(2500);

    /// True if another phone can replace Ringway's.
    pub(crate) fn has_stand_in(&self) -> bool {
        match (self.peer, self.keys) {
            // It offers only one suite.
            (Peer::Baresip, Keys::Sdes(suite)) => suite == "AES_CM_128_HMAC_SHA1_80",
            (Peer::Baresip | Peer::Linphone | Peer::Twinkle, _) => true,
        }
    }

    /// Makes the call, and checks traces and recordings of both sides.
    pub(crate) fn play(&self, stage: &Stage) -> Result<()> {
        let host = if self.peer == Peer::Twinkle { twinkle::own_address()? } else { Ipv4Addr::LOCALHOST };
        let server = self.route.server(stage, host)?;
        let line = |user, tone_hz| Line {
            user,
            host,
            server_host: host,
            server: server.as_ref().map(|server| server.port_of(self.route.transport())),
            transport: self.route.transport(),
            keys: self.keys,
            tone_hz,
            seconds: u32::try_from(self.length().as_secs()).unwrap_or(u32::MAX).saturating_add(20),
        };
        let mut peer = self.peer.start(stage, line(PEER, PEER_HZ)).context("the peer")?;
        let holds = if self.holder == Side::Phone { self.hold_times() } else { Vec::new() };
        let is_alone = (self.caller, self.holder) == (Caller::Phone, Side::Phone);
        let ends = is_alone.then(|| self.length());
        let plan = Plan { line: line(PHONE, PHONE_HZ), digits: DIGITS, holds, hold: HOLD, ends };
        let mut phone = Subject::new(stage, plan);
        match self.caller {
            Caller::Phone => {
                phone.dial(&peer.uri())?;
                peer.answer().context("the peer")?;
            }
            Caller::Peer => {
                let uri = phone.wait_for_calls()?;
                peer.dial(&uri)?;
            }
        }
        peer.established().context("the peer")?;
        phone.established()?;
        self.talk(&mut phone, peer.as_mut())?;
        phone.ended()?;
        let checked = self.check(stage, &mut phone, peer.as_mut());
        drop(server);
        checked
    }

    /// Runs the call from the answer to its end: digits are sent, the call is held and resumed. Each time
    /// starts when the phone has seen the previous event, so that no part is too short.
    fn talk(&self, phone: &mut Subject<'_>, peer: &mut dyn Softphone) -> Result<()> {
        std::thread::sleep(PRESS_AFTER);
        phone.press()?;
        peer.press(PEER_DIGIT).context("the peer")?;
        std::thread::sleep(self.talk - PRESS_AFTER);
        for _ in 0..self.holds {
            match self.holder {
                Side::Phone => phone.hold()?,
                Side::Peer => {
                    peer.hold().context("the peer")?;
                    phone.is_held()?;
                }
            }
            std::thread::sleep(HOLD);
            match self.holder {
                Side::Phone => phone.resume()?,
                Side::Peer => {
                    peer.resume().context("the peer")?;
                    phone.is_resumed()?;
                }
            }
            std::thread::sleep(self.talk);
        }
        match self.caller {
            Caller::Phone => phone.hang_up()?,
            Caller::Peer => peer.hang_up().context("the peer")?,
        }
        peer.ended().context("the peer")
    }

    fn check(&self, stage: &Stage, phone: &mut Subject<'_>, peer: &mut dyn Softphone) -> Result<()> {
        let (digits, sas, trace) = (peer.digits(), peer.sas(), peer.trace()?);
        let heard_by_peer = kept(stage, &peer.recording().context("the peer")?, "heard-by-peer.wav")?;
        let heard_by_phone = kept(stage, &phone.recording()?, "heard-by-phone.wav")?;
        heard_by_peer
            .expect_tone(PHONE_HZ, self.audible_s(Side::Phone, stage))
            .context("recording of the peer")?;
        heard_by_phone
            .expect_tone(PEER_HZ, self.audible_s(Side::Peer, stage))
            .context("recording of the phone")?;
        // Twinkle truncates long messages in its trace, but its answer is there.
        let held = trace.matches("a=sendonly").count().max(trace.matches("a=recvonly").count());
        if held < self.holds as usize {
            bail!("the call was to be put on hold {} times, and was {held} times", self.holds);
        }
        if digits != DIGITS {
            bail!("the peer saw the digits \"{digits}\", \"{DIGITS}\" were pressed");
        }
        phone.check(stage, sas.as_deref(), PEER_DIGIT, &self.faults())
    }

    /// Minimum time in seconds for which `side` must be audible at the other side.
    ///
    /// The threshold is a third of the way from a call with one silent part to a good call, which leaves the
    /// rest for delays of a busy machine; but at most half a part.
    fn audible_s(&self, side: Side, stage: &Stage) -> f64 {
        let parts = f64::from(self.holds) + 1.0;
        let (talk, held) = (self.talk.as_secs_f64(), HOLD.as_secs_f64() * f64::from(self.holds));
        let (least_on_hold, most_on_hold) = match (side, self.holder) {
            // Twinkle plays nothing while it is held; Ringway's phone sends silence while it holds.
            (Side::Phone, Side::Phone) if self.peer == Peer::Twinkle || stage.ringway.program().is_some() => {
                (0.0, 0.0)
            }
            // Others may send sound while they hold.
            (Side::Phone, Side::Phone) | (Side::Peer, Side::Peer) => (0.0, held),
            (Side::Phone, Side::Peer) | (Side::Peer, Side::Phone) => (0.0, 0.0),
        };
        let silent = talk * (parts - 1.0) + most_on_hold;
        let good = talk * parts + least_on_hold;
        (silent + (good - silent) / 3.0).min(good - talk / 2.0)
    }

    /// Maximum numbers of packets of this peer that the phone may discard, by counter. None of them is audio:
    /// that would be missing in the other numbers, and in `lost`.
    fn faults(&self) -> Vec<(&'static str, u32)> {
        let (auth_failures, replays) = match (self.peer, self.keys) {
            (Peer::Baresip, Keys::Sdes("AES_CM_128_HMAC_SHA1_32")) => (self.reports_of_baresip(), 0),
            (Peer::Linphone, Keys::Sdes(_) | Keys::Zrtp | Keys::Dtls(_)) => {
                (0, REPEATS_OF_LINPHONE + 2 * self.holds)
            }
            (Peer::Baresip, Keys::Sdes(_))
            | (_, Keys::None)
            | (Peer::Baresip, Keys::Dtls(_))
            | (Peer::Baresip, Keys::Zrtp)
            | (Peer::Twinkle, _) => (0, 0),
        };
        let mut faults = vec![("lost", 0), ("auth_failures", auth_failures), ("replays", replays)];
        if self.peer != Peer::Linphone {
            // Until its first audio packet, its signalled address differs from that of its STUN requests.
            faults.push(("strangers", 0));
        }
        faults
    }

    /// baresip 1.0 (libre 1.1) uses an SRTCP tag of 32 bits with suites that have one for SRTP; it must have
    /// 80 bits there (RFC 3711 §5.2, RFC 4568 §6.2). No other implementation can authenticate such a packet.
    /// Read with the longer tag, its E flag is a random bit, so each packet is counted as a failed
    /// authentication or as another error. It sends two at each change of the call, and one every five
    /// seconds.
    fn reports_of_baresip(&self) -> u32 {
        let regular = self.length().as_secs() / 5 + 2;
        4 * self.holds + u32::try_from(regular).unwrap_or(u32::MAX)
    }

    /// Times of the holds, from the answer on.
    fn hold_times(&self) -> Vec<Duration> {
        (0..self.holds).map(|held| self.talk * (held + 1) + HOLD * held).collect()
    }

    /// Time from the answer to the end.
    fn length(&self) -> Duration {
        self.talk * (self.holds + 1) + HOLD * self.holds
    }
}

fn kept(stage: &Stage, wav: &Path, name: &str) -> Result<Recording> {
    stage.keep(wav, name)?;
    Recording::read(wav)
}

/// Duration of a hold.
pub(crate) const HOLD: Duration = Duration::from_millis(1000);

const PHONE: &str = "alice";
const PEER: &str = "bob";
const PHONE_HZ: f64 = 600.0;
const PEER_HZ: f64 = 1000.0;

/// Digits that the phone sends, and the one of the peer.
const DIGITS: &str = "5#";
const PEER_DIGIT: char = '7';
const PRESS_AFTER: Duration = Duration::from_millis(500);

/// linphone sends the end of a digit three times with the same sequence number. At each change of the call it
/// restarts its SRTCP under the same key, so that an index is repeated.
const REPEATS_OF_LINPHONE: u32 = 2;
