//! Stories of two associations on a virtual clock: roles, suites, loss, duplicates, disorder, wrong certificates, and
//! damaged datagrams. Not tested here: the session's limits (`ringway-media`), other implementations (`xtask`).

use crate::Identity;
use ringway_media::dtls::{DtlsAssociation, DtlsFailure, DtlsIdentity, DtlsKeys, DtlsOutput};
use ringway_sansio::{Instant, Rng, Seed};
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, FingerprintHash};
use std::time::Duration;

struct End {
    association: Box<dyn DtlsAssociation>,
    keys: Option<DtlsKeys>,
    failure: Option<DtlsFailure>,
    sent: usize,
}

/// Two ends and the datagrams between them.
struct Wire {
    now: Instant,
    ends: [End; 2],
    flights: Vec<(Instant, usize, Vec<u8>)>,
    rng: Rng,
    /// Per mille.
    lost: u32,
    duplicated: u32,
    jitter_ms: u64,
    /// Arrives before each datagram; empty: none.
    forged: Vec<u8>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl Wire {
    fn new(client: &Identity, server: &Identity, seed: u64) -> Self {
        Self::expecting([client, server], [&[server.fingerprint()], &[client.fingerprint()]], seed)
    }

    fn expecting(ids: [&Identity; 2], expected: [&[Fingerprint]; 2], seed: u64) -> Self {
        let now = Instant::from_secs(1000);
        let end = |at: usize, role| End {
            association: ids[at].associate(role, expected[at], now),
            keys: None,
            failure: None,
            sent: 0,
        };
        let ends = [end(CLIENT, DtlsRole::Active), end(SERVER, DtlsRole::Passive)];
        let rng = Rng::new(&Seed::from_number(seed));
        Self { now, ends, flights: Vec::new(), rng, lost: 0, duplicated: 0, jitter_ms: 0, forged: Vec::new() }
    }

    /// Runs until both ends have a result, 60 s at most.
    fn run(&mut self) {
        let end = self.now + Duration::from_secs(60);
        while self.now < end {
            for at in [CLIENT, SERVER] {
                self.collect(at);
            }
            if self.ends.iter().all(|end| end.keys.is_some() || end.failure.is_some()) {
                return;
            }
            let timers = self.ends.iter().filter_map(|end| end.association.next_deadline());
            let Some(next) = timers.chain(self.flights.iter().map(|(due, ..)| *due)).min() else { return };
            self.now = self.now.max(next);
            let now = self.now;
            self.flights.sort_by_key(|(due, ..)| *due);
            if self.flights.first().is_some_and(|(due, ..)| *due <= now) {
                let (_, to, datagram) = self.flights.remove(0);
                if !self.forged.is_empty() {
                    self.ends[to].association.on_datagram(now, &self.forged);
                }
                self.ends[to].association.on_datagram(now, &datagram);
            } else {
                self.ends.iter_mut().for_each(|end| end.association.on_timeout(now));
            }
        }
    }

    fn collect(&mut self, at: usize) {
        while let Some(output) = self.ends[at].association.poll() {
            match output {
                DtlsOutput::Datagram(datagram) => self.send(at, &datagram),
                DtlsOutput::Keys(keys) => {
                    assert!(self.ends[at].keys.replace(*keys).is_none(), "keys once");
                }
                DtlsOutput::Failed(failure) => {
                    assert!(self.ends[at].failure.replace(failure).is_none(), "one failure");
                }
            }
        }
    }

    fn send(&mut self, from: usize, datagram: &[u8]) {
        self.ends[from].sent += 1;
        assert!(datagram.len() <= 1300 && (20..=63).contains(&datagram[0]), "RFC 7983");
        if self.rng.random_bool(self.lost) {
            return;
        }
        let copies = if self.rng.random_bool(self.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            let delay_us = 1000 + self.rng.below(1 + 1000 * self.jitter_ms);
            self.flights.push((self.now + Duration::from_micros(delay_us), 1 - from, datagram.to_vec()));
        }
    }

    /// Checks that both ends have the same keys.
    fn assert_keyed(&self, suite: CryptoSuite) {
        let [client, server] = &self.ends;
        let (Some(client), Some(server)) = (&client.keys, &server.keys) else {
            panic!("{:?} {:?}", client.failure, server.failure);
        };
        assert_eq!((client.suite, server.suite), (suite, suite));
        assert_eq!((&client.send, &client.receive), (&server.receive, &server.send));
        assert_ne!(client.send.key, client.receive.key);
    }
}

fn identity(suites: &[CryptoSuite]) -> Identity {
    Identity::new(suites).unwrap()
}

#[test]
fn both_ends_get_the_same_keys_for_each_suite() {
    for suite in Identity::SUITES {
        let mut wire = Wire::new(&identity(&[suite]), &identity(&Identity::SUITES), 1);
        wire.run();
        wire.assert_keyed(suite);
    }
    let mut wire = Wire::new(&identity(&Identity::SUITES), &identity(&Identity::SUITES), 1);
    wire.run();
    wire.assert_keyed(CryptoSuite::AeadAes256Gcm);
    assert!(wire.now < Instant::from_secs(1000) + Duration::from_millis(20), "without loss nothing waits");
}

#[test]
fn suites_without_a_profile_are_left_out() {
    let mut wire = Wire::new(
        &identity(&[CryptoSuite::AesCm256HmacSha1_80, CryptoSuite::AesCm128HmacSha1_80]),
        &identity(&Identity::SUITES),
        1,
    );
    wire.run();
    wire.assert_keyed(CryptoSuite::AesCm128HmacSha1_80);
    let error = Identity::new(&[CryptoSuite::AesCm256HmacSha1_80]).unwrap_err().to_string();
    assert!(error.contains("no SRTP suite"), "{error}");
}

#[test]
fn no_suite_in_common_is_a_failure_at_both_ends() {
    let (client, server) =
        (identity(&[CryptoSuite::AeadAes128Gcm]), identity(&[CryptoSuite::AesCm128HmacSha1_80]));
    let mut wire = Wire::new(&client, &server, 1);
    wire.run();
    assert_eq!(wire.ends[SERVER].failure, Some(DtlsFailure::NoProfile));
    assert!(wire.ends[CLIENT].failure.is_some());
    assert!(wire.ends.iter().all(|end| end.keys.is_none()));
}

#[test]
fn loss_duplicates_and_disorder_delay_the_keys() {
    let (client, server) = (identity(&Identity::SUITES), identity(&Identity::SUITES));
    let mut slowest = Duration::ZERO;
    for seed in 0..40 {
        let mut wire = Wire::new(&client, &server, seed);
        (wire.lost, wire.duplicated, wire.jitter_ms) = (200, 200, 30);
        wire.run();
        wire.assert_keyed(CryptoSuite::AeadAes256Gcm);
        slowest = slowest.max(wire.now.since(Instant::from_secs(1000)));
    }
    assert!(slowest > Duration::from_millis(400), "nothing was lost: {slowest:?}");
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
}

#[test]
fn a_wrong_certificate_at_either_end_gives_no_keys() {
    let (client, server, other) =
        (identity(&Identity::SUITES), identity(&Identity::SUITES), identity(&Identity::SUITES));
    let mut wire = Wire::expecting([&client, &server], [&[other.fingerprint()], &[client.fingerprint()]], 1);
    wire.run();
    assert_eq!(wire.ends[CLIENT].failure, Some(DtlsFailure::WrongCertificate));
    assert!(wire.ends.iter().all(|end| end.keys.is_none()));

    let mut wire = Wire::expecting([&client, &server], [&[server.fingerprint()], &[other.fingerprint()]], 1);
    wire.run();
    assert_eq!(wire.ends[SERVER].failure, Some(DtlsFailure::WrongCertificate));
    assert!(wire.ends.iter().all(|end| end.keys.is_none()));
}

#[test]
fn one_fingerprint_of_several_and_each_hash_function_are_enough() {
    let (client, server, other) =
        (identity(&Identity::SUITES), identity(&Identity::SUITES), identity(&Identity::SUITES));
    let leaf = client.certificate.certificate.first().unwrap();
    for hash in FingerprintHash::ALL {
        let of_client = crate::association::of(hash, leaf).unwrap();
        let expected = [other.fingerprint(), of_client];
        let mut wire = Wire::expecting([&client, &server], [&[server.fingerprint()], &expected], 1);
        wire.run();
        wire.assert_keyed(CryptoSuite::AeadAes256Gcm);
    }
    let mut wire = Wire::expecting([&client, &server], [&[server.fingerprint()], &[]], 1);
    wire.run();
    assert_eq!(wire.ends[SERVER].failure, Some(DtlsFailure::WrongCertificate), "none is announced");
}

#[test]
fn an_unanswered_client_retransmits_at_doubling_intervals_and_gives_up() {
    let (client, server) = (identity(&Identity::SUITES), identity(&Identity::SUITES));
    let mut wire = Wire::new(&client, &server, 1);
    wire.lost = 1000;
    wire.run();
    assert_eq!(wire.ends[CLIENT].failure, Some(DtlsFailure::Unanswered));
    assert_eq!(wire.ends[CLIENT].sent, 8, "the first and seven retransmissions");
    let expected = 0.4 + 0.8 + 1.6 + 3.2 + 4.0 * 4.0;
    let taken = wire.now.since(Instant::from_secs(1000)).as_secs_f64();
    assert!((taken - expected).abs() < 0.01, "{taken}");
}

#[test]
fn a_lost_last_flight_is_sent_again_after_the_keys() {
    let (client, server) = (identity(&Identity::SUITES), identity(&Identity::SUITES));
    let mut wire = Wire::new(&client, &server, 1);
    while wire.ends[SERVER].keys.is_none() {
        let now = wire.now;
        for at in [CLIENT, SERVER] {
            wire.collect(at);
        }
        if wire.ends[SERVER].keys.is_some() {
            break;
        }
        for (_, to, datagram) in std::mem::take(&mut wire.flights) {
            wire.ends[to].association.on_datagram(now, &datagram);
        }
    }
    wire.flights.clear();
    assert!(wire.ends[CLIENT].keys.is_none());
    wire.run();
    wire.assert_keyed(CryptoSuite::AeadAes256Gcm);
}

/// A sender of forged datagrams reaches both ends before each datagram of the other.
#[test]
fn forged_records_in_plain_text_do_not_end_a_handshake() {
    let forged: [&[u8]; 6] = [
        // Alerts: handshake_failure, close_notify.
        &[21, 254, 253, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 2, 40],
        &[21, 254, 253, 0, 0, 0, 0, 0, 0, 1, 1, 0, 2, 1, 0],
        // Application data, an unknown type, a wrong ChangeCipherSpec, and a record that is cut off.
        &[23, 254, 253, 0, 0, 0, 0, 0, 0, 1, 2, 0, 1, 7],
        &[63, 254, 253, 0, 0, 0, 0, 0, 0, 1, 3, 0, 1, 7],
        &[20, 254, 253, 0, 0, 0, 0, 0, 0, 1, 4, 0, 1, 2],
        &[22, 254, 253, 0, 0, 0, 0, 0, 0, 1, 5, 0, 9, 1],
    ];
    for datagram in forged {
        let mut wire = Wire::new(&identity(&Identity::SUITES), &identity(&Identity::SUITES), 1);
        wire.forged = datagram.to_vec();
        wire.run();
        wire.assert_keyed(CryptoSuite::AeadAes256Gcm);
    }
}

/// Every datagram of a handshake, with bytes changed, cut off or appended: no panic, no keys that differ, and no
/// certificate but the right one.
#[test]
fn damaged_datagrams_never_give_wrong_keys() {
    let (client, server) = (identity(&Identity::SUITES), identity(&Identity::SUITES));
    let mut refused = 0;
    for seed in 0..400 {
        let mut wire = Wire::new(&client, &server, seed);
        let mut changes = Rng::new(&Seed::from_number(1_000_000 + seed));
        for _ in 0..40 {
            for at in [CLIENT, SERVER] {
                wire.collect(at);
            }
            let now = wire.now;
            let flights = std::mem::take(&mut wire.flights);
            if flights.is_empty() {
                wire.now = now + Duration::from_millis(500);
                wire.ends.iter_mut().for_each(|end| end.association.on_timeout(now));
            }
            for (_, to, mut datagram) in flights {
                if changes.random_bool(300) {
                    damage(&mut datagram, &mut changes);
                }
                wire.ends[to].association.on_datagram(now, &datagram);
            }
        }
        for at in [CLIENT, SERVER] {
            wire.collect(at);
        }
        let [client, server] = &wire.ends;
        assert_ne!(client.failure, Some(DtlsFailure::Internal), "a panic, seed {seed}");
        assert_ne!(server.failure, Some(DtlsFailure::Internal), "a panic, seed {seed}");
        match (&client.keys, &server.keys) {
            (Some(client), Some(server)) => assert_eq!(client.send, server.receive, "seed {seed}"),
            (Some(_), None) | (None, Some(_)) | (None, None) => refused += 1,
        }
    }
    assert!(refused > 0, "nothing was damaged");
}

fn damage(datagram: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(datagram.len() as u64) as usize;
    match rng.below(4) {
        0 => datagram.truncate(at),
        1 => datagram[at] ^= 1 << rng.below(8),
        2 => datagram[at] = rng.below(256) as u8,
        _ => datagram.extend((0..1 + rng.below(40)).map(|_| rng.below(256) as u8)),
    }
    // An empty rest is not a DTLS datagram.
    if datagram.is_empty() {
        datagram.push(22);
    }
}
