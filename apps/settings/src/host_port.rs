//! Address of a server as written in settings: `HOST[:PORT]`.

use alloc::format;
use alloc::string::{String, ToString};
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;
use ringway_sip::Host;

/// A host, by address or name, and maybe a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// An IPv6 address has its brackets.
    pub host: String,
    /// Never 0.
    pub port: Option<u16>,
}

/// A text that is no [`HostPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write HOST or HOST:PORT, like 192.0.2.7:5060 or [::1]:5060")]
pub struct NoHost;

impl FromStr for HostPort {
    type Err = NoHost;

    /// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
    fn from_str(text: &str) -> Result<Self, NoHost> {
        let is_bare_ipv6 = text.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_ipv6 && !host.is_empty() && !port.contains(']') => {
                (host, Some(port.parse().ok().filter(|&port| port != 0).ok_or(NoHost)?))
            }
            Some(_) | None => (text, None),
        };
        let host = if is_bare_ipv6 { format!("[{host}]") } else { host.to_string() };
        if Host::parse(host.as_bytes()).is_err() { Err(NoHost) } else { Ok(Self { host, port }) }
    }
}

impl HostPort {
    /// The address, where the host is one and no name.
    pub fn address(&self) -> Option<IpAddr> {
        Host::parse(self.host.as_bytes()).ok()?.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_every_spelling() {
        let of = |text: &str| HostPort::from_str(text).map(|host| (host.host, host.port)).ok();
        let is = |host: &str, port| Some((host.to_string(), port));
        assert_eq!(of("example.org"), is("example.org", None));
        assert_eq!(of("127.0.0.1:5070"), is("127.0.0.1", Some(5070)));
        assert_eq!(of("[::1]:5070"), is("[::1]", Some(5070)));
        assert_eq!(of("[::1]"), is("[::1]", None));
        assert_eq!(of("::1"), is("[::1]", None));
        for wrong in ["", ":5060", "a b", "host:", "host:0", "host:70000", "host:x", "[::1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_is_distinguished_from_a_name() {
        let address = |text: &str| HostPort::from_str(text).unwrap().address();
        assert_eq!(address("192.0.2.7:5060"), Some(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(address("::1"), Some(IpAddr::from(Ipv6Addr::LOCALHOST)));
        assert_eq!(address("example.org"), None);
    }
}
