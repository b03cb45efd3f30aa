//! Transports with their names, ports and properties.

use core::fmt;

/// Transport protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Datagrams; a message may be lost, duplicated or reordered.
    Udp,
    /// Byte stream; messages arrive complete and in order, or the connection is closed.
    Tcp,
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
    pub const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

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
        }
    }

    /// Parses a name in the configuration: `udp`, `tcp`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }

    /// Parses the transport of a Via or of a URI's `transport` parameter; case is ignored (RFC 3261 §7.3.1).
    pub fn from_token(token: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name().as_bytes().eq_ignore_ascii_case(token))
    }

    /// Transport with this [`Transport::code`].
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.code() == code)
    }

    /// Name in the configuration and in listings: `udp`, `tcp`.
    pub const fn name(self) -> &'static str {
        self.properties().name
    }

    /// Token in a Via (RFC 3261 §20.42): `UDP`, `TCP`.
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

    /// True for byte streams, which have connections and a framer.
    pub const fn is_stream(self) -> bool {
        self.properties().is_stream
    }

    /// True if the transport retransmits lost data itself, so that SIP does not (RFC 3261 §17).
    pub const fn is_reliable(self) -> bool {
        self.is_stream()
    }

    /// True if the transport encrypts and authenticates.
    pub const fn is_secure(self) -> bool {
        self.properties().is_secure
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// SIP transports that this version does not support. Configuration and API report them by name.
pub const TRANSPORTS_NOT_SUPPORTED: [&str; 3] = ["tls", "ws", "wss"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_is_found_by_its_names() {
        for transport in Transport::ALL {
            assert_eq!(Transport::from_name(transport.name()), Some(transport));
            assert_eq!(Transport::from_code(transport.code()), Some(transport));
            for token in [transport.name(), transport.via_token()] {
                assert_eq!(Transport::from_token(token.as_bytes()), Some(transport));
            }
            let parameter = transport.uri_parameter().strip_prefix(";transport=");
            assert_eq!(parameter, Some(transport.name()).filter(|_| transport != Transport::DEFAULT));
        }
        assert_eq!(Transport::from_token(b"tCp"), Some(Transport::Tcp));
        assert_eq!((Transport::from_name("TCP"), Transport::from_token(b"sctp")), (None, None));
        assert!(TRANSPORTS_NOT_SUPPORTED.iter().all(|name| Transport::from_name(name).is_none()));
    }
}
