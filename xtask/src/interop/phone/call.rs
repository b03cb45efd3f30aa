//! One call between Ringway's phone, or a stand-in, and a peer.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::audio::Recording;
use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Stage, Transport, baresip, linphone, twinkle};
use super::subject::{Plan, Subject};

/// A call to be.
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) peer: Peer,
    pub(crate) caller: Caller,
    pub(crate) route: Route,
    pub(crate) keys: Keys,
    /// Who puts it on hold.
    pub(crate) holder: Side,
    /// How often.
    pub(crate) holds: u32,
    /// How long they talk before and after each hold.
    pub(crate) talk: Duration,
}

/// Who the other side is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Baresip,
    Linphone,
    Twinkle,
}

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Phone,
    Peer,
}

/// How SIP goes between them.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    Direct(Transport),
    Ringway(Transport),
    Kamailio(Transport),
}

/// One of the two.
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

    /// Starts it and waits until it can be called.
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
        let wanted = Wanted { host, ..Wanted::default() };
        let account = |name: &str| (name.to_owned(), format!("secret-{name}"));
        Ok(match self {
            Self::Direct(_) => None,
            Self::Ringway(_) => Some(Server::start(stage, wanted, &[account(PHONE), account(PEER)])?),
            Self::Kamailio(_) => Some(Server::start_reference(stage, wanted)?),
        })
    }
}

impl Call {
    /// Before a hold and after it, in most calls. So much longer than a hold that silence after it shows, also where
    /// starting and stopping take long.
    pub(crate) const TALK: Duration = Duration::from_millis(2500);

    /// True where another phone can be in the place of Ringway's.
    pub(crate) fn has_stand_in(&self) -> bool {
        match (self.peer, self.keys) {
            // It offers one suite only.
            (Peer::Baresip, Keys::Sdes(suite)) => suite == "AES_CM_128_HMAC_SHA1_80",
            (Peer::Baresip | Peer::Linphone | Peer::Twinkle, _) => true,
        }
    }

    /// Makes the call, and checks what both sides saw and heard.
    pub(crate) fn play(&self, stage: &Stage) -> Result<()> {
        let host = if self.peer == Peer::Twinkle { twinkle::own_address()? } else { Ipv4Addr::LOCALHOST };
        let server = self.route.server(stage, host)?;
        let line = |user, tone_hz| Line {
            user,
            host,
            server: server.as_ref().map(|server| server.port),
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

    /// From the answer to the end: keys are pressed, the call is held and taken up. Each time counts from when the phone
    /// has seen what was before, so that no part is shorter than it should be.
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
        heard_by_peer.expect_tone(PHONE_HZ, self.audible_s(Side::Phone, stage)).context("the peer heard")?;
        heard_by_phone.expect_tone(PEER_HZ, self.audible_s(Side::Peer, stage)).context("the phone heard")?;
        // Twinkle's trace cuts long messages off, but its answer is there.
        let held = trace.matches("a=sendonly").count().max(trace.matches("a=recvonly").count());
        if held < self.holds as usize {
            bail!("the call was to be put on hold {} times, and was {held} times", self.holds);
        }
        if digits != DIGITS {
            bail!("the peer saw the digits \"{digits}\", \"{DIGITS}\" were pressed");
        }
        phone.check(stage, sas.as_deref(), PEER_DIGIT, &self.faults())
    }

    /// For how many seconds at least `side` must be heard by the other one.
    ///
    /// A call with one silent part has so much sound at most, and a good one so much at least: a third of the way between
    /// them tells them apart and leaves the rest to starting and stopping on a busy machine. Where that is more than half
    /// a part, half a part.
    fn audible_s(&self, side: Side, stage: &Stage) -> f64 {
        let parts = f64::from(self.holds) + 1.0;
        let (talk, held) = (self.talk.as_secs_f64(), HOLD.as_secs_f64() * f64::from(self.holds));
        let (least_on_hold, most_on_hold) = match (side, self.holder) {
            // Twinkle plays nothing while it is held.
            (Side::Phone, Side::Phone) if self.peer == Peer::Twinkle => (0.0, 0.0),
            // Who holds may be heard meanwhile: Ringway's phone is, the others as they like.
            (Side::Phone, Side::Phone) if stage.ringway.program().is_some() => (held, held),
            (Side::Phone, Side::Phone) | (Side::Peer, Side::Peer) => (0.0, held),
            (Side::Phone, Side::Peer) | (Side::Peer, Side::Phone) => (0.0, 0.0),
        };
        let silent = talk * (parts - 1.0) + most_on_hold;
        let good = talk * parts + least_on_hold;
        (silent + (good - silent) / 3.0).min(good - talk / 2.0)
    }

    /// How many packets of this peer at most the phone must refuse, by what it counts them as. Not one of them is sound:
    /// that would be missing in the numbers of the others, and `lost`.
    fn faults(&self) -> Vec<(&'static str, u32)> {
        let (auth_failures, replays) = match (self.peer, self.keys) {
            (Peer::Baresip, Keys::Sdes("AES_CM_128_HMAC_SHA1_32")) => (self.reports_of_baresip(), 0),
            (Peer::Linphone, Keys::Sdes(_) | Keys::Zrtp) => (0, REPEATS_OF_LINPHONE + 2 * self.holds),
            (Peer::Baresip, Keys::Sdes(_))
            | (_, Keys::None)
            | (Peer::Baresip, Keys::Zrtp)
            | (Peer::Twinkle, _) => (0, 0),
        };
        let mut faults = vec![("lost", 0), ("auth_failures", auth_failures), ("replays", replays)];
        if self.peer != Peer::Linphone {
            // It tells another address of the machine than it sends STUN from until its first sound shows where it is.
            faults.push(("strangers", 0));
        }
        faults
    }

    /// baresip 1.0 (libre 1.1) gives its SRTCP a tag of 32 bits where the suite has one for SRTP; it must have 80 bits there
    /// too (RFC 3711 §5.2, RFC 4568 §6.2). Nobody else can open a single such packet. Read with the longer tag, its flag
    /// for encryption is a random bit, so that each is a failed authentication or wrong in another way by chance. It sends
    /// two at each change of the call, and one every five seconds.
    fn reports_of_baresip(&self) -> u32 {
        let regular = self.length().as_secs() / 5 + 2;
        4 * self.holds + u32::try_from(regular).unwrap_or(u32::MAX)
    }

    /// When it is put on hold, from the answer on.
    fn hold_times(&self) -> Vec<Duration> {
        (0..self.holds).map(|held| self.talk * (held + 1) + HOLD * held).collect()
    }

    /// From the answer to the end.
    fn length(&self) -> Duration {
        self.talk * (self.holds + 1) + HOLD * self.holds
    }
}

fn kept(stage: &Stage, wav: &Path, name: &str) -> Result<Recording> {
    stage.keep(wav, name)?;
    Recording::read(wav)
}

/// How long a hold lasts.
pub(crate) const HOLD: Duration = Duration::from_millis(1000);

const PHONE: &str = "alice";
const PEER: &str = "bob";
const PHONE_HZ: f64 = 600.0;
const PEER_HZ: f64 = 1000.0;

/// What the phone presses, and what the peer does.
const DIGITS: &str = "5#";
const PEER_DIGIT: char = '7';
const PRESS_AFTER: Duration = Duration::from_millis(500);

/// linphone sends the end of a digit three times under one number. At each change of the call it begins its SRTCP anew
/// under the same key, so that a report has a number that was there before.
const REPEATS_OF_LINPHONE: u32 = 2;
