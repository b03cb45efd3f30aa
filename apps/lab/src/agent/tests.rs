//! An agent and its campaigns on loopback. Tested: a running server that is watched, refusals, a second campaign, strangers and their
//! limits, an agent that goes away, TLS that it refuses. Not tested here: servers that it starts (`ringway`'s tests), two machines (`cargo xtask interop`).

use super::connection::STRANGER_TIME;
use super::frame::{GREETING_BYTES, Nonces, Sealer, Side, greeting, nonce_in};
use super::*;
use crate::server::program::ServerSetup;
use crate::server::{Carrier, NonceUse, Routing};
use crate::tls::TlsUse;
use ringway_tls::{Suite, TlsVersion};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Site {
    agent: Agent,
    key: AgentKey,
    notes: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

/// An agent that may watch this process, and start nothing.
fn site() -> Site {
    let mut programs = ProgramList::default();
    programs.watch(&format!("own={}:5060", std::process::id())).unwrap();
    site_with(programs)
}

fn site_with(programs: ProgramList) -> Site {
    let folder = tempfile::tempdir().unwrap();
    let key = AgentKey::generate().unwrap();
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let theirs = Arc::clone(&notes);
    let note = Box::new(move |text: &str| theirs.lock().unwrap().push(text.to_owned()));
    let settings = AgentSettings { key: key.clone(), programs, folder: folder.path().to_owned(), note };
    let agent = Agent::start("127.0.0.1:0".parse().unwrap(), settings).unwrap();
    Site { agent, key, notes, _folder: folder }
}

impl Site {
    fn access(&self) -> AgentAccess {
        AgentAccess::new(self.key.clone()).unwrap()
    }
}

const OWN: RemoteServer<'_> = RemoteServer::Running { name: "own" };

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True if the agent closes the connection without having sent more than its random bytes.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut received = Vec::new();
    // A reset is an end too.
    let _ = stream.read_to_end(&mut received);
    received.len() <= GREETING_BYTES
}

#[test]
fn a_running_server_is_watched() {
    let site = site();
    let access = site.access();
    let remote = access.start(site.agent.address(), OWN).unwrap();
    assert_eq!(remote.address(), "127.0.0.1:5060".parse::<SocketAddr>().unwrap());
    assert!(remote.is_same_machine() && remote.record().machine.contains("Linux"));
    let (first, memory) = (remote.read().unwrap(), remote.memory_bytes().unwrap());
    assert!(first.server_ns > 0 && first.busy_ns > 0 && memory > 100_000);
    until("CPU time is counted", || remote.read().unwrap().server_ns > first.server_ns);
    // It is not profiled, and the connection goes on.
    let error = remote.start_sampler().unwrap_err().to_string();
    assert!(error.starts_with("not available: a running server"), "{error}");
    assert!(remote.check().is_ok());
    // A campaign may have several.
    drop(access.start(site.agent.address(), OWN).unwrap());
    assert!(remote.read().is_ok());
    assert_eq!(site.agent.counts(), AgentCounts::default());
}

fn setup(carrier: Carrier) -> ServerSetup {
    ServerSetup {
        users: 4,
        routing: Routing::Stateful,
        digest: None,
        nonces: NonceUse::Count,
        presence: false,
        touches_memory: true,
        carrier,
    }
}

#[test]
fn what_is_not_on_the_list_is_refused() {
    let site = site();
    let setup = setup(Carrier::Udp);
    let refused = |server: RemoteServer<'_>| {
        site.access().start(site.agent.address(), server).map(drop).unwrap_err().to_string()
    };
    for name in ["ringway", "kamailio", "/bin/sh", "own"] {
        let error = refused(RemoteServer::Program { name, setup: &setup, tls: None });
        assert!(error.contains("is not on the agent's list, which has own"), "{error}");
    }
    let error = refused(RemoteServer::Running { name: "ringway" });
    assert!(error.contains("is not on the agent's list"), "{error}");
    until("the refusals are noted", || site.notes.lock().unwrap().len() == 5);
}

#[test]
fn tls_that_an_agent_cannot_give_is_refused() {
    let mut programs = ProgramList::default();
    // This test: no server, but no value gets as far as starting it.
    programs.allow("ringway", std::env::current_exe().unwrap()).unwrap();
    let site = site_with(programs);
    let started = |carrier: Carrier, tls: &TlsUse, authority: Option<&[u8]>| {
        let tls = authority.map(|authority| RemoteTls { tls, authority });
        let wanted = RemoteServer::Program { name: "ringway", setup: &setup(carrier), tls };
        format!("{:#}", site.access().start(site.agent.address(), wanted).map(drop).unwrap_err())
    };
    let usual = TlsUse::default();
    assert!(started(Carrier::Tls, &usual, None).contains("tls and TLS do not go together"));
    assert!(started(Carrier::Udp, &usual, Some(b"0")).contains("udp and TLS do not go together"));
    for wrong in [&b""[..], b"-----BEGIN CERTIFICATE-----", &[0x30, 0x82], &[0x30; 4097]] {
        let error = started(Carrier::Wss, &usual, Some(wrong));
        assert!(error.contains("an authority's certificate"), "{error}");
    }
    let suites = Suite::all().chain(Suite::all()).collect();
    let error = started(Carrier::Tls, &TlsUse { suites, ..usual.clone() }, Some(b"0"));
    assert!(error.contains("at most 32"), "{error}");
    if cfg!(not(feature = "legacy-tls")) {
        let old = TlsUse { version: Some(TlsVersion::V1_0), ..usual };
        let error = started(Carrier::Tls, &old, Some(b"0"));
        let begin =
            format!("not available: the agent at {}: TLS 1.0, P-256 needs OpenSSL", site.agent.address());
        assert!(error.starts_with(&begin), "{error}");
    }
}

#[test]
fn a_second_campaign_waits_for_the_end_of_the_first() {
    let site = site();
    let first = site.access().start(site.agent.address(), OWN).unwrap();
    let second = site.access();
    let error = second.start(site.agent.address(), OWN).map(drop).unwrap_err().to_string();
    assert!(error.contains("another campaign"), "{error}");
    assert_eq!(site.agent.counts().refused, 1);
    drop(first);
    until("the agent is free again", || second.start(site.agent.address(), OWN).is_ok());
}

#[test]
fn strangers_are_closed_and_counted() {
    let site = site();
    let connect = || TcpStream::connect(site.agent.address()).unwrap();
    // Not the protocol.
    let mut stream = connect();
    stream.write_all(&[b'G'; GREETING_BYTES]).unwrap();
    assert!(is_closed(&mut stream));
    // Too little: after a second.
    let mut stream = connect();
    stream.write_all(b"ringway-lab").unwrap();
    let begun = Instant::now();
    assert!(is_closed(&mut stream) && begun.elapsed() >= STRANGER_TIME / 2);
    // A frame that is too long for a stranger is not waited for.
    let greet = |stream: &mut TcpStream| {
        let campaign = [3; 32];
        stream.write_all(&greeting(&campaign)).unwrap();
        let mut bytes = [0; GREETING_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        Nonces { campaign, agent: nonce_in(&bytes).unwrap() }
    };
    let mut stream = connect();
    greet(&mut stream);
    stream.write_all(&257_u32.to_be_bytes()).unwrap();
    assert!(is_closed(&mut stream));
    // Another key; a replay of a frame of another connection.
    let mut stream = connect();
    let nonces = greet(&mut stream);
    let begin = br#"{"request":"begin","campaign":"x"}"#;
    let frame = Sealer::new(&AgentKey::generate().unwrap(), Side::Campaign, &nonces).seal(begin);
    stream.write_all(&frame).unwrap();
    assert!(is_closed(&mut stream));
    let replayed = Sealer::new(&site.key, Side::Campaign, &nonces).seal(begin);
    let mut stream = connect();
    greet(&mut stream);
    stream.write_all(&replayed).unwrap();
    assert!(is_closed(&mut stream));
    until("five strangers are counted", || site.agent.counts().strangers == 5);
    // The test of the test: the same bytes with the key are answered.
    let mut stream = connect();
    let nonces = greet(&mut stream);
    stream.write_all(&Sealer::new(&site.key, Side::Campaign, &nonces).seal(begin)).unwrap();
    assert!(stream.read(&mut [0; 16]).unwrap() > 0);
    assert_eq!(site.agent.counts().strangers, 5);
    assert!(site.notes.lock().unwrap().is_empty());
}

#[test]
fn a_campaign_with_another_key_gets_a_reason() {
    let site = site();
    let access = AgentAccess::new(AgentKey::generate().unwrap()).unwrap();
    let error = access.start(site.agent.address(), OWN).map(drop).unwrap_err();
    assert!(format!("{error:#}").contains("its key is another one"), "{error:#}");
}

#[test]
fn strangers_do_not_keep_a_campaign_out_for_longer_than_their_time() {
    let site = site();
    let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(site.agent.address()).unwrap()).collect();
    // The ninth is closed at once.
    let mut more = TcpStream::connect(site.agent.address()).unwrap();
    assert!(is_closed(&mut more));
    until("it is counted", || site.agent.counts().crowded == 1);
    until("the agent serves again", || site.access().start(site.agent.address(), OWN).is_ok());
    drop(idle);
}

#[test]
fn an_agent_that_goes_away_is_named() {
    let site = site();
    let remote = site.access().start(site.agent.address(), OWN).unwrap();
    remote.read().unwrap();
    let address = site.agent.address();
    drop(site);
    let error = remote.read().unwrap_err();
    assert!(format!("{error:#}").starts_with(&format!("the agent at {address} went away")), "{error:#}");
    let error = AgentAccess::new(AgentKey::generate().unwrap()).unwrap().start(address, OWN).map(drop);
    assert!(format!("{:#}", error.unwrap_err()).contains("cannot connect"));
}
