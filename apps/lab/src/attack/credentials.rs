//! Client side of digest authentication (RFC 7616 §3.4), at minimal cost.

use crate::server::{Algorithm, DOMAIN, PASSWORD};
use md5::{Digest, Md5};
use memchr::memmem::Finder;
use sha2::Sha256;

/// Writer of Authorization or Proxy-Authorization headers for one method and URI.
pub(super) struct Credentials {
    algorithm: Algorithm,
    header: &'static str,
    uri: String,
    /// H(A2), constant for all requests.
    request_hash: Vec<u8>,
    nonce: Finder<'static>,
    opaque: Finder<'static>,
}

impl Credentials {
    /// Credentials for a request; `header` is the header that its challenge requires.
    pub(super) fn new(algorithm: Algorithm, header: &'static str, method: &str, uri: &str) -> Self {
        let mut request_hash = Vec::new();
        hash_hex(algorithm, &[method.as_bytes(), b":", uri.as_bytes()], &mut request_hash);
        let (nonce, opaque) = (Finder::new("nonce=\""), Finder::new("opaque=\""));
        Self { algorithm, header, uri: uri.to_owned(), request_hash, nonce, opaque }
    }

    /// Appends the header for the challenge in `response`; returns false if it has no challenge with this
    /// algorithm.
    pub(super) fn answer(&self, user: u32, response: &[u8], out: &mut Vec<u8>) -> bool {
        const CNONCE: &[u8] = b"0a4f113b8d21c7e5";
        let name = format!("u{user:07}");
        let Some(nonce) = quoted(response, &self.nonce) else { return false };
        if memchr::memmem::find(response, self.algorithm.name().as_bytes()).is_none() {
            return false;
        }
        let mut secret = Vec::with_capacity(64);
        hash_hex(
            self.algorithm,
            &[name.as_bytes(), b":", DOMAIN.as_bytes(), b":", PASSWORD.as_bytes()],
            &mut secret,
        );
        for part in [
            self.header.as_bytes(),
            b": Digest username=\"",
            name.as_bytes(),
            b"\", realm=\"",
            DOMAIN.as_bytes(),
            b"\", nonce=\"",
            nonce,
            b"\", uri=\"",
            self.uri.as_bytes(),
            b"\", response=\"",
        ] {
            out.extend_from_slice(part);
        }
        let parts: [&[u8]; 7] = [&secret, b":", nonce, b":00000001:", CNONCE, b":auth:", &self.request_hash];
        hash_hex(self.algorithm, &parts, out);
        out.extend_from_slice(b"\", algorithm=");
        out.extend_from_slice(self.algorithm.name().as_bytes());
        out.extend_from_slice(b", cnonce=\"");
        out.extend_from_slice(CNONCE);
        out.extend_from_slice(b"\", qop=auth, nc=00000001");
        if let Some(opaque) = quoted(response, &self.opaque) {
            out.extend_from_slice(b", opaque=\"");
            out.extend_from_slice(opaque);
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
        true
    }
}

fn quoted<'m>(message: &'m [u8], name: &Finder<'_>) -> Option<&'m [u8]> {
    let start = name.find(message)? + name.needle().len();
    let rest = message.get(start..)?;
    rest.get(..memchr::memchr(b'"', rest)?)
}

/// Appends the hash of `parts` in hexadecimal digits.
fn hash_hex(algorithm: Algorithm, parts: &[&[u8]], out: &mut Vec<u8>) {
    match algorithm {
        Algorithm::Sha256 => hex(&hash::<Sha256>(parts), out),
        Algorithm::Md5 => hex(&hash::<Md5>(parts), out),
    }
}

fn hash<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = D::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().to_vec()
}

/// Appends two hexadecimal digits for each byte.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + 2 * bytes.len(), b'0');
    let _ = base16ct::lower::encode(bytes, out.get_mut(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex_of(algorithm: Algorithm, parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        hash_hex(algorithm, parts, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The example of RFC 7616 §3.9.1.
    #[test]
    fn hashes_are_those_of_the_rfc() {
        for (algorithm, expected) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let secret = hex_of(algorithm, &[b"Mufasa:http-auth@example.org:Circle of Life"]);
            let request = hex_of(algorithm, &[b"GET:/dir/index.html"]);
            let nonce = b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
            let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
            let parts: [&[u8]; 7] =
                [secret.as_bytes(), b":", nonce, b":00000001:", cnonce, b":auth:", request.as_bytes()];
            assert_eq!(hex_of(algorithm, &parts), expected);
        }
    }

    #[test]
    fn a_challenge_is_answered_with_its_nonce_and_opaque() {
        let challenge = b"SIP/2.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"example.org\", \
            nonce=\"abc\", opaque=\"xyz\", algorithm=SHA-256, qop=\"auth\"\r\n\r\n";
        let mut out = Vec::new();
        let credentials =
            |algorithm| Credentials::new(algorithm, "Authorization", "REGISTER", "sip:example.org");
        assert!(credentials(Algorithm::Sha256).answer(7, challenge, &mut out));
        let header = String::from_utf8(out).unwrap();
        assert!(header.contains("username=\"u0000007\"") && header.contains("nonce=\"abc\""));
        assert!(header.ends_with("opaque=\"xyz\"\r\n"));
        assert!(!credentials(Algorithm::Md5).answer(7, challenge, &mut Vec::new()));
    }
}
