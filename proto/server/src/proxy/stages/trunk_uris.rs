//! URIs of a target at a trunk: its Request-URI and its Route.

use crate::base::Env;
use crate::proxy::rewrite::Rewrite;
use crate::{Number, Trunk};
use alloc::vec::Vec;
use ringway_sip::Uri;

/// Adds the trunk as the next hop, unless the target leads there, and the service route of its carrier behind it (RFC 3608 §5). A first
/// value that leads to the same server is enough: nothing in a service route chooses where a request, and credentials, go next.
pub(super) fn push_routes(env: &Env<'_>, trunk: &Trunk, leads_there: bool, rewrite: &mut Rewrite) {
    let service_route = if trunk.registers { env.tables.service_route(trunk) } else { None };
    if service_route.is_none() && leads_there {
        return;
    }
    let service_route = service_route.as_deref().unwrap_or_default();
    let place = |uri: &[u8]| -> Option<_> {
        let uri = Uri::parse(uri).ok()?;
        let transport = uri.params().value(b"transport").map(<[u8]>::to_ascii_lowercase);
        Some((uri.scheme(), uri.host().as_bytes().to_ascii_lowercase(), uri.port(), transport))
    };
    let own = place(trunk.uri.as_bytes());
    let is_own = service_route.first().is_some_and(|first| own.is_some() && place(first) == own);
    if !is_own {
        rewrite.push_route(&[b"<", trunk.uri.as_bytes(), b";lr>"].concat());
    }
    for value in service_route {
        rewrite.push_route(&[b"<", &**value, b">"].concat());
    }
}

/// URI of a number at a trunk: `sip:NUMBER@HOST[:PORT][;transport=…];user=phone`.
pub(super) fn uri_at(trunk: &Trunk, number: &Number) -> Vec<u8> {
    let (scheme, host) = trunk.uri.split_once(':').unwrap_or(("sip", &trunk.uri));
    let mut uri = [scheme.as_bytes(), b":"].concat();
    for &byte in number.as_bytes() {
        match byte {
            b'#' => uri.extend_from_slice(b"%23"),
            byte => uri.push(byte),
        }
    }
    uri.push(b'@');
    uri.extend_from_slice(host.as_bytes());
    uri.extend_from_slice(b";user=phone");
    uri
}
