//! `[[trunk]]`: gateways and carriers.

use super::rates::Rates;
use super::{Reader, Section, stir, store, trunk_headers, trunk_identity};
use ringway_sansio::Transport;
use ringway_server::{
    CallerNumber, CallerPrivacy, Config, NEIGHBOURS_MAX, Neighbour, NeighbourConnection, Network, Number,
    NumberForm, Trunk, TrunkLimits, TrunkLogin, Trunking,
};
use ringway_settings::{HostPort, read_networks};
use ringway_sip::{Scheme, Uri};
use std::collections::HashSet;
use std::time::Duration;

/// Reads the sections into `server`. `neighbours` are the names of those of the file: names are unique among both. The nodes
/// behind this server follow.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    (neighbours, edge_nodes): (&[String], &[String]),
    server: &mut Config,
) {
    let (mut trunks, mut streams, mut rules, mut rates) = (Vec::new(), 0, 0, Rates::default());
    let mut names: HashSet<String> = neighbours.iter().cloned().collect();
    for (mut section, at) in top.sections(reader, "trunk") {
        if trunks.len() >= Trunk::TRUNKS_MAX {
            let message = format!("the list is too long; give at most {} trunks", Trunk::TRUNKS_MAX);
            reader.error(at, "trunk", message);
            break;
        }
        let (trunk, interval) = trunk(reader, &mut section, (at, rules, &mut names), server);
        rules += trunk.headers.len();
        streams += usize::from(interval.is_some() && is_by_stream(&trunk.uri));
        if streams == STREAMS_MAX + 1 {
            let at = section.place("uri").unwrap_or(at);
            let message = format!(
                "one connection more than {STREAMS_MAX} would be kept open for health checks over TCP or TLS; set health_check_s = 0 for some"
            );
            reader.error(at, section.path("uri"), message);
        }
        if trunk.bulk && !trunk.registers {
            let at = section.place("bulk").unwrap_or(at);
            reader.error(at, section.path("bulk"), "needs register = true; add it, or take `bulk` out");
        }
        if let Some((file, at)) = section.text(reader, "rates_file") {
            let number = u16::try_from(trunks.len()).unwrap_or(u16::MAX);
            if let Err(why) = rates.add(file, number) {
                reader.error(at, section.path("rates_file"), format!("{file:?} {why}"));
            }
        }
        check_hidden(reader, &section, &trunk, server.record_route && server.stateful);
        section.finish(reader);
        add(&mut trunks, &mut server.neighbours, trunk, interval);
    }
    if edge_nodes.len() > NEIGHBOURS_MAX.saturating_sub(neighbours.len()) {
        let message = format!("give at most {NEIGHBOURS_MAX} nodes and neighbours together");
        reader.error(0, "[routing] edge_nodes", message);
    }
    for uri in edge_nodes {
        add(&mut trunks, &mut server.neighbours, node(uri), Some(NODE_CHECK));
    }
    server.trunking.rates = rates.table();
    server.trunking.trunks = trunks.into();
}

/// Reads a trunk, and the time between its health checks. `names` are those of the neighbours and the trunks before, which have so many
/// `rules` for header fields.
fn trunk(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    (at, rules, names): (usize, usize, &mut HashSet<String>),
    server: &Config,
) -> (Trunk, Option<Duration>) {
    let name = name(reader, section, at, names);
    let uri = uri(reader, section, at, &server.domains);
    let interval = health_check(reader, section);
    let privacy = match section.switch(reader, "privacy", false) {
        true => CallerPrivacy::Id,
        false => CallerPrivacy::None,
    };
    let keys = trunk_identity::read(reader, section);
    let changes_from = keys.identity.from.is_some() || keys.numbers_in != NumberForm::Unchanged;
    let (call_limits, calls_in, calls_both) = call_limits(reader, section);
    let sees_ends = server.record_route && server.stateful;
    if changes_from && !sees_ends {
        let message = "another From in a call needs [routing] record_route = true and stateful = true, so that both sides get theirs back; set them, or take `identity.from` and `normalise.in` out";
        reader.error(at, "trunk", message);
    }
    let networks = networks(reader, section);
    let trunk = Trunk {
        hides_topology: section.switch(reader, "hide_topology", false),
        takes_rate: section.switch(reader, "overload_rate", false),
        stir: stir::of_trunk(reader, section, (server, &networks)),
        headers: trunk_headers::read(reader, section, rules),
        registers: section.switch(reader, "register", false),
        bulk: section.switch(reader, "bulk", false),
        login: login(reader, section),
        networks,
        silence: section.seconds(reader, "timeout_s", TIMEOUT, 1..=32),
        caller: caller(reader, section),
        callers: callers(reader, section),
        privacy: keys.privacy.unwrap_or(privacy),
        international: international(reader, section),
        domain: domain(reader, section),
        call_limits,
        calls_in,
        calls_both,
        identity: keys.identity,
        numbers_in: keys.numbers_in,
        numbers_out: keys.numbers_out,
        ..Trunk::at(&name, &uri)
    };
    if trunk.counts_calls() && !sees_ends {
        let keys = ["calls_max", "calls_in_max"];
        let key = keys.into_iter().find(|key| section.place(key).is_some()).unwrap_or("calls_both_max");
        let message = format!(
            "needs [routing] record_route = true and stateful = true, since a call ends with its BYE; set them, or take `{key}` out"
        );
        reader.error(section.place(key).unwrap_or(at), section.path(key), message);
    }
    if trunk.registers && !trunk.login.as_ref().is_some_and(|login| is_account(&login.username)) {
        let at = section.place("register").unwrap_or(at);
        let message = "needs `username` and `password_file`, and a user name that a SIP URI can have: letters, digits and -_.!~*'()&=+$,?/";
        reader.error(at, section.path("register"), message);
    }
    (trunk, interval)
}

/// Reads the name of a trunk.
fn name(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    at: usize,
    names: &mut HashSet<String>,
) -> String {
    let name = section.text(reader, "name").map(|(name, _)| name.to_owned()).unwrap_or_default();
    let is_used = !names.insert(name.clone());
    if !is_name(&name) || is_used {
        let at = section.place("name").unwrap_or(at);
        let fault = if is_used { "is used twice" } else { "is not a name" };
        let message = format!(
            "{name:?} {fault}; give each trunk one of its own, of 1 to 64 letters, digits, `.`, `-` or `_`, which no neighbour has"
        );
        reader.error(at, section.path("name"), message);
    }
    name
}

/// True for a URI whose transport has connections.
fn is_by_stream(uri: &str) -> bool {
    Uri::parse(uri.as_bytes()).is_ok_and(|uri| {
        let transport = Transport::of_uri(uri.scheme() == Scheme::Sips, uri.params().value(b"transport"));
        transport.is_some_and(|transport| transport.is_stream())
    })
}

/// Checks what a hidden inside needs: messages of the trunk are recognised by its address, and the server keeps what they do not have.
fn check_hidden(reader: &mut Reader<'_>, section: &Section<'_, '_>, trunk: &Trunk, sees_ends: bool) {
    let at = section.place("hide_topology").unwrap_or_default();
    let has_address = Uri::parse(trunk.uri.as_bytes()).is_ok_and(|uri| uri.host().ip().is_some());
    if !trunk.hides_topology {
        return;
    }
    if trunk.networks.is_empty() && !has_address {
        let message = "needs `networks`, by which the trunk's requests are recognised; add them";
        reader.error(at, section.path("hide_topology"), message);
    }
    if !sees_ends {
        let message =
            "needs [routing] record_route = true and stateful = true; set them, or take this line out";
        reader.error(at, section.path("hide_topology"), message);
    }
}

/// Adds a trunk, and the neighbour that probes it at this interval.
fn add(
    trunks: &mut Vec<Trunk>,
    neighbours: &mut Vec<Neighbour>,
    mut trunk: Trunk,
    interval: Option<Duration>,
) {
    if let Some(interval) = interval {
        trunk.neighbour = Some(neighbours.len());
        neighbours.push(Neighbour {
            name: trunk.name.clone(),
            uri: trunk.uri.clone(),
            interval,
            connection: NeighbourConnection::Kept,
            certificate: None,
            offers_alias: false,
        });
    }
    trunks.push(trunk);
}

/// Warning of more health checks than are sent in a second.
pub(super) fn health_check_warning(server: &Config) -> Option<String> {
    let wanted: f64 = server.neighbours.iter().map(|of| 1.0 / of.interval.as_secs_f64().max(1.0)).sum();
    let most = f64::from(Neighbour::PROBES_PER_S);
    (wanted > most).then(|| {
        format!(
            "{} health checks would be {wanted:.0} a second, and {most} are sent in all: each comes {:.1} times as late; \
             raise [[trunk]] health_check_s",
            server.neighbours.len(),
            wanted / most
        )
    })
}

/// True for a user part without escapes (RFC 3261 §25.1).
fn is_account(name: &str) -> bool {
    let is_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,?/".contains(&byte);
    !name.is_empty() && name.bytes().all(is_user)
}

/// Node behind this server, with its URI as its name.
fn node(uri: &str) -> Trunk {
    let ip = Uri::parse(uri.as_bytes()).ok().and_then(|uri| uri.host().ip());
    Trunk {
        networks: ip.and_then(|ip| ip.to_string().parse().ok()).into_iter().collect(),
        is_node: true,
        ..Trunk::at(uri, uri)
    }
}

/// The URI; one that is not usable is an error.
fn uri(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, at: usize, domains: &[String]) -> String {
    let Some((text, at)) = section.text(reader, "uri") else {
        let message = "is missing; write as \"sip:trunk.example.net;transport=udp\"";
        reader.error(at, section.path("uri"), message);
        return String::new();
    };
    match Uri::parse(text.as_bytes()) {
        Ok(uri) if uri.is_sip() && uri.user().is_none() && uri.headers().is_empty() => {
            if domains.iter().any(|domain| uri.host().equals(domain.as_bytes())) {
                let message = format!("{text:?} is a domain of this server; give the trunk's own host");
                reader.error(at, section.path("uri"), message);
            }
        }
        Ok(_) | Err(_) => {
            let message = format!(
                "{text:?} is not a SIP server; write as \"sip:trunk.example.net;transport=tls\" or \"sip:192.0.2.7:5060\", without a user"
            );
            reader.error(at, section.path("uri"), message);
        }
    }
    text.to_owned()
}

/// The networks; one with every address would make every sender a trunk, and get credentials everywhere.
fn networks(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<Network> {
    let networks = read_networks(reader, section, "networks").unwrap_or_default();
    if networks.iter().any(Network::holds_every_address) {
        let at = section.place("networks").unwrap_or_default();
        reader.error(at, section.path("networks"), "contains every address; give those of the trunk only");
    }
    networks
}

fn health_check(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<Duration> {
    let interval = section.seconds(reader, "health_check_s", HEALTH_CHECK, 0..=3600);
    if (1..5).contains(&interval.as_secs()) {
        let at = section.place("health_check_s").unwrap_or_default();
        reader.error(at, section.path("health_check_s"), "is out of range; give 5 to 3600, or 0 for none");
    }
    Some(interval).filter(|interval| !interval.is_zero())
}

fn login(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<TrunkLogin> {
    let username = section.text(reader, "username");
    let file = section.text(reader, "password_file");
    let realm = section.text(reader, "realm").map(|(text, _)| text.to_owned());
    let (key, missing) = match (username, file) {
        (Some((username, _)), Some((file, at))) => {
            let password = store::read_password(file).unwrap_or_else(|why| {
                reader.error(at, section.path("password_file"), format!("{file:?} {why}"));
                String::new()
            });
            return Some(TrunkLogin { username: username.to_owned(), password, realm });
        }
        (None, None) if realm.is_none() => return None,
        (None, None) => ("realm", "username and password_file"),
        (Some(_), None) => ("username", "a password_file"),
        (None, Some(_)) => ("password_file", "a username"),
    };
    let at = section.place(key).unwrap_or_default();
    reader.error(at, section.path(key), format!("needs {missing}; add it, or remove this line"));
    None
}

fn caller(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> CallerNumber {
    match section.text(reader, "caller") {
        None | Some(("user", _)) => CallerNumber::User,
        Some((text, at)) => {
            if !is_number(text) {
                let message = format!("{text:?} is not a caller; give \"user\" or a number as \"+49301234\"");
                reader.error(at, section.path("caller"), message);
            }
            CallerNumber::Number(text.to_owned())
        }
    }
}

fn callers(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<(String, String)> {
    let mut callers = Vec::new();
    for (text, at) in section.texts(reader, "callers").unwrap_or_default() {
        match text.rsplit_once(':') {
            Some((user, number)) if !user.is_empty() && is_number(number) => {
                callers.push((user.to_owned(), number.to_owned()));
            }
            Some(_) | None => {
                let message = format!("{text:?} is not a user with a number; write as \"alice:+4930123401\"");
                reader.error(at, section.path("callers"), message);
            }
        }
    }
    callers.sort();
    callers
}

fn international(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let prefixes = section.texts(reader, "international_prefixes").unwrap_or_default();
    let is_prefix = |text: &str| text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    for (text, at) in prefixes.iter().filter(|(text, _)| !is_prefix(text)) {
        let message = format!("{text:?} is not a prefix; write up to 8 digits as \"00\"");
        reader.error(*at, section.path("international_prefixes"), message);
    }
    if prefixes.len() > INTERNATIONAL_MAX {
        let at = section.place("international_prefixes").unwrap_or_default();
        let message = format!("the list is too long; give at most {INTERNATIONAL_MAX} prefixes");
        reader.error(at, section.path("international_prefixes"), message);
    }
    prefixes.into_iter().map(|(text, _)| text.to_owned()).collect()
}

/// Limits of the calls to a trunk, of those from it, and of both.
fn call_limits(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
) -> (Option<TrunkLimits>, Option<TrunkLimits>, Option<u32>) {
    let mut limit = |key| Some(section.number(reader, key, 0, 0..=CALLS_MAX)).filter(|most| *most > 0);
    let to = TrunkLimits { under_way: limit("calls_max"), per_second: limit("calls_per_s_max") };
    let from = TrunkLimits { under_way: limit("calls_in_max"), per_second: limit("calls_in_per_s_max") };
    let both = limit("calls_both_max");
    let [to, from] = [to, from].map(|limits| Some(limits).filter(|of| *of != TrunkLimits::default()));
    (to, from, both)
}

fn domain(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<String> {
    let (text, at) = section.text(reader, "domain")?;
    if text.parse::<HostPort>().is_err() {
        let message = format!("{text:?} is not a domain; write as \"example.net\"");
        reader.error(at, section.path("domain"), message);
    }
    Some(text.to_owned())
}

/// Numbers of callers that a trunk gets in another form than its other numbers: without `+` they have no country code.
pub(super) fn warnings(trunking: &Trunking) -> Vec<String> {
    let mut warnings = Vec::new();
    for trunk in trunking.trunks.iter().filter(|trunk| trunk.numbers_out.changes()) {
        let own = match &trunk.caller {
            CallerNumber::User => None,
            CallerNumber::Number(number) => Some(number),
        };
        let numbers = own.into_iter().chain(trunk.callers.iter().map(|(_, number)| number));
        warnings.extend(numbers.filter(|number| !number.starts_with('+')).map(|number| {
            format!(
                "{number:?} of [[trunk]] {:?} has no `+`, so that `normalise.out` leaves it as it is; write it with its country code, as \"+49301234\"",
                trunk.name
            )
        }));
    }
    warnings
}

/// True for a number without separators.
pub(super) fn is_number(text: &str) -> bool {
    Number::parse(text.as_bytes()).is_some()
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Maximum number of trunks whose health checks keep a connection open.
const STREAMS_MAX: usize = 1000;
/// Maximum number of international prefixes of a trunk.
const INTERNATIONAL_MAX: usize = 8;
/// Maximum number in a limit of calls.
const CALLS_MAX: u32 = 10_000;
const HEALTH_CHECK: Duration = Duration::from_secs(30);
/// Short, because the users of a silent node wait for [`TIMEOUT`] until a check has failed.
const NODE_CHECK: Duration = Duration::from_secs(5);
/// A trunk that works answers with 100 at once.
const TIMEOUT: Duration = Duration::from_secs(4);
