//! Shard of a message, found without parsing it.
//!
//! A REGISTER belongs to the user of its To, any other request to the user of its Request-URI, a response to the shard in
//! our branch, a STUN message to any shard. Users are assigned by a keyed hash, so that a peer cannot choose a shard to overload. CANCEL and the ACK
//! of a failed INVITE have the Request-URI of the INVITE, so they belong to the same shard.

use crate::Number;
use crate::config::domain;
use core::hash::Hasher;
use ringway_sansio::ShardKey;
use ringway_sip::grammar::unescaped_octet;
use ringway_sip::{HeaderName, NameAddr, Scheme, Uri, peek_header, peek_last_header};
use siphasher::sip::SipHasher13;

/// Shard of a user, whose name has no escapes.
pub fn shard_of_user(key: &ShardKey, user: &[u8], shards: u16) -> u16 {
    let mut hash = SipHasher13::new_with_key(key.bytes());
    hash.write(user);
    reduce(hash, shards)
}

/// Shard of the user of `user@domain`, as [`shard_of_user`] has it.
pub fn shard_of_aor(key: &ShardKey, aor: &[u8], shards: u16) -> u16 {
    shard_of_user(key, domain::split(aor).map_or(aor, |(user, _)| user), shards)
}

pub(crate) fn shard_of_message(key: &ShardKey, bytes: &[u8], shards: u16) -> u16 {
    if shards <= 1 {
        return 0;
    }
    if bytes.starts_with(b"SIP/") {
        return ringway_transaction::shard_of_response(bytes).map_or(0, |shard| shard % shards);
    }
    shard_of_request(key, bytes, shards).unwrap_or_else(|| shard_of_stun(key, bytes, shards))
}

/// Shard of anything else that may be answered: any is right, and all of them share the load.
fn shard_of_stun(key: &ShardKey, bytes: &[u8], shards: u16) -> u16 {
    let mut hash = SipHasher13::new_with_key(key.bytes());
    hash.write(bytes.get(..STUN_HEADER_BYTES).unwrap_or(bytes));
    reduce(hash, shards)
}

const STUN_HEADER_BYTES: usize = 20;

fn shard_of_request(key: &ShardKey, bytes: &[u8], shards: u16) -> Option<u16> {
    let line_end = memchr::memchr(b'\r', bytes)?;
    let mut words = bytes.get(..line_end)?.split(|&byte| byte == b' ');
    let (method, uri) = (words.next()?, words.next()?);
    if method == b"REGISTER" {
        let to = peek_header(bytes, HeaderName::To)?;
        return match plain_user(to) {
            Some(user) => Some(shard_of_user(key, user, shards)),
            None => Some(shard_of_uri(key, &NameAddr::parse(to).ok()?.uri, shards)),
        };
    }
    let uri = Uri::parse(uri).ok()?;
    // A strict router put our Record-Route into the Request-URI; the target is in the last Route (RFC 3261 §16.4).
    if uri.user().is_none() && uri.params().has(crate::token::TOKEN) {
        let last = peek_last_header(bytes, HeaderName::Route)?;
        return Some(shard_of_uri(key, &NameAddr::parse(last).ok()?.uri, shards));
    }
    Some(shard_of_uri(key, &uri, shards))
}

/// User of a To in the usual form `<sip:user@host>`, without parsing the rest. `None` for any other form.
fn plain_user(to: &[u8]) -> Option<&[u8]> {
    let rest = to.strip_prefix(b"<sip:").or_else(|| to.strip_prefix(b"sip:"))?;
    let end =
        rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'.' | b'-' | b'_'))?;
    let (user, host_on) = rest.split_at_checked(end)?;
    (!user.is_empty() && host_on.starts_with(b"@")).then_some(user)
}

fn shard_of_uri(key: &ShardKey, uri: &Uri<'_>, shards: u16) -> u16 {
    let number = (uri.scheme() == Scheme::Tel).then(|| Number::of_uri(uri)).flatten();
    if let Some((number, _)) = number {
        return shard_of_user(key, number.as_bytes(), shards);
    }
    let mut hash = SipHasher13::new_with_key(key.bytes());
    let mut user = uri.user().unwrap_or(uri.as_bytes());
    while let Some((octet, used)) = unescaped_octet(user) {
        hash.write_u8(octet);
        user = user.get(used..).unwrap_or_default();
    }
    reduce(hash, shards)
}

fn reduce(hash: SipHasher13, shards: u16) -> u16 {
    (hash.finish() % u64::from(shards.max(1))) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    fn key(number: u64) -> ShardKey {
        ShardKey::new(&Seed::from_number(number))
    }

    /// Names that share a shard under one key are distributed under another, so that they cannot be computed without the
    /// key.
    #[test]
    fn the_shard_of_a_user_depends_on_the_key() {
        let names = (0..10_000_u32).map(|number| alloc::format!("user{number}"));
        let of_one_shard: alloc::vec::Vec<_> =
            names.filter(|name| shard_of_user(&key(1), name.as_bytes(), 16) == 3).collect();
        let hit = of_one_shard.iter().filter(|name| shard_of_user(&key(2), name.as_bytes(), 16) == 3).count();
        assert!(of_one_shard.len() > 400 && hit * 8 < of_one_shard.len(), "{hit} of {}", of_one_shard.len());
    }

    #[test]
    fn one_user_is_in_one_shard_in_every_spelling() {
        let register = b"REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nt: \"x@y\" <sip:%61lice@example.org>\r\n\r\n";
        let plain = b"REGISTER sip:example.org SIP/2.0\r\nTo: <sip:alice@example.org>\r\n\r\n";
        let bare = b"REGISTER sip:example.org SIP/2.0\r\nTo: sip:alice@example.org;tag=1\r\n\r\n";
        let password = b"REGISTER sip:example.org SIP/2.0\r\nTo: <sip:alice:pw@example.org>\r\n\r\n";
        let invite = b"INVITE sip:alice@example.org;transport=tcp SIP/2.0\r\n\r\n";
        for shards in [2, 7, 64] {
            let expected = shard_of_user(&key(1), b"alice", shards);
            for register in [&register[..], plain, bare, password] {
                assert_eq!(shard_of_message(&key(1), register, shards), expected);
            }
            assert_eq!(shard_of_message(&key(1), invite, shards), expected);
            let number = shard_of_user(&key(1), b"+4930123", shards);
            for tel in ["tel:+49-30-123", "tel:30.123;phone-context=+49", "sip:%2b4930123@example.org"] {
                let invite = alloc::format!("INVITE {tel} SIP/2.0\r\n\r\n");
                assert_eq!(shard_of_message(&key(1), invite.as_bytes(), shards), number, "{tel}");
            }
        }
    }

    #[test]
    fn anything_has_a_shard() {
        for bytes in [&b""[..], b"SIP/2.0", b"REGISTER x SIP/2.0\r\n", b"\r\n\r\n", b"INVITE  SIP/2.0\r\n"] {
            assert!(shard_of_message(&key(1), bytes, 8) < 8);
        }
    }
}
