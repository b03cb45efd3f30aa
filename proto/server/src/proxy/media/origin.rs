//! Origin of an SDP: the peer that its call counts for, and the address that a relay sends to.
//!
//! A relay that believed an SDP would send packets of the sender's choice to any host and port: to a victim, into the
//! network of its operator, to its own control port. It sends to the source of the signalling instead, and to the address
//! that the side's first packets come from.

use crate::base::{Env, Request, Sender};
use crate::{Aor, Config};
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{PartHasher, RelayHolder};
use ringway_sip::{HeaderName, Via};
use siphasher::sip::SipHasher13;

/// Peer that a relayed call counts for, which `request` begins or changes.
pub(crate) fn holder_of(env: &Env<'_>, request: &Request<'_, '_>) -> RelayHolder {
    let origin = origin_of(env.config, request);
    let is_own = origin != request.flow.remote.ip();
    let mut aor = Aor::default();
    match request.grant.sender {
        Sender::Believed => RelayHolder::Trusted,
        Sender::Trusted if !is_own || !env.config.auth.enabled || is_believed(env.config, origin) => {
            RelayHolder::Trusted
        }
        Sender::Proven if env.config.read_aor(&request.message.from().uri, &mut aor) => {
            let mut hash = PartHasher::new(SipHasher13::new_with_key(&env.keys.route));
            hash.part(b"holder");
            hash.part(aor.as_bytes());
            RelayHolder::User(hash.hasher().finish())
        }
        Sender::Trusted
        | Sender::Proven
        | Sender::ProvenUnnamed
        | Sender::InDialog
        | Sender::Stranger
        | Sender::Unknown => RelayHolder::Stranger(origin),
    }
}

/// Address that the SDP of a request came from; `None` if the addresses in the SDP are believed.
pub(crate) fn source_of_offer(config: &Config, request: &Request<'_, '_>) -> Option<IpAddr> {
    let origin = origin_of(config, request);
    let is_own = origin != request.flow.remote.ip();
    let is_trusted = request.grant.sender == Sender::Trusted && !is_own;
    (!is_trusted && !is_believed(config, origin)).then_some(origin)
}

/// Same for an answer from `source`.
pub(crate) fn source_of_answer(config: &Config, source: SocketAddr) -> Option<IpAddr> {
    let is_own = config.is_own_address(source);
    (!is_own && !is_believed(config, source.ip())).then_some(source.ip())
}

/// True for a proxy that may name media gateways, and for this machine, whose programs use several addresses.
fn is_believed(config: &Config, source: IpAddr) -> bool {
    config.is_trusted(source) || config.is_same_host(source, IpAddr::from([127, 0, 0, 1]))
}

/// Address that a request came from, before this server sent it to itself, or a front passed it on.
fn origin_of(config: &Config, request: &Request<'_, '_>) -> IpAddr {
    let source = request.flow.remote;
    if request.grant.returned.is_some() || !config.is_own_address(source) {
        return request.client(config);
    }
    let vias = request.message.values(HeaderName::Via).take(VIAS_MAX);
    let mut hops = vias.filter_map(|value| Via::parse(value).ok()).filter_map(|via| {
        let received = via.received().and_then(|text| core::str::from_utf8(text).ok()?.parse().ok());
        let address = SocketAddr::new(via.host.ip()?, via.port.unwrap_or(DEFAULT_PORT));
        (!config.is_own_address(address)).then(|| received.unwrap_or(address.ip()))
    });
    hops.next().unwrap_or(source.ip())
}

/// Maximum number of Via values that are examined.
const VIAS_MAX: usize = 70;
/// Port of a Via without one.
const DEFAULT_PORT: u16 = 5060;
