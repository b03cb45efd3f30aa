//! New calls that the driver drops before they are read, because too many of them would have to be refused.

use super::admission::{is_of_many, is_of_ours};
use crate::base::{Env, Request};
use crate::{Config, Listener};
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Shedding, Waited};
use ringway_sip::{Host, Method};

/// Counts a new call that came by a datagram while others of its queue are refused, and tells the driver what to drop.
#[cold]
pub(super) fn count_new(
    env: &Env<'_>,
    hash: &SeededHash,
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
    let now = env.cx.now;
    if let Some(kept) = waited.queue.count_new(now, waited.time, is_refused)
        && let Some(shedding) = shedding(env.config, hash, kept, now, now + EFFECT + waited.time * 2)
    {
        waited.queue.shed(shedding);
    }
}

/// Work of the driver so that this part of the new calls is left. `None`: more senders may not be dropped than a filter has room for.
fn shedding(config: &Config, hash: &SeededHash, kept: u16, now: Instant, until: Instant) -> Option<Shedding> {
    let networks = config.networks_of_many(Shedding::ENTRIES_MAX)?;
    let numbers = config.trunking.emergency.numbers.iter();
    let spared_users: Vec<_> = numbers.map(|number| number.dialled.as_bytes().to_vec()).collect();
    // A trunk calls users at the address of this server, too.
    let is_name = |host: &&String| Host::parse(host.as_bytes()).is_ok_and(|host| host.ip().is_none());
    let hosts = config.domains.iter().filter(is_name);
    let hosts = hosts.map(|host| host.as_bytes().iter().copied().take(Shedding::HOST_BYTES_MAX).collect());
    let hosts: Vec<Vec<u8>> = hosts.take(Shedding::ENTRIES_MAX).collect();
    let spared_sources: Vec<_> = config.listeners.iter().flat_map(addresses_of).collect();
    let fits = |count: usize| count <= Shedding::ENTRIES_MAX;
    (fits(networks.len()) && fits(spared_users.len()) && fits(spared_sources.len())).then(|| Shedding {
        kept,
        salt: hash.hash_one(now.as_secs() / SAME_FOR_S) as u32,
        until,
        hosts,
        spared_users,
        spared_networks: networks,
        spared_sources,
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

/// Seconds after which others are dropped, so that nobody is for ever.
const SAME_FOR_S: u64 = 8;

/// Time for which the driver drops without being told again, beside twice the time that messages wait.
const EFFECT: Duration = Duration::from_millis(400);
