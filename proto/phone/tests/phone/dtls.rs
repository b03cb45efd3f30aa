//! Calls with DTLS-SRTP between two phones: their sessions exchange handshakes and sound over a link that loses and
//! reorders.

use crate::world::{ALICE, BOB, World};
use ringway_agent::{Account, Config, Listener, ServerAddress};
use ringway_dtls::Identity;
use ringway_media::MediaSession;
use ringway_media::dtls::{DtlsAssociation, DtlsIdentity};
use ringway_media::session::{MediaEvent, RTCP_PORT};
use ringway_phone::{
    CallMediaEvent, CallNumber, CryptoSuite, MediaCommand, Phone, PhoneCommand, PhoneConfig, PhoneError,
    PhoneEvent, Protection, Side, Signalling, SrtpPolicy,
};
use ringway_sansio::{Flow, Instant, Outbox, Rng, Seed, Transport};
use ringway_sdp::{DtlsRole, Fingerprint, KeyManagement};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A call between alice and bob with its media.
struct Talk {
    world: World,
    calls: [CallNumber; 2],
    rng: Rng,
    /// Per mille of the datagrams.
    lost: u32,
    /// Datagrams in transit: when, to whom, from which address, at which port.
    flights: Vec<(Instant, usize, Flow, Vec<u8>)>,
    received: [u64; 2],
}

fn identity() -> Arc<dyn DtlsIdentity> {
    Arc::new(Identity::new(&Identity::SUITES).unwrap())
}

/// Two phones with these policies.
fn world(policies: [SrtpPolicy; 2]) -> World {
    World::new(|place, config| {
        config.srtp = policies.get(place).copied().unwrap_or_default();
        config.session.dtls = Some(identity());
    })
}

impl Talk {
    fn new(mut world: World, seed: u64, lost: u32) -> Self {
        let (call, called) = world.talking(ALICE, BOB);
        let rng = Rng::new(&Seed::from_number(seed));
        Self { world, calls: [call, called], rng, lost, flights: Vec::new(), received: [0; 2] }
    }

    /// Runs the sessions for this many packet times.
    fn run(&mut self, packets: usize) {
        for _ in 0..packets {
            for at in [ALICE, BOB] {
                self.carry_out(at);
                self.on_session(at, |session, now, out| {
                    if let Some((packet, to)) = session.prepare(now, &[1000; 160]) {
                        out.send(
                            Flow::udp(ringway_media::session::RTP_PORT, to),
                            ringway_sansio::Token::NONE,
                            packet,
                        );
                    }
                });
            }
            let end = self.world.now + Duration::from_millis(20);
            while let Some(due) = self.next().filter(|due| *due <= end) {
                self.world.now = self.world.now.max(due);
                self.deliver();
                for at in [ALICE, BOB] {
                    self.on_session(at, MediaSession::on_timeout);
                }
            }
            self.world.now = end;
            self.world.pass(Duration::ZERO);
        }
        for at in [ALICE, BOB] {
            if let Some(session) = session(&mut self.world, at, self.calls[at]) {
                self.received[at] = session.report().received.counts.received;
            }
        }
    }

    /// Gives a session the parameters that its phone negotiated.
    fn carry_out(&mut self, at: usize) {
        for (call, command) in std::mem::take(&mut self.world.stations[at].commands) {
            let now = self.world.now;
            if let (MediaCommand::Params(params), Some(session)) =
                (command, session(&mut self.world, at, call))
            {
                session.set_params(now, *params);
            }
        }
    }

    fn next(&mut self) -> Option<Instant> {
        let mut due: Vec<Instant> = self.flights.iter().map(|(due, ..)| *due).collect();
        for at in [ALICE, BOB] {
            let deadline =
                session(&mut self.world, at, self.calls[at]).and_then(|session| session.next_deadline());
            due.extend(deadline.map(|deadline| deadline.at));
        }
        due.into_iter().min()
    }

    fn deliver(&mut self) {
        while let Some(at) = self.flights.iter().position(|(due, ..)| *due <= self.world.now) {
            let (_, to, flow, mut bytes) = self.flights.remove(at);
            self.on_session(to, |session, now, out| session.on_datagram(now, now, flow, &mut bytes, out));
        }
    }

    fn on_session(&mut self, at: usize, f: impl FnOnce(&mut MediaSession, Instant, &mut Outbox)) {
        let (now, call) = (self.world.now, self.calls[at]);
        let Some(session) = session(&mut self.world, at, call) else { return };
        let mut out = Outbox::new();
        f(session, now, &mut out);
        let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
        for (packet, bytes) in out.packets() {
            let port = packet.flow.listener;
            let source =
                SocketAddr::new(self.world.stations[at].address.ip(), 4000 + u16::from(port == RTCP_PORT));
            if self.rng.random_bool(self.lost) {
                continue;
            }
            let due = now + Duration::from_millis(1 + self.rng.below(if self.lost > 0 { 40 } else { 1 }));
            self.flights.push((due, 1 - at, Flow::udp(port, source), bytes.to_vec()));
        }
        for event in events {
            self.world.media(at, call, CallMediaEvent::Session(event));
        }
    }

    fn secured(&mut self, at: usize) -> Vec<Protection> {
        let events = self.world.events(at);
        let protection = |event: PhoneEvent| match event {
            PhoneEvent::Secured { protection, .. } => Some(protection),
            _ => None,
        };
        events.into_iter().filter_map(protection).collect()
    }
}

fn session(world: &mut World, at: usize, call: CallNumber) -> Option<&mut MediaSession> {
    let sessions = world.stations[at].sessions.iter_mut();
    sessions.map(|(of, session)| (*of, session)).find(|(of, _)| *of == call).map(|(_, session)| session)
}

const OPEN: Protection = Protection::Dtls { suite: CryptoSuite::AeadAes256Gcm, signalling: Signalling::Open };

#[test]
fn both_phones_report_dtls_and_what_protects_it() {
    for policies in [[SrtpPolicy::Dtls, SrtpPolicy::Best], [SrtpPolicy::Dtls, SrtpPolicy::Dtls]] {
        let mut talk = Talk::new(world(policies), 1, 0);
        assert!(talk.world.stations[ALICE].phone.call(talk.calls[ALICE]).unwrap().is_securing());
        talk.run(100);
        assert_eq!((talk.secured(ALICE), talk.secured(BOB)), (vec![OPEN], vec![OPEN]));
        assert!(talk.received.iter().all(|received| *received > 90), "{:?}", talk.received);
        assert!(!talk.world.stations[ALICE].phone.call(talk.calls[ALICE]).unwrap().is_securing());
    }
}

#[test]
fn a_hold_by_either_side_keeps_the_keys() {
    let mut talk = Talk::new(world([SrtpPolicy::Dtls, SrtpPolicy::Best]), 2, 0);
    talk.run(20);
    for at in [ALICE, BOB] {
        let call = talk.calls[at];
        talk.world.command(at, PhoneCommand::Hold { call });
        talk.run(20);
        talk.world.command(at, PhoneCommand::Resume { call });
        talk.run(50);
    }
    assert_eq!((talk.secured(ALICE), talk.secured(BOB)), (vec![OPEN], vec![OPEN]), "once");
    assert!(talk.received.iter().all(|received| *received > 100), "{:?}", talk.received);
}

#[test]
fn loss_and_disorder_delay_the_protection_and_nothing_is_sent_before() {
    let mut slow = 0;
    for seed in 0..10 {
        let mut talk = Talk::new(world([SrtpPolicy::Dtls, SrtpPolicy::Best]), seed, 150);
        talk.run(15);
        slow += usize::from(talk.secured(ALICE).is_empty());
        talk.run(950);
        assert!(talk.received.iter().all(|received| *received > 300), "seed {seed}: {:?}", talk.received);
        for at in [ALICE, BOB] {
            let call = talk.calls[at];
            let report = session(&mut talk.world, at, call).unwrap().report();
            assert_eq!(report.refused.auth_failures, 0, "seed {seed}: {report:?}");
            assert!(report.security.is_some());
        }
    }
    assert!(slow > 0, "nothing was lost");
}

/// Presents one certificate and announces another.
#[derive(Debug)]
struct Liar(Arc<dyn DtlsIdentity>, Arc<dyn DtlsIdentity>);

impl DtlsIdentity for Liar {
    fn fingerprint(&self) -> Fingerprint {
        self.1.fingerprint()
    }

    fn associate(&self, role: DtlsRole, announced: &[Fingerprint], now: Instant) -> Box<dyn DtlsAssociation> {
        self.0.associate(role, announced, now)
    }
}

#[test]
fn a_certificate_that_was_not_announced_ends_the_call_without_sound() {
    for liar in [ALICE, BOB] {
        let world = World::new(|place, config| {
            config.srtp = if place == ALICE { SrtpPolicy::Dtls } else { SrtpPolicy::Best };
            config.session.dtls =
                Some(if place == liar { Arc::new(Liar(identity(), identity())) } else { identity() });
        });
        let mut talk = Talk::new(world, 3, 0);
        talk.run(100);
        let honest = 1 - liar;
        let events = talk.world.events(honest);
        let failed = events.iter().find_map(|event| match event {
            PhoneEvent::SecurityFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        assert!(
            failed.as_ref().is_some_and(|why| why.contains("fingerprint that its SDP announced")),
            "{events:?}"
        );
        let ended = events.iter().find_map(|event| match event {
            PhoneEvent::Ended { by, reason, .. } => Some((*by, Some(reason.clone()))),
            _ => None,
        });
        assert_eq!(ended, Some((Side::Failure, failed)));
        assert_eq!(talk.received, [0, 0]);
        assert!(!events.iter().any(|event| matches!(event, PhoneEvent::Secured { .. })));
    }
}

#[test]
fn phones_without_dtls_in_common_have_no_call() {
    for policies in [
        [SrtpPolicy::Dtls, SrtpPolicy::Sdes],
        [SrtpPolicy::Dtls, SrtpPolicy::Zrtp],
        [SrtpPolicy::Dtls, SrtpPolicy::None],
        [SrtpPolicy::Sdes, SrtpPolicy::Dtls],
        [SrtpPolicy::None, SrtpPolicy::Dtls],
    ] {
        let mut world = world(policies);
        world.talking(ALICE, BOB);
        let refused = |event: &PhoneEvent| matches!(event, PhoneEvent::Ended { status: 488, .. });
        assert!(world.events(ALICE).iter().any(refused), "{policies:?}");
    }
}

#[test]
fn a_build_without_dtls_refuses_to_require_it_and_to_answer_it() {
    let address = SocketAddr::from(([192, 0, 2, 1], 5060));
    let account = Account::direct("sip:alice@192.0.2.1");
    let listener = Listener { transport: Transport::Udp, address };
    let config = PhoneConfig {
        srtp: SrtpPolicy::Dtls,
        ..PhoneConfig::new(Config::new(vec![account], vec![listener]))
    };
    let error = Phone::new(config, &Seed::from_number(1), Instant::from_secs(1)).err();
    assert_eq!(error, Some(PhoneError::NoDtls));
    let mut world = World::new(|place, config| {
        if place == ALICE {
            (config.srtp, config.session.dtls) = (SrtpPolicy::Dtls, Some(identity()));
        }
    });
    world.talking(ALICE, BOB);
    let refused = |event: &PhoneEvent| matches!(event, PhoneEvent::Ended { status: 488, .. });
    assert!(world.events(ALICE).iter().any(refused));
}

#[test]
fn fingerprints_are_protected_only_with_tls_to_the_server() {
    for (transport, signalling) in
        [(Transport::Tls, Signalling::TlsToServer), (Transport::Tcp, Signalling::Open)]
    {
        let mut world = World::new(|_, config| {
            config.srtp = SrtpPolicy::Dtls;
            config.session.dtls = Some(identity());
            let server = ServerAddress { host: "192.0.2.9".to_owned(), port: None, transport };
            config.agent.accounts[0].server = Some(server);
            config.agent.listeners[0].transport = transport;
        });
        let call = world.call(ALICE, BOB);
        let suite = CryptoSuite::AesCm128HmacSha1_80;
        let key_management = KeyManagement::Dtls;
        world.media(
            ALICE,
            call,
            CallMediaEvent::Session(MediaEvent::Secured { suite, key_management, sas: None }),
        );
        let expected = PhoneEvent::Secured { call, protection: Protection::Dtls { suite, signalling } };
        let events = world.events(ALICE);
        assert!(events.contains(&expected), "{events:?}");
    }
}
