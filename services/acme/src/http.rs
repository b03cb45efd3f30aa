//! HTTPS to a directory: one connection for each request, to the directory's own host only, with limits in bytes and time. Redirects are not
//! followed.

use crate::config::AcmeError;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Client of one directory.
#[derive(Clone)]
pub(crate) struct DirectoryClient {
    tls: TlsConnector,
    directory: Uri,
    /// Pause that the directory asked for with its last refusal, in seconds; 0: none.
    retry_after_s: Arc<AtomicU64>,
    /// Time of a request with its response.
    pub(crate) time_max: Duration,
}

impl DirectoryClient {
    /// `authorities` verify the certificate of the directory.
    pub(crate) fn new(url: &str, authorities: &[CertificateDer<'static>]) -> Result<Self, AcmeError> {
        let directory = url.parse().map_err(|_| AcmeError::new(format!("{url:?} is no URL")))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| AcmeError::new(why.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self { tls, directory, retry_after_s: Arc::default(), time_max: TIME_MAX })
    }

    /// Pause that the directory asked for with a refusal since the last call.
    pub(crate) fn take_retry_after(&self) -> Option<Duration> {
        let seconds = self.retry_after_s.swap(0, Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<Response<Bytes>, AcmeError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|why| AcmeError::new(why.to_string()))?.to_bytes();
        let (host, port) = self.own(&parts.uri)?;
        let is_directory = parts.uri == self.directory;
        let authority = parts.uri.authority().map_or("", |authority| authority.as_str());
        parts.headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_| no_url(authority))?);
        parts.headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(|_| no_url(path))?;
        let failed = |why: &dyn std::fmt::Display| AcmeError::new(format!("{host}:{port}: {why}"));
        let stream = connect(&host, port).await.map_err(|why| failed(&why))?;
        let name = ServerName::try_from(host.clone()).map_err(|why| failed(&why))?;
        let stream = self.tls.connect(name, stream).await.map_err(|why| failed(&why))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|why| failed(&why))?;
        // It ends when the response was read, or with its sender.
        let connection = tokio::spawn(connection);
        let response = async {
            let request = Request::from_parts(parts, Full::new(body));
            let response = sender.send_request(request).await.map_err(|why| failed(&why))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX).collect().await;
            Ok(Response::from_parts(parts, body.map_err(|why| failed(&why))?.to_bytes()))
        }
        .await;
        connection.abort();
        self.checked(response?, is_directory)
    }

    /// Host and port of a URL of the directory. Others are refused: nobody but the administrator chooses where requests go.
    fn own(&self, uri: &Uri) -> Result<(String, u16), AcmeError> {
        let host = uri
            .host()
            .filter(|host| uri.scheme_str() == Some("https") && self.directory.host() == Some(host));
        let Some(host) = host else {
            let text = format!(
                "the directory sends to {uri}, which is not https at its own host; it is not followed"
            );
            return Err(AcmeError::new(text));
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        Ok((bare.to_owned(), uri.port_u16().unwrap_or(HTTPS_PORT)))
    }

    /// The response, if the library can be given it.
    fn checked(&self, response: Response<Bytes>, is_directory: bool) -> Result<Response<Bytes>, AcmeError> {
        let status = response.status();
        let retry_after_s = seconds_of(response.headers());
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            return Err(AcmeError::new(format!("the directory redirects to {to}; it is not followed")));
        }
        if !status.is_success() {
            self.retry_after_s.store(retry_after_s.unwrap_or_default(), Ordering::Relaxed);
        }
        if is_directory {
            self.check_urls(response.body())?;
        }
        let (mut parts, body) = response.into_parts();
        // The library adds it to the clock, without a bound.
        parts.headers.remove(RETRY_AFTER);
        if let Some(seconds) = retry_after_s {
            parts.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        Ok(Response::from_parts(parts, body))
    }

    /// Checks the URLs of the directory: the library takes them as they are.
    fn check_urls(&self, body: &[u8]) -> Result<(), AcmeError> {
        let directory: serde_json::Value = serde_json::from_slice(body).map_err(|_| {
            AcmeError::new(format!("{} is no directory of ACME; check [tls.acme] directory", self.directory))
        })?;
        for key in URLS {
            let url = directory.get(key).and_then(serde_json::Value::as_str);
            let Some(uri) = url.and_then(|url| url.parse::<Uri>().ok()) else {
                let text = format!("{} names no {key}; check [tls.acme] directory", self.directory);
                return Err(AcmeError::new(text));
            };
            self.own(&uri)?;
        }
        Ok(())
    }
}

impl HttpClient for DirectoryClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let exchanged = timeout(client.time_max, client.clone().exchange(request)).await;
            let late = || {
                AcmeError::new(format!("the directory did not answer within {} s", client.time_max.as_secs()))
            };
            let response =
                exchanged.unwrap_or_else(|_| Err(late())).map_err(|why| Error::Other(Box::new(why)))?;
            let (parts, body) = response.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
        })
    }
}

/// Seconds of Retry-After, in the form of a number; a date counts as an hour.
fn seconds_of(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => RETRY_AFTER_S_MAX,
        Err(_) => RETRY_AFTER_DATE_S,
    };
    Some(seconds.min(RETRY_AFTER_S_MAX))
}

async fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("the name has no address");
    for address in tokio::net::lookup_host((host, port)).await?.take(ADDRESSES_MAX) {
        match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(why)) => last = why,
            Err(_) => last = std::io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

fn no_url(text: &str) -> AcmeError {
    AcmeError::new(format!("the directory sent {text:?}, which is no URL"))
}

const AGENT: &str = concat!("ringway/", env!("CARGO_PKG_VERSION"));
/// URLs that a directory must have (RFC 8555 §7.1.1).
const URLS: [&str; 3] = ["newNonce", "newAccount", "newOrder"];
const HTTPS_PORT: u16 = 443;
/// Maximum size of a response's head, and of its body.
const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 256 << 10;
/// Time of a request with its response.
const TIME_MAX: Duration = Duration::from_secs(30);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(8);
const ADDRESSES_MAX: usize = 3;
/// Longest pause that a directory can impose.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
const RETRY_AFTER_S_MAX: u64 = RETRY_AFTER_MAX.as_secs();
const RETRY_AFTER_DATE_S: u64 = 3600;
