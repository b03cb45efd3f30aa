//! Routing of requests: pure functions of the request and the configuration (RFC 3261 §16.4, §16.5).

use crate::Config;
use crate::config::SentBy;
use crate::dialog::cseq::TrunkNumbers;
use crate::dialog::gruu;
use crate::token::sources::SourceHash;
use crate::token::{Mark, Side, TOKEN, TargetHash, Token, UserHash};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Flow, PartHasher, Target, Transport};
use ringway_sip::grammar::{unescape_into, unescaped};
use ringway_sip::{HeaderName, Malformed, Message, NameAddr, Scheme, Uri, Via};
use ringway_transaction::may_send_to;
use siphasher::sip::SipHasher13;

/// Prefix of the loop mark in our branches.
pub(crate) const LOOP_MARK: &[u8] = b".l";

/// Result of RFC 3261 §16.4: a request without the Route values of this server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'a> {
    /// Request-URI; if a strict router moved it to the last Route, it is restored.
    pub(crate) uri: Uri<'a>,
    /// True if it is in a domain of `domains`, or a `tel:` URI for them.
    pub(crate) is_of_domains: bool,
    /// Number of Route values of this server at the top.
    pub(crate) own_routes: usize,
    /// True if the Request-URI was restored from the last Route.
    pub(crate) from_last_route: bool,
    /// First Route of another server: the next hop for any Request-URI.
    pub(crate) next_route: Option<Uri<'a>>,
    /// Valid mark in a Route of this server.
    pub(crate) mark: Option<Mark>,
    /// User part of a Route of this server, which may be the token of a flow.
    pub(crate) flow_token: Option<&'a [u8]>,
    /// Addresses that the side of the request's sender sends from, if they are recorded.
    pub(crate) senders: [SourceHash; 2],
    /// That side, as its mark has it.
    pub(crate) sender: Option<SenderSide>,
    /// Two marks of it do not join: neither was made when the request with the other one returned. They may be of two ways, one of them made
    /// by somebody else: nobody moves by both.
    pub(crate) has_two_ways: bool,
    /// Mark that was read last, and its recipient.
    last_mark: Option<(u64, Side)>,
    /// Next hop, if the access rules found that it is the side of its dialog.
    pub(crate) side_hop: Option<Flow>,
    /// Numbering of the dialog at a trunk.
    numbers: Option<TrunkNumbers>,
}

/// Side that sends a request in a dialog, as its mark has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderSide {
    pub(crate) side: Side,
    /// Time of the mark in seconds since the epoch.
    pub(crate) made_s: u64,
    /// User that it is; `None`: the mark is of the earlier form.
    pub(crate) user: Option<UserHash>,
    pub(crate) is_trunk: bool,
}

impl<'a> Routed<'a> {
    /// URI that leads to the next hop: the first Route of another server, else the Request-URI.
    pub(crate) const fn next_uri(&self) -> &Uri<'a> {
        match &self.next_route {
            Some(next) => next,
            None => &self.uri,
        }
    }

    /// URI that a side of a dialog gets on the first line, sooner or later: the first Route behind those of this server that no
    /// loose router has (RFC 3261 §16.6 step 6), else the Request-URI.
    pub(crate) fn last_uri(&self, message: &Message<'a>) -> Uri<'a> {
        let routes = message.values(HeaderName::Route).skip(self.own_routes);
        let mut strict = routes
            .filter_map(|value| NameAddr::parse(value).ok())
            .map(|route| route.uri)
            .filter(|uri| !uri.is_loose_router());
        strict.next().unwrap_or(self.uri)
    }

    /// Side that began the dialog, as its mark has it.
    pub(crate) fn caller_side(&self) -> Option<Side> {
        match self.mark? {
            Mark::Dialog { is_of_caller: true, .. } => self.sender.map(|sender| sender.side),
            Mark::Dialog { to, .. } => Some(to),
            Mark::Accepted { .. } => None,
        }
    }

    fn add_mark(&mut self, read: Option<Mark>) {
        // Of several marks the first is that of the sender's side, the last that of the recipient's.
        if let (None, Some(Mark::Dialog { senders, from: side, made_s, is_of_caller, identities, .. })) =
            (self.mark, read)
        {
            let user = identities.map(|identities| identities.user(is_of_caller));
            let is_trunk = identities.is_some_and(|identities| identities.is_trunk(is_of_caller));
            (self.senders, self.sender) = (senders, Some(SenderSide { side, made_s, user, is_trunk }));
        }
        if let Some(Mark::Dialog { id, to, from, .. }) = read {
            // An entry for each transport has the same mark (RFC 5658 §3).
            let is_joined = self.last_mark.is_none_or(|(last, recipient)| {
                last == id || from == Side::before(last) || recipient == Side::before(id)
            });
            self.has_two_ways |= !is_joined;
            self.last_mark = Some((id, to));
        }
        self.mark = read.or(self.mark);
    }

    fn add_numbers(&mut self, config: &Config, own: &Uri<'_>) {
        if self.numbers.is_none() && !config.trunking.trunks.is_empty() {
            self.numbers = TrunkNumbers::of_route(own);
        }
    }

    /// True for a request of a trunk in a dialog that has numbers of its own there.
    pub(crate) fn is_of_numbered_trunk(&self) -> bool {
        match (self.mark, self.numbers) {
            (Some(Mark::Dialog { is_of_caller, .. }), Some(numbers)) => !numbers.are_of(is_of_caller),
            _ => false,
        }
    }

    /// Numbering at the trunk that the request goes to, if it belongs to a dialog of this server with one.
    pub(crate) fn trunk_numbers(&self) -> Option<TrunkNumbers> {
        match self.mark {
            Some(Mark::Dialog { is_of_caller, .. }) => {
                self.numbers.filter(|numbers| numbers.are_of(is_of_caller))
            }
            Some(Mark::Accepted { .. }) | None => None,
        }
    }
}

/// Next hop of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHop<'a> {
    Flow(Flow),
    /// Host name whose servers must be looked up first.
    Name(HostName<'a>),
    /// No transport or listener can reach it.
    Unreachable,
}

/// Host name of a URI, with what the URI says of the way to it (RFC 3263 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostName<'a> {
    host: &'a str,
    port: Option<u16>,
    transport: Option<Transport>,
    is_sips: bool,
}

impl HostName<'_> {
    /// Transport, host and port, the first and the last as they are without DNS records.
    pub(crate) fn parts(&self) -> (Transport, &str, u16) {
        let default = if self.is_sips { Transport::Tls } else { Transport::DEFAULT };
        let transport = self.transport.unwrap_or(default);
        (transport, self.host, self.port.unwrap_or(transport.default_port()))
    }

    pub(crate) fn hash(&self, key: &[u8; 16]) -> TargetHash {
        let (transport, host, port) = self.parts();
        TargetHash::of_name(key, transport, host, port)
    }

    /// Target of a lookup for a request from `source`; equal numbers `draw` choose equally between servers of the same
    /// priority.
    pub(crate) fn target(&self, draw: u64, source: Option<IpAddr>) -> Target {
        let Self { host, port, transport, is_sips } = *self;
        Target { host: host.into(), port, transport, is_sips, draw, source }
    }
}

/// Maximum number of Route values: each is compared with all domains.
const ROUTES_MAX: usize = 32;

/// Removes the Route values of this server (RFC 3261 §16.4).
pub(crate) fn preprocess<'a>(
    config: &Config,
    key: &[u8; 16],
    message: &Message<'a>,
    request_uri: Uri<'a>,
) -> Result<Routed<'a>, Malformed> {
    let is_of_domains = config.target_domain(&request_uri).is_some();
    let mut routed = Routed {
        uri: request_uri,
        is_of_domains,
        own_routes: 0,
        from_last_route: false,
        next_route: None,
        mark: None,
        flow_token: None,
        senders: [SourceHash::NONE; 2],
        sender: None,
        has_two_ways: false,
        last_mark: None,
        side_hop: None,
        numbers: None,
    };
    if !message.has(HeaderName::Route) {
        return Ok(routed);
    }
    let mut count = 0;
    let mut last = None;
    for value in message.values(HeaderName::Route) {
        if count >= ROUTES_MAX {
            return Err(Malformed);
        }
        let route = NameAddr::parse(value)?;
        count += 1;
        last = Some(route.uri);
        if routed.next_route.is_some() {
            continue;
        }
        if is_ours(config, &route.uri) {
            routed.own_routes += 1;
            routed.add_mark(Mark::read(key, message, &route.uri));
            routed.flow_token = routed.flow_token.or(route.uri.user());
            routed.add_numbers(config, &route.uri);
        } else {
            routed.next_route = Some(route.uri);
        }
    }
    // RFC 3261 §16.4: a strict router moved our URI into the Request-URI and the target into the last Route.
    if is_of_domains
        && request_uri.params().has(TOKEN)
        && let Some(last) = last
    {
        routed.add_mark(Mark::read(key, message, &request_uri));
        routed.add_numbers(config, &request_uri);
        routed.uri = last;
        routed.is_of_domains = config.target_domain(&last).is_some();
        routed.from_last_route = true;
        if routed.own_routes + 1 >= count {
            routed.next_route = None;
        }
    }
    Ok(routed)
}

/// Next hop of a URI outside the location table (RFC 3263 §4).
pub(crate) fn hop_of<'a>(config: &Config, uri: &Uri<'a>) -> NextHop<'a> {
    if !matches!(uri.scheme(), Scheme::Sip | Scheme::Sips) {
        return NextHop::Unreachable;
    }
    let (is_sips, named) = (uri.scheme() == Scheme::Sips, uri.params().value(b"transport"));
    let Some(transport) = Transport::of_uri(is_sips, named) else { return NextHop::Unreachable };
    let port = uri.port().unwrap_or(transport.default_port());
    let ip = uri.host().ip();
    if config.domain_or_address(uri, || ip).is_some() {
        return own_hop(config, transport);
    }
    match ip {
        Some(ip) => hop_to(config, SocketAddr::new(ip, port), transport),
        None => match core::str::from_utf8(uri.host().as_bytes()) {
            Ok(host) => {
                let transport = named.map(|_| transport);
                NextHop::Name(HostName { host, port: uri.port(), transport, is_sips })
            }
            Err(_) => NextHop::Unreachable,
        },
    }
}

/// Next hop of a domain by its name alone: its DNS records say which transport and port its servers have.
pub(crate) fn hop_of_domain<'a>(config: &Config, uri: &Uri<'a>) -> NextHop<'a> {
    match hop_of(config, uri) {
        NextHop::Name(host) => NextHop::Name(HostName { port: None, transport: None, ..host }),
        NextHop::Flow(flow) => {
            let transport = if uri.scheme() == Scheme::Sips { Transport::Tls } else { Transport::DEFAULT };
            hop_to(config, SocketAddr::new(flow.remote.ip(), transport.default_port()), transport)
        }
        NextHop::Unreachable => NextHop::Unreachable,
    }
}

/// Next hop of an address.
pub(crate) fn hop_to<'a>(config: &Config, remote: SocketAddr, transport: Transport) -> NextHop<'a> {
    let remote = Flow::canonical(remote);
    if !may_send_to(remote.ip()) || remote.port() == 0 {
        return NextHop::Unreachable;
    }
    if let Some(link) = config.links.as_ref().and_then(|links| links.flow_to(transport, remote)) {
        return NextHop::Flow(link);
    }
    match config.listener_for(transport, remote.ip()) {
        Some(listener) => NextHop::Flow(Flow::new(transport, listener, remote)),
        None => NextHop::Unreachable,
    }
}

/// Next hop of a request for another user of `domains`: this server's own listener, because another shard may be
/// responsible.
fn own_hop<'a>(config: &Config, transport: Transport) -> NextHop<'a> {
    let of_transport = config.listeners_in_use().find(|(_, listener)| listener.transport == transport);
    let Some((id, listener)) = of_transport.or_else(|| config.listeners_in_use().next()) else {
        return NextHop::Unreachable;
    };
    let mut remote = listener.advertised;
    if listener.bound.ip().is_unspecified() {
        let loopback = if remote.is_ipv4() {
            IpAddr::from([127, 0, 0, 1])
        } else {
            IpAddr::V6(core::net::Ipv6Addr::LOCALHOST)
        };
        remote = SocketAddr::new(loopback, listener.bound.port());
    }
    NextHop::Flow(Flow::new(listener.transport, id, remote))
}

/// URI of this server in a Route or Record-Route.
#[derive(Clone, Copy)]
pub(crate) struct OwnUri<'a> {
    pub(crate) host: SentBy<'a>,
    pub(crate) transport: Transport,
    pub(crate) is_sips: bool,
}

/// Appends the value of our Record-Route, or of a Route to this server.
pub(crate) fn write_own_route(
    out: &mut Vec<u8>,
    key: &[u8; 16],
    message: &Message<'_>,
    uri: OwnUri<'_>,
    token: Token,
    made_s: u64,
) {
    let OwnUri { host, transport, is_sips } = uri;
    out.extend_from_slice(if is_sips { b"<sips:" } else { b"<sip:" });
    host.write(out);
    // RFC 5630 §3.1.4: `transport=tls` is for `sip:` URIs only.
    if !(is_sips && transport == Transport::Tls) {
        out.extend_from_slice(transport.uri_parameter().as_bytes());
    }
    out.extend_from_slice(b";lr;rw=");
    token.write(key, message, made_s, out);
    out.push(b'>');
}

/// Hash of everything that is equal when a request comes back unchanged (RFC 3261 §16.6 step 8, RFC 5393 §4.2): a request
/// whose hash is in one of our Vias is in a loop.
///
/// It covers only fields that a request shares with its ACK and its CANCEL, because without state their branch must be
/// the same (RFC 3261 §16.11). It therefore excludes the To tag, and credentials: a request with others has another CSeq.
pub(crate) fn loop_hash(config: &Config, key: &[u8; 16], message: &Message<'_>, routed: &Routed<'_>) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    // A user of `domains` is looked up by name: other parameters or escapes in its URI do not make another target.
    let domain = if routed.is_of_domains { config.domain_of(&routed.uri) } else { None };
    match (domain, routed.uri.user()) {
        (Some(domain), Some(user)) => {
            hash.part(domain.as_bytes());
            hash.part(&unescaped(user));
            // One in a dialog for a GRUU, or with such a Contact, comes back once for the user's shard.
            if !routed.uri.params().as_bytes().is_empty() && gruu::is_in_dialog(&routed.uri) {
                hash.part(b"dialog");
            }
        }
        _ => hash.part(&canonical(&routed.uri)),
    }
    hash.part(message.from().tag().unwrap_or_default());
    hash.part(message.call_id());
    hash.fixed(&message.cseq().number.to_le_bytes());
    // A service in a Route sends the request back with a shorter Route: that is no loop.
    message.values(HeaderName::Route).skip(routed.own_routes).for_each(|route| hash.part(route));
    hash.hasher().finish()
}

/// Vias of this server, the latest first.
pub(crate) fn own_vias<'m>(config: &Config, message: &'m Message<'_>) -> impl Iterator<Item = Via<'m>> {
    let is_marked = |value: &&[u8]| memchr::memmem::find(value, LOOP_MARK).is_some();
    let vias = message.values(HeaderName::Via).take(VIAS_LOOKED_AT_MAX).filter(is_marked);
    vias.filter_map(|value| Via::parse(value).ok()).filter(|via| {
        config.is_own_host(via.host, via.host.ip(), via.port, || Transport::from_token(via.transport))
    })
}

/// Canonical spelling of a URI (RFC 3261 §19.1.4), except for the order of parameters.
fn canonical<'u>(uri: &Uri<'u>) -> Cow<'u, [u8]> {
    let raw = uri.as_bytes();
    if !raw.iter().any(|&byte| byte == b'%' || byte.is_ascii_uppercase()) {
        return Cow::Borrowed(raw);
    }
    let host_at = uri.user().map_or(0, |_| memchr::memchr(b'@', raw).unwrap_or(0));
    let (user, rest) = raw.split_at_checked(host_at).unwrap_or((b"", raw));
    let mut text = unescaped(user).into_owned();
    let host_at = text.len();
    unescape_into(rest, &mut text);
    if let Some(rest) = text.get_mut(host_at..) {
        rest.make_ascii_lowercase();
    }
    Cow::Owned(text)
}

/// Maximum number of Vias that are examined: the default of Max-Forwards (RFC 3261 §8.1.1.6).
const VIAS_LOOKED_AT_MAX: usize = 70;

fn is_ours(config: &Config, uri: &Uri<'_>) -> bool {
    config.domain_of(uri).is_some()
}
