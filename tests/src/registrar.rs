//! Model of the registrar: what its responses must say, who must be reachable, and which digests are used up.
//!
//! It reads the trace of a story: the server's response to a REGISTER has the bindings after it (RFC 3261 §10.3), and they are those
//! of the response before with what the request changed and what has expired. So the model says at any time who is
//! registered where.

use crate::check::is_from;
use ringway_sansio::{Instant, Transport};
use ringway_sim::{Fate, Trace, TracedPacket};
use ringway_sip::{HeaderName, Limits, Message, Method, NameAddr, Start, StreamFramer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Bindings of all users, as far as the trace is read.
#[derive(Default)]
struct Model {
    /// Expiry by contact, by user.
    users: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Instant>>,
    /// Times at which bindings were removed.
    removed: BTreeMap<(Vec<u8>, Vec<u8>), Instant>,
    /// Bytes of requests that reached the server.
    requests: BTreeMap<Request, Vec<u8>>,
    /// Requests that the server has sent on.
    forwarded: BTreeSet<Request>,
    branches: BTreeSet<Vec<u8>>,
    /// Digests by nonce and count, with the request that was accepted with one.
    digests: BTreeMap<Vec<u8>, Request>,
}

/// A request, whatever its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    call_id: Vec<u8>,
    cseq: u32,
    method: Vec<u8>,
}

/// Rules of a story.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Requests to users go to their bindings alone: nobody forwards.
    pub(crate) only_bindings: bool,
    /// Maximum number of bindings of a user.
    pub(crate) contacts_max: usize,
}

/// Panics where the server did not do what the model of the registrar says.
///
/// A response to REGISTER lists the bindings of the model. A request to a user goes to bindings of the model, and a user with one is
/// not said to be absent. A digest is accepted for one request.
pub(crate) fn check(trace: &Trace, server: SocketAddr, rules: Rules) {
    assert_eq!(trace.forgotten(), 0, "the story is too long to be checked");
    let mut model = Model::default();
    let messages =
        trace.packets().flat_map(|seen| messages_of(seen).into_iter().map(move |bytes| (seen, bytes)));
    for (seen, bytes) in messages {
        let Ok(message) = Message::parse(&bytes, &Limits::default()) else { continue };
        let is_ours = is_from(seen, server);
        match (is_ours, message.start()) {
            (false, Start::Request { .. }) if seen.to == server && seen.fate != Fate::Lost => {
                model.requests.entry(Request::of(&message)).or_insert_with(|| bytes.clone());
            }
            (true, Start::Request { uri, .. }) => model.on_forwarded(seen, &message, uri.as_bytes(), rules),
            (true, Start::Response { status, .. }) => model.on_response(seen, &message, *status, rules),
            (false, _) => {}
        }
    }
}

impl Request {
    fn of(message: &Message<'_>) -> Self {
        let cseq = message.cseq();
        Self {
            call_id: message.call_id().to_vec(),
            cseq: cseq.number,
            method: cseq.method.as_bytes().to_vec(),
        }
    }
}

impl Model {
    fn on_response(&mut self, seen: &TracedPacket, message: &Message<'_>, status: u16, rules: Rules) {
        let request = Request::of(message);
        let is_accepted = !matches!(status, 100 | 401 | 407 | 500 | 503);
        match message.cseq().method {
            Method::Register if status == 200 => {
                self.accept_digest(seen, &request);
                self.on_registered(seen, message, &request);
                self.check_room(seen, message, rules);
            }
            Method::Invite | Method::Message if is_accepted && rules.only_bindings => {
                self.nobody_is_absent(seen, message, (&request, status));
            }
            _ => {}
        }
    }

    /// Takes the change of a REGISTER, and compares the bindings with those of the response.
    fn on_registered(&mut self, seen: &TracedPacket, message: &Message<'_>, request: &Request) {
        let text = String::from_utf8_lossy(&seen.bytes);
        let bytes =
            self.requests.get(request).unwrap_or_else(|| panic!("nobody sent the REGISTER of\n{text}"));
        let asked = Message::parse(bytes, &Limits::default()).expect("it was parsed before");
        let listed: BTreeMap<Vec<u8>, u64> = contacts(message).into_iter().collect();
        let user = user_of(message);
        let bindings = self.users.entry(user.clone()).or_default();
        bindings.retain(|_, expiry| *expiry + TOLERANCE > seen.at);
        let default = asked.first(HeaderName::Expires).and_then(seconds);
        for value in asked.values(HeaderName::Contact) {
            let contact = NameAddr::parse(value).expect("phones write valid contacts");
            let wanted = contact.params.value(b"expires").map_or(default, seconds);
            let uri = contact.uri.as_bytes().to_vec();
            match (wanted, listed.get(&uri)) {
                (Some(0), None) => {
                    bindings.remove(&uri);
                    self.removed.insert((user.clone(), uri), seen.at);
                }
                (Some(0), Some(_)) => panic!("a binding that was removed is listed:\n{text}"),
                (_, None) => panic!("a binding is missing:\n{text}"),
                (wanted, Some(granted)) => {
                    let is_asked_for = |wanted| *granted <= wanted && wanted <= granted + AGAIN_S;
                    assert!(wanted.is_none_or(is_asked_for), "another time than was asked for:\n{text}");
                    bindings.insert(uri, seen.at + Duration::from_secs(*granted));
                }
            }
        }
        for (uri, granted) in &listed {
            let expiry =
                bindings.get(uri).unwrap_or_else(|| panic!("nobody registered {granted} s of\n{text}"));
            let (said, known) = (seen.at + Duration::from_secs(*granted), *expiry);
            let is_near = said <= known + TOLERANCE && known <= said + TOLERANCE;
            assert!(is_near, "another expiry of {}:\n{text}", String::from_utf8_lossy(uri));
        }
        // The end of a connection ends its bindings, and one that expires just now may be gone.
        let at = seen.at;
        bindings.retain(|uri, expiry| {
            let may_be_gone = is_of_a_connection(uri) || *expiry <= at + TOLERANCE;
            let is_listed = listed.contains_key(uri);
            assert!(
                is_listed || may_be_gone,
                "a binding is lost: {} in\n{text}",
                String::from_utf8_lossy(uri)
            );
            is_listed
        });
    }

    /// No user has more bindings than may be.
    fn check_room(&self, seen: &TracedPacket, message: &Message<'_>, rules: Rules) {
        let count = self.users.get(&user_of(message)).map_or(0, BTreeMap::len);
        let text = String::from_utf8_lossy(&seen.bytes);
        assert!(count <= rules.contacts_max, "more contacts than a user may have:\n{text}");
    }

    /// A request outside of dialogs goes to a binding of its user.
    fn on_forwarded(&mut self, seen: &TracedPacket, message: &Message<'_>, uri: &[u8], rules: Rules) {
        let request = Request::of(message);
        let branch = message.via().branch.unwrap_or_default().to_vec();
        let is_first = self.branches.insert(branch) && self.forwarded.insert(request.clone());
        if is_first {
            self.accept_digest(seen, &request);
        }
        let is_new =
            message.to().tag().is_none() && matches!(message.method(), Method::Invite | Method::Message);
        if !(is_first && is_new && rules.only_bindings) {
            return;
        }
        let expiry = self.users.get(&user_of(message)).and_then(|bindings| bindings.get(uri));
        let is_live = expiry.is_some_and(|expiry| *expiry + TOLERANCE > seen.at);
        // The server may have dialled meanwhile.
        let removed = self.removed.get(&(user_of(message), uri.to_vec()));
        let was_live = is_of_a_connection(uri) && removed.is_some_and(|at| *at + DIALLING > seen.at);
        assert!(is_live || was_live, "nobody is registered there:\n{}", String::from_utf8_lossy(&seen.bytes));
    }

    /// The server does not say that a user with a binding is absent.
    fn nobody_is_absent(
        &self,
        seen: &TracedPacket,
        message: &Message<'_>,
        (request, status): (&Request, u16),
    ) {
        if !matches!(status, 404 | 480) || self.forwarded.contains(request) {
            return;
        }
        let bindings = self.users.get(&user_of(message));
        let lives =
            |(uri, expiry): (&Vec<u8>, &Instant)| *expiry > seen.at + TOLERANCE && !is_of_a_connection(uri);
        let is_reachable = bindings.is_some_and(|bindings| bindings.iter().any(lives));
        assert!(
            !is_reachable,
            "a registered user is said to be absent:\n{}",
            String::from_utf8_lossy(&seen.bytes)
        );
    }

    /// Each nonce count is for one request (RFC 7616 §3.4); a retransmission is the same one.
    fn accept_digest(&mut self, seen: &TracedPacket, request: &Request) {
        let Some(bytes) = self.requests.get(request) else { return };
        let Ok(asked) = Message::parse(bytes, &Limits::default()) else { return };
        for name in [HeaderName::Authorization, HeaderName::ProxyAuthorization] {
            for line in asked.lines_of(name) {
                let used = self.digests.entry(nonce_and_count(line)).or_insert_with(|| request.clone());
                assert_eq!(
                    used,
                    request,
                    "a digest is accepted twice:\n{}",
                    String::from_utf8_lossy(&seen.bytes)
                );
            }
        }
    }
}

/// Messages of a packet: what is written to a stream at once may have several.
fn messages_of(seen: &TracedPacket) -> Vec<Vec<u8>> {
    if seen.transport == Transport::Udp {
        return vec![seen.bytes.clone()];
    }
    let mut framer = StreamFramer::new(seen.bytes.len());
    framer.push(&seen.bytes);
    std::iter::from_fn(|| framer.next_message().ok()?.map(<[u8]>::to_vec)).collect()
}

/// Contacts of a response with their seconds.
fn contacts(message: &Message<'_>) -> Vec<(Vec<u8>, u64)> {
    let contacts = message.values(HeaderName::Contact).map(|value| {
        let contact = NameAddr::parse(value).expect("the server writes valid contacts");
        let seconds = contact.params.value(b"expires").and_then(seconds).expect("each contact has its time");
        (contact.uri.as_bytes().to_vec(), seconds)
    });
    contacts.collect()
}

/// A number of seconds.
fn seconds(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// User of To: the address of record.
fn user_of(message: &Message<'_>) -> Vec<u8> {
    message.to().uri.user().unwrap_or_default().to_vec()
}

/// True for a binding that may end with its connection.
fn is_of_a_connection(uri: &[u8]) -> bool {
    let uri = ringway_sip::Uri::parse(uri).expect("it was parsed before");
    let transport = uri.params().value(b"transport").unwrap_or_default();
    transport.eq_ignore_ascii_case(Transport::Tcp.name().as_bytes())
}

/// Nonce and count of credentials.
fn nonce_and_count(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let mut parts = line.split([',', ' ']).map(str::trim);
    let value = |name: &str| parts.clone().find(|part| part.starts_with(name)).unwrap_or_default().to_owned();
    let both = [value("nonce="), value("nc=")].concat();
    assert!(parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("digest")), "{line}");
    both.into_bytes()
}

/// Time of a connection that is opened.
const DIALLING: Duration = Duration::from_secs(2);
/// Seconds for which a REGISTER is sent again: the time of its binding is that of the first one.
const AGAIN_S: u64 = 35;
/// Seconds are whole in responses.
const TOLERANCE: Duration = Duration::from_secs(1);
