//! Names of peers whose certificates were verified, checked again when the files are loaded again.

use crate::counters::add;
use crate::identity::{ServerVerifier, names_of};
use crate::report::{Reports, Role};
use ringway_sansio::PeerNames;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Verifiers of one loading of the files.
#[derive(Debug, Default)]
pub(crate) struct Verifiers {
    /// `None`: clients have no certificates.
    pub(crate) clients: Option<Arc<dyn ClientCertVerifier>>,
    /// `None`: servers are not verified.
    pub(crate) servers: Option<Arc<ServerVerifier>>,
}

/// Peer whose certificate was accepted in a handshake.
#[derive(Debug)]
pub(crate) struct VerifiedPeer {
    chain: Vec<CertificateDer<'static>>,
    /// Name of a server that was dialled.
    server: Option<ServerName<'static>>,
    remote: SocketAddr,
    names: Arc<PeerNames>,
    /// Set by a reload whose authorities or revocation lists do not accept the certificate.
    is_withdrawn: AtomicBool,
}

impl VerifiedPeer {
    /// Names of the certificate, unless it was withdrawn.
    pub(crate) fn names(&self) -> Option<Arc<PeerNames>> {
        (!self.is_withdrawn.load(Ordering::Relaxed)).then(|| Arc::clone(&self.names))
    }

    /// Memory in use in bytes, approximately.
    pub(crate) fn held_bytes(&self) -> usize {
        let chain: usize = self.chain.iter().map(|certificate| certificate.len()).sum();
        chain + size_of::<Self>() + size_of::<PeerNames>() + NAMES_BYTES
    }

    fn is_accepted_by(&self, verifiers: &Verifiers) -> bool {
        let Some((first, others)) = self.chain.split_first() else { return false };
        let now = UnixTime::now();
        match (&self.server, &verifiers.clients, &verifiers.servers) {
            (None, Some(clients), _) => clients.verify_client_cert(first, others, now).is_ok(),
            (Some(name), _, Some(servers)) => {
                servers.verify_server_cert(first, others, name, &[], now).is_ok()
            }
            _ => false,
        }
    }
}

/// Verified peers of all open connections.
pub(crate) struct VerifiedPeers {
    state: Mutex<State>,
    reports: Reports,
}

struct State {
    verifiers: Arc<Verifiers>,
    peers: Vec<Weak<VerifiedPeer>>,
    /// Length at which ended connections are removed from the list.
    sweep_at: usize,
}

/// Rules under which a handshake began.
#[derive(Clone)]
pub(crate) struct Verification {
    pub(crate) peers: Arc<VerifiedPeers>,
    pub(crate) verifiers: Arc<Verifiers>,
    /// Name of a server that is dialled.
    pub(crate) server: Option<ServerName<'static>>,
    pub(crate) remote: SocketAddr,
}

impl VerifiedPeers {
    pub(crate) fn new(verifiers: Arc<Verifiers>, reports: Reports) -> Arc<Self> {
        let state = Mutex::new(State { verifiers, peers: Vec::new(), sweep_at: SWEEP_MIN });
        Arc::new(Self { state, reports })
    }

    /// Replaces the verifiers. The names of certificates that they do not accept count for nothing from now on.
    pub(crate) fn reload(&self, verifiers: &Arc<Verifiers>) {
        let mut state = self.lock();
        state.verifiers = Arc::clone(verifiers);
        state.peers.retain(|peer| peer.strong_count() > 0);
        let peers = state.peers.clone();
        // Connections that end their handshake meanwhile are checked by the new verifiers.
        drop(state);
        for peer in peers.iter().filter_map(Weak::upgrade) {
            self.check(&peer, verifiers);
        }
    }

    fn check(&self, peer: &VerifiedPeer, verifiers: &Verifiers) {
        if peer.is_accepted_by(verifiers) || peer.is_withdrawn.swap(true, Ordering::Relaxed) {
            return;
        }
        add(&self.reports.counters.tls_names_withdrawn);
        self.report(peer.server.as_ref(), peer.remote, WITHDRAWN);
    }

    /// Reports a peer, which is a server if it was dialled by a name.
    fn report(&self, server: Option<&ServerName<'_>>, remote: SocketAddr, reason: &str) {
        let role = if server.is_some() { Role::Client } else { Role::Server };
        self.reports.peer(role, remote).report(reason);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verification {
    /// Notes the end of a handshake in which the peer presented `chain`. `None`: it has no names that count.
    pub(crate) fn accept(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<VerifiedPeer>> {
        let names = match names_of(chain.first()?, self.server.is_some())? {
            Ok(names) => Arc::new(names),
            Err(why) => {
                add(&self.peers.reports.counters.tls_names_refused);
                self.peers.report(self.server.as_ref(), self.remote, why);
                return None;
            }
        };
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let (server, remote, is_withdrawn) = (self.server.clone(), self.remote, AtomicBool::new(false));
        let peer = Arc::new(VerifiedPeer { chain, server, remote, names, is_withdrawn });
        let mut state = self.peers.lock();
        if state.peers.len() >= state.sweep_at {
            state.peers.retain(|peer| peer.strong_count() > 0);
            state.sweep_at = (state.peers.len() * 2).max(SWEEP_MIN);
        }
        state.peers.push(Arc::downgrade(&peer));
        let current = Arc::clone(&state.verifiers);
        drop(state);
        if !Arc::ptr_eq(&current, &self.verifiers) {
            self.peers.check(&peer, &current);
        }
        Some(peer)
    }
}

const WITHDRAWN: &str = "the certificate is not accepted any more since the reload; its names do not count until the peer connects with another one";
/// Approximate memory of the names of a certificate, in bytes.
const NAMES_BYTES: usize = 512;
/// Length of the list below which ended connections stay in it.
const SWEEP_MIN: usize = 64;
