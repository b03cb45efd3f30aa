//! Keys of `[limits]` for the calls of users and domains.

use super::{Reader, Section};
use ringway_server::{CallerLimits, Config, TrunkLimits};

/// Reads the keys into `config`, whose domains and section `[routing]` are read.
pub(super) fn read(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, config: &mut Config) {
    let mut limit = |key, most| Some(section.number(reader, key, 0, 0..=most)).filter(|most| *most > 0);
    let of_user = TrunkLimits {
        under_way: limit("user_calls_max", USER_CALLS_MAX),
        per_second: limit("user_calls_per_s_max", USER_CALLS_MAX),
    };
    let of_domain = TrunkLimits {
        under_way: limit("domain_calls_max", DOMAIN_CALLS_MAX),
        per_second: limit("domain_calls_per_s_max", DOMAIN_CALLS_MAX),
    };
    let own_user = |name: &str| user_of(config, name);
    let users = others(reader, section, ("user_calls", USER_CALLS_MAX, "alice:20"), own_user);
    let domain_of = |name: &str| config.domains.iter().find(|own| *own == name).cloned();
    let domains = others(reader, section, ("domain_calls", DOMAIN_CALLS_MAX, "example.org:20"), domain_of);
    config.caller_limits = CallerLimits { of_user, of_domain, users, domains };
    if config.caller_limits.is_on() && !(config.record_route && config.stateful) {
        let keys = [
            "user_calls_max",
            "user_calls_per_s_max",
            "domain_calls_max",
            "domain_calls_per_s_max",
            "user_calls",
        ];
        let key = keys.into_iter().find(|key| section.place(key).is_some()).unwrap_or("domain_calls");
        let message = format!(
            "needs [routing] record_route = true and stateful = true, since a call ends with its BYE; set them, or take `{key}` out"
        );
        reader.error(section.place(key).unwrap_or_default(), section.path(key), message);
    }
}

/// User with a name that may have a domain: without one, of the first domain. `None`: the server has no such domain, or it is empty.
pub(super) fn user_of(config: &Config, name: &str) -> Option<String> {
    match name.rsplit_once('@') {
        None if !name.is_empty() => config.domains.first().map(|first| format!("{name}@{first}")),
        Some((user, domain)) if !user.is_empty() && config.domains.iter().any(|own| own == domain) => {
            Some(name.to_owned())
        }
        None | Some(_) => None,
    }
}

/// Reads a list of names with their own number of calls, as `alice:20`; 0 is no limit. Sorted.
fn others(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    (key, most, example): (&'static str, u32, &str),
    name_of: impl Fn(&str) -> Option<String>,
) -> Vec<(String, Option<u32>)> {
    let entries = section.texts(reader, key).unwrap_or_default();
    if entries.len() > OTHERS_MAX {
        let at = section.place(key).unwrap_or_default();
        reader.error(
            at,
            section.path(key),
            format!("the list is too long; give at most {OTHERS_MAX} entries"),
        );
    }
    let mut others: Vec<(String, Option<u32>)> = Vec::new();
    for (text, at) in entries {
        let entry = text.rsplit_once(':').and_then(|(name, number)| {
            let number = number.parse::<u32>().ok().filter(|number| *number <= most)?;
            Some((name_of(name)?, Some(number).filter(|number| *number > 0)))
        });
        match entry {
            Some(entry) if others.iter().any(|(name, _)| *name == entry.0) => {
                reader.error(at, section.path(key), format!("{text:?} is there twice; take one out"));
            }
            Some(entry) => others.push(entry),
            None => {
                let message = format!(
                    "{text:?} is not one of this server's, with a number of calls of 0 to {most}; write as {example:?}"
                );
                reader.error(at, section.path(key), message);
            }
        }
    }
    others.sort();
    others
}

/// Maximum number in a limit of the calls of a user, and of a domain.
const USER_CALLS_MAX: u32 = 10_000;
const DOMAIN_CALLS_MAX: u32 = 100_000;
/// Maximum number of users, and of domains, with another limit.
const OTHERS_MAX: usize = 10_000;
