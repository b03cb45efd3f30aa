//! Targets of requests to domains whose servers are nodes behind this one: the front keeps nothing of their users.
//!
//! Any node is right, as they share their registrations. The same one for all requests for a user has more of that user at hand, so
//! the order of the nodes follows from the user's name, and a node that comes or goes moves its own share only.

use crate::dialog::edge;
use crate::proxy::call::{Call, Next, Planned};
use crate::proxy::rewrite::Rewrite;
use crate::proxy::stages::destinations::RouteRefusal;
use crate::proxy::targets::StoredTarget;
use crate::{Detail, Reason};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::grammar::unescaped;
use ringway_sip::{Method, Uri};
use siphasher::sip::SipHasher13;

/// The nodes of a domain, the one to be tried first in front; `Pass` if the request is for another domain, or there are no nodes.
pub(super) fn before(call: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
    let Call { env, request, routed, .. } = call;
    let (trunking, tables) = (&env.config.trunking, env.tables);
    if !trunking.has_nodes() || !edge::serves(env.config, routed.next_uri()) {
        return Next::Pass;
    }
    let user = match request.method {
        Method::Register => &request.message.to().uri,
        _ => &routed.uri,
    };
    let is_up = |index: Option<usize>| index.is_none_or(|index| tables.is_neighbour_up(index));
    let mut order: Vec<_> = trunking.nodes().filter(|(_, node)| is_up(node.neighbour)).collect();
    if order.is_empty() {
        env.counters.trunks_down += 1;
        return Next::Answer(RouteRefusal::NodesDown.into());
    }
    order.sort_by_cached_key(|(index, node)| {
        (tables.trunk_pause(env.cx.now, *index).is_some(), Reverse(weight(&node.uri, user)))
    });
    order.truncate(NODES_MAX);
    let mut targets = Vec::new();
    for (rank, (index, node)) in (0..).zip(order) {
        let mut rewrite = Rewrite::to_configured(index);
        rewrite.push_route(&[b"<", node.uri.as_bytes(), b";lr>"].concat());
        targets.push(StoredTarget::ranked(routed.uri.as_bytes(), true, rewrite, rank));
        env.decided(request, Reason::ToNode, Detail::Text(node.name.as_bytes()));
    }
    Next::Targets(targets)
}

/// Weight of a node for a user: the node with the highest one is the first (rendezvous hashing).
///
/// The hash has no key, so that several fronts agree, and one does with itself after a restart. Who can choose names of users can have
/// them at one node, as with any other number of users of one node.
fn weight(node: &str, user: &Uri<'_>) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new());
    hash.part(node.as_bytes());
    hash.part(&unescaped(user.user().unwrap_or_default()));
    hash.part(&user.host().without_root_dot().as_bytes().to_ascii_lowercase());
    hash.hasher().finish()
}

/// Maximum number of nodes that a request is sent to, one after another.
const NODES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;

    const NAMES: usize = 10_000;

    fn nodes(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("sip:192.0.2.{number}:5060")).collect()
    }

    fn first_of<'n>(nodes: &'n [String], user: &str) -> &'n str {
        let user = Uri::parse(user.as_bytes()).unwrap();
        nodes.iter().max_by_key(|node| weight(node, &user)).unwrap()
    }

    fn names() -> impl Iterator<Item = String> {
        (0..NAMES).map(|number| format!("sip:user{number}@example.net"))
    }

    #[test]
    fn the_shares_of_nodes_differ_by_some_percent() {
        for count in [2, 3, 10] {
            let nodes = nodes(count);
            let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
            names().for_each(|name| *shares.entry(first_of(&nodes, &name)).or_default() += 1);
            assert_eq!(shares.len(), count);
            let even = NAMES / count;
            for (node, share) in shares {
                assert!(
                    share.abs_diff(even) * 100 <= even * 10,
                    "{node} has {share} of {NAMES}, {count} nodes"
                );
            }
        }
    }

    #[test]
    fn a_node_that_goes_moves_only_its_own_users() {
        let all = nodes(10);
        for gone in &all {
            let left: Vec<_> = all.iter().filter(|node| *node != gone).cloned().collect();
            let mut takers: BTreeMap<&str, usize> = BTreeMap::new();
            for name in names() {
                let (before, after) = (first_of(&all, &name), first_of(&left, &name));
                match before == gone {
                    true => *takers.entry(after).or_default() += 1,
                    false => assert_eq!(before, after, "{name} without {gone}"),
                }
            }
            assert_eq!(takers.len(), left.len(), "all others take a part of {gone}: {takers:?}");
        }
    }

    #[test]
    fn a_user_has_one_node_however_its_uri_is_written() {
        let nodes = nodes(16);
        for spelled in
            ["sip:al%69ce@example.net", "sip:alice@EXAMPLE.net;transport=tcp", "sips:alice@example.net"]
        {
            assert_eq!(first_of(&nodes, spelled), first_of(&nodes, "sip:alice@example.net"), "{spelled}");
        }
    }
}
