//! Layers of the connections to the server, and of those that it opens.

use super::Plan;
use super::seed;
use anyhow::{Context as _, Result};
use ringway_linux::BoxedLayer;
use ringway_sansio::{Entropy, Seed, Transport};
use ringway_stream::{
    Decoded, Encoded, Layer, LayerError, PassThrough, WebSocket, WebSocketServer, WebSocketTarget,
};
use ringway_tls::{InlineTls, TlsCounters};
use std::net::SocketAddr;
use std::sync::Arc;

/// Creates the layers of the connections that one side opens and accepts.
pub(crate) struct Layers {
    transport: Transport,
    target: SocketAddr,
    tls: Option<(InlineTls, Option<String>)>,
    websocket: Option<(WebSocketTarget, Entropy)>,
    accepted_websocket: Arc<WebSocketServer>,
    round_trips: u8,
}

impl Layers {
    /// # Errors
    /// The name of the server is not valid; the system has no random numbers.
    pub(crate) fn new(plan: &Plan) -> Result<Self> {
        let target = plan.target;
        let tls = plan.tls.as_ref().map(|tls| (tls.layers(), tls.name().map(str::to_owned)));
        if let Some((layers, name)) = &tls {
            layers.client(target, name.as_deref()).context("the name of the server is not valid")?;
        }
        let websocket = match plan.transport {
            Transport::Ws | Transport::Wss => {
                let to = WebSocketTarget::new(&target.to_string(), "/", None);
                Some((to.context("the server's address is not valid")?, Entropy::new(&seed()?)))
            }
            Transport::Udp | Transport::Tcp | Transport::Tls | Transport::Dtls => None,
        };
        let accepted_websocket = Arc::default();
        let (transport, round_trips) = (plan.transport, plan.round_trips);
        Ok(Self { transport, target, tls, websocket, accepted_websocket, round_trips })
    }

    /// Counters of handshakes, over TLS.
    pub(crate) fn counters(&self) -> Option<&Arc<TlsCounters>> {
        self.tls.as_ref().map(|(tls, _)| tls.counters())
    }

    /// Layer of a connection that is being opened.
    pub(crate) fn dialled(&mut self) -> BoxedLayer {
        let tls = match &self.tls {
            Some((tls, name)) if self.transport.is_secure() => tls.client(self.target, name.as_deref()),
            Some(_) | None => None,
        };
        match (tls, &mut self.websocket) {
            (Some(tls), Some(websocket)) => over(tls, websocket),
            (Some(tls), None) => Box::new(tls),
            (None, Some(websocket)) => over(PassThrough, websocket),
            (None, None) if self.round_trips > 0 => Box::new(RoundTrips::new(self.round_trips)),
            (None, None) => Box::new(PassThrough),
        }
    }

    /// Layer of a connection that `remote` has opened. Without a certificate no handshake succeeds, and the bytes of one are no
    /// SIP message, so that the connection counts as broken.
    pub(crate) fn accepted(&self, remote: SocketAddr) -> BoxedLayer {
        let tls = match &self.tls {
            Some((tls, _)) if self.transport.is_secure() => tls.server(remote),
            Some(_) | None => None,
        };
        let websocket = || Arc::clone(&self.accepted_websocket);
        match (tls, self.websocket.is_some()) {
            (Some(tls), true) => Box::new(WebSocket::accepted(tls, websocket())),
            (Some(tls), false) => Box::new(tls),
            (None, true) => Box::new(WebSocket::accepted(PassThrough, websocket())),
            (None, false) => Box::new(PassThrough),
        }
    }
}

fn over(
    lower: impl Layer + Send + 'static,
    (target, entropy): &mut (WebSocketTarget, Entropy),
) -> BoxedLayer {
    let seed = Seed::from_bytes(entropy.bytes());
    Box::new(WebSocket::dialled(lower, target, MESSAGE_BYTES_MAX, &seed))
}

/// TCP with as many round trips before the first message as a handshake has: keep-alives (RFC 5626 §3.5.1), which the server
/// answers. So the cost of a handshake's flights is measured without its arithmetic.
struct RoundTrips {
    left: u8,
    /// Received bytes of an answer.
    answered: usize,
    /// Messages to send after the round trips.
    kept: Vec<u8>,
}

impl RoundTrips {
    const fn new(count: u8) -> Self {
        Self { left: count, answered: 0, kept: Vec::new() }
    }
}

impl Layer for RoundTrips {
    fn start(&mut self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(PING);
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let mut rest = bytes;
        while self.left > 0 && !rest.is_empty() {
            let taken = rest.len().min(PONG.len() - self.answered);
            rest = rest.get(taken..).unwrap_or_default();
            self.answered += taken;
            if self.answered == PONG.len() {
                (self.left, self.answered) = (self.left - 1, 0);
                wire.extend_from_slice(if self.left > 0 { PING } else { &self.kept });
            }
        }
        if self.left == 0 {
            self.kept = Vec::new();
            decoded(Decoded::Bytes(rest));
        }
        Ok(())
    }

    fn encode(&mut self, message: &[u8], _wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        if self.left == 0 {
            return Ok(Encoded::Unchanged);
        }
        self.kept.extend_from_slice(message);
        Ok(Encoded::Appended)
    }

    fn is_handshaking(&self) -> bool {
        self.left > 0
    }

    fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }
}

const PING: &[u8] = b"\r\n\r\n";
const PONG: &[u8] = b"\r\n";
/// Maximum length of a received WebSocket message.
const MESSAGE_BYTES_MAX: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_the_round_trips() {
        let (mut layer, mut wire, mut got) = (RoundTrips::new(2), Vec::new(), Vec::new());
        layer.start(&mut wire);
        assert_eq!(layer.encode(b"REGISTER", &mut wire), Ok(Encoded::Appended));
        for bytes in [&b"\r"[..], b"\n", b"\r\nSIP/2.0"] {
            assert!(layer.is_handshaking());
            let mut decoded = |part: Decoded<'_>| {
                if let Decoded::Bytes(bytes) = part {
                    got.extend_from_slice(bytes);
                }
            };
            layer.decode(bytes, &mut decoded, &mut wire).unwrap();
        }
        assert_eq!((wire.as_slice(), got.as_slice()), (&b"\r\n\r\n\r\n\r\nREGISTER"[..], &b"SIP/2.0"[..]));
        assert_eq!(layer.encode(b"ACK", &mut wire), Ok(Encoded::Unchanged));
        assert!(!layer.is_handshaking());
    }
}
