//! Cookies that prove a client's address without state (RFC 6347 §4.2.1).

use crate::hello::{COOKIE_BYTES, ClientHello};
use core::net::{IpAddr, SocketAddr};
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{Instant, Seed};
use sha2::Sha256;

/// Makes and checks cookies: HMAC-SHA256 of the client's address and its ClientHello's parameters, truncated to
/// [`COOKIE_BYTES`].
///
/// The key is another one in each period of 60 seconds: a part of the seed. A cookie is good in its period and in the
/// next. So there is nothing to store and nothing to lock.
#[derive(Clone, Copy, Debug)]
pub struct Cookies {
    seed: Seed,
}

/// Judgement of a ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It has no cookie; this is the one to answer with.
    NoCookie([u8; COOKIE_BYTES]),
    /// Its cookie is the one that its address got for its parameters.
    Proven,
    /// Its cookie is another one, or an expired one.
    WrongCookie,
}

impl Cookies {
    /// Cookies of a server. The seed must be unpredictable.
    pub const fn new(seed: Seed) -> Self {
        Self { seed }
    }

    /// Judges a ClientHello from `remote`.
    pub fn judge(&self, now: Instant, remote: SocketAddr, hello: &ClientHello<'_>) -> Judged {
        let period = now.as_secs() / PERIOD_S;
        if hello.cookie.is_empty() {
            let tag = self.mac(period, remote, hello).finalize().into_bytes();
            let mut cookie = [0; COOKIE_BYTES];
            cookie.copy_from_slice(&tag[..COOKIE_BYTES]);
            return Judged::NoCookie(cookie);
        }
        // The length is checked first: a shorter cookie would be a shorter tag.
        let is_right = hello.cookie.len() == COOKIE_BYTES
            && [period, period.wrapping_sub(1)]
                .into_iter()
                .any(|period| self.mac(period, remote, hello).verify_truncated_left(hello.cookie).is_ok());
        if is_right { Judged::Proven } else { Judged::WrongCookie }
    }

    fn mac(&self, period: u64, remote: SocketAddr, hello: &ClientHello<'_>) -> Hmac<Sha256> {
        // HMAC pads a short key with zeros to the hash's block (RFC 2104 §2); done here, it cannot fail.
        let mut block = [0; 64];
        block[..32].copy_from_slice(self.seed.part(period).bytes());
        let mut mac = Hmac::<Sha256>::new(&block.into());
        match remote.ip() {
            IpAddr::V4(v4) => mac.update(&v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => mac.update(&v6.octets()),
        }
        mac.update(&remote.port().to_be_bytes());
        for part in hello.parameters() {
            mac.update(&(part.len() as u16).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

/// Time in seconds for which a key is used.
const PERIOD_S: u64 = 60;
