//! Settings of media relays.

use super::Network;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::RelayInterfaces;

/// Settings of media relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaConfig {
    /// Calls whose media are relayed. Default: [`RelayRule::Never`].
    pub rule: RelayRule,
    /// True: calls between a browser and another phone are relayed, and their media converted. Default: false.
    pub bridge: bool,
    /// Calls between a phone with SRTP and one with RTP. Default: [`SrtpRule::EndToEnd`].
    pub srtp: SrtpRule,
    /// Handling of a call that needs a relay, if none answers. Default: [`RelayFailure::Direct`].
    pub on_failure: RelayFailure,
    /// Time limit of a request to the relays, 200 ms to 10 s. Default: 2 s.
    pub time_limit: Duration,
    /// Interfaces of the relays, which have the same names at each; the first one that fits a side counts. At most
    /// [`MediaConfig::INTERFACES_MAX`]. Default: none, the relays have one.
    pub interfaces: Vec<MediaInterface>,
}

/// Interface of the relays, for the sides of calls in some networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaInterface {
    /// Its name at the relays.
    pub name: Arc<str>,
    /// Networks of the sides that use it; empty: all.
    pub networks: Vec<Network>,
}

/// Calls whose media are relayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayRule {
    /// None.
    #[default]
    Never,
    /// Those with a side behind a NAT.
    Nat,
    /// All.
    Always,
}

/// Calls between a phone with SRTP, whose keys are in the SDP, and one with RTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SrtpRule {
    /// The phone that has no such media refuses them.
    #[default]
    EndToEnd,
    /// After this refusal the call is relayed, and the media converted.
    Bridge,
}

/// Handling of a call that needs a relay, if none answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayFailure {
    /// It is forwarded unchanged.
    #[default]
    Direct,
    /// It gets 500.
    Refuse,
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self {
            rule: RelayRule::Never,
            bridge: false,
            srtp: SrtpRule::EndToEnd,
            on_failure: RelayFailure::Direct,
            time_limit: Duration::from_secs(2),
            interfaces: Vec::new(),
        }
    }
}

impl MediaConfig {
    /// Maximum number of interfaces.
    pub const INTERFACES_MAX: usize = 16;
    /// Maximum length of an interface's name.
    pub const INTERFACE_BYTES_MAX: usize = 64;

    /// Interfaces for the SDP of a side at `from` to one at `to`; `None`: the relays have one.
    pub(crate) fn interfaces_of(&self, from: IpAddr, to: IpAddr) -> Option<RelayInterfaces> {
        let of = |side: IpAddr| {
            let fits = |interface: &&MediaInterface| {
                let networks = &interface.networks;
                networks.is_empty() || networks.iter().any(|network| network.contains(side))
            };
            self.interfaces.iter().find(fits).map(|interface| Arc::clone(&interface.name))
        };
        Some(RelayInterfaces { from: of(from)?, to: of(to)? })
    }

    /// True if some call may be relayed.
    pub const fn is_on(&self) -> bool {
        cfg!(feature = "operator")
            && (self.bridge || self.converts() || !matches!(self.rule, RelayRule::Never))
    }

    /// True if a refused call may be converted between SRTP and RTP.
    pub(crate) const fn converts(&self) -> bool {
        cfg!(feature = "operator") && matches!(self.srtp, SrtpRule::Bridge)
    }
}
