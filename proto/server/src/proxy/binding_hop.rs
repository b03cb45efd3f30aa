//! Way to the phone of a binding.

use super::rewrite::Rewrite;
use super::targets::Targets;
use crate::Config;
use crate::dialog::route::{NextHop, hop_of};
use crate::location::{Offer, path_values};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::Flow;
use ringway_sip::Uri;

/// Way to the phone of a binding.
#[derive(Clone, Debug)]
pub(crate) struct BindingHop {
    /// Request-URI.
    pub(crate) uri: Vec<u8>,
    /// Values of Route.
    pub(crate) routes: Vec<Box<[u8]>>,
    pub(crate) flow: Flow,
}

/// Way to the phone of a binding; `None` for a contact of an administrator, one at this server, and one whose scheme does not
/// fit (RFC 5630 §5.3). A contact with a host name is reached over the flow of its REGISTER.
pub(crate) fn hop_to_binding(config: &Config, offer: Offer<'_>, is_sips: bool) -> Option<BindingHop> {
    let Offer { binding, path } = offer;
    if binding.is_permanent() {
        return None;
    }
    let mut targets = Targets::default();
    targets.push_binding(offer, is_sips).ok()?;
    let target = targets.list().first()?;
    let uri = targets.uri(target);
    let flow = match target.flow {
        Some(flow) => flow,
        None => {
            let next = target.rewrite.as_deref().and_then(Rewrite::next_hop);
            match hop_of(config, &next.or_else(|| Uri::parse(uri).ok())?) {
                NextHop::Flow(flow) => flow,
                NextHop::Name(_) if !binding.owner.is_other() => binding.flow,
                NextHop::Name(_) | NextHop::Unreachable => return None,
            }
        }
    };
    let routes = path_values(path).map(Into::into).collect();
    (!config.is_own_address(flow.remote)).then(|| BindingHop { uri: uri.to_vec(), routes, flow })
}
