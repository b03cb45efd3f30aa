//! `[emergency]`: emergency calls, their trunks and the sites of callers.

use super::caller_limits::user_of;
use super::trunks::is_number;
use super::{Reader, Section};
use ringway_server::{Config, Emergency, EmergencyNumber, EmergencySite, Mode};
use ringway_settings::read_networks;
use ringway_sip::Uri;

/// Reads the section into `server`, whose domains, trunks and section `[routing]` are read.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, server: &mut Config) {
    let mut section = top.section(reader, "emergency");
    let emergency = Emergency {
        numbers: numbers(reader, &mut section),
        services: services(reader, &mut section),
        trunks: trunks(reader, &mut section, server),
        strangers: strangers(reader, &mut section),
        sites: sites(reader, &mut section, server),
    };
    let at = section.place("to").unwrap_or_default();
    if emergency.trunks.is_empty() && emergency != Emergency::default() {
        let keys = ["numbers", "services", "strangers", "site"];
        let at = keys.into_iter().find_map(|key| section.place(key)).unwrap_or_default();
        reader.error(at, section.path("to"), "is missing; give the trunks, as [\"carrier\"]");
    } else if !emergency.trunks.is_empty() && emergency.numbers.is_empty() {
        reader.error(at, section.path("numbers"), "is missing; give the numbers, as [\"112\", \"110\"]");
    } else if emergency.is_on() && (server.mode == Mode::Redirect || !server.stateful) {
        reader.error(
            at,
            section.path("to"),
            "needs [routing] mode = \"proxy\" and stateful = true; set them",
        );
    }
    section.finish(reader);
    server.trunking.emergency = emergency;
}

/// A call without a site has the number of any call, by which the carrier finds an address.
pub(super) fn warnings(emergency: &Emergency) -> Option<String> {
    (emergency.is_on() && emergency.sites.is_empty()).then(|| {
        "[emergency] without [[emergency.site]]: all emergency calls have the number of the trunk, whose address the emergency service \
         is sent to; add a site for each site, or one with the networks of all phones if there is one site only"
            .to_owned()
    })
}

fn numbers(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<EmergencyNumber> {
    let mut numbers: Vec<EmergencyNumber> = Vec::new();
    for (text, at) in listed(reader, section, "numbers") {
        let (dialled, sent) = text.split_once(':').unwrap_or((text, text));
        if !is_number(dialled) || !is_number(sent) || numbers.iter().any(|other| other.dialled == dialled) {
            let message = format!(
                "{text:?} is no number, or is there twice; write as \"112\", or as \"0112:112\" for one that is sent as 112"
            );
            reader.error(at, section.path("numbers"), message);
        }
        numbers.push(EmergencyNumber { dialled: dialled.to_owned(), sent: sent.to_owned() });
    }
    numbers
}

fn services(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<(String, String)> {
    let mut services: Vec<(String, String)> = Vec::new();
    for (text, at) in listed(reader, section, "services") {
        match text.split_once(':') {
            Some((service, number)) if is_service(service) && is_number(number) => {
                services.push((service.to_ascii_lowercase(), number.to_owned()));
            }
            Some(_) | None => {
                let message = format!("{text:?} is no service with a number; write as \"sos.police:110\"");
                reader.error(at, section.path("services"), message);
            }
        }
    }
    services
}

/// True for `sos` and what is below it (RFC 5031 §4.2).
fn is_service(service: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    service.split('.').next().is_some_and(|first| first.eq_ignore_ascii_case("sos"))
        && service.split('.').all(is_label)
}

/// Indices of the trunks of `to`.
fn trunks(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, server: &Config) -> Vec<usize> {
    let mut trunks = Vec::new();
    for (name, at) in section.texts(reader, "to").unwrap_or_default() {
        match server.trunking.trunks.iter().position(|trunk| trunk.name == name && !trunk.is_node) {
            Some(trunk) if !trunks.contains(&trunk) && trunks.len() < TRUNKS_MAX => trunks.push(trunk),
            Some(_) => {
                let message =
                    format!("{name:?} is there twice, or is too much; give at most {TRUNKS_MAX} trunks");
                reader.error(at, section.path("to"), message);
            }
            None => {
                let message =
                    format!("there is no [[trunk]] with the name {name:?}; add it, or give another");
                reader.error(at, section.path("to"), message);
            }
        }
    }
    trunks
}

fn strangers(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<ringway_server::Network> {
    let networks = read_networks(reader, section, "strangers").unwrap_or_default();
    if networks.iter().any(ringway_server::Network::holds_every_address) {
        let at = section.place("strangers").unwrap_or_default();
        let message = "contains every address, from which anybody could call; give your own networks only";
        reader.error(at, section.path("strangers"), message);
    }
    networks
}

fn sites(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, server: &Config) -> Vec<EmergencySite> {
    let mut sites: Vec<EmergencySite> = Vec::new();
    for (site, at) in section.sections(reader, "site") {
        let mut site = site.named("emergency.site");
        if sites.len() >= SITES_MAX {
            let message = format!("the list is too long; give at most {SITES_MAX} sites");
            reader.error(at, "emergency.site", message);
            break;
        }
        let name = site.text(reader, "name").map(|(name, _)| name.to_owned()).unwrap_or_default();
        let networks = read_networks(reader, &mut site, "networks").unwrap_or_default();
        let users = users(reader, &mut site, server);
        let caller = caller(reader, &mut site);
        let location = location(reader, &mut site);
        if (networks.is_empty() && users.is_empty()) || (caller.is_none() && location.is_none()) {
            let message =
                "give `networks` or `users` of the site, and `caller` or `geolocation` for its calls";
            reader.error(at, "emergency.site", message);
        }
        if name.is_empty() || name.len() > 64 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            let at = site.place("name").unwrap_or(at);
            let message = format!("{name:?} is no name; give 1 to 64 visible characters without spaces");
            reader.error(at, site.path("name"), message);
        }
        site.finish(reader);
        sites.push(EmergencySite { name, networks, users, caller, location });
    }
    sites
}

/// Users of a site, sorted; a name without a domain is one of the first domain.
fn users(reader: &mut Reader<'_>, site: &mut Section<'_, '_>, server: &Config) -> Vec<String> {
    let mut users = Vec::new();
    for (name, at) in site.texts(reader, "users").unwrap_or_default() {
        match user_of(server, name) {
            Some(user) => users.push(user),
            None => {
                let message =
                    format!("{name:?} is no user of this server; write as \"alice\" or \"alice@DOMAIN\"");
                reader.error(at, site.path("users"), message);
            }
        }
    }
    users.sort();
    users
}

fn caller(reader: &mut Reader<'_>, site: &mut Section<'_, '_>) -> Option<String> {
    let (text, at) = site.text(reader, "caller")?;
    if !is_number(text) {
        let message = format!("{text:?} is not a number; write as \"+49301234\"");
        reader.error(at, site.path("caller"), message);
    }
    Some(text.to_owned())
}

/// URI of a location: `cid:` would need a body that the phone does not send.
fn location(reader: &mut Reader<'_>, site: &mut Section<'_, '_>) -> Option<String> {
    let (text, at) = site.text(reader, "geolocation")?;
    let is_known =
        ["https://", "http://", "sip:", "sips:", "pres:"].iter().any(|start| text.starts_with(start));
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'"');
    if !is_known
        || text.len() > LOCATION_BYTES_MAX
        || !text.bytes().all(is_plain)
        || Uri::parse(text.as_bytes()).is_err()
    {
        let message = format!(
            "{text:?} is no URI of a location; give an https:, http:, sip:, sips: or pres: URI of at most {LOCATION_BYTES_MAX} bytes"
        );
        reader.error(at, site.path("geolocation"), message);
    }
    Some(text.to_owned())
}

fn listed<'t>(
    reader: &mut Reader<'_>,
    section: &mut Section<'t, '_>,
    key: &'static str,
) -> Vec<(&'t str, usize)> {
    let entries = section.texts(reader, key).unwrap_or_default();
    if entries.len() > NUMBERS_MAX {
        let at = section.place(key).unwrap_or_default();
        reader.error(at, section.path(key), format!("the list is too long; give at most {NUMBERS_MAX}"));
    }
    entries
}

const NUMBERS_MAX: usize = 20;
const TRUNKS_MAX: usize = 8;
const SITES_MAX: usize = 1000;
const LOCATION_BYTES_MAX: usize = 255;
