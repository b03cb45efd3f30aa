//! Rewriting a request for forwarding (RFC 3261 §16.6).

use super::limits::Share;
use super::rewrite::{Rewrite, Signature};
use super::states::Hidden;
use super::targets::{Authority, StoredTarget, Target, Targets, target_uri};
use crate::Config;
use crate::base::{Env, Grant, Keys, Reach, Request, Sender, StageDecision};
use crate::dialog::edge;
use crate::dialog::gruu::Gruu;
use crate::dialog::route::{LOOP_MARK, OwnUri, Routed, loop_hash, write_own_route};
use crate::dialog::{caller_side, target_hash_on};
use crate::policy::{Border, Permitted, remove_fields};
use crate::token::sources::{SourceHash, Sources};
use crate::token::topology::Outside;
use crate::token::{Identities, Returned, Side, TargetHash, Token, UserHash};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_auth::Covered;
use ringway_sansio::{Defence, Flow, HostNameId, Instant, LocatedServer, PlantedFault, Transport};
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::grammar::{is_lws, is_token_str};
use ringway_sip::{Edit, EditSpace, HeaderName, Malformed, Method, Scheme, Uri, hex16, write_number};

/// Request with its route and its target set.
#[derive(Clone, Copy)]
pub(super) struct Forwarding<'p, 'm, 'a> {
    pub(super) request: &'p Request<'m, 'a>,
    pub(super) routed: &'p Routed<'a>,
    pub(super) targets: &'p Targets,
}

/// Changes of stages to one request, beside those of its target.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Number of its CSeq.
    pub(super) cseq: Option<u32>,
    /// Values of header fields that it has.
    pub(super) values: Vec<(HeaderName, Vec<u8>)>,
    /// Header fields that are removed.
    pub(super) removed: Vec<HeaderName>,
    /// Lines that are added after those of the request.
    pub(super) added: Vec<(HeaderName, Vec<u8>)>,
    /// Header field with credentials.
    pub(super) credentials: Option<(HeaderName, Vec<u8>)>,
    /// Parameters of our Record-Route URI.
    pub(super) route_params: Vec<u8>,
    /// Those of the Route by which the request returns to this server.
    pub(super) own_route_params: Vec<u8>,
    /// Header field that responses get back as its sender has it.
    pub(super) came: Option<(HeaderName, Vec<u8>)>,
    /// Header fields that the next hop may get.
    pub(super) permitted: Permitted,
    /// Credentials that are not its own, by header field and realm.
    pub(super) foreign: Foreign,
    /// Identities in the mark of the dialog that it begins, other than those of any request.
    pub(super) identities: Option<Identities>,
    /// Changes of the whole request, after all others.
    pub(super) border: Border,
    /// Vias of its responses, and whether those hide the inside.
    pub(super) hidden: Option<Box<Hidden>>,
}

/// Credentials of a request for other servers than this one and its next hop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Foreign {
    /// None are known.
    #[default]
    Unknown,
    /// Those with this header field and realm.
    Of(fn(&Config, HeaderName, &[u8]) -> bool),
    /// The next hop gets all, whatever realm they have.
    Passed,
}

impl Changes {
    const NONE: &'static Self = &Self {
        cseq: None,
        values: Vec::new(),
        removed: Vec::new(),
        added: Vec::new(),
        credentials: None,
        route_params: Vec::new(),
        own_route_params: Vec::new(),
        came: None,
        permitted: Permitted::Most,
        foreign: Foreign::Unknown,
        identities: None,
        border: Border::NONE,
        hidden: None,
    };
}

/// Input of a forwarded request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan<'p, 'm, 'a> {
    config: &'p Config,
    keys: &'p Keys,
    now: Instant,
    request: &'p Request<'m, 'a>,
    routed: &'p Routed<'a>,
    targets: &'p Targets,
    target: &'p Target,
    /// Flow of the next hop.
    flow: Flow,
    /// Connection that the request is sent over in place of that flow, for its length.
    over: Option<&'p Flow>,
    changes: &'p Changes,
}

impl<'p, 'm, 'a> Plan<'p, 'm, 'a> {
    pub(super) fn new(
        env: &Env<'p>,
        forwarding: Forwarding<'p, 'm, 'a>,
        target: &'p Target,
        flow: Flow,
    ) -> Self {
        let Forwarding { request, routed, targets } = forwarding;
        Self {
            config: env.config,
            keys: env.keys,
            now: env.cx.now,
            request,
            routed,
            targets,
            target,
            flow,
            over: None,
            changes: Changes::NONE,
        }
    }

    /// The same with changes of stages.
    pub(super) const fn with<'q>(self, changes: &'q Changes) -> Plan<'q, 'm, 'a>
    where
        'p: 'q,
    {
        Plan { changes, ..self }
    }

    /// The same over another flow to the next hop. The dialog stays on the transport of its URIs.
    pub(super) const fn over<'q>(self, over: &'q Flow) -> Plan<'q, 'm, 'a>
    where
        'p: 'q,
    {
        Plan { over: Some(over), ..self }
    }

    /// RFC 3261 §18.1.1: flow of a request that is too long for a datagram; `None`: it has a flow of its own, no connection was
    /// established there within the last hour, there is no listener for TCP, or it goes between a front and a node, whose transport the
    /// configuration chose.
    pub(super) fn over_tcp(&self, env: &Env<'_>) -> Option<Flow> {
        let Flow { transport, remote, .. } = self.flow;
        let is_by_address = || self.target.is_by_address(self.config, self.hop_target());
        let is_of_us = || self.config.is_own_address(remote) || self.config.is_front_or_node(&self.flow);
        if transport != Transport::Udp || !is_by_address() || is_of_us() {
            return None;
        }
        let listener = self.config.listener_for(Transport::Tcp, remote.ip())?;
        let over = Flow { host: self.flow.host, ..Flow::dial(listener, remote) };
        (!env.tables.is_without_tcp(self.now, &server_at(&over))).then_some(over)
    }

    /// Number of its CSeq as it came, if it is changed.
    pub(super) fn caller_cseq(&self) -> Option<u32> {
        self.changes.cseq.map(|_| self.request.message.cseq().number)
    }

    /// Changes that its target makes.
    pub(super) fn rewrite(&self) -> Option<&'p Rewrite> {
        self.target.rewrite.as_deref()
    }

    /// Signature of the caller's identity that it gets.
    pub(super) fn signature(&self) -> Option<Signature> {
        self.rewrite().and_then(Rewrite::signature)
    }

    /// Request-URI that the next hop gets.
    pub(super) fn hop_target(&self) -> Option<Uri<'_>> {
        target_uri(self.targets, self.target, self.routed)
    }

    /// URI in From that its target has.
    pub(super) fn shown_from(&self) -> Option<&'p [u8]> {
        self.rewrite().and_then(Rewrite::from)
    }

    /// Decision of a stage about the call.
    pub(super) const fn decision(&self) -> StageDecision {
        self.target.decision
    }

    /// Route of the request.
    pub(super) const fn routed(&self) -> &'p Routed<'a> {
        self.routed
    }

    /// Index of its next hop in the list of the configuration.
    pub(super) fn configured_hop(&self) -> Option<usize> {
        self.target.configured_hop()
    }

    /// Parts that the digest of its credentials covers, unless the next hop is a strict router.
    pub(super) fn covered(&self) -> Covered<'p> {
        let uri = match self.target.keeps_uri {
            true => self.routed.uri.as_bytes(),
            false => self.targets.uri(self.target),
        };
        Covered { method: self.request.method, uri, body: self.request.message.body() }
    }

    /// Copies the target.
    pub(super) fn stored_target(&self) -> StoredTarget {
        self.targets.stored(self.target)
    }

    /// Contact of the binding that is the target.
    pub(super) fn contact(&self) -> Option<&'p [u8]> {
        (!self.target.keeps_uri).then(|| self.targets.uri(self.target))
    }

    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }

    pub(super) const fn request(&self) -> &'p Request<'m, 'a> {
        self.request
    }

    /// Appends the request with `branch` in our Via, and `alias` if it offers its connection; nothing if it cannot be
    /// written safely. Returns the number of changes that a limit prevented.
    pub(super) fn write(
        &self,
        space: &mut EditSpace,
        branch: &[u8],
        offers_alias: bool,
        out: &mut Vec<u8>,
    ) -> u64 {
        let start = out.len();
        self.write_changed(space, branch, offers_alias, out);
        match self.changes.border.is_without_rules() {
            true => 0,
            false => self.changes.border.apply(self.config, start, out),
        }
    }

    fn write_changed(&self, space: &mut EditSpace, branch: &[u8], offers_alias: bool, out: &mut Vec<u8>) {
        let message = self.request.message;
        let mut edit = Edit::new(message, space);
        self.set_uri(&mut edit);
        for _ in 0..self.routed.own_routes {
            edit.pop_first(HeaderName::Route);
        }
        if self.request.grant.reach == Reach::User {
            edit.remove_lines(HeaderName::Route, |_| true);
        }
        remove_fields(self.request, self.changes.permitted, &mut edit);
        if let Some(rewrite) = &self.target.rewrite {
            rewrite.apply(&mut edit);
        }
        self.rewrite_for_strict_router(&mut edit);
        let lost = u64::from(!PlantedFault::HopsKept.is_planted());
        let hops = message.max_forwards().map_or(MAX_FORWARDS, |hops| u64::from(hops).saturating_sub(lost));
        edit.set_number(HeaderName::MaxForwards, hops);
        let share = self.target.share;
        match message.has(HeaderName::MaxBreadth) {
            true => edit.set_number(HeaderName::MaxBreadth, u64::from(share.breadth)),
            false => edit.push_number_first(HeaderName::MaxBreadth, u64::from(share.breadth)),
        }
        self.set_values(&mut edit);
        self.remove_own_credentials(&mut edit);
        if let Some((name, value)) = &self.changes.credentials {
            edit.push_last(*name, |out| out.extend_from_slice(value));
        }
        let outside =
            self.changes.border.hides.then(|| Outside::new(self.config, &self.keys.hidden, &self.flow));
        self.record_route(&mut edit, outside.as_ref());
        if self.request.method == Method::Register && !self.config.edge_domains.is_empty() {
            self.add_path(&mut edit);
        }
        if self.returns_here() {
            edit.push_first(HeaderName::Route, |out| {
                let uri = self.own_uri(&self.flow);
                let made_s = self.now.as_secs();
                let Grant { sender, dialog, .. } = self.request.grant;
                let (sender, client) = (sender.letter(), self.request.client(self.config));
                let has_own_uri = self.has_own_uri();
                let token = Token::Accepted(Returned { sender, dialog, client, has_own_uri });
                write_own_route(out, &self.keys.route, message, uri, token, made_s);
                add_params(out, &self.changes.own_route_params);
            });
        }
        match &outside {
            None => edit.stamp_via(self.request.flow.remote),
            Some(outside) => {
                outside.hide(message, &mut edit);
                edit.remove_lines(HeaderName::Via, |_| true);
            }
        }
        edit.push_first(HeaderName::Via, |out| {
            self.write_via(branch, share, out);
            out.extend_from_slice(if offers_alias { b";alias" } else { b"" });
        });
        let start = out.len();
        if edit.write_into(out).is_err() {
            out.truncate(start);
        }
    }

    /// URI of a next hop that the request, a redirection or a DNS record chose, and no route, binding, forward or dialog.
    pub(super) fn free_hop(&self) -> Option<Uri<'_>> {
        let is_chosen = self.target.keeps_uri
            || matches!(self.target.authority, Authority::Redirected { .. } | Authority::Number);
        let is_bound = !is_chosen || self.target.flow.is_some() || self.target.configured_hop().is_some();
        match self.request.grant.reach {
            Reach::Side(_) | Reach::User | Reach::Flow(_) => None,
            Reach::Anywhere | Reach::OurUsers if is_bound => None,
            Reach::Anywhere | Reach::OurUsers => self.hop_uri(),
        }
    }

    /// True for a next hop that the request, a redirection or a forward chose, and that must be no inner host.
    pub(super) fn may_not_be_inner(&self) -> bool {
        let is_bound = self.target.flow.is_some() || self.target.configured_hop().is_some();
        match (self.target.authority, self.request.grant.reach) {
            (_, Reach::Side(_) | Reach::Flow(_)) => false,
            (_, Reach::Anywhere | Reach::OurUsers) if is_bound => false,
            // The records of numbers have networks of their own.
            (Authority::Number, _) => false,
            (Authority::Forward, _) => true,
            (Authority::Caller | Authority::CalledUser | Authority::Redirected { .. }, _) => {
                let is_registrar = |hop: &Uri<'_>| self.target.keeps_uri && edge::serves(self.config, hop);
                self.free_hop().is_some_and(|hop| !is_registrar(&hop))
            }
        }
    }

    /// URI that the next hop has: that of a route, or the target's.
    pub(super) fn hop_uri(&self) -> Option<Uri<'_>> {
        self.next_hop().or_else(|| target_uri(self.targets, self.target, self.routed))
    }

    /// URI of the next hop, if it is not the target.
    fn next_hop(&self) -> Option<Uri<'_>> {
        self.target.next_hop(self.request.grant.reach, self.routed)
    }

    fn set_uri(&self, edit: &mut Edit<'_, '_>) {
        if !self.target.keeps_uri {
            edit.set_request_uri(self.targets.uri(self.target));
        } else if self.routed.from_last_route {
            edit.set_request_uri(self.routed.uri.as_bytes());
        }
        if self.routed.from_last_route {
            edit.pop_last(HeaderName::Route);
        }
    }

    fn set_values(&self, edit: &mut Edit<'_, '_>) {
        if let Some(number) = self.changes.cseq {
            write_cseq(edit, number, self.request.method);
        }
        for (name, value) in &self.changes.values {
            edit.set(*name, |out| out.extend_from_slice(value));
        }
        for name in &self.changes.removed {
            edit.remove_lines(*name, |_| true);
        }
        for (name, value) in &self.changes.added {
            edit.push_last(*name, |out| out.extend_from_slice(value));
        }
    }

    /// RFC 3261 §16.6 step 6: a next hop without `lr` becomes the Request-URI, which moves to the last Route.
    fn rewrite_for_strict_router(&self, edit: &mut Edit<'_, '_>) {
        let Some(next) = self.next_hop().filter(|next| !next.is_loose_router()) else { return };
        let uri = edit.request_uri().to_vec();
        edit.pop_first(HeaderName::Route);
        edit.push_last(HeaderName::Route, |out| {
            out.push(b'<');
            out.extend_from_slice(&uri);
            out.push(b'>');
        });
        edit.set_request_uri(next.as_bytes());
    }

    /// RFC 3261 §22.3: removes credentials for our realm. Malformed ones, and those without a realm that are the password
    /// itself (Basic), may be for us too.
    fn remove_own_credentials(&self, edit: &mut Edit<'_, '_>) {
        let is_foreign = |name, realm: &[u8]| match self.changes.foreign {
            Foreign::Of(is_foreign) => is_foreign(self.config, name, realm),
            Foreign::Unknown | Foreign::Passed => false,
        };
        if matches!(self.changes.foreign, Foreign::Passed) || !Defence::OwnCredentials.is_on() {
            return;
        }
        for name in [HeaderName::ProxyAuthorization, HeaderName::Authorization] {
            edit.remove_lines(name, |value| match Credentials::parse(value) {
                Ok(Some(given)) => {
                    let realm = unescape(given.realm);
                    self.config.auth.realms.contain(&realm) || is_foreign(name, &realm)
                }
                Ok(None) => {
                    let scheme = value.split(|&byte| is_lws(byte)).next().unwrap_or_default();
                    !is_token_str(scheme) || scheme.eq_ignore_ascii_case(b"Basic")
                }
                Err(Malformed) => true,
            });
        }
    }

    /// RFC 3261 §16.6 step 4; with an entry for each side if they differ (RFC 5658 §3). One from which the inside is hidden gets its own entry
    /// only.
    fn record_route(&self, edit: &mut Edit<'_, '_>, outside: Option<&Outside<'_>>) {
        let message = self.request.message;
        if !self.config.record_route || !self.begins_dialog() || message.to().tag().is_some() {
            if outside.is_some() {
                edit.remove_lines(HeaderName::RecordRoute, |_| true);
            }
            return;
        }
        let came = self.request.flow;
        let token = Token::Dialog {
            caller: caller_side(self.config, &self.keys.route, self.request),
            callee: self.callee_side(),
            sources: self.sources(),
            identities: Some(self.changes.identities.unwrap_or_else(|| self.identities())),
        };
        let same_side = came.transport == self.flow.transport
            && self.config.sent_by(came.listener, came.remote.ip())
                == self.config.sent_by(self.flow.listener, self.flow.remote.ip());
        if let Some(outside) = outside {
            let mut own = Vec::new();
            if !same_side {
                self.write_record_route(&came, token, &[], &mut own);
            }
            let param = outside.take_routes(message.call_id(), &own, edit);
            return edit.push_first(HeaderName::RecordRoute, |out| {
                self.write_record_route(&self.flow, token, &param, out);
            });
        }
        edit.push_first(HeaderName::RecordRoute, |out| self.write_record_route(&came, token, &[], out));
        if !same_side {
            edit.push_first(HeaderName::RecordRoute, |out| {
                self.write_record_route(&self.flow, token, &[], out);
            });
        }
    }

    /// URI of this server for the side of a flow.
    fn own_uri(&self, flow: &Flow) -> OwnUri<'_> {
        let host = self.config.sent_by(flow.listener, flow.remote.ip());
        OwnUri { host, transport: flow.transport, is_sips: self.is_sips() }
    }

    /// Appends a Record-Route of this server for the side of a flow, with one more parameter.
    fn write_record_route(&self, flow: &Flow, token: Token, param: &[u8], out: &mut Vec<u8>) {
        let (message, made_s) = (self.request.message, self.now.as_secs());
        write_own_route(out, &self.keys.route, message, self.own_uri(flow), token, made_s);
        add_params(out, &self.changes.route_params);
        add_params(out, param);
    }

    /// True for the methods whose requests outside dialogs begin one.
    pub(super) fn begins_dialog(&self) -> bool {
        matches!(self.request.method, Method::Invite | Method::Subscribe | Method::Refer | Method::Notify)
    }

    /// RFC 5626 §5.1: the way back to a phone of another registrar.
    fn add_path(&self, edit: &mut Edit<'_, '_>) {
        if !edge::serves(self.config, self.routed.next_uri()) {
            return;
        }
        let is_first_hop = self.request.message.has_one_via();
        edit.push_first(HeaderName::Path, |out| {
            let (from, to) = (&self.request.flow, &self.flow);
            edge::write_path(self.config, self.keys, from, to, self.now, is_first_hop, out);
        });
    }

    /// Addresses that the sides send from. Without passwords nobody compares them.
    fn sources(&self) -> Sources {
        if !self.config.auth.enabled {
            return Sources::NONE;
        }
        let of = |flow: &Flow| SourceHash::of(&self.keys.route, flow.remote.ip());
        // The address of a connection is not in its number; the token of a flow has it.
        let is_unknown = self.flow.remote.ip().is_unspecified();
        let of_token = if is_unknown { edge::source_of(self.keys, self.routed) } else { None };
        let callee = of_token.unwrap_or_else(|| of(&self.flow));
        Sources { caller: of(&self.request.flow), callee: [callee, SourceHash::NONE] }
    }

    /// Identities of the sides.
    pub(super) fn identities(&self) -> Identities {
        let user_of = |uri: &Uri<'_>| match self.config.domain_of(uri).zip(uri.user()) {
            Some(_) => UserHash::OF_HEADER,
            None => UserHash::NONE,
        };
        let message = self.request.message;
        let caller = match self.request.grant.sender {
            Sender::Proven | Sender::Trusted | Sender::Believed => user_of(&message.from().uri),
            Sender::ProvenUnnamed => UserHash::UNNAMED,
            Sender::InDialog | Sender::Stranger | Sender::Unknown => UserHash::NONE,
        };
        let callee = match self.request.grant.reach {
            Reach::Flow(_) => user_of(&message.to().uri),
            Reach::Anywhere | Reach::OurUsers | Reach::Side(_) | Reach::User => self.target.user,
        };
        Identities { caller, callee, ..Identities::default() }
    }

    /// True if the request needs TLS on every hop (RFC 3261 §26.2.2).
    fn is_sips(&self) -> bool {
        self.routed.uri.scheme() == Scheme::Sips
    }

    /// Callee's side in the mark: the next hop of this request.
    fn callee_side(&self) -> Side {
        let key = &self.keys.route;
        if self.target.flow.is_none() {
            return Side::Contact(TargetHash::of_flow(key, &self.flow));
        }
        match (self.flow.connection, self.flow.transport.has_connections()) {
            (Some(connection), _) => {
                let contact = Uri::parse(self.targets.uri(self.target)).ok();
                let hash =
                    contact.and_then(|uri| target_hash_on(self.config, key, &uri, self.flow.remote.ip()));
                Side::Connection(connection, self.flow.listener, hash.unwrap_or(TargetHash::NONE))
            }
            (None, false) => Side::Address(self.flow.listener, self.flow.remote),
            (None, true) => Side::Contact(TargetHash::of_flow(key, &self.flow)),
        }
    }

    /// True if this server made the URI of the target, for the phone of a side or of a temporary GRUU. Others may have its parameters too.
    fn has_own_uri(&self) -> bool {
        self.request.grant.reach == Reach::User
            || (self.config.registrar.gruu
                && matches!(Gruu::of(&self.keys.gruu, &self.routed.uri, false), Some(Gruu::Temporary(_))))
    }

    /// True for a request that this server sends to itself, for a user of another shard.
    pub(super) fn returns_here(&self) -> bool {
        self.config.is_own_address(self.flow.remote) && self.goes_to_this_server()
    }

    fn goes_to_this_server(&self) -> bool {
        let is_for_users = match self.target.keeps_uri {
            true => self.routed.is_of_domains,
            false => Uri::parse(self.targets.uri(self.target))
                .is_ok_and(|uri| self.config.domain_of(&uri).is_some()),
        };
        self.next_hop().is_none()
            && !matches!(self.request.grant.reach, Reach::Side(_) | Reach::Flow(_))
            && is_for_users
    }

    fn write_via(&self, branch: &[u8], share: Share, out: &mut Vec<u8>) {
        let over = self.over.unwrap_or(&self.flow);
        out.extend_from_slice(b"SIP/2.0/");
        out.extend_from_slice(over.transport.via_token().as_bytes());
        out.push(b' ');
        self.config.sent_by(over.listener, over.remote.ip()).write(out);
        out.extend_from_slice(b";rport;spirals=");
        write_number(out, u64::from(share.spirals));
        out.extend_from_slice(b";branch=");
        out.extend_from_slice(branch);
        out.extend_from_slice(LOOP_MARK);
        let message = self.request.message;
        out.extend_from_slice(&hex16(loop_hash(self.config, &self.keys.looped, message, self.routed)));
    }
}

/// Adds parameters to the URI of a value that ends with it.
fn add_params(out: &mut Vec<u8>, params: &[u8]) {
    if !params.is_empty() && out.pop().is_some() {
        out.extend_from_slice(params);
        out.push(b'>');
    }
}

/// The next hop of a flow, as the table of those that failed has it.
pub(super) const fn server_at(flow: &Flow) -> LocatedServer {
    LocatedServer::new(flow.transport, flow.remote, HostNameId::NONE)
}

/// Sets the number of a CSeq.
pub(super) fn write_cseq(edit: &mut Edit<'_, '_>, number: u32, method: Method<'_>) {
    edit.set(HeaderName::CSeq, |out| {
        write_number(out, u64::from(number));
        out.push(b' ');
        out.extend_from_slice(method.as_bytes());
    });
}

/// Value for requests without one (RFC 3261 §16.6 step 3).
const MAX_FORWARDS: u64 = 70;
