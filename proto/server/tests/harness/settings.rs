//! Configuration of a server for tests.

use ringway_sansio::Transport;
use ringway_server::{Algorithm, AuthConfig, Config, Listener, Mode, RegistrarConfig};
use std::time::Duration;

/// Server for `example.org` at 192.0.2.1 and 2001:db8::1, UDP and TCP, without passwords.
pub(crate) fn config() -> Config {
    let listener = |transport, address: &str| {
        let address = address.parse().unwrap();
        Listener { transport, bound: address, advertised: address }
    };
    Config {
        domains: vec!["example.org".into()],
        listeners: vec![
            listener(Transport::Udp, "192.0.2.1:5060"),
            listener(Transport::Tcp, "192.0.2.1:5060"),
            listener(Transport::Udp, "[2001:db8::1]:5060"),
        ],
        removed_listeners: Vec::new(),
        machine_addresses: Vec::new(),
        mode: Mode::Proxy,
        stateful: true,
        record_route: true,
        serial_fork: Duration::from_secs(20),
        recurse: false,
        edge_domains: Vec::new(),
        dialog_lifetime: Duration::from_secs(86_400),
        inner_networks: Vec::new(),
        auth: AuthConfig {
            enabled: false,
            realms: "example.org".into(),
            digest: Default::default(),
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            in_dialog: false,
            strangers: Default::default(),
            stranger_refer: false,
            trusted: vec!["192.0.2.99".parse().unwrap()],
            fronts: Vec::new(),
            certificates: Default::default(),
        },
        registrar: RegistrarConfig {
            min_expires_s: 60,
            default_expires_s: 3600,
            max_expires_s: 7200,
            max_contacts: 3,
            outbound: true,
            gruu: false,
            flow_timer_s: 0,
            service_route: Vec::new(),
        },
        neighbours: Vec::new(),
        cluster: None,
        links: None,
        trunking: ringway_server::Trunking::default(),
        media: ringway_server::MediaConfig::default(),
        presence: ringway_server::PresenceConfig::default(),
        timers: ringway_transaction::Timers::default(),
        timer_c: Duration::from_secs(181),
        message_limits: ringway_sip::Limits::default(),
        transaction_limits: ringway_transaction::Limits::default(),
        secret: [7; 32],
    }
}
