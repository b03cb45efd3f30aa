//! Tests of challenges, and digest as computed by clients (RFC 7616 §3.4).

use crate::harness::{ALICE, BOB, Request, STRANGER, Sent, World, forwarded, invite, only, query, register};
use md5::{Digest, Md5};
use ringway_server::Algorithm;
use sha2::Sha256;
use std::time::Duration;

/// Credentials of a client.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) realm: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) nonce: String,
    pub(crate) nc: u32,
    pub(crate) cnonce: &'static str,
    /// Header field of the response to the challenge.
    pub(crate) field: &'static str,
}

impl Login {
    /// Credentials of `user` of the tests for a challenge.
    pub(crate) fn to(challenge: &Sent, user: &str) -> Self {
        Self {
            user: user.into(),
            password: format!("{user}'s password"),
            realm: "example.org".into(),
            algorithm: Algorithm::Md5,
            nonce: nonce_of(challenge),
            nc: 1,
            cnonce: "c",
            field: if challenge.status() == 407 { "Proxy-Authorization" } else { "Authorization" },
        }
    }

    pub(crate) fn nc(mut self, nc: u32) -> Self {
        self.nc = nc;
        self
    }

    pub(crate) fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// Header line for `request`.
    pub(crate) fn line(&self, request: &Request) -> String {
        format!("{}: {}", self.field, self.value(request))
    }

    fn value(&self, request: &Request) -> String {
        let Self { user, realm, nonce, nc, cnonce, .. } = self;
        let (uri, algorithm) = (&request.uri, self.algorithm.name());
        let response = self.response(&request.method, uri);
        format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", response=\"{response}\", \
             algorithm={algorithm}, cnonce=\"{cnonce}\", qop=auth, nc={nc:08x}"
        )
    }

    fn response(&self, method: &str, uri: &str) -> String {
        let hash = |text: String| match self.algorithm {
            Algorithm::Md5 => hex(&Md5::digest(text.as_bytes())),
            Algorithm::Sha256 => hex(&Sha256::digest(text.as_bytes())),
        };
        let user = self.user.replace('\\', "");
        let a1 = hash(format!("{user}:{}:{}", self.realm, self.password));
        let a2 = hash(format!("{method}:{uri}"));
        hash(format!("{a1}:{}:{:08x}:{}:auth:{a2}", self.nonce, self.nc, self.cnonce))
    }
}

/// Request with credentials and the next CSeq, as clients send it.
pub(crate) fn answered(request: &Request, login: &Login) -> Request {
    let line = login.line(request);
    request.clone().cseq(request.cseq + 1).line(&line)
}

/// Sends a request with the password of `user`.
#[track_caller]
pub(crate) fn proven(world: &mut World, from: &str, request: &Request, user: &str) -> Vec<Sent> {
    let challenge = only(world.udp(from, request));
    assert!(matches!(challenge.status(), 401 | 407), "{}", challenge.text());
    let login = Login::to(&challenge, user);
    world.udp(from, &answered(request, &login))
}

pub(crate) fn nonce_of(challenge: &Sent) -> String {
    let text = challenge.text();
    let at = text.find("nonce=\"").unwrap() + 7;
    text[at..].split('"').next().unwrap().into()
}

pub(crate) fn is_stale(challenge: &Sent) -> bool {
    matches!(challenge.status(), 401 | 407) && challenge.text().contains("stale=true")
}

fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

#[test]
fn challenges_come_in_the_configured_order() {
    for (algorithms, names) in [
        (vec![Algorithm::Sha256, Algorithm::Md5], &["SHA-256", "MD5"][..]),
        (vec![Algorithm::Md5, Algorithm::Sha256], &["MD5", "SHA-256"]),
        (vec![Algorithm::Md5], &["MD5"]),
    ] {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            config.auth.algorithms = algorithms;
        });
        let answer = only(world.udp(BOB, &query("bob")));
        assert_eq!(answer.status(), 401);
        let nonce = nonce_of(&answer);
        let expected: Vec<_> = names
            .iter()
            .map(|name| {
                format!("Digest realm=\"example.org\",nonce=\"{nonce}\",algorithm={name},qop=\"auth\"")
            })
            .collect();
        assert_eq!(answer.headers("WWW-Authenticate"), expected);
        let answer = only(world.udp(ALICE, &invite("sip:bob@example.org")));
        assert_eq!(answer.status(), 407);
        assert_eq!(answer.headers("Proxy-Authenticate").len(), names.len());
        assert_ne!(nonce_of(&answer), nonce, "each challenge has its own nonce");
    }
}

#[test]
fn users_that_exist_and_users_that_do_not_get_equal_responses() {
    let mut world = World::closed();
    let shape = |world: &mut World, user: &str, with_password: bool| {
        let request = register(user, "<sip:x@192.0.2.20>").call_id("c");
        let first = only(world.udp(BOB, &request));
        let answer = match with_password {
            false => first,
            true => {
                let login = Login { password: "wrong".into(), ..Login::to(&first, user) };
                only(world.udp(BOB, &answered(&request, &login)))
            }
        };
        let (tag, nonce) = (answer.header("To"), nonce_of(&answer));
        let tag = tag.split("tag=").nth(1).unwrap();
        answer.text().replace(tag, "TAG").replace(&nonce, "NONCE").replace(user, "USER")
    };
    for with_password in [false, true] {
        let (known, unknown) =
            (shape(&mut world, "alice", with_password), shape(&mut world, "ghost", with_password));
        assert!(known.starts_with("SIP/2.0 401 "), "{known}");
        assert_eq!(known, unknown);
    }
    let call = |world: &mut World, user: &str| {
        let from = format!("<sip:{user}@example.org>;tag=f");
        let answer = only(world.udp(ALICE, &Request { from, ..invite("sip:bob@example.org") }));
        let nonce = nonce_of(&answer);
        answer.text().replace(&nonce, "NONCE").replace(user, "USER")
    };
    assert_eq!(call(&mut world, "carol"), call(&mut world, "ghost"));
}

#[test]
fn a_challenge_keeps_no_state_and_its_ack_is_ours() {
    let mut world = World::closed();
    let invite = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &invite));
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.udp(ALICE, &invite.ack_of(&challenge)).is_empty());
    assert_eq!(world.server.counters().stray, 0, "the ACK matches by its To tag");
    assert!(world.pass(Duration::from_secs(60)).is_empty(), "nothing is retransmitted");
}

#[test]
fn the_ack_of_a_challenge_in_a_dialog_goes_no_further() {
    let mut world = World::with(|config| (config.auth.enabled, config.auth.in_dialog) = (true, true));
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let got = forwarded(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answer = only(world.udp(&got.to(), &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut again = invite("sip:bob@192.0.2.20").to(&answer.header("To")).cseq(7);
    again.lines.push(format!("Route: {}", answer.header("Record-Route")));
    let challenge = only(world.udp(ALICE, &again));
    assert_eq!((challenge.status(), challenge.header("To")), (407, answer.header("To")));
    assert!(world.udp(ALICE, &again.ack_of(&challenge)).is_empty(), "RFC 3261 §17.1.1.3: hop by hop");
    assert_eq!(world.server.counters().forwarded, 1);
}

/// Without a valid mark there is no transaction, so that an invented To tag causes no retransmissions.
#[test]
fn a_challenge_for_a_made_up_dialog_is_sent_once() {
    let mut world = World::with(|config| (config.auth.enabled, config.auth.in_dialog) = (true, true));
    let again = invite("sip:bob@example.org").to("<sip:bob@example.org>;tag=made-up");
    assert_eq!(only(world.udp(STRANGER, &again)).status(), 407);
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.pass(Duration::from_secs(64)).is_empty());
}
