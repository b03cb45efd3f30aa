//! Settings of the registrar.

use alloc::string::String;
use alloc::vec::Vec;

/// `[registrar]`, with [`RegistrarConfig::min_expires_s`] ≤ [`RegistrarConfig::default_expires_s`] ≤
/// [`RegistrarConfig::max_expires_s`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Minimum in seconds, from 1; a shorter expiry gets 423. Default: 60.
    pub min_expires_s: u32,
    /// Default in seconds, from 1, for contacts without an expiry. Default: 3,600.
    pub default_expires_s: u32,
    /// Maximum in seconds, from 1; longer expiries are reduced to it. Default: 7,200.
    pub max_expires_s: u32,
    /// Maximum number of contacts of a user, 1 to 1,000. Default: 10.
    pub max_contacts: usize,
    /// True: a phone that asks for it registers its flows (RFC 5626). Default: true.
    pub outbound: bool,
    /// True: a phone that asks for it gets URIs of its own (RFC 5627). Default: false.
    pub gruu: bool,
    /// Flow-Timer of a phone with outbound, in seconds (RFC 5626 §4.4), 10 to 3,600; 0: none, so that the phone has its own time.
    /// Default: 0.
    pub flow_timer_s: u32,
    /// Service-Route of every phone (RFC 3608), the first hop first: values that are sent as they are; at most 4. Default: none.
    pub service_route: Vec<String>,
}

impl Default for RegistrarConfig {
    fn default() -> Self {
        Self {
            min_expires_s: 60,
            default_expires_s: 3600,
            max_expires_s: 7200,
            max_contacts: 10,
            outbound: true,
            gruu: false,
            flow_timer_s: 0,
            service_route: Vec::new(),
        }
    }
}
