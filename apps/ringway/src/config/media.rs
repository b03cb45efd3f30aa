//! `[media]`: media relays.

use super::{Reader, Section};
use ringway_ng::RELAYS_MAX;
use ringway_server::{Config, MediaConfig, MediaInterface, RelayFailure, RelayRule, SrtpRule};
use ringway_settings::read_networks;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Reads the section into `server`. Returns the control ports of rtpengine.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    server: &mut Config,
) -> Vec<SocketAddr> {
    let default = MediaConfig::default();
    let mut section = top.section(reader, "media");
    let relays = relays(reader, &mut section);
    let limit_ms = default.time_limit.as_millis() as u32;
    let rule = MediaConfig {
        rule: section.word(reader, "relay", default.rule, &RULES),
        bridge: section.switch(reader, "bridge", default.bridge),
        srtp: section.word(reader, "srtp", default.srtp, &SRTP),
        on_failure: section.word(reader, "on_failure", default.on_failure, &FAILURES),
        time_limit: Duration::from_millis(u64::from(section.number(
            reader,
            "time_limit_ms",
            limit_ms,
            TIME_LIMITS_MS,
        ))),
        interfaces: interfaces(reader, &mut section),
    };
    let missing = match rule.is_on() {
        false => None,
        true if relays.is_empty() => {
            Some("needs [media] rtpengine; give the control ports of the relays, as [\"127.0.0.1:2223\"]")
        }
        true if !server.stateful => Some("needs [routing] stateful = true"),
        true if !server.record_route => Some("needs [routing] record_route = true"),
        true => None,
    };
    if let Some(message) = missing {
        let key = match (rule.rule, rule.bridge) {
            (RelayRule::Never, false) => "srtp",
            (RelayRule::Never, true) => "bridge",
            (RelayRule::Nat | RelayRule::Always, _) => "relay",
        };
        let at = section.place(key).unwrap_or_default();
        reader.error(at, section.path(key), message);
    }
    section.finish(reader);
    server.media = rule;
    relays
}

/// `[[media.interface]]`: the last section is the one without networks, so that each side of a call has an interface.
fn interfaces(reader: &mut Reader<'_>, media: &mut Section<'_, '_>) -> Vec<MediaInterface> {
    let mut interfaces: Vec<MediaInterface> = Vec::new();
    let mut last = 0;
    for (section, at) in media.sections(reader, "interface") {
        let mut section = section.named("media.interface");
        last = at;
        let networks = read_networks(reader, &mut section, "networks").unwrap_or_default();
        let name = section.text(reader, "name");
        let is_name = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            (1..=MediaConfig::INTERFACE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
        };
        let fault = match name {
            None => Some("is missing; give the name of an interface of rtpengine, as \"inside\"".to_owned()),
            Some((name, _)) if !is_name(name) => Some(format!(
                "{name:?} is no name; write 1 to 64 letters, digits, `.`, `-` or `_`, as \"inside\""
            )),
            Some((name, _)) if interfaces.iter().any(|other| *other.name == *name) => {
                Some(format!("{name:?} is there twice; put its networks into one section"))
            }
            Some(_) if interfaces.len() >= MediaConfig::INTERFACES_MAX => {
                Some("the list is too long; give at most 16 interfaces".to_owned())
            }
            Some(_) => None,
        };
        if let Some(message) = fault {
            reader.error(name.map_or(at, |(_, at)| at), section.path("name"), message);
        } else if let Some((name, _)) = name {
            interfaces.push(MediaInterface { name: name.into(), networks });
        }
        section.finish(reader);
    }
    let rest = interfaces.iter().position(|interface| interface.networks.is_empty());
    let message = match rest {
        _ if interfaces.is_empty() => return interfaces,
        None => {
            "leaves addresses without an interface; add a last section without `networks`, for all others"
        }
        Some(at) if at + 1 < interfaces.len() => {
            "without `networks` is for all addresses, so the sections behind it are never used; put it last"
        }
        Some(_) => return interfaces,
    };
    reader.error(last, "media.interface", message);
    interfaces
}

fn relays(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<SocketAddr> {
    let mut relays = Vec::new();
    for (text, at) in section.texts(reader, "rtpengine").unwrap_or_default() {
        match text.parse::<SocketAddr>() {
            Ok(address) if relays.len() < RELAYS_MAX && address.port() != 0 => relays.push(address),
            Ok(_) | Err(_) => {
                let message = format!(
                    "{text:?} is no control port of rtpengine; write ADDRESS:PORT, as \"127.0.0.1:2223\", at most {RELAYS_MAX}"
                );
                reader.error(at, section.path("rtpengine"), message);
            }
        }
    }
    relays
}

const RULES: [(&str, RelayRule); 3] =
    [("never", RelayRule::Never), ("nat", RelayRule::Nat), ("always", RelayRule::Always)];
const SRTP: [(&str, SrtpRule); 2] = [("end-to-end", SrtpRule::EndToEnd), ("bridge", SrtpRule::Bridge)];
const FAILURES: [(&str, RelayFailure); 2] =
    [("direct", RelayFailure::Direct), ("refuse", RelayFailure::Refuse)];
/// The caller waits that long for a response.
const TIME_LIMITS_MS: RangeInclusive<u32> = 200..=10_000;
