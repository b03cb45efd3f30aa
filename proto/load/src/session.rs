//! Media sessions of attempts: what our SDP says, and what the peer's SDP says (RFC 4566, RFC 4568, RFC 5576).

use crate::recording::Recording;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use base64ct::{Base64, Encoding};
use core::net::SocketAddr;
use ringway_sansio::{Entropy, Flow, Seed};
use ringway_sdp::sdes::CryptoLine;
use ringway_sdp::{CryptoSuite, Limits, MasterKey, MediaDescription, Protection, SessionDescription};

/// Media streams of the calls of a generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaUse {
    /// SDP without streams.
    #[default]
    None,
    /// RTP.
    Rtp,
    /// SRTP with a key for each call and side in the SDP.
    Srtp(CryptoSuite),
}

/// Start or end of the media of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaEvent {
    /// Offer and answer are complete: packets of the peer may arrive.
    Started(Box<MediaStart>),
    /// The peer has the answer: packets may be sent to it.
    Confirmed(u64),
    /// The attempt plays a recording, from now on.
    Play(Box<MediaPlay>),
    /// The attempt sends no more packets.
    Ended(u64),
    /// The attempt has no media.
    Refused(MediaRefusal),
}

/// Parameters of the stream of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaStart {
    /// Number of the attempt, unique in its generator.
    pub call: u64,
    /// Our SSRC, as in our SDP.
    pub ssrc: u32,
    /// True if packets may be sent at once: a caller has the answer.
    pub is_confirmed: bool,
    /// Address at which the peer receives, and from which it sends (RFC 4961).
    pub remote: SocketAddr,
    /// SSRC of the peer, if its SDP has it (RFC 5576).
    pub remote_ssrc: Option<u32>,
    /// Payload type of the packets that we send: 0 (PCMU) or 8 (PCMA).
    pub payload_type: u8,
    /// Protection of both directions.
    pub protection: Protection,
}

/// Recording that an attempt plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaPlay {
    /// Number of the attempt, unique in its generator.
    pub call: u64,
    /// Address at which the peer receives.
    pub remote: SocketAddr,
    /// Its packets.
    pub recording: Arc<Recording>,
}

/// Reason why an attempt has no media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MediaRefusal {
    /// The peer's message has no SDP, or one that cannot be parsed.
    Malformed,
    /// No audio section, or a disabled one.
    NoAudio,
    /// No unicast address, or one that nothing may be sent to.
    Address,
    /// Neither PCMU nor PCMA.
    Codec,
    /// No key of the suite, or a key that is not wanted.
    Protection,
    /// The limit of streams was reached.
    Full,
    /// Another call has the same address, and neither SDP has an SSRC.
    Ambiguous,
    /// A recording was to be played before offer and answer are complete.
    Early,
}

impl MediaRefusal {
    /// Name in results: lower case, with underscores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed_sdp",
            Self::NoAudio => "no_audio",
            Self::Address => "refused_address",
            Self::Codec => "no_codec",
            Self::Protection => "no_key",
            Self::Full => "limit",
            Self::Ambiguous => "ambiguous_address",
            Self::Early => "played_early",
        }
    }
}

/// Media of one attempt.
#[derive(Debug)]
pub(crate) struct Session {
    /// Address at which the peer receives.
    remote: Result<SocketAddr, MediaRefusal>,
    /// The peer's description.
    pub(crate) peer: Result<Peer, MediaRefusal>,
    pub(crate) state: State,
}

/// Progress of the media of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Described,
    Started,
    Confirmed,
    Ended,
}

/// The peer's description of its stream.
#[derive(Debug)]
pub(crate) struct Peer {
    remote: SocketAddr,
    ssrc: Option<u32>,
    payload_type: u8,
    /// Tag of the accepted `a=crypto` line, and its key.
    key: Option<(u32, MasterKey)>,
}

impl Session {
    /// Reads the peer's SDP.
    pub(crate) fn read(body: &[u8], media: MediaUse) -> Self {
        let description = SessionDescription::parse(body, &Limits::default());
        let audio = description.as_ref().map_err(|_| MediaRefusal::Malformed).and_then(audio_of);
        let peer = audio.and_then(|(section, remote)| Peer::of(section, remote, media));
        Self { remote: audio.map(|(_, remote)| remote), peer, state: State::Described }
    }

    /// Playing of a recording; `None` after the end of the media.
    pub(crate) fn play(&self, call: u64, recording: &Arc<Recording>) -> Option<MediaEvent> {
        match (self.state, self.remote) {
            (State::Ended, _) => None,
            (State::Described, _) => Some(MediaEvent::Refused(MediaRefusal::Early)),
            (_, Err(refusal)) => Some(MediaEvent::Refused(refusal)),
            (_, Ok(remote)) => {
                let recording = Arc::clone(recording);
                Some(MediaEvent::Play(Box::new(MediaPlay { call, remote, recording })))
            }
        }
    }

    /// Tag of our `a=crypto` line: in an answer that of the offer (RFC 4568 §5.1.2).
    pub(crate) fn crypto_tag(&self) -> u32 {
        let key = self.peer.as_ref().ok().and_then(|peer| peer.key.as_ref());
        key.map_or(1, |(tag, _)| *tag)
    }

    /// Parameters of the stream; afterwards the session is started.
    pub(crate) fn start(&mut self, own: &Own<'_>, media: MediaUse, is_confirmed: bool) -> MediaEvent {
        let peer = match &self.peer {
            Ok(peer) => peer,
            Err(refusal) => {
                self.state = State::Ended;
                return MediaEvent::Refused(*refusal);
            }
        };
        self.state = if is_confirmed { State::Confirmed } else { State::Started };
        let protection = match (media, &peer.key) {
            (MediaUse::Srtp(suite), Some((_, receive))) => {
                Protection::Sdes { suite, send: own.key(suite), receive: receive.clone() }
            }
            (MediaUse::None | MediaUse::Rtp | MediaUse::Srtp(_), _) => Protection::None,
        };
        MediaEvent::Started(Box::new(MediaStart {
            call: own.call,
            ssrc: own.ssrc(),
            is_confirmed,
            remote: peer.remote,
            remote_ssrc: peer.ssrc,
            payload_type: peer.payload_type,
            protection,
        }))
    }
}

impl Peer {
    /// The peer that a section describes.
    fn of(section: &MediaDescription, remote: SocketAddr, media: MediaUse) -> Result<Self, MediaRefusal> {
        let payload_type = section.formats().find_map(|format| match format {
            b"0" => Some(0),
            b"8" => Some(8),
            _ => None,
        });
        let is_secure = section.profile().is_some_and(|profile| profile.is_secure());
        let key = match media {
            MediaUse::Srtp(suite) => Some(key_of(section, suite).ok_or(MediaRefusal::Protection)?),
            MediaUse::None | MediaUse::Rtp if is_secure => return Err(MediaRefusal::Protection),
            MediaUse::None | MediaUse::Rtp => None,
        };
        Ok(Self {
            remote,
            ssrc: section.values("ssrc").find_map(ssrc_of),
            payload_type: payload_type.ok_or(MediaRefusal::Codec)?,
            key,
        })
    }
}

/// First audio section that is not disabled, and its address.
fn audio_of(description: &SessionDescription) -> Result<(&MediaDescription, SocketAddr), MediaRefusal> {
    let is_audio = |section: &&MediaDescription| section.medium() == b"audio" && section.port() != 0;
    let section = description.media().iter().find(is_audio).ok_or(MediaRefusal::NoAudio)?;
    let connection = section.connections().first().or(description.connection());
    let ip = connection.and_then(|connection| connection.unicast()).filter(|ip| !ip.is_unspecified());
    let remote = SocketAddr::new(ip.ok_or(MediaRefusal::Address)?, section.port());
    Ok((section, Flow::canonical(remote)))
}

/// Tag and key of the first `a=crypto` line of a suite.
fn key_of(section: &MediaDescription, suite: CryptoSuite) -> Option<(u32, MasterKey)> {
    let mut lines = section.values("crypto").filter_map(|line| CryptoLine::parse(line).ok());
    lines.find(|line| line.suite == suite).map(|line| (line.tag, line.key))
}

/// SSRC of the value of an `a=ssrc` attribute: `number attribute`.
fn ssrc_of(value: &[u8]) -> Option<u32> {
    core::str::from_utf8(value.split(|&byte| byte == b' ').next()?).ok()?.parse().ok()
}

/// Our half of the media of an attempt. All values follow from the generator's seed, so that they need no memory.
pub(crate) struct Own<'a> {
    /// Seed of the keys of a generator.
    pub(crate) seed: &'a Seed,
    /// Random number of the generator.
    pub(crate) run: u64,
    /// Number of the attempt.
    pub(crate) call: u64,
}

impl Own<'_> {
    /// SSRC: different for 2^32 attempts in a row, which share an address.
    pub(crate) const fn ssrc(&self) -> u32 {
        (self.call as u32).wrapping_add(self.run as u32)
    }

    /// Appends key and salt in base64, as an `a=crypto` line has them.
    pub(crate) fn write_key(&self, suite: CryptoSuite, out: &mut Vec<u8>) {
        let mut text = [0; 64];
        // At most 46 bytes of key and salt become at most 64 characters.
        if let Ok(text) = Base64::encode(&self.key_bytes(suite), &mut text) {
            out.extend_from_slice(text.as_bytes());
        }
    }

    fn key(&self, suite: CryptoSuite) -> MasterKey {
        let mut key = self.key_bytes(suite);
        let salt = key.split_off(suite.key_bytes());
        MasterKey { key, salt, lifetime_packets: None, mki: Vec::new() }
    }

    fn key_bytes(&self, suite: CryptoSuite) -> Vec<u8> {
        let mut bytes = alloc::vec![0; suite.key_bytes() + suite.salt_bytes()];
        Entropy::new(&self.seed.part(self.call)).fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const SUITE: CryptoSuite = CryptoSuite::AesCm128HmacSha1_80;

    fn own(seed: &Seed) -> Own<'_> {
        Own { seed, run: 7, call: 3 }
    }

    fn sdp(address: &str, media: &str) -> String {
        format!("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\n{media}")
    }

    fn refusal(text: &str, media: MediaUse) -> MediaRefusal {
        Session::read(text.as_bytes(), media).peer.unwrap_err()
    }

    #[test]
    fn the_key_of_the_sdp_is_the_key_of_the_stream() {
        let seed = Seed::from_number(1);
        let mut key = Vec::new();
        own(&seed).write_key(SUITE, &mut key);
        let key = String::from_utf8(key).unwrap();
        let media = format!(
            "m=audio 4000 RTP/SAVP 8 0\r\na=crypto:1 AES_CM_128_HMAC_SHA1_32 inline:{key}\r\n\
             a=crypto:2 {} inline:{key}\r\na=ssrc:77 cname:x\r\n",
            SUITE.name()
        );
        let mut session = Session::read(sdp("127.0.0.9", &media).as_bytes(), MediaUse::Srtp(SUITE));
        assert_eq!(session.crypto_tag(), 2);
        let other = Seed::from_number(2);
        let MediaEvent::Started(start) = session.start(&own(&other), MediaUse::Srtp(SUITE), false) else {
            panic!("no media");
        };
        assert_eq!((start.remote, start.remote_ssrc), (([127, 0, 0, 9], 4000).into(), Some(77)));
        assert_eq!((start.payload_type, start.ssrc, session.state), (8, 10, State::Started));
        let Protection::Sdes { send, receive, .. } = start.protection else { panic!("no keys") };
        assert_eq!((receive, send), (own(&seed).key(SUITE), own(&other).key(SUITE)));
    }

    #[test]
    fn a_description_that_cannot_be_used_is_refused_with_its_reason() {
        let plain = "m=audio 4000 RTP/AVP 0\r\n";
        let secure = MediaUse::Srtp(SUITE);
        assert_eq!(refusal("", MediaUse::Rtp), MediaRefusal::Malformed);
        assert_eq!(refusal(&sdp("127.0.0.1", ""), MediaUse::Rtp), MediaRefusal::NoAudio);
        let disabled = sdp("127.0.0.1", "m=audio 0 RTP/AVP 0\r\n");
        assert_eq!(refusal(&disabled, MediaUse::Rtp), MediaRefusal::NoAudio);
        for address in ["0.0.0.0", "224.0.0.1", "host.example"] {
            assert_eq!(refusal(&sdp(address, plain), MediaUse::Rtp), MediaRefusal::Address, "{address}");
        }
        let other = sdp("127.0.0.1", "m=audio 4000 RTP/AVP 9\r\n");
        assert_eq!(refusal(&other, MediaUse::Rtp), MediaRefusal::Codec);
        assert_eq!(refusal(&sdp("127.0.0.1", plain), secure), MediaRefusal::Protection);
        let savp = sdp("127.0.0.1", "m=audio 4000 RTP/SAVP 0\r\n");
        assert_eq!(refusal(&savp, MediaUse::Rtp), MediaRefusal::Protection);
    }
}
