//! Access rules of the admin API: the bearer token, and the headers Host and Origin.

use crate::guesses::TokenGuesses;
use crate::proof;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Instant;
use subtle::ConstantTimeEq;

/// Conditions that a request must meet.
#[derive(Debug)]
pub(crate) struct AccessCheck {
    /// The hash of the token: comparing hashes tells nothing of the token's length.
    token: RwLock<Option<[u8; 32]>>,
    /// The token is too long to be guessed: a source with wrong ones is slowed, but the right one passes.
    is_long: AtomicBool,
    is_loopback: bool,
    guesses: TokenGuesses,
}

/// Status and reason of a refusal.
type Refusal = (StatusCode, &'static str);

impl AccessCheck {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        let is_loopback = address.ip().to_canonical().is_loopback();
        Self {
            token: RwLock::new(hash_of(token)),
            is_long: AtomicBool::new(token.len() >= LONG_TOKEN_BYTES),
            is_loopback,
            guesses: TokenGuesses::default(),
        }
    }

    /// Requires another token from now on.
    pub(crate) fn set_token(&self, token: &str) {
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = hash_of(token);
        self.is_long.store(token.len() >= LONG_TOKEN_BYTES, Ordering::Relaxed);
    }

    /// Limit of wrong tokens.
    pub(crate) const fn guesses(&self) -> &TokenGuesses {
        &self.guesses
    }

    /// Checks a request of `source`.
    ///
    /// # Errors
    /// The status and the reason of the refusal.
    pub(crate) fn check(&self, method: &Method, headers: &HeaderMap, source: IpAddr) -> Result<(), Refusal> {
        self.check_origin(method, headers)?;
        if is_foreign_page(headers) {
            return Err(FOREIGN_PAGE);
        }
        let Some(token) = self.token() else { return Ok(()) };
        self.compare(headers, source, |given| {
            let given = bearer(given).map(|given| proof::key_of_bytes(given.trim_ascii()));
            given.is_some_and(|given| bool::from(given.ct_eq(&token))).then_some(())
        })
    }

    /// Answers a client that checks whether this server has the token, before it sends it; `None`: no token is required.
    ///
    /// # Errors
    /// The status and the reason of the refusal.
    pub(crate) fn prove(
        &self,
        method: &Method,
        headers: &HeaderMap,
        source: IpAddr,
    ) -> Result<Option<String>, Refusal> {
        self.check_origin(method, headers)?;
        let Some(token) = self.token() else { return Ok(None) };
        self.compare(headers, source, |given| proof::answer(&token, given)).map(Some)
    }

    /// Checks a request for something that holds no data: links of other pages may lead there.
    ///
    /// # Errors
    /// The status and the reason of the refusal.
    pub(crate) fn check_without_token(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        self.check_origin(method, headers)?;
        if is_foreign_page(headers) && !is_navigation(headers) { Err(FOREIGN_PAGE) } else { Ok(()) }
    }

    fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.is_loopback && !names_loopback(headers) {
            let why = "this listener answers only to the names localhost, 127.0.0.1 and [::1]";
            return Err((StatusCode::FORBIDDEN, why));
        }
        if !method.is_safe() && !is_of_this_origin(headers) { Err(FOREIGN_PAGE) } else { Ok(()) }
    }

    /// Compares what a request gives as its proof of the token. After too many wrong ones a short token is not compared: others
    /// behind the same address, as that of a reverse proxy, must not shut out who has a long one.
    fn compare<T>(
        &self,
        headers: &HeaderMap,
        source: IpAddr,
        proven: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, Refusal> {
        let Some(given) = headers.get(AUTHORIZATION) else { return Err(NO_TOKEN) };
        let now = Instant::now();
        let is_slowed = !self.guesses.may_try(source, now);
        if (!is_slowed || self.is_long.load(Ordering::Relaxed))
            && let Some(proven) = proven(given.as_bytes())
        {
            return Ok(proven);
        }
        if is_slowed {
            return Err(SLOWED);
        }
        if let Some(suppressed) = self.guesses.on_wrong(source, now) {
            tracing::warn!(address = %source.to_canonical(), suppressed, "refused admin token");
        }
        Err(NO_TOKEN)
    }

    fn token(&self) -> Option<[u8; 32]> {
        *self.token.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Length of a token in bytes from which on it cannot be guessed: 16 random hexadecimal digits are 64 bits.
pub const LONG_TOKEN_BYTES: usize = 16;

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, given) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(given)
}

fn hash_of(token: &str) -> Option<[u8; 32]> {
    (!token.is_empty()).then(|| proof::key_of(token))
}

/// True for a request that a page of another origin causes, as browsers say of each request to this machine and over TLS: even
/// reading has effects, as a trace begins.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    has(headers, "sec-fetch-site", &[b"cross-site", b"same-site"])
}

/// True for a request by which a browser opens a page.
fn is_navigation(headers: &HeaderMap) -> bool {
    has(headers, "sec-fetch-mode", &[b"navigate"])
}

fn has(headers: &HeaderMap, name: &str, expected: &[&[u8]]) -> bool {
    headers.get(name).is_some_and(|value| expected.contains(&value.as_bytes()))
}

/// True unless a web page of another origin made the request: a browser names the page's origin in each request that may
/// change something, and programs that are not browsers name none.
fn is_of_this_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), headers.get(HOST).map(|host| host.to_str())) else {
        return false;
    };
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

/// True when the request was meant for this machine by a name that no foreign DNS can give it.
fn names_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

const NO_TOKEN: Refusal =
    (StatusCode::UNAUTHORIZED, "give the token of [admin] token as Authorization: Bearer TOKEN");
const SLOWED: Refusal =
    (StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens came from this address; try again in a minute");
const FOREIGN_PAGE: Refusal =
    (StatusCode::FORBIDDEN, "web pages of other origins may not ask or change anything here");

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn access_check(token: &str) -> AccessCheck {
        AccessCheck::new("127.0.0.1:8060".parse().unwrap(), token)
    }

    fn headers(host: &str, authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if !authorization.is_empty() {
            headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_loopback_listener_answers_only_to_loopback_names() {
        for host in ["localhost", "LOCALHOST:8060", "127.0.0.1:8060", "[::1]:8060", "127.9.9.9"] {
            assert_eq!(access_check("").check(&Method::GET, &headers(host, ""), SOURCE), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8060", "localhost.evil.example", "192.0.2.1", "", ":80"] {
            assert_eq!(
                access_check("").check(&Method::GET, &headers(host, ""), SOURCE).unwrap_err().0,
                StatusCode::FORBIDDEN,
                "{host}"
            );
        }
        assert!(access_check("").check(&Method::GET, &HeaderMap::new(), SOURCE).is_err());
        let open = AccessCheck::new("192.0.2.1:8060".parse().unwrap(), "");
        assert_eq!(open.check(&Method::GET, &headers("pbx.example.org", ""), SOURCE), Ok(()));
    }

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let check = access_check("s3cret");
        assert_eq!(check.check(&Method::GET, &headers("localhost", "Bearer s3cret"), SOURCE), Ok(()));
        assert_eq!(check.check(&Method::GET, &headers("localhost", "bearer s3cret"), SOURCE), Ok(()));
        for wrong in ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"] {
            let refused = check.check(&Method::GET, &headers("localhost", wrong), SOURCE);
            assert_eq!(refused.unwrap_err().0, StatusCode::UNAUTHORIZED, "{wrong}");
        }
    }

    #[test]
    fn pages_of_other_origins_read_nothing_but_links_lead_to_the_dashboard() {
        let check = |site: &str, mode: &str| {
            let mut headers = headers("127.0.0.1:8060", "");
            headers.insert("sec-fetch-site", site.parse().unwrap());
            headers.insert("sec-fetch-mode", mode.parse().unwrap());
            let check = access_check("");
            [check.check(&Method::GET, &headers, SOURCE), check.check_without_token(&Method::GET, &headers)]
                .map(|checked| checked.is_ok())
        };
        for (site, mode) in [("same-origin", "cors"), ("same-origin", "navigate"), ("none", "navigate")] {
            assert_eq!(check(site, mode), [true, true], "{site} {mode}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(check(site, "navigate"), [false, true], "{site}: data, and a file of the dashboard");
            for mode in ["no-cors", "cors", "websocket"] {
                assert_eq!(check(site, mode), [false, false], "{site} {mode}");
            }
        }
    }

    #[test]
    fn wrong_tokens_of_a_source_are_slowed_and_those_of_others_are_not() {
        let check = access_check("s3cret");
        let of = |token: &str, source: IpAddr| {
            let authorization = if token.is_empty() { String::new() } else { format!("Bearer {token}") };
            check
                .check(&Method::GET, &headers("localhost", &authorization), source)
                .map_err(|(status, _)| status)
        };
        let eve = IpAddr::from([192, 0, 2, 66]);
        let slowed: Vec<_> = (0..1000).map(|_| of("", eve)).collect();
        assert!(
            slowed.iter().all(|result| *result == Err(StatusCode::UNAUTHORIZED)),
            "without one it is no guess"
        );
        let statuses: Vec<_> = (0..1000).map(|number| of(&number.to_string(), eve)).collect();
        let compared = statuses.iter().filter(|result| **result == Err(StatusCode::UNAUTHORIZED)).count();
        assert_eq!((compared as u64, check.guesses().wrong(), check.guesses().slowed()), (20, 20, 980));
        assert_eq!(
            of("s3cret", eve),
            Err(StatusCode::TOO_MANY_REQUESTS),
            "the right one is not found by trying"
        );
        assert_eq!(of("s3cret", SOURCE), Ok(()));
    }

    #[test]
    fn only_pages_of_this_origin_change_something() {
        let check = |method: Method, origin: Option<&str>| {
            let mut headers = headers("127.0.0.1:8060", "");
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            access_check("").check(&method, &headers, SOURCE).map_err(|(status, _)| status)
        };
        for origin in
            ["http://evil.example", "http://127.0.0.1:80", "http://127.0.0.1", "null", "", "127.0.0.1:8060"]
        {
            for method in [Method::POST, Method::DELETE, Method::PUT] {
                assert_eq!(check(method, Some(origin)), Err(StatusCode::FORBIDDEN), "{origin}");
            }
            assert_eq!(check(Method::GET, Some(origin)), Ok(()), "{origin}");
        }
        assert_eq!(check(Method::POST, Some("http://127.0.0.1:8060")), Ok(()));
        assert_eq!(check(Method::POST, None), Ok(()), "a program that is no browser");
    }

    #[test]
    fn another_token_is_required_at_once() {
        let check = access_check("first");
        check.set_token("second");
        assert!(check.check(&Method::GET, &headers("localhost", "Bearer first"), SOURCE).is_err());
        assert_eq!(check.check(&Method::GET, &headers("localhost", "Bearer second"), SOURCE), Ok(()));
        check.set_token("");
        assert_eq!(check.check(&Method::GET, &headers("localhost", ""), SOURCE), Ok(()));
    }
}
