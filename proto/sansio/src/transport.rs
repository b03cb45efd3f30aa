//! Transports with their names, ports and properties.

use core::fmt;

/// Transport protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Datagrams; a message may be lost, duplicated or reordered.
    Udp,
    /// Byte stream; messages arrive complete and in order, or the connection is closed.
    Tcp,
    /// TLS over TCP (RFC 3261 §26.2.1).
    Tls,
    /// WebSocket over TCP (RFC 7118).
    Ws,
    /// WebSocket over TLS (RFC 7118).
    Wss,
    /// DTLS over UDP (RFC 6347): datagrams of an association, which may be lost like those of UDP.
    Dtls,
}

struct Properties {
    name: &'static str,
    via_token: &'static str,
    uri_parameter: &'static str,
    default_port: u16,
    code: u8,
    is_stream: bool,
    is_secure: bool,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss, Self::Dtls];

    /// Transport of a `sip:` URI without a `transport` parameter (RFC 3263 §4.1, without NAPTR).
    pub const DEFAULT: Self = Self::Udp;

    const fn properties(self) -> &'static Properties {
        match self {
            Self::Udp => &Properties {
                name: "udp",
                via_token: "UDP",
                uri_parameter: "",
                default_port: 5060,
                code: 0,
                is_stream: false,
                is_secure: false,
            },
            Self::Tcp => &Properties {
                name: "tcp",
                via_token: "TCP",
                uri_parameter: ";transport=tcp",
                default_port: 5060,
                code: 1,
                is_stream: true,
                is_secure: false,
            },
            Self::Tls => &Properties {
                name: "tls",
                via_token: "TLS",
                uri_parameter: ";transport=tls",
                default_port: 5061,
                code: 2,
                is_stream: true,
                is_secure: true,
            },
            Self::Ws => &Properties {
                name: "ws",
                via_token: "WS",
                uri_parameter: ";transport=ws",
                default_port: 80,
                code: 3,
                is_stream: true,
                is_secure: false,
            },
            // RFC 7118 §5.5: the URI parameter is `ws` for both; the scheme of the URI makes the difference.
            Self::Wss => &Properties {
                name: "wss",
                via_token: "WSS",
                uri_parameter: ";transport=ws",
                default_port: 443,
                code: 4,
                is_stream: true,
                is_secure: true,
            },
            // No RFC names the tokens: docs/decisions/0031-dtls-transport.md.
            Self::Dtls => &Properties {
                name: "dtls",
                via_token: "DTLS-UDP",
                uri_parameter: ";transport=dtls-udp",
                default_port: 5061,
                code: 5,
                is_stream: false,
                is_secure: true,
            },
        }
    }

    /// Parses a name in the configuration: `udp`, `tcp`, `tls`, `ws`, `wss`, `dtls`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// Parses the transport of a Via, or of the `transport` parameter of a `sip:` URI; case is ignored (RFC 3261 §7.3.1).
    pub fn from_token(token: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.via_token().as_bytes().eq_ignore_ascii_case(token))
    }

    /// Transport with which a request for a URI is sent, from its `transport` parameter, if it has one.
    ///
    /// A `sips:` URI is reached by TLS only: over TCP, which `transport=tcp` means there (RFC 3261 §26.2.2), or under a
    /// WebSocket. `None`: the transport is not supported, or not secure where it must be.
    pub fn of_uri(is_sips: bool, parameter: Option<&[u8]>) -> Option<Self> {
        let named = parameter.map(Self::from_token);
        match (is_sips, named) {
            (false, None) => Some(Self::DEFAULT),
            (false, Some(transport)) => transport,
            (true, None | Some(Some(Self::Tcp | Self::Tls))) => Some(Self::Tls),
            (true, Some(Some(Self::Ws | Self::Wss))) => Some(Self::Wss),
            (true, Some(Some(Self::Udp | Self::Dtls) | None)) => None,
        }
    }

    /// True if a URI's `transport` parameter may name this transport: `ws` names [`Transport::Wss`] too (RFC 7118 §5.5),
    /// and `tcp` names [`Transport::Tls`] in a `sips:` URI.
    pub fn is_named(self, is_sips: bool, parameter: &[u8]) -> bool {
        match Self::from_token(parameter) {
            Some(Self::Ws) => matches!(self, Self::Ws | Self::Wss),
            Some(Self::Tcp) if is_sips => self == Self::Tls,
            named => named == Some(self),
        }
    }

    /// Transport with this [`Transport::code`].
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.code() == code)
    }

    /// Name in the configuration and in listings: `udp`, `tcp`, `tls`, `ws`, `wss`, `dtls`.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Token in a Via (RFC 3261 §20.42, RFC 7118 §5.2): `UDP`, `TCP`, `TLS`, `WS`, `WSS`, and `DTLS-UDP`.
    pub const fn via_token(self) -> &'static str {
        self.properties().via_token
    }

    /// URI parameter that selects this transport, with its semicolon; empty for [`Transport::DEFAULT`].
    pub const fn uri_parameter(self) -> &'static str {
        self.properties().uri_parameter
    }

    /// Default port of a URI or a Via (RFC 3261 §18.2.2, §19.1.2).
    pub const fn default_port(self) -> u16 {
        self.properties().default_port
    }

    /// Number in stored records. A number is never reused for another transport.
    pub const fn code(self) -> u8 {
        self.properties().code
    }

    /// True for byte streams, which have a framer.
    pub const fn is_stream(self) -> bool {
        self.properties().is_stream
    }

    /// True if messages belong to a connection or an association ([`ConnectionId`](crate::ConnectionId)), whose peer has shown
    /// that it receives at its address.
    pub const fn has_connections(self) -> bool {
        self.is_stream() || matches!(self, Self::Dtls)
    }

    /// True if the transport retransmits lost data itself, so that SIP does not (RFC 3261 §17).
    pub const fn is_reliable(self) -> bool {
        self.is_stream()
    }

    /// True if the transport encrypts and authenticates.
    pub const fn is_secure(self) -> bool {
        self.properties().is_secure
    }

    /// True for WebSocket, over which pages of browsers send: the address of a browser says nothing about its page.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// True if requests for `sips:` URIs may use the transport: RFC 3261 §26.2.2 names TLS, and no RFC adds DTLS.
    pub const fn carries_sips(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_found_by_its_names() {
        for transport in Transport::ALL {
            assert_eq!(Transport::from_name(transport.name()), Some(transport));
            assert_eq!(Transport::from_code(transport.code()), Some(transport));
            assert_eq!(Transport::from_token(transport.via_token().as_bytes()), Some(transport));
            assert_eq!(
                Transport::from_token(transport.name().as_bytes()),
                Some(transport).filter(|of| *of != Transport::Dtls)
            );
            let parameter = transport.uri_parameter().strip_prefix(";transport=");
            assert_eq!(parameter.is_none(), transport == Transport::DEFAULT);
            assert!(parameter.is_none_or(|name| transport.is_named(false, name.as_bytes())));
        }
        assert_eq!(Transport::from_token(b"tCp"), Some(Transport::Tcp));
        assert_eq!((Transport::from_name("TCP"), Transport::from_token(b"sctp")), (None, None));
    }

    #[test]
    fn a_sips_uri_is_reached_by_secure_transports_only() {
        let of = |parameter: Option<&str>| Transport::of_uri(true, parameter.map(str::as_bytes));
        assert_eq!((of(None), of(Some("tcp")), of(Some("tls"))), (Some(Transport::Tls), of(None), of(None)));
        assert_eq!((of(Some("ws")), of(Some("udp")), of(Some("sctp"))), (Some(Transport::Wss), None, None));
        assert_eq!(Transport::of_uri(false, Some(b"tls")), Some(Transport::Tls));
        assert_eq!(Transport::of_uri(false, None), Some(Transport::Udp));
        assert!(Transport::Tls.is_named(true, b"TCP") && !Transport::Tls.is_named(false, b"tcp"));
        assert!(Transport::Wss.is_named(false, b"ws") && !Transport::Ws.is_named(true, b"tls"));
        assert_eq!(
            (of(Some("dtls-udp")), Transport::of_uri(false, Some(b"DTLS-udp"))),
            (None, Some(Transport::Dtls))
        );
        assert!(Transport::ALL.iter().all(|transport| !transport.carries_sips() || transport.is_secure()));
    }
}
