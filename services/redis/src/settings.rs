//! Settings of a store: its URL, nodes and times.

use crate::UrlError;
use percent_encoding::percent_decode_str;
use ringway_location::NodeName;
use rustls::pki_types::CertificateDer;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// URL of a store, `redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/MASTER]`, or `rediss://…` over TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct LocationUrl {
    is_tls: bool,
    user: String,
    password: Option<String>,
    hosts: Vec<(String, u16)>,
    master: String,
    authorities: Option<Arc<[CertificateDer<'static>]>>,
}

impl LocationUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The scheme is another one, or a part is not valid.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        // A password can be in what follows the first colon.
        let scheme =
            || UrlError::Scheme(text.split(':').next().unwrap_or_default().chars().take(16).collect());
        let (is_tls, rest) = match text.split_once("://") {
            Some(("redis" | "valkey", rest)) => (false, rest),
            Some(("rediss" | "valkeys", rest)) => (true, rest),
            _ => return Err(scheme()),
        };
        let (access, rest) = match rest.rsplit_once('@') {
            Some((access, rest)) => (Some(access), rest),
            None => (None, rest),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Parameters);
        }
        let (user, password) = access.map_or(Ok((String::new(), None)), read_access)?;
        let (hosts, master) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts: Vec<_> = hosts.split(',').map(read_host).collect::<Result<_, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err(UrlError::TooManyHosts(HOSTS_MAX));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if master.len() > MASTER_BYTES_MAX || !master.bytes().all(is_name) {
            return Err(UrlError::Master(master.chars().take(MASTER_BYTES_MAX).collect()));
        }
        let master = if master.is_empty() { "mymaster" } else { master }.to_owned();
        Ok(Self { is_tls, user, password, hosts, master, authorities: None })
    }

    /// The same URL with another password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// The same URL with servers whose certificates are of one of these authorities and for their hosts. Counts for `rediss` only.
    #[must_use]
    pub fn with_authorities(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.authorities = Some(authorities.into());
        self
    }

    /// True for `rediss`, which needs [`LocationUrl::with_authorities`].
    pub const fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// True if the URL has a password.
    pub const fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// True if all hosts are reached without a network: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        self.hosts.iter().all(|(host, _)| {
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        })
    }

    /// The URL without its password.
    pub fn shown(&self) -> String {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        let user = if self.user.is_empty() { String::new() } else { format!("{}@", self.user) };
        let hosts: Vec<String> = self.hosts.iter().map(|(host, port)| shown_host(host, *port)).collect();
        format!("{scheme}://{user}{}", hosts.join(","))
    }

    /// Hosts and ports.
    pub(crate) fn hosts(&self) -> &[(String, u16)] {
        &self.hosts
    }

    /// Name of the master at Sentinel.
    pub(crate) fn master(&self) -> &str {
        &self.master
    }

    /// User, empty for the default one, and password.
    pub(crate) fn access(&self) -> Option<(&str, &str)> {
        self.password.as_deref().map(|password| (self.user.as_str(), password))
    }

    /// Authorities of the servers' certificates.
    pub(crate) fn authorities(&self) -> Option<&[CertificateDer<'static>]> {
        self.authorities.as_deref()
    }
}

impl std::fmt::Debug for LocationUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// Host and port as a text.
pub(crate) fn shown_host(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn read_access(access: &str) -> Result<(String, Option<String>), UrlError> {
    if access.contains(['/', '@', '?', '#']) {
        return Err(UrlError::User);
    }
    let decode = |text: &str| match percent_decode_str(text).decode_utf8() {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.into_owned()),
        _ => Err(UrlError::User),
    };
    match access.split_once(':') {
        Some((user, password)) => Ok((decode(user)?, Some(decode(password)?))),
        None => Ok((decode(access)?, None)),
    }
}

fn read_host(text: &str) -> Result<(String, u16), UrlError> {
    // Without an `@` the text behind the colon can be a password.
    let shown = if text.starts_with('[') { text } else { text.split(':').next().unwrap_or_default() };
    let error = || UrlError::Host(shown.chars().take(HOST_BYTES_MAX).collect());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']').ok_or_else(error)?;
            address.parse::<Ipv6Addr>().map_err(|_| error())?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(error)?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.bytes().all(is_host) {
        return Err(error());
    }
    match port.map_or(Ok(PORT), str::parse) {
        Ok(0) | Err(_) => Err(error()),
        Ok(port) => Ok((host.to_owned(), port)),
    }
}

/// Port of Redis without another one in the URL.
const PORT: u16 = 6379;
const HOSTS_MAX: usize = 64;
const HOST_BYTES_MAX: usize = 253;
const MASTER_BYTES_MAX: usize = 64;

/// Settings of a [`crate::LocationStore`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts of the store, user and password.
    pub url: LocationUrl,
    /// Name of this node, unique among the nodes.
    pub node: NodeName,
    /// Start of this process in milliseconds since the epoch; the one that its updates have.
    pub incarnation: u64,
    /// Address for links of other nodes.
    pub link: SocketAddr,
    /// Version of the link's protocol.
    pub link_version: u16,
    /// True: an update is durable when a replica has it. False: when the store has it.
    pub is_strict: bool,
    /// True: all records are read at the start. False: only those that are looked up.
    pub holds_all: bool,
    /// Random number for the times of reconnections.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_hosts_user_password_and_master() {
        let url =
            LocationUrl::parse("rediss://ring:p%40ss%2C%3A@[2001:db8::1]:7000,b.example.org/main").unwrap();
        assert!(url.is_tls() && url.has_password() && !url.is_loopback());
        assert_eq!(url.access(), Some(("ring", "p@ss,:")));
        assert_eq!(url.hosts(), [("2001:db8::1".to_owned(), 7000), ("b.example.org".to_owned(), 6379)]);
        assert_eq!(url.master(), "main");
        let plain = LocationUrl::parse("redis://127.0.0.1:6380").unwrap();
        assert_eq!((plain.access(), plain.master(), plain.is_tls()), (None, "mymaster", false));
        assert!(plain.is_loopback());
        assert_eq!(plain.with_password("x").access(), Some(("", "x")));
        assert_eq!(LocationUrl::parse("redis://:x@h").unwrap().access(), Some(("", "x")));
    }

    #[test]
    fn the_password_is_never_shown() {
        let url = LocationUrl::parse("redis://ring:s3cret@db.example.org,[::1]:1/m").unwrap();
        assert_eq!(url.shown(), "redis://ring@db.example.org:6379,[::1]:1");
        assert!(!format!("{url:?}").contains("s3cret"));
        for bad in [
            "postgres://u:s3cret@h",
            "redis:s3cret",
            "redis://u:s3cret@",
            "redis://u:s3cret@h?db=1",
            "u:s3cret@h",
            "redis://u:s3cret@h:0",
            "redis://u:s3cret/x@h",
            "redis://u:s3cret@h/a b",
            "redis://u:s3cret@h:1:2",
            "redis://u:s3cret%00@h",
            "redis://u:s3cret@[::1",
            "redis://u:s3cret@[x]",
            "redis://u:s3cret@h,,i",
            "redis://u:s3cret",
        ] {
            let error = LocationUrl::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
