//! Tables that are filled to their limits, for tests that compare their memory with [`table_sizes`](super::table_sizes).

use super::admission::UrgentRates;
use super::locating::Misses;
use super::overload::Overload;
use crate::base::{EndedInvites, Transactions, derive};
use crate::presence::SUBSCRIPTIONS_MAX;
use crate::proxy::Lookups;
use crate::tables::{
    Account, CallCounts, CallRequest, DialogExtensions, DialogSide, EntryOwner, Lifetime, Moved, PhoneHash,
    ServiceRoute, ServiceRoutes, Throttles, Way,
};
use crate::token::sources::SourceHash;
use crate::token::{UriHash, UserHash};
use crate::{
    Aor, CALLS_MAX, CallRates, ChallengeLimits, Config, DialogStateFilter, DialogStates, FailedServers,
    GuessLimits, LocateLimits, Login, LoginResult, MemoryBudget, NeighbourTable, NewLeg, NonceId,
    PausedTrunks, Payer, ReplayWindows, Role, SideTable, SourceRates, TableLimits, Traffic, TrafficRates,
    Trunk, TrunkLimits, TrunkLogin, TrunkLogins, TrunkPause,
};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{
    ConnectionId, Flow, HostNameId, Instant, ListenerId, MemoryBound, Seed, Target, Transport,
};
use ringway_sip::{Limits, Message, OverloadControl, Reduction};
use ringway_transaction::BranchKey;

/// Table of one shard, and of what all shards share.
#[derive(Clone, Copy, Debug)]
pub struct FilledTable {
    /// Names of its parts in the sum.
    pub names: &'static [&'static str],
    /// Returns a full one.
    pub fill: fn(&TableLimits, &Config) -> Box<dyn Any>,
}

/// All tables of [`table_sizes`](super::table_sizes) with one shard; a test compares the names.
pub const FILLED_TABLES: &[FilledTable] = &[
    FilledTable { names: &["nonces in use"], fill: nonces },
    FilledTable { names: &["sources with a rate of requests"], fill: rates },
    FilledTable { names: &["accounts of requests under way"], fill: accounts },
    FilledTable { names: &["users and sources of unusable digests"], fill: challenges },
    FilledTable { names: &["extended dialogs"], fill: extensions },
    FilledTable { names: &["servers that failed"], fill: failed },
    FilledTable { names: &["sources with a rate of read-throughs"], fill: locates },
    FilledTable { names: &["challenges, pauses and routes of trunks"], fill: trunk_logins },
    FilledTable { names: &["servers that ask for fewer requests"], fill: throttles },
    FilledTable { names: &["calls of a user to a prefix"], fill: call_rates },
    FilledTable { names: &["users and sources of wrong passwords", "proven passwords"], fill: guesses },
    FilledTable {
        names: &["sides of dialogs that moved", "flows that phones left", "flows of phones behind a front"],
        fill: sides,
    },
    FilledTable { names: &["neighbours, nodes and trunks", "calls with a connection"], fill: neighbours },
    FilledTable {
        names: &["calls that count for a limit", "trunks, users and domains with a limit"],
        fill: call_counts,
    },
    FilledTable { names: &["calls in lamps", "watched users"], fill: dialog_states },
    FilledTable { names: &["ended INVITEs"], fill: ended_invites },
    FilledTable { names: &["sources with a rate of ends and emergency calls"], fill: urgent_rates },
    FilledTable { names: &["users without bindings"], fill: misses },
    FilledTable { names: &["messages that wait for an address"], fill: lookups },
    FilledTable { names: &["requests of sources in overload"], fill: overload },
];

/// Trunks with credentials and a limit of calls.
pub fn filled_trunks(count: usize) -> Vec<Trunk> {
    let trunk = |number| {
        let (username, password) = (long("user", number, 250), long("", number, 250));
        let login = TrunkLogin { username, password, realm: None };
        let call_limits = Some(TrunkLimits { under_way: Some(10), per_second: None });
        let uri = format!("sip:{}.example.net", long("trunk", number, 60));
        Trunk { login: Some(login), call_limits, ..Trunk::at(&long("name", number, 60), &uri) }
    };
    (0..count).map(trunk).collect()
}

const NOW: Instant = Instant::from_secs(1_800_000_000);

/// Rounds in which entries come and go.
const ROUNDS: usize = 3;

fn seed() -> Seed {
    Seed::from_number(1)
}

fn later(seconds: usize) -> Instant {
    NOW + Duration::from_secs(seconds as u64)
}

fn lifetime(round: usize) -> Lifetime {
    let now = later(10 * round);
    Lifetime { now, until: now + Duration::from_secs(5) }
}

fn long(name: &str, number: usize, bytes: usize) -> String {
    format!("{name}-{number:0>width$}", width = bytes - name.len() - 1)
}

/// Sources in different networks of 48 bits.
fn source(number: usize) -> IpAddr {
    IpAddr::from(((number as u128) << 80 | 0x2001 << 112).to_be_bytes())
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::from((source(number), 5060))
}

fn user_hash(number: usize) -> UserHash {
    UserHash::of(&[7; 16], &number.to_be_bytes(), b"example.org")
}

fn owner(number: usize) -> EntryOwner {
    EntryOwner::of_user(user_hash(number))
}

/// Passes more sources than a table of `sources_max` has, in rounds after which earlier ones have their tokens again.
fn of_sources(sources_max: usize, mut admit: impl FnMut(Instant, IpAddr)) {
    for round in 0..ROUNDS {
        let first = round * sources_max;
        (first..first + sources_max + sources_max / 4)
            .for_each(|number| admit(later(10 * round), source(number)));
    }
}

fn nonces(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let parts = limits.parts.max(1);
    let of_part = limits.nonces_max / parts;
    let fill = |_| {
        let mut windows = ReplayWindows::new(of_part, limits.nonce_lifetime, NOW);
        for counter in 0..(of_part + of_part / 2) as u32 {
            let nonce = NonceId { made_ms: NOW.as_millis() + 1, counter, shard: 0 };
            windows.use_count(NOW, nonce, 1, 1);
        }
        windows
    };
    Box::new((0..parts).map(fill).collect::<Vec<_>>())
}

fn rates(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let parts = limits.parts.max(1);
    let fill = |_| {
        let mut rates = TrafficRates::new(1, parts, &seed());
        for traffic in [Traffic::Requests, Traffic::Named, Traffic::Stun] {
            of_sources(TrafficRates::sources_max(parts), |now, source| {
                rates.admit(now, source, traffic);
            });
        }
        rates
    };
    Box::new((0..parts).map(fill).collect::<Vec<_>>())
}

/// Up to the accounts that are booked.
fn accounts(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let fill = |_| {
        let all = Arc::new(MemoryBound::new(1 << 30));
        let mut budget = MemoryBudget::of(Arc::clone(&all), 1, &seed());
        let mut count = 0;
        while all.used() == count && budget.reserve(Payer::Stranger(source(count)), 1) {
            count += 1;
        }
        budget
    };
    Box::new((0..limits.parts.max(1)).map(fill).collect::<Vec<_>>())
}

fn challenges(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut limits = ChallengeLimits::new(&seed());
    for number in 0..ROUNDS * GuessLimits::TRACKED_MAX {
        let user = number.to_be_bytes();
        let login = Login { user: &user, domain: b"example.org", source: source(0) };
        limits.may_challenge(later(number / 1000), &login);
    }
    Box::new(limits)
}

fn extensions(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut dialogs = DialogExtensions::new(&seed());
    for round in 0..ROUNDS {
        let first = (round as u64) << 32;
        let mut marks = (first..).zip(0..);
        while marks.next().is_some_and(|(mark, number)| dialogs.extend(lifetime(round), mark, owner(number)))
        {
        }
    }
    Box::new(dialogs)
}

fn failed(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let fill = |_| {
        let mut servers = FailedServers::default();
        for port in 1..=2 * FailedServers::SERVERS_MAX as u16 {
            let target = Target::of_address("192.0.2.1", port, Transport::Udp);
            let server = target.server_at([192, 0, 2, 1].into(), HostNameId::NONE);
            servers.note(NOW, &server, later(60));
        }
        servers
    };
    Box::new([0, 1].map(fill))
}

fn locates(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut locates = LocateLimits::new(limits.hold, &seed());
    for is_proven in [false, true] {
        of_sources(SourceRates::SOURCES_MAX, |now, source| {
            if locates.begin(now, source, is_proven).is_ok() {
                locates.end();
            }
        });
    }
    Box::new(locates)
}

fn trunk_logins(_: &TableLimits, config: &Config) -> Box<dyn Any> {
    let (mut logins, mut paused, mut routes) =
        (TrunkLogins::new(&seed()), PausedTrunks::default(), ServiceRoutes::default());
    let response = format!(
        "SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@h>;tag=1\r\nTo: <sip:a@h>;tag=2\r\n\
         Call-ID: 1\r\nCSeq: 1 REGISTER\r\nWWW-Authenticate: Digest realm=\"{}\", nonce=\"{}\", opaque=\"{}\", qop=\"auth\"\r\n\
         Content-Length: 0\r\n\r\n",
        long("realm", 1, 300),
        long("nonce", 1, 300),
        long("opaque", 1, 300)
    );
    for (number, trunk) in config.trunking.trunks.iter().enumerate() {
        if let Ok(message) = Message::parse(response.as_bytes(), &Limits::default()) {
            logins.learn(&config.trunking, number, &message, 401);
        }
        paused.note(number, TrunkPause::Silent, later(60));
        paused.note(number, TrunkPause::RetryAfter, later(60));
        let route: ServiceRoute = [long("<sip:route", number, 512).into_bytes().into_boxed_slice()].into();
        routes.set(&trunk.name, &trunk.uri, &route);
    }
    Box::new((logins, paused, routes))
}

fn throttles(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut throttles = Throttles::default();
    let control = OverloadControl { reduction: Reduction::Loss(10), validity_ms: 1_000, sequence: 1 };
    for round in 0..ROUNDS {
        let first = round * Throttles::SERVERS_MAX;
        for number in first..first + Throttles::SERVERS_MAX {
            throttles.note(later(100 * round), address(number), &control);
        }
    }
    Box::new(throttles)
}

fn call_rates(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut rates = CallRates::new(&seed());
    for round in 0..ROUNDS {
        for number in 0..CallRates::COUNTS_MAX {
            rates.admit(later(10_000 * round), &[round, number].map(usize::to_be_bytes).concat(), "+", 1);
        }
    }
    Box::new(rates)
}

fn guesses(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut guesses = GuessLimits::new(limits.proofs_max, &seed(), NOW);
    for number in 0..limits.proofs_max.max(2 * GuessLimits::TRACKED_MAX) {
        let user = number.to_be_bytes();
        let login = Login { user: &user, domain: b"example.org", source: source(number) };
        if number < 2 * GuessLimits::TRACKED_MAX {
            guesses.on_login(NOW, &login, LoginResult::Wrong);
        }
        guesses.on_login(NOW, &login, LoginResult::Proven);
    }
    Box::new(guesses)
}

fn sides(limits: &TableLimits, _: &Config) -> Box<dyn Any> {
    let (key, most) = ([7; 16], limits.sides_max);
    let mut sides = SideTable::new(&seed(), most);
    let moved = Moved { way: Way::User, source: SourceHash::NONE, target: UriHash::NONE, at_s: 0 };
    for round in 0..ROUNDS {
        for number in round * most..(round + 1) * most {
            let (user, lifetime) = (user_hash(number), lifetime(round));
            let flow = Flow::udp(ListenerId(0), address(number));
            let to = Flow::udp(ListenerId(1), address(number));
            sides.note_moved(lifetime, DialogSide::of_number(number as u64), moved, owner(number));
            sides.note_left(&key, &flow, &to, user, lifetime);
            sides.note_phone(&key, PhoneHash::of(&key, user, [b"instance", b"1"]), &flow, user, lifetime);
        }
    }
    Box::new(sides)
}

fn neighbours(_: &TableLimits, config: &Config) -> Box<dyn Any> {
    let mut table = NeighbourTable::default();
    let count = config.trunking.trunks.len() + config.neighbours.len();
    let names = (0..count).map(|number| long("neighbour", number, 64)).collect();
    let earlier: Vec<_> = (0..count).map(|number| u16::try_from(number).ok()).collect();
    for number in 0..count {
        let flow = Flow::dial(ListenerId(0), address(number));
        table.set_target(number, flow);
        table.set_up(number, Some(ConnectionId(number as u64)));
        table.offer(number, flow.remote, Flow { connection: Some(ConnectionId(number as u64)), ..flow });
    }
    table.set_neighbours(names, &earlier);
    for call in 0..CALLS_MAX as u64 {
        let flow = Flow::dial(ListenerId(0), address(0));
        table.begin_call(NOW, call.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0, flow, CallRequest::Pending);
    }
    Box::new(table)
}

fn call_counts(_: &TableLimits, config: &Config) -> Box<dyn Any> {
    let mut counts = CallCounts::new(&seed());
    let lifetime = Lifetime { now: NOW, until: later(100) };
    let limits = TrunkLimits { under_way: Some(1_000), per_second: None };
    let mut call = 0;
    for trunk in &*config.trunking.trunks {
        let limited = (Account::ToTrunk(&trunk.name), trunk.call_limits.unwrap_or_default());
        while counts.begin(lifetime, &[limited], call).is_ok() {
            call += 1;
        }
    }
    loop {
        let user = call.to_be_bytes();
        if counts.begin(lifetime, &[(Account::User(&user), limits)], call).is_err() {
            break;
        }
        call += 1;
    }
    Box::new(counts)
}

fn dialog_states(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let filter = Arc::new(DialogStateFilter::new(&seed()));
    let (mut states, mut changed) = (DialogStates::new(filter, &seed(), NOW), Vec::new());
    let aor = |number| {
        let domain = b"example.org";
        Aor::new(long("user", number, DialogStates::AOR_BYTES_MAX - domain.len() - 1).as_bytes(), domain)
    };
    let remote = long("sip:", 1, DialogStates::REMOTE_BYTES_MAX);
    // Users with calls that nobody watches any more, then watched ones without a call.
    for number in 0..DialogStates::CALLS_MAX {
        let (user, tag) = (aor(number), number.to_be_bytes());
        states.watch(&user);
        let (remote, role) = (remote.as_bytes(), Role::Initiator);
        let leg = NewLeg { user: &user, role, remote, call_id: &tag, from_tag: &tag };
        if states.begin(NOW, &leg, &mut changed).is_err() {
            break;
        }
        states.unwatch(&user);
        changed.clear();
    }
    let first = DialogStates::CALLS_MAX;
    (first..first + SUBSCRIPTIONS_MAX).for_each(|number| states.watch(&aor(number)));
    Box::new(states)
}

fn ended_invites(_: &TableLimits, config: &Config) -> Box<dyn Any> {
    let mut ended = EndedInvites::new(&seed());
    let branch_key = BranchKey::new(derive(&config.secret, b"branch"));
    let transactions =
        Transactions::new(0, config.timers, config.transaction_limits, [7; 16], branch_key, NOW);
    for number in 0..3 * EndedInvites::GENERATION_MAX {
        let text = format!(
            "INVITE sip:a@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\r\nFrom: <sip:a@h>;tag=1\r\n\
             To: <sip:a@h>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        if let Ok(message) = Message::parse(text.as_bytes(), &Limits::default()) {
            ended.note(NOW, transactions.key_of(&message));
        }
    }
    Box::new(ended)
}

fn urgent_rates(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut rates = UrgentRates::new(&seed());
    rates.fill(|most, each| of_sources(most, each));
    Box::new(rates)
}

fn misses(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut misses = Misses::new(&seed());
    (0..ROUNDS * Misses::USERS_MAX).for_each(|number| misses.note(NOW, &number.to_be_bytes()));
    Box::new(misses)
}

fn lookups(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    Box::new(Lookups::filled(&seed(), NOW))
}

fn overload(_: &TableLimits, _: &Config) -> Box<dyn Any> {
    let mut overload = Overload::new(&seed());
    overload.fill(NOW);
    Box::new(overload)
}

#[cfg(test)]
mod tests {
    use super::super::table_sizes;
    use super::*;
    use crate::Hold;
    use alloc::vec;
    use ringway_sansio::TableSize;

    fn limits() -> TableLimits {
        TableLimits {
            parts: 2,
            memory: Arc::new(MemoryBound::new(64 << 20)),
            nonces_max: 50_000,
            nonce_lifetime: Duration::from_secs(300),
            proofs_max: 50_000,
            sides_max: 10_000,
            per_second: 200,
            hold: Hold::All,
        }
    }

    fn config() -> Config {
        let mut config = Config::for_domains(vec!["example.org".into()]);
        config.trunking.trunks.edit().extend(filled_trunks(100));
        config
    }

    fn sizes() -> Vec<TableSize> {
        table_sizes(&limits(), &config(), 1)
    }

    #[test]
    fn each_part_of_the_sum_has_a_table_that_is_filled() {
        let mut filled: Vec<_> = FILLED_TABLES.iter().flat_map(|table| table.names).copied().collect();
        let mut named: Vec<_> = sizes().iter().map(|size| size.name).collect();
        filled.sort_unstable();
        named.sort_unstable();
        assert_eq!(filled, named, "a table of the sum without one in FILLED_TABLES, or the other way round");
    }

    #[test]
    fn the_memory_of_each_full_table_is_the_published_one_at_most() {
        let (limits, config, sizes) = (limits(), config(), sizes());
        let mut wrong = Vec::new();
        for table in FILLED_TABLES {
            let mut kept = None;
            let taken = allocation_counter::measure(|| kept = Some((table.fill)(&limits, &config)));
            let taken = taken.bytes_current as u64;
            let parts = sizes.iter().filter(|size| table.names.contains(&size.name));
            // The table itself is in the server, and in a box here.
            let size = parts.map(|size| size.bytes).sum::<u64>() + 256;
            if !(size / 5..=size).contains(&taken) {
                wrong.push(format!("{:?}: {taken} bytes of {size}", table.names));
            }
            drop(kept);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
