//! Settings of a machine without an operating system: from words, from a file, from both; and those that are rejected.
//!
//! Tested: defaults, every key and every word, which source wins, faults and their messages, the server's settings.

use crate::{Addressing, Limits, MachineSettings};
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed, Transport};
use ringway_server::{Algorithm, Mode, RegistrarConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const WHOLE: &str = r#"
domains = ["Example.org", "192.0.2.10"]
listen = ["udp:5060", "tcp:0.0.0.0:5062"]
[network]
address = "192.0.2.10/24"
gateway = "192.0.2.1"
dns = ["192.0.2.2", "198.51.100.3"]
[users]
tftp = "192.0.2.4"
file = "users.csv"
[auth]
enabled = false
realm = "somewhere else"
algorithms = ["SHA-256", "MD5"]
nonce_lifetime_s = 30
in_dialog = true
[registrar]
min_expires_s = 10
default_expires_s = 20
max_expires_s = 30
max_contacts = 3
[routing]
mode = "redirect"
stateful = false
record_route = false
[limits]
per_source_rate = 0
max_message_bytes = 4000
max_connections = 7
"#;

fn of_file(text: &str) -> MachineSettings {
    MachineSettings::read("", Some(("ringway.toml", text))).unwrap()
}

fn of_words(words: &str) -> MachineSettings {
    MachineSettings::read(words, None).unwrap()
}

fn errors(words: &str, text: &str) -> Vec<String> {
    match MachineSettings::read(words, Some(("ringway.toml", text))) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn listens_on(settings: &MachineSettings) -> Vec<String> {
    settings.listen.iter().map(ToString::to_string).collect()
}

fn fixed(bits: u8) -> Addressing {
    Addressing::Fixed {
        address: Ipv4Addr::new(192, 0, 2, 10),
        prefix_bits: bits,
        gateway: None,
        name_servers: Vec::new(),
    }
}

#[test]
fn nothing_said_is_dhcp_authentication_and_no_files() {
    let settings = of_words("");
    assert_eq!(settings, MachineSettings::default());
    assert_eq!(of_file(""), settings);
    assert_eq!(settings.addressing, Addressing::Dhcp);
    assert_eq!((&settings.config_file, &settings.users_file, settings.tftp), (&None, &None, None));
    assert_eq!((settings.domain(), settings.server.auth.realms.general()), ("localhost", "localhost"));
    assert_eq!(listens_on(&settings), ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5060"]);
    assert!(settings.server.auth.enabled);
    let routing = ringway_server::Config {
        mode: Mode::Proxy,
        stateful: true,
        record_route: true,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        trunking: Default::default(),
        ..settings.server.clone()
    };
    assert_eq!(settings.server, routing);
    let limits =
        Limits { per_source_rate: 200, max_connections: 256, max_connections_per_source: 0, memory_mb: 0 };
    assert_eq!(settings.limits, limits);
    assert_eq!(settings.server.message_limits.message_bytes_max, 65_535);
}

#[test]
fn every_key_is_read() {
    let settings = of_file(WHOLE);
    let addressing = Addressing::Fixed {
        address: Ipv4Addr::new(192, 0, 2, 10),
        prefix_bits: 24,
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
        name_servers: vec![Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(198, 51, 100, 3)],
    };
    assert_eq!(settings.addressing, addressing);
    assert_eq!(settings.server.domains, ["example.org", "192.0.2.10"]);
    assert_eq!(listens_on(&settings), ["udp:0.0.0.0:5060", "tcp:0.0.0.0:5062"]);
    assert_eq!(settings.tftp, Some(Ipv4Addr::new(192, 0, 2, 4)));
    assert_eq!(settings.users_file.as_deref(), Some("users.csv"));
    assert_eq!(settings.server.auth.algorithms, [Algorithm::Sha256, Algorithm::Md5]);
    assert_eq!((settings.server.auth.enabled, settings.server.auth.in_dialog), (false, true));
    assert_eq!(
        (settings.server.auth.realms.general(), settings.server.auth.nonce_lifetime.as_secs()),
        ("somewhere else", 30)
    );
    let registrar = RegistrarConfig {
        min_expires_s: 10,
        default_expires_s: 20,
        max_expires_s: 30,
        max_contacts: 3,
        ..RegistrarConfig::default()
    };
    assert_eq!(settings.server.registrar, registrar);
    let routing = ringway_server::Config {
        mode: Mode::Redirect,
        stateful: false,
        record_route: false,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        trunking: Default::default(),
        ..settings.server.clone()
    };
    assert_eq!(settings.server, routing);
    assert_eq!(settings.server.message_limits.message_bytes_max, 4000);
    assert_eq!(
        settings.limits,
        Limits { per_source_rate: 0, max_connections: 7, max_connections_per_source: 0, memory_mb: 0 }
    );
}

#[test]
fn every_word_is_read() {
    let settings = of_words(
        "ip=192.0.2.10/24 gateway=192.0.2.1 dns=192.0.2.2,192.0.2.3 tftp=192.0.2.4 users=lists/users.csv \
         config=ringway.toml domains=Example.org,example.com mode=redirect stateful=off record_route=off auth=off \
         realm=\"somewhere else\" algorithms=SHA-256,MD5 udp=5070 tcp=5071 tls=5072",
    );
    let addressing = Addressing::Fixed {
        address: Ipv4Addr::new(192, 0, 2, 10),
        prefix_bits: 24,
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
        name_servers: vec![Ipv4Addr::new(192, 0, 2, 2), Ipv4Addr::new(192, 0, 2, 3)],
    };
    assert_eq!(settings.addressing, addressing);
    assert_eq!(settings.tftp, Some(Ipv4Addr::new(192, 0, 2, 4)));
    assert_eq!(settings.users_file.as_deref(), Some("lists/users.csv"));
    assert_eq!(settings.config_file.as_deref(), Some("ringway.toml"));
    assert_eq!(settings.server.domains, ["example.org", "example.com"]);
    let routing = ringway_server::Config {
        mode: Mode::Redirect,
        stateful: false,
        record_route: false,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        trunking: Default::default(),
        ..settings.server.clone()
    };
    assert_eq!(settings.server, routing);
    assert!(!settings.server.auth.enabled);
    assert_eq!(settings.server.auth.realms.general(), "somewhere else");
    assert_eq!(settings.server.auth.algorithms, [Algorithm::Sha256, Algorithm::Md5]);
    assert_eq!(listens_on(&settings), ["udp:0.0.0.0:5070", "tcp:0.0.0.0:5071", "tls:0.0.0.0:5072"]);
    assert!(settings.passed_over.is_empty());
}

#[test]
fn the_words_win_over_the_file() {
    let read = |words| MachineSettings::read(words, Some(("ringway.toml", WHOLE))).unwrap();
    // `ip=` brings its own gateway and name servers, or none.
    assert_eq!(read("ip=dhcp").addressing, Addressing::Dhcp);
    assert_eq!(read("ip=192.0.2.10/28").addressing, fixed(28));
    assert_eq!(read("tftp=192.0.2.9").tftp, Some(Ipv4Addr::new(192, 0, 2, 9)));
    assert_eq!(read("users=none").users_file, None);
    assert_eq!(read("users=other.csv").users_file.as_deref(), Some("other.csv"));
    assert_eq!(read("domains=example.net").server.domains, ["example.net"]);
    assert_eq!(read("domains=example.net").server.auth.realms.general(), "somewhere else");
    let routing = ringway_server::Config {
        mode: Mode::Proxy,
        stateful: false,
        record_route: false,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        trunking: Default::default(),
        ..read("mode=proxy").server.clone()
    };
    assert_eq!(read("mode=proxy").server, routing);
    assert!(read("auth=on").server.auth.enabled);
    assert_eq!(read("algorithms=MD5").server.auth.algorithms, [Algorithm::Md5]);
    assert_eq!(listens_on(&read("tcp=off")), ["udp:0.0.0.0:5060"]);
    assert_eq!(listens_on(&read("udp=5099")), ["tcp:0.0.0.0:5062", "udp:0.0.0.0:5099"]);
    assert_eq!(read("config=other.toml").config_file.as_deref(), Some("other.toml"));
    assert_eq!(read("").addressing, of_file(WHOLE).addressing);
}

#[test]
fn without_a_realm_the_first_domain_is_it_wherever_it_is_said() {
    assert_eq!(of_words("domains=example.org").server.auth.realms.general(), "example.org");
    let text = "domains = [\"example.org\"]";
    assert_eq!(of_file(text).server.auth.realms.general(), "example.org");
    let both = MachineSettings::read("domains=example.net", Some(("ringway.toml", text))).unwrap();
    assert_eq!(both.server.auth.realms.general(), "example.net");
}

#[test]
fn words_that_are_not_ours_are_passed_over_and_listed() {
    let settings =
        of_words("BOOT_IMAGE=/boot/ringway-metal.elf  quiet\tdomain=example.org provoke=null auth=off");
    assert_eq!(
        settings.passed_over,
        ["BOOT_IMAGE=/boot/ringway-metal.elf", "quiet", "domain=example.org", "provoke=null"]
    );
    assert!(!settings.server.auth.enabled);
    assert_eq!(of_words("a\u{7}b \"c\" --").passed_over, ["a", "b", "c", "--"]);
}

#[test]
fn a_wrong_word_is_named_with_what_to_give() {
    for (words, error) in [
        ("ip=", "ip=: \"\" is no address with a prefix; give ip=dhcp or ip=192.0.2.10/24"),
        ("ip", "ip: \"\" is no address with a prefix; give ip=dhcp or ip=192.0.2.10/24"),
        (
            "ip=192.0.2.10",
            "ip=192.0.2.10: \"192.0.2.10\" is no address with a prefix; give ip=dhcp or ip=192.0.2.10/24",
        ),
        (
            "ip=192.0.2.10/+24",
            "ip=192.0.2.10/+24: \"192.0.2.10/+24\" is no address with a prefix; give ip=dhcp or ip=192.0.2.10/24",
        ),
        (
            "ip=192.0.2.0/24",
            "ip=192.0.2.0/24: \"192.0.2.0/24\" is an address that no machine can have; give ip=dhcp or ip=192.0.2.10/24",
        ),
        (
            "gateway=192.0.2.1",
            "gateway: belongs to a fixed address, and by DHCP the network says it; give a fixed address, or take it out",
        ),
        (
            "dns=192.0.2.1 ip=dhcp",
            "dns: belongs to a fixed address, and by DHCP the network says it; give a fixed address, or take it out",
        ),
        (
            "ip=192.0.2.10/24 gateway=198.51.100.1",
            "gateway: 198.51.100.1 is no other machine of the network 192.0.2.0/24; give the gateway's address there",
        ),
        ("dns=a ip=192.0.2.10/24", "dns=a: \"a\" is no address of a machine; give dns=192.0.2.1,192.0.2.2"),
        (
            "dns=192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4 ip=192.0.2.10/24",
            "dns: there are 4 name servers; give at most 3",
        ),
        ("tftp=224.0.0.1", "tftp=224.0.0.1: \"224.0.0.1\" is no address of a machine; give tftp=192.0.2.1"),
        (
            "users=",
            "users=: \"\" is no name of a file, which has 1 to 255 bytes without control characters; give users=users.csv or users=none",
        ),
        (
            "config",
            "config: \"\" is no name of a file, which has 1 to 255 bytes without control characters; give config=ringway.toml or config=none",
        ),
        ("domains=a,,b", "domains=a,,b: \"\" is no domain; give domains=example.org,example.com"),
        ("domains=a,A", "domains=a,A: \"A\" is there twice; give domains=example.org,example.com"),
        ("mode=b2bua", "mode=b2bua: \"b2bua\" is unknown; give mode=proxy or mode=redirect"),
        ("auth=of", "auth=of: \"of\" is neither on nor off; give auth=on or auth=off"),
        ("stateful=1", "stateful=1: \"1\" is neither on nor off; give stateful=on or stateful=off"),
        (
            "record_route",
            "record_route: \"\" is neither on nor off; give record_route=on or record_route=off",
        ),
        (
            "realm=",
            "realm=: \"\" cannot be a realm; give realm=example.org, without quotes, backslashes and control characters",
        ),
        (
            "algorithms=SHA-1",
            "algorithms=SHA-1: \"SHA-1\" is no algorithm; give algorithms=SHA-256,MD5 or one of them",
        ),
        ("udp=0", "udp=0: \"0\" is no port; give udp=5060 or udp=off"),
        ("tcp=65536", "tcp=65536: \"65536\" is no port; give tcp=5060 or tcp=off"),
        ("tls=on", "tls=on: \"on\" is no port; give tls=5061 or tls=off"),
        (
            "udp=off tcp=off tls=off",
            "udp, tcp, tls: nothing is left to listen on; give udp=5060, tcp=5060 or tls=5061",
        ),
        ("auth=on auth=on", "auth=on: is there twice; give auth=on or auth=off"),
    ] {
        assert_eq!(errors(words, ""), [format!("command line: {error}")], "{words}");
    }
}

/// Each fault with its line, its key, and a word of the remedy.
#[test]
fn each_wrong_value_of_the_file_names_its_line_and_key_and_what_to_do() {
    for (text, line, key, advice) in [
        ("listen = [\"udp:192.0.2.1:5060\"]", 1, "listen", "has one, and learns it later"),
        ("listen = [\"udp:0\"]", 1, "listen", "TRANSPORT:PORT"),
        ("listen = [\"5060\"]", 1, "listen", "TRANSPORT:PORT"),
        ("listen = [\"wss:5062\"]", 1, "listen", "not supported without an operating system"),
        ("listen = [\"udp:5060\",\n\"udp:0.0.0.0:5060\"]", 2, "listen", "twice"),
        ("listen = []", 1, "listen", "give 1 to 16"),
        ("[network]\naddress = \"192.0.2.10\"", 2, "[network] address", "192.0.2.10/24"),
        ("[network]\naddress = \"192.0.2.255/24\"\ngateway = \"x\"", 2, "[network] address", "dhcp"),
        ("[network]\naddress = \"192.0.2.10/32\"", 2, "[network] address", "no machine can have"),
        ("[network]\naddress = \"127.0.0.1/8\"", 2, "[network] address", "no machine can have"),
        ("[network]\ngateway = \"192.0.2.1\"", 2, "[network] gateway", "by DHCP"),
        (
            "[network]\naddress = \"192.0.2.10/24\"\ngateway = \"192.0.2.10\"",
            3,
            "[network] gateway",
            "no other machine",
        ),
        ("[network]\naddress = \"192.0.2.10/24\"\ngateway = \"gw\"", 3, "[network] gateway", "192.0.2.1"),
        (
            "[network]\naddress = \"192.0.2.10/24\"\ndns = \"192.0.2.1\"",
            3,
            "[network] dns",
            "a list of strings",
        ),
        ("[network]\naddress = \"192.0.2.10/24\"\ndns = [\"ns.example\"]", 3, "[network] dns", "192.0.2.1"),
        ("[network]\nip = \"dhcp\"", 2, "[network] ip", "address, gateway, dns"),
        ("[users]\ntftp = \"files.example\"", 2, "[users] tftp", "that DHCP names"),
        ("[users]\nfile = \"a\\nb\"", 2, "[users] file", "users.csv"),
        ("[limits]\nmax_connections = 257", 2, "[limits] max_connections", "1 to 256"),
        ("[auth]\nrealm = \"\"", 2, "[auth] realm", "1 to 255"),
        ("\n[store]\nurl = \"memory:\"", 2, "[store]", "no disk"),
        ("[location]\nurl = \"local:\"", 1, "[location]", "in its memory"),
        ("workers = 2", 1, "workers", "one core"),
        ("[tls]", 1, "[tls]", "on its boot medium"),
        ("[admin]\nlisten = \"127.0.0.1:8060\"", 1, "[admin]", "on its screen"),
        ("[log]\nlevel = \"debug\"", 1, "[log]", "its screen"),
        (
            "domain = [\"a\"]",
            1,
            "domain",
            "take it out, or give one of: domains, users, network, listen, auth, registrar, routing, limits",
        ),
        ("\"a\\n\\u001b[2J\" = 1", 1, "a  [2J", "unknown key"),
        ("domains = [", 1, "not TOML", "correct the line"),
    ] {
        let errors = errors("", text);
        assert_eq!(errors.len(), 1, "{text:?}: {errors:?}");
        assert!(errors[0].starts_with(&format!("ringway.toml:{line}: {key}:")), "{text:?}: {}", errors[0]);
        assert!(errors[0].contains(advice), "{text:?}: {}", errors[0]);
        assert!(!errors[0].contains('\n'), "{text:?}");
    }
}

#[test]
fn all_errors_are_reported_those_of_words_first() {
    let all = errors("auth=maybe udp=x", "workers = 2\n[network]\naddress = 1\n");
    let starts: Vec<_> =
        all.iter().map(|error| error.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect();
    assert_eq!(
        starts,
        [
            "command line: auth=maybe",
            "command line: udp=x",
            "ringway.toml:1: workers",
            "ringway.toml:3: [network] address"
        ]
    );
}

#[test]
fn a_file_too_large_for_settings_is_not_read() {
    let comment = |bytes: usize| format!("#{}\n", "x".repeat(bytes - 2));
    assert!(errors("", &comment(65_536)).is_empty());
    let error = "ringway.toml:1: it has 65537 bytes, and settings have at most 65536; name another file";
    assert_eq!(errors("", &comment(65_537)), [error]);
}

#[test]
fn whatever_comes_over_the_network_is_settings_or_lines_for_a_person() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut text = WHOLE.as_bytes().to_vec();
        for _ in 0..rng.below(4) {
            let (from, bytes) = (rng.below(text.len() as u64) as usize, rng.below(30) as usize);
            let to = text.len().min(from + bytes);
            match rng.below(3) {
                0 => text.truncate(from.max(1)),
                1 => drop(text.splice(from..to, [b"=[]\"\n.-{}#9x"[rng.below(12) as usize]])),
                _ => text.extend_from_within(from..to),
            }
        }
        let text = String::from_utf8(text).unwrap();
        let of_file = errors("", &text);
        *if of_file.is_empty() { &mut taken } else { &mut refused } += 1;
        for error in of_file.into_iter().chain(errors(&text, "")) {
            assert!(!error.contains(char::is_control), "seed {seed}: {error:?}");
        }
    }
    assert!(taken > 200 && refused > 200, "{taken} taken, {refused} refused");
}

#[test]
fn the_server_gets_what_was_said_and_listens_where_the_machine_is() {
    let settings = of_file(WHOLE);
    let address = Ipv4Addr::new(192, 0, 2, 10);
    let listeners = settings.listen.iter().map(|listener| {
        let bound = SocketAddr::from((address, listener.address.port()));
        ringway_server::Listener { transport: listener.transport, bound, advertised: bound }
    });
    let config = settings.server_config(listeners.collect(), vec![address.into()], [7; 32]);
    assert_eq!(config.domains, settings.server.domains);
    assert_eq!((config.listeners.len(), config.listeners[1].transport), (2, Transport::Tcp));
    assert_eq!(config.machine_addresses, [std::net::IpAddr::from(address)]);
    assert_eq!((config.mode, config.stateful, config.record_route), (Mode::Redirect, false, false));
    assert_eq!((config.auth.enabled, config.auth.in_dialog), (false, true));
    assert_eq!(config.auth.realms.general(), "somewhere else");
    assert_eq!(config.auth.nonce_lifetime.as_secs(), 30);
    assert_eq!(config.auth.algorithms, settings.server.auth.algorithms);
    assert_eq!(
        (config.registrar.min_expires_s, config.registrar.default_expires_s, config.registrar.max_expires_s),
        (10, 20, 30)
    );
    assert_eq!((config.registrar.max_contacts, config.message_limits.message_bytes_max), (3, 4000));
    assert_eq!(config.secret, [7; 32]);
    assert!(config.timer_c.as_secs() > 180);
}
