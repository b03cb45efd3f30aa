//! Digest as computed by clients (RFC 7616 §3.4).

use crate::harness::{Request, Sent, World, only};
use md5::{Digest, Md5};
use ringway_server::Algorithm;
use sha2::Sha256;

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
