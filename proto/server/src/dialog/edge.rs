//! Edge proxy of other registrars (RFC 5626 §5): our Path with a token for the flow of a phone; and the same for the other nodes,
//! which reach our phones over their link to us.
//!
//! The user part of our Path is MAC TIME `.` side `.` source. TIME is in seconds since the epoch; the side is written as in a mark, and so
//! is the address of the phone. The MAC covers them. There is no table of tokens.

use crate::base::{EdgePart, Env, Keys, Request};
use crate::dialog::route::Routed;
use crate::location::instance_of;
use crate::tables::{PhoneHash, side_of};
use crate::token::sources::SourceHash;
use crate::token::{Side, UserHash};
use crate::{Cluster, Config};
use alloc::vec::Vec;
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{Defence, Flow, Instant};
use ringway_sip::{Contact, HeaderName, Uri, read_hex, write_hex, write_host};

/// Part in a request; `started_s` is the start of this server in seconds since the epoch.
pub(crate) fn part_of(
    config: &Config,
    keys: &Keys,
    routed: &Routed<'_>,
    request: &Request<'_, '_>,
    now: Instant,
    started_s: u64,
) -> EdgePart {
    if let Some(links) = &config.links {
        let token = routed.flow_token.and_then(|token| read_token(&keys.link, token));
        match (token, request.flow.listener == links.listener) {
            (Some((side, made_s, _)), true) => {
                let lifetime_s = TOKEN_LIFETIME_S.max(u64::from(config.registrar.max_expires_s));
                return flow_of(side, made_s, lifetime_s, now, started_s);
            }
            (None, false) => {}
            // A token of nodes is for nodes, and they have nothing else to send here.
            (Some(_), false) | (None, true) => return EdgePart::Forged,
        }
    }
    if config.edge_domains.is_empty() && config.cluster.is_none() {
        return EdgePart::Absent;
    }
    let next = routed.next_uri();
    // Callers of other domains reach the users of nodes, which have the rules for them.
    let may_send = || {
        serves(config, &request.message.from().uri)
            || (serves(config, &routed.uri) && config.trunking.has_nodes())
    };
    let to_registrar = match serves(config, next) && may_send() {
        true => EdgePart::ToRegistrar,
        false => EdgePart::Absent,
    };
    // Phones may write any other user part into the Route to their server.
    let Some(token) = routed.flow_token.filter(|user| user.get(2 * MAC_BYTES + TIME_DIGITS) == Some(&b'.'))
    else {
        return to_registrar;
    };
    let Some((side, made_s, _)) = read_token(&keys.flow, token) else { return EdgePart::Forged };
    // RFC 5626 §5.3: a request of the phone itself goes on as without the token.
    if side == side_of(&request.flow) {
        return to_registrar;
    }
    flow_of(side, made_s, TOKEN_LIFETIME_S, now, started_s)
}

/// Address of the phone that the token in a request's Route was made for; tokens of earlier versions have none.
pub(crate) fn source_of(keys: &Keys, routed: &Routed<'_>) -> Option<SourceHash> {
    let token = routed.flow_token?;
    let read = [&keys.link, &keys.flow].into_iter().find_map(|key| read_token(key, token));
    read.and_then(|(_, _, source)| source)
}

/// Notes the flow of a phone whose REGISTER at another registrar got a 2xx: that proves that the phone is its user's. If it registers over
/// another flow later, requests in its dialogs follow it, as the location table of a registrar makes them do.
pub(crate) fn on_registered(env: &mut Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>) {
    let (config, key, message) = (env.config, &env.keys.route, request.message);
    // Behind another proxy the flow is that one's.
    if !message.has_one_via() || message.values(HeaderName::Contact).nth(1).is_some() {
        return;
    }
    // RFC 3261 §10.2: the registrar of a domain answers for its own users only.
    let asked = routed.uri.host().without_root_dot();
    if !asked.equals(message.to().uri.host().without_root_dot().as_bytes()) {
        return;
    }
    let Some(user) = user_of(config, key, &message.to().uri) else { return };
    let contact = message.first(HeaderName::Contact).and_then(|value| Contact::parse(value).ok());
    let Some(contact) = contact else { return };
    let params = &contact.address.params;
    let name = match instance_of(params) {
        Some(instance) => [instance, params.value(b"reg-id").unwrap_or_default()],
        None => [contact.address.uri.as_bytes(), b""],
    };
    let phone = PhoneHash::of(key, user, name);
    let lifetime = env.dialog_lifetime();
    let has_room =
        env.tables.change_sides(false, |table| table.note_phone(key, phone, &request.flow, user, lifetime));
    env.counters.sides_overflow += u64::from(!has_room);
}

/// Flow of a token, unless it is gone.
fn flow_of(side: Side, made_s: u64, lifetime_s: u64, now: Instant, started_s: u64) -> EdgePart {
    let is_gone = match side {
        // Connections are numbered from the start.
        Side::Connection(..) => made_s < started_s,
        Side::Address(..) | Side::Contact(_) | Side::Named { .. } => false,
    };
    match is_gone || now.as_secs().abs_diff(made_s) > lifetime_s {
        true => EdgePart::FlowGone,
        false => EdgePart::ToFlow(side),
    }
}

/// True for a URI in a domain whose phones register through this server.
pub(crate) fn serves(config: &Config, uri: &Uri<'_>) -> bool {
    let host = uri.host().without_root_dot();
    uri.is_sip()
        && config.edge_domains.iter().any(|domain| host.equals(domain.as_bytes()))
        && config.domain_of(uri).is_none()
}

/// Hash of a user in a domain whose phones register through this server; `None` for any other URI.
pub(crate) fn user_of(config: &Config, key: &[u8; 16], uri: &Uri<'_>) -> Option<UserHash> {
    let host = uri.host().without_root_dot();
    serves(config, uri).then(|| UserHash::of(key, uri.user().unwrap_or_default(), host.as_bytes()))
}

/// Appends our Path for a REGISTER that came over `from` and goes out over `to`; with `ob` if it came from the phone itself.
pub(crate) fn write_path(
    config: &Config,
    keys: &Keys,
    from: &Flow,
    to: &Flow,
    now: Instant,
    is_first_hop: bool,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<sip:");
    write_token(&keys.flow, &keys.route, from, now.as_secs(), out);
    out.push(b'@');
    config.sent_by(to.listener, to.remote.ip()).write(out);
    out.extend_from_slice(to.transport.uri_parameter().as_bytes());
    out.extend_from_slice(if is_first_hop { b";lr;ob>" } else { b";lr>" });
}

/// Appends the Path value by which another node reaches `flow` over its link to this one.
pub(crate) fn write_link(
    cluster: &Cluster,
    key: &[u8; 16],
    source_key: &[u8; 16],
    flow: &Flow,
    made_s: u64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<sip:");
    write_token(key, source_key, flow, made_s, out);
    out.push(b'@');
    write_host(out, cluster.link);
    out.extend_from_slice(cluster.transport.uri_parameter().as_bytes());
    out.extend_from_slice(b";lr>");
}

/// Appends the Path by which other nodes reach the phone of a flow, over their link to this node; nothing without links.
pub(crate) fn write_link_path(config: &Config, keys: &Keys, flow: &Flow, now: Instant, out: &mut Vec<u8>) {
    let listener = config.links.as_ref().and_then(|links| config.listener(links.listener));
    let Some(listener) = listener else { return };
    out.extend_from_slice(b"<sip:");
    write_token(&keys.link, &keys.route, flow, now.as_secs(), out);
    out.push(b'@');
    write_host(out, listener.advertised);
    out.extend_from_slice(b";transport=tls;lr>");
}

/// Keys: of the token, and of addresses in marks.
fn write_token(key: &[u8; 16], source_key: &[u8; 16], flow: &Flow, made_s: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + 2 * MAC_BYTES, b'0');
    write_hex(out, made_s, TIME_DIGITS);
    out.push(b'.');
    side_of(flow).write(out);
    out.push(b'.');
    SourceHash::of(source_key, flow.remote.ip()).write(out);
    let mac = mac(key, out.get(start + 2 * MAC_BYTES..).unwrap_or_default()).finalize().into_bytes();
    let end = out.len();
    mac.iter().take(MAC_BYTES).for_each(|byte| write_hex(out, u64::from(*byte), 2));
    out.copy_within(end.., start);
    out.truncate(end);
}

/// Side, time and source address of a token; `None` if its MAC is not ours.
fn read_token(key: &[u8; 16], token: &[u8]) -> Option<(Side, u64, Option<SourceHash>)> {
    let (given, covered) = token.split_at_checked(2 * MAC_BYTES)?;
    let mut bytes = [0; MAC_BYTES];
    for (byte, digits) in bytes.iter_mut().zip(given.as_chunks::<2>().0) {
        *byte = u8::try_from(read_hex(digits)?).ok()?;
    }
    let is_ours = mac(key, covered).verify_truncated_left(&bytes).is_ok();
    if !is_ours && Defence::FlowToken.is_on() {
        return None;
    }
    let (time, side) = covered.split_at_checked(TIME_DIGITS)?;
    let mut parts = side.strip_prefix(b".")?.split(|&byte| byte == b'.');
    let side = Side::read(parts.next()?)?;
    let source = parts.next().and_then(SourceHash::read);
    Some((side, read_hex(time)?, source))
}

fn mac(key: &[u8; 16], covered: &[u8]) -> Hmac<sha2::Sha256> {
    let mac = Hmac::<sha2::Sha256>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(covered);
    mac
}

/// RFC 5626 §5.2 recommends 80 bits.
const MAC_BYTES: usize = 10;
/// Sufficient until the year 2106.
const TIME_DIGITS: usize = 8;
/// Lifetime of a token. Its phone gets another one with each REGISTER.
const TOKEN_LIFETIME_S: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{ConnectionId, ListenerId};

    const KEY: [u8; 16] = [7; 16];

    #[test]
    fn a_token_is_read_back_and_no_other_one_is() {
        let udp = Flow::udp(ListenerId(3), "198.51.100.7:31337".parse().unwrap());
        let tcp = Flow { connection: Some(ConnectionId(u64::MAX)), ..Flow::dial(ListenerId(1), udp.remote) };
        for flow in [udp, Flow::udp(ListenerId(0), "[2001:db8::7]:1".parse().unwrap()), tcp] {
            let mut token = Vec::new();
            write_token(&KEY, &KEY, &flow, 0x6a00_0000, &mut token);
            let source = SourceHash::of(&KEY, flow.remote.ip());
            assert_eq!(read_token(&KEY, &token), Some((side_of(&flow), 0x6a00_0000, Some(source))));
            assert_eq!(read_token(&[8; 16], &token), None, "of another server");
            for index in 0..token.len() {
                let mut forged = token.clone();
                forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
                assert_eq!(read_token(&KEY, &forged), None, "byte {index}");
                assert_eq!(read_token(&KEY, &token[..index]), None, "its first {index} bytes");
            }
        }
    }
}
