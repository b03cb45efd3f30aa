//! New calls that the driver drops before they are read, because too many of them would have to be refused.

use super::admission::{is_of_many, is_of_ours};
use crate::base::{Env, Request};
use crate::{Config, Listener};
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, Shedding, Waited, source_of};
use ringway_sip::{Host, Method};

/// New calls of a shard under overload, from which the work of the driver follows.
#[derive(Debug)]
pub(super) struct Shedder {
    hash: SeededHash,
    many: ManySources,
}

impl Shedder {
    pub(super) fn new(seed: &Seed) -> Self {
        Self { hash: SeededHash::new(seed), many: ManySources::default() }
    }

    /// Notes a source that sends many requests.
    pub(super) fn note_many(&mut self, now: Instant, source: IpAddr) {
        self.many.note(now, source);
    }

    /// Counts a new call that came by a datagram while others of its queue are refused, and tells the driver what to drop.
    #[cold]
    pub(super) fn count_new(
        &self,
        env: &Env<'_>,
        waited: Waited<'_>,
        request: &Request<'_, '_>,
        is_refused: bool,
    ) {
        let is_new = request.method == Method::Invite && request.message.to().tag().is_none();
        if !is_new
            || request.flow.transport.has_connections()
            || is_of_ours(env.config, &request.flow)
            || is_of_many(env, request)
        {
            return;
        }
        let (now, queue) = (env.cx.now, waited.queue);
        let is_of_many = self.many.has(now, request.flow.remote.ip());
        if queue.count_new(now, waited.time, is_of_many, is_refused)
            && let Some(shedding) = shedding(env.config)
        {
            let [kept, kept_of_many] = queue.kept_of_new(now);
            queue.shed(Shedding {
                kept,
                kept_of_many,
                many_from: self.many.list(now),
                salt: self.hash.hash_one(now.as_secs() / SAME_FOR_S) as u32,
                until: now + EFFECT + waited.time * 2,
                ..shedding
            });
        }
    }
}

/// Datagrams that may be dropped and those that are spared. `None`: more senders are to be spared than a filter has room for.
fn shedding(config: &Config) -> Option<Shedding> {
    let networks = config.networks_of_many(Shedding::ENTRIES_MAX)?;
    let numbers = config.trunking.emergency.numbers.iter();
    let spared_users: Vec<_> = numbers.map(|number| number.dialled.as_bytes().to_vec()).collect();
    // A trunk calls users at the address of this server, too. And what has parameters may be in a dialog: a GRUU is a user of ours.
    let is_name = |host: &&String| {
        host.len() < Shedding::HOST_BYTES_MAX
            && Host::parse(host.as_bytes()).is_ok_and(|host| host.ip().is_none())
    };
    let hosts = config.domains.iter().filter(is_name).take(Shedding::ENTRIES_MAX);
    let hosts: Vec<Vec<u8>> = hosts.map(|host| [host.as_bytes(), b" "].concat()).collect();
    let spared_sources: Vec<_> = config.listeners.iter().flat_map(addresses_of).collect();
    let fits = |count: usize| count <= Shedding::ENTRIES_MAX;
    (fits(networks.len()) && fits(spared_users.len()) && fits(spared_sources.len())).then(|| Shedding {
        hosts,
        spared_users,
        spared_networks: networks,
        spared_sources,
        ..Shedding::default()
    })
}

/// Source addresses of what a listener sends to this server.
fn addresses_of(listener: &Listener) -> [SocketAddr; 2] {
    let bound = match listener.bound {
        any if any.ip().is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), any.port()),
        bound => bound,
    };
    [bound, listener.advertised]
}

/// Sources that sent many requests a short while ago. Their new calls are dropped by a part of their own, so that a flood of theirs takes no
/// calls away from others.
#[derive(Debug, Default)]
struct ManySources(Vec<(IpAddr, Instant)>);

impl ManySources {
    /// Notes one that sends many.
    fn note(&mut self, now: Instant, ip: IpAddr) {
        let source = source_of(ip);
        self.0.retain(|(other, until)| *other != source && *until > now);
        if self.0.len() < Shedding::MANY_MAX {
            self.0.push((source, now + MANY_FOR));
        }
    }

    fn has(&self, now: Instant, ip: IpAddr) -> bool {
        let source = source_of(ip);
        self.0.iter().any(|(other, until)| *other == source && *until > now)
    }

    fn list(&self, now: Instant) -> Vec<IpAddr> {
        self.0.iter().filter(|(_, until)| *until > now).map(|(source, _)| *source).collect()
    }
}

/// Time for which a source is one that sends many.
const MANY_FOR: Duration = Duration::from_secs(1);

/// Seconds after which others are dropped, so that nobody is for ever.
const SAME_FOR_S: u64 = 8;

/// Time for which the driver drops without being told again, beside twice the time that messages wait.
const EFFECT: Duration = Duration::from_millis(400);
