//! `[[proxy_protocol]]`: listeners behind a proxy that says whose connections it passes on (decision 0058).

use super::advertise::listener;
use super::{Listener, Reader, Section};
use ringway_server::Network;
use ringway_settings::read_networks;

/// A listener whose connections begin with a header of the PROXY protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxiedListener {
    pub(crate) listener: Listener,
    /// Sources whose header is read; connections of others are refused.
    pub(crate) networks: Vec<Network>,
}

/// Reads the sections; one that cannot be used is an error.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    listen: &[Listener],
) -> Vec<ProxiedListener> {
    let mut proxied: Vec<ProxiedListener> = Vec::new();
    for (mut section, at) in top.sections(reader, "proxy_protocol") {
        let listener = listener(reader, &mut section, listen);
        if section.place("listen").is_none() {
            let message =
                "is missing; give the listener that your proxies connect to, as \"tcp:0.0.0.0:5060\"";
            reader.error(at, section.path("listen"), message);
        }
        let networks = read_networks(reader, &mut section, "networks").unwrap_or_default();
        if networks.is_empty() {
            let at = section.place("networks").unwrap_or(at);
            let message = "names no proxy; give the addresses of your proxies, as [\"192.0.2.7\"]";
            reader.error(at, section.path("networks"), message);
        }
        let at = section.place("listen").unwrap_or(at);
        match listener {
            Some(listener) if !listener.transport.is_stream() => {
                let message = format!(
                    "\"{listener}\" has no connections, which the PROXY protocol is for; name a tcp, tls, ws or wss listener, or take the section out"
                );
                reader.error(at, section.path("listen"), message);
            }
            Some(listener) if proxied.iter().any(|other| other.listener == listener) => {
                let message = format!("\"{listener}\" is there twice; give all its networks in one section");
                reader.error(at, section.path("listen"), message);
            }
            Some(listener) => proxied.push(ProxiedListener { listener, networks }),
            None => {}
        }
        section.finish(reader);
    }
    proxied
}

/// Warnings: a header that anyone may send.
pub(super) fn warnings(proxied: &[ProxiedListener]) -> Vec<String> {
    let of = |proxied: &ProxiedListener| {
        let listener = proxied.listener;
        let open = proxied.networks.iter().filter(|network| network.holds_every_address());
        let warnings = open.map(move |network| {
            format!(
                "[[proxy_protocol]] networks: {network} contains every address: anyone who reaches {listener} chooses the address that \
                 limits, block lists and trusted networks see; list the addresses of your proxies"
            )
        });
        warnings.collect::<Vec<_>>()
    };
    proxied.iter().flat_map(of).collect()
}
