//! Records from DNS servers and from the hosts file, by `hickory-resolver`.

use crate::answers::{Answer, Answers, NaptrText, Search, SrvText, in_lower_case};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Record, RecordType};
use ringway_resolve::{Locator, Question};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// DNS servers that get the questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Those of `/etc/resolv.conf`.
    #[default]
    OfSystem,
    /// Those at these addresses.
    At(Vec<SocketAddr>),
}

/// Source of records.
#[derive(Clone)]
pub(crate) struct Records {
    resolver: TokioResolver,
    answers: Arc<Answers>,
}

impl Records {
    /// Creates the source. Nothing is sent. Without a readable `/etc/resolv.conf` only the hosts file has names.
    pub(crate) fn new(servers: &Servers, answers: Arc<Answers>) -> Result<Self, NetError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = match servers {
            Servers::OfSystem => match TokioResolver::builder(provider.clone()) {
                Ok(builder) => builder,
                Err(_) => TokioResolver::builder_with_config(of_servers(&[]), provider),
            },
            Servers::At(list) => TokioResolver::builder_with_config(of_servers(list), provider),
        };
        limit(builder.options_mut());
        Ok(Self { resolver: builder.build()?, answers })
    }

    /// Answers one question of `search`, and those that the cache answers: without records if there are none, or the
    /// lookup fails.
    pub(crate) async fn answer(&self, search: &mut Search, question: Question) {
        search.take(&*self.look_up(in_lower_case(question)).await);
        self.answers.pass_to(search, Instant::now());
    }

    async fn look_up(&self, question: Question) -> Arc<Answer> {
        let (answer, time) = match &question {
            Question::Naptr(name) => {
                let found = self.resolver.lookup(rooted(name), RecordType::NAPTR).await;
                let texts = answers_of(&found).filter_map(NaptrText::read).take(Locator::NAPTR_MAX);
                (Answer::Naptr(texts.collect()), time_of(&found))
            }
            Question::Srv(name) => {
                let found = self.resolver.lookup(rooted(name), RecordType::SRV).await;
                let mut texts: Vec<_> = answers_of(&found).filter_map(SrvText::read).collect();
                texts.sort_by_key(|text| (text.priority, text.weight));
                texts.truncate(Locator::SRV_MAX);
                texts.shrink_to_fit();
                (Answer::Srv(texts), time_of(&found))
            }
            Question::Addresses(name) => {
                let found = self.resolver.lookup_ip(&**name).await.map(Lookup::from);
                let addresses = answers_of(&found).filter_map(|record| record.data.ip_addr());
                (Answer::Addresses(addresses.take(Locator::ADDRESSES_MAX).collect()), time_of(&found))
            }
        };
        let answer = Arc::new(answer);
        if let Some(time) = time {
            self.answers.keep(question, Arc::clone(&answer), Instant::now(), time);
        }
        answer
    }
}

/// Records of an answer, without those of a failed lookup.
fn answers_of(found: &Result<Lookup, NetError>) -> impl Iterator<Item = &Record> {
    found.as_ref().map_or(&[][..], |lookup| lookup.answers()).iter()
}

/// Time for which an answer, or the absence of records, counts; `None` for a lookup without an answer.
fn time_of(found: &Result<Lookup, NetError>) -> Option<Duration> {
    match found {
        Ok(lookup) => {
            let ttl = lookup.answers().iter().map(|record| Duration::from_secs(record.ttl.into())).min();
            Some(ttl.unwrap_or_default().clamp(TTL_MIN, TTL_MAX))
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            let ttl = Duration::from_secs(none.negative_ttl.unwrap_or_default().into());
            Some(ttl.clamp(TTL_MIN, NEGATIVE_TTL_MAX))
        }
        // RFC 2308 §7.1: a name whose servers fail is not asked for again at once.
        Err(NetError::Dns(DnsError::ResponseCode(_))) => Some(TTL_MIN),
        Err(_) => None,
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
    options.cache_size = 0;
    options.max_active_requests = ACTIVE_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Always;
}

/// Time limit of one try at one DNS server.
const ATTEMPT_TIME: Duration = Duration::from_millis(1500);

/// A record is not asked for more often.
const TTL_MIN: Duration = Duration::from_secs(5);

/// Maximum time for which a record is cached.
const TTL_MAX: Duration = Duration::from_secs(3600);

/// Maximum time for which the absence of records is cached.
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(30);

/// Maximum number of questions on one connection to a DNS server.
const ACTIVE_MAX: usize = 1024;
