//! Whole DTLS sessions whose datagrams are changed on their way: in their headers, cut into fragments, repeated, out of
//! order, forged, and as if under the session's own keys.

use ringway_dtls::Identity;
use ringway_media::dtls::{DtlsAssociation, DtlsFailure, DtlsIdentity, DtlsOutput};
use ringway_sansio::Instant;
use ringway_sdp::DtlsRole;
use std::time::Duration;

/// Numbers made of bytes; 0 after the last one.
struct Choices<'a> {
    rest: &'a [u8],
}

impl Choices<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        usize::from(*first)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let number = if end > 256 { (self.byte() << 8) | self.byte() } else { self.byte() };
        number.checked_rem(end).unwrap_or(0)
    }

    /// True for `frequency` of 256 bytes, and never after the last one.
    fn random_bool(&mut self, frequency: usize) -> bool {
        !self.rest.is_empty() && self.byte() < frequency
    }
}

/// Both ends of a session and what is between them.
pub(crate) struct Session {
    ends: [Box<dyn DtlsAssociation>; 2],
    keys: [Option<(Vec<u8>, Vec<u8>)>; 2],
    in_flight: Vec<(usize, Vec<u8>)>,
    now: Instant,
    /// Number of datagrams that were changed.
    pub(crate) changed: u64,
}

impl Session {
    /// Runs a session until both ends are silent. `choices` say what happens to its datagrams; the first byte is the
    /// frequency of changes, and where the choices end, nothing is changed any more.
    pub(crate) fn run([client, server]: &[Identity; 2], choices: &[u8]) -> Self {
        let now = Instant::from_secs(1000);
        let ends = [
            client.associate(DtlsRole::Active, &[server.fingerprint()], now),
            server.associate(DtlsRole::Passive, &[client.fingerprint()], now),
        ];
        let mut session = Self { ends, keys: [None, None], in_flight: Vec::new(), now, changed: 0 };
        let mut choices = Choices { rest: choices };
        let hostility = choices.below(256);
        for step in 0..100 {
            session.collect();
            if !session.in_flight.is_empty() {
                session.deliver(hostility, &mut choices);
            } else if step > 40 {
                break;
            } else {
                session.now = session.now + Duration::from_secs(1);
                let now = session.now;
                session.ends.iter_mut().for_each(|end| end.on_timeout(now));
            }
        }
        session
    }

    fn deliver(&mut self, hostility: usize, choices: &mut Choices<'_>) {
        let at = if choices.random_bool(hostility) { choices.below(self.in_flight.len()) } else { 0 };
        let (to, datagram) = self.in_flight.remove(at);
        if choices.random_bool(hostility) {
            self.changed += 1;
            for datagram in change(&datagram, choices) {
                self.ends[to].on_datagram(self.now, &datagram);
            }
        } else {
            self.ends[to].on_datagram(self.now, &datagram);
        }
    }

    fn collect(&mut self) {
        for at in 0..2 {
            while let Some(output) = self.ends[at].poll() {
                match output {
                    DtlsOutput::Datagram(datagram) => self.in_flight.push((1 - at, datagram)),
                    DtlsOutput::Keys(keys) => {
                        let previous = self.keys[at].replace((keys.send.key, keys.receive.key));
                        assert!(previous.is_none(), "keys once");
                    }
                    DtlsOutput::Failed(failure) => assert_ne!(failure, DtlsFailure::Internal, "a panic"),
                }
            }
        }
        self.in_flight.truncate(64);
    }

    /// True if both ends have keys, which then must be the same.
    pub(crate) fn is_keyed(&self) -> bool {
        if let [Some((send, receive)), Some(other)] = &self.keys {
            assert_eq!((send, receive), (&other.1, &other.0));
        }
        self.keys.iter().all(Option::is_some)
    }
}

/// Datagrams in place of one.
fn change(datagram: &[u8], choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    let mut one = datagram.to_vec();
    let at = |choices: &mut Choices<'_>, one: &[u8]| choices.below(one.len().max(1));
    match choices.below(10) {
        0 => return Vec::new(),
        1 => return vec![one.clone(), one],
        2 => return cut(datagram, choices),
        3 => {
            let end = at(choices, &one);
            one.truncate(end);
        }
        4 => one.extend((0..=choices.below(40)).map(|_| choices.below(256) as u8)),
        // The headers of the first record and its first fragment.
        5 => {
            let at = choices.below(25.min(one.len()));
            one[at] = [0, 1, 2, 22, 254, 255][choices.below(6)];
        }
        6 => return vec![chain(choices), one],
        7 => return vec![one, chain(choices)],
        8 => one.iter_mut().skip(3).take(2).for_each(|epoch| *epoch = choices.below(3) as u8),
        _ => {
            for _ in 0..=choices.below(4) {
                let at = at(choices, &one);
                one[at] ^= 1 << choices.below(8);
            }
        }
    }
    vec![one]
}

/// The unencrypted messages of a datagram in fragments, in any order.
fn cut(datagram: &[u8], choices: &mut Choices<'_>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for record in ringway_datagram::Records::of(datagram) {
        if record.epoch > 0 || record.payload.len() < 13 {
            continue;
        }
        let (header, body) = record.payload.split_at(12);
        let mut from = 0;
        while from < body.len() {
            let to = (from + 1 + choices.below(300)).min(body.len());
            let number = |number: usize| (number as u32).to_be_bytes()[1..].to_vec();
            let fragment = [&header[..6], &number(from), &number(to - from), &body[from..to]].concat();
            let sequence = choices.below(1 << 16) as u16;
            out.push(record_of(22, 0, sequence, &fragment));
            from = to.saturating_sub(choices.below(20)).max(from + 1);
        }
    }
    for at in (1..out.len()).rev() {
        out.swap(at, choices.below(at + 1));
    }
    out
}

/// Fragments of a message that follow each other, one byte or none each, in the clear or for the session's keys.
fn chain(choices: &mut Choices<'_>) -> Vec<u8> {
    let (kind, sequence) = ([1, 2, 11, 12, 14, 15, 16, 20][choices.below(8)], choices.below(9) as u8);
    let (epoch, count, bytes) = (choices.below(2) as u8, 1 + choices.below(5), choices.below(2) as u8);
    let mut payload = if epoch > 0 { vec![0; 8] } else { Vec::new() };
    for at in 0..count as u8 {
        payload.extend([kind, 0, 1, 0, 0, sequence, 0, 0, at, 0, 0, bytes]);
        payload.extend(std::iter::repeat_n(7, usize::from(bytes)));
    }
    if epoch > 0 {
        // The length of a Finished, so that it is decrypted.
        payload.resize(32, 0);
        payload.extend([7; 16]);
    }
    record_of(22, epoch, choices.below(1 << 16) as u16, &payload)
}

fn record_of(kind: u8, epoch: u8, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = sequence.to_be_bytes();
    let header = [kind, 254, 253, 0, epoch, 0, 0, 0, 0, high, low];
    [&header, &(payload.len() as u16).to_be_bytes()[..], payload].concat()
}
