//! The machine's network card and address.

use crate::cells::Cells;
use crate::figures::Span;
use crate::style::Style;
use crate::window::value;
use core::fmt;
use core::net::Ipv4Addr;
use core::time::Duration;

/// The machine's network card and address.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// The network card; `None`: none was found.
    pub card: Option<Card<'a>>,
    /// The address and what belongs to it.
    pub address: Address<'a>,
}

/// A network card.
#[derive(Clone, Copy, Debug)]
pub struct Card<'a> {
    /// Name of the card: `virtio-net`.
    pub name: &'a str,
    /// Its hardware address.
    pub hardware: [u8; 6],
    /// True while there is a link.
    pub is_up: bool,
}

/// Address of the machine.
#[derive(Clone, Copy, Debug)]
pub enum Address<'a> {
    /// None yet: DHCP has not answered.
    Asked {
        /// Time since the first request.
        since: Duration,
    },
    /// At this address.
    Known {
        /// The address.
        ip: Ipv4Addr,
        /// Leading bits of the mask, 0 to 32.
        prefix: u8,
        /// Default gateway.
        gateway: Option<Ipv4Addr>,
        /// Name servers.
        dns: &'a [Ipv4Addr],
        /// Source of the address.
        source: Source,
    },
}

/// Source of the machine's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It was set by hand.
    Fixed,
    /// By DHCP.
    Dhcp {
        /// Remaining time of the lease.
        left: Duration,
    },
}

/// Rows that [`draw`] fills.
pub(crate) const ROWS: usize = 3;

pub(crate) fn draw(cells: &mut Cells, y: usize, network: &Network<'_>) {
    card(cells, y, network.card);
    match network.address {
        Address::Asked { since } => {
            let mut field = value(cells, y + 1, "Address", Style::Warning);
            field.value(format_args!("none yet: DHCP has not answered for {}", Span(since)));
        }
        Address::Known { ip, prefix, gateway, dns, source } => {
            let mut field = value(cells, y + 1, "Address", Style::Strong);
            field.value(ip).style(Style::Plain).text("  mask ").style(Style::Strong);
            field.value(mask(prefix)).style(Style::Plain).text("  gateway ").style(Style::Strong);
            match gateway {
                Some(gateway) => field.value(gateway),
                None => field.text("none"),
            };
            let mut field = value(cells, y + 2, "", Style::Plain);
            match source {
                Source::Fixed => field.text("set by hand"),
                Source::Dhcp { left } => {
                    let style = if left < LEASE_SHORT { Style::Warning } else { Style::Strong };
                    field.text("by DHCP, ").style(style).value(Span(left));
                    field.style(Style::Plain).text(" of the lease left")
                }
            };
            field.text("  DNS").style(Style::Strong);
            dns.iter().for_each(|server| {
                field.text(" ").value(server);
            });
            if dns.is_empty() {
                field.text(" none");
            }
        }
    }
}

fn card(cells: &mut Cells, y: usize, card: Option<Card<'_>>) {
    let Some(card) = card else {
        value(cells, y, "Network", Style::Bad).text("no supported network card");
        return;
    };
    let mut field = value(cells, y, "Network", Style::Strong);
    field.text(card.name).style(Style::Plain).text("  ").value(Hardware(card.hardware));
    match card.is_up {
        true => field.style(Style::Good).text("  link is up"),
        false => field.style(Style::Bad).text("  NO LINK: is the cable in?"),
    };
}

fn mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0))
}

/// A hardware address as it is printed on cards.
struct Hardware([u8; 6]);

impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if number == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

/// A lease is renewed at half its time (RFC 2131 §4.4.5): one with less than this left was not.
const LEASE_SHORT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        let masks = [(0, "0.0.0.0"), (1, "128.0.0.0"), (24, "255.255.255.0"), (32, "255.255.255.255")];
        for (prefix, text) in masks {
            assert_eq!(mask(prefix), text.parse::<Ipv4Addr>().unwrap());
        }
        assert_eq!(mask(200), mask(32));
    }
}
