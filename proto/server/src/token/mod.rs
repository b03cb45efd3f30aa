//! Mark in our Record-Route: proof that this server accepted the beginning of a dialog, with the time and the addresses
//! of both sides (like the flow tokens of RFC 5626 §5.3).
//!
//! `rw=` MAC TIME `.` caller `.` callee SOURCES. TIME is in seconds since the epoch. A side is one of: `p` and the hash of its
//! remote target; the number of a connection, `c`, its listener, `p` and such a hash; `n`, or `t` of a trunk or a trusted proxy,
//! the hash of a host name and that of an address;
//! `u`, listener and address of a datagram flow. SOURCES are the addresses that the sides send from
//! ([`Sources`]), or nothing, and who they are ([`Identities`]). The hash is keyed and covers host, port and transport; 0 is none. The
//! MAC also covers the Call-ID, the caller's tag and both users, so that a mark is valid for one dialog between these two
//! users, and the tags show which side sends.

pub(crate) mod caller_uri;
pub(crate) mod hidden;
mod identity;
pub(crate) mod sealed;
pub(crate) mod sender;
pub(crate) mod sources;
pub(crate) mod topology;

pub(crate) use identity::{Answer, Identities, TagHash, UriHash, UserHash};

use crate::token::sources::{SourceHash, Sources};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::Range;
use ringway_sansio::{ConnectionId, Defence, Flow, Instant, ListenerId, PartHasher, Transport};
use ringway_sip::{Message, NameAddr, Uri, hex16, read_hex, write_hex};
use siphasher::sip::SipHasher13;

/// Parameter of our Record-Route URI with the mark.
pub(crate) const TOKEN: &[u8] = b"rw";
/// The same as it is written.
pub(crate) const WRITTEN_TOKEN: &[u8; 4] = b";rw=";

/// Keyed hash of a remote target: address or host name, port and transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetHash(u32);

/// Address of one side of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Its remote target has this hash.
    Contact(TargetHash),
    /// Its remote target is a host name: any public address of the name, or the address with the hash `contact`. Only a trunk or a
    /// trusted proxy may name the address of one: they call for this server, past its destination rules.
    Named { name: TargetHash, contact: TargetHash, is_believed: bool },
    /// This connection, of this listener; after its end, the remote target with this hash.
    Connection(ConnectionId, ListenerId, TargetHash),
    /// Address of its datagrams.
    Address(ListenerId, SocketAddr),
}

/// Permission that a request had when this server sent it to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    /// Letter of its sender; 0: the mark is of the earlier form.
    pub(crate) sender: u8,
    /// Side of its dialog that sent it: the mark, with the last bit for the caller.
    pub(crate) dialog: Option<u64>,
    /// Address that its limits count for.
    pub(crate) client: IpAddr,
    /// This server wrote its Request-URI.
    pub(crate) has_own_uri: bool,
}

/// Content of a mark that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Mark of a dialog.
    Dialog {
        /// Side that sent the first request.
        caller: Side,
        /// The other side.
        callee: Side,
        /// Addresses that they send from.
        sources: Sources,
        /// Their identities; `None`: the earlier form.
        identities: Option<Identities>,
    },
    /// Mark of an accepted request that this server sends to itself.
    Accepted(Returned),
}

/// Content of a valid mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The request belongs to a dialog of this server.
    Dialog {
        /// Side that the request is for.
        to: Side,
        /// Side that sends it.
        from: Side,
        /// Addresses that this side sends from.
        senders: [SourceHash; 2],
        /// Identifies the mark.
        id: u64,
        /// Time of its creation in seconds since the epoch.
        made_s: u64,
        /// The side that began the dialog sends it.
        is_of_caller: bool,
        /// Identities of the sides; `None`: the earlier form.
        identities: Option<Identities>,
    },
    /// This server accepted the request before.
    Accepted {
        /// Time of that in seconds since the epoch.
        made_s: u64,
        /// Permission that it had.
        returned: Returned,
    },
}

/// Sides of a mark, which is not verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) caller: Side,
    pub(crate) callee: Side,
    pub(crate) sources: Sources,
    pub(crate) identities: Option<Identities>,
}

impl TargetHash {
    /// Hash of no remote target.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(key: &[u8; 16], transport: Transport, remote: SocketAddr) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"target");
        hash.bytes(transport.name().as_bytes());
        match remote.ip() {
            IpAddr::V4(v4) => hash.fixed(&v4.octets()),
            IpAddr::V6(v6) => hash.fixed(&v6.octets()),
        }
        hash.fixed(&remote.port().to_le_bytes());
        Self((hash.hasher().finish() as u32).max(1))
    }

    pub(crate) fn of_name(key: &[u8; 16], transport: Transport, host: &str, port: u16) -> Self {
        let mut hash = SipHasher13::new_with_key(key);
        hash.write(b"name");
        hash.write(transport.name().as_bytes());
        host.bytes().for_each(|byte| hash.write_u8(byte.to_ascii_lowercase()));
        hash.write_u16(port);
        Self((hash.finish() as u32).max(1))
    }

    pub(crate) fn of_flow(key: &[u8; 16], flow: &Flow) -> Self {
        Self::of(key, flow.transport, flow.remote)
    }

    /// True if the callee's side in a mark, which is not verified, is [`Side::Contact`] with this hash.
    pub(crate) fn is_written_for_callee(self, token: &[u8]) -> bool {
        Written::of_token(token).is_some_and(|written| written.callee == Side::Contact(self))
    }
}

impl Side {
    /// Caller's side in the mark of a request that this server sent to itself: the mark that it had then.
    pub(crate) const fn before(mark: u64) -> Self {
        Self::Contact(TargetHash(mark as u32 | 1))
    }

    /// Hash of the address that reaches the side without a flow.
    pub(crate) const fn target(self) -> TargetHash {
        match self {
            Self::Contact(target) | Self::Connection(_, _, target) | Self::Named { contact: target, .. } => {
                target
            }
            Self::Address(..) => TargetHash::NONE,
        }
    }

    /// Appends the text of the side.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Contact(target) => {
                out.push(b'p');
                write_hex(out, u64::from(target.0), 8);
            }
            Self::Named { name, contact, is_believed } => {
                out.push(if is_believed { b't' } else { b'n' });
                write_hex(out, u64::from(name.0), 8);
                write_hex(out, u64::from(contact.0), 8);
            }
            Self::Connection(connection, listener, target) => {
                write_hex(out, connection.0, 1);
                out.push(b'c');
                write_hex(out, u64::from(listener.0), 2);
                out.push(b'p');
                write_hex(out, u64::from(target.0), 8);
            }
            Self::Address(listener, remote) => {
                out.push(b'u');
                write_hex(out, u64::from(listener.0), 2);
                write_hex(out, u64::from(remote.port()), 4);
                write_ip(remote.ip(), out);
            }
        }
    }

    /// Reads the text of a side, which is not verified.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        if let Some((kind @ (b'n' | b't'), hashes)) = text.split_first() {
            let (name, contact) = hashes.split_at_checked(8)?;
            let is_believed = *kind == b't';
            let target = |digits| Some(TargetHash(u32::try_from(read_hex(digits)?).ok()?));
            return Some(Self::Named { name: target(name)?, contact: target(contact)?, is_believed });
        }
        let Some(address) = text.strip_prefix(b"u") else {
            let at = text.iter().position(|&byte| byte == b'p')?;
            let target = TargetHash(u32::try_from(read_hex(text.get(at + 1..)?)?).ok()?);
            return match text.get(..at)? {
                [] => Some(Self::Contact(target)),
                connection => {
                    let (rest, listener) = connection.split_last_chunk::<2>()?;
                    let number = ConnectionId(read_hex(rest.strip_suffix(b"c")?)?);
                    let listener = ListenerId(u8::try_from(read_hex(listener)?).ok()?);
                    Some(Self::Connection(number, listener, target))
                }
            };
        };
        let (listener, address) = address.split_at_checked(2)?;
        let (port, ip) = address.split_at_checked(4)?;
        let listener = ListenerId(u8::try_from(read_hex(listener)?).ok()?);
        Some(Self::Address(listener, SocketAddr::new(read_ip(ip)?, u16::try_from(read_hex(port)?).ok()?)))
    }
}

impl Token {
    /// Appends the value of the parameter, created at `made_s` seconds since the epoch. `message` is the request that
    /// begins the dialog, or a response to it.
    pub(crate) fn write(self, key: &[u8; 16], message: &Message<'_>, made_s: u64, out: &mut Vec<u8>) {
        let start = out.len();
        write_hex(out, 0, 16);
        write_hex(out, made_s, TIME_DIGITS);
        match self {
            Self::Accepted(returned) => write_returned(returned, out),
            Self::Dialog { caller, callee, sources, identities } => {
                out.push(b'.');
                caller.write(out);
                out.push(b'.');
                callee.write(out);
                sources.write(out);
                if let Some(identities) = identities {
                    identities.write(out);
                }
            }
        }
        let sides = out.get(start + 16..).unwrap_or_default();
        let digits = hex16(mac(key, message, message.from(), message.to(), sides));
        if let Some(mac) = out.get_mut(start..start + 16) {
            mac.copy_from_slice(&digits);
        }
    }
}

impl Mark {
    /// Verifies the mark in `uri`, which is a URI of this server; `None` if it is not valid for the dialog of `message`.
    pub(crate) fn read(key: &[u8; 16], message: &Message<'_>, uri: &Uri<'_>) -> Option<Self> {
        let token = uri.params().value(TOKEN)?;
        let (id, covered) = (read_id(token)?, token.get(16..)?);
        let (time, sides) = covered.split_at_checked(TIME_DIGITS)?;
        let made_s = read_hex(time)?;
        let (from, to) = (message.from(), message.to());
        let is_of = |caller: &NameAddr<'_>, callee: &NameAddr<'_>| {
            id == mac(key, message, caller, callee, covered) || !Defence::DialogMark.is_on()
        };
        if let Some(returned) = read_returned(sides) {
            return is_of(from, to).then_some(Self::Accepted { made_s, returned });
        }
        let Written { caller, callee, sources, identities } = Written::read(sides)?;
        if is_of(from, to) {
            let senders = [sources.caller, SourceHash::NONE];
            let (to, from, is_of_caller) = (callee, caller, true);
            return Some(Self::Dialog { to, from, senders, id, made_s, is_of_caller, identities });
        }
        let is_from_callee = to.tag().is_some() && is_of(to, from);
        let senders = sources.callee;
        is_from_callee.then_some(Self::Dialog {
            to: caller,
            from: callee,
            senders,
            id,
            made_s,
            is_of_caller: false,
            identities,
        })
    }

    /// True if the mark is not older than `lifetime`. A clock that was set back does not end a dialog.
    pub(crate) fn is_younger_than(self, now: Instant, lifetime: core::time::Duration) -> bool {
        let (Self::Dialog { made_s, .. } | Self::Accepted { made_s, .. }) = self;
        now.as_secs().abs_diff(made_s) <= lifetime.as_secs()
    }
}

impl Written {
    /// Reads a whole mark.
    pub(crate) fn of_token(token: &[u8]) -> Option<Self> {
        Self::read(token.get(16 + TIME_DIGITS..)?)
    }

    fn read(text: &[u8]) -> Option<Self> {
        let mut parts = text.strip_prefix(b".")?.split(|&byte| byte == b'.');
        let (caller, callee) = (Side::read(parts.next()?)?, Side::read(parts.next()?)?);
        // Servers of earlier versions recorded no addresses, and then no users.
        let mut written = Self { caller, callee, sources: Sources::NONE, identities: None };
        let mut part = parts.next();
        if let Some(sources) = part.filter(|part| !part.starts_with(b"x")) {
            written.sources = Sources::read(sources)?;
            part = parts.next();
        }
        if let Some(identities) = part {
            written.identities = Some(Identities::read(identities)?);
        }
        parts.next().is_none().then_some(written)
    }
}

/// Position of the value of a parameter of ours, written `;name=`, in a Route: without parsing it. Ours are the last ones.
#[inline]
pub(crate) fn written_param(route: &[u8], name: &[u8; 4]) -> Option<Range<usize>> {
    let is_it = |at: &usize| route.get(*at..).and_then(|rest| rest.first_chunk()) == Some(name);
    let start = memchr::memrchr_iter(b';', route).find(is_it)? + name.len();
    let rest = route.get(start..)?;
    let len = memchr::memchr2(b';', b'>', rest).unwrap_or(rest.len());
    Some(start..start + len)
}

/// Number of a mark, which is not verified.
pub(crate) fn read_id(token: &[u8]) -> Option<u64> {
    read_hex(token.get(..16)?)
}

fn write_ip(ip: IpAddr, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(v4) => write_hex(out, u64::from(v4.to_bits()), 8),
        IpAddr::V6(v6) => {
            write_hex(out, (v6.to_bits() >> 64) as u64, 16);
            write_hex(out, v6.to_bits() as u64, 16);
        }
    }
}

fn read_ip(text: &[u8]) -> Option<IpAddr> {
    if text.len() == 8 {
        return Some(IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(read_hex(text)?).ok()?)));
    }
    let (high, low) = text.split_at_checked(16)?;
    let bits = (u128::from(read_hex(high)?) << 64) | u128::from(read_hex(low)?);
    Some(IpAddr::V6(Ipv6Addr::from_bits(bits)))
}

/// Appends `.r`, the letter of the sender, a capital one if the Request-URI is ours, and its client; before that, in a dialog, `.` and the mark of that. No side begins with `r`.
fn write_returned(returned: Returned, out: &mut Vec<u8>) {
    let Returned { sender, dialog, client, has_own_uri } = returned;
    out.extend_from_slice(RETURNED);
    out.push(if has_own_uri { sender.to_ascii_uppercase() } else { sender });
    if let Some(mark) = dialog {
        out.push(b'.');
        write_hex(out, mark, 16);
    }
    write_ip(client, out);
}

fn read_returned(text: &[u8]) -> Option<Returned> {
    if text == EARLIER_RETURNED {
        let client = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        return Some(Returned { sender: 0, dialog: None, client, has_own_uri: true });
    }
    let (&sender, rest) = text.strip_prefix(RETURNED)?.split_first()?;
    let (dialog, client) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let (mark, client) = rest.split_at_checked(16)?;
            (Some(read_hex(mark)?), client)
        }
        None => (None, rest),
    };
    let has_own_uri = sender.is_ascii_uppercase();
    Some(Returned { sender: sender.to_ascii_lowercase(), dialog, client: read_ip(client)?, has_own_uri })
}

fn mac(
    key: &[u8; 16],
    message: &Message<'_>,
    caller: &NameAddr<'_>,
    callee: &NameAddr<'_>,
    sides: &[u8],
) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    for part in [message.call_id(), caller.tag().unwrap_or_default(), sides] {
        hash.part(part);
    }
    for uri in [&caller.uri, &callee.uri] {
        let (user, host) = match uri.is_sip() {
            true => (uri.user().unwrap_or_default(), uri.host().as_bytes()),
            false => (uri.as_bytes(), &[][..]),
        };
        hash.part(user);
        hash.part_without_case(host);
    }
    hash.hasher().finish()
}

const RETURNED: &[u8] = b".r";
/// Servers of earlier versions wrote nothing behind it.
const EARLIER_RETURNED: &[u8] = b".a";

/// Sufficient until the year 2106.
const TIME_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sip::Limits;

    const KEY: [u8; 16] = [7; 16];

    fn message(from: &str, to: &str) -> Vec<u8> {
        let text = "BYE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: ";
        alloc::format!("{text}{from}\r\nTo: {to}\r\nCall-ID: 1\r\nCSeq: 1 BYE\r\n\r\n").into_bytes()
    }

    fn read(token: &[u8], from: &str, to: &str) -> Option<Mark> {
        let bytes = message(from, to);
        let message = Message::parse(&bytes, &Limits::default()).unwrap();
        let uri = [b"sip:h;rw=", token].concat();
        Mark::read(&KEY, &message, &Uri::parse(&uri).unwrap())
    }

    #[test]
    fn each_side_gets_the_address_of_the_other() {
        let address = |text: &str| Side::Address(ListenerId(3), text.parse().unwrap());
        let sides = [
            Side::Contact(TargetHash::NONE),
            Side::Named { name: TargetHash(1), contact: TargetHash(u32::MAX), is_believed: false },
            Side::Named { name: TargetHash(1), contact: TargetHash(2), is_believed: true },
            Side::Connection(ConnectionId(1), ListenerId(2), TargetHash(7)),
            Side::Connection(ConnectionId(u64::MAX), ListenerId(255), TargetHash(u32::MAX)),
            Side::Connection(ConnectionId(0xa1), ListenerId(10), TargetHash(0xaaaa_aaaa)),
            address("198.51.100.7:31337"),
            address("[2001:db8::7]:1"),
            address("0.0.0.1:65535"),
        ];
        let first = message("<sip:a@b>;tag=x", "<sip:c@d>");
        let first = Message::parse(&first, &Limits::default()).unwrap();
        for caller in sides {
            for callee in sides {
                let mut token = Vec::new();
                let (sources, identities) = (Sources::NONE, Some(Identities::default()));
                Token::Dialog { caller, callee, sources, identities }.write(
                    &KEY,
                    &first,
                    1_800_000_000,
                    &mut token,
                );
                let sides = |mark: Option<Mark>| match mark {
                    Some(Mark::Dialog { to, from, made_s: 1_800_000_000, .. }) => Some((to, from)),
                    Some(_) | None => None,
                };
                let from_caller = read(&token, "<sip:a@B>;tag=x", "<sip:c@d>;tag=y");
                assert_eq!(sides(from_caller), Some((callee, caller)));
                let from_callee = read(&token, "<sip:c@d>;tag=y", "<sip:a@b>;tag=x");
                assert_eq!(sides(from_callee), Some((caller, callee)));
                assert_eq!(read(&token, "<sip:a@b>;tag=y", "<sip:c@d>;tag=z"), None, "another dialog");
                assert_eq!(read(&token, "<sip:e@b>;tag=x", "<sip:c@d>;tag=y"), None, "another caller");
                assert_eq!(read(&token, "<sip:a@b>;tag=x", "<sip:e@d>;tag=y"), None, "another callee");
            }
        }
    }

    #[test]
    fn the_callee_of_a_mark_is_found_at_its_end() {
        let first = message("<sip:a@b>;tag=x", "<sip:c@d>");
        let first = Message::parse(&first, &Limits::default()).unwrap();
        let is_found = |callee: Side| {
            let caller = Side::Contact(TargetHash(7));
            let ip = SourceHash::of(&KEY, IpAddr::V4(Ipv4Addr::LOCALHOST));
            let found =
                [Sources::NONE, Sources { caller: ip, callee: [ip, SourceHash::NONE] }].map(|sources| {
                    let token_of = |identities| {
                        let mut token = Vec::new();
                        let content = Token::Dialog { caller, callee, sources, identities };
                        content.write(&KEY, &first, 1_800_000_000, &mut token);
                        token
                    };
                    let (with, without) = (token_of(Some(Identities::default())), token_of(None));
                    assert_eq!(
                        TargetHash(7).is_written_for_callee(&with),
                        TargetHash(7).is_written_for_callee(&without)
                    );
                    TargetHash(7).is_written_for_callee(&with)
                });
            assert_eq!(found[0], found[1]);
            found[0]
        };
        assert!(is_found(Side::Contact(TargetHash(7))));
        assert!(!is_found(Side::Contact(TargetHash(8))));
        assert!(
            !is_found(Side::Connection(ConnectionId(1), ListenerId(2), TargetHash(7))),
            "its connection is recorded too"
        );
        assert!(!is_found(Side::Named { name: TargetHash(1), contact: TargetHash(7), is_believed: false }));
        assert!(!TargetHash(7).is_written_for_callee(b"p00000007"));
    }

    #[test]
    fn the_mark_shows_the_addresses_of_the_sender() {
        let first = message("<sip:a@b>;tag=x", "<sip:c@d>");
        let first = Message::parse(&first, &Limits::default()).unwrap();
        let hash = |number| SourceHash::of(&KEY, IpAddr::V4(Ipv4Addr::from_bits(number)));
        let sources = Sources { caller: hash(1), callee: [hash(2), hash(3)] };
        let side = Side::Contact(TargetHash(8));
        let mut token = Vec::new();
        let content = Token::Dialog { caller: side, callee: side, sources, identities: None };
        content.write(&KEY, &first, 7, &mut token);
        let senders = |from, to| match read(&token, from, to) {
            Some(Mark::Dialog { senders, .. }) => senders,
            other => panic!("{other:?}"),
        };
        assert_eq!(senders("<sip:a@b>;tag=x", "<sip:c@d>;tag=y"), [hash(1), SourceHash::NONE]);
        assert_eq!(senders("<sip:c@d>;tag=y", "<sip:a@b>;tag=x"), [hash(2), hash(3)]);
        assert_eq!(Written::of_token(&token).unwrap().sources, sources);
        token.truncate(token.len() - 1);
        assert_eq!(read(&token, "<sip:a@b>;tag=x", "<sip:c@d>;tag=y"), None, "the MAC covers them");
    }

    #[test]
    fn the_kinds_of_marks_are_distinguished() {
        let first = message("<sip:a@b>;tag=x", "<sip:c@d>");
        let first = Message::parse(&first, &Limits::default()).unwrap();
        let mut token = Vec::new();
        for sender in [b'p', b's'] {
            for dialog in [None, Some(0), Some(u64::MAX)] {
                for client in ["192.0.2.1", "0.0.0.0", "2001:db8::1"] {
                    let has_own_uri = dialog.is_some();
                    let client = client.parse().unwrap();
                    let returned = Returned { sender, dialog, client, has_own_uri };
                    token.clear();
                    Token::Accepted(returned).write(&KEY, &first, 7, &mut token);
                    let mark = Some(Mark::Accepted { made_s: 7, returned });
                    assert_eq!(read(&token, "<sip:a@b>;tag=x", "<sip:c@d>"), mark);
                    token.pop();
                    assert_eq!(read(&token, "<sip:a@b>;tag=x", "<sip:c@d>"), None, "the MAC covers them");
                }
            }
        }
        assert_eq!(read(&token[..16], "<sip:a@b>;tag=x", "<sip:c@d>"), None);
        for bad in
            ["0", "0.0.0", ".a", "x", "0000000000000000.", "0000000000000000.0", "0000000000000000.u.u"]
        {
            assert_eq!(read(bad.as_bytes(), "<sip:a@b>;tag=x", "<sip:c@d>;tag=y"), None, "{bad}");
        }
    }
}
