//! Records from DNS servers and from the hosts file, by `hickory-resolver`.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use ringway_resolve::{Locator, Naptr, Question, Srv};
use std::net::SocketAddr;
use std::time::Duration;

/// DNS servers to look names up at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Those of `/etc/resolv.conf`.
    #[default]
    OfSystem,
    /// Those at these addresses.
    At(Vec<SocketAddr>),
}

/// Source of records, with its cache.
#[derive(Clone)]
pub(crate) struct Records {
    resolver: TokioResolver,
}

impl Records {
    /// Creates the source. Nothing is sent. Without a readable `/etc/resolv.conf` only the hosts file has names.
    pub(crate) fn new(servers: &Servers) -> Result<Self, NetError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = match servers {
            Servers::OfSystem => match TokioResolver::builder(provider.clone()) {
                Ok(builder) => builder,
                Err(_) => TokioResolver::builder_with_config(of_servers(&[]), provider),
            },
            Servers::At(list) => TokioResolver::builder_with_config(of_servers(list), provider),
        };
        limit(builder.options_mut());
        Ok(Self { resolver: builder.build()? })
    }

    /// Answers one question of `locator`: without records if there are none, or the lookup fails.
    pub(crate) async fn answer(&self, locator: &mut Locator, question: Question) {
        match question {
            Question::Naptr(name) => {
                let found = self.resolver.lookup(rooted(&name), RecordType::NAPTR).await;
                let texts = found.as_ref().map_or(&[][..], |lookup| lookup.answers());
                let texts: Vec<_> = texts.iter().filter_map(NaptrText::read).collect();
                locator.on_naptr(texts.iter().map(NaptrText::record));
            }
            Question::Srv(name) => {
                let found = self.resolver.lookup(rooted(&name), RecordType::SRV).await;
                let answers = found.as_ref().map_or(&[][..], |lookup| lookup.answers());
                let texts: Vec<_> = answers.iter().filter_map(SrvText::read).collect();
                locator.on_srv(texts.iter().map(SrvText::record));
            }
            Question::Addresses(name) => match self.resolver.lookup_ip(&*name).await {
                Ok(found) => locator.on_addresses(found.iter()),
                Err(_) => locator.on_addresses([]),
            },
        }
    }
}

/// NAPTR record as text; a service or flag that is not UTF-8 is none of SIP.
struct NaptrText {
    order: u16,
    preference: u16,
    flags: String,
    service: String,
    replacement: String,
}

impl NaptrText {
    fn read(record: &Record) -> Option<Self> {
        let RData::NAPTR(naptr) = &record.data else { return None };
        Some(Self {
            order: naptr.order,
            preference: naptr.preference,
            flags: String::from_utf8(naptr.flags.to_vec()).ok()?,
            service: String::from_utf8(naptr.services.to_vec()).ok()?,
            replacement: naptr.replacement.to_ascii(),
        })
    }

    fn record(&self) -> Naptr<'_> {
        Naptr {
            order: self.order,
            preference: self.preference,
            flags: &self.flags,
            service: &self.service,
            replacement: &self.replacement,
        }
    }
}

/// SRV record with its target as text.
struct SrvText {
    priority: u16,
    weight: u16,
    port: u16,
    target: String,
}

impl SrvText {
    fn read(record: &Record) -> Option<Self> {
        let RData::SRV(srv) = &record.data else { return None };
        let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
        Some(Self { priority, weight, port, target: srv.target.to_ascii() })
    }

    fn record(&self) -> Srv<'_> {
        Srv { priority: self.priority, weight: self.weight, port: self.port, target: &self.target }
    }
}

/// The name of a domain is complete: the system's search list is for host names only.
fn rooted(name: &str) -> String {
    if name.ends_with('.') { name.to_owned() } else { [name, "."].concat() }
}

fn of_servers(list: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        NameServerConfig::new(address.ip(), true, connections.into())
    };
    ResolverConfig::from_name_servers(list.iter().map(server).collect())
}

fn limit(options: &mut ResolverOpts) {
    options.timeout = ATTEMPT_TIME;
    options.attempts = 2;
    options.cache_size = CACHE_MAX;
    options.positive_min_ttl = Some(TTL_MIN);
    options.positive_max_ttl = Some(TTL_MAX);
    options.negative_min_ttl = Some(TTL_MIN);
    options.negative_max_ttl = Some(NEGATIVE_TTL_MAX);
    options.max_active_requests = ACTIVE_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Always;
}

/// Time limit of one try at one DNS server.
const ATTEMPT_TIME: Duration = Duration::from_millis(1500);

/// Maximum number of cached responses of DNS servers, also of those without records.
const CACHE_MAX: u64 = 4096;

/// A record is not asked for more often.
const TTL_MIN: Duration = Duration::from_secs(5);

/// Maximum time for which a record is cached.
const TTL_MAX: Duration = Duration::from_secs(3600);

/// Maximum time for which the absence of records is cached.
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(30);

/// Maximum number of questions on one connection to a DNS server.
const ACTIVE_MAX: usize = 1024;
