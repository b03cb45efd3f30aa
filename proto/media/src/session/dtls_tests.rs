//! Tested: the session's rules for DTLS, with a scripted association: whose datagrams are accepted, roles, limits, the
//! two ports, changed parameters. Not tested here: the handshake (`ringway-dtls`).

use super::wire::{Faults, Wire, address, blocks_of_tone, key, plain};
use super::*;
use crate::dtls::{DtlsAssociation, DtlsFailure, DtlsIdentity, DtlsKeys, DtlsOutput, is_first_message};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use ringway_sansio::Outbox;
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, FingerprintHash};

const SUITE: CryptoSuite = CryptoSuite::AesCm128HmacSha1_80;
const PERFECT: Faults = Faults { lost: 0, duplicated: 0, reordered: 0, jitter_ms: 0 };

/// A ClientHello as a session recognises it, with the number of the sender's certificate at the end.
const HELLO: [u8; 15] = [22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0];

/// Number of a sender whose message with a cookie is the last one.
const UNFINISHED: u8 = 77;

/// A first message, without a cookie.
fn first(number: u8) -> Vec<u8> {
    [&HELLO[..14], &[0, 0, 0, 0, 0, number]].concat()
}

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::new(FingerprintHash::Sha256, &[number; 32]).unwrap()
}

/// Makes associations that exchange one message each, with the number of their certificate in its last byte.
#[derive(Debug)]
struct Scripted {
    number: u8,
    begun: AtomicU32,
}

struct Exchange {
    number: u8,
    /// Associations that began before: each has other keys.
    count: u8,
    role: DtlsRole,
    announced: Vec<Fingerprint>,
    output: VecDeque<DtlsOutput>,
    resend: Option<Instant>,
}

impl DtlsIdentity for Scripted {
    fn fingerprint(&self) -> Fingerprint {
        fingerprint(self.number)
    }

    fn associate(&self, role: DtlsRole, announced: &[Fingerprint], now: Instant) -> Box<dyn DtlsAssociation> {
        let count = self.begun.fetch_add(1, Ordering::Relaxed) as u8;
        let (number, announced) = (self.number, announced.to_vec());
        let mut exchange = Exchange { number, count, role, announced, output: VecDeque::new(), resend: None };
        if role == DtlsRole::Active {
            exchange.hello(now);
        }
        Box::new(exchange)
    }
}

impl Exchange {
    fn hello(&mut self, now: Instant) {
        let mut hello = HELLO.to_vec();
        hello[14] = self.number;
        self.output.push_back(DtlsOutput::Datagram(hello));
        self.resend = (self.role == DtlsRole::Active).then(|| now + Duration::from_millis(100));
    }
}

impl DtlsAssociation for Exchange {
    fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let peer = *datagram.last().unwrap();
        if is_first_message(datagram) {
            // HelloVerifyRequest.
            return self.output.push_back(DtlsOutput::Datagram([&HELLO[..13], &[3]].concat()));
        }
        if peer == UNFINISHED {
            return;
        }
        if !self.announced.contains(&fingerprint(peer)) {
            self.output.push_back(DtlsOutput::Failed(DtlsFailure::WrongCertificate));
            return;
        }
        if self.role == DtlsRole::Passive {
            self.hello(now);
        }
        self.resend = None;
        let number = |certificate: u8| certificate | self.count << 4;
        let (send, receive) = (key(SUITE, number(self.number)), key(SUITE, number(peer)));
        self.output.push_back(DtlsOutput::Keys(Box::new(DtlsKeys { suite: SUITE, send, receive })));
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.resend.is_some_and(|due| due <= now) {
            self.hello(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.resend
    }

    fn poll(&mut self) -> Option<DtlsOutput> {
        self.output.pop_front()
    }
}

fn config(number: u8) -> SessionConfig {
    let dtls: Arc<dyn DtlsIdentity> = Arc::new(Scripted { number, begun: AtomicU32::new(0) });
    SessionConfig { dtls: Some(dtls), ..SessionConfig::default() }
}

/// Two ends; the first is active. End 0 has certificate 1, end 1 has certificate 2.
fn wire(faults: Faults) -> Wire {
    Wire::with_configs(1, [config(1), config(2)], faults)
}

fn dtls(params: MediaParams, end: usize, rtcp_mux: bool) -> MediaParams {
    let role = [DtlsRole::Active, DtlsRole::Passive][end];
    let fingerprints = [fingerprint(2 - end as u8)].into();
    let remote_rtcp = if rtcp_mux { params.remote } else { params.remote_rtcp };
    MediaParams { rtcp_mux, remote_rtcp, protection: Protection::Dtls { role, fingerprints }, ..params }
}

fn secured(wire: &Wire, end: usize) -> usize {
    let is_secured = |event: &&MediaEvent| {
        matches!(event, MediaEvent::Secured { sas: None, key_management: KeyManagement::Dtls, .. })
    };
    wire.ends[end].events.iter().filter(is_secured).count()
}

fn failure(wire: &Wire, end: usize) -> Option<SecurityFailure> {
    wire.ends[end].events.iter().find_map(|event| match event {
        MediaEvent::SecurityFailed(failure) => Some(*failure),
        _ => None,
    })
}

/// A ClientHello with this certificate.
fn hello(number: u8) -> [u8; 15] {
    let mut hello = HELLO;
    hello[14] = number;
    hello
}

#[test]
fn sound_flows_after_the_handshake_and_never_before() {
    for (rtcp_mux, faults) in [
        (true, PERFECT),
        (false, PERFECT),
        (false, Faults { lost: 100, duplicated: 100, reordered: 100, jitter_ms: 5 }),
    ] {
        let mut wire = wire(faults);
        wire.agree(|params, end| dtls(params, end, rtcp_mux));
        wire.run(600);
        for (end, period) in [(0, 20), (1, 16)] {
            let report = wire.ends[end].session.report();
            assert_eq!((secured(&wire, end), failure(&wire, end)), (1, None));
            assert_eq!(report.security, Some(Security { key_management: KeyManagement::Dtls, suite: SUITE }));
            assert!(blocks_of_tone(&wire.ends[end].played, period) >= 300);
            assert!(report.reports_received > 0, "RTCP is protected too: {report:?}");
            assert_eq!(report.refused.auth_failures, 0, "{report:?}");
            assert!(wire.ends[end].sent.iter().all(|bytes| bytes.len() != 172), "unencrypted");
        }
    }
}

#[test]
fn parameters_with_the_same_certificates_keep_the_keys_and_others_begin_again() {
    let mut wire = wire(PERFECT);
    wire.agree(|params, end| dtls(params, end, false));
    wire.run(10);
    wire.agree(|params, end| dtls(MediaParams { direction: Direction::Inactive, ..params }, end, false));
    wire.agree(|params, end| dtls(params, end, false));
    wire.run(10);
    assert_eq!((secured(&wire, 0), secured(&wire, 1)), (1, 1));
    wire.agree(|params, end| {
        let params = dtls(params, end, false);
        let Protection::Dtls { role, mut fingerprints } = params.protection else { panic!() };
        fingerprints.push(fingerprint(9));
        MediaParams { protection: Protection::Dtls { role, fingerprints }, ..params }
    });
    assert!(wire.ends[0].session.report().security.is_none(), "until the new handshake is done");
    wire.run(50);
    assert_eq!((secured(&wire, 0), secured(&wire, 1)), (2, 2));
    assert!(wire.ends[0].session.is_sending());
}

#[test]
fn a_wrong_certificate_ends_the_protection_and_nothing_is_sent() {
    let mut wire = Wire::with_configs(1, [config(1), config(7)], PERFECT);
    wire.agree(|params, end| dtls(params, end, true));
    wire.run(50);
    assert_eq!(failure(&wire, 0), Some(SecurityFailure::Dtls(DtlsFailure::WrongCertificate)));
    for end in &wire.ends {
        assert!(!end.session.is_sending() || end.session.report().security.is_some());
    }
    assert!(!wire.ends[0].session.is_sending());
    let reason = failure(&wire, 0).unwrap();
    assert!(alloc::format!("{reason}").contains("fingerprint that its SDP announced"));
}

#[test]
fn a_silent_peer_ends_the_handshake_after_twenty_seconds() {
    let mut wire = wire(Faults { lost: 1000, ..PERFECT });
    wire.agree(|params, end| dtls(params, end, true));
    wire.run(999);
    assert_eq!((failure(&wire, 0), failure(&wire, 1)), (None, None));
    wire.run(2);
    let unanswered = Some(SecurityFailure::Dtls(DtlsFailure::Unanswered));
    assert_eq!((failure(&wire, 0), failure(&wire, 1)), (unanswered, unanswered));
}

#[test]
fn a_session_without_dtls_refuses_it() {
    let mut wire = Wire::with_configs(1, [SessionConfig::default(), config(2)], PERFECT);
    wire.agree(|params, end| dtls(params, end, true));
    assert_eq!(failure(&wire, 0), Some(SecurityFailure::NoDtls));
    assert!(!wire.ends[0].session.is_sending());
}

#[test]
fn a_passive_session_finds_its_peer_behind_a_nat() {
    let mut wire = wire(Faults { lost: 1000, ..PERFECT });
    wire.agree(|params, end| dtls(params, end, true));
    let outside = address(99, 9999);
    let out = wire.inject(1, outside, &hello(1));
    let sent: Vec<_> = out.packets().map(|(packet, _)| packet.flow.remote).collect();
    assert_eq!(sent, [outside]);
    assert_eq!((secured(&wire, 1), wire.ends[1].session.report().target), (1, Some(outside)));
}

#[test]
fn strangers_can_delay_a_handshake_and_not_end_it() {
    let identity = Arc::new(Scripted { number: 2, begun: AtomicU32::new(0) });
    let shared: Arc<dyn DtlsIdentity> = identity.clone();
    let passive = SessionConfig { dtls: Some(shared), ..SessionConfig::default() };
    let mut wire = Wire::with_configs(1, [config(1), passive], Faults { lost: 1000, ..PERFECT });
    wire.agree(|params, end| dtls(params, end, true));
    let mut refused = 0;
    for number in 0..50 {
        let stranger = address(66, 1000 + number);
        assert!(wire.inject(1, stranger, &[22, 254, 253]).is_empty(), "no first message");
        assert!(wire.inject(1, stranger, &hello(66)).is_empty(), "wrong certificate");
        assert!(wire.inject(0, stranger, &hello(66)).is_empty(), "an active session wants nobody else");
        refused += 2;
    }
    let strangers = wire.ends[1].session.report().refused.strangers;
    assert_eq!((strangers, wire.ends[0].session.report().refused.strangers), (refused, 50));
    assert_eq!((failure(&wire, 0), failure(&wire, 1)), (None, None));
    assert_eq!(identity.begun.load(Ordering::Relaxed), 1 + 8, "no more handshakes with strangers");
    let peer = wire.ends[0].address;
    assert!(!wire.inject(1, peer, &hello(1)).is_empty());
    assert_eq!(secured(&wire, 1), 1);
    assert!(wire.inject(1, address(66, 6), &hello(1)).is_empty(), "it is over");
}

/// One datagram, also one with the address of the SDP, would otherwise end the call of a peer behind a NAT.
#[test]
fn one_datagram_of_a_stranger_does_not_keep_the_peer_out() {
    let (stranger, outside) = (address(66, 6666), address(99, 9999));
    for (has_signalled_address, has_cookie, waits_s) in
        [(false, false, 0), (false, true, 5), (true, false, 5)]
    {
        let mut wire = wire(Faults { lost: 1000, ..PERFECT });
        wire.agree(|params, end| dtls(params, end, true));
        let from = if has_signalled_address { wire.ends[0].address } else { stranger };
        assert!(!wire.inject(1, from, &first(66)).is_empty());
        if has_cookie {
            assert!(wire.inject(1, from, &hello(UNFINISHED)).is_empty());
        }
        if waits_s > 0 {
            assert!(wire.inject(1, outside, &first(1)).is_empty(), "not before");
            wire.now = wire.now + Duration::from_secs(waits_s);
        }
        assert_eq!(wire.inject(1, outside, &first(1)).packets().count(), 1);
        assert!(!wire.inject(1, outside, &hello(1)).is_empty());
        assert_eq!((secured(&wire, 1), failure(&wire, 1)), (1, None));
    }
}

#[test]
fn the_signalled_address_comes_before_others_by_a_first_message_only() {
    let mut wire = wire(Faults { lost: 1000, ..PERFECT });
    wire.agree(|params, end| dtls(params, end, true));
    let (peer, outside) = (wire.ends[0].address, address(99, 9999));
    wire.inject(1, outside, &first(1));
    for _ in 0..20 {
        assert!(wire.inject(1, peer, &[22, 254, 253]).is_empty());
    }
    assert_eq!(wire.inject(1, peer, &first(1)).packets().next().unwrap().0.flow.remote, peer);
    assert!(!wire.inject(1, peer, &hello(1)).is_empty());
    assert!(wire.inject(1, outside, &first(1)).is_empty(), "the peer has shown itself");
    assert_eq!(secured(&wire, 1), 1);
}

#[test]
fn an_early_first_message_waits_for_the_sdp() {
    let mut wire = wire(Faults { lost: 1000, ..PERFECT });
    let peer = wire.ends[0].address;
    assert!(wire.inject(1, peer, &hello(1)).is_empty());
    let params = dtls(plain(peer), 1, true);
    wire.ends[1].session.set_params(wire.now, params);
    let mut out = Outbox::new();
    wire.ends[1].session.on_timeout(wire.now, &mut out);
    assert_eq!(out.packets().count(), 1, "answered at once");
    assert!(matches!(wire.ends[1].session.poll_event(), Some(MediaEvent::Secured { .. })));
}

#[test]
fn a_handshake_has_a_limit_of_bytes() {
    let mut wire = wire(Faults { lost: 1000, ..PERFECT });
    wire.agree(|params, end| dtls(params, end, true));
    let peer = wire.ends[0].address;
    let mut long = alloc::vec![1; 1500];
    long[..15].copy_from_slice(&hello(1));
    for _ in 0..100 {
        wire.inject(1, peer, &long);
    }
    assert_eq!(wire.ends[1].session.report().refused.dtls_excess, 100 - 65_536 / 1500);
    assert_eq!(failure(&wire, 1), None);
}

#[test]
fn dtls_without_an_agreement_is_counted() {
    let mut wire = wire(PERFECT);
    wire.agree(|params, _| params);
    let peer = wire.ends[1].address;
    assert!(wire.inject(0, peer, &hello(2)).is_empty());
    assert!(wire.inject(0, address(66, 1), &hello(2)).is_empty());
    let refused = wire.ends[0].session.report().refused;
    assert_eq!((refused.unknown, refused.strangers), (1, 1));
    wire.close(0);
    assert!(wire.inject(0, peer, &hello(2)).is_empty());
    assert_eq!(wire.ends[0].session.report().refused.after_end, 1);
}
