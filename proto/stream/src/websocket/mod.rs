//! WebSocket as a layer (RFC 6455, RFC 7118).
//!
//! ```text
//! handshake --request or response is valid--> open --Close sent, by either reason--> closed
//!     |                                        |
//!     +---- refused: HTTP response ------------+---- violation: Close with its status code ---> closed
//! ```

mod frame;
mod handshake;
mod receiver;

use crate::{Decoded, Encoded, Layer, LayerError};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use frame::{CloseCode, Opcode, Violation};
use handshake::{Head, Pushed, Refusal};
use receiver::{Part, Receiver};
use ringway_sansio::{Entropy, PeerNames, Seed};

/// WebSocket over another layer: over [`PassThrough`](crate::PassThrough) it is `ws`, over TLS `wss`.
///
/// One SIP message is one WebSocket message. Fragments are passed on as they come; the layer keeps an incomplete HTTP
/// head, an incomplete header of a frame and an incomplete control frame. Messages that are sent before the end of the
/// handshake are kept, and counted in [`Layer::held_bytes`].
///
/// ```
/// use ringway_sansio::Seed;
/// use ringway_stream::{Decoded, Layer, PassThrough, WebSocket, WebSocketServer, WebSocketTarget};
/// use std::sync::Arc;
///
/// let target = WebSocketTarget::new("sip.example.com", "/", None).unwrap();
/// let mut client = WebSocket::dialled(PassThrough, &target, 65_535, &Seed::from_number(1));
/// let mut server = WebSocket::accepted(PassThrough, Arc::new(WebSocketServer::default()));
/// let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
/// client.start(&mut to_server);
/// server.decode(&to_server, &mut |_| {}, &mut to_client)?;
/// client.decode(&to_client, &mut |_| {}, &mut Vec::new())?;
///
/// to_server.clear();
/// client.encode(b"OPTIONS ...", &mut to_server)?;
/// let mut text = Vec::new();
/// let mut decoded = |part: Decoded<'_>| {
///     if let Decoded::Bytes(bytes) = part {
///         text.extend_from_slice(bytes);
///     }
/// };
/// server.decode(&to_server, &mut decoded, &mut to_client)?;
/// assert_eq!(text, b"OPTIONS ...");
/// # Ok::<(), ringway_stream::LayerError>(())
/// ```
#[derive(Debug)]
pub struct WebSocket<L> {
    lower: L,
    endpoint: Endpoint,
}

/// Settings of accepted WebSocket connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketServer {
    /// Origins whose pages may connect, as browsers send them: `https://phone.example.com`, with the port unless it is the
    /// scheme's; a request without one is refused. If the list is empty, pages of the same host may connect, and programs, which
    /// send no origin.
    pub origins: Vec<String>,
    /// Maximum size of a message in bytes; a larger one closes the connection with 1009.
    pub message_bytes_max: usize,
}

impl Default for WebSocketServer {
    fn default() -> Self {
        Self { origins: Vec::new(), message_bytes_max: 65_535 }
    }
}

/// Destination of a dialled WebSocket connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketTarget {
    host: String,
    resource: String,
    origin: Option<String>,
}

impl WebSocketTarget {
    /// Creates a target: value of Host (with the port unless it is the scheme's), path with query, value of Origin.
    /// `None`: a value is empty or has characters other than visible ASCII, or the path does not begin with `/`.
    pub fn new(host: &str, resource: &str, origin: Option<&str>) -> Option<Self> {
        let is_valid = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let are_valid = is_valid(host) && is_valid(resource) && origin.is_none_or(is_valid);
        (are_valid && resource.starts_with('/')).then(|| Self {
            host: host.into(),
            resource: resource.into(),
            origin: origin.map(Into::into),
        })
    }
}

impl<L: Layer> WebSocket<L> {
    /// Creates the server's side of an accepted connection.
    pub fn accepted(lower: L, server: Arc<WebSocketServer>) -> Self {
        let receiver = Receiver::new(true, server.message_bytes_max);
        Self { lower, endpoint: Endpoint::new(Role::Server(server), receiver) }
    }

    /// Creates the client's side of a dialled connection. Key and masks come from `seed`, which must not be used for
    /// another connection: a predictable mask allows to attack the proxies on the path (RFC 6455 §10.3).
    pub fn dialled(lower: L, target: &WebSocketTarget, message_bytes_max: usize, seed: &Seed) -> Self {
        let mut entropy = Entropy::new(seed);
        let key = handshake::encode_key(&entropy.bytes());
        let mut request = Vec::new();
        handshake::write_request(target, &key, &mut request);
        let role = Role::Client { request, key, masks: Masks { entropy, block: [[0; 4]; 8], left: 0 } };
        Self { lower, endpoint: Endpoint::new(role, Receiver::new(false, message_bytes_max)) }
    }

    /// Receives what the lower layer decodes.
    fn run_lower(
        &mut self,
        run: impl FnOnce(&mut L, &mut dyn FnMut(Decoded<'_>), &mut Vec<u8>) -> Result<(), LayerError>,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (mut own, mut result) = (Vec::new(), Ok(()));
        let Self { lower, endpoint } = self;
        let mut each = |part: Decoded<'_>| match part {
            Decoded::Bytes(bytes) => {
                if result.is_ok() {
                    result = endpoint.receive(bytes, decoded, &mut own);
                }
            }
            Decoded::StreamEnd | Decoded::Ping => decoded(part),
            // Boundaries of the lower layer have no meaning here.
            Decoded::MessageStart | Decoded::MessageEnd => {}
        };
        let lower_result = run(lower, &mut each, wire);
        endpoint.answer_ping(&mut own);
        let passed = self.pass_down(&own, wire);
        lower_result.and(result).and(passed)
    }

    /// Passes bytes of this layer to the lower one.
    fn pass_down(&mut self, own: &[u8], wire: &mut Vec<u8>) -> Result<(), LayerError> {
        if !own.is_empty() && self.lower.encode(own, wire)? == Encoded::Unchanged {
            wire.extend_from_slice(own);
        }
        Ok(())
    }
}

impl<L: Layer> Layer for WebSocket<L> {
    fn start(&mut self, wire: &mut Vec<u8>) {
        self.lower.start(wire);
        if let Role::Client { request, .. } = &mut self.endpoint.role {
            let request = core::mem::take(request);
            // A lower layer that cannot send is reported by the next call.
            let _ = self.pass_down(&request, wire);
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.run_lower(|lower, decoded, wire| lower.decode(bytes, decoded, wire), decoded, wire)
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        self.run_lower(L::resume, decoded, wire)
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        let opcode = if core::str::from_utf8(message).is_ok() { Opcode::Text } else { Opcode::Binary };
        match self.endpoint.state {
            State::Handshake(_) => {
                let mask = self.endpoint.mask();
                frame::write(opcode, message, mask, &mut self.endpoint.waiting);
            }
            State::Open => {
                let mut own = Vec::new();
                frame::write(opcode, message, self.endpoint.mask(), &mut own);
                self.pass_down(&own, wire)?;
            }
            State::Closed => return Err(LayerError("the WebSocket connection is closed")),
        }
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        let mut own = Vec::new();
        let code = match self.endpoint.role {
            Role::Server(_) => CloseCode::GoingAway,
            Role::Client { .. } => CloseCode::Normal,
        };
        self.endpoint.close(Some(code), &mut own);
        // The connection ends in any case.
        let _ = self.pass_down(&own, wire);
        self.lower.finish(wire);
    }

    /// None: a browser presents a certificate for the pages of every origin, so it does not show the user's consent.
    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        None
    }

    fn is_handshaking(&self) -> bool {
        // The lower layer's handshake ends before this one.
        matches!(self.endpoint.state, State::Handshake(_))
    }

    fn held_bytes(&self) -> usize {
        self.lower.held_bytes() + self.endpoint.held_bytes()
    }
}

/// WebSocket without the layer below.
#[derive(Debug)]
struct Endpoint {
    role: Role,
    state: State,
    receiver: Receiver,
    /// Frames that are sent after the handshake.
    waiting: Vec<u8>,
    /// Payload of the last Ping that has no answer.
    ping: Option<Vec<u8>>,
}

enum Role {
    Server(Arc<WebSocketServer>),
    Client {
        /// The handshake's request, until it is sent.
        request: Vec<u8>,
        key: [u8; 24],
        masks: Masks,
    },
}

impl core::fmt::Debug for Role {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Client { .. } => "Client",
        })
    }
}

/// Random masks, taken from the generator eight at a time.
struct Masks {
    entropy: Entropy,
    block: [[u8; 4]; 8],
    left: usize,
}

impl Masks {
    fn next(&mut self) -> [u8; 4] {
        if self.left == 0 {
            self.entropy.fill(self.block.as_flattened_mut());
            self.left = self.block.len();
        }
        self.left -= 1;
        self.block.get(self.left).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
enum State {
    Handshake(Head),
    Open,
    /// A Close is sent, or the handshake is refused. Received bytes are ignored.
    Closed,
}

impl Endpoint {
    const fn new(role: Role, receiver: Receiver) -> Self {
        let state = State::Handshake(Head::new());
        Self { role, state, receiver, waiting: Vec::new(), ping: None }
    }

    /// Handles bytes of the peer. Bytes for the peer are appended to `own`.
    fn receive(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        own: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let behind = match &mut self.state {
            State::Handshake(head) => {
                let pushed = head.push(bytes);
                if matches!(self.role, Role::Server(_)) && !head.may_be_get() {
                    return self.refuse(Refusal::BadRequest(NOT_A_GET), own);
                }
                match pushed {
                    Pushed::More => return Ok(()),
                    Pushed::TooLarge => return self.refuse(Refusal::TooLarge(HEAD_TOO_LARGE), own),
                    Pushed::Complete(behind) => behind,
                }
            }
            State::Open => return self.receive_frames(bytes, decoded, own),
            State::Closed => return Ok(()),
        };
        self.open(own)?;
        self.receive_frames(behind, decoded, own)
    }

    /// Ends the handshake.
    fn open(&mut self, own: &mut Vec<u8>) -> Result<(), LayerError> {
        let State::Handshake(head) = &self.state else { return Ok(()) };
        match &self.role {
            Role::Server(server) => match handshake::check_request(head.bytes(), server) {
                Ok(accept) => handshake::write_response(&accept, own),
                Err(refusal) => return self.refuse(refusal, own),
            },
            Role::Client { key, .. } => {
                if let Err(text) = handshake::check_response(head.bytes(), key) {
                    self.end();
                    return Err(LayerError(text));
                }
            }
        }
        self.state = State::Open;
        own.append(&mut core::mem::take(&mut self.waiting));
        Ok(())
    }

    fn receive_frames(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        own: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (ping, mut close) = (&mut self.ping, None);
        let mut each = |part: Part<'_>| match part {
            Part::Start => decoded(Decoded::MessageStart),
            Part::Bytes(bytes) => decoded(Decoded::Bytes(bytes)),
            Part::End => decoded(Decoded::MessageEnd),
            Part::Ping(payload) => {
                let held = ping.get_or_insert_default();
                held.clear();
                held.extend_from_slice(payload);
                decoded(Decoded::Ping);
            }
            Part::Close(code) => {
                decoded(Decoded::StreamEnd);
                close = Some(code);
            }
        };
        let result = self.receiver.receive(bytes, &mut each);
        if let Some(code) = close {
            self.close(code.map(CloseCode::Echo), own);
        }
        result.map_err(|Violation(code, text)| {
            self.close(Some(code), own);
            LayerError(text)
        })
    }

    /// Answers the last Ping (RFC 6455 §5.5.3: earlier ones need no answer).
    fn answer_ping(&mut self, own: &mut Vec<u8>) {
        if let (Some(payload), State::Open) = (self.ping.take(), &self.state) {
            frame::write(Opcode::Pong, &payload, self.mask(), own);
        }
    }

    /// Appends a Close, the last frame. Before the end of the handshake there are no frames.
    fn close(&mut self, code: Option<CloseCode>, own: &mut Vec<u8>) {
        if let State::Open = self.state {
            self.answer_ping(own);
            let number = code.map(|code| code.number().to_be_bytes());
            let payload = number.as_ref().map_or(&[][..], |bytes| &bytes[..]);
            frame::write(Opcode::Close, payload, self.mask(), own);
        }
        self.end();
    }

    fn refuse(&mut self, refusal: Refusal, own: &mut Vec<u8>) -> Result<(), LayerError> {
        if let Role::Server(_) = self.role {
            refusal.write(own);
        }
        self.end();
        Err(LayerError(refusal.reason()))
    }

    /// Releases the memory of a closed connection.
    fn end(&mut self) {
        self.state = State::Closed;
        self.waiting = Vec::new();
        self.ping = None;
    }

    /// Mask of the next frame, if this side masks.
    fn mask(&mut self) -> Option<[u8; 4]> {
        match &mut self.role {
            Role::Server(_) => None,
            Role::Client { masks, .. } => Some(masks.next()),
        }
    }

    fn held_bytes(&self) -> usize {
        let head = match &self.state {
            State::Handshake(head) => head.held_bytes(),
            State::Open | State::Closed => 0,
        };
        let request = match &self.role {
            Role::Server(_) => 0,
            Role::Client { request, .. } => request.capacity(),
        };
        head + request + self.waiting.capacity() + self.ping.as_ref().map_or(0, Vec::capacity)
    }
}

const NOT_A_GET: &str = "WebSocket needs a GET request of HTTP/1.1.";

const HEAD_TOO_LARGE: &str = "The head of the HTTP message has more than 8 KiB.";

#[cfg(test)]
mod tests;
