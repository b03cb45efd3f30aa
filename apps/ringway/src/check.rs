//! `ringway check`: validates a configuration without starting the server.

use crate::admin_client::AdminClient;
use crate::args::CheckArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::serve::memory::MemorySum;
use crate::serve::{Expiry, advertised, start_errors};
use crate::{output, reload};
use if_addrs::IfAddr;
use ringway_sansio::Transport;
use ringway_server::{Advertised, AdvertisedHost, Network, Strangers, is_private};
use ringway_store::Durability;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::time::SystemTime;

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let path = Config::find_or_default(args.file.as_deref());
    let text = Config::read(&path)?;
    let (mut report, mut memory) = (None, None);
    let (warnings, errors) = match Config::parse(&text, Some(&path)) {
        Ok(config) => {
            if args.against_running {
                report = Some(compared(args, &config)?);
            }
            let warnings = config.warnings().into_iter().chain(of_tls(&config));
            let warnings = warnings.chain(of_inner_networks(&config)).chain(of_reach(&config));
            let warnings = warnings.chain(of_location(&config)).chain(of_write_back(&config)).collect();
            let is_shown = args.memory || (!args.json && std::io::stderr().is_terminal());
            memory = is_shown.then(|| MemorySum::of(&config));
            (warnings, start_errors(&config, &path))
        }
        Err(errors) => (Vec::new(), errors),
    };
    let file = path.display().to_string();
    if args.json {
        let errors: Vec<_> = errors
            .iter()
            .map(|error| json!({"line": error.line, "key": error.key, "message": error.message}))
            .collect();
        let mut result = json!({"file": file, "ok": errors.is_empty(), "errors": errors});
        if !warnings.is_empty() {
            result["warnings"] = json!(warnings);
        }
        if let Some(memory) = &memory {
            result["memory"] = memory.json();
        }
        if let Some(report) = &report {
            for key in ["changes", "changes_left_out", "restart"] {
                result[key] = report.get(key).cloned().unwrap_or_default();
            }
            result["reload"] = json!({ "ok": report.get("ok"), "errors": report.get("errors") });
        }
        output::line(&result.to_string())?;
    } else if errors.is_empty() {
        warn(&file, &warnings);
        output::line(&format!("{file}: ok"))?;
        if let Some(memory) = &memory {
            print(&file, memory, args.memory)?;
        }
        if let Some(report) = &report {
            reload::print(report, "a reload would change")?;
        }
    } else {
        warn(&file, &warnings);
        for error in &errors {
            eprintln!("ringway: {error}");
        }
    }
    match errors.len() {
        0 => report.as_ref().map_or(Ok(()), reload::refusal),
        1 => Err(Failure::failed(format!("{file}: 1 error; correct it and check again"))),
        count => Err(Failure::failed(format!("{file}: {count} errors; correct them and check again"))),
    }
}

/// Prints the most memory that the server takes: with its parts by `--memory`, otherwise in a line for people.
fn print(file: &str, memory: &MemorySum, has_parts: bool) -> Result<(), Failure> {
    if !has_parts {
        eprintln!("ringway: {file}: {} (--memory lists the parts)", memory.line());
        return Ok(());
    }
    output::line(&memory.line())?;
    Ok(memory.lines().try_for_each(|line| output::line(&line))?)
}

/// Prints the warnings.
fn warn(file: &str, warnings: &[String]) {
    for warning in warnings {
        eprintln!("ringway: warning: {file}: {warning}");
    }
}

/// Warnings about the private networks of this machine, whose hosts requests do not reach.
fn of_inner_networks(config: &Config) -> Vec<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    let prefixed = interfaces.iter().map(|interface| match &interface.addr {
        IfAddr::V4(v4) => (IpAddr::V4(v4.ip), v4.prefixlen),
        IfAddr::V6(v6) => (IpAddr::V6(v6.ip), v6.prefixlen),
    });
    let listening: Vec<_> = config.listen.iter().map(|listener| advertised(listener.address).ip()).collect();
    unnamed_networks(&listening, prefixed, &config.server.inner_networks)
        .into_iter()
        .map(|network| {
            format!(
                "requests reach no host of {network}, which this server listens in, but its phones, permanent contacts, trunks and neighbours; \
                 if users are to call others there by their address, add \"{network}\" to [routing] inner_networks"
            )
        })
        .collect()
}

/// Warnings about listeners that strangers reach, or that they are to reach and cannot.
fn of_reach(config: &Config) -> Vec<String> {
    if !config.server.auth.enabled || config.server.auth.strangers == Strangers::None {
        return Vec::new();
    }
    // One for named inner networks does not reach callers outside.
    let is_outside = |entry: &Advertised| {
        entry.networks.is_empty() || entry.networks.iter().any(Network::holds_every_address)
    };
    let listeners = config.listen.iter().map(|listener| {
        let own = (listener.transport, listener.address);
        let is_of = |entry: &&Advertised| entry.listener.is_none_or(|of| of == own);
        let is_advertised = config.server.advertised.iter().filter(is_of).any(is_outside);
        (advertised(listener.address).ip(), is_advertised)
    });
    reach_of(listeners)
}

/// The same for listeners with these addresses, each with true if peers get another one.
fn reach_of(listening: impl Iterator<Item = (IpAddr, bool)>) -> Vec<String> {
    let (mut private, mut public) = (None, None);
    for (ip, is_advertised) in listening.filter(|(ip, _)| !ip.is_loopback()) {
        match (is_advertised, is_private(ip)) {
            (true, _) => public = public.or(Some("the advertised address".to_owned())),
            (false, true) => private = private.or(Some(ip)),
            (false, false) => public = public.or(Some(ip.to_string())),
        }
    }
    let mut warnings = Vec::new();
    if let Some(ip) = private {
        warnings.push(format!(
            "[auth] strangers: callers outside cannot reach {ip}, a private address; give the address that they reach in [[advertise]], or \
             set strangers = \"none\" if only your phones call"
        ));
    }
    if let Some(address) = public {
        warnings.push(format!(
            "[auth] strangers: anyone who reaches {address} may ring your phones without a password; set strangers = \"none\" unless \
             other domains are to call you"
        ));
    }
    warnings
}

/// Private networks, among those of the `interfaces` with these addresses and prefixes, that the server listens in and that are not named.
fn unnamed_networks(
    listening: &[IpAddr],
    interfaces: impl Iterator<Item = (IpAddr, u8)>,
    named: &[Network],
) -> Vec<Network> {
    let mut networks = Vec::new();
    for (ip, prefix) in interfaces {
        let is_inner = is_private(ip) && !ip.is_loopback() && listening.contains(&ip);
        let network = Network::around(ip, prefix);
        if is_inner && !named.iter().any(|named| named.contains(ip)) && !networks.contains(&network) {
            networks.push(network);
        }
    }
    networks
}

/// Warnings about the files of `[tls]`, if they can be loaded.
fn of_tls(config: &Config) -> Vec<String> {
    let Ok(material) = config.tls.load() else { return Vec::new() };
    let expiry = Expiry::of(&material).of_orders(config.acme.is_some()).warnings(SystemTime::now());
    let mut warnings: Vec<String> = expiry.iter().flatten().map(ToString::to_string).collect();
    // A certificate that is ordered gets its names then.
    if config.acme.is_none() && config.listen.iter().any(|listener| is_verified(listener.transport)) {
        let listens =
            |entry: &&Advertised| entry.listener.is_none_or(|(transport, _)| is_verified(transport));
        let advertised = config.server.advertised.iter().filter(listens);
        let hosts: Vec<&str> = advertised.filter_map(|entry| host_name(&entry.host)).collect();
        let domains = config.server.domains.iter().map(String::as_str);
        warnings.extend(uncovered(domains, &hosts, |host| material.covers(host) != Some(false)));
    }
    warnings
}

/// True for a transport whose clients verify a certificate.
const fn is_verified(transport: Transport) -> bool {
    matches!(transport, Transport::Tls | Transport::Wss)
}

fn host_name(host: &AdvertisedHost) -> Option<&str> {
    match host {
        AdvertisedHost::Name(name) => Some(name),
        AdvertisedHost::Address(_) => None,
    }
}

/// Warnings about names that the certificate does not have: each host name that is advertised, and each domain, unless clients have a
/// host name that it has.
fn uncovered<'c>(
    domains: impl Iterator<Item = &'c str>,
    hosts: &[&str],
    is_covered: impl Fn(&str) -> bool,
) -> Vec<String> {
    let warning = |kind: &str, name: &str| {
        format!(
            "[tls] certificate: it has no alternative name {name}, {kind}: clients that verify it refuse the connection; \
             use one that has it"
        )
    };
    let mut warnings: Vec<String> = hosts
        .iter()
        .filter(|host| !is_covered(host))
        .map(|host| warning("an address of [[advertise]]", host))
        .collect();
    if !hosts.iter().any(|host| is_covered(host)) {
        let left = domains.filter(|domain| !is_covered(domain) && !hosts.contains(domain));
        warnings.extend(left.map(|domain| warning("one of domains", domain)));
    }
    warnings
}

/// Warnings about the store that nodes share, which this connects to.
fn of_location(config: &Config) -> Vec<String> {
    let Some(location) = &config.location else { return Vec::new() };
    let is_strict = config.store.durability == Durability::Strict;
    match ringway_redis::probe(&location.url) {
        Ok(report) => {
            report.warnings(is_strict).into_iter().map(|warning| format!("[location] {warning}")).collect()
        }
        // Only its nodes need to reach it: that is no error of the configuration.
        Err(error) => vec![format!(
            "the store {} cannot be reached: {error}; the server starts all the same",
            location.url.shown()
        )],
    }
}

/// Warning about the table of registrations in the database, which this connects to.
fn of_write_back(config: &Config) -> Option<String> {
    let url = config.store.database.as_ref().filter(|_| config.store.write_back)?;
    let error = ringway_sql::provisioning::check_location_table(url).err()?;
    Some(format!("[store] write_back: {}: {error}; the server starts all the same", url.shown()))
}

/// Asks the running server for the changes by a reload of this file.
fn compared(args: &CheckArgs, config: &Config) -> Result<Value, Failure> {
    let server = AdminClient::new(args.admin.unwrap_or(config.admin.listen), &config.admin.token)?;
    reload::compare(&server, &config.keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_network_that_the_server_listens_in_is_named_once() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let interfaces = [
            (ip("127.0.0.1"), 8),
            (ip("192.168.7.2"), 24),
            (ip("192.168.7.3"), 24),
            (ip("172.17.0.1"), 16),
            (ip("203.0.113.5"), 24),
            (ip("fd00::2"), 64),
        ];
        let unnamed = |listening: &[&str], named: &[&str]| -> Vec<String> {
            let listening: Vec<_> = listening.iter().map(|text| ip(text)).collect();
            let named: Vec<_> = named.iter().map(|text| text.parse().unwrap()).collect();
            let networks = unnamed_networks(&listening, interfaces.into_iter(), &named);
            networks.iter().map(Network::to_string).collect()
        };
        assert_eq!(unnamed(&["127.0.0.1", "203.0.113.5"], &[]), Vec::<String>::new());
        assert_eq!(unnamed(&["192.168.7.2", "192.168.7.3", "fd00::2"], &[]), ["192.168.7.0/24", "fd00::/64"]);
        assert_eq!(unnamed(&["192.168.7.2", "fd00::2"], &["192.168.0.0/16"]), ["fd00::/64"]);
    }

    #[test]
    fn names_that_the_certificate_does_not_have_are_a_warning() {
        let of = |hosts: &[&str], has: &[&str]| {
            uncovered(["example.org", "example.net"].into_iter(), hosts, |name| has.contains(&name))
        };
        assert_eq!(of(&[], &["example.org", "example.net"]), Vec::<String>::new());
        let domain = of(&[], &["example.org"]);
        assert!(domain.len() == 1 && domain[0].contains("name example.net, one of domains"), "{domain:?}");
        // Clients use the host name of their proxy.
        assert_eq!(of(&["sip.example.org"], &["sip.example.org"]), Vec::<String>::new());
        let host = of(&["sip.example.org"], &["example.org", "example.net"]);
        assert!(
            host.len() == 1 && host[0].contains("sip.example.org, an address of [[advertise]]"),
            "{host:?}"
        );
        assert_eq!(of(&["sip.example.org", "example.org"], &[]).len(), 3);
    }

    #[test]
    fn strangers_who_reach_a_listener_or_cannot_are_a_warning() {
        let of = |listening: &[&str], is_advertised: bool| {
            reach_of(listening.iter().map(|text| (text.parse().unwrap(), is_advertised)))
        };
        assert_eq!(of(&["127.0.0.1", "::1"], false), Vec::<String>::new());
        let private = of(&["127.0.0.1", "10.0.0.5", "10.0.0.6"], false);
        assert!(private.len() == 1 && private[0].contains("cannot reach 10.0.0.5"), "{private:?}");
        let public = of(&["203.0.113.5"], false);
        assert!(public.len() == 1 && public[0].contains("who reaches 203.0.113.5 may ring"), "{public:?}");
        let advertised = of(&["10.0.0.5"], true);
        assert!(advertised.len() == 1 && advertised[0].contains("the advertised address"), "{advertised:?}");
        let both = of(&["10.0.0.5", "203.0.113.5"], false);
        assert_eq!(both.len(), 2, "{both:?}");
        let one_of_two = [("10.0.0.5", true), ("10.0.0.6", false)].map(|(ip, is)| (ip.parse().unwrap(), is));
        let one_of_two = reach_of(one_of_two.into_iter());
        assert!(one_of_two[0].contains("cannot reach 10.0.0.6") && one_of_two.len() == 2, "{one_of_two:?}");
    }
}
