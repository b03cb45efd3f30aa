//! The steps of RFC 3263 §4.1 and §4.2.
//!
//! ```text
//! Naptr --records--> Services <--no SIP record-- Naptr
//!                       |  SRV of one transport: found --> Hosts --addresses--> Done
//!                       |  none of all transports: Host ------addresses-------> Done
//! ```

use crate::Usable;
use crate::ranked::{NAPTR_MAX, Naptr, SRV_MAX, Srv, SrvTarget, by_order, by_priority, is_name};
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

#[cfg(test)]
#[path = "locator_tests.rs"]
mod tests;
