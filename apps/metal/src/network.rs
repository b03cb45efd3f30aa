//! Network state of a machine, for its log and its screen.

use crate::Hardware;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use ringway_ethernet::Lease;
use ringway_settings::Addressing;
use ringway_ui::{Address, Card, Network, Source};

/// Network section of the screen. `asked_since`: time without an address; `lease_age`: age of the lease.
pub(crate) fn network<'m>(
    hardware: &Hardware,
    (card, is_up): ([u8; 6], bool),
    lease: Option<&'m Lease>,
    asked_since: Duration,
    lease_age: Duration,
) -> Network<'m> {
    let card = Card { name: hardware.card_name, hardware: card, is_up };
    let address = match lease {
        None => Address::Asked { since: asked_since },
        Some(lease) => Address::Known {
            ip: lease.address,
            prefix: lease.prefix_bits,
            gateway: lease.gateway,
            dns: &lease.name_servers,
            source: match (lease.dhcp_server, lease.duration) {
                (None, _) => Source::Fixed,
                (Some(_), duration) => {
                    Source::Dhcp { left: duration.unwrap_or(Duration::ZERO).saturating_sub(lease_age) }
                }
            },
        },
    };
    Network { card: Some(card), address }
}

/// Converts a fixed address into a lease; `None`: DHCP is used.
///
/// # Errors
/// The address is not a host address; the message is for the user.
pub(crate) fn fixed_lease(addressing: &Addressing) -> Result<Option<Lease>, String> {
    let Addressing::Fixed { address, prefix_bits, gateway, name_servers } = addressing else {
        return Ok(None);
    };
    match Lease::fixed(*address, *prefix_bits, *gateway) {
        Some(lease) => Ok(Some(Lease { name_servers: name_servers.clone(), ..lease })),
        None => Err(format!("ip={address}/{prefix_bits} is not a host address; give another")),
    }
}

pub(crate) fn lease_in_words(lease: &Lease, after: Duration) -> String {
    let mut text = format!("network: {}/{}", lease.address, lease.prefix_bits);
    if let Some(server) = lease.dhcp_server {
        text.push_str(&format!(" by DHCP from {server} after {} ms", after.as_millis()));
    }
    if let Some(gateway) = lease.gateway {
        text.push_str(&format!(", gateway {gateway}"));
    }
    for server in &lease.name_servers {
        text.push_str(&format!(", DNS {server}"));
    }
    text
}
