//! HTTPS GET of a certificate: from addresses that are permitted, with limits in bytes and time. Redirects are not followed.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{CACHE_CONTROL, HOST, USER_AGENT};
use hyper::{HeaderMap, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Client of the hosts that have certificates of signers.
#[derive(Clone)]
pub(super) struct Fetcher {
    tls: TlsConnector,
    permits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Lookups of host names, some of which may last longer than their fetch.
    lookups: Arc<tokio::sync::Semaphore>,
}

impl Fetcher {
    /// `authorities` verify the hosts; `permits` is true for an address that is connected to.
    pub(super) fn new(
        authorities: &[CertificateDer<'static>],
        permits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let lookups = Arc::new(tokio::sync::Semaphore::new(LOOKUPS_MAX));
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), permits, lookups })
    }

    /// Fetches a URL that the server permits; returns the body, and the time for which it may be kept.
    ///
    /// # Errors
    /// The reason for the log.
    pub(super) async fn fetch(&self, url: &str) -> Result<(Bytes, Duration), String> {
        let late = || format!("no answer within {} s", TIME_MAX.as_secs());
        timeout(TIME_MAX, self.exchange(url)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(&self, url: &str) -> Result<(Bytes, Duration), String> {
        let uri: Uri = url.parse().map_err(|_| "it is no URL")?;
        let authority = uri.authority().ok_or("it has no host")?;
        let (host, port) = (authority.host().to_owned(), authority.port_u16().unwrap_or(HTTPS_PORT));
        let stream = self.connect(&host, port).await?;
        let failed = |why: &dyn std::fmt::Display| why.to_string();
        let name = ServerName::try_from(host).map_err(|why| failed(&why))?;
        let stream = self.tls.connect(name, stream).await.map_err(|why| failed(&why))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|why| failed(&why))?;
        let connection = AbortOnDrop(tokio::spawn(async move { drop(connection.await) }));
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path)
            .header(HOST, authority.as_str())
            .header(USER_AGENT, AGENT)
            .body(Empty::<Bytes>::new())
            .map_err(|why| failed(&why))?;
        let response = sender.send_request(request).await.map_err(|why| failed(&why))?;
        if response.status() != 200 {
            return Err(format!("the answer is {}", response.status()));
        }
        let kept_for = kept_for(response.headers());
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
        drop(connection);
        Ok((body.map_err(|why| failed(&why))?.to_bytes(), kept_for))
    }

    /// Connects to the first address of a host that is permitted. Its name alone says nothing: the addresses are compared.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, String> {
        let lookup =
            Arc::clone(&self.lookups).try_acquire_owned().map_err(|_| "too many lookups of host names")?;
        let host = host.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let _until_it_ends = lookup;
            (host, port).to_socket_addrs().map(|found| found.take(ADDRESSES_MAX).collect::<Vec<SocketAddr>>())
        });
        let found = found.await.map_err(|why| why.to_string())?.map_err(|why| why.to_string())?;
        let mut last = match found.first() {
            Some(first) => format!("{} is not a public address; see [stir] certificate_networks", first.ip()),
            None => "the host has no address".to_owned(),
        };
        for address in found.into_iter().filter(|address| (self.permits)(address.ip())).take(TRIED_MAX) {
            match timeout(CONNECT_TIME_MAX, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(why)) => last = why.to_string(),
                Err(_) => last = "no connection in time".to_owned(),
            }
        }
        Err(last)
    }
}

/// Task that ends with this value.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Time for which a response may be kept, by its Cache-Control.
fn kept_for(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|value| value.to_str().ok());
    let mut kept_for = KEPT_FOR;
    for directive in values.flat_map(|value| value.split(',')).map(str::trim) {
        match directive.split_once('=') {
            Some((name, seconds)) if name.eq_ignore_ascii_case("max-age") => {
                let seconds = seconds.trim().trim_matches('"');
                kept_for = seconds.parse().map_or(KEPT_FOR_MIN, Duration::from_secs);
            }
            None if directive.eq_ignore_ascii_case("no-store")
                || directive.eq_ignore_ascii_case("no-cache") =>
            {
                return KEPT_FOR_MIN;
            }
            Some(_) | None => {}
        }
    }
    kept_for.clamp(KEPT_FOR_MIN, KEPT_FOR_MAX)
}

const AGENT: &str = concat!("ringway/", env!("CARGO_PKG_VERSION"));
const HTTPS_PORT: u16 = 443;
/// Time of a fetch, with the lookup of the host.
const TIME_MAX: Duration = Duration::from_secs(3);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum size of the head of a response, and of its body.
const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 16 << 10;
/// Maximum number of addresses of a host that are looked at, and that are tried.
const ADDRESSES_MAX: usize = 16;
const TRIED_MAX: usize = 2;
/// Maximum number of lookups of host names that have not ended.
const LOOKUPS_MAX: usize = 64;
/// Time for which a certificate is kept whose server does not say how long, and its limits.
const KEPT_FOR: Duration = Duration::from_secs(3600);
const KEPT_FOR_MIN: Duration = Duration::from_secs(60);
const KEPT_FOR_MAX: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_control_is_read_within_limits() {
        for (value, seconds) in [
            ("", 3600),
            ("max-age=600", 600),
            ("public, Max-Age=\"7200\", immutable", 7200),
            ("max-age=1", 60),
            ("max-age=99999999999999999999999", 60),
            ("max-age=-5", 60),
            ("max-age=31536000", 86_400),
            ("no-store, max-age=600", 60),
            ("no-cache", 60),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, value.parse().unwrap());
            assert_eq!(kept_for(&headers), Duration::from_secs(seconds), "{value}");
        }
    }
}
