//! Connections between nodes: their TLS as a model. Each side presents a certificate by its secret, and accepts those of two secrets.

use ringway_location::{NODE_BYTES_MAX, NodeName};
use ringway_sansio::{Flow, Instant, PeerNames, Transport};
use ringway_server::{ClusterSecret, LinkedNode, node_domain};
use ringway_stream::{Decoded, Encoded, Layer, LayerError, PassThrough, StreamLayers};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Secret of a node, and the one that it accepts too.
pub(super) type Secrets = (ClusterSecret, Option<ClusterSecret>);

/// Certificate and trust of a node, which a reload changes.
pub(super) struct Identity {
    pub(super) name: NodeName,
    pub(super) secrets: Secrets,
    /// Nodes that are dialled.
    pub(super) nodes: Vec<LinkedNode>,
}

/// Layers of a node's connections.
#[derive(Clone)]
pub(super) struct NodeLayers(pub(super) Rc<RefCell<Identity>>);

/// Layer of a link.
struct LinkLayer {
    identity: Rc<RefCell<Identity>>,
    /// Name that the peer of a dialled connection must have.
    expected: Option<NodeName>,
    is_dialled: bool,
    peer: Option<Certificate>,
    /// Part of the peer's certificate.
    received: Vec<u8>,
    /// Messages that wait for the end of the handshake.
    kept: Vec<u8>,
}

/// Key of its authority, and the name of a node.
#[derive(Clone, Copy)]
struct Certificate([u8; CERTIFICATE_BYTES]);

impl Identity {
    fn certificate(&self) -> Certificate {
        let mut bytes = [0; CERTIFICATE_BYTES];
        let (authority, name) = bytes.split_at_mut(KEY_BYTES);
        authority.copy_from_slice(&authority_of(&self.secrets.0));
        name[..self.name.as_bytes().len()].copy_from_slice(self.name.as_bytes());
        Certificate(bytes)
    }

    fn accepts(&self, certificate: &Certificate) -> bool {
        let accepted = [Some(self.secrets.0), self.secrets.1];
        accepted.into_iter().flatten().any(|secret| authority_of(&secret) == certificate.0[..KEY_BYTES])
    }
}

impl Certificate {
    fn name(&self) -> Option<NodeName> {
        let name = &self.0[KEY_BYTES..];
        NodeName::read(&name[..name.iter().position(|&byte| byte == 0).unwrap_or(name.len())])
    }
}

fn authority_of(secret: &ClusterSecret) -> [u8; KEY_BYTES] {
    secret.key(b"authority of the model")
}

impl StreamLayers for NodeLayers {
    type Layer = Box<dyn Layer>;

    fn resumes(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _: Instant) {}

    fn accept(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        self.layer(flow, (None, false))
    }

    fn dial(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        if flow.transport == Transport::Tcp {
            return Some(Box::new(PassThrough));
        }
        let node =
            self.0.borrow().nodes.iter().find(|node| node.address == flow.remote).map(|node| node.name);
        // No other address is dialled.
        node.and_then(|node| self.layer(flow, (Some(node), true)))
    }
}

impl NodeLayers {
    fn layer(&self, flow: &Flow, (expected, is_dialled): (Option<NodeName>, bool)) -> Option<Box<dyn Layer>> {
        match flow.transport {
            Transport::Tcp => Some(Box::new(PassThrough)),
            Transport::Tls => Some(Box::new(LinkLayer {
                identity: Rc::clone(&self.0),
                expected,
                is_dialled,
                peer: None,
                received: Vec::new(),
                kept: Vec::new(),
            })),
            _ => None,
        }
    }
}

impl Layer for LinkLayer {
    fn start(&mut self, wire: &mut Vec<u8>) {
        if self.is_dialled {
            wire.extend_from_slice(&self.identity.borrow().certificate().0);
        }
    }

    fn decode(
        &mut self,
        mut bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if self.peer.is_none() {
            let (part, rest) = bytes.split_at(bytes.len().min(CERTIFICATE_BYTES - self.received.len()));
            self.received.extend_from_slice(part);
            bytes = rest;
            let Ok(certificate) = self.received.as_slice().try_into() else { return Ok(()) };
            let (certificate, identity) = (Certificate(certificate), self.identity.borrow());
            if !identity.accepts(&certificate) {
                return Err(LayerError("unknown authority"));
            }
            if self.is_dialled && certificate.name() != self.expected {
                return Err(LayerError("another node"));
            }
            if !self.is_dialled {
                wire.extend_from_slice(&identity.certificate().0);
            }
            self.peer = Some(certificate);
            wire.append(&mut self.kept);
        }
        if !bytes.is_empty() {
            decoded(Decoded::Bytes(bytes));
        }
        Ok(())
    }

    fn encode(&mut self, message: &[u8], _: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        if self.is_handshaking() {
            self.kept.extend_from_slice(message);
            return Ok(Encoded::Appended);
        }
        Ok(Encoded::Unchanged)
    }

    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        let peer = self.peer.filter(|peer| self.identity.borrow().accepts(peer))?;
        let name = node_domain(&peer.name()?).into_boxed_str();
        PeerNames::new(vec![name], Vec::new(), Instant::from_nanos(u64::MAX)).map(Arc::new)
    }

    fn is_handshaking(&self) -> bool {
        self.peer.is_none()
    }

    fn held_bytes(&self) -> usize {
        self.received.capacity() + self.kept.capacity()
    }
}

const KEY_BYTES: usize = 32;
const CERTIFICATE_BYTES: usize = KEY_BYTES + NODE_BYTES_MAX;
