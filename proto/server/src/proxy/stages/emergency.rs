//! Emergency calls: to their trunks, one after another, whatever else the routes, the forwards and the limits say, with the number and the
//! location of the caller's site.

use crate::Emergency;
use crate::base::Sender;
use crate::config::EmergencySite;
use crate::policy::proven_sender;
use crate::proxy::call::{Call, Next, Planned};
use crate::proxy::rewrite::Rewrite;
use crate::proxy::stages::destinations::Payer;
use crate::proxy::stages::{identity, trunk_uris};
use crate::proxy::targets::StoredTarget;
use crate::report::Report;
use crate::{Aor, Detail, Number, Reason};
use alloc::vec::Vec;
use ringway_sip::HeaderName;

/// Trunks of an emergency call. One that is down, or was silent, is tried last.
pub(super) fn before(call: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
    let (config, request) = (call.env.config, call.request);
    let Some(number) = Emergency::number_of(config, &call.routed.uri) else { return Next::Pass };
    let user = proven_sender(call.env, request);
    let client = request.client(config);
    let site = config.trunking.emergency.site_of(user.as_ref().map(Aor::as_bytes), client);
    let payer = payer_of(call, site);
    let (tables, now) = (call.env.tables, call.env.cx.now);
    let mut order: Vec<usize> = config.trunking.emergency.trunks.clone();
    order.sort_by_key(|index| {
        let trunk = config.trunking.trunks.get(*index);
        let is_down = trunk.and_then(|trunk| trunk.neighbour).is_some_and(|at| !tables.is_neighbour_up(at));
        (is_down, tables.trunk_pause(now, *index).is_some())
    });
    let name = site.map_or("", |site| site.name.as_str());
    let (caller, source) = (request.message.from().uri.as_bytes(), request.flow.remote);
    call.env.report(request, Report::Emergency { caller, number: number.as_bytes(), site: name, source });
    let numbered = order.iter().filter_map(|index| Some((*index, config.trunking.trunks.get(*index)?)));
    let mut targets = Vec::new();
    for (rank, (index, trunk)) in (0..).zip(numbered) {
        let mut rewrite = Rewrite::to_configured(index);
        call.env.decided(request, Reason::RoutedToTrunk, Detail::Text(trunk.name.as_bytes()));
        if let Some(payer) = &payer {
            identity::add(call, payer, trunk, &mut rewrite);
        }
        add_location(call, site, &mut rewrite);
        trunk_uris::push_routes(call.env, trunk, true, &mut rewrite);
        let uri = trunk_uris::uri_at(trunk, &trunk.numbers_out.write(&number));
        targets.push(StoredTarget::ranked(&uri, false, rewrite, rank));
    }
    Next::Targets(targets)
}

/// User and number that the trunk gets. What a caller without a password wrote is not asserted: it has the number of its site, or none.
fn payer_of(call: &Call<'_, '_>, site: Option<&EmergencySite>) -> Option<Payer> {
    let number = site.and_then(|site| site.caller.clone());
    let payer = Payer::of(call.env.config, &call.request.message.from().uri);
    match (call.request.grant.sender, number) {
        (Sender::Stranger | Sender::Unknown | Sender::InDialog, None) => None,
        (Sender::Stranger | Sender::Unknown | Sender::InDialog, Some(number)) => {
            let user = Number::parse(number.as_bytes()).map(|number| number.as_bytes().to_vec());
            Some(Payer { aor: Aor::default(), user: user.unwrap_or_default(), number: Some(number), ..payer })
        }
        (_, number) => Some(Payer { number, ..payer }),
    }
}

/// RFC 6442 §4.4: adds the location of the site, unless the phone has sent its own.
fn add_location(call: &Call<'_, '_>, site: Option<&EmergencySite>, rewrite: &mut Rewrite) {
    let location = site.and_then(|site| site.location.as_deref());
    if let Some(location) = location.filter(|_| !call.request.message.has(HeaderName::Geolocation)) {
        rewrite.push_line(HeaderName::Geolocation, &[b"<", location.as_bytes(), b">"].concat());
    }
}

/// True if a final response leads to the next trunk: any that is not the caller's end of the call, or that of all targets.
pub(super) const fn fails_over(status: u16) -> bool {
    !matches!(status, 487 | 600..)
}
