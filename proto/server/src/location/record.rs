//! Stored form of the bindings of an address-of-record.
//!
//! One byte of version, then for each binding its fixed fields and texts, numbers in little-endian. Permanent contacts
//! are not stored here: the administrator's table has them. Version 1 had neither Path nor key of a flow.

use super::binding::{Binding, BindingKey, Kind, Lengths, Terms, Text};
use super::owner::{Owner, RegisteredAt};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use ringway_sansio::{Flow, Instant, ListenerId, Transport};

/// Error of a record that this version cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord;

/// Appends the record of `bindings`; nothing if there are none to store.
pub(crate) fn write(bindings: &[Binding], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(VERSION);
    for binding in bindings.iter().filter(|binding| !binding.is_permanent() && !binding.owner.is_other()) {
        write_binding(binding, b"", out);
    }
    if out.len() == start + 1 {
        out.truncate(start);
    }
}

/// Appends the body of a binding for the store that nodes share; `link` is the Path value to this node, with its
/// [`PATH_END`](super::PATH_END), or empty.
pub(super) fn write_body(binding: &Binding, link: &[u8], out: &mut Vec<u8>) {
    out.push(VERSION);
    write_binding(binding, link, out);
}

/// Reads a body of [`write_body`], of a binding that ends at `expires`, with the Path as it is.
pub(super) fn read_body(body: &[u8], expires: Instant, listeners: usize) -> Result<Stored<'_>, BadRecord> {
    let Some((&VERSION, mut rest)) = body.split_first() else { return Err(BadRecord) };
    let mut stored = Stored::read(&mut rest, listeners)?;
    stored.terms.expires = expires;
    if rest.is_empty() { Ok(stored) } else { Err(BadRecord) }
}

/// Binding as it is stored.
pub(super) struct Stored<'a> {
    pub(super) text: Text<'a>,
    pub(super) terms: Terms,
    /// The first Path value is the link to the node.
    pub(super) has_link: bool,
}

impl<'a> Stored<'a> {
    fn read(rest: &mut &'a [u8], listeners: usize) -> Result<Self, BadRecord> {
        let expires = Instant::from_nanos(u64::from_le_bytes(take(rest)?));
        let cseq = u32::from_le_bytes(take(rest)?);
        let q = u16::from_le_bytes(take(rest)?);
        let [flags, transport, listener] = take(rest)?;
        let ip = Ipv6Addr::from(take::<16>(rest)?);
        let port = u16::from_le_bytes(take(rest)?);
        let remote = Flow::canonical(SocketAddr::new(IpAddr::V6(ip), port));
        let (uri, params, call_id) = (part(rest)?, part(rest)?, part(rest)?);
        let path = if flags & HAS_PATH == 0 { &[][..] } else { part(rest)? };
        let transport = Transport::from_code(transport).ok_or(BadRecord)?;
        let kind = if flags & FLOW_ONLY == 0 { Kind::Dialable } else { Kind::FlowOnly };
        let key = if flags & FLOW_KEY == 0 { BindingKey::Contact } else { BindingKey::Flow };
        let listener = if usize::from(listener) < listeners { listener } else { 0 };
        let flow = Flow::new(transport, ListenerId(listener), remote);
        let (owner, registered) = (Owner::HERE, RegisteredAt::new(Instant::default()));
        let terms = Terms { q, kind, key, cseq, expires, owner, registered, flow };
        Ok(Self { text: Text { uri, params, path, call_id }, terms, has_link: flags & HAS_LINK != 0 })
    }
}

fn write_binding(binding: &Binding, link: &[u8], out: &mut Vec<u8>) {
    let text = binding.text();
    out.extend_from_slice(&binding.expires.as_nanos().to_le_bytes());
    out.extend_from_slice(&binding.cseq.to_le_bytes());
    out.extend_from_slice(&binding.q.to_le_bytes());
    let has_path = !link.is_empty() || !text.path.is_empty();
    let path_flags = if has_path { HAS_PATH } else { 0 } | if link.is_empty() { 0 } else { HAS_LINK };
    out.push(flags_of(binding) | path_flags);
    out.push(binding.flow.transport.code());
    out.push(binding.flow.listener.0);
    let remote = binding.flow.remote;
    let ip = match remote.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&remote.port().to_le_bytes());
    for part in [text.uri, text.params, text.call_id] {
        out.extend_from_slice(&(part.len() as u16).to_le_bytes());
        out.extend_from_slice(part);
    }
    if has_path {
        out.extend_from_slice(&((link.len() + text.path.len()) as u16).to_le_bytes());
        out.extend_from_slice(link);
        out.extend_from_slice(text.path);
    }
}

/// Number of bytes that [`write()`] appends for a binding with texts of these lengths.
pub(crate) const fn bytes_of(lengths: Lengths) -> usize {
    FIXED_BYTES + lengths.texts + if lengths.path == 0 { 0 } else { 2 }
}

/// Reads a record. Expired bindings are omitted, and those that only a connection reached. `listeners` is the number of
/// listeners: the flow of one that is gone moves to the first. No binding ends after `latest`, because the clock may have
/// been set back or the limit lowered.
pub(crate) fn read(
    record: &[u8],
    now: Instant,
    latest: Instant,
    listeners: usize,
) -> Result<Vec<Binding>, BadRecord> {
    let mut bindings = Vec::new();
    let Some((&(FIRST_VERSION..=VERSION), mut rest)) = record.split_first() else {
        return if record.is_empty() { Ok(bindings) } else { Err(BadRecord) };
    };
    while !rest.is_empty() {
        let Stored { text, mut terms, .. } = Stored::read(&mut rest, listeners)?;
        terms.expires = terms.expires.min(latest);
        terms.registered = RegisteredAt::new(now);
        let binding = Binding::new(text, terms).ok_or(BadRecord)?;
        if binding.expires > now && binding.is_reachable() {
            bindings.push(binding);
        }
    }
    Ok(bindings)
}

fn flags_of(binding: &Binding) -> u8 {
    let kind = match binding.kind {
        Kind::FlowOnly => FLOW_ONLY,
        Kind::Dialable | Kind::Permanent => 0,
    };
    let key = match binding.key {
        BindingKey::Flow => FLOW_KEY,
        BindingKey::Contact => 0,
    };
    kind | key
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BadRecord> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(BadRecord)?;
    *rest = tail;
    Ok(*head)
}

fn part<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], BadRecord> {
    let len = usize::from(u16::from_le_bytes(take(rest)?));
    let (head, tail) = rest.split_at_checked(len).ok_or(BadRecord)?;
    *rest = tail;
    Ok(head)
}

const FIRST_VERSION: u8 = 1;
const VERSION: u8 = 2;

const FLOW_ONLY: u8 = 1;
const FLOW_KEY: u8 = 2;
/// The Path follows the Call-ID.
const HAS_PATH: u8 = 4;
/// The first Path value is the link to the node of the binding.
const HAS_LINK: u8 = 8;

/// Bytes of expiry, CSeq, q, flags, transport, listener, address, port and three lengths.
const FIXED_BYTES: usize = 8 + 4 + 2 + 3 + 16 + 2 + 3 * 2;
