//! Answer to a challenge (RFC 7616 §3.4, RFC 3261 §22).

use crate::Users;
use crate::kept::MESSAGE_BYTES_MAX;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sip::digest::{Algorithm, Credentials, Ha1, Qop, ReceivedChallenge, unescape};
use ringway_sip::{HeaderName, Message, hex16};

/// Header field of a 401 or 407 with a challenge that can be answered.
#[derive(Debug)]
pub(crate) struct Challenge {
    /// Value of the field.
    value: Box<[u8]>,
    is_proxy: bool,
}

impl Challenge {
    /// The field with the strongest challenge that can be answered.
    pub(crate) fn of(message: &Message<'_>) -> Option<Self> {
        let mut best: Option<(Algorithm, &[u8], bool)> = None;
        for (name, is_proxy) in [(HeaderName::WwwAuthenticate, false), (HeaderName::ProxyAuthenticate, true)]
        {
            let values = message.lines_of(name).filter(|value| value.len() <= MESSAGE_BYTES_MAX);
            for value in values.take(CHALLENGES_MAX) {
                let Some(found) = Answerable::of(value, is_proxy) else { continue };
                if best.is_none_or(|(algorithm, ..)| found.is_stronger_than(algorithm)) {
                    best = Some((found.algorithm, value, is_proxy));
                }
            }
        }
        best.map(|(_, value, is_proxy)| Self { value: value.into(), is_proxy })
    }

    /// The challenge.
    pub(crate) fn answerable(&self) -> Option<Answerable<'_>> {
        Answerable::of(&self.value, self.is_proxy)
    }
}

/// Challenge that can be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerable<'a> {
    challenge: ReceivedChallenge<'a>,
    algorithm: Algorithm,
    is_proxy: bool,
}

impl<'a> Answerable<'a> {
    /// The strongest challenge of a header field that can be answered.
    fn of(value: &'a [u8], is_proxy: bool) -> Option<Self> {
        let mut best: Option<Self> = None;
        for challenge in ReceivedChallenge::all(value).take(CHALLENGES_MAX) {
            let algorithm = challenge.algorithm.map_or(Some(Algorithm::Md5), Algorithm::from_name);
            let Some(algorithm) = algorithm.filter(|_| challenge.offers(Qop::Auth) != Some(false)) else {
                continue;
            };
            let found = Self { challenge, algorithm, is_proxy };
            if best.is_none_or(|best| found.is_stronger_than(best.algorithm)) {
                best = Some(found);
            }
        }
        best
    }

    fn is_stronger_than(&self, other: Algorithm) -> bool {
        self.algorithm == Algorithm::Sha256 && other == Algorithm::Md5
    }

    /// Appends the header line, without its end. `request_line` is the first line of the request.
    pub(crate) fn write(
        &self,
        users: &Users,
        user: u32,
        request_line: &[u8],
        cnonce: u64,
        out: &mut Vec<u8>,
    ) {
        let mut words = request_line.split(|&byte| byte == b' ');
        let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut name = Vec::new();
        users.write_name(user, &mut name);
        let has_qop = self.challenge.offers(Qop::Auth) == Some(true);
        let cnonce = hex16(cnonce);
        let mut credentials = Credentials {
            username: &name,
            realm: self.challenge.realm,
            nonce: self.challenge.nonce,
            uri,
            response: b"",
            algorithm: self.challenge.algorithm,
            cnonce: has_qop.then_some(&cnonce),
            qop: has_qop.then_some(b"auth"),
            nc: has_qop.then_some(b"00000001"),
            opaque: self.challenge.opaque,
        };
        let ha1 = Ha1::new(&name, &unescape(self.challenge.realm), users.password(user).as_bytes());
        let mut hex = [0; 64];
        credentials.response = self.algorithm.response(&ha1, method, b"", &credentials, &mut hex);
        let header: &[u8] = if self.is_proxy { b"Proxy-Authorization: " } else { b"Authorization: " };
        out.extend_from_slice(header);
        credentials.write(out);
    }
}

/// Maximum number of challenges read in a response.
const CHALLENGES_MAX: usize = 8;
