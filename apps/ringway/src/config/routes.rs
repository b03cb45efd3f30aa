//! `[[route]]` and `[[destination]]`: ways of numbers and domains to trunks and users.

use super::trunks::is_number;
use super::{Reader, Section};
use ringway_server::{
    BadPattern, Config, Destination, DestinationRule, DestinationRules, Mode, Number, NumberChange, Route,
    RouteMatch, RouteTable, RouteTo, WeightedTrunk, WeightedTrunks,
};
use ringway_settings::HostPort;
use std::collections::HashMap;

/// Reads the sections into `server`.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, server: &mut Config) {
    let (mut routes, mut places) = (Vec::new(), Vec::new());
    let trunks = server.trunking.trunks.clone();
    let numbers: HashMap<&str, u16> = trunks.iter().map(|trunk| trunk.name.as_str()).zip(0..).collect();
    for (mut section, at) in top.sections(reader, "route") {
        if let Some(route) = route(reader, &mut section, (at, &numbers), server) {
            routes.push(route);
            places.push(at);
        }
        section.finish(reader);
    }
    if let (Some(&at), true) = (places.first(), server.mode == Mode::Redirect || !server.stateful) {
        reader.error(at, "route", "needs [routing] mode = \"proxy\" and stateful = true; set them");
    }
    server.trunking.routes = RouteTable::new(routes).unwrap_or_else(|bad| {
        let at = places.get(bad.route).copied().unwrap_or_default();
        reader.error(at, "[route] pattern", fault(bad.why));
        RouteTable::default()
    });
    server.trunking.destinations = destinations(reader, top);
}

fn route(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    (at, numbers): (usize, &HashMap<&str, u16>),
    server: &Config,
) -> Option<Route> {
    let prefix = section.text(reader, "prefix");
    let pattern = section.text(reader, "pattern");
    let domain = section.text(reader, "domain");
    let to = section.texts(reader, "to");
    let user = section.text(reader, "to_user");
    let is_by_cost = section.switch(reader, "by_cost", false);
    let strip = section.number(reader, "strip", 0, 0..=Number::BYTES_MAX as u32);
    let add = section.text(reader, "add");
    let matches = match (prefix, pattern, domain) {
        (Some((text, _)), None, None) => RouteMatch::Prefix(text.to_owned()),
        (None, Some((text, _)), None) => RouteMatch::Pattern(text.to_owned()),
        (None, None, Some((text, at))) => {
            check_domain(reader, section, (text, at), &server.domains);
            RouteMatch::Domain(text.to_owned())
        }
        _ => {
            reader.error(at, "route", "give one of `prefix`, `pattern` and `domain`");
            return None;
        }
    };
    if let Some((text, at)) = add.filter(|(text, _)| !text.is_empty() && !is_number(text) && *text != "+") {
        let message = format!("{text:?} is not the start of a number; write as \"+49\"");
        reader.error(at, section.path("add"), message);
    }
    let change = NumberChange {
        strip: u8::try_from(strip).unwrap_or(u8::MAX),
        add: add.map(|(text, _)| text.to_owned()).unwrap_or_default(),
    };
    let is_domain = matches!(matches, RouteMatch::Domain(_));
    if (is_domain || user.is_some()) && change != NumberChange::default() {
        let key = if add.is_some() { "add" } else { "strip" };
        let at = section.place(key).unwrap_or(at);
        reader.error(
            at,
            section.path(key),
            "needs numbers and trunks: remove it, or give `to` with `prefix` or `pattern`",
        );
    }
    if is_by_cost && (is_domain || server.trunking.rates.is_empty()) {
        let needs = if is_domain { "`prefix` or `pattern`" } else { "a [[trunk]] with `rates_file`" };
        let at = section.place("by_cost").unwrap_or(at);
        reader.error(at, section.path("by_cost"), format!("needs {needs}; add it, or give `to`"));
    }
    match (to, user) {
        (None, None) if is_by_cost => Some(Route { matches, to: RouteTo::ByCost(change) }),
        (Some(to), None) if !is_by_cost => {
            let trunks = weighted(reader, section, (&to, at), numbers);
            Some(Route { matches, to: RouteTo::Trunks { trunks, change } })
        }
        (None, Some((user, at))) if !is_by_cost => {
            let is_plain =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
            if is_domain || user.is_empty() || !user.bytes().all(is_plain) {
                let message = format!(
                    "{user:?} is not a user for numbers; write as \"alice\", with `prefix` or `pattern`"
                );
                reader.error(at, section.path("to_user"), message);
            }
            Some(Route { matches, to: RouteTo::User(user.to_owned()) })
        }
        (None | Some(_), None | Some(_)) => {
            let message = "give one of `to`, a list of trunks, `by_cost`, for the cheapest, and `to_user`, a user of this server";
            reader.error(at, "route", message);
            None
        }
    }
}

fn check_domain(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    (text, at): (&str, usize),
    domains: &[String],
) {
    let is_host = text.parse::<HostPort>().is_ok_and(|host| host.port.is_none());
    if text != "*" && !is_host {
        let message =
            format!("{text:?} is not a domain; write as \"other.example\", or \"*\" for all others");
        reader.error(at, section.path("domain"), message);
    }
    if domains.iter().any(|domain| domain.eq_ignore_ascii_case(text)) {
        reader.error(
            at,
            section.path("domain"),
            format!("{text:?} is a domain of this server; its users need no route"),
        );
    }
}

/// Trunks of `to`: names, all or none with weights.
fn weighted(
    reader: &mut Reader<'_>,
    section: &Section<'_, '_>,
    (to, at): (&[(&str, usize)], usize),
    numbers: &HashMap<&str, u16>,
) -> WeightedTrunks {
    let mut list = WeightedTrunks::new();
    if to.is_empty() || to.len() > Route::TRUNKS_MAX {
        let message = format!("give 1 to {} trunks", Route::TRUNKS_MAX);
        reader.error(section.place("to").unwrap_or(at), section.path("to"), message);
    }
    for &(text, at) in to {
        let (name, weight) = match text.split_once(':') {
            None => (text, Some(0)),
            Some((name, weight)) => (name, weight.parse().ok().filter(|weight| (1..=1000).contains(weight))),
        };
        let trunk = numbers.get(name).copied();
        match (trunk, weight) {
            (Some(trunk), Some(weight)) if list.iter().all(|other| other.trunk != trunk) => {
                list.push(WeightedTrunk { trunk, weight });
            }
            (None, _) => {
                let message =
                    format!("there is no [[trunk]] with the name {name:?}; add it, or give another");
                reader.error(at, section.path("to"), message);
            }
            (Some(_), Some(_)) => {
                reader.error(at, section.path("to"), format!("{name:?} is there twice; take one out"));
            }
            (Some(_), None) => {
                let message = format!("{text:?} has no weight of 1 to 1000; write as \"{name}:80\"");
                reader.error(at, section.path("to"), message);
            }
        }
    }
    let weights = list.iter().filter(|trunk| trunk.weight > 0).count();
    if weights != 0 && weights != list.len() {
        let message = "give all trunks of the route a weight, or none";
        reader.error(section.place("to").unwrap_or(at), section.path("to"), message);
    }
    list
}

fn destinations(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> DestinationRules {
    let (mut rules, mut places) = (Vec::new(), Vec::new());
    for (mut section, at) in top.sections(reader, "destination") {
        let prefix = section.text(reader, "prefix").map(|(text, _)| text.to_owned());
        let allows = section.place("allow").map(|_| section.switch(reader, "allow", true));
        let has_rate = section.place("calls_per_hour").is_some();
        let per_hour = section.number(reader, "calls_per_hour", 0, 1..=CALLS_PER_HOUR_MAX);
        let rule = match (allows, has_rate) {
            (Some(true), false) => Some(DestinationRule::Allow),
            (Some(false), false) => Some(DestinationRule::Deny),
            (None, true) => Some(DestinationRule::PerHour(per_hour)),
            (Some(_), true) | (None, false) => None,
        };
        match (prefix, rule) {
            (Some(prefix), Some(rule)) => {
                rules.push(Destination { prefix, rule });
                places.push(at);
            }
            _ => reader.error(at, "destination", "give `prefix`, and either `allow` or `calls_per_hour`"),
        }
        section.value("allow");
        section.finish(reader);
    }
    DestinationRules::new(rules).unwrap_or_else(|(rule, why)| {
        reader.error(places.get(rule).copied().unwrap_or_default(), "[destination] prefix", fault(why));
        DestinationRules::default()
    })
}

fn fault(why: BadPattern) -> String {
    match why {
        BadPattern::Syntax => {
            "is not a prefix or pattern; write digits, `*`, `#` and a `+` at the start, in a pattern also `X`, `[1-5]` and a `*` at the end"
                .to_owned()
        }
        BadPattern::TooLong => format!("is too long; give at most {} positions", Number::BYTES_MAX),
        BadPattern::TooMany => "the list is too long; give at most 100,000".to_owned(),
    }
}

const CALLS_PER_HOUR_MAX: u32 = 1_000_000;
