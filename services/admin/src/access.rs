//! Access rules of the admin API: the bearer token, proof that both sides have it, the limit of wrong tokens from each
//! source, and the headers Host and Origin.
//!
//! A client asks `GET /api/proof` with a random number and its keyed hash. A server that has the token answers with another keyed hash of
//! the number. A process that listens in place of the server gets no token, and nothing that a server accepts for anything else.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{Defence, source_of};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
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
        let Some(token) = self.token().filter(|_| Defence::AdminToken.is_on()) else { return Ok(()) };
        self.compare(headers, source, |given| {
            let given = bearer(given).map(|given| key_of_bytes(given.trim_ascii()));
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
        self.compare(headers, source, |given| answer(&token, given)).map(Some)
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
        if self.is_loopback && !names_loopback(headers) && Defence::AdminHost.is_on() {
            let why = "this listener answers only to the names localhost, 127.0.0.1 and [::1]";
            return Err((StatusCode::FORBIDDEN, why));
        }
        let is_refused = !method.is_safe() && !is_of_this_origin(headers) && Defence::AdminOrigin.is_on();
        if is_refused { Err(FOREIGN_PAGE) } else { Ok(()) }
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
        let is_slowed = !self.guesses.may_try(source, now) && Defence::AdminGuessing.is_on();
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
    (!token.is_empty()).then(|| key_of(token))
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

/// The client's part of a proof.
pub struct TokenProof {
    key: [u8; 32],
    number: String,
}

impl TokenProof {
    /// Path of the proof.
    pub const PATH: &'static str = "/api/proof";

    /// Proof of `token` with 32 random bytes.
    pub fn new(token: &str, random: [u8; 32]) -> Self {
        Self { key: key_of(token), number: hex(&random) }
    }

    /// Value of the header Authorization of the request for [`TokenProof::PATH`].
    pub fn authorization(&self) -> String {
        format!("{SCHEME}{}:{}", self.number, keyed_hash(&self.key, CLIENT, &self.number))
    }

    /// True if `proof`, of the answer, is from a server that has the token.
    pub fn is_of_server(&self, proof: &str) -> bool {
        is_equal(proof, &keyed_hash(&self.key, SERVER, &self.number))
    }
}

/// Key of the proofs of a token.
fn key_of(token: &str) -> [u8; 32] {
    key_of_bytes(token.as_bytes())
}

/// Key of the proofs of a token that need not be text.
fn key_of_bytes(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The server's part of a proof. `None`: the client does not have the token.
pub(crate) fn answer(key: &[u8; 32], authorization: &[u8]) -> Option<String> {
    let text = str::from_utf8(authorization).ok()?;
    let (number, hash) = text.strip_prefix(SCHEME)?.split_once(':')?;
    let is_number = number.len() == NUMBER_LEN && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_equal(hash, &keyed_hash(key, CLIENT, number))).then(|| keyed_hash(key, SERVER, number))
}

fn keyed_hash(key: &[u8; 32], side: &str, number: &str) -> String {
    // A key of any length is permitted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(side.as_bytes());
    mac.update(number.as_bytes());
    hex(&mac.finalize().into_bytes())
}

fn is_equal(one: &str, other: &str) -> bool {
    !other.is_empty() && bool::from(one.as_bytes().ct_eq(other.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const SCHEME: &str = "Ringway-Proof ";
const NUMBER_LEN: usize = 64;
const CLIENT: &str = "client of the admin API ";
const SERVER: &str = "server of the admin API ";

/// Token buckets of wrong admin tokens by source (an IPv6 /64 network counts as one), and their counters.
#[derive(Debug, Default)]
pub(crate) struct TokenGuesses {
    buckets: Mutex<Buckets>,
    wrong: AtomicU64,
    slowed: AtomicU64,
}

#[derive(Debug, Default)]
struct Buckets {
    /// Time at which the bucket of each source is full again.
    full_at: HashMap<IpAddr, Instant>,
    /// Time from which on the log has the next line, and the lines left out since the last one.
    next_line: Option<Instant>,
    left_out: u64,
}

impl TokenGuesses {
    /// True if a token of this source may be compared. Otherwise it is counted as slowed.
    fn may_try(&self, source: IpAddr, now: Instant) -> bool {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = buckets.full_at.get(&source_of(source));
        let may =
            full_at.is_none_or(|full_at| full_at.saturating_duration_since(now) <= INTERVAL * (BURST - 1));
        if !may {
            self.slowed.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// Notes a wrong token. Returns the number of wrong tokens that the log left out before, or `None` if it has no line for this
    /// one.
    fn on_wrong(&self, source: IpAddr, now: Instant) -> Option<u64> {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.take(source_of(source), now);
        if buckets.next_line.is_some_and(|next| now < next) {
            buckets.left_out += 1;
            return None;
        }
        buckets.next_line = Some(now + LINE_INTERVAL);
        Some(std::mem::take(&mut buckets.left_out))
    }

    /// Wrong tokens since the start.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Tokens that were not compared, since the start.
    pub(crate) fn slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }
}

impl Buckets {
    fn take(&mut self, source: IpAddr, now: Instant) {
        if self.full_at.len() >= SOURCES_MAX && !self.full_at.contains_key(&source) {
            self.full_at.retain(|_, full_at| *full_at > now);
            // The source with the fewest wrong tokens makes room, so that no source pays for those of others.
            if self.full_at.len() >= SOURCES_MAX
                && let Some((&fewest, _)) = self.full_at.iter().min_by_key(|(_, full_at)| **full_at)
            {
                self.full_at.remove(&fewest);
            }
        }
        let full_at = self.full_at.entry(source).or_insert(now);
        *full_at = (*full_at).max(now) + INTERVAL;
    }
}

/// Wrong tokens of a source at once.
const BURST: u32 = 20;
/// Time for another one: 10 a minute.
const INTERVAL: Duration = Duration::from_secs(6);
/// Maximum number of tracked sources.
const SOURCES_MAX: usize = 4096;
/// Minimum interval between two lines of the log.
const LINE_INTERVAL: Duration = Duration::from_millis(100);

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

    #[test]
    fn only_who_has_the_token_answers_and_only_to_who_has_it() {
        let client = TokenProof::new("t0ken", [7; 32]);
        let asked = client.authorization();
        let proof = answer(&key_of("t0ken"), asked.as_bytes()).unwrap();
        assert!(client.is_of_server(&proof) && !asked.contains("t0ken") && !proof.contains("t0ken"));
        assert_eq!(answer(&key_of("other"), asked.as_bytes()), None);
        assert!(!TokenProof::new("t0ken", [8; 32]).is_of_server(&proof), "of another number");
        assert!(!TokenProof::new("other", [7; 32]).is_of_server(&proof));
        let hash = asked.rsplit(':').next().unwrap();
        for wrong in [hash, "", &proof[1..], &proof.to_uppercase()] {
            assert!(!client.is_of_server(wrong), "{wrong:?}, as the client's own hash sent back");
        }
        for wrong in ["", "Bearer t0ken", &asked[1..], &asked[..asked.len() - 1], &asked.replace("07", "x7")]
        {
            assert_eq!(answer(&key_of("t0ken"), wrong.as_bytes()), None, "{wrong}");
        }
    }

    fn guessed(guesses: &TokenGuesses, source: IpAddr, now: Instant, count: usize) -> usize {
        let mut compared = 0;
        for _ in 0..count {
            if guesses.may_try(source, now) {
                guesses.on_wrong(source, now);
                compared += 1;
            }
        }
        compared
    }

    #[test]
    fn a_source_has_a_burst_and_ten_a_minute_and_others_are_not_slowed() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        let [eve, near, other] = ["2001:db8::1", "2001:db8::2", "192.0.2.7"].map(|ip| ip.parse().unwrap());
        assert_eq!(guessed(&guesses, eve, start, 10_000), BURST as usize);
        assert_eq!((guesses.wrong(), guesses.slowed()), (u64::from(BURST), 10_000 - u64::from(BURST)));
        assert!(!guesses.may_try(near, start), "of the same network");
        assert!(guesses.may_try(other, start));
        assert_eq!(guessed(&guesses, eve, start + Duration::from_secs(60), 100), 10);
    }

    #[test]
    fn many_sources_are_bounded_and_cost_no_source_a_token() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        guessed(&guesses, IpAddr::from([192, 0, 2, 1]), start, 100);
        for number in 0..SOURCES_MAX as u32 * 2 {
            guesses.on_wrong(IpAddr::from((0x0a00_0000 + number).to_be_bytes()), start);
        }
        assert_eq!(guesses.buckets.lock().unwrap().full_at.len(), SOURCES_MAX);
        assert!(!guesses.may_try(IpAddr::from([192, 0, 2, 1]), start), "it stays slowed");
        assert!(guesses.may_try(IpAddr::from([192, 0, 2, 2]), start));
    }

    #[test]
    fn lines_of_the_log_are_limited_and_those_left_out_are_counted() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        let source = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(
            [0, 1, 99, 100].map(|ms| guesses.on_wrong(source, start + Duration::from_millis(ms))),
            [Some(0), None, None, Some(2)]
        );
    }
}
