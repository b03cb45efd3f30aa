//! Addresses of a machine without an operating system.

use crate::{Reader, Section};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Source of a machine's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// From the network (RFC 2131), with gateway and name servers.
    Dhcp,
    /// From the settings.
    Fixed {
        /// Its own.
        address: Ipv4Addr,
        /// Bits of the network, 1 to 31.
        prefix_bits: u8,
        /// The default gateway; an address of the same network.
        gateway: Option<Ipv4Addr>,
        /// Name servers, at most 3.
        name_servers: Vec<Ipv4Addr>,
    },
}

/// Reads `[network]`.
pub(crate) fn read_network(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Addressing {
    let mut section = top.section(reader, "network");
    let given = section.text(reader, "address").map(|(text, at)| (self::addressing(text), at));
    let (mut addressing, is_right) = match given {
        None => (Addressing::Dhcp, true),
        Some((Ok(addressing), _)) => (addressing, true),
        Some((Err(why), at)) => {
            reader.error(at, section.path("address"), format!("{why}; {GIVE_ADDRESS}"));
            (Addressing::Dhcp, false)
        }
    };
    let gateway = section.text(reader, "gateway");
    let servers = section.texts(reader, "dns");
    // Gateway and name servers can be checked only with a valid address.
    if let Some((text, at)) = gateway.filter(|_| is_right)
        && let Err(why) = host(text).and_then(|gateway| addressing.set_gateway(gateway))
    {
        reader.error(at, section.path("gateway"), why);
    }
    if let Some(entries) = servers.filter(|_| is_right) {
        let at = section.place("dns").unwrap_or_default();
        let servers: Result<Vec<_>, _> = entries.iter().map(|(text, _)| host(text)).collect();
        if let Err(why) = servers.and_then(|servers| addressing.set_name_servers(servers)) {
            reader.error(at, section.path("dns"), why);
        }
    }
    section.finish(reader);
    addressing
}

/// Parses `dhcp`, or an address with its prefix. The error is the fault.
pub fn addressing(text: &str) -> Result<Addressing, String> {
    if text == "dhcp" {
        return Ok(Addressing::Dhcp);
    }
    let parsed = text.split_once('/').and_then(|(address, bits)| {
        let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
        Some((address.parse().ok()?, bits.parse().ok().filter(|_| is_number)?))
    });
    let Some((address, prefix_bits)) = parsed else {
        return Err(format!("{text:?} is no address with a prefix"));
    };
    if !(1..=31).contains(&prefix_bits) || !is_of_a_machine(address, prefix_bits) {
        return Err(format!("{text:?} is an address that no machine can have"));
    }
    Ok(Addressing::Fixed { address, prefix_bits, gateway: None, name_servers: Vec::new() })
}

/// Parses the address of another machine. The error is the fault and the remedy.
pub fn host(text: &str) -> Result<Ipv4Addr, String> {
    match text.parse::<Ipv4Addr>() {
        Ok(address) if is_of_a_machine(address, 0) => Ok(address),
        _ => Err(format!("{text:?} is no address of a machine; give one as 192.0.2.1")),
    }
}

impl Addressing {
    /// Sets the default gateway. The error is the reason why it cannot be used.
    pub fn set_gateway(&mut self, to: Ipv4Addr) -> Result<(), String> {
        let Self::Fixed { address, prefix_bits, gateway, .. } = self else { return Err(NEEDS_FIXED.into()) };
        let network = network(*address, *prefix_bits);
        if to == *address || network != self::network(to, *prefix_bits) || !is_of_a_machine(to, *prefix_bits)
        {
            return Err(format!(
                "{to} is no other machine of the network {network}/{prefix_bits}; give the gateway's address there"
            ));
        }
        *gateway = Some(to);
        Ok(())
    }

    /// Sets the name servers. The error is the reason why they cannot be used.
    pub fn set_name_servers(&mut self, servers: Vec<Ipv4Addr>) -> Result<(), String> {
        let Self::Fixed { name_servers, .. } = self else { return Err(NEEDS_FIXED.into()) };
        if servers.len() > NAME_SERVERS_MAX {
            return Err(format!("there are {} name servers; give at most {NAME_SERVERS_MAX}", servers.len()));
        }
        *name_servers = servers;
        Ok(())
    }
}

/// False for unspecified, multicast and broadcast addresses, and for that of the network itself.
fn is_of_a_machine(address: Ipv4Addr, prefix_bits: u8) -> bool {
    let is_single = !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || address.octets()[0] == 0);
    // A network of two addresses has neither a name nor a broadcast address (RFC 3021).
    if !is_single || prefix_bits == 0 || prefix_bits > 30 {
        return is_single;
    }
    let hosts = u32::MAX >> prefix_bits;
    let own = address.to_bits() & hosts;
    own != 0 && own != hosts
}

fn network(address: Ipv4Addr, prefix_bits: u8) -> Ipv4Addr {
    let hosts = u32::MAX.checked_shr(u32::from(prefix_bits)).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & !hosts)
}

pub(crate) const GIVE_ADDRESS: &str = "give \"dhcp\", or one as \"192.0.2.10/24\"";
const NEEDS_FIXED: &str =
    "belongs to a fixed address, and by DHCP the network says it; give a fixed address, or take it out";
const NAME_SERVERS_MAX: usize = 3;
