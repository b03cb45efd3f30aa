//! Tested: checks of ICE that the session answers (RFC 8445 §7.3), nomination, consent, and what is refused of addresses
//! that passed no check. Not tested here: the SDP (`ringway-sdp`), and a browser (`cargo xtask interop browser`).

use super::wire::{address, key, plain};
use super::*;
use crate::dtls::{DtlsAssociation, DtlsIdentity, DtlsKeys, DtlsOutput};
use crate::stun::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId, attribute};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::Outbox;
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, FingerprintHash, IceCredentials, IceParams};
use ringway_srtp::SrtpSender;

const SUITE: CryptoSuite = CryptoSuite::AesCm128HmacSha1_80;
/// First byte of a DTLS record; the rest does not matter to these associations.
const RECORD: [u8; 15] = [22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0];

/// Associations that have keys after one datagram of the peer, and send one themselves.
#[derive(Debug)]
struct Immediate;

struct Association(Vec<DtlsOutput>);

impl DtlsIdentity for Immediate {
    fn fingerprint(&self) -> Fingerprint {
        fingerprint(1)
    }

    fn associate(&self, role: DtlsRole, _: &[Fingerprint], _: Instant) -> Box<dyn DtlsAssociation> {
        let hello = (role == DtlsRole::Active).then(|| DtlsOutput::Datagram(RECORD.to_vec()));
        Box::new(Association(hello.into_iter().collect()))
    }
}

impl DtlsAssociation for Association {
    fn on_datagram(&mut self, _: Instant, _: &[u8]) {
        let keys = DtlsKeys { suite: SUITE, send: key(SUITE, 1), receive: key(SUITE, 2) };
        self.0.push(DtlsOutput::Keys(Box::new(keys)));
    }

    fn on_timeout(&mut self, _: Instant) {}

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn poll(&mut self) -> Option<DtlsOutput> {
        self.0.pop()
    }
}

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::new(FingerprintHash::Sha256, &[number; 32]).unwrap()
}

fn credentials(name: &str) -> IceCredentials {
    IceCredentials::new(
        format!("{name}frag").as_bytes(),
        format!("{name}-password-of-22-chars").replace('-', "+").as_bytes(),
    )
    .unwrap()
}

/// A session with ICE, and the time.
struct End {
    session: MediaSession,
    now: Instant,
}

impl End {
    fn new(role: DtlsRole) -> Self {
        let config = SessionConfig { dtls: Some(Arc::new(Immediate)), ..SessionConfig::default() };
        let now = Instant::from_secs(1000);
        let mut end = Self { session: MediaSession::new(config, Seed::from_number(1), now), now };
        end.agree(role, "peer");
        end
    }

    fn agree(&mut self, role: DtlsRole, peer: &str) {
        let protection = Protection::Dtls { role, fingerprints: [fingerprint(2)].into() };
        let ice = Some(IceParams { local: credentials("ours"), remote: credentials(peer) });
        // The default address of the peer's SDP is somebody else's.
        let remote = address(99, 5000);
        let params = MediaParams { rtcp_mux: true, remote_rtcp: remote, protection, ice, ..plain(remote) };
        self.session.set_params(self.now, params);
    }

    /// Delivers a datagram; returns all that is sent.
    fn deliver(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut out = Outbox::new();
        self.session.on_rtp(self.now, self.now, from, &mut datagram.to_vec(), &mut out);
        self.session.on_timeout(self.now, &mut out);
        out.packets().map(|(packet, bytes)| (packet.flow.remote, bytes.to_vec())).collect()
    }

    /// Destination of the next packet of sound.
    fn sound(&mut self) -> Option<SocketAddr> {
        self.session.prepare(self.now, &[0; 160]).map(|(_, to)| to)
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        self.session.on_timeout(self.now, &mut Outbox::new());
    }

    /// Nominates the address and does the handshake from it.
    fn connect(&mut self, from: SocketAddr) {
        assert_eq!(self.deliver(from, &nomination()).len(), 1);
        self.deliver(from, &RECORD);
    }
}

fn request() -> MessageWriter {
    MessageWriter::new(Class::Request, METHOD_BINDING, TransactionId([7; 12]))
        .attribute(attribute::USERNAME, b"oursfrag:peerfrag")
        .attribute(attribute::PRIORITY, &[0; 4])
}

/// Attributes of the controlling agent, our password and FINGERPRINT.
fn complete(request: MessageWriter) -> Vec<u8> {
    let request = request.attribute(attribute::ICE_CONTROLLING, &[9; 8]);
    request.integrity(credentials("ours").password().as_bytes()).finish_with_fingerprint()
}

fn check() -> Vec<u8> {
    complete(request())
}

fn nomination() -> Vec<u8> {
    complete(request().attribute(attribute::USE_CANDIDATE, &[]))
}

const PEER: u8 = 2;

#[test]
fn the_sample_messages_of_rfc_5769_have_the_integrity_of_their_password() {
    const PASSWORD: &[u8] = b"VOkJxbRl1RmTxUk/WvJxBt";
    let samples: [&[u8]; 3] = [
        include_bytes!("../../../../testdata/stun/rfc5769-2.1.bin"),
        include_bytes!("../../../../testdata/stun/rfc5769-2.2.bin"),
        include_bytes!("../../../../testdata/stun/rfc5769-2.3.bin"),
    ];
    for sample in samples {
        let message = Message::parse(sample).unwrap();
        assert!(message.has_integrity(PASSWORD));
        assert!(!message.has_integrity(b"VOkJxbRl1RmTxUk/WvJxBT") && !message.has_integrity(b""));
    }
    let own = check();
    for bit in 0..own.len() * 8 {
        let mut bytes = own.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let is_valid = |message: Message<'_>| {
            message.attribute(attribute::FINGERPRINT).is_some()
                && message.has_integrity(credentials("ours").password().as_bytes())
        };
        assert!(!Message::parse(&bytes).is_ok_and(is_valid), "bit {bit}");
    }
}

#[test]
fn a_check_is_answered_with_the_address_that_it_came_from() {
    for from in [address(PEER, 4000), "[2001:db8::2]:4000".parse().unwrap()] {
        let mut end = End::new(DtlsRole::Passive);
        // The smallest check that is accepted.
        let check = request().integrity(credentials("ours").password().as_bytes()).finish_with_fingerprint();
        let sent = end.deliver(from, &check);
        let [(to, response)] = sent.as_slice() else { panic!("{sent:?}") };
        let message = Message::parse(response).unwrap();
        assert_eq!((*to, message.class(), message.id()), (from, Class::Success, TransactionId([7; 12])));
        assert_eq!(message.xor_mapped_address(), Some(from));
        assert!(message.has_integrity(credentials("ours").password().as_bytes()));
        assert!(message.attribute(attribute::FINGERPRINT).is_some());
        assert!(response.len() <= check.len(), "{} bytes for {}", response.len(), check.len());
        assert_eq!(end.session.report().refused, Refused::default());
    }
}

#[test]
fn what_is_no_check_of_the_peer_gets_no_answer() {
    let ours = credentials("ours");
    let password = ours.password().as_bytes();
    let writer = |class| MessageWriter::new(class, METHOD_BINDING, TransactionId([7; 12]));
    let named = |name: &[u8]| {
        complete(
            writer(Class::Request)
                .attribute(attribute::USERNAME, name)
                .attribute(attribute::PRIORITY, &[0; 4]),
        )
    };
    let invalid = [
        request().integrity(b"another password of 22").finish_with_fingerprint(),
        request().finish_with_fingerprint(),
        request().integrity(password).finish(),
        writer(Class::Request).finish(),
        named(b"oursfrag:other"),
        named(b"oursfrag"),
        named(b"oursfrag:"),
        named(b"peerfrag:oursfrag"),
        named(b""),
        complete(writer(Class::Request).attribute(attribute::PRIORITY, &[0; 4])),
        complete(writer(Class::Request).attribute(attribute::USERNAME, b"oursfrag:peerfrag")),
        complete(request().attribute(0x0026, &[0; 4])),
        check()[..check().len() - 4].to_vec(),
        [&check()[..], &[0; 4]].concat(),
        [0, 1].to_vec(),
    ];
    let mut end = End::new(DtlsRole::Active);
    for datagram in &invalid {
        assert_eq!(end.deliver(address(PEER, 4000), datagram), Vec::new(), "{datagram:x?}");
    }
    let refused = end.session.report().refused;
    assert_eq!((refused.checks, refused.strangers), (invalid.len() as u64, 0));
    // An indication and a response are no requests.
    for class in [Class::Indication, Class::Success, Class::Error] {
        let other = writer(class).integrity(password).finish_with_fingerprint();
        assert_eq!(end.deliver(address(PEER, 4000), &other), Vec::new());
    }
    end.session.close(end.now, &mut Outbox::new());
    assert_eq!(end.deliver(address(PEER, 4000), &check()), Vec::new(), "after the end");
}

/// RFC 8489 §14.5: what is appended on the path counts for nothing, also with a new FINGERPRINT.
#[test]
fn attributes_behind_the_integrity_do_not_count() {
    let peer = address(PEER, 4000);
    let mut end = End::new(DtlsRole::Passive);
    let sealed = || request().integrity(credentials("ours").password().as_bytes());
    let nominating = sealed().attribute(attribute::USE_CANDIDATE, &[]).finish_with_fingerprint();
    let controlled = sealed().attribute(attribute::ICE_CONTROLLED, &[9; 8]).finish_with_fingerprint();
    for appended in [nominating, controlled] {
        let sent = end.deliver(peer, &appended);
        let [(_, response)] = sent.as_slice() else { panic!("{sent:?}") };
        assert_eq!(Message::parse(response).unwrap().class(), Class::Success);
    }
    end.deliver(peer, &RECORD);
    assert_eq!(end.sound(), None, "nobody nominated");
    let password = credentials("ours").password().as_bytes().to_vec();
    let unsealed =
        MessageWriter::new(Class::Request, METHOD_BINDING, TransactionId([7; 12])).integrity(&password);
    let unnamed =
        unsealed.attribute(attribute::USERNAME, b"oursfrag:peerfrag").attribute(attribute::PRIORITY, &[0; 4]);
    assert_eq!(end.deliver(peer, &unnamed.finish_with_fingerprint()), Vec::new(), "an empty check");
}

#[test]
fn a_peer_that_wants_to_be_controlled_gets_487() {
    let mut end = End::new(DtlsRole::Passive);
    let check = request().attribute(attribute::ICE_CONTROLLED, &[9; 8]);
    let check = check.integrity(credentials("ours").password().as_bytes()).finish_with_fingerprint();
    let sent = end.deliver(address(PEER, 4000), &check);
    let [(_, response)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(Message::parse(response).unwrap().error_code(), Some((487, &b""[..])));
    assert!(response.len() <= check.len());
    assert_eq!(end.deliver(address(PEER, 4000), &RECORD), Vec::new(), "it passed no check");
}

#[test]
fn nothing_is_sent_before_a_check_and_sound_only_after_the_nomination() {
    let peer = address(PEER, 4000);
    let mut end = End::new(DtlsRole::Active);
    let mut out = Outbox::new();
    end.session.on_timeout(end.now, &mut out);
    assert_eq!((out.packets().count(), end.sound()), (0, None));
    let waits = end.session.next_deadline().is_some_and(|deadline| deadline.at > end.now);
    assert!(waits, "no deadline that is never served: {:?}", end.session.next_deadline());
    // The first message of DTLS waits for the check.
    let sent = end.deliver(peer, &check());
    assert_eq!(sent.iter().map(|(to, bytes)| (*to, bytes[0])).collect::<Vec<_>>(), [(peer, 1), (peer, 22)]);
    end.deliver(peer, &RECORD);
    assert_eq!(end.session.report().security.map(|security| security.suite), Some(SUITE));
    assert_eq!(end.sound(), None, "nobody nominated");
    end.deliver(peer, &nomination());
    assert_eq!(end.sound(), Some(peer));
}

#[test]
fn a_handshake_without_any_check_fails_in_time() {
    let mut end = End::new(DtlsRole::Active);
    end.pass(21);
    let events: Vec<MediaEvent> = core::iter::from_fn(|| end.session.poll_event()).collect();
    assert!(
        matches!(events.as_slice(), [MediaEvent::SecurityFailed(SecurityFailure::Dtls(_))]),
        "{events:?}"
    );
}

/// A packet of the peer under its key.
fn packet(sequence: u8) -> Vec<u8> {
    let mut sender = SrtpSender::new(SUITE, &key(SUITE, 2)).unwrap();
    let mut room = [0; 200];
    room[..12].copy_from_slice(&[128, 8, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 9]);
    let len = sender.protect_rtp(&mut room, 172).unwrap();
    room[..len].to_vec()
}

#[test]
fn packets_from_an_address_that_passed_no_check_are_not_even_opened() {
    let (peer, stranger) = (address(PEER, 4000), address(3, 4000));
    let mut end = End::new(DtlsRole::Passive);
    end.connect(peer);
    // The peer's own key, the signalled address and DTLS do not help.
    for from in [stranger, address(99, 5000)] {
        for datagram in [packet(1), RECORD.to_vec(), [128, 200, 0, 1].to_vec(), [200; 40].to_vec()] {
            assert_eq!(end.deliver(from, &datagram), Vec::new());
        }
    }
    let report = end.session.report();
    assert_eq!((report.refused.strangers, report.received.counts.received), (8, 0));
    assert_eq!(end.sound(), Some(peer));
    end.deliver(peer, &packet(1));
    assert_eq!(end.session.report().received.counts.received, 1);
}

#[test]
fn the_peer_moves_by_a_nomination_and_by_nothing_else() {
    let (first, second) = (address(PEER, 4000), address(PEER, 6000));
    let mut end = End::new(DtlsRole::Passive);
    end.connect(first);
    end.deliver(second, &check());
    for number in 1..=10 {
        end.pass(1);
        end.deliver(second, &packet(number));
        assert_eq!(end.sound(), Some(first));
    }
    assert_eq!(end.session.report().received.counts.received, 10);
    end.deliver(second, &nomination());
    assert_eq!(end.sound(), Some(second));
}

#[test]
fn sending_stops_30_s_after_the_last_sign_and_goes_on_with_the_next_check() {
    let peer = address(PEER, 4000);
    let mut end = End::new(DtlsRole::Passive);
    end.connect(peer);
    end.pass(29);
    assert_eq!(end.sound(), Some(peer));
    end.deliver(peer, &check());
    end.pass(29);
    end.deliver(peer, &packet(1));
    end.pass(29);
    assert_eq!(end.sound(), Some(peer), "checks and authenticated packets count");
    // A replayed packet, a forged check and a packet of a stranger do not.
    end.deliver(peer, &packet(1));
    end.deliver(peer, &request().finish_with_fingerprint());
    end.deliver(address(3, 4000), &packet(2));
    end.pass(1);
    assert_eq!(end.sound(), None);
    end.deliver(peer, &check());
    assert_eq!(end.sound(), Some(peer));
}

#[test]
fn a_restart_keeps_the_address_until_the_next_nomination() {
    let (first, second) = (address(PEER, 4000), address(PEER, 6000));
    let mut end = End::new(DtlsRole::Passive);
    end.connect(first);
    end.agree(DtlsRole::Passive, "new");
    assert_eq!(end.sound(), Some(first));
    assert_eq!(end.deliver(second, &nomination()), Vec::new(), "the old credentials are not valid any more");
    let named = MessageWriter::new(Class::Request, METHOD_BINDING, TransactionId([7; 12]))
        .attribute(attribute::USERNAME, b"oursfrag:newfrag")
        .attribute(attribute::PRIORITY, &[0; 4])
        .attribute(attribute::USE_CANDIDATE, &[]);
    end.deliver(second, &complete(named));
    assert_eq!(end.sound(), Some(second));
}

#[test]
fn the_peer_can_make_us_keep_only_a_few_addresses() {
    let mut end = End::new(DtlsRole::Passive);
    end.connect(address(PEER, 4000));
    for port in 5000..5100 {
        end.deliver(address(PEER, port), &check());
    }
    let heard = |end: &mut End, port| {
        let before = end.session.report().refused.strangers;
        end.deliver(address(PEER, port), &[200; 40]);
        end.session.report().refused.strangers == before
    };
    assert!(heard(&mut end, 4000), "the nominated one stays");
    let kept = (5000..5100).filter(|port| heard(&mut end, *port)).count();
    assert_eq!(kept, 8);
}
