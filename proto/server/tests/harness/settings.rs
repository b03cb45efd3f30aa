//! Configuration of a server for tests.

use ringway_sansio::Transport;
use ringway_server::{Algorithm, AuthConfig, Config, Listener, RegistrarConfig};
use std::time::Duration;

/// Server for `example.org` at 192.0.2.1 and 2001:db8::1, UDP and TCP, without passwords.
pub(crate) fn config() -> Config {
    let listener = |transport, address: &str| {
        let address = address.parse().unwrap();
        Listener { transport, bound: address, advertised: address }
    };
    Config {
        listeners: vec![
            listener(Transport::Udp, "192.0.2.1:5060"),
            listener(Transport::Tcp, "192.0.2.1:5060"),
            listener(Transport::Udp, "[2001:db8::1]:5060"),
        ],
        auth: AuthConfig {
            enabled: false,
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            trusted: vec!["192.0.2.99".parse().unwrap()],
            ..AuthConfig::for_realm("example.org")
        },
        registrar: RegistrarConfig { max_contacts: 3, ..RegistrarConfig::default() },
        timer_c: Duration::from_secs(181),
        secret: [7; 32],
        ..Config::for_domains(vec!["example.org".into()])
    }
}
