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
mod rtpengine;
mod talk;

use super::Scenario;

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
