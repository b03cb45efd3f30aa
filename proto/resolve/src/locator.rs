//! The steps of RFC 3263 §4.1 and §4.2: transports and address families that a program can send by, and NAPTR and SRV records
//! in the order in which they are used (RFC 3403 §4, RFC 2782).
//!
//! ```text
//! Naptr --records--> Services <--no SIP record-- Naptr
//!                       |  SRV of one transport: found --> Hosts --addresses--> Done
//!                       |  none of all transports: Host ------addresses-------> Done
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{HostNameId, LocatedServer, LocatedServers, Rng, Seed, Target, Transport};

/// Lookup that the program makes for a [`Locator`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// NAPTR records of a name; the answer is [`Locator::on_naptr`].
    Naptr(Box<str>),
    /// SRV records of a name; the answer is [`Locator::on_srv`].
    Srv(Box<str>),
    /// A and AAAA records of a name; the answer is [`Locator::on_addresses`].
    Addresses(Box<str>),
}

/// Search for the servers of one [`Target`].
///
/// ```
/// use ringway_resolve::{Locator, Question, Srv, Usable};
/// use ringway_sansio::{HostNameId, Target, Transport};
///
/// let usable = Usable::default().with(Transport::Tls, true);
/// let host = "example.org".into();
/// let target = Target { host, port: None, transport: None, is_sips: true, draw: 1, source: None };
/// let mut locator = Locator::new(target, usable);
/// assert_eq!(locator.question(), Some(Question::Naptr("example.org".into())));
/// locator.on_naptr([]);
/// assert_eq!(locator.question(), Some(Question::Srv("_sips._tcp.example.org".into())));
/// locator.on_srv([Srv { priority: 0, weight: 0, port: 5061, target: "sip1.example.org" }]);
/// assert_eq!(locator.question(), Some(Question::Addresses("sip1.example.org".into())));
/// locator.on_addresses(["192.0.2.1".parse().unwrap()]);
/// let servers = locator.into_servers(HostNameId::NONE);
/// assert_eq!(servers.first().unwrap().address.to_string(), "192.0.2.1:5061");
/// ```
#[derive(Debug)]
pub struct Locator {
    target: Target,
    usable: Usable,
    rng: Rng,
    state: State,
    found: Vec<(Transport, SocketAddr)>,
    /// True if SRV records say that the target's default transport is not served.
    denies_default: bool,
    questions: usize,
}

#[derive(Debug)]
enum State {
    /// Awaits the NAPTR records of the domain.
    Naptr,
    /// Awaits the SRV records of the first service.
    Services(VecDeque<Service>),
    /// Awaits the addresses of the first host of a service; the other services are left.
    Hosts(Transport, VecDeque<SrvTarget>, VecDeque<Service>),
    /// Awaits the addresses of the target's own host.
    Host,
    Done,
}

/// Name with SRV records for a transport.
#[derive(Debug)]
struct Service {
    transport: Transport,
    name: Box<str>,
}

impl Locator {
    /// Maximum number of questions for one target.
    pub const QUESTIONS_MAX: usize = 10;
    /// Maximum number of addresses of one host that are considered.
    pub const ADDRESSES_MAX: usize = 8;
    /// Maximum number of NAPTR records that are considered.
    pub const NAPTR_MAX: usize = NAPTR_MAX;
    /// Maximum number of SRV records that are considered, those of the lowest priorities.
    pub const SRV_MAX: usize = SRV_MAX;

    /// Starts the search. An address as host needs no question.
    pub fn new(target: Target, usable: Usable) -> Self {
        let rng = Rng::new(&Seed::from_number(target.draw));
        let mut locator = Self {
            usable,
            rng,
            state: State::Done,
            found: Vec::new(),
            denies_default: false,
            questions: 0,
            target,
        };
        let host = &*locator.target.host;
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = literal.parse::<IpAddr>() {
            locator.add_own(ip);
        } else if is_name(host) {
            locator.state = match (locator.target.port, locator.target.transport) {
                (Some(_), _) => State::Host,
                (None, None) => State::Naptr,
                (None, Some(transport)) => locator.of_services(&[transport]),
            };
        }
        locator
    }

    /// The lookup that the search waits for; `None` at its end.
    pub fn question(&self) -> Option<Question> {
        if self.questions >= Self::QUESTIONS_MAX {
            return None;
        }
        match &self.state {
            State::Naptr => Some(Question::Naptr(self.target.host.clone())),
            State::Services(services) => services.front().map(|it| Question::Srv(it.name.clone())),
            State::Hosts(_, hosts, _) => hosts.front().map(|it| Question::Addresses(it.host.clone())),
            State::Host => Some(Question::Addresses(self.target.host.clone())),
            State::Done => None,
        }
    }

    /// Handles the NAPTR records of the last question; none: the name has no records, or the lookup failed.
    pub fn on_naptr<'r>(&mut self, records: impl IntoIterator<Item = Naptr<'r>>) {
        self.questions += 1;
        let State::Naptr = self.state else { return };
        let records = by_order(records);
        if !records.iter().any(|record| is_sip_service(record.service)) {
            let transports: &[Transport] = match self.target.is_sips {
                true => &[Transport::Tls],
                false => &[Transport::Udp, Transport::Tcp, Transport::Tls],
            };
            self.state = self.of_services(transports);
            return;
        }
        // RFC 3263 §4.1: what is not supported is discarded, and for `sips:` all that is not `SIPS`.
        let services = records.iter().filter_map(|record| {
            let transport = transport_of(record.service)?;
            let is_fit = record.flags.eq_ignore_ascii_case("s")
                && is_name(record.replacement)
                && self.usable.has(transport)
                && (transport.is_secure() || !self.target.is_sips);
            is_fit.then(|| Service { transport, name: record.replacement.into() })
        });
        let services: VecDeque<Service> = services.collect();
        self.state = if services.is_empty() { State::Done } else { State::Services(services) };
    }

    /// Handles the SRV records of the last question; none: the name has no records, or the lookup failed.
    pub fn on_srv<'r>(&mut self, records: impl IntoIterator<Item = Srv<'r>>) {
        self.questions += 1;
        let State::Services(services) = &mut self.state else { return };
        let Some(service) = services.pop_front() else { return };
        let left = core::mem::take(services);
        match by_priority(records, &mut self.rng) {
            None => {
                self.denies_default |= service.transport == self.target.transport_or_default();
                self.state = self.with_services(left);
            }
            Some(hosts) if hosts.is_empty() => self.state = self.with_services(left),
            Some(hosts) => self.state = State::Hosts(service.transport, hosts.into(), left),
        }
    }

    /// Handles the addresses of the last question; none: the name has none, or the lookup failed.
    pub fn on_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.questions += 1;
        let addresses = addresses.into_iter().take(Self::ADDRESSES_MAX);
        match &mut self.state {
            State::Host => {
                self.state = State::Done;
                addresses.for_each(|ip| self.add_own(ip));
            }
            State::Hosts(transport, hosts, services) => {
                let transport = *transport;
                let Some(SrvTarget { port, .. }) = hosts.pop_front() else { return };
                let is_last = hosts.is_empty();
                let left = if is_last { core::mem::take(services) } else { VecDeque::new() };
                addresses.for_each(|ip| self.add(transport, SocketAddr::new(ip, port)));
                if self.found.len() >= LocatedServers::MAX || (is_last && !self.found.is_empty()) {
                    self.state = State::Done;
                } else if is_last {
                    self.state = match left.is_empty() {
                        true => State::Done,
                        false => State::Services(left),
                    };
                }
            }
            State::Naptr | State::Services(_) | State::Done => {}
        }
    }

    /// The servers in the order in which they are tried. `host` is the number of the target's name.
    pub fn into_servers(self, host: HostNameId) -> LocatedServers {
        self.found
            .into_iter()
            .map(|(transport, address)| LocatedServer::new(transport, address, host))
            .collect()
    }

    /// The services `_sip._udp`, `_sip._tcp`, `_sips._tcp` of the target's domain (RFC 3263 §4.2).
    fn of_services(&self, transports: &[Transport]) -> State {
        let host = self.target.host.trim_end_matches('.');
        let usable = transports.iter().filter(|transport| self.usable.has(**transport));
        let services = usable.filter_map(|&transport| {
            let name = format!("{}.{host}", service_of(transport)?).into_boxed_str();
            is_name(&name).then_some(Service { transport, name })
        });
        self.with_services(services.collect())
    }

    /// The next service; without one the addresses of the domain itself (RFC 3263 §4.2).
    fn with_services(&self, services: VecDeque<Service>) -> State {
        match services.is_empty() {
            false => State::Services(services),
            true if self.denies_default => State::Done,
            true => State::Host,
        }
    }

    fn add_own(&mut self, ip: IpAddr) {
        let own = self.target.server_at(ip, HostNameId::NONE);
        self.add(own.transport, own.address);
    }

    fn add(&mut self, transport: Transport, address: SocketAddr) {
        let is_new = !self.found.contains(&(transport, address));
        if is_new && self.usable.reaches(transport, address.ip()) && self.found.len() < LocatedServers::MAX {
            self.found.push((transport, address));
        }
    }
}

const fn service_of(transport: Transport) -> Option<&'static str> {
    match transport {
        Transport::Udp => Some("_sip._udp"),
        Transport::Tcp => Some("_sip._tcp"),
        Transport::Tls => Some("_sips._tcp"),
        // DTLS has no name, and RFC 7118 none for servers that are dialled.
        Transport::Ws | Transport::Wss | Transport::Dtls => None,
    }
}

fn is_sip_service(service: &str) -> bool {
    let protocol = service.split('+').next().unwrap_or_default();
    protocol.eq_ignore_ascii_case("SIP") || protocol.eq_ignore_ascii_case("SIPS")
}

fn transport_of(service: &str) -> Option<Transport> {
    let named = [("SIP+D2U", Transport::Udp), ("SIP+D2T", Transport::Tcp), ("SIPS+D2T", Transport::Tls)];
    named.into_iter().find(|(name, _)| service.eq_ignore_ascii_case(name)).map(|(_, transport)| transport)
}

/// NAPTR record (RFC 3403 §4).
#[derive(Clone, Copy, Debug)]
pub struct Naptr<'r> {
    /// The lowest is used first.
    pub order: u16,
    /// Order among records of the same `order`.
    pub preference: u16,
    /// `s`: the replacement has SRV records; `u`: the substitution gives a URI.
    pub flags: &'r str,
    /// `SIP+D2U`, `SIP+D2T` or `SIPS+D2T` for the transports UDP, TCP and TLS (RFC 3263 §4.1); `E2U+sip` for a number
    /// (RFC 3764).
    pub service: &'r str,
    /// Substitution expression (RFC 3402 §3.2); empty: none.
    pub regexp: &'r str,
    /// Domain name.
    pub replacement: &'r str,
}

/// SRV record (RFC 2782).
#[derive(Clone, Copy, Debug)]
pub struct Srv<'r> {
    /// The lowest is used first.
    pub priority: u16,
    /// Share of the requests among records of the same priority.
    pub weight: u16,
    /// Port of the server.
    pub port: u16,
    /// Host name of the server; `.`: there is no such server.
    pub target: &'r str,
}

/// Host and port of an SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SrvTarget {
    pub(crate) host: Box<str>,
    port: u16,
}

/// Maximum number of SRV records that are considered, those of the lowest priorities.
const SRV_MAX: usize = 64;

/// Maximum number of NAPTR records that are considered.
const NAPTR_MAX: usize = 16;

/// Maximum length of a domain name as text (RFC 1035 §2.3.4, with a final dot).
const NAME_BYTES_MAX: usize = 254;

/// The first records in the order of NAPTR, with the names that can be looked up.
pub(crate) fn by_order<'r>(records: impl IntoIterator<Item = Naptr<'r>>) -> Vec<Naptr<'r>> {
    let mut ranked: Vec<Naptr<'r>> = records.into_iter().take(NAPTR_MAX).collect();
    ranked.sort_by_key(|record| (record.order, record.preference));
    ranked
}

/// Puts SRV records into the order of RFC 2782. `None`: the records say that there is no such service.
fn by_priority<'r>(records: impl IntoIterator<Item = Srv<'r>>, rng: &mut Rng) -> Option<Vec<SrvTarget>> {
    let mut ranked: Vec<Srv<'r>> = Vec::new();
    for record in records {
        ranked.push(record);
        if ranked.len() >= 2 * SRV_MAX {
            keep_lowest(&mut ranked);
        }
    }
    keep_lowest(&mut ranked);
    if !ranked.is_empty() && ranked.iter().all(|record| matches!(record.target, "." | "")) {
        return None;
    }
    ranked.retain(|record| is_name(record.target) && record.port != 0);
    let mut targets = Vec::with_capacity(ranked.len());
    while let Some(lowest) = ranked.first().map(|record| record.priority) {
        let mut group = ranked.iter().take_while(|record| record.priority == lowest);
        let sum: u64 = group.clone().map(|record| u64::from(record.weight)).sum();
        let drawn = rng.below(sum + 1);
        let mut running = 0;
        let chosen = group.position(|record| {
            running += u64::from(record.weight);
            running >= drawn
        });
        let record = ranked.remove(chosen.unwrap_or(0));
        targets.push(SrvTarget { host: record.target.into(), port: record.port });
    }
    Some(targets)
}

/// Keeps the records of the lowest priorities. Within one priority those without weight are first (RFC 2782).
fn keep_lowest(records: &mut Vec<Srv<'_>>) {
    records.sort_by_key(|record| (record.priority, record.weight));
    records.truncate(SRV_MAX);
}

pub(crate) fn is_name(name: &str) -> bool {
    !matches!(name, "" | ".") && name.len() <= NAME_BYTES_MAX
}

/// Set of transports, for each address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    v4: u8,
    v6: u8,
}

impl Usable {
    /// Adds a transport for IPv4, or for IPv6.
    #[must_use]
    pub const fn with(self, transport: Transport, is_ipv4: bool) -> Self {
        let bit = 1 << transport.code();
        match is_ipv4 {
            true => Self { v4: self.v4 | bit, ..self },
            false => Self { v6: self.v6 | bit, ..self },
        }
    }

    /// True if the transport can be used with some address.
    pub const fn has(self, transport: Transport) -> bool {
        (self.v4 | self.v6) & 1 << transport.code() != 0
    }

    /// True if the transport can be used with this address.
    pub const fn reaches(self, transport: Transport, ip: IpAddr) -> bool {
        let of_family = if ip.is_ipv4() { self.v4 } else { self.v6 };
        of_family & 1 << transport.code() != 0
    }
}

#[cfg(test)]
#[path = "locator_tests.rs"]
mod tests;
