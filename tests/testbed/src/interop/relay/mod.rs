//! `cargo xtask interop --only relay/`: calls through the real rtpengine.
//!
//! Does: phones behind NATs of three kinds in network namespaces, failover between relays, browsers that call other phones,
//! calls between phones with SRTP and with RTP, a stranger who sends to a call's ports.
//!
//! Does not: test rules and limits (`proto/server`, `proto/ng`).

mod bridge;
mod cone;
mod convert;
mod failover;
mod nat;
mod network;
mod talk;

use std::net::Ipv4Addr;

use anyhow::Result;
use ringway_test_support::rtpengine::{Rtpengine, media_ports};

use super::{Scenario, Stage};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = nat::scenarios();
    all.extend(failover::scenarios());
    all.extend(bridge::scenarios());
    all.extend(convert::scenarios());
    for scenario in &mut all {
        scenario.reference = false;
    }
    all
}

/// Starts rtpengine with its control port on loopback, and 200 ports for media at `interface` from `first` on.
fn start_relay(stage: &Stage, interface: Ipv4Addr, control: u16, first: u16) -> Result<Rtpengine> {
    Rtpengine::start_at(&stage.site(), control, &media_ports(interface, first, 200))
}
