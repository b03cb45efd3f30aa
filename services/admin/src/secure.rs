//! TLS of the admin listener: which connections need it, and its handshake.

use crate::pace::HandshakePace;
use rustls::ServerConfig;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Certificate and rules for TLS at the time of a connection; `None`: there is no certificate.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// A connection on which HTTP can begin.
pub(crate) enum Opened {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Finds out by its first byte if the client speaks TLS, and performs the handshake. `None`: it sent nothing in time, its
/// handshake failed, or it must speak TLS and does not.
pub(crate) async fn open(stream: TcpStream, tls: &TlsSource, pace: &HandshakePace) -> Option<Opened> {
    let mut first = [0];
    let peeked = tokio::time::timeout(TIME_MAX, stream.peek(&mut first)).await;
    if !matches!(peeked, Ok(Ok(1))) {
        return None;
    }
    let (peer, local) = (stream.peer_addr().ok()?.ip(), stream.local_addr().ok()?.ip());
    match (tls(), first[0]) {
        (Some(config), HANDSHAKE_RECORD) => {
            pace.turn().await;
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(TIME_MAX, handshake).await.ok()? {
                Ok(stream) => Some(Opened::Tls(Box::new(stream))),
                Err(error) => {
                    tracing::debug!("an admin client's TLS handshake failed: {error}");
                    None
                }
            }
        }
        (Some(_), _) if !is_same_machine(peer, local) => {
            // Closing a socket with unread bytes would discard the response.
            let _ = stream.try_read(&mut [0; 4096]);
            let _ = stream.try_write(USE_TLS);
            None
        }
        (_, _) => Some(Opened::Plain(stream)),
    }
}

/// True if nobody else can read the connection: it does not leave this machine.
fn is_same_machine(peer: IpAddr, local: IpAddr) -> bool {
    peer.to_canonical().is_loopback() || peer.to_canonical() == local.to_canonical()
}

/// Content type of a TLS record with a handshake message (RFC 8446 §5.1). No HTTP method begins with it.
const HANDSHAKE_RECORD: u8 = 22;
/// Maximum time until the first byte, and for a handshake.
const TIME_MAX: Duration = Duration::from_secs(10);
const USE_TLS: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade, close\r\n\
    Content-Type: text/plain\r\nContent-Length: 62\r\n\r\nOther machines reach this listener by https only, not by http\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_only() {
        let is_same =
            |peer: &str, local: &str| is_same_machine(peer.parse().unwrap(), local.parse().unwrap());
        assert!(is_same("127.0.0.1", "127.0.0.1"));
        assert!(is_same("::1", "::1"));
        assert!(is_same("::ffff:127.0.0.1", "::ffff:127.0.0.1"), "a listener on :: has mapped addresses");
        assert!(is_same("192.0.2.7", "192.0.2.7"), "the machine's own address");
        assert!(is_same("::ffff:192.0.2.7", "192.0.2.7"));
        assert!(!is_same("192.0.2.8", "192.0.2.7"));
        assert!(!is_same("::ffff:192.0.2.8", "::ffff:192.0.2.7"));
        assert!(!is_same("2001:db8::1", "2001:db8::2"));
    }

    #[test]
    fn the_refusal_has_the_length_it_states() {
        let text = std::str::from_utf8(USE_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
