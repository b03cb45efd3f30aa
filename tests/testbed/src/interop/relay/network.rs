//! Two private networks behind NATs, and a public one between them.
//!
//! ```text
//!   phone 192.168.1.2 ── NAT 203.0.113.11 ──┐
//!                                           ├── bridge 203.0.113.1: server, media relay
//!   phone 192.168.1.2 ── NAT 203.0.113.12 ──┘
//! ```
//! Both private networks have the same addresses, so that none of a phone is reachable by accident.

use std::net::Ipv4Addr;

use anyhow::Result;

use super::super::Stage;
use super::cone::Cone;
use ringway_test_support::namespace::Namespace;

/// Address of the server and of the media relay.
pub(super) const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// Address of each phone.
pub(super) const PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);

/// Behaviour of a NAT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The kernel's, with a random port for each destination: address- and port-dependent mapping and filtering.
    Symmetric,
    /// The kernel's, which keeps the port: address- and port-dependent filtering.
    Restricted,
    /// Ours, which lets in packets of everybody to a port in use, delays all and loses some. UDP only.
    Cone,
}

/// The networks, which are removed when this value is dropped.
pub(super) struct Network {
    public: Namespace,
    sides: [Side; 2],
}

/// A phone's network.
struct Side {
    phone: Namespace,
    /// It ends before its namespaces.
    cone: Option<Cone>,
    _nat: Namespace,
}

impl Network {
    /// Makes the networks; `None`: this user may not.
    pub(super) fn make(kinds: [Kind; 2]) -> Result<Option<Self>> {
        let Some(public) = Namespace::with_bridge("public", PUBLIC)? else { return Ok(None) };
        let [one, two] = kinds;
        let (Some(one), Some(two)) = (Side::make(&public, one, 11)?, Side::make(&public, two, 12)?) else {
            return Ok(None);
        };
        Ok(Some(Self { public, sides: [one, two] }))
    }

    /// Stage of the server and the media relay.
    pub(super) fn public(&self, stage: &Stage) -> Stage {
        stage.inside(&self.public)
    }

    /// Stage of the phone on a side.
    pub(super) fn phone(&self, stage: &Stage, side: usize) -> Stage {
        stage.inside(&self.sides[side].phone)
    }

    /// Numbers of datagrams that the full-cone NAT of a side forwarded and lost.
    pub(super) fn passed(&self, side: usize) -> Option<(u32, u32)> {
        self.sides[side].cone.as_ref().map(Cone::passed)
    }
}

impl Side {
    fn make(public: &Namespace, kind: Kind, number: u8) -> Result<Option<Self>> {
        let (Some(nat), Some(phone)) = (Namespace::create("nat")?, Namespace::create("phone")?) else {
            return Ok(None);
        };
        let outer = Ipv4Addr::new(203, 0, 113, number);
        nat.join(public, "outer", outer)?;
        if kind == Kind::Cone {
            phone.ip("tuntap add inner mode tun")?;
        } else {
            nat.ip(&format!("link add inner type veth peer name inner netns {}", phone.name()))?;
            nat.ip("addr add 192.168.1.1/24 dev inner")?;
            nat.ip("link set inner up")?;
            nat.run("sysctl", "-q -w net.ipv4.ip_forward=1")?;
            // As routers do: otherwise the packets of a peer that sends first take the mapping of the phone.
            nat.run("iptables", "-A INPUT -i outer -j DROP")?;
            let random = if kind == Kind::Symmetric { " --random-fully" } else { "" };
            nat.run("iptables", &format!("-t nat -A POSTROUTING -o outer -j MASQUERADE{random}"))?;
        }
        phone.ip(&format!("addr add {PRIVATE}/24 dev inner"))?;
        phone.ip("link set inner up")?;
        let cone = match kind {
            Kind::Cone => Some(Cone::start((&phone, PRIVATE), &nat, outer)?),
            Kind::Symmetric | Kind::Restricted => None,
        };
        phone.ip(if kind == Kind::Cone {
            "route add default dev inner"
        } else {
            "route add default via 192.168.1.1"
        })?;
        Ok(Some(Self { phone, cone, _nat: nat }))
    }
}
