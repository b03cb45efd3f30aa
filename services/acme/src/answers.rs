//! Answers to challenges: a small HTTP server for HTTP-01, which runs while an order waits for it.
//!
//! It answers `GET /.well-known/acme-challenge/TOKEN` with what the order put there, everything else with 404, and closes. A connection has
//! a size and a time; all of them, and those of one source, have a number.

use crate::config::AcmeError;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Certificates that answer TLS-ALPN-01, by domain.
pub type ChallengeCertificates = HashMap<String, Arc<CertifiedKey>>;

/// Gives TLS listeners the certificates that answer TLS-ALPN-01; none: no order waits for them.
pub type SetChallenges = Arc<dyn Fn(ChallengeCertificates) + Send + Sync>;

/// Figures of the HTTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// Challenges that were answered.
    pub answered: u64,
    /// Requests for anything else.
    pub not_found: u64,
    /// Connections above a limit in number, size or time.
    pub refused: u64,
}

/// Tokens with their answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    tokens: Mutex<HashMap<String, String>>,
    open: Mutex<Open>,
    answered: AtomicU64,
    not_found: AtomicU64,
    refused: AtomicU64,
}

/// Open connections.
#[derive(Debug, Default)]
struct Open {
    count: usize,
    by_source: HashMap<IpAddr, usize>,
}

impl Answers {
    pub(crate) fn counts(&self) -> AnswerCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AnswerCounts {
            answered: value(&self.answered),
            not_found: value(&self.not_found),
            refused: value(&self.refused),
        }
    }

    /// Adds an answer.
    ///
    /// # Errors
    /// It is no token (RFC 8555 §8.3), or there are too many.
    pub(crate) fn set(&self, token: &str, answer: &str) -> Result<(), AcmeError> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(1..=TOKEN_BYTES_MAX).contains(&token.len()) || !token.bytes().all(is_base64url) {
            return Err(AcmeError::new(format!("the directory sent {token:?}, which is no token")));
        }
        let mut tokens = lock(&self.tokens);
        if tokens.len() >= TOKENS_MAX && !tokens.contains_key(token) {
            return Err(AcmeError::new("the directory sent too many challenges"));
        }
        tokens.insert(token.to_owned(), answer.to_owned());
        Ok(())
    }

    pub(crate) fn clear(&self) {
        lock(&self.tokens).clear();
    }

    /// Answers until it is dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, remote)) = listener.accept().await else {
                // No file descriptor is left.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            match Place::take(&self, remote.ip()) {
                Some(place) => drop(tokio::spawn(answer(place, stream))),
                None => add(&self.refused),
            }
        }
    }

    /// Body for the target of a GET.
    fn of_target(&self, target: &str) -> Option<String> {
        lock(&self.tokens).get(target.strip_prefix(PREFIX)?).cloned()
    }
}

/// Share of one connection in the limits.
struct Place {
    answers: Arc<Answers>,
    source: IpAddr,
}

impl Place {
    fn take(answers: &Arc<Answers>, ip: IpAddr) -> Option<Self> {
        let source = source_of(ip);
        let mut open = lock(&answers.open);
        let of_source = open.by_source.get(&source).copied().unwrap_or_default();
        if open.count >= CONNECTIONS_MAX || of_source >= CONNECTIONS_PER_SOURCE_MAX {
            return None;
        }
        open.count += 1;
        open.by_source.insert(source, of_source + 1);
        drop(open);
        Some(Self { answers: Arc::clone(answers), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = lock(&self.answers.open);
        open.count = open.count.saturating_sub(1);
        if let Some(count) = open.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                open.by_source.remove(&self.source);
            }
        }
    }
}

/// Host of an address: with IPv6 its network of 64 bits.
fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        ip => ip,
    }
}

async fn answer(place: Place, mut stream: TcpStream) {
    let answers = &place.answers;
    let answered = tokio::time::timeout(TIME_MAX, exchange(answers, &mut stream)).await;
    if !matches!(answered, Ok(Some(()))) {
        add(&answers.refused);
    }
}

/// One request and its response. `None`: it is no request, or too large.
async fn exchange(answers: &Answers, stream: &mut TcpStream) -> Option<()> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    let body = loop {
        let count = stream.read(&mut part).await.ok()?;
        head.extend_from_slice(part.get(..count).filter(|part| !part.is_empty())?);
        if let Some(target) = target_of(&head)? {
            break target.and_then(|target| answers.of_target(&target));
        }
        if head.len() >= HEAD_BYTES_MAX {
            return None;
        }
    };
    let (status, body) = match &body {
        Some(body) => ("200 OK", body.as_str()),
        None => ("404 Not Found", ""),
    };
    add(if body.is_empty() { &answers.not_found } else { &answers.answered });
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await.ok()?;
    stream.shutdown().await.ok()
}

/// Target of a complete GET; `Some(Some(None))`: another method. `Some(None)`: it is not complete; `None`: it is no HTTP.
fn target_of(head: &[u8]) -> Option<Option<Option<String>>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head).ok()? {
        httparse::Status::Partial => Some(None),
        httparse::Status::Complete(_) => {
            let target = request.path.filter(|_| request.method == Some("GET"));
            Some(Some(target.map(str::to_owned)))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

const PREFIX: &str = "/.well-known/acme-challenge/";
const TOKENS_MAX: usize = 100;
const TOKEN_BYTES_MAX: usize = 255;
const CONNECTIONS_MAX: usize = 64;
const CONNECTIONS_PER_SOURCE_MAX: usize = 8;
/// Time of a connection.
const TIME_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 4096;
const HEADERS_MAX: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn run(test: impl AsyncFnOnce(Arc<Answers>, SocketAddr)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let answers = Arc::new(Answers::default());
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(Arc::clone(&answers).serve(listener));
            test(answers, address).await;
            server.abort();
        });
    }

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        // A refused connection is reset if it sent more than was read.
        let _ = stream.read_to_string(&mut response).await;
        response
    }

    #[test]
    fn a_token_is_answered_and_nothing_else() {
        run(async |answers, address| {
            answers.set("tok-EN_1", "tok-EN_1.thumb").unwrap();
            let get =
                async |path: &str| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let response = get("/.well-known/acme-challenge/tok-EN_1").await;
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
            assert!(response.ends_with("\r\nConnection: close\r\n\r\ntok-EN_1.thumb"), "{response}");
            for path in [
                "/",
                "/.well-known/acme-challenge/",
                "/.well-known/acme-challenge/other",
                "/.well-known/acme-challenge/../tok-EN_1",
                "/.well-known/acme-challenge//tok-EN_1",
                "/.well-known/acme-challenge/tok-EN_1?a",
                "/x/.well-known/acme-challenge/tok-EN_1",
                "*",
            ] {
                let response = get(path).await;
                assert!(response.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}: {response}");
            }
            let post = ask(address, "POST /.well-known/acme-challenge/tok-EN_1 HTTP/1.1\r\n\r\n").await;
            assert!(post.starts_with("HTTP/1.1 404"), "{post}");
            answers.clear();
            assert!(get("/.well-known/acme-challenge/tok-EN_1").await.starts_with("HTTP/1.1 404"));
            assert_eq!(answers.counts(), AnswerCounts { answered: 1, not_found: 10, refused: 0 });
        });
    }

    #[test]
    fn no_http_and_long_heads_end_the_connection() {
        run(async |answers, address| {
            let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(5000));
            let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
            for request in ["\u{16}\u{3}\u{1}\r\n", "REGISTER sip:a SIP/2.0\r\n\r\n", &long, &many] {
                assert_eq!(ask(address, request).await, "", "{request:?}");
            }
            assert_eq!(answers.counts(), AnswerCounts { refused: 4, ..AnswerCounts::default() });
        });
    }

    #[test]
    fn a_source_and_all_together_have_a_number_of_connections() {
        let answers = Arc::new(Answers::default());
        let ip = |number: u8| IpAddr::from([192, 0, 2, number]);
        let mut places: Vec<_> = (0..8).map(|_| Place::take(&answers, ip(1)).unwrap()).collect();
        assert!(Place::take(&answers, ip(1)).is_none(), "of one source");
        let v6 = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
        places.extend((0..8).map(|host| Place::take(&answers, v6(host)).unwrap()));
        assert!(Place::take(&answers, v6(9)).is_none(), "of one network");
        for number in 2..8 {
            places.extend((0..8).map(|_| Place::take(&answers, ip(number)).unwrap()));
        }
        assert_eq!(places.len(), CONNECTIONS_MAX);
        assert!(Place::take(&answers, ip(100)).is_none(), "of all");
        drop(places);
        assert!(Place::take(&answers, ip(1)).is_some());
        let open = lock(&answers.open);
        assert_eq!((open.count, open.by_source.len()), (0, 0));
    }

    #[test]
    fn tokens_are_base64url_and_few() {
        let answers = Answers::default();
        for wrong in ["", "a/b", "../a", "a.b", "a b", "a\r\nb", "ä", &"a".repeat(256)] {
            let error = answers.set(wrong, "x").unwrap_err().to_string();
            assert!(error.contains("is no token"), "{error}");
        }
        for number in 0..TOKENS_MAX {
            answers.set(&number.to_string(), "x").unwrap();
        }
        assert!(answers.set("more", "x").unwrap_err().to_string().contains("too many"));
        answers.set("0", "y").unwrap();
    }
}
