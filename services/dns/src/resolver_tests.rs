//! Against a DNS server of the tests' own. Tested: the records of a domain in order, absence and its cache, foreign ids, a
//! loop of CNAMEs, many records over TCP, silence, too many queries, names that do not exist, URIs of numbers.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, CNAME, NAPTR, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use ringway_sansio::{HostNameId, Transport};

use super::*;
use crate::limits::{EMPTY_MAX, QUERIES_MAX, QUERIES_OF_SOURCE_MAX};

pub(super) type Answered = (u64, u16, LocatedServers);

/// Records of a name; `None`: no answer at all.
type Zone = fn(&str, RecordType) -> Option<Vec<RData>>;

/// DNS server on loopback, by UDP and TCP; counts its questions.
struct Server {
    address: SocketAddr,
    questions: Arc<AtomicUsize>,
}

impl Server {
    fn start(zone: Zone) -> Self {
        let questions = Arc::new(AtomicUsize::new(0));
        let (address, tcp, udp) = bind();
        let count = Arc::clone(&questions);
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((length, from)) = udp.recv_from(&mut bytes) {
                count.fetch_add(1, Ordering::SeqCst);
                for answer in answers(zone, &bytes[..length], 1200) {
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = tcp.accept() {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
                    if stream.read_exact(&mut bytes).is_err() {
                        break;
                    }
                    for answer in answers(zone, &bytes, usize::from(u16::MAX)).into_iter().skip(1) {
                        let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                        let _ = stream.write_all(&[&length[..], &answer].concat());
                    }
                }
            }
        });
        Self { address, questions }
    }

    fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

/// The same free port by both transports.
pub(super) fn bind() -> (SocketAddr, TcpListener, UdpSocket) {
    let mut tries = (0..100).filter_map(|_| {
        let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
        let address = tcp.local_addr().ok()?;
        UdpSocket::bind(address).ok().map(|udp| (address, tcp, udp))
    });
    tries.next().expect("a port is free")
}

/// A forged answer with another id, then the true one; truncated above `bytes_max`.
fn answers(zone: Zone, question: &[u8], bytes_max: usize) -> Vec<Vec<u8>> {
    let question = Message::from_vec(question).unwrap();
    let asked = question.queries.first().unwrap();
    let name = asked.name().to_ascii().to_ascii_lowercase();
    let Some(records) = zone(name.trim_end_matches('.'), asked.query_type()) else { return Vec::new() };
    let message = |id, records: &[RData]| {
        let mut message = Message::response(id, OpCode::Query);
        message.add_query(asked.clone());
        if records.is_empty() {
            message.metadata.response_code = ResponseCode::NXDomain;
        }
        let mut owner = asked.name().clone();
        for data in records {
            message.add_answer(Record::from_rdata(owner.clone(), 300, data.clone()));
            if let RData::CNAME(CNAME(next)) = data {
                owner = next.clone();
            }
        }
        message
    };
    let id = question.metadata.id;
    let forged = message(id ^ 1, &[RData::A(A::new(198, 51, 100, 66))]).to_vec().unwrap();
    let mut bytes = message(id, &records).to_vec().unwrap();
    if bytes.len() > bytes_max {
        let mut cut = message(id, &records[..10]);
        cut.metadata.truncation = true;
        bytes = cut.to_vec().unwrap();
    }
    vec![forged, bytes]
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn srv(priority: u16, port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(priority, 10, port, name(target)))
}

fn e2u(order: u16, service: &str, regexp: &str) -> RData {
    let [flags, service, regexp] = ["u", service, regexp].map(|text| text.as_bytes().into());
    RData::NAPTR(NAPTR::new(order, 10, flags, service, regexp, Name::root()))
}

fn zone(asked: &str, of: RecordType) -> Option<Vec<RData>> {
    Some(match (asked, of) {
        ("example.org", RecordType::NAPTR) => {
            let tcp = name("_sip._tcp.example.org.");
            vec![RData::NAPTR(NAPTR::new(
                10,
                10,
                b"s".as_slice().into(),
                b"SIP+D2T".as_slice().into(),
                b"".as_slice().into(),
                tcp,
            ))]
        }
        ("_sip._tcp.example.org", RecordType::SRV) => {
            vec![srv(2, 5080, "b.example.org."), srv(1, 5070, "a.example.org.")]
        }
        ("a.example.org" | "plain.example", RecordType::A) => vec![RData::A(A::new(192, 0, 2, 1))],
        ("b.example.org", RecordType::A) => vec![RData::A(A::new(192, 0, 2, 2))],
        ("loop.example", RecordType::A) => vec![RData::CNAME(CNAME(name("loop.example.")))],
        ("_sip._udp.many.example", RecordType::SRV) => {
            (0..1000).map(|number| srv(number, 5060, "a.example.org.")).collect()
        }
        ("3.2.1.e164.example", RecordType::NAPTR) => vec![
            e2u(20, "E2U+sip", r"!^\+1(.*)$!sip:\1@second.example!"),
            e2u(10, "E2U+sip", r"!^\+1(.*)$!sip:\1@first.example!"),
            e2u(1, "E2U+email:mailto", "!^.*$!mailto:a@first.example!"),
        ],
        ("silent.example", _) => return None,
        _ => Vec::new(),
    })
}

fn start(server: &Server) -> (Resolver, Receiver<Answered>) {
    start_with(server, Duration::from_secs(5))
}

/// Resolver that gives a query up after `time`.
fn start_with(server: &Server, time: Duration) -> (Resolver, Receiver<Answered>) {
    let usable = Usable::default().with(Transport::Udp, true).with(Transport::Tcp, true);
    let (to, from) = channel();
    let answer = move |shard, event| {
        let Event::Resolved { query, servers } = event else { panic!("{event:?}") };
        let _ = to.send((query, shard, servers));
    };
    let servers = Servers::At(vec![server.address]);
    (Resolver::with_limits(&servers, Arc::default(), usable, answer, limits(time)).unwrap(), from)
}

/// A query is given up after `answer_max`; the thread competes with other processes as an equal, so that a busy machine does not
/// keep a test from its questions.
pub(super) fn limits(answer_max: Duration) -> Limits {
    Limits { answer_max, nice: 0 }
}

pub(super) fn target(host: &str) -> Target {
    Target { host: host.into(), port: None, transport: None, is_sips: false, draw: 1, source: None }
}

pub(super) fn next(answers: &Receiver<Answered>) -> (u64, Vec<String>) {
    let (query, _, servers) = answers.recv_timeout(Duration::from_secs(60)).unwrap();
    let text = |server: ringway_sansio::LocatedServer| format!("{} {}", server.transport, server.address);
    (query, servers.iter().map(text).collect())
}

#[test]
fn the_records_of_a_domain_give_its_servers_in_order() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    resolver.ask(3, 1, target("example.org"));
    assert_eq!(next(&answers), (1, vec!["tcp 192.0.2.1:5070".into(), "tcp 192.0.2.2:5080".into()]));
    let asked = server.questions();
    resolver.ask(3, 2, target("EXAMPLE.org"));
    assert_eq!(next(&answers).1.len(), 2);
    assert_eq!(server.questions(), asked, "all records are cached");
}

#[test]
fn a_name_without_records_is_asked_once() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    for query in 0..50 {
        resolver.ask(0, query, target("nobody.example"));
        assert_eq!(next(&answers), (query, Vec::new()));
    }
    assert!(server.questions() <= 6, "{}", server.questions());
}

#[test]
fn an_address_needs_no_lookup_and_a_name_gets_a_number() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    for host in ["192.0.2.7", "[::ffff:192.0.2.7]"] {
        resolver.ask(0, 1, target(host));
    }
    assert_eq!(next(&answers), (1, vec!["udp 192.0.2.7:5060".into()]));
    assert_eq!(next(&answers).1.len(), 0, "no listener for IPv6");
    resolver.ask(0, 2, target(&"x".repeat(300)));
    assert_eq!(next(&answers), (2, Vec::new()));
    assert_eq!(server.questions(), 0);
    resolver.ask(0, 3, Target { transport: Some(Transport::Tcp), ..target("plain.example") });
    let (_, _, servers) = answers.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_ne!(servers.first().unwrap().host, HostNameId::NONE);
}

#[test]
fn a_loop_of_names_ends() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    resolver.ask(0, 1, target("loop.example"));
    assert_eq!(next(&answers), (1, Vec::new()));
    assert!(server.questions() < 40, "{}", server.questions());
}

#[test]
fn many_records_come_over_tcp_and_few_are_used() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    resolver.ask(0, 1, target("many.example"));
    assert_eq!(next(&answers), (1, vec!["udp 192.0.2.1:5060".into()]));
    let asked = server.questions();
    assert!(asked <= 12, "{asked}");
    resolver.ask(0, 2, target("Many.example"));
    assert_eq!(next(&answers), (2, vec!["udp 192.0.2.1:5060".into()]));
    assert_eq!(server.questions(), asked, "the records are kept");
}

#[test]
fn a_silent_server_delays_its_own_names_only() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    resolver.ask(0, 1, target("silent.example"));
    resolver.ask(0, 2, target("plain.example"));
    assert_eq!(next(&answers), (2, vec!["udp 192.0.2.1:5060".into()]));
    assert_eq!(next(&answers), (1, Vec::new()));
    let asked = server.questions();
    resolver.ask(0, 3, target("Silent.example"));
    assert_eq!(next(&answers), (3, Vec::new()), "at once");
    assert_eq!(server.questions(), asked);
}

#[test]
fn queries_of_a_source_are_limited_and_all_are_answered() {
    let server = Server::start(|_, _| None);
    let (resolver, answers) = start(&server);
    let ask = |number: u64, source| {
        resolver.ask(0, number, Target { source, ..target(&format!("{number}.example")) });
    };
    let source = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
    let above = QUERIES_OF_SOURCE_MAX as u64;
    for number in 0..2 * above {
        ask(number, source(1));
    }
    assert_eq!(resolver.refused(), above);
    for number in 0..above {
        assert_eq!(next(&answers), (above + number, Vec::new()), "at once");
    }
    for _ in 0..above {
        assert!(next(&answers).0 < above);
    }
    assert!(resolver.shared.shares.begin(source(1)).is_some(), "there is room again");
    ask(5000, source(1));
    assert_eq!((resolver.refused(), next(&answers)), (above, (5000, Vec::new())));
    assert_eq!(resolver.refused_empty(), 0, "most waited for a turn, which is not the fault of their names");
}

#[test]
fn a_source_with_silent_names_does_not_delay_others() {
    let server = Server::start(|name, of| if name.contains("silent") { None } else { zone(name, of) });
    let (resolver, answers) = start(&server);
    resolver.ask(0, 0, target("example.org"));
    next(&answers);
    let many = QUERIES_OF_SOURCE_MAX as u64;
    for number in 1..=many {
        let source = Some(IpAddr::from([192, 0, 2, 1]));
        resolver.ask(0, number, Target { source, ..target(&format!("{number}.silent")) });
    }
    let other = Some(IpAddr::from([192, 0, 2, 2]));
    for (query, host) in [(many + 1, "example.org"), (many + 2, "plain.example")] {
        resolver.ask(0, query, Target { source: other, ..target(host) });
        let (first, servers) = next(&answers);
        assert_eq!(first, query, "cached or not, it does not wait");
        assert!(!servers.is_empty());
    }
}

#[test]
fn a_name_that_waits_behind_silent_names_is_not_taken_for_one() {
    let server = Server::start(|name, of| if name.starts_with("silent") { None } else { zone(name, of) });
    let (resolver, answers) = start(&server);
    let silent = 2 * LOOKUPS_MAX as u64;
    for number in 0..silent {
        let source = Some(IpAddr::from([192, 0, 2, u8::try_from(number % 16).unwrap()]));
        resolver.ask(0, number, Target { source, ..target(&format!("silent{number}.example")) });
    }
    let other = Some(IpAddr::from([192, 0, 2, 200]));
    resolver.ask(0, silent, Target { source: other, ..target("plain.example") });
    for _ in 0..=silent {
        next(&answers);
    }
    resolver.ask(0, silent + 1, target("plain.example"));
    assert_eq!(next(&answers), (silent + 1, vec!["udp 192.0.2.1:5060".into()]));
}

#[test]
fn a_trunk_does_not_wait_behind_silent_names_of_peers() {
    // Names of peers that the server was asked for, and how many it was asked for before the trunk's.
    static OF_PEERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    static BEFORE: OnceLock<usize> = OnceLock::new();
    let server = Server::start(|name, of| {
        let mut of_peers = OF_PEERS.lock().unwrap();
        if name.ends_with("plain.example") {
            BEFORE.get_or_init(|| of_peers.len());
            return zone(name, of);
        }
        of_peers.insert(name.to_owned());
        None
    });
    let (resolver, answers) = start_with(&server, Duration::from_secs(60));
    for number in 0..QUERIES_MAX as u64 {
        let source = Some(IpAddr::from([192, 0, 2, u8::try_from(number % 16).unwrap()]));
        resolver.ask(0, number, Target { source, ..target(&format!("silent{number}.example")) });
    }
    let own = QUERIES_MAX as u64;
    resolver.ask(0, own, target("plain.example"));
    while next(&answers).0 != own {}
    let before = BEFORE.get().expect("the server was asked for the trunk");
    assert!(*before < 2 * LOOKUPS_MAX, "it waited behind {before} names of peers");
    assert!(resolver.refused() >= own / 4, "a quarter is left to it: {}", resolver.refused());
}

#[test]
fn the_records_of_a_number_give_its_uris() {
    let server = Server::start(|name, of| if name.ends_with("silent.zone") { None } else { zone(name, of) });
    let usable = Usable::default();
    let (to, from) = channel();
    let answer = move |shard, event| to.send((shard, event)).unwrap();
    let servers = Servers::At(vec![server.address]);
    let limits = limits(Duration::from_secs(2));
    let resolver = Resolver::with_limits(&servers, Arc::default(), usable, answer, limits).unwrap();
    let ask = |query, digits: &str, zones: &[&str]| {
        let zones = zones.iter().map(|&zone| zone.into()).collect();
        resolver.ask_number(7, query, NumberTarget { digits: digits.into(), zones, source: None });
        match from.recv_timeout(Duration::from_secs(20)).unwrap() {
            (7, Event::NumberResolved { query: answered, uris }) => {
                assert_eq!(answered, query);
                uris.into_vec()
            }
            other => panic!("{other:?}"),
        }
    };
    let first: [Box<str>; 1] = ["sip:23@first.example".into()];
    assert_eq!(ask(1, "123", &["none.example", "E164.example"]), first);
    let asked = server.questions();
    assert_eq!(ask(2, "123", &["none.example", "e164.example"]), first);
    assert_eq!(server.questions(), asked, "absence and records are cached");
    assert_eq!(ask(3, "124", &["e164.example"]), []);
    assert_eq!(ask(4, "12x", &["e164.example"]), []);
    assert_eq!(ask(5, "123", &["silent.zone"]), [], "after its time");
    let began = Instant::now();
    assert_eq!(ask(6, "123", &["silent.zone"]), []);
    assert!(began.elapsed() < Duration::from_secs(1), "it is not asked again at once");
}

#[test]
fn a_storm_of_names_that_do_not_exist_is_ended_for_its_source_only() {
    let server = Server::start(zone);
    let (resolver, answers) = start(&server);
    let (storm, other) = (Some(IpAddr::from([192, 0, 2, 1])), Some(IpAddr::from([192, 0, 2, 2])));
    resolver.ask(0, 0, target("example.org"));
    next(&answers);
    let mut number = 0;
    let mut ask = |source| {
        number += 1;
        let host = format!("{number}.nowhere.example");
        resolver.ask(0, number, Target { source, port: Some(5060), ..target(&host) });
        assert_eq!(next(&answers), (number, Vec::new()));
    };
    (0..EMPTY_MAX).for_each(|_| ask(storm));
    let asked = server.questions();
    (0..EMPTY_MAX).for_each(|_| ask(storm));
    assert_eq!(
        (server.questions(), resolver.refused_empty()),
        (asked, EMPTY_MAX as u64),
        "no DNS server was asked"
    );
    ask(other);
    assert!(server.questions() > asked);
    resolver.ask(0, 5000, Target { source: storm, ..target("example.org") });
    assert_eq!(next(&answers).1.len(), 2, "what is cached is answered");
}
