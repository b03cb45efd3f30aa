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
    /// End of the reply that is read. One read may end after it, in a process that was paused.
    deadline: Instant,
    is_late: bool,
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
        Ok(Self { layer, on_wait, deadline: Instant::now(), is_late: false })
    }

    /// Sets the time limit of the next reply.
    pub(crate) fn expect_reply(&mut self, time: Duration) {
        (self.deadline, self.is_late) = (Instant::now() + time, false);
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
        if self.is_late {
            return Err(late());
        }
        let layer = &mut self.layer;
        let len = in_time(self.deadline, &self.on_wait, || match layer {
            Layer::Plain(stream) => stream.read(buffer),
            Layer::Tls(stream) => stream.read(buffer),
        })?;
        // A reply that comes in small parts is one that is awaited.
        (self.on_wait)();
        self.is_late = Instant::now() >= self.deadline;
        Ok(len)
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
                    return Err(late());
                }
            }
            done => return done,
        }
    }
}

fn late() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "no answer in time")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ReplyReader;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_reply_that_comes_byte_by_byte_ends_at_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // More than there is time for, and an end.
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            (0..10_000).take_while(|_| stream.write_all(b"+").is_ok()).for_each(|_| {
                std::thread::sleep(Duration::from_millis(1));
            });
        });
        let waits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waits);
        let on_wait: OnWait = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let url = LocationUrl::parse("redis://127.0.0.1").unwrap();
        let mut replies = ReplyReader::new(Socket::connect(("127.0.0.1", port), &url, on_wait).unwrap());
        replies.get_mut().expect_reply(Duration::from_millis(50));
        let error = replies.read().unwrap_err().to_string();
        assert!(error.contains("in time"), "{error}");
        assert!(waits.load(Ordering::Relaxed) > 1, "lookups end meanwhile");
        drop(replies);
        server.join().unwrap();
    }
}
