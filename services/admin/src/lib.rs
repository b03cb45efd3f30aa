//! The administrator's interface: a dashboard, a JSON API and metrics, over HTTP on a thread of its own.
//!
//! Does: answers `/api/server`, `/api/registrations`, `/api/calls`, `/api/connections`, `/api/stats` and `/metrics` from a
//! [`View`] of the running server, and `/api/trace` from its [`Traces`]; passes changes and what must be read from files (`/api/users`, `/api/config`, `/api/routes`,
//! `/api/reload`, `/api/blocks`) to its [`Control`]; has the files of the dashboard, which use this API; asks for a bearer
//! token when one is set, except for these files, slows wrong ones, and proves to a client that it has it; on a loopback address answers only to
//! loopback names, so that no web page can reach it by a name of its own (DNS rebinding), and shows and changes nothing for pages of
//! other origins; speaks TLS with clients that
//! begin it, and requires it of other machines' clients if there is a certificate.
//!
//! Does not: decide about a change, or load certificates. Its tokio runtime never touches the threads that carry SIP.
//!
//! Start reading at [`Admin::bind`].

mod access;
mod changes;
mod clients;
mod control;
mod dashboard;
mod pages;
mod view;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use access::AccessCheck;
pub use access::{LONG_TOKEN_BYTES, TokenProof};
pub use clients::TlsSource;
use clients::{Clients, HandshakePace, Opened};
pub use control::{
    Answer, Block, BlockPage, Change, Control, Forwards, NewBlock, NoAnswer, RoutesEdit, RoutesEffect,
    TextPosition, User, UserQuery,
};
use pages::Source;
pub use view::{
    Call, CallRecord, Cluster, ClusterNode, Connection, MetricKind, Page, Registration, Relay, ServerInfo,
    SharedStore, Stat, Stats, StepTime, StepTimes, TraceEntry, TracePage, TraceRefusal, Traces, Trunk, View,
    page_over_shards,
};

/// The longest request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most headers in a request.
const HEADERS_MAX: usize = 64;
/// Time for changes under way when the server stops.
const CHANGE_END_MAX: Duration = Duration::from_secs(2);
/// Maximum time for a request's head, and between two requests of a connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum life of a connection. A response under way then is sent whole, if it is within the time of the longest poll.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(120);
const LAST_RESPONSE_MAX: Duration = Duration::from_secs(60);
/// Changes that are made at once; others wait.
const CHANGES_AT_ONCE: usize = 2;
/// Pause after accept failed, mostly for lack of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Error of binding the admin listener.
#[derive(Debug, thiserror::Error)]
#[error("[admin] listen {address}: {source}; {}", advice(source))]
pub struct AdminError {
    /// The address asked for.
    pub address: SocketAddr,
    /// The system's reason.
    pub source: io::Error,
}

/// A bound admin listener, not yet served.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

impl Admin {
    /// Binds `address`; port 0 takes any free one.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bind().map_err(|source| AdminError { address, source })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `view` and `control` on a thread of its own until the result is stopped or dropped. A request must carry `token` as
    /// `Authorization: Bearer`, unless it is empty. With a certificate from `tls`, clients may use TLS, and those on other
    /// machines must.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn serve(
        self,
        view: Arc<dyn View>,
        control: Arc<dyn Control>,
        token: &str,
        tls: TlsSource,
    ) -> io::Result<AdminServer> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CHANGES_AT_ONCE)
            .build()?;
        let clients = Arc::new(Clients::default());
        let shown = Arc::clone(&clients);
        let access = Arc::new(AccessCheck::new(self.address, token));
        let others = changes::router(control).merge(pages::trace_router(Arc::clone(&view)));
        let router = pages::router(view, others, Arc::clone(&clients), Arc::clone(&access));
        let (stop, stopped) = oneshot::channel();
        let listener = self.listener;
        let thread = Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = accept(listener, router, &shown, &tls) => if let Err(error) = result {
                        tracing::error!("the admin listener stopped: {error}; restart the server to have it back");
                    },
                    _ = stopped => {}
                }
            });
            // A change that waits for a database does not keep the server from stopping.
            runtime.shutdown_timeout(CHANGE_END_MAX);
        })?;
        Ok(AdminServer { address: self.address, access, clients, stop: Some(stop), thread: Some(thread) })
    }
}

/// A served admin listener.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    access: Arc<AccessCheck>,
    clients: Arc<Clients>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requires another token from now on; empty: none.
    pub fn set_token(&self, token: &str) {
        self.access.set_token(token);
    }

    /// Counters of limits since the start, with their names.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        pages::limits(&self.clients, &self.access).into_iter().map(|(name, _, count)| (name, count))
    }

    /// Closes the listener and all connections, and ends the thread.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It fails if the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(
    listener: TcpListener,
    router: Router,
    clients: &Arc<Clients>,
    tls: &TlsSource,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let pace = Arc::new(HandshakePace::new(Instant::now()));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY).await;
            continue;
        };
        let (slot, displaced) = loop {
            match clients.enter(peer.ip(), Instant::now()) {
                Ok(entered) => break entered,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        };
        let (router, tls, pace) = (router.clone(), Arc::clone(tls), Arc::clone(&pace));
        tokio::spawn(async move {
            // A connection that takes too long is closed without a response.
            const TIME_MAX: Duration = CONNECTION_TIME_MAX.saturating_add(LAST_RESPONSE_MAX);
            let service = Service { router, source: Source(peer.ip()) };
            tokio::select! {
                _ = tokio::time::timeout(TIME_MAX, serve_connection(stream, service, &tls, &pace)) => {}
                _ = displaced => {}
            }
            drop(slot);
        });
        // Many connections at once must not keep earlier ones from being served.
        tokio::task::yield_now().await;
    }
}

async fn serve_connection(stream: TcpStream, service: Service, tls: &TlsSource, pace: &HandshakePace) {
    match clients::open(stream, tls, pace).await {
        Some(Opened::Plain(stream)) => serve_http(stream, service, CONNECTION_TIME_MAX).await,
        Some(Opened::Tls(stream)) => serve_http(stream, service, CONNECTION_TIME_MAX).await,
        None => {}
    }
}

/// The paths for the requests of one connection.
struct Service {
    router: Router,
    source: Source,
}

/// Serves requests for `life`, and the one that is under way then.
async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    Service { router, source }: Service,
    life: Duration,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(source);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let within_life = tokio::time::timeout(life, connection.as_mut()).await;
    let served = match within_life {
        Ok(served) => served,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("an admin connection ended: {error}");
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses the port: stop it, or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges: choose another port",
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address: choose one that it has",
        _ => "choose another address or port",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn a_response_that_is_under_way_at_the_end_of_its_connection_is_sent_whole() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            "events"
        };
        let source = Source(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let service = Service { router: Router::new().fallback(slow), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = TcpStream::from_std(server).unwrap();
            serve_http(stream, service, Duration::from_millis(100)).await;
        });
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("events"), "{text}");
    }
}
