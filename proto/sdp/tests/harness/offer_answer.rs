//! Two phones, and any sequence of offers, answers, rejections, key changes and modified descriptions: both
//! sides agree or reject, no old key is used again, protection is kept, and versions count the changes.

use std::collections::VecDeque;
use std::string::String;
use std::vec;
use std::vec::Vec;

use ringway_sansio::{Entropy, Seed};
use ringway_sdp::{
    Codec, CryptoSuite, Direction, Downgrade, Fingerprint, FingerprintHash, Limits, LocalMedia, MasterKey,
    MediaParams, OfferAnswer, Protection, Refused, SecurityPolicy, SessionDescription,
};

/// Input: configuration of both phones, then one byte or more for each event.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data.iter().copied().collect());
    let (mut one, mut two) = (End::new(1, &mut bytes), End::new(2, &mut bytes));
    for _ in 0..STEPS_MAX {
        let Some(step) = bytes.0.pop_front() else { break };
        let (from, to) = if step & 1 == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
        match step >> 1 & 7 {
            0..=2 => exchange(from, to, &mut bytes),
            3 => changed_exchange(from, to, &mut bytes),
            4 => {
                from.offer(bytes.direction());
                assert_eq!(
                    from.phone.answer(&from.sent, Direction::SendRecv).err(),
                    Some(Refused::OfferPending)
                );
                from.phone.abandon_offer();
                assert_eq!(from.phone.accept_answer(&from.sent).err(), Some(Refused::NoOffer));
            }
            5 => from.phone.renew_keys(),
            _ => stranger(from, &mut bytes),
        }
    }
}

/// A phone and its observed state.
struct End {
    phone: OfferAnswer,
    downgrade: Downgrade,
    /// Last description that it sent.
    sent: Vec<u8>,
    /// Send key in use, and the earlier ones.
    key: Option<MasterKey>,
    old_keys: Vec<MasterKey>,
}

fn fingerprint(number: u8) -> Option<Fingerprint> {
    Fingerprint::new(FingerprintHash::Sha256, &[number; 32])
}

impl End {
    fn new(number: u8, bytes: &mut Bytes) -> Self {
        let (kind, suites) = (bytes.next(), bytes.next());
        let suites = CryptoSuite::ALL.into_iter().enumerate().filter(|(at, _)| suites >> at & 1 == 1);
        let mut suites: Vec<CryptoSuite> = suites.map(|(_, suite)| suite).collect();
        if kind & 8 != 0 {
            suites.reverse();
        }
        let policy = match kind & 7 {
            0 => SecurityPolicy::None,
            1 | 2 => SecurityPolicy::Sdes { suites },
            3 => SecurityPolicy::Zrtp { hello_hash: [number; 32] },
            4 | 5 => {
                SecurityPolicy::Opportunistic { suites, hello_hash: Some([number; 32]), fingerprint: None }
            }
            6 => SecurityPolicy::Opportunistic { suites, hello_hash: None, fingerprint: fingerprint(number) },
            _ => match fingerprint(number) {
                Some(fingerprint) => SecurityPolicy::Dtls { fingerprint },
                None => SecurityPolicy::None,
            },
        };
        let downgrade = if kind & 16 == 0 { Downgrade::Refused } else { Downgrade::Allowed };
        let mut codecs = vec![Codec::Pcmu, Codec::Pcma];
        match kind >> 5 & 3 {
            0 => codecs.truncate(1),
            1 => codecs.reverse(),
            _ => {}
        }
        let local = LocalMedia {
            rtp: ([192, 0, 2, number], 4000).into(),
            rtcp_port: 4001,
            codecs,
            ptime_ms: 20,
            telephone_event: kind & 128 == 0,
            policy,
            rtcp_mux: kind & 64 != 0,
        };
        let entropy = Entropy::new(&Seed::from_number(u64::from(number)));
        let mut phone = OfferAnswer::new(local, "-", u64::from(number), entropy);
        phone.set_downgrade(downgrade);
        Self { phone, downgrade, sent: Vec::new(), key: None, old_keys: Vec::new() }
    }

    fn offer(&mut self, direction: Direction) {
        let offer = self.phone.offer(direction);
        self.published(offer);
    }

    /// Checks that the version counts the changes (RFC 3264 §8).
    fn published(&mut self, sdp: Vec<u8>) {
        let now = parse(&sdp);
        if !self.sent.is_empty() {
            let before = version(&parse(&self.sent));
            let grown = u64::from(without_version(&sdp) != without_version(&self.sent));
            assert_eq!(version(&now), before + grown, "{}", String::from_utf8_lossy(&sdp));
        }
        self.sent = sdp;
    }

    /// Checks a new agreement against the previous one.
    fn agreed(&mut self, before: Option<&Protection>, params: &MediaParams) {
        assert_eq!(self.phone.agreed(), Some(params));
        assert!((10..=200).contains(&params.ptime_ms) && params.payload_type < 128);
        assert!(!params.receive.is_empty());
        assert!(!params.rtcp_mux || params.remote == params.remote_rtcp);
        if let Some(before) = before
            && *before != Protection::None
            && self.downgrade == Downgrade::Refused
        {
            assert_eq!(kind(before), kind(&params.protection), "protection is kept");
        }
        let key = match &params.protection {
            Protection::Sdes { send, receive, suite } => {
                assert_ne!(send.key, receive.key, "one key stream for two streams");
                assert_eq!((send.key.len(), send.salt.len()), (suite.key_bytes(), suite.salt_bytes()));
                Some(send.clone())
            }
            Protection::Dtls { fingerprints, .. } => {
                assert!(!fingerprints.is_empty(), "a certificate that nothing proves");
                None
            }
            Protection::None | Protection::Zrtp { .. } => None,
        };
        if key != self.key {
            self.old_keys.extend(self.key.take());
            assert!(key.as_ref().is_none_or(|key| !self.old_keys.contains(key)), "an old key is used again");
            self.key = key;
        }
    }

    fn protection(&self) -> Option<Protection> {
        self.phone.agreed().map(|agreed| agreed.protection.clone())
    }
}

/// Performs an unmodified offer and answer.
fn exchange(from: &mut End, to: &mut End, bytes: &mut Bytes) {
    let (offered, wanted) = (bytes.direction(), bytes.direction());
    let (ours, theirs) = (from.protection(), to.protection());
    from.offer(offered);
    let offer = from.sent.clone();
    let Ok((answer, answered)) = to.phone.answer(&offer, wanted) else {
        assert_eq!(to.protection(), theirs, "a rejected offer changes nothing");
        from.phone.abandon_offer();
        return;
    };
    assert_eq!(parse(&answer).media().len(), parse(&offer).media().len());
    to.published(answer.clone());
    to.agreed(theirs.as_ref(), &answered);
    match from.phone.accept_answer(&answer) {
        Ok(offered) => {
            from.agreed(ours.as_ref(), &offered);
            fits(&offered, &answered);
            fits(&answered, &offered);
        }
        Err(refused) => {
            assert_eq!(from.protection(), ours);
            assert!(
                matches!(refused, Refused::Unprotected | Refused::OtherKeys | Refused::Downgrade),
                "an unmodified answer was rejected: {refused}"
            );
        }
    }
}

/// Checks that what one side sends matches what the other expects.
fn fits(one: &MediaParams, other: &MediaParams) {
    assert_eq!(one.direction, other.direction.reversed());
    assert!(other.receive.contains(&(one.payload_type, one.codec)));
    assert_eq!(one.telephone_event, other.receive_telephone_event);
    assert_eq!(one.rtcp_mux, other.rtcp_mux);
    if let Protection::Sdes { suite, send, .. } = &one.protection {
        match &other.protection {
            Protection::Sdes { suite: same, receive, .. } => assert_eq!((suite, send), (same, receive)),
            Protection::None | Protection::Zrtp { .. } | Protection::Dtls { .. } => {
                panic!("{one:?} {other:?}")
            }
        }
    }
    if let Protection::Dtls { role, .. } = &one.protection {
        assert!(matches!(&other.protection, Protection::Dtls { role: other, .. } if other != role));
    }
}

/// Performs an exchange in which an attacker changes a byte or removes a line.
fn changed_exchange(from: &mut End, to: &mut End, bytes: &mut Bytes) {
    from.offer(bytes.direction());
    let offer = changed(&from.sent, bytes);
    let theirs = to.protection();
    if let Ok((answer, params)) = to.phone.answer(&offer, bytes.direction()) {
        to.published(answer.clone());
        to.agreed(theirs.as_ref(), &params);
        let ours = from.protection();
        if let Ok(params) = from.phone.accept_answer(&changed(&answer, bytes)) {
            from.agreed(ours.as_ref(), &params);
        }
    }
    from.phone.abandon_offer();
}

fn changed(sdp: &[u8], bytes: &mut Bytes) -> Vec<u8> {
    let mut changed = sdp.to_vec();
    let (how, at) = (bytes.next(), usize::from(bytes.next()) << 8 | usize::from(bytes.next()));
    let lines: Vec<_> = sdp.split_inclusive(|&byte| byte == b'\n').collect();
    match how & 3 {
        0 => {
            let len = changed.len().max(1);
            if let Some(byte) = changed.get_mut(at % len) {
                *byte ^= how >> 2;
            }
        }
        1 => {
            let without = at % lines.len().max(1);
            changed = lines
                .iter()
                .enumerate()
                .filter(|(line, _)| *line != without)
                .flat_map(|(_, line)| *line)
                .copied()
                .collect();
        }
        2 => changed.extend_from_slice(lines.get(at % lines.len().max(1)).copied().unwrap_or_default()),
        _ => changed.truncate(at % changed.len().max(1)),
    }
    changed
}

/// Passes an attacker's description as an offer or as an answer.
fn stranger(to: &mut End, bytes: &mut Bytes) {
    let how = bytes.next();
    let len = usize::from(bytes.next()) << 2;
    let words: Vec<u8> = (0..len).map_while(|_| bytes.0.pop_front()).collect();
    let before = to.protection();
    if how & 1 == 0 {
        if let Ok((answer, params)) = to.phone.answer(&words, Direction::SendRecv) {
            let offered = SessionDescription::parse(&words, &Limits::default()).map(|sdp| sdp.media().len());
            assert_eq!(Ok(parse(&answer).media().len()), offered);
            assert_eq!(
                parse(&answer).media().iter().filter(|section| section.port() != 0).count(),
                usize::from(params.remote.port() != 0)
            );
            to.published(answer);
            to.agreed(before.as_ref(), &params);
        }
    } else {
        to.offer(Direction::SendRecv);
        if let Ok(params) = to.phone.accept_answer(&words) {
            to.agreed(before.as_ref(), &params);
        }
    }
}

fn parse(sdp: &[u8]) -> SessionDescription {
    match SessionDescription::parse(sdp, &Limits::default()) {
        Ok(description) => description,
        Err(malformed) => panic!("our own description: {malformed}: {}", String::from_utf8_lossy(sdp)),
    }
}

fn version(sdp: &SessionDescription) -> u64 {
    let digits = String::from_utf8_lossy(&sdp.origin().version).into_owned();
    digits.parse().unwrap_or_else(|_| panic!("{digits}"))
}

fn without_version(sdp: &[u8]) -> Vec<&[u8]> {
    let fields = sdp.split(|&byte| byte == b' ').enumerate();
    fields.filter(|(at, _)| *at != VERSION_FIELD).map(|(_, field)| field).collect()
}

fn kind(protection: &Protection) -> u8 {
    match protection {
        Protection::None => 0,
        Protection::Sdes { .. } => 1,
        Protection::Zrtp { .. } => 2,
        Protection::Dtls { .. } => 3,
    }
}

/// Input bytes, followed by zeros.
struct Bytes(VecDeque<u8>);

impl Bytes {
    fn next(&mut self) -> u8 {
        self.0.pop_front().unwrap_or_default()
    }

    fn direction(&mut self) -> Direction {
        let bits = self.next();
        Direction::from_parts(bits & 1 == 0, bits & 2 == 0)
    }
}

/// Index of the version in our descriptions, split at spaces: `v=0 o=NAME ID VERSION`.
const VERSION_FIELD: usize = 2;

const STEPS_MAX: usize = 24;
