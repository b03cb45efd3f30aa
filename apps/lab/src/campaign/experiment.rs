//! Experiments as TOML files: those of the lab, and a user's own.

use super::pulse::{self, Pulse};
use super::search::Grid;
use super::tls_keys;
use crate::load::{Called, ConnectionUse, Criteria, Criterion, CryptoSuite, Flow, Length, MediaUse};
use crate::record::Chart;
use crate::server::{Algorithm, Carrier, NonceUse, Routing};
use crate::tls::TlsUse;
use crate::{text_file, times};
use anyhow::{Context, Result, bail};
use ringway_settings::{Reader, Section, nearest, read_document};
use std::path::Path;

/// Experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Name in results: that of the file.
    pub name: String,
    /// Name or path on the command line.
    pub source: String,
    /// Title.
    pub title: String,
    /// Table or figure of the documents that it reproduces; empty if none.
    pub reproduces: String,
    /// Rows of the documents that the lab does not have yet.
    pub not_available: Vec<String>,
    /// Its measurement.
    pub kind: Kind,
    /// Variants, one after another.
    pub variants: Vec<Variant>,
    /// Criterion of a trial.
    pub criteria: Criteria,
    /// Seconds of a trial.
    pub seconds: Scaled<f64>,
    /// Seconds of load before it, which are not measured.
    pub warm_up: Scaled<f64>,
    /// Trials of each target at each rate; one in a quick campaign.
    pub repeat: u32,
    /// Users whose attempts are made; for registrations and logouts as many as attempts.
    pub users: Scaled<u32>,
    /// Ring time.
    pub ring: Length,
    /// Talk time.
    pub talk: Length,
    /// Share of the server's processor that a busy thread takes, so that the generator can offer many times its peak; 0 for none.
    pub ballast: f64,
    /// Load beyond the peak and below it, one after another.
    pub pulse: Option<Pulse>,
}

/// Values for a full and for a quick campaign.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled<T> {
    full: T,
    quick: T,
}

/// Measurement of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Trials at the variants' rates.
    Rates(Chart),
    /// Search for the highest rate.
    Peak(Peak),
    /// Trials at multiples of the highest rate, beyond it.
    Overload(Peak, Scaled<Vec<f64>>),
    /// Trials at multiples of the highest rate, up to a little more: processor and delays against the load.
    Curve(Peak, Scaled<Vec<f64>>),
    /// Connections without traffic.
    Idle(Scaled<u32>),
}

/// Search for the highest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Rates, and trials of each.
    pub grid: Grid,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// Seconds of the confirming trial.
    pub confirm_seconds: f64,
}

/// Variant of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Name, such as `udp, digest MD5`.
    pub name: String,
    /// Kind of attempts.
    pub flow: Flow,
    /// Transport.
    pub carrier: Carrier,
    /// Connections of the callers over a transport with connections.
    pub connections: ConnectionUse,
    /// Connections of the called users.
    pub called: Called,
    /// TLS of a secure transport.
    pub tls: TlsUse,
    /// Media streams of calls.
    pub media: MediaUse,
    /// Algorithm of the server's challenges; `None`: it does not challenge.
    pub digest: Option<Algorithm>,
    /// Source of the passwords that it checks.
    pub passwords: Passwords,
    /// Use of the nonces of its challenges.
    pub nonces: NonceUse,
    /// Configuration of the server.
    pub routing: Routing,
    /// Attempts a second.
    pub rates: Scaled<Vec<f64>>,
    /// Ring time in place of the experiment's.
    pub ring: Option<Length>,
    /// Users in place of the experiment's.
    pub users: Option<Scaled<u32>>,
    /// The server's memory is measured, so it must not take all at its start.
    pub measures_memory: bool,
}

/// Source of the passwords that a server with digest checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passwords {
    /// Its memory.
    Memory,
    /// A database, which is read for each request with a password.
    Database,
}

impl<T> Scaled<T> {
    /// Value of a campaign.
    pub const fn of(&self, is_quick: bool) -> &T {
        if is_quick { &self.quick } else { &self.full }
    }
}

impl Kind {
    /// Form of the chart.
    pub const fn chart(&self) -> Chart {
        match self {
            Self::Rates(chart) => *chart,
            Self::Peak(_) => Chart::Peak,
            Self::Overload(..) => Chart::Overload,
            Self::Curve(..) => Chart::Curve,
            Self::Idle(_) => Chart::Idle,
        }
    }
}

impl Variant {
    /// True if the server reads passwords from a database while requests wait.
    pub fn reads_database(&self) -> bool {
        self.digest.is_some() && self.passwords == Passwords::Database
    }

    fn named(mut self, shows_flow: bool, shows_routing: bool) -> Self {
        let mut parts = Vec::new();
        parts.extend(shows_flow.then(|| self.flow.name().to_owned()));
        parts.push(carrier_name(self.carrier).to_owned());
        if self.carrier.is_secure() {
            parts.extend(self.tls.parts());
        }
        if self.carrier != Carrier::Udp {
            let connections = (self.connections != ConnectionUse::Shared)
                .then(|| format!("connections {}", name_of(&CONNECTIONS, self.connections)));
            let called =
                (self.called != Called::Usual).then(|| format!("called {}", name_of(&CALLED, self.called)));
            parts.extend(connections.into_iter().chain(called));
        }
        parts.extend((self.media != MediaUse::None).then(|| name_of(&MEDIA, self.media).to_owned()));
        parts.extend(self.digest.map(|algorithm| format!("digest {}", algorithm.name())));
        parts.extend(self.reads_database().then(|| "database".to_owned()));
        parts.extend((self.nonces == NonceUse::Once).then(|| "nonces once".to_owned()));
        parts.extend(self.users.as_ref().map(|users| format!("{} users", users.full)));
        parts.extend(self.ring.map(|ring| format!("ring {} s", ring.longest().as_secs_f64())));
        parts.extend(shows_routing.then(|| routing_name(self.routing).to_owned()));
        self.name = parts.join(", ");
        self
    }
}

/// Name of a transport in files and results.
pub fn carrier_name(carrier: Carrier) -> &'static str {
    carrier.name()
}

/// Name of an algorithm in files and results.
pub fn digest_name(digest: Option<Algorithm>) -> &'static str {
    name_of(&DIGESTS, digest)
}

fn routing_name(routing: Routing) -> &'static str {
    name_of(&ROUTINGS, routing)
}

/// Experiments of the lab, in their order.
///
/// # Errors
/// None that occur: a test reads them all.
pub fn built_in() -> Result<Vec<Experiment>> {
    FILES.iter().map(|(name, text)| parse(name, &format!("{name}.toml"), text)).collect()
}

/// Experiment by its name, or from a user's file: an argument with a `/` or that ends in `.toml`.
///
/// # Errors
/// No such experiment, no such file, a fault in it with its line.
pub fn find(argument: &str) -> Result<Experiment> {
    if argument.contains('/') || argument.ends_with(".toml") {
        let text = text_file::read(Path::new(argument), FILE_BYTES_MAX)
            .with_context(|| format!("{argument}: cannot be read; give an experiment as a TOML file"))?;
        let stem = Path::new(argument).file_stem().unwrap_or_default().to_string_lossy();
        return Ok(Experiment { source: argument.to_owned(), ..parse(&stem, argument, &text)? });
    }
    if let Some((name, text)) = FILES.iter().find(|(name, _)| *name == argument) {
        return parse(name, &format!("{name}.toml"), text);
    }
    let names = FILES.map(|(name, _)| name);
    match nearest(argument, &names) {
        Some(name) => bail!("no experiment is named {argument:?}; did you mean `{name}`?"),
        None => bail!("no experiment is named {argument:?}; give one of: {}", names.join(", ")),
    }
}

/// Reads an experiment from the text of `file`.
///
/// # Errors
/// The faults, each with its line.
pub fn parse(name: &str, file: &str, text: &str) -> Result<Experiment> {
    read_document(text, Some(file), |reader, top| read(name, reader, top)).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(lines.join("\n"))
    })
}

fn read(name: &str, reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Experiment {
    let title = top.text(reader, "title").map_or(name, |(text, _)| text).to_owned();
    let reproduces = top.text(reader, "reproduces").map_or("", |(text, _)| text).to_owned();
    let not_available = top.texts(reader, "not_available").unwrap_or_default();
    let chart = top.word(reader, "chart", Chart::Rates, &CHARTS);
    let rates = scaled_rates(reader, top, "rates", "quick_rates", 1.0..=RATE_MAX);
    let variants = read_variants(reader, top, &rates);
    let criteria = read_criteria(reader, top);
    let seconds = top.decimal(reader, "seconds", SECONDS).unwrap_or(5.0);
    let quick_seconds = top.decimal(reader, "quick_seconds", SECONDS).unwrap_or(1.0);
    let warm_up = read_warm_up(reader, top, &variants);
    let users = top.number(reader, "users", 1000, 1..=USERS_MAX);
    let quick_users = top.number(reader, "quick_users", users, 1..=USERS_MAX);
    let kind = match chart {
        Chart::Rates | Chart::Compare => {
            if variants.iter().any(|variant| variant.rates.full.is_empty()) {
                let at = top.place("rates").or_else(|| top.place("variant")).unwrap_or(0);
                reader.error(at, "rates", "is missing; give attempts a second, as [100, 200]");
            }
            Kind::Rates(chart)
        }
        Chart::Peak => Kind::Peak(read_search(reader, top)),
        Chart::Overload | Chart::Curve => {
            let multiples = scaled_rates(reader, top, "multiples", "quick_multiples", 0.1..=100.0);
            if multiples.full.is_empty() {
                reader.error(0, "multiples", "is missing; give multiples of the peak, as [0.5, 1, 2]");
            }
            let search = read_search(reader, top);
            if chart == Chart::Curve {
                Kind::Curve(search, multiples)
            } else {
                Kind::Overload(search, multiples)
            }
        }
        Chart::Idle => {
            let full = top.number(reader, "connections", 10_000, 1..=CONNECTIONS_MAX);
            let quick = top.number(reader, "quick_connections", full.min(1000), 1..=CONNECTIONS_MAX);
            Kind::Idle(Scaled { full, quick })
        }
    };
    Experiment {
        name: name.to_owned(),
        source: name.to_owned(),
        title,
        reproduces,
        not_available: not_available.into_iter().map(|(text, _)| text.to_owned()).collect(),
        variants: if chart == Chart::Idle { vec![idle_variant()] } else { variants },
        kind,
        criteria,
        seconds: Scaled { full: seconds, quick: quick_seconds },
        warm_up,
        repeat: top.number(reader, "repeat", 5, 1..=REPEAT_MAX),
        users: Scaled { full: users, quick: quick_users },
        ring: read_length(reader, top, "ring"),
        talk: read_length(reader, top, "talk"),
        ballast: top.decimal(reader, "ballast", 0.0..=0.94).unwrap_or(0.0),
        pulse: pulse::read(reader, top, chart),
    }
}

/// Reads the variants. Lists at the top give each combination; sections `[[variant]]` name them one by one.
fn read_variants(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    rates: &Scaled<Vec<f64>>,
) -> Vec<Variant> {
    let default = read_variant(reader, top, &Variant { rates: rates.clone(), ..base() });
    let sections = top.sections(reader, "variant");
    if sections.is_empty() {
        let carriers = words(reader, top, "transports", Carrier::Udp, &Carrier::ALL);
        let digests = words(reader, top, "digests", None, &DIGESTS);
        let routings = words(reader, top, "routings", Routing::Stateful, &ROUTINGS);
        check_passwords(reader, top, digests.iter().any(Option::is_some));
        if let Some(at) = top.place("called").filter(|_| carriers == [Carrier::Udp]) {
            reader.error(at, "called", "no transport has connections; give one to transports");
        }
        tls_keys::check(reader, top, carriers.iter().any(|carrier| carrier.is_secure()));
        let secure = tls_keys::read_lists(reader, top, &default.tls);
        let plain = vec![default.tls.clone()];
        let mut variants = Vec::new();
        for &carrier in &carriers {
            for tls in if carrier.is_secure() { &secure } else { &plain } {
                for &digest in &digests {
                    for &routing in &routings {
                        let tls = tls.clone();
                        let variant = Variant { carrier, digest, routing, tls, ..default.clone() };
                        variants.push(variant.named(false, routings.len() > 1));
                    }
                }
            }
        }
        return variants;
    }
    let mut variants = Vec::new();
    for (mut section, _) in sections {
        let variant = read_variant(reader, &mut section, &default);
        let carrier = section.word(reader, "transport", Carrier::Udp, &Carrier::ALL);
        let tls = tls_keys::read_one(reader, &mut section, variant.tls.clone());
        tls_keys::check_one(reader, &section, carrier.is_secure());
        let digest = section.word(reader, "digest", None, &DIGESTS);
        let routing = section.word(reader, "routing", Routing::Stateful, &ROUTINGS);
        check_passwords(reader, &section, digest.is_some());
        let ring = section.place("ring").map(|_| read_length(reader, &mut section, "ring"));
        let users = section.place("users").map(|_| {
            let full = section.number(reader, "users", 1000, 1..=USERS_MAX);
            let quick = section.number(reader, "quick_users", full, 1..=USERS_MAX);
            Scaled { full, quick }
        });
        let own = scaled_rates(reader, &mut section, "rates", "quick_rates", 1.0..=RATE_MAX);
        section.finish(reader);
        let rates = if own.full.is_empty() { rates.clone() } else { own };
        variants.push(Variant { carrier, digest, routing, rates, tls, ring, users, ..variant });
    }
    let has_many_flows =
        variants.iter().any(|variant| Some(variant.flow) != variants.first().map(|v| v.flow));
    let named = |variant: Variant| {
        let is_special = variant.routing != Routing::Stateful;
        variant.named(has_many_flows, is_special)
    };
    variants.into_iter().map(named).collect()
}

/// Reads the keys that are at the top and in sections.
fn read_variant(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, default: &Variant) -> Variant {
    let flows = Flow::ALL.map(|(flow, name)| (name, flow));
    let flow = section.word(reader, "scenario", default.flow, &flows);
    let connections = section.word(reader, "connection_use", default.connections, &CONNECTIONS);
    let called = section.word(reader, "called", default.called, &CALLED);
    let media = section.word(reader, "media", default.media, &MEDIA);
    let tls = tls_keys::read_switches(reader, section, default.tls.clone());
    let passwords = section.word(reader, "passwords", default.passwords, &PASSWORDS);
    let nonces = section.word(reader, "nonces", default.nonces, &NONCES);
    if media != MediaUse::None && !matches!(flow, Flow::Call | Flow::Redirect) {
        let key = if section.place("media").is_some() { "media" } else { "scenario" };
        let at = section.place(key).unwrap_or(0);
        reader.error(at, section.path(key), "only calls have media: call and redirect");
    }
    Variant { flow, connections, called, media, passwords, nonces, tls, ..default.clone() }
}

fn check_passwords(reader: &mut Reader<'_>, section: &Section<'_, '_>, has_digest: bool) {
    for key in ["passwords", "nonces"] {
        if let Some(at) = section.place(key).filter(|_| !has_digest) {
            reader.error(at, section.path(key), "a server without digest checks no passwords; give digest");
        }
    }
}

fn base() -> Variant {
    Variant {
        name: String::new(),
        flow: Flow::Register,
        carrier: Carrier::Udp,
        connections: ConnectionUse::Shared,
        called: Called::Usual,
        tls: TlsUse::default(),
        media: MediaUse::None,
        digest: None,
        passwords: Passwords::Memory,
        nonces: NonceUse::Count,
        routing: Routing::Stateful,
        rates: Scaled { full: Vec::new(), quick: Vec::new() },
        ring: None,
        users: None,
        measures_memory: false,
    }
}

fn idle_variant() -> Variant {
    let variant = Variant { flow: Flow::Options, carrier: Carrier::Tcp, measures_memory: true, ..base() };
    variant.named(false, false)
}

fn read_search(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Peak {
    let mut section = top.section(reader, "search");
    let lowest = section.decimal(reader, "lowest", 1.0..=RATE_MAX).unwrap_or(100.0);
    let highest = section.decimal(reader, "highest", lowest..=RATE_MAX).unwrap_or(RATE_MAX);
    let step = section.decimal(reader, "step", 1.01..=4.0).unwrap_or(1.1);
    let n = section.number(reader, "n", 3, 1..=REPEAT_MAX);
    let k = section.number(reader, "k", n / 2 + 1, 1..=n);
    let trial_seconds = section.decimal(reader, "trial_seconds", SECONDS).unwrap_or(2.0);
    let confirm_seconds = section.decimal(reader, "confirm_seconds", SECONDS).unwrap_or(10.0);
    section.finish(reader);
    Peak { grid: Grid { lowest, highest, step, k, n }, trial_seconds, confirm_seconds }
}

/// Reads the seconds of load before each trial, by default none.
fn read_warm_up(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, variants: &[Variant]) -> Scaled<f64> {
    let full = top.decimal(reader, "warm_up", WARM_UP).unwrap_or(0.0);
    let quick = top.decimal(reader, "quick_warm_up", WARM_UP).unwrap_or(full.min(QUICK_WARM_UP));
    let cannot = |variant: &Variant| variant.flow == Flow::Logout || variant.media != MediaUse::None;
    if full > 0.0 && variants.iter().any(cannot) {
        let at = top.place("warm_up").unwrap_or(0);
        reader.error(
            at,
            "warm_up",
            "logouts and calls with media have none: each binding and stream is used once",
        );
    }
    Scaled { full, quick }
}

fn read_criteria(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Criteria {
    let texts = top.texts(reader, "fail_if").unwrap_or_default();
    let mut conditions = Vec::new();
    for (text, at) in texts {
        match text.parse::<Criterion>() {
            Ok(condition) => conditions.push(condition),
            Err(error) => reader.error(at, "fail_if", error.to_string()),
        }
    }
    Criteria::new(conditions)
}

fn read_length(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, key: &'static str) -> Length {
    let Some((text, at)) = top.text(reader, key) else { return Length::Fixed(std::time::Duration::ZERO) };
    times::length(text).unwrap_or_else(|error| {
        reader.error(at, key, error);
        Length::Fixed(std::time::Duration::ZERO)
    })
}

fn scaled_rates(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    full: &'static str,
    quick: &'static str,
    range: std::ops::RangeInclusive<f64>,
) -> Scaled<Vec<f64>> {
    let full = section.decimals(reader, full, range.clone()).unwrap_or_default();
    let quick = section.decimals(reader, quick, range).unwrap_or_else(|| full.clone());
    Scaled { full, quick }
}

/// A list of words, or `default` without it.
fn words<T: Copy + PartialEq>(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: T,
    known: &[(&str, T)],
) -> Vec<T> {
    let Some(texts) = section.texts(reader, key) else { return vec![default] };
    let mut values = Vec::new();
    for (text, at) in texts {
        match known.iter().find(|(word, _)| *word == text) {
            Some((_, value)) if values.contains(value) => {
                reader.error(at, key, format!("{text:?} is there twice"))
            }
            Some((_, value)) => values.push(*value),
            None => {
                let names: Vec<_> = known.iter().map(|(word, _)| format!("{word:?}")).collect();
                reader.error(at, key, format!("{text:?} is not known; give {}", names.join(", ")));
            }
        }
    }
    if values.is_empty() { vec![default] } else { values }
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

/// Files of the lab's experiments.
const FILES: [(&str, &str); 30] = [
    ("register", include_str!("../../experiments/register.toml")),
    ("update", include_str!("../../experiments/update.toml")),
    ("logout", include_str!("../../experiments/logout.toml")),
    ("call", include_str!("../../experiments/call.toml")),
    ("call-not-found", include_str!("../../experiments/call-not-found.toml")),
    ("redirect", include_str!("../../experiments/redirect.toml")),
    ("stateful-stateless", include_str!("../../experiments/stateful-stateless.toml")),
    ("ordinary", include_str!("../../experiments/ordinary.toml")),
    ("peak", include_str!("../../experiments/peak.toml")),
    ("authentication", include_str!("../../experiments/authentication.toml")),
    ("overload", include_str!("../../experiments/overload.toml")),
    ("idle", include_str!("../../experiments/idle.toml")),
    ("bare-pc-peaks", include_str!("../../experiments/bare-pc-peaks.toml")),
    ("bare-pc-latency", include_str!("../../experiments/bare-pc-latency.toml")),
    ("openser-proxy", include_str!("../../experiments/openser-proxy.toml")),
    ("openser-redirect", include_str!("../../experiments/openser-redirect.toml")),
    ("openser-registrar", include_str!("../../experiments/openser-registrar.toml")),
    ("tls-modes", include_str!("../../experiments/tls-modes.toml")),
    ("tls-registrations", include_str!("../../experiments/tls-registrations.toml")),
    ("utilisation", include_str!("../../experiments/utilisation.toml")),
    ("security-cost", include_str!("../../experiments/security-cost.toml")),
    ("errors", include_str!("../../experiments/errors.toml")),
    ("timers", include_str!("../../experiments/timers.toml")),
    ("authentication-tls", include_str!("../../experiments/authentication-tls.toml")),
    ("messages", include_str!("../../experiments/messages.toml")),
    ("presence", include_str!("../../experiments/presence.toml")),
    ("nonces", include_str!("../../experiments/nonces.toml")),
    ("scale", include_str!("../../experiments/scale.toml")),
    ("sipstone", include_str!("../../experiments/sipstone.toml")),
    ("rfc7502-sessions", include_str!("../../experiments/rfc7502-sessions.toml")),
];

const CHARTS: [(&str, Chart); 6] = [
    ("rates", Chart::Rates),
    ("compare", Chart::Compare),
    ("peak", Chart::Peak),
    ("overload", Chart::Overload),
    ("curve", Chart::Curve),
    ("idle", Chart::Idle),
];

const NONCES: [(&str, NonceUse); 2] = [("count", NonceUse::Count), ("once", NonceUse::Once)];

const CONNECTIONS: [(&str, ConnectionUse); 3] = [
    ("shared", ConnectionUse::Shared),
    ("user", ConnectionUse::PerUser),
    ("call", ConnectionUse::PerAttempt),
];

const CALLED: [(&str, Called); 4] = [
    ("usual", Called::Usual),
    ("shared", Called::Shared),
    ("user", Called::PerUser),
    ("contact", Called::Dialled),
];

const MEDIA: [(&str, MediaUse); 3] = [
    ("none", MediaUse::None),
    ("rtp", MediaUse::Rtp),
    ("srtp", MediaUse::Srtp(CryptoSuite::AesCm128HmacSha1_80)),
];

const DIGESTS: [(&str, Option<Algorithm>); 3] =
    [("none", None), ("MD5", Some(Algorithm::Md5)), ("SHA-256", Some(Algorithm::Sha256))];

const PASSWORDS: [(&str, Passwords); 2] = [("memory", Passwords::Memory), ("database", Passwords::Database)];

const ROUTINGS: [(&str, Routing); 3] =
    [("stateful", Routing::Stateful), ("stateless", Routing::Stateless), ("redirect", Routing::Redirect)];

/// Maximum length of a file in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Largest rate of a file.
const RATE_MAX: f64 = 1_000_000.0;
/// Seconds of a trial.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Seconds of load before a trial.
const WARM_UP: std::ops::RangeInclusive<f64> = 0.0..=600.0;
/// Longest warm-up of a quick campaign, unless the file has another one.
const QUICK_WARM_UP: f64 = 0.5;
/// Largest number of users of a file.
const USERS_MAX: u32 = 1_000_000;
/// Largest number of trials.
const REPEAT_MAX: u32 = 100;
/// Largest number of idle connections.
const CONNECTIONS_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse("own", "own.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_experiments_of_the_lab_are_read() {
        let all = built_in().unwrap();
        assert_eq!(all.len(), FILES.len());
        assert!(all.iter().all(|experiment| !experiment.title.is_empty() && !experiment.variants.is_empty()));
        let register = find("register").unwrap();
        let names: Vec<_> = register.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["udp", "udp, digest MD5", "tcp", "tcp, digest MD5"]);
        assert_eq!(register.variants[0].rates.of(true), &[500.0, 2000.0]);
        let ordinary = find("ordinary").unwrap();
        let names: Vec<_> = ordinary.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names[2..4], ["update, udp, digest MD5", "call, udp, stateless"]);
        let authentication = find("authentication").unwrap();
        let names: Vec<_> = authentication.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(
            names[..3],
            ["update, udp", "update, udp, digest MD5", "update, udp, digest MD5, database"]
        );
        assert!(matches!(find("idle").unwrap().kind, Kind::Idle(Scaled { full: 10_000, quick: 1000 })));
    }

    #[test]
    fn lists_of_tls_give_variants_of_the_secure_transports() {
        let text = "rates = [1]\ntransports = [\"udp\", \"tls\"]\nkeys = [\"P-256\", \"RSA-2048\"]\nversions = [\"1.2\"]\n\
                    resumption = false\nconnection_use = \"call\"\ncalled = \"contact\"\nscenario = \"call\"\n";
        let names = |text| -> Vec<String> {
            parse("own", "own.toml", text).unwrap().variants.into_iter().map(|variant| variant.name).collect()
        };
        let tls = |key| format!("tls, TLS 1.2, {key}, no resumption, connections call, called contact");
        assert_eq!(names(text), ["udp".to_owned(), tls("P-256"), tls("RSA-2048")]);
        let text = "rates = [1]\n[[variant]]\ntransport = \"wss\"\nmutual = true\nsuites = [\"TLS_AES_128_GCM_SHA256\"]\n";
        assert_eq!(names(text), ["wss, P-256, TLS_AES_128_GCM_SHA256, mutual"]);
    }

    #[test]
    fn an_unknown_name_or_key_gets_the_nearest_one() {
        assert!(find("registr").unwrap_err().to_string().ends_with("did you mean `register`?"));
        assert!(find("x").unwrap_err().to_string().contains("stateful-stateless, ordinary"));
        assert!(find("missing.toml").unwrap_err().to_string().starts_with("missing.toml: cannot be read"));
        let text = "rates = [1]\nsenario = \"call\"\n";
        assert!(
            fault(text).starts_with("own.toml:2: senario: unknown key; did you mean `scenario`? "),
            "{}",
            fault(text)
        );
        let text = "rates = [1]\n[[variant]]\ntransprot = \"udp\"\n";
        assert!(
            fault(text).contains("own.toml:3: [variant] transprot: unknown key; did you mean `transport`?")
        );
    }

    #[test]
    fn faults_have_their_line() {
        for (text, fault_of_it) in [
            ("chart = \"pie\"\nrates = [1]", "own.toml:1: chart: "),
            ("rates = [1]\nfail_if = [\"p99\"]", "own.toml:2: fail_if: `p99` is not a condition"),
            ("rates = [0]", "own.toml:1: rates: is out of range"),
            ("title = \"no rates\"", "own.toml:1: rates: is missing"),
            ("rates = [1]\ntransports = [\"sctp\"]", "own.toml:2: transports: \"sctp\" is not known"),
            ("rates = [1]\ntalk = \"5\"", "own.toml:2: talk: "),
            ("chart = \"peak\"\n[search]\nstep = 0.5", "own.toml:3: [search] step: is out of range"),
            ("chart = \"overload\"", "multiples: is missing"),
            ("rates = [1]\nmedia = \"rtp\"", "own.toml:2: media: only calls have media"),
            ("rates = [1]\nconnection_use = \"one\"", "own.toml:2: connection_use: \"one\" is unknown"),
            ("rates = [1]\nversions = [\"1.4\"]", "own.toml:2: versions: \"1.4\" is not known; give"),
            ("rates = [1]\nkeys = [\"RSA\"]", "own.toml:2: keys: \"RSA\" is not known; give"),
            ("rates = [1]\nsuites = [\"AES\"]", "own.toml:2: suites: \"AES\" is not a cipher suite"),
            ("rates = [1]\nmutual = true", "own.toml:2: mutual: no transport has TLS"),
            (
                "rates = [1]\n[[variant]]\nkey = \"RSA-2048\"",
                "own.toml:3: [variant] key: the transport has no TLS",
            ),
            ("rates = [1]\ncalled = \"contact\"", "own.toml:2: called: no transport has connections"),
            ("rates = [1]\nscenario = \"logout\"\nwarm_up = 1", "own.toml:3: warm_up: logouts"),
            ("rates = [1]\npasswords = \"database\"", "own.toml:2: passwords: a server without digest"),
            (
                "rates = [1]\n[[variant]]\npasswords = \"database\"",
                "own.toml:3: [variant] passwords: a server without digest",
            ),
            ("rates = [", "own.toml:1: not TOML"),
        ] {
            assert!(fault(text).contains(fault_of_it), "{text}: {}", fault(text));
        }
    }
}
