//! Rule for the calls whose media are relayed, and the origin of an SDP.

use crate::base::{Env, MediaPlan, Request, Sender, StageDecision};
use crate::config::{MediaConfig, RelayRule, is_private};
use crate::{Aor, Config};
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Flow, PartHasher, RelayHolder, RelayInterfaces, RelayMedia, Transport};
use ringway_sip::{HeaderName, Message, Method, Scheme, Start, Uri, Via};
use siphasher::sip::SipHasher13;

/// Media of the sides of a call that an INVITE with an SDP begins; `None` if it is not relayed.
pub(crate) fn plan_of(
    decision: StageDecision,
    config: &Config,
    request: &Request<'_, '_>,
    hop: Hop<'_>,
) -> Option<MediaPlan> {
    let is_open = decision == StageDecision::ByRule;
    match if is_open { by_rule(config, request, hop) } else { decision } {
        StageDecision::Relayed(plan) => Some(plan),
        StageDecision::ByRule | StageDecision::Direct => None,
    }
}

/// Next hop of an INVITE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'h> {
    pub(crate) flow: Flow,
    /// Contact of the callee; `None` for a target that is not a binding.
    pub(crate) contact: Option<&'h [u8]>,
}

/// Facts of an SDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SdpFacts {
    /// Address of the first `c=` line.
    address: Option<IpAddr>,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Rtp,
    /// SRTP with keys in the SDP.
    Sdes,
    /// DTLS-SRTP without ICE.
    Dtls,
    /// DTLS-SRTP with ICE.
    Browser,
}

/// True for a body that is an SDP.
pub(crate) fn is_sdp(message: &Message<'_>) -> bool {
    !message.body().is_empty()
        && message.first(HeaderName::ContentType).is_some_and(|value| {
            let kind = value.split(|&byte| byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(b"application/sdp")
        })
}

/// Decision of the configuration about a call that an INVITE with an SDP begins.
fn by_rule(config: &Config, request: &Request<'_, '_>, hop: Hop<'_>) -> StageDecision {
    let facts = SdpFacts::read(request.message.body());
    let rule = &config.media;
    let caller_is_browser = facts.protocol == Protocol::Browser;
    let callee_is_browser = is_websocket(hop.flow.transport);
    if rule.bridge && caller_is_browser != callee_is_browser {
        let caller = match facts.protocol {
            Protocol::Browser => RelayMedia::Browser,
            Protocol::Sdes | Protocol::Dtls => RelayMedia::Srtp,
            Protocol::Rtp => RelayMedia::Plain,
        };
        let callee = if callee_is_browser { RelayMedia::Browser } else { RelayMedia::Plain };
        return StageDecision::Relayed(MediaPlan { caller, callee });
    }
    if !is_relayed(config, rule, request, &facts, hop) {
        return StageDecision::Direct;
    }
    let both = if caller_is_browser { RelayMedia::Browser } else { RelayMedia::Same };
    StageDecision::Relayed(MediaPlan { caller: both, callee: both })
}

/// Media of the sides of a call whose callee at `flow` refused the offer; `None` if it cannot be converted between SRTP and
/// RTP. That of a `sips:` call never becomes RTP.
pub(crate) fn converted_plan(config: &Config, request: &Message<'_>, flow: Flow) -> Option<MediaPlan> {
    let Start::Request { method: Method::Invite, uri } = request.start() else { return None };
    let begins_call = request.to().tag().is_none() && is_sdp(request);
    let goes_to_phone = !config.is_own_address(flow.remote) && !is_websocket(flow.transport);
    if !begins_call || !goes_to_phone || !config.record_route {
        return None;
    }
    match SdpFacts::read(request.body()).protocol {
        Protocol::Sdes if uri.scheme() == Scheme::Sips => None,
        Protocol::Sdes => Some(MediaPlan { caller: RelayMedia::Srtp, callee: RelayMedia::Plain }),
        Protocol::Rtp => Some(MediaPlan { caller: RelayMedia::Plain, callee: RelayMedia::Srtp }),
        Protocol::Dtls | Protocol::Browser => None,
    }
}

fn is_relayed(
    config: &Config,
    rule: &MediaConfig,
    request: &Request<'_, '_>,
    facts: &SdpFacts,
    hop: Hop<'_>,
) -> bool {
    match rule.rule {
        RelayRule::Never => false,
        RelayRule::Always => true,
        RelayRule::Nat => {
            is_caller_behind_nat(config, request, facts)
                || is_callee_behind_nat(config, hop)
                || interfaces_of(config, request, hop).is_some_and(|sides| sides.from != sides.to)
        }
    }
}

/// Interfaces of the relays for the side that sends a request and the one that gets it.
pub(crate) fn interfaces_of(
    config: &Config,
    request: &Request<'_, '_>,
    hop: Hop<'_>,
) -> Option<RelayInterfaces> {
    match config.media.interfaces.is_empty() {
        true => None,
        false => config.media.interfaces_of(origin_of(config, request), hop.flow.remote.ip()),
    }
}

/// True if packets of the caller come from another address than its SDP has. A trusted proxy sends for media gateways.
fn is_caller_behind_nat(config: &Config, request: &Request<'_, '_>, facts: &SdpFacts) -> bool {
    let source = request.flow.remote;
    if request.grant.sender == Sender::Trusted || facts.protocol == Protocol::Browser {
        return false;
    }
    let is_own = request.grant.returned.is_none() && config.is_own_address(source);
    facts.address.is_some_and(|address| match is_own {
        true => is_private(address) && !is_private(source.ip()),
        false => !config.is_same_host(address, request.source()),
    })
}

/// True if the callee registered from another address than that of its contact.
fn is_callee_behind_nat(config: &Config, hop: Hop<'_>) -> bool {
    let Some(contact) = hop.contact else { return false };
    if is_websocket(hop.flow.transport) {
        return false;
    }
    let host = Uri::parse(contact).ok().and_then(|uri| uri.host().ip());
    host.is_none_or(|address| !config.is_same_host(address, hop.flow.remote.ip()))
}

const fn is_websocket(transport: Transport) -> bool {
    matches!(transport, Transport::Ws | Transport::Wss)
}

impl SdpFacts {
    fn read(sdp: &[u8]) -> Self {
        let mut facts = Self::default();
        let (mut has_ice, mut protocol) = (false, None);
        for line in sdp.split(|&byte| byte == b'\n').take(LINES_MAX) {
            let line = line.trim_ascii_end();
            if let Some(connection) = line.strip_prefix(b"c=")
                && facts.address.is_none()
            {
                facts.address = address(connection);
            } else if let Some(media) = line.strip_prefix(b"m=") {
                protocol = protocol.or(media.split(|&byte| byte == b' ').nth(2));
            } else if line.starts_with(b"a=ice-ufrag:") {
                has_ice = true;
            }
        }
        let protocol = protocol.unwrap_or_default();
        let has =
            |part: &[u8]| protocol.split(|&byte| byte == b'/').any(|word| word.eq_ignore_ascii_case(part));
        facts.protocol = match (has(b"TLS"), has(b"SAVP") || has(b"SAVPF")) {
            (true, _) if has_ice => Protocol::Browser,
            (true, _) => Protocol::Dtls,
            (false, true) => Protocol::Sdes,
            (false, false) => Protocol::Rtp,
        };
        facts
    }
}

/// Address of a `c=` line, without its scope; `None` for 0.0.0.0, which is hold.
fn address(connection: &[u8]) -> Option<IpAddr> {
    let text = connection.split(|&byte| byte == b' ').nth(2)?;
    let text = text.split(|&byte| byte == b'/').next()?;
    let address: IpAddr = core::str::from_utf8(text).ok()?.parse().ok()?;
    (!address.is_unspecified()).then_some(address)
}

/// Maximum number of lines that are examined.
const LINES_MAX: usize = 256;

// Origin of an SDP: the peer that its call counts for, and the address that a relay sends to.
//
// A relay that believed an SDP would send packets of the sender's choice to any host and port: to a victim, into the
// network of its operator, to its own control port. It sends to the source of the signalling instead, and to the address
// that the side's first packets come from.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_an_sdp_are_read() {
        let read = |text: &str| SdpFacts::read(text.as_bytes());
        let plain =
            "v=0\r\nc=IN IP4 10.0.0.1\r\nm=audio 4000 RTP/AVP 0\r\nm=video 0 RTP/SAVP 9\r\nc=IN IP4 10.0.0.2";
        assert_eq!(
            read(plain),
            SdpFacts { address: Some("10.0.0.1".parse().unwrap()), protocol: Protocol::Rtp }
        );
        let browser =
            "v=0\nm=audio 9 UDP/TLS/RTP/SAVPF 111\nc=IN IP4 0.0.0.0\na=ice-ufrag:x\nc=IN IP6 2001:db8::1/127";
        assert_eq!(
            read(browser),
            SdpFacts { address: Some("2001:db8::1".parse().unwrap()), protocol: Protocol::Browser }
        );
        assert_eq!(read("m=audio 9 UDP/TLS/RTP/SAVP 0").protocol, Protocol::Dtls);
        assert_eq!(read("m=audio 9 RTP/SAVP 0").protocol, Protocol::Sdes);
        for bad in ["", "c=", "c=IN IP4", "c=IN IP4 host.example", "m=", "m=audio", "\u{0}"] {
            assert_eq!(read(bad), SdpFacts::default(), "{bad}");
        }
    }
}
