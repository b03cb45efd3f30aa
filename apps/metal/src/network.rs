//! A machine in its network, for its log and its screen.

use crate::Hardware;
use core::time::Duration;
use ringway_ethernet::Lease;
use ringway_screen::{Address, Card, Network, Source};

/// What the screen shows of it. `asked_since` and `lease_age`: since when there is no address, or this one.
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
