use super::*;
use ringway_acme::ChallengeKind;
use ringway_sansio::Transport;
use ringway_server::{
    Algorithm, AuthConfig, CertificateRules, DigestPolicy, Mode, NoncePolicy, Realms, RegistrarConfig,
    Strangers, Trunking,
};
use ringway_store::{Durability, StoreUrl};
use std::time::Duration;

/// The example of INTERFACE.md, without unsupported keys.
const WHOLE: &str = r#"
domains = ["Example.org", "192.0.2.1", "[2001:db8::1]"]
listen = ["udp:0.0.0.0:5060", "tcp:[::]:5060", "udp:127.0.0.1:0", "udp:127.0.0.1:0"]
workers = 4
[store]
url = "sqlite:///var/lib/ringway.db"
durability = "strict"
[location]
url = "local:"
[auth]
enabled = false
realm = "somewhere else"
algorithms = ["MD5", "SHA-256"]
nonce_lifetime_s = 30
in_dialog = true
nonce_use = "once"
auth_int = true
danger_rfc2069 = true
strangers = "none"
hide_users = true
stranger_refer = true
trusted = ["192.0.2.0/24", "2001:db8::1"]
fronts = ["192.0.2.9"]
[[auth.domain]]
name = "EXAMPLE.org"
realm = "its own"
[registrar]
min_expires_s = 10
default_expires_s = 20
max_expires_s = 30
max_contacts = 3
outbound = false
gruu = true
flow_timer_s = 25
service_route = ["<sip:edge.example.org;lr>"]
[routing]
mode = "redirect"
stateful = false
record_route = false
dialog_lifetime_s = 3600
serial_fork_s = 15
datagram_bytes_max = 4000
registrations_per_s_max = 7
edge_domains = ["Example.NET"]
inner_networks = ["10.0.0.0/8", "192.0.2.7"]
[limits]
per_source_rate = 0
max_message_bytes = 4000
max_connections = 7
max_connections_per_source = 5
memory_mb = 512
[admin]
listen = "0.0.0.0:8060"
token = "s3cret-s3cret-s3cret"
[log]
level = "debug"
format = "json"
"#;

/// Part of the error for `backend = "openssl"` without `danger_legacy`.
const BACKEND_REFUSED: &str = match cfg!(feature = "legacy-tls") {
    true => "danger_legacy = true",
    false => "--features legacy-tls",
};

pub(super) fn errors(text: &str) -> Vec<String> {
    match Config::parse(text, Some(Path::new("ringway.toml"))) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ConfigError::to_string).collect(),
    }
}

/// Keys that the error of an unknown key lists.
fn known_keys(text: &str) -> Option<Vec<String>> {
    let list =
        errors(text).into_iter().find_map(|error| Some(error.split_once("give one of: ")?.1.to_owned()))?;
    Some(list.split(", ").map(str::to_owned).collect())
}

#[test]
fn every_key_is_documented() {
    let guide = example::PAGES.concat();
    let mut keys = Vec::new();
    for name in known_keys("no_key = 1").unwrap() {
        match known_keys(&format!("[{name}]\nno_key = 1")) {
            Some(of_section) => keys.extend(of_section.iter().map(|key| format!("{name}.{key}"))),
            None => keys.push(name),
        }
    }
    assert!(keys.len() > 25 && keys.contains(&"auth.nonce_lifetime_s".to_owned()), "{keys:?}");
    // A section that is not supported yet is named as such.
    let is_documented =
        |key: &str| guide.contains(&format!("| `{key}` |")) || guide.contains(&format!("`[{key}]`"));
    let missing: Vec<_> = keys.iter().filter(|key| !is_documented(key)).collect();
    assert!(missing.is_empty(), "not in docs/reference/configuration*.md: {missing:?}");
}

#[test]
fn an_empty_configuration_has_the_documented_defaults() {
    let config = Config::parse("", None).unwrap();
    assert_eq!(config.server.domains, ["localhost"]);
    let listen: Vec<_> = config.listen.iter().map(Listener::to_string).collect();
    assert_eq!(listen, ["udp:127.0.0.1:5060", "tcp:127.0.0.1:5060"]);
    assert_eq!(config.workers, 0);
    assert_eq!(config.store.url, StoreUrl::Sqlite("ringway.db".into()));
    assert_eq!(config.store.durability, Durability::Relaxed);
    assert!(config.server.auth.enabled && !config.server.auth.in_dialog);
    assert_eq!(config.server.auth.realms, "localhost".into());
    assert_eq!(config.server.auth.algorithms, [Algorithm::Md5]);
    assert_eq!(config.server.auth.nonce_lifetime, Duration::from_secs(300));
    let registrar = RegistrarConfig {
        min_expires_s: 60,
        default_expires_s: 3600,
        max_expires_s: 7200,
        max_contacts: 10,
        ..RegistrarConfig::default()
    };
    assert_eq!(config.server.registrar, registrar);
    let routing = ringway_server::Config {
        mode: Mode::Proxy,
        stateful: true,
        record_route: true,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        ..config.server.clone()
    };
    assert_eq!(config.server, routing);
    let Trunking { trunks, enum_zones, enum_networks, .. } = &config.server.trunking;
    assert!(trunks.is_empty() && enum_zones.is_empty() && enum_networks.is_empty());
    let limits = Limits {
        per_source_rate: 200,
        max_connections: 20_000,
        max_connections_per_source: 100,
        memory_mb: 0,
    };
    assert_eq!(config.limits, limits);
    assert_eq!(config.server.message_limits.message_bytes_max, 65_535);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8060");
    assert_eq!(config.log, Log { level: Level::Info, format: LogFormat::Text, steps: false });
}

#[test]
fn a_source_without_a_rate_limit_has_no_limit_of_connections_unless_one_is_set() {
    let per_source = |limits: &str| {
        Config::parse(&format!("[limits]\n{limits}"), None).unwrap().limits.max_connections_per_source
    };
    assert_eq!(per_source("per_source_rate = 0"), 0);
    assert_eq!(per_source("per_source_rate = 0\nmax_connections_per_source = 9"), 9);
    assert_eq!(per_source("per_source_rate = 1000"), 100);
}

#[test]
fn every_key_is_read() {
    let config = Config::parse(WHOLE, None).unwrap();
    assert_eq!(config.server.domains, ["example.org", "192.0.2.1", "[2001:db8::1]"]);
    assert_eq!(config.listen[1].transport, Transport::Tcp);
    assert_eq!(config.listen.len(), 4);
    assert_eq!(config.workers, 4);
    assert_eq!(config.store.url, StoreUrl::Sqlite("/var/lib/ringway.db".into()));
    assert_eq!(config.store.durability, Durability::Strict);
    let mut realms = Realms::from("somewhere else");
    assert!(realms.add("example.org", "its own".to_owned()));
    let auth = AuthConfig {
        enabled: false,
        realms,
        algorithms: vec![Algorithm::Md5, Algorithm::Sha256],
        nonce_lifetime: Duration::from_secs(30),
        digest: DigestPolicy { nonces: NoncePolicy::Once, auth_int: true, danger_rfc2069: true },
        in_dialog: true,
        strangers: Strangers::None,
        hide_users: true,
        stranger_refer: true,
        trusted: vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        fronts: vec!["192.0.2.9".parse().unwrap()],
        certificates: CertificateRules::default(),
    };
    assert_eq!(config.server.auth, auth);
    let registrar = RegistrarConfig {
        min_expires_s: 10,
        default_expires_s: 20,
        max_expires_s: 30,
        max_contacts: 3,
        outbound: false,
        gruu: true,
        flow_timer_s: 25,
        service_route: vec!["<sip:edge.example.org;lr>".into()],
    };
    assert_eq!(config.server.registrar, registrar);
    let routing = ringway_server::Config {
        mode: Mode::Redirect,
        stateful: false,
        record_route: false,
        serial_fork: Duration::from_secs(15),
        datagram_bytes_max: 4000,
        registrations_per_s: 7,
        recurse: false,
        edge_domains: vec!["example.net".into()],
        dialog_lifetime: Duration::from_secs(3600),
        inner_networks: vec!["10.0.0.0/8".parse().unwrap(), "192.0.2.7".parse().unwrap()],
        ..config.server.clone()
    };
    assert_eq!(config.server, routing);
    let Trunking { trunks, enum_zones, enum_networks, .. } = &config.server.trunking;
    assert!(trunks.is_empty() && enum_zones.is_empty() && enum_networks.is_empty());
    let limits =
        Limits { per_source_rate: 0, max_connections: 7, max_connections_per_source: 5, memory_mb: 512 };
    assert_eq!(config.limits, limits);
    assert_eq!(config.server.message_limits.message_bytes_max, 4000);
    assert_eq!(config.admin.token, "s3cret-s3cret-s3cret");
    assert_eq!(config.log, Log { level: Level::Debug, format: LogFormat::Json, steps: false });
}

/// Invalid text, line of the error, key, and a part of the remedy.
#[test]
fn each_invalid_value_has_an_error_with_line_key_and_remedy() {
    let table = [
        ("\ndomain = [\"a\"]", 2, "domain", "unknown key"),
        ("domains = []", 1, "domains", "give 1 to 1000"),
        ("domains = \"a\"", 1, "domains", "a list of strings"),
        ("domains = [\"a\", 3]", 1, "domains", "a string in quotes"),
        ("domains = [\"\"]", 1, "domains", "no domain"),
        ("domains = [\"exa mple\"]", 1, "domains", "no domain"),
        ("domains = [\"-a.org\"]", 1, "domains", "no domain"),
        ("domains = [\n \"a.org\",\n \"A.org\",\n]", 3, "domains", "twice"),
        ("listen = []", 1, "listen", "give 1 to 255"),
        ("listen = [\"udp:localhost:5060\"]", 1, "listen", "TRANSPORT:ADDRESS:PORT"),
        ("listen = [\"udp:127.0.0.1\"]", 1, "listen", "TRANSPORT:ADDRESS:PORT"),
        ("listen = [\"127.0.0.1:5060\"]", 1, "listen", "TRANSPORT:ADDRESS:PORT"),
        ("listen = [\"sctp:127.0.0.1:5060\"]", 1, "listen", "TRANSPORT:ADDRESS:PORT"),
        ("listen = [\"udp:127.0.0.1:99999\"]", 1, "listen", "TRANSPORT:ADDRESS:PORT"),
        ("listen = [\"udp:127.0.0.1:5060\", \"udp:127.0.0.1:5060\"]", 1, "listen", "twice"),
        ("listen = [\"tls:127.0.0.1:5061\"]", 1, "listen", "ringway cert init"),
        (
            "listen = [\n\"udp:127.0.0.1:5060\",\n\"sctp:127.0.0.1:80\"]",
            3,
            "listen",
            "TRANSPORT:ADDRESS:PORT",
        ),
        ("listen = [\"wss:127.0.0.1:443\"]", 1, "listen", "ringway cert init"),
        (
            "[websocket]\norigins = [\"phone.example.org\"]",
            2,
            "[websocket] origins",
            "https://phone.example.org",
        ),
        ("[media]\nrelay = \"all\"", 2, "[media] relay", "\"always\""),
        ("[media]\nrelay = \"nat\"", 2, "[media] relay", "rtpengine"),
        ("[media]\nbridge = true", 2, "[media] bridge", "rtpengine"),
        ("[media]\nsrtp = \"bridge\"", 2, "[media] srtp", "rtpengine"),
        ("[[dialing]]\nnormalise = { in = \"national\" }", 2, "[normalise] in", "country"),
        ("[[dialing]]\ndomain = \"b.org\"", 2, "[dialing] domain", "none of `domains`"),
        ("[[dialing]]\n[[dialing]]\ndomain = \"localhost\"", 3, "[dialing] domain", "has a section before"),
        ("[[dialing]]\nnormalise = { out = \"plain\" }", 1, "[dialing] normalise", "needs a [[trunk]]"),
        ("[[dialing]]\ninternational_prefix = \"+\"", 2, "[dialing] international_prefix", "digits"),
        ("[[media.interface]]\nnetworks = [\"192.0.2.1\"]", 1, "[media.interface] name", "is missing"),
        ("[[media.interface]]\nname = \"a/b\"", 2, "[media.interface] name", "1 to 64 letters"),
        (
            "[[media.interface]]\nname = \"a\"\n[[media.interface]]\nname = \"a\"",
            4,
            "[media.interface] name",
            "twice",
        ),
        (
            "[[media.interface]]\nname = \"a\"\nnetworks = [\"192.0.2.1\"]",
            1,
            "media.interface",
            "leaves addresses without an interface",
        ),
        (
            "[[media.interface]]\nname = \"a\"\n[[media.interface]]\nname = \"b\"",
            3,
            "media.interface",
            "put it last",
        ),
        ("[media]\nsrtp = \"always\"", 2, "[media] srtp", "\"bridge\""),
        ("[media]\nrelay = \"never\"\nbridge = true", 3, "[media] bridge", "rtpengine"),
        ("[media]\nrtpengine = [\"localhost\"]", 2, "[media] rtpengine", "127.0.0.1:2223"),
        ("[media]\nrtpengine = [\"127.0.0.1:0\"]", 2, "[media] rtpengine", "127.0.0.1:2223"),
        (
            "[media]\nrelay = \"nat\"\nrtpengine = [\"127.0.0.1:2223\"]\n[routing]\nstateful = false",
            2,
            "[media] relay",
            "stateful = true",
        ),
        ("[overload]\nenabled = 1", 2, "[overload] enabled", "true or false"),
        ("[overload]\ntarget_delay_ms = 0", 2, "[overload] target_delay_ms", "1"),
        ("[overload]\nmax_delay_ms = 9", 2, "[overload] max_delay_ms", "raise it"),
        ("[presence]\nenabled = 1", 2, "[presence] enabled", "true or false"),
        ("[presence]\nwatchers = \"all\"", 2, "[presence] watchers", "\"domain\""),
        ("[presence]\nmin_expires_s = 5", 2, "[presence] min_expires_s", "10"),
        ("[presence]\nmax_expires_s = 30", 2, "[presence] min_expires_s", "lower it"),
        ("[routing]\nmode = \"redirect\"\n[presence]\nenabled = true", 4, "[presence] enabled", "proxy"),
        ("[routing]\nmode = \"redirect\"\n[presence]\nmessages = true", 4, "[presence] messages", "proxy"),
        ("[presence]\nmessages = 7", 2, "[presence] messages", "true or false"),
        ("[presence]\nmessage_keep_days = 0", 2, "[presence] message_keep_days", "1"),
        ("[media]\non_failure = \"retry\"", 2, "[media] on_failure", "refuse"),
        ("[media]\ntime_limit_ms = 10", 2, "[media] time_limit_ms", "200"),
        ("[tls]\nclient_users = true", 2, "[tls] client_users", "client_auth"),
        ("[[neighbour]]\nname = \"a b\"", 2, "[neighbour] name", "1 to 64 letters"),
        ("[[neighbour]]\nname = \"a\"\n[[neighbour]]\nname = \"a\"", 4, "[neighbour] name", "of its own"),
        ("[[neighbour]]\nname = \"a\"\ncertificate = \"b\"", 3, "[neighbour] certificate", "client_auth"),
        (
            "[[neighbour]]\nname = \"a\"\ncertificate = \"192.0.2.1\"",
            3,
            "[neighbour] certificate",
            "not a domain",
        ),
        (
            "[[neighbour]]\nname = \"a\"\ncertificate = \"*.b.org\"",
            3,
            "[neighbour] certificate",
            "not a domain",
        ),
        ("[[neighbour]]\nname = \"a\"\nuri = \"sip:b.org\"", 3, "[neighbour] uri", "transport=tls"),
        (
            "[[neighbour]]\nname = \"a\"\nuri = \"sip:u@b.org;transport=tcp\"",
            3,
            "[neighbour] uri",
            "transport=tcp",
        ),
        (
            "[[neighbour]]\nname = \"a\"\nuri = \"sip:b.org;transport=tcp\"\nconnection = \"each\"",
            4,
            "[neighbour] connection",
            "per-call",
        ),
        (
            "[routing]\nstateful = false\n[[neighbour]]\nname = \"a\"\nuri = \"sip:b.org;transport=tcp\"\nconnection = \"per-call\"",
            6,
            "[neighbour] connection",
            "stateful = true",
        ),
        (
            "[[neighbour]]\nname = \"a\"\nconnection = \"per-call\"",
            3,
            "[neighbour] connection",
            "needs a uri",
        ),
        ("workers = 256", 1, "workers", "0 to 255"),
        ("workers = -1", 1, "workers", "0 to 255"),
        ("workers = \"2\"", 1, "workers", "whole number"),
        ("workers = 1.5", 1, "workers", "whole number"),
        ("store = 1", 1, "store", "[store]"),
        ("[store]\nurl = \"postgres://h\"", 2, "[store] url", "names no database"),
        ("[store]\ncopy = \"a.db\"", 2, "[store] copy", "postgres:// or mysql:// url"),
        ("[store]\nurl = \"postgres://u@192.0.2.1/d\"\nca = \"/nowhere\"", 3, "[store] ca", "cannot read"),
        (
            "[store]\nurl = \"postgres://u@192.0.2.1/d\"\ntls = \"maybe\"",
            3,
            "[store] tls",
            "\"required\" or \"none\"",
        ),
        ("[store]\nurl = \"mysql://u@localhost/d\"\nquery = \" \"", 3, "[store] query", "one statement"),
        (
            "[store]\nurl = \"mysql://u@localhost/d\"\nquery_changed = \"SELECT 1\"",
            3,
            "[store] query_changed",
            "goes with query",
        ),
        ("[store]\nquery = \"SELECT 1\"", 2, "[store] query", "postgres:// or mysql:// url"),
        ("[store]\nurl = \"mysql:///d\"", 2, "[store] url", "names no database"),
        (
            "[store]\nurl = \"mysql://u@localhost/d\"\npassword_file = \"/nowhere\"",
            3,
            "[store] password_file",
            "check the path",
        ),
        ("[store]\nurl = \"ringway.db\"", 2, "[store] url", "sqlite://FILE"),
        ("[store]\nurl = \"sqlite://\"", 2, "[store] url", "sqlite://FILE"),
        ("[store]\nwrite_back = true", 2, "[store] write_back", "postgres:// or mysql:// url"),
        ("[store]\ndanger_lookup = \"off\"", 2, "[store] danger_lookup", "postgres:// or mysql:// url"),
        (
            "[store]\nurl = \"mysql://u@localhost/d\"\ndanger_lookup = \"always\"",
            3,
            "[store] danger_lookup",
            "per-request",
        ),
        (
            "[store]\nurl = \"mysql://u@localhost/d\"\nquery = \"SELECT 1\"\ndanger_lookup = \"per-request\"",
            4,
            "[store] danger_lookup",
            "not those of query",
        ),
        ("[store]\ndurability = \"safe\"", 2, "[store] durability", "\"relaxed\" or \"strict\""),
        ("[store]\ndurable = true", 2, "[store] durable", "unknown key"),
        ("[location]\nurl = \"redis://h:x\"", 2, "[location] url", "not a host and port"),
        ("[location]\nca = \"ca.pem\"", 2, "[location] ca", "rediss://"),
        ("[location]\nhold = \"served\"", 2, "[location] hold", "redis://"),
        ("[location]\nurl = \"redis://h:1\"", 2, "[location] url", "[cluster]"),
        ("[location]\nurl = \"etcd://h:1\"", 2, "[location] url", "local:"),
        ("[auth]\nenabled = 1", 2, "[auth] enabled", "true or false"),
        ("[auth]\nrealm = \"\"", 2, "[auth] realm", "1 to 255"),
        ("[auth]\nrealm = \"a\\\"b\"", 2, "[auth] realm", "quotes"),
        ("[auth]\nrealm = \"a\\r\\nb\"", 2, "[auth] realm", "control"),
        ("[auth]\nnonce_use = \"twice\"", 2, "[auth] nonce_use", "\"count\" or \"once\""),
        ("[auth]\nauth_int = 1", 2, "[auth] auth_int", "true or false"),
        ("[auth]\ndanger_rfc2069 = \"yes\"", 2, "[auth] danger_rfc2069", "true or false"),
        ("[[auth.domain]]\nname = \"localhost\"", 1, "[auth] domain", "needs name and realm"),
        ("[[auth.domain]]\nname = \"a\"\nrealm = \"b\"", 2, "[auth] domain.name", "not among domains"),
        ("[[auth.domain]]\nname = \"localhost\"\nrealm = \"\"", 3, "[auth] domain.realm", "1 to 255"),
        (
            "[[auth.domain]]\nname = \"localhost\"\nrealm = \"a\"\n[[auth.domain]]\nname = \"Localhost\"\nrealm = \"b\"",
            5,
            "[auth] domain.name",
            "twice",
        ),
        ("[auth]\nalgorithms = []", 2, "[auth] algorithms", "empty"),
        ("[auth]\nalgorithms = [\"SHA-1\"]", 2, "[auth] algorithms", "SHA-256"),
        ("[auth]\nalgorithms = [\"MD5\", \"MD5\"]", 2, "[auth] algorithms", "twice"),
        ("[auth]\nnonce_lifetime_s = 0", 2, "[auth] nonce_lifetime_s", "1 to 86400"),
        ("[registrar]\nmin_expires_s = 0", 2, "[registrar] min_expires_s", "1 to"),
        ("[registrar]\nmin_expires_s = 4000", 2, "[registrar] min_expires_s", "min <= default <= max"),
        ("[registrar]\nmax_expires_s = 100", 2, "[registrar] max_expires_s", "min <= default <= max"),
        ("[registrar]\n\ndefault_expires_s = 9000", 3, "[registrar] default_expires_s", "min <= default"),
        ("[registrar]\nmax_contacts = 0", 2, "[registrar] max_contacts", "1 to 1000"),
        ("[registrar]\nflow_timer_s = 9", 2, "[registrar] flow_timer_s", "10 to 3600"),
        ("[registrar]\nservice_route = [\"sip:a\"]", 2, "[registrar] service_route", "<sip:edge"),
        ("[registrar]\nservice_route = [\"<sip:a>\"]", 2, "[registrar] service_route", "<sip:edge"),
        (
            "[registrar]\nservice_route = [\"<sip:a;lr>\\r\\nX: y\"]",
            2,
            "[registrar] service_route",
            "<sip:edge",
        ),
        ("[auth]\nstrangers = \"some\"", 2, "[auth] strangers", "\"call\""),
        ("[auth]\ntrusted = [\"192.0.2.1/24\"]", 2, "[auth] trusted", "not a network"),
        ("[auth]\ntrusted = [\"10.0.0.1/8\"]", 2, "[auth] trusted", "write \"10.0.0.0/8\""),
        ("[auth]\ntrusted = [\"2001:db8::1/32\"]", 2, "[auth] trusted", "write \"2001:db8::/32\""),
        ("[routing]\ndialog_lifetime_s = 1", 2, "[routing] dialog_lifetime_s", "60 to"),
        ("[routing]\nmode = \"b2bua\"", 2, "[routing] mode", "\"proxy\" or \"redirect\""),
        ("[routing]\nenum = [\"a b\"]", 2, "[routing] enum", "no domain"),
        ("[routing]\nenum_networks = [\"ten\"]", 2, "[routing] enum_networks", "not a network"),
        ("[routing]\nenum = [\"192.0.2.1\"]", 2, "[routing] enum", "e164.arpa"),
        ("[routing]\nenum = [\"a\", \"A\"]", 2, "[routing] enum", "twice"),
        ("[routing]\nenum = [\"a\", \"b\", \"c\", \"d\", \"e\"]", 2, "[routing] enum", "at most 4"),
        ("[routing]\nstateful = false\nenum = [\"a\"]", 3, "[routing] enum", "stateful = true"),
        ("[routing]\nmode = \"redirect\"\nenum = [\"a\"]", 3, "[routing] enum", "proxy"),
        ("[routing]\ninner_networks = [\"127.0.0.0/8\"]", 2, "[routing] inner_networks", "is loopback"),
        ("[routing]\ninner_networks = [\"10.0.0.1/8\"]", 2, "[routing] inner_networks", "10.0.0.0/8"),
        ("[routing]\nedge_domains = [\"a b\"]", 2, "[routing] edge_domains", "no domain"),
        ("[routing]\nedge_domains = [\"a\", \"A\"]", 2, "[routing] edge_domains", "twice"),
        ("[routing]\nedge_nodes = [\"sip:192.0.2.1\"]", 2, "[routing] edge_nodes", "needs edge_domains"),
        (
            "[routing]\nedge_domains = [\"a\"]\nedge_nodes = [\"sip:a.org\"]",
            3,
            "[routing] edge_nodes",
            "with an address",
        ),
        (
            "[routing]\nedge_domains = [\"a\"]\nedge_nodes = [\"sip:a@192.0.2.1\"]",
            3,
            "[routing] edge_nodes",
            "without a user",
        ),
        (
            "[routing]\nedge_domains = [\"a\"]\nedge_nodes = [\"sip:192.0.2.1\", \"sip:192.0.2.1\"]",
            3,
            "[routing] edge_nodes",
            "twice",
        ),
        ("[routing]\nstateful = \"yes\"", 2, "[routing] stateful", "true or false"),
        ("[limits]\nmax_message_bytes = 65536", 2, "[limits] max_message_bytes", "1300 to 65535"),
        ("[limits]\nmax_message_bytes = 10", 2, "[limits] max_message_bytes", "1300 to 65535"),
        ("[limits]\nmax_connections = 0", 2, "[limits] max_connections", "1 to"),
        ("[limits]\nmax_connections_per_source = -1", 2, "[limits] max_connections_per_source", "0 to"),
        ("[limits]\nper_source_rate = 99999999999999999999", 2, "[limits] per_source_rate", "0 to"),
        ("[limits]\nmemory_mb = 15", 2, "[limits] memory_mb", "give 16 or more"),
        ("[[advertise]]\nlisten = \"udp:127.0.0.1:5060\"", 1, "[advertise] address", "is missing"),
        ("[[advertise]]\naddress = \"a b\"", 2, "[advertise] address", "HOST or HOST:PORT"),
        ("[[advertise]]\naddress = \"0.0.0.0\"", 2, "[advertise] address", "no peer can send to"),
        (
            "[[advertise]]\naddress = \"203.0.113.1\"\nlisten = \"udp:0.0.0.0:5060\"",
            3,
            "[advertise] listen",
            "write one as it is there: \"udp:127.0.0.1:5060\"",
        ),
        ("[[advertise]]\naddress = \"auto\"", 2, "[advertise] address", "needs `stun`"),
        (
            "[[advertise]]\naddress = \"203.0.113.1\"\nstun = \"192.0.2.7\"",
            3,
            "[advertise] stun",
            "is for address = \"auto\"",
        ),
        (
            "[[advertise]]\naddress = \"203.0.113.1\"\nnetworks = []",
            3,
            "[advertise] networks",
            "the list is empty",
        ),
        ("[[proxy_protocol]]\nnetworks = [\"192.0.2.7\"]", 1, "[proxy_protocol] listen", "is missing"),
        (
            "[[proxy_protocol]]\nlisten = \"tcp:127.0.0.1:5060\"",
            1,
            "[proxy_protocol] networks",
            "names no proxy",
        ),
        (
            "[[proxy_protocol]]\nlisten = \"tcp:127.0.0.1:5060\"\nnetworks = []",
            3,
            "[proxy_protocol] networks",
            "give the addresses of your proxies",
        ),
        (
            "[[proxy_protocol]]\nlisten = \"udp:127.0.0.1:5060\"\nnetworks = [\"192.0.2.7\"]",
            2,
            "[proxy_protocol] listen",
            "name a tcp, tls, ws or wss listener",
        ),
        (
            "[[proxy_protocol]]\nlisten = \"tcp:0.0.0.0:5060\"\nnetworks = [\"192.0.2.7\"]",
            2,
            "[proxy_protocol] listen",
            "write one as it is there: \"udp:127.0.0.1:5060\", \"tcp:127.0.0.1:5060\"",
        ),
        (
            "[[proxy_protocol]]\nlisten = \"tcp:127.0.0.1:5060\"\nnetworks = [\"192.0.2.7\"]\n\
             [[proxy_protocol]]\nlisten = \"tcp:127.0.0.1:5060\"\nnetworks = [\"192.0.2.8\"]",
            5,
            "[proxy_protocol] listen",
            "in one section",
        ),
        ("dscp = \"cs8\"", 1, "dscp", "cs0 to cs7"),
        ("dscp = 64", 1, "dscp", "a number from 0 to 63"),
        ("dscp = true", 1, "dscp", "a string"),
        ("[admin]\nlisten = \"8060\"", 2, "[admin] listen", "ADDRESS:PORT"),
        ("[admin]\nlisten = \"0.0.0.0:8060\"", 2, "[admin] listen", "token"),
        ("[admin]\nlisten = \"[::]:8060\"\ntoken = \"\"", 2, "[admin] listen", "token"),
        ("[admin]\ntoken = \"a b\"", 2, "[admin] token", "visible"),
        ("[log]\nlevel = \"loud\"", 2, "[log] level", "\"debug\""),
        ("[log]\nformat = \"xml\"", 2, "[log] format", "\"text\" or \"json\""),
        ("\n\n[tls]\ncertificate = \"c.pem\"", 3, "[tls] private_key", "given together"),
        ("[tls]\nclient_auth = \"required\"", 1, "[tls] client_ca", "authorities of the clients"),
        ("domains = [\"a.org\"]\n[tls.acme]", 2, "[tls.acme] accept_terms", "read the terms"),
        (
            "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = false",
            3,
            "[tls.acme] accept_terms",
            "read the terms",
        ),
        (
            "[tls.acme]\naccept_terms = true",
            1,
            "[tls.acme] domains",
            "none of the server's domains is a host name",
        ),
        (
            "[tls.acme]\naccept_terms = true\ndomains = [\"a.org\",\n\"192.0.2.1\"]",
            4,
            "[tls.acme] domains",
            "is an address",
        ),
        (
            "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = true\ncontact = \"a@b.org\"",
            4,
            "[tls.acme] contact",
            "mailto:",
        ),
        (
            "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = true\ndirectory = \"http://ca.org/\"",
            4,
            "[tls.acme] directory",
            "https:",
        ),
        (
            "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = true\nchallenge = \"dns-01\"",
            4,
            "[tls.acme] challenge",
            "\"http-01\" or \"tls-alpn-01\"",
        ),
        (
            "domains = [\"a.org\"]\nlisten = [\"tls:127.0.0.1:5061\"]\n[tls.acme]\naccept_terms = true\nchallenge = \"tls-alpn-01\"",
            5,
            "[tls.acme] challenge",
            "with port 443",
        ),
        (
            "domains = [\"a.org\"]\nlisten = [\"ws:127.0.0.1:80\"]\n[tls.acme]\naccept_terms = true",
            3,
            "[tls.acme] http_listen",
            "is used by the listener",
        ),
        (
            "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = true\nhttp_listen = \"80\"",
            4,
            "[tls.acme] http_listen",
            "ADDRESS:PORT",
        ),
        (
            "domains = [\"a.org\"]\n[tls]\ncertificate = \"c\"\nprivate_key = \"k\"\n[tls.acme]\naccept_terms = true",
            3,
            "[tls] certificate",
            "cannot be given with [tls.acme]",
        ),
        ("[tls]\nbackend = \"openssl\"", 2, "[tls] backend", BACKEND_REFUSED),
        ("[tls]\nbackend = \"opensl\"", 2, "[tls] backend", "\"rustls\" or \"openssl\""),
        (
            "[tls]\ncipher_suites = [\"ECDHE-RSA-AES128-GCM-SHA256\",\n\"DES-CBC3-SHA\"]",
            3,
            "[tls] cipher_suites",
            "backend = \"openssl\" and danger_legacy = true",
        ),
        (
            "[tls]\ncipher_suites = [\"ECDHE-RSA-AES128-GCM-SHA25\"]",
            2,
            "[tls] cipher_suites",
            "did you mean \"ECDHE-RSA-AES128-GCM-SHA256\"",
        ),
        ("[tls]\ncipher_suites = [\"AES\"]", 2, "[tls] cipher_suites", "IANA or OpenSSL"),
        (
            "[tls]\ncipher_suites = [\"AES128-SHA\"]\ndanger_legacy = true",
            2,
            "[tls] cipher_suites",
            "legacy cipher suite",
        ),
        (
            "[tls]\ncipher_suites = [\"TLS_AES_128_GCM_SHA256\",\n\"TLS_AES_128_GCM_SHA256\"]",
            3,
            "[tls] cipher_suites",
            "twice",
        ),
        ("[tls]\nsession_timeout_s = 0", 2, "[tls] session_timeout_s", "1 to 604800"),
        ("[[tls.domain]]\nname = \"a\"", 1, "[tls] domain", "needs name"),
        ("[database]\nurl = 1", 1, "[database]", "unknown key"),
        ("domains = [\"a\"]\nworkers = \n", 2, "not TOML", "correct the line"),
        ("workers = 1\nworkers = 2", 2, "not TOML", "correct the line"),
    ];
    for (text, line, key, advice) in table {
        let errors = errors(text);
        assert_eq!(errors.len(), 1, "{text:?}: {errors:?}");
        let start = format!("ringway.toml:{line}: {key}:");
        assert!(errors[0].starts_with(&start), "{text:?}: {}", errors[0]);
        assert!(errors[0].contains(advice), "{text:?}: {}", errors[0]);
        assert!(!errors[0].contains('\n'), "{text:?}");
    }
}

#[cfg(feature = "legacy-tls")]
#[test]
fn names_in_certificates_need_rustls() {
    let openssl = "[tls]\nbackend = \"openssl\"\ndanger_legacy = true\nclient_auth = \"optional\"\nclient_ca = \"ca.pem\"\n";
    let neighbour = "[[neighbour]]\nname = \"a\"\ncertificate = \"b.example\"";
    for (more, start) in [
        ("client_users = true", "ringway.toml:6: [tls] client_users: needs backend"),
        (neighbour, "ringway.toml:8: [neighbour] certificate: needs backend"),
    ] {
        let errors = errors(&format!("{openssl}{more}"));
        assert!(errors.len() == 1 && errors[0].starts_with(start), "{errors:?}");
    }
    assert!(errors(openssl).is_empty());
}

#[test]
fn errors_are_sorted_by_line() {
    let errors = errors("workers = 300\n[tls]\nx = 1\n[log]\nlevel = 1\n[auth]\nx = 1\n");
    let lines: Vec<_> = errors.iter().map(|error| error.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["1", "3", "5", "7"], "{errors:?}");
}

#[test]
fn loopback_needs_no_token_also_as_ipv6_or_mapped_address() {
    assert!(errors("[admin]\nlisten = \"[::1]:8060\"").is_empty());
    assert!(errors("[admin]\nlisten = \"[::ffff:127.0.0.1]:8060\"").is_empty());
    assert_eq!(errors("[admin]\nlisten = \"[::ffff:192.0.2.1]:8060\"").len(), 1);
    assert!(errors("[admin]\nlisten = \"127.0.0.1:0\"").is_empty());
}

#[test]
fn every_key_is_in_the_difference_of_two_configurations() {
    let empty = Config::parse("", None).unwrap();
    let keys: Vec<&str> = empty.keys.iter().collect();
    for name in known_keys("no_key = 1").unwrap() {
        // The keys of a list of sections are there once the list has one: see the next test. So are those of a section in a section.
        let of_section = known_keys(&format!("[{name}]\nno_key = 1")).unwrap_or_default();
        let of_section = of_section.iter().map(|key| format!("{name}.{key}"));
        for key in of_section.filter(|key| {
            !["auth.domain", "emergency.site", "media.interface", "tls.acme", "tls.domain"]
                .contains(&key.as_str())
        }) {
            assert!(keys.contains(&key.as_str()), "{key} is not in {keys:?}");
        }
    }
    assert!(keys.len() > 40, "{keys:?}");
}

/// Key and the line for it in the difference from the default to `text`.
#[test]
fn the_difference_has_the_changed_keys_with_both_values_and_no_secrets() {
    let lines = |old: &str, new: &str| -> Vec<String> {
        let [old, new] = [old, new].map(|text| Config::parse(text, None).unwrap().keys);
        old.changes_to(&new).iter().map(KeyChange::to_string).collect()
    };
    let all = lines("", WHOLE);
    for line in [
        "workers: 0 → 4",
        "domains: [\"localhost\"] → [\"Example.org\", \"192.0.2.1\", \"[2001:db8::1]\"]",
        "store.url: \"sqlite://ringway.db\" → \"sqlite:///var/lib/ringway.db\"",
        "auth.realm: \"localhost\" → \"somewhere else\"",
        "auth.algorithms: [\"MD5\"] → [\"MD5\", \"SHA-256\"]",
        "auth.trusted: [] → [\"192.0.2.0/24\", \"2001:db8::1\"]",
        "routing.mode: \"proxy\" → \"redirect\"",
        "limits.max_connections_per_source: 100 → 5",
        "admin.token: unset → (secret)",
        "admin.listen: \"127.0.0.1:8060\" → \"0.0.0.0:8060\"",
        "log.level: \"info\" → \"debug\"",
    ] {
        assert!(all.iter().any(|found| found == line), "{line} is not in {all:#?}");
    }
    assert!(!all.concat().contains("s3cret"), "{all:#?}");
    assert!(lines(WHOLE, WHOLE).is_empty());
    assert!(
        lines("", "workers = 0\n[auth]\nnonce_lifetime_s = 3_00\n[tls]\npeer_ca = \"system\"").is_empty()
    );
    assert_eq!(lines("[admin]\ntoken = \"a\"", "[admin]\ntoken = \"b\""), ["admin.token: changed"]);
    let neighbour = "[[neighbour]]\nname = \"gate\"\nuri = \"sip:b.org;transport=tcp\"\n";
    assert_eq!(
        lines(neighbour, &format!("{neighbour}health_check_s = 5")),
        ["neighbour.gate.health_check_s: 30 → 5"]
    );
    assert!(
        lines(neighbour, "").contains(&"neighbour.gate.uri: \"sip:b.org;transport=tcp\" → unset".to_owned())
    );
    // A long list is cut.
    let long =
        format!("domains = [{}]", (0..500).map(|n| format!("\"d{n}.org\"")).collect::<Vec<_>>().join(", "));
    assert!(lines("", &long).iter().all(|line| line.chars().count() < 300));
}

#[test]
fn passwords_that_are_read_while_requests_wait_have_a_warning() {
    for (word, has_warning) in [("off", false), ("per-request", true)] {
        let text = format!("[store]\nurl = \"mysql://u@localhost/d\"\ndanger_lookup = \"{word}\"");
        let config = Config::parse(&text, None).unwrap();
        assert_eq!(config.store.danger_lookup, has_warning);
        let warnings = config.warnings().join("\n");
        assert_eq!(warnings.contains("PASSWORDS ARE READ FROM THE DATABASE"), has_warning, "{warnings}");
    }
}

#[test]
fn a_token_that_other_machines_can_try_has_sixteen_characters() {
    let admin = |listen: &str, token: &str| {
        Config::parse(&format!("[admin]\nlisten = \"{listen}:8060\"\ntoken = \"{token}\""), None)
    };
    for token in ["x", "012345678abcdef"] {
        for listen in ["0.0.0.0", "192.0.2.1", "[::]"] {
            let errors = admin(listen, token).unwrap_err();
            let said = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(said.contains("3: [admin] token: is shorter than 16 characters"), "{said}");
            assert!(
                said.contains("openssl rand -hex 16") && !said.contains(&format!("\"{token}\"")),
                "{said}"
            );
        }
        // A configuration of a server that only this machine reaches still starts.
        let warnings = admin("127.0.0.1", token).unwrap().warnings().join("\n");
        assert!(warnings.contains("[admin] token: it is shorter than 16 characters"), "{warnings}");
    }
    for listen in ["0.0.0.0", "127.0.0.1"] {
        let warnings = admin(listen, "0123456789abcdef").unwrap().warnings().join("\n");
        assert!(!warnings.contains("shorter"), "{warnings}");
    }
    assert!(admin("127.0.0.1", "").unwrap().warnings().is_empty());
}

#[test]
fn registrations_are_written_into_a_database_only_where_it_is_configured() {
    for (line, is_on) in [("", false), ("write_back = true", true), ("write_back = false", false)] {
        let text = format!("[store]\nurl = \"postgres://u@localhost/d\"\n{line}");
        assert_eq!(Config::parse(&text, None).unwrap().store.write_back, is_on, "{line}");
    }
}

#[test]
fn nodes_are_trunks_with_health_checks_that_no_route_leads_to() {
    let with_nodes = |count: u8, rest: &str| {
        let nodes: Vec<_> = (0..count).map(|number| format!("\"sip:192.0.2.{number}:5060\"")).collect();
        let nodes = nodes.join(", ");
        format!(
            "[routing]\nedge_domains = [\"a.org\"]\nedge_nodes = [{nodes}]\n[[trunk]]\nname = \"t\"\nuri = \"sip:b.org\"\n{rest}"
        )
    };
    let config = Config::parse(&with_nodes(2, ""), None).unwrap();
    let are_nodes: Vec<_> = config.server.trunking.trunks.iter().map(|trunk| trunk.is_node).collect();
    assert_eq!(are_nodes, [false, true, true]);
    assert_eq!(config.server.neighbours.len(), 3);
    let route = "[[route]]\nprefix = \"+\"\nto = [\"sip\"]";
    assert!(errors(&with_nodes(2, route)).concat().contains("no [[trunk]]"));
    assert!(errors(&with_nodes(64, "")).is_empty());
    assert!(errors(&with_nodes(65, "")).concat().contains("at most 64"));
    let neighbour = "[[neighbour]]\nname = \"n\"\nuri = \"sip:c.org;transport=tcp\"\n";
    assert!(errors(&with_nodes(63, neighbour)).is_empty());
    assert!(errors(&with_nodes(64, neighbour)).concat().contains("at most 64"));
}

#[test]
fn messages_that_a_restart_loses_have_a_warning() {
    for (url, has_warning) in [("memory:", true), ("sqlite://r.db", false)] {
        for is_on in [true, false] {
            let text = format!("[store]\nurl = \"{url}\"\n[presence]\nmessages = {is_on}");
            let warnings = Config::parse(&text, None).unwrap().warnings().join("\n");
            let warning = "[presence] messages with the store \"memory:\"";
            assert_eq!(warnings.contains(warning), has_warning && is_on, "{warnings}");
        }
    }
}

#[test]
fn proxies_in_front_and_the_mark_of_packets_are_read() {
    let of = |networks: &str| {
        let text = format!(
            "listen = [\"udp:0.0.0.0:5060\", \"tcp:0.0.0.0:5060\", \"ws:[::]:80\"]\ndscp = \"cs3\"\n\
             [[proxy_protocol]]\nlisten = \"tcp:0.0.0.0:5060\"\nnetworks = [\"192.0.2.7\"]\n\
             [[proxy_protocol]]\nlisten = \"ws:[::]:80\"\nnetworks = [{networks}]\n"
        );
        Config::parse(&text, None).unwrap()
    };
    let config = of("\"2001:db8::/64\", \"192.0.2.7\"");
    let read: Vec<(String, usize)> =
        config.proxied.iter().map(|of| (of.listener.to_string(), of.networks.len())).collect();
    assert_eq!(read, [("tcp:0.0.0.0:5060".to_owned(), 1), ("ws:[::]:80".to_owned(), 2)]);
    assert_eq!(config.dscp.number(), 24);
    assert!(!config.warnings().join("\n").contains("proxy_protocol"));
    let warnings = of("\"::/0\"").warnings().join("\n");
    assert!(warnings.contains("::/0 contains every address: anyone who reaches ws:[::]:80"), "{warnings}");
    for text in ["dscp = 46", "dscp = \"46\"", "dscp = \"EF\""] {
        assert_eq!(Config::parse(text, None).unwrap().dscp.number(), 46, "{text}");
    }
    assert_eq!(Config::parse("dscp = \"none\"", None).unwrap(), {
        let keys = Config::parse("dscp = \"none\"", None).unwrap().keys;
        Config { keys, ..Config::parse("", None).unwrap() }
    });
}

#[test]
fn a_certificate_by_acme_is_for_host_names_and_takes_the_site_of_files() {
    let text = "domains = [\"Example.org\", \"192.0.2.1\", \"localhost\"]\nlisten = [\"wss:0.0.0.0:8443\"]\n[tls.acme]\n\
                accept_terms = true\nchallenge = \"tls-alpn-01\"\ntls_port = 8443\nfolder = \"/a\"\nca = \"ca.pem\"\n";
    let config = Config::parse(text, None).unwrap();
    let acme = config.acme.as_ref().unwrap();
    assert_eq!(acme.domains, ["example.org"]);
    assert_eq!((acme.challenge, acme.ca.as_deref()), (ChallengeKind::TlsAlpn01, Some(Path::new("ca.pem"))));
    let file = Path::new("/a/certificate.pem").to_owned();
    assert_eq!(config.tls.certificate, Some((file.clone(), file)));
    let warnings = config.warnings();
    let has = |text: &str| warnings.iter().any(|warning| warning.contains(text));
    assert!(has("192.0.2.1") && has("is an address") && has("\"localhost\" is no host name"), "{warnings:?}");
    let forwarded = "domains = [\"a.org\"]\n[tls.acme]\naccept_terms = true\nhttp_listen = \"[::]:8080\"\n";
    let config = Config::parse(forwarded, None).unwrap();
    assert!(config.warnings().iter().any(|warning| warning.contains("forward it to port 8080")));
    assert_eq!(Config::parse("", None).unwrap().acme, None);
}
