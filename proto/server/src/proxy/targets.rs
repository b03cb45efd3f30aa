//! Target set of a request (RFC 3261 §16.5).

use super::limits::Share;
use super::rewrite::Rewrite;
use crate::Config;
use crate::base::{Reach, StageDecision};
use crate::dialog::needs_listener;
use crate::dialog::route::{NextHop, Routed, hop_of};
use crate::location::{Binding, BindingKey, Kind, Offer, has_transport, path_values};
use crate::token::UserHash;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;
use ringway_sansio::{Flow, Instant};
use ringway_sip::{NameAddr, Uri};

/// Target set of a request; its memory is reused for the next request.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// User whose phones the targets are that are added.
    user: UserHash,
    text: Vec<u8>,
    list: Vec<Target>,
}

/// Permission with which the contacts of a target's 3xx are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// That of the request's sender.
    Caller,
    /// The same; the target is a contact of a 3xx.
    Redirected {
        /// Source address of the 3xx.
        by: IpAddr,
    },
    /// The same; the target is that of a forward.
    Forward,
    /// None: a DNS record of the called number is the target.
    Number,
    /// That of the user whose binding the target is, which was made with the user's password.
    CalledUser,
}

/// Reason why a contact is no target of a request (RFC 5630 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SipsMismatch {
    /// The request is for a `sips:` URI, and the contact is not one.
    NotAllowed,
    /// The contact is a `sips:` URI without a TLS connection.
    Required,
}

impl SipsMismatch {
    /// Value of the Warning without its agent (RFC 5630 §6.2).
    pub(super) const fn warning(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::NotAllowed => (b"380 ", b" \"SIPS Not Allowed\""),
            Self::Required => (b"381 ", b" \"SIPS Required\""),
        }
    }
}

/// Target of a request.
#[derive(Clone, Debug)]
pub(super) struct Target {
    uri: Range<usize>,
    /// True if the Request-URI is not changed.
    pub(super) keeps_uri: bool,
    /// Flow that reaches it.
    pub(super) flow: Option<Flow>,
    /// q-value in thousandths.
    pub(super) q: u16,
    pub(super) authority: Authority,
    pub(super) share: Share,
    /// User whose phone it is.
    pub(super) user: UserHash,
    /// Header fields that it adds.
    pub(super) rewrite: Option<Arc<Rewrite>>,
    /// Decision of a stage about its call.
    pub(super) decision: StageDecision,
    /// The other flows of its phone.
    pub(super) flows: Option<Box<OtherFlows>>,
}

/// Flows of a phone that are tried one after another if its target fails (RFC 5626 §7).
#[derive(Clone, Debug)]
pub(super) struct OtherFlows {
    instance: Box<[u8]>,
    /// End of the binding that is the target: the later, the fresher is its flow.
    expires: Instant,
    /// Those that were not tried, the next one first.
    left: VecDeque<StoredTarget>,
}

/// Target with its own memory, as long as its request may be sent later.
#[derive(Clone, Debug)]
pub(super) struct StoredTarget {
    uri: Box<[u8]>,
    keeps_uri: bool,
    flow: Option<Flow>,
    /// q-value in thousandths.
    pub(super) q: u16,
    authority: Authority,
    share: Share,
    user: UserHash,
    rewrite: Option<Arc<Rewrite>>,
    /// Decision of a stage about its call.
    pub(super) decision: StageDecision,
    flows: Option<Box<OtherFlows>>,
}

impl OtherFlows {
    /// Takes the next flow, as a target with the remaining ones.
    pub(super) fn take_next(mut self: Box<Self>) -> Option<StoredTarget> {
        let next = self.left.pop_front()?;
        Some(StoredTarget { flows: Some(self), ..next })
    }
}

impl Target {
    /// Index of its next hop in the list of the configuration.
    pub(super) fn configured_hop(&self) -> Option<usize> {
        self.rewrite.as_deref().and_then(Rewrite::configured_hop)
    }

    /// True if its address may also be reached over a new connection; `uri` is its Request-URI.
    pub(super) fn is_by_address(&self, config: &Config, uri: Option<Uri<'_>>) -> bool {
        self.flow.is_none_or(|flow| uri.is_some_and(|uri| needs_flow(config, &uri, &flow)))
    }

    /// URI of the next hop that it has itself.
    pub(super) fn rewritten_hop(&self) -> Option<Uri<'_>> {
        self.rewrite.as_deref().and_then(Rewrite::next_hop)
    }

    /// URI of the next hop of a request, if it is not the target.
    pub(super) fn next_hop<'t>(&'t self, reach: Reach, routed: &Routed<'t>) -> Option<Uri<'t>> {
        let rewritten = self.rewritten_hop();
        match reach {
            // Further routes led to where the user's phone was.
            Reach::User => rewritten,
            Reach::Anywhere | Reach::OurUsers | Reach::Side(_) | Reach::Flow(_) => {
                rewritten.or(routed.next_route)
            }
        }
    }
}

impl StoredTarget {
    /// Target of the highest preference, with the permission of the caller.
    pub(super) fn of_caller(uri: &[u8]) -> Self {
        Self {
            uri: uri.into(),
            keeps_uri: false,
            flow: None,
            q: Q_MAX,
            authority: Authority::Caller,
            share: Share::default(),
            user: UserHash::NONE,
            rewrite: None,
            decision: StageDecision::ByRule,
            flows: None,
        }
    }

    /// The same for the URI of the request, which is not changed.
    pub(super) fn of_request(uri: &[u8]) -> Self {
        Self { keeps_uri: true, ..Self::of_caller(uri) }
    }

    /// Target with the changes of its request; the one with rank 0 is tried first.
    pub(super) fn ranked(uri: &[u8], keeps_uri: bool, rewrite: Rewrite, rank: u16) -> Self {
        let (q, rewrite) = (Q_MAX.saturating_sub(rank), Some(Arc::new(rewrite)));
        Self { keeps_uri, q, rewrite, ..Self::of_caller(uri) }
    }

    /// True for one of several that are called one after another.
    pub(super) fn is_ranked(&self) -> bool {
        self.configured_hop().is_some()
    }

    /// Target of a forward.
    pub(super) fn new(uri: &[u8], q: u16, share: Share) -> Self {
        let mut written = Vec::with_capacity(uri.len());
        write_as_request_uri(uri, &mut written);
        let authority = Authority::Forward;
        Self {
            uri: written.into(),
            keeps_uri: false,
            flow: None,
            q,
            authority,
            share,
            user: UserHash::NONE,
            rewrite: None,
            decision: StageDecision::ByRule,
            flows: None,
        }
    }

    /// The same for a contact of a 3xx.
    pub(super) fn redirected(uri: &[u8], q: u16, share: Share, by: IpAddr) -> Self {
        Self { authority: Authority::Redirected { by }, ..Self::new(uri, q, share) }
    }

    /// The same with another permission.
    pub(super) fn with_authority(self, authority: Authority) -> Self {
        Self { authority, ..self }
    }

    /// Header fields that it adds, to be extended.
    pub(super) fn rewrite_mut(&mut self) -> &mut Rewrite {
        Arc::make_mut(self.rewrite.get_or_insert_default())
    }

    /// The same with other limits.
    pub(super) fn with_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    pub(super) fn uri(&self) -> &[u8] {
        &self.uri
    }

    /// Index of its next hop in the list of the configuration.
    pub(super) fn configured_hop(&self) -> Option<usize> {
        self.rewrite.as_deref().and_then(Rewrite::configured_hop)
    }

    /// Maximum number of bytes that it adds to its request.
    pub(super) fn rewrite_bytes(&self) -> usize {
        self.rewrite.as_deref().map_or(0, Rewrite::bytes_len)
    }
}

impl Targets {
    /// Set of one target, for a stored request.
    pub(super) fn of_one(target: &StoredTarget) -> Self {
        let mut targets = Self::default();
        targets.push_stored(target);
        targets
    }

    pub(super) fn list(&self) -> &[Target] {
        &self.list
    }

    /// Sets the limits of each target.
    pub(super) fn set_share(&mut self, share: Share) {
        for target in &mut self.list {
            target.share = share;
            let others = target.flows.iter_mut().flat_map(|flows| &mut flows.left);
            others.for_each(|other| other.share = share);
        }
    }

    /// Sets the user whose phones are added from now on.
    pub(super) const fn set_user(&mut self, user: UserHash) {
        self.user = user;
    }

    pub(super) fn sort(&mut self) {
        self.list.sort_by_key(|target| core::cmp::Reverse(target.q));
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.list.clear();
        self.user = UserHash::NONE;
    }

    /// Adds a target of the highest preference.
    pub(super) fn push(&mut self, uri: &[u8], keeps_uri: bool, flow: Option<Flow>) {
        let uri = self.write(uri);
        let (authority, share) = (Authority::Caller, Share::default());
        let (q, user, rewrite, flows) = (Q_MAX, UserHash::NONE, None, None);
        let decision = StageDecision::ByRule;
        self.list.push(Target { uri, keeps_uri, flow, q, authority, share, user, rewrite, decision, flows });
    }

    /// True if the targets have ranks: they are called one after another, and there may be fewer.
    pub(super) fn are_ranked(&self) -> bool {
        self.list.first().is_some_and(|target| target.configured_hop().is_some())
    }

    /// Keeps the only target, or none.
    pub(super) fn keep_only(&mut self) {
        if self.list.len() > 1 {
            self.list.clear();
        }
    }

    /// Keeps this many targets, and at least one; returns their number.
    pub(super) fn keep_first(&mut self, count: usize) -> usize {
        self.list.truncate(count.max(1));
        self.list.len()
    }

    pub(super) fn push_stored(&mut self, target: &StoredTarget) {
        let StoredTarget { uri, keeps_uri, flow, q, authority, share, user, rewrite, decision, flows } =
            target.clone();
        let uri = self.write(&uri);
        self.list.push(Target { uri, keeps_uri, flow, q, authority, share, user, rewrite, decision, flows });
    }

    /// Copies a target out of the set.
    pub(super) fn stored(&self, target: &Target) -> StoredTarget {
        StoredTarget {
            uri: self.uri(target).into(),
            keeps_uri: target.keeps_uri,
            flow: target.flow,
            q: target.q,
            authority: target.authority,
            share: target.share,
            user: target.user,
            rewrite: target.rewrite.clone(),
            decision: target.decision,
            flows: target.flows.clone(),
        }
    }

    /// Number of targets, with the other flows of their phones.
    pub(super) fn flows_len(&self) -> usize {
        let others = self.list.iter().filter_map(|target| target.flows.as_ref());
        self.list.len() + others.map(|flows| flows.left.len()).sum::<usize>()
    }

    /// Maximum number of bytes that the targets add to their requests.
    pub(super) fn rewrite_bytes(&self) -> usize {
        let others = self.list.iter().filter_map(|target| target.flows.as_ref());
        let others = others.flat_map(|flows| &flows.left).map(|target| &target.rewrite);
        let rewrites = self.list.iter().map(|target| &target.rewrite).chain(others);
        rewrites.filter_map(Option::as_deref).map(Rewrite::bytes_len).sum()
    }

    fn write(&mut self, uri: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(uri);
        start..self.text.len()
    }

    /// Adds the target of a binding. A contact that an administrator added too is called only once (RFC 3261 §16.5).
    ///
    /// RFC 5630 §5.3: a `sips:` request goes to `sips:` contacts only; a `sip:` request goes to a `sips:` contact over its
    /// TLS connection, with the scheme `sip:`.
    pub(super) fn push_binding(
        &mut self,
        config: &Config,
        offer: Offer<'_>,
        is_sips: bool,
    ) -> Result<(), SipsMismatch> {
        let Offer { binding, .. } = offer;
        let flow = flow_of(config, binding);
        let of_sips = binding.uri().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"));
        if is_sips && !of_sips {
            return Err(SipsMismatch::NotAllowed);
        }
        if of_sips && !is_sips {
            // Another node has the connection of a binding that is reached over the link to it.
            let over = if binding.owner.is_over_link() { Some(binding.flow) } else { flow };
            over.filter(|flow| flow.transport.carries_sips()).ok_or(SipsMismatch::Required)?;
            let start = self.text.len();
            self.text.extend_from_slice(b"sip:");
            write_as_request_uri(binding.uri().get(5..).unwrap_or_default(), &mut self.text);
            self.place(start, flow, offer);
            return Ok(());
        }
        if let Some(same) = self.index_of(binding.uri())
            && binding.key == BindingKey::Contact
            && let Some(target) = self.list.get_mut(same)
        {
            target.flow = target.flow.or(flow);
            target.q = target.q.max(binding.q);
            if authority_of(binding) == Authority::Caller {
                target.authority = Authority::Caller;
            }
            return Ok(());
        }
        let start = self.text.len();
        write_as_request_uri(binding.uri(), &mut self.text);
        self.place(start, flow, offer);
        Ok(())
    }

    /// Adds a target whose URI begins at `start`. A phone with several flows is one target: the flow that was registered last.
    fn place(&mut self, start: usize, flow: Option<Flow>, Offer { binding, path }: Offer<'_>) {
        let (uri, rewrite) = (start..self.text.len(), path_of(path));
        let (q, authority, share) = (binding.q, authority_of(binding), Share::default());
        let (keeps_uri, user, decision, flows) = (false, self.user, StageDecision::ByRule, None);
        let mut target = Target { uri, keeps_uri, flow, q, authority, share, user, rewrite, decision, flows };
        let Some(key) = binding.flow_key() else { return self.list.push(target) };
        let is_of_instance = |flows: &OtherFlows| *flows.instance == *key.instance;
        let same = self.list.iter().position(|target| target.flows.as_deref().is_some_and(is_of_instance));
        let Some(place) = same else {
            let (instance, expires) = (key.instance.into(), binding.expires);
            target.flows = Some(Box::new(OtherFlows { instance, expires, left: VecDeque::new() }));
            return self.list.push(target);
        };
        let Some(other) = self.list.get_mut(place) else { return };
        let Some(mut flows) = other.flows.take() else { return };
        if binding.expires > flows.expires {
            flows.expires = binding.expires;
            core::mem::swap(other, &mut target);
        }
        flows.left.push_front(self.stored(&target));
        if let Some(target) = self.list.get_mut(place) {
            target.flows = Some(flows);
        }
    }

    fn index_of(&self, contact: &[u8]) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        let contact = Uri::parse(contact).ok()?;
        let is_same = |target: &Target| Uri::parse(self.uri(target)).is_ok_and(|uri| uri.equals(&contact));
        self.list.iter().position(is_same)
    }

    pub(super) fn uri(&self, target: &Target) -> &[u8] {
        self.text.get(target.uri.clone()).unwrap_or_default()
    }
}

/// URI of the target; the received Request-URI if it is not changed.
pub(super) fn target_uri<'t>(targets: &'t Targets, target: &Target, routed: &Routed<'t>) -> Option<Uri<'t>> {
    if target.keeps_uri { Some(routed.uri) } else { Uri::parse(targets.uri(target)).ok() }
}

/// Appends a contact as a Request-URI, without headers and `method`, which a Request-URI must not have (RFC 3261 §16.6
/// step 2, §19.1.1 table 1).
pub(super) fn write_as_request_uri(contact: &[u8], out: &mut Vec<u8>) {
    let parsed = match memchr::memchr2(b'?', b';', contact) {
        Some(_) => Uri::parse(contact).ok(),
        None => None,
    };
    let Some(uri) = parsed else { return out.extend_from_slice(contact) };
    let bare = contact.strip_suffix(uri.headers()).unwrap_or(contact);
    let bare = bare.strip_suffix(b"?").unwrap_or(bare);
    let params = uri.params();
    if !params.has(b"method") {
        return out.extend_from_slice(bare);
    }
    out.extend_from_slice(bare.strip_suffix(params.as_bytes()).unwrap_or(bare));
    for param in params.iter().filter(|param| !param.name.eq_ignore_ascii_case(b"method")) {
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

fn authority_of(binding: &Binding) -> Authority {
    match binding.kind {
        // An administrator's contact is often a server outside, such as a trunk.
        Kind::Permanent => Authority::Caller,
        Kind::FlowOnly | Kind::Dialable => Authority::CalledUser,
    }
}

/// Flow to a binding if the contact's address is not used: an open connection, or the only flow that reaches it.
fn flow_of(config: &Config, binding: &Binding) -> Option<Flow> {
    let transport = binding.flow.transport;
    match binding.kind {
        _ if binding.owner.is_other() => None,
        Kind::Permanent => None,
        Kind::FlowOnly => Some(binding.flow),
        Kind::Dialable if transport.has_connections() && binding.flow.connection.is_some() => {
            let hop = path_values(binding.text().path).next().and_then(|value| NameAddr::parse(value).ok());
            let hop = hop.map(|hop| hop.uri).or_else(|| Uri::parse(binding.uri()).ok());
            hop.is_some_and(|uri| has_transport(&uri, transport)).then_some(binding.flow)
        }
        Kind::Dialable if config.leaves_elsewhere(&binding.flow) && binding.text().path.is_empty() => {
            let uri = Uri::parse(binding.uri()).ok();
            uri.is_some_and(|uri| needs_flow(config, &uri, &binding.flow)).then_some(binding.flow)
        }
        Kind::Dialable => None,
    }
}

/// True if a URI has the address of a flow of datagrams that is reached over this flow only.
pub(super) fn needs_flow(config: &Config, uri: &Uri<'_>, flow: &Flow) -> bool {
    matches!(hop_of(config, uri), NextHop::Flow(hop) if needs_listener(config, &hop, flow))
}

/// Route values of a binding with a Path (RFC 3327 §5.4).
fn path_of(path: &[u8]) -> Option<Arc<Rewrite>> {
    if path.is_empty() {
        return None;
    }
    let mut rewrite = Rewrite::default();
    path_values(path).for_each(|value| rewrite.push_route(value));
    Some(Arc::new(rewrite))
}

/// q-value of targets that are not bindings, in thousandths.
const Q_MAX: u16 = 1000;

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
    targets.push_binding(config, offer, is_sips).ok()?;
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
