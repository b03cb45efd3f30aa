//! Next hop of a request (RFC 3263, without NAPTR).

use crate::{Account, ServerAddress};
use alloc::string::String;
use core::net::IpAddr;
use ringway_sansio::{Target, Transport};
use ringway_sip::{Host, Scheme, Uri};
use ringway_transaction::may_send_to;

/// Next hop of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    pub(crate) host: String,
    /// Without a port, the SRV records of the transport choose host and port.
    pub(crate) port: Option<u16>,
    pub(crate) transport: Transport,
}

/// Error of a URI that no request can be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// It is not a URI.
    #[error("this is not a SIP URI like sip:bob@example.org")]
    Malformed,
    /// It has headers that a URI must not choose (RFC 3261 §19.1.5), or `body`.
    #[error("the URI sets {0} behind its question mark; only Subject and Priority may be set there")]
    Header(&'static str),
    /// A header of it is malformed, or there twice.
    #[error(
        "the headers behind the URI's question mark are malformed; write ?Subject=text, with %20 for a space"
    )]
    Headers,
    /// It has headers, and is the target of a transfer.
    #[error("the target of a transfer must have no headers behind a question mark")]
    TransferHeaders,
    /// Its `method` is not INVITE.
    #[error("the URI has a method parameter for another request than a call")]
    Method,
    /// It is not a `sip:` or `sips:` URI.
    #[error("only sip: and sips: URIs can be called")]
    Scheme,
    /// It needs TLS on every hop, and the account's server is reached without.
    #[error("a sips: URI needs TLS on every hop; reach the server by TLS, or use sip:")]
    Tls,
    /// Its transport is not supported.
    #[error("the URI's transport is not supported; use udp, tcp, tls or dtls-udp")]
    Transport,
    /// No message is sent to its address: unspecified, broadcast, multicast, or port 0.
    #[error("no message can be sent to this address")]
    Address,
}

impl NextHop {
    /// Next hop of a Request-URI or a Route (RFC 3263 §4 without NAPTR: the default is UDP).
    pub(crate) fn of_uri(uri: &Uri<'_>) -> Result<Self, RouteError> {
        match uri.scheme() {
            Scheme::Sip | Scheme::Sips => {}
            Scheme::Tel | Scheme::Other => return Err(RouteError::Scheme),
        }
        let is_sips = uri.scheme() == Scheme::Sips;
        let transport = match Transport::of_uri(is_sips, uri.params().value(b"transport")) {
            Some(transport @ (Transport::Udp | Transport::Tcp | Transport::Tls | Transport::Dtls)) => {
                transport
            }
            Some(Transport::Ws | Transport::Wss) | None => return Err(RouteError::Transport),
        };
        let host = core::str::from_utf8(uri.host().as_bytes()).map_err(|_| RouteError::Malformed)?;
        Self { host: host.into(), port: uri.port(), transport }.checked()
    }

    /// Next hop of a configured server.
    pub(crate) fn of_server(server: &ServerAddress) -> Result<Self, RouteError> {
        let text = server.host.as_str();
        // An IPv6 address may be configured without the brackets of a URI.
        let host = if text.contains(':') && !text.starts_with('[') {
            alloc::format!("[{text}]")
        } else {
            text.into()
        };
        Self { host, port: server.port, transport: server.transport }.checked()
    }

    /// Address of the host; `None` for a name.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        Host::parse(self.host.as_bytes()).ok()?.ip().map(|ip| ip.to_canonical())
    }

    /// Target of a lookup; equal numbers `draw` choose equally between servers of the same priority.
    pub(crate) fn target(&self, draw: u64) -> Target {
        let host = self.host.as_str().into();
        Target { host, port: self.port, transport: Some(self.transport), is_sips: false, draw, source: None }
    }

    fn checked(self) -> Result<Self, RouteError> {
        Host::parse(self.host.as_bytes()).map_err(|_| RouteError::Malformed)?;
        match self.ip() {
            Some(ip) if !may_send_to(ip) => Err(RouteError::Address),
            _ if self.port == Some(0) => Err(RouteError::Address),
            _ => Ok(self),
        }
    }
}

impl Account {
    /// Next hop of an out-of-dialog request of the account to `uri`.
    pub(crate) fn next_hop_to(&self, uri: &Uri<'_>) -> Result<NextHop, RouteError> {
        let direct = NextHop::of_uri(uri);
        match &self.server {
            // The server interprets the URI, but a request that needs TLS on every hop must not be sent without it.
            Some(server) if uri.scheme() == Scheme::Sips && !server.transport.carries_sips() => {
                direct.and(Err(RouteError::Tls))
            }
            Some(server) => NextHop::of_server(server),
            None => direct,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str) -> Result<(String, Option<u16>, Transport), RouteError> {
        NextHop::of_uri(&Uri::parse(uri.as_bytes()).unwrap()).map(|hop| (hop.host, hop.port, hop.transport))
    }

    #[test]
    fn the_hop_of_a_uri() {
        assert_eq!(of("sip:b@example.org"), Ok(("example.org".into(), None, Transport::Udp)));
        assert_eq!(of("sip:[::1]:5070;transport=TCP"), Ok(("[::1]".into(), Some(5070), Transport::Tcp)));
        for secure in
            ["sips:b@example.org", "sips:b@example.org;transport=tcp", "sip:b@example.org;transport=tls"]
        {
            assert_eq!(of(secure), Ok(("example.org".into(), None, Transport::Tls)), "{secure}");
        }
        assert_eq!(of("sips:b@example.org;transport=udp"), Err(RouteError::Transport));
        assert_eq!(of("sip:b@example.org;transport=ws"), Err(RouteError::Transport));
        assert_eq!(of("sip:b@example.org;transport=sctp"), Err(RouteError::Transport));
        assert_eq!(of("tel:+1"), Err(RouteError::Scheme));
        for address in
            ["sip:b@0.0.0.0", "sip:b@255.255.255.255", "sip:b@224.0.0.1", "sip:b@192.0.2.1:0", "sip:[::]"]
        {
            assert_eq!(of(address), Err(RouteError::Address), "{address}");
        }
    }
}
