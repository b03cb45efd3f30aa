//! A socket whose waits are bounded, with or without TLS.

use crate::{LocationUrl, StoreError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Called again and again while a read waits.
pub(crate) type OnWait = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Socket {
    layer: Layer,
    on_wait: OnWait,
    /// End of the reply that is read.
    deadline: Instant,
}

enum Layer {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    pub(crate) fn connect(
        (host, port): (&str, u16),
        url: &LocationUrl,
        on_wait: OnWait,
    ) -> Result<Self, StoreError> {
        let stream = connect(host, port).map_err(StoreError::new)?;
        let layer = if url.is_tls() {
            let name = ServerName::try_from(host.to_owned()).map_err(StoreError::new)?;
            let session = ClientConnection::new(tls(url)?, name).map_err(StoreError::new)?;
            Layer::Tls(Box::new(StreamOwned::new(session, stream)))
        } else {
            Layer::Plain(stream)
        };
        Ok(Self { layer, on_wait, deadline: Instant::now() })
    }

    /// Sets the time limit of the next reply.
    pub(crate) fn expect_reply(&mut self, time: Duration) {
        self.deadline = Instant::now() + time;
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.layer {
            Layer::Plain(stream) => stream.as_fd(),
            Layer::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let layer = &mut self.layer;
        in_time(self.deadline, &self.on_wait, || match layer {
            Layer::Plain(stream) => stream.read(buffer),
            Layer::Tls(stream) => stream.read(buffer),
        })
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let layer = &mut self.layer;
        in_time(Instant::now() + WRITE_TIME_MAX, &self.on_wait, || match layer {
            Layer::Plain(stream) => stream.write(buffer),
            Layer::Tls(stream) => stream.write(buffer),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let layer = &mut self.layer;
        in_time(Instant::now() + WRITE_TIME_MAX, &self.on_wait, || match layer {
            Layer::Plain(stream) => stream.flush(),
            Layer::Tls(stream) => stream.flush(),
        })
    }
}

/// Repeats a step that waits for the network: a write of TLS waits for the server's part of the handshake too.
fn in_time<T>(deadline: Instant, on_wait: &OnWait, mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match step() {
            Err(error) if is_wait(&error) => {
                on_wait();
                if Instant::now() >= deadline {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no answer in time"));
                }
            }
            done => return done,
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()?.take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(WAIT_STEP))?;
                stream.set_write_timeout(Some(WRITE_TIME_MAX))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn tls(url: &LocationUrl) -> Result<Arc<ClientConfig>, StoreError> {
    let Some(authorities) = url.authorities() else {
        return Err(StoreError::new("rediss:// needs the authorities of the store's certificate"));
    };
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(StoreError::new)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(StoreError::new)?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

/// Maximum number of addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
const WRITE_TIME_MAX: Duration = Duration::from_secs(2);
/// Time between two calls of [`OnWait`].
const WAIT_STEP: Duration = Duration::from_millis(10);
