//! Identities of the two sides of a dialog, in the mark of our Record-Route.
//!
//! Behind the sides of the mark and their addresses: `.x`, the user of each side, caller first, as `0`: none, `1`: one whose name is not
//! known, `s`: that in From of its requests, `h` and the hash of another one; `c` and the hash of its Contact if the caller is a trunk; `t` if the callee is one, with the hashes of its tag and Contact once a response
//! has them. The MAC of the mark covers them.

use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::grammar::unescaped;
use ringway_sip::{Uri, read_hex32, write_hex};
use siphasher::sip::SipHasher13;

/// User of ours that a side is: a keyed hash of 24 bits as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserHash([u8; 4]);

/// Keyed hash of a URI: user, host and port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UriHash(u32);

/// Keyed hash of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagHash(u32);

/// Tag and Contact of the trunk in its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tag: TagHash,
    pub(crate) target: UriHash,
}

/// Identities of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identities {
    pub(crate) caller: UserHash,
    pub(crate) callee: UserHash,
    /// Contact of the caller, if it is a trunk.
    pub(crate) calling_trunk: Option<UriHash>,
    /// The callee is a trunk; its answer, if it has sent one.
    pub(crate) called_trunk: Option<Option<Answer>>,
}

impl Default for UserHash {
    fn default() -> Self {
        Self::NONE
    }
}

impl UserHash {
    /// No user of ours.
    pub(crate) const NONE: Self = Self(*b"0000");
    /// A user whose name is not known.
    pub(crate) const UNNAMED: Self = Self(*b"0001");
    /// The user that From of the side's requests names, and To of those for it: nothing is hashed for a usual call.
    pub(crate) const OF_HEADER: Self = Self(*b"0002");

    /// Hash of a user part, which may have escapes, in a domain.
    pub(crate) fn of(key: &[u8; 16], user: &[u8], domain: &[u8]) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"user");
        hash.part(&unescaped(user));
        match domain.iter().any(u8::is_ascii_uppercase) {
            true => hash.part_without_case(domain),
            // The usual domain; it is one piece without a copy.
            false => hash.part(domain),
        }
        let bits = hash.hasher().finish();
        let digit =
            |shift: u32| SYMBOLS.get((bits >> shift) as usize % SYMBOLS.len()).copied().unwrap_or(b'2');
        let digits = [0, 6, 12, 18].map(digit);
        // The others mean something else.
        if digits.starts_with(b"000") { Self(*b"0003") } else { Self(digits) }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::NONE => out.push(b'0'),
            Self::UNNAMED => out.push(b'1'),
            Self::OF_HEADER => out.push(b's'),
            Self(digits) => {
                out.push(b'h');
                out.extend_from_slice(&digits);
            }
        }
    }

    /// Reads the user at the start of a text; returns the rest too.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, rest) = text.split_first()?;
        match kind {
            b'0' => Some((Self::NONE, rest)),
            b'1' => Some((Self::UNNAMED, rest)),
            b's' => Some((Self::OF_HEADER, rest)),
            b'h' => rest.split_first_chunk::<4>().map(|(digits, rest)| (Self(*digits), rest)),
            _ => None,
        }
    }

    /// True for a user of ours.
    pub(crate) fn is_user(self) -> bool {
        self != Self::NONE
    }

    /// The hash as a number.
    pub(crate) const fn number(self) -> u32 {
        u32::from_le_bytes(self.0)
    }

    /// True for a user whose name can be found.
    pub(crate) fn is_named(self) -> bool {
        self.is_user() && self != Self::UNNAMED
    }
}

impl UriHash {
    /// No URI.
    pub(crate) const NONE: Self = Self(0);

    /// Other parameters do not make another target: user agents write them in several forms.
    pub(crate) fn of(key: &[u8; 16], uri: &Uri<'_>) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"uri");
        if uri.is_sip() {
            hash.part(&unescaped(uri.user().unwrap_or_default()));
            hash.part_without_case(uri.host().as_bytes());
            hash.fixed(&uri.port().unwrap_or_default().to_le_bytes());
        } else {
            hash.part(uri.as_bytes());
        }
        Self((hash.hasher().finish() as u32).max(1))
    }

    /// Appends its digits.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        write_hex(out, u64::from(self.0), DIGITS);
    }

    /// Reads its digits.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        read_hex32(text).map(Self)
    }
}

impl TagHash {
    pub(crate) fn of(key: &[u8; 16], tag: &[u8]) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"tag");
        hash.part(tag);
        Self((hash.hasher().finish() as u32).max(1))
    }
}

impl Identities {
    /// Appends the part of a mark.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b".x");
        self.caller.write(out);
        self.callee.write(out);
        if let Some(target) = self.calling_trunk {
            out.push(b'c');
            target.write(out);
        }
        let Some(answer) = self.called_trunk else { return };
        out.push(b't');
        if let Some(Answer { tag, target }) = answer {
            write_hex(out, u64::from(tag.0), DIGITS);
            target.write(out);
        }
    }

    /// Reads what is behind the `.`, which is not verified.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (caller, rest) = UserHash::read(text.strip_prefix(b"x")?)?;
        let (callee, mut rest) = UserHash::read(rest)?;
        let mut calling_trunk = None;
        if let Some(behind) = rest.strip_prefix(b"c") {
            let (target, behind) = behind.split_at_checked(DIGITS)?;
            (calling_trunk, rest) = (Some(UriHash::read(target)?), behind);
        }
        let called_trunk = match rest {
            [] => None,
            b"t" => Some(None),
            answer => {
                let (tag, target) = answer.strip_prefix(b"t")?.split_at_checked(DIGITS)?;
                Some(Some(Answer { tag: TagHash(read_hex32(tag)?), target: UriHash::read(target)? }))
            }
        };
        Some(Self { caller, callee, calling_trunk, called_trunk })
    }

    /// The user that a side is.
    pub(crate) const fn user(&self, is_caller: bool) -> UserHash {
        if is_caller { self.caller } else { self.callee }
    }

    /// True if a side is a trunk.
    pub(crate) const fn is_trunk(&self, is_caller: bool) -> bool {
        match is_caller {
            true => self.calling_trunk.is_some(),
            false => self.called_trunk.is_some(),
        }
    }

    /// True for a callee that is a trunk and has not answered yet, as far as the mark has it.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.called_trunk == Some(None)
    }
}

/// Hexadecimal digits of a hash.
const DIGITS: usize = 8;
/// Characters of six bits that a URI parameter may have (RFC 3261 §25.1), but `.`, which ends a part of a mark.
pub(super) const SYMBOLS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    #[test]
    fn what_is_written_reads_back_the_same() {
        let answer = Answer { tag: TagHash::of(&KEY, b"tag"), target: UriHash(u32::MAX) };
        let alice = UserHash::of(&KEY, b"alice", b"example.org");
        for caller in [UserHash::NONE, UserHash::UNNAMED, UserHash::OF_HEADER, alice] {
            for calling_trunk in [None, Some(UriHash(7))] {
                for called_trunk in [None, Some(None), Some(Some(answer))] {
                    let identities =
                        Identities { caller, callee: UserHash(*b"9z-_"), calling_trunk, called_trunk };
                    let mut out = Vec::new();
                    identities.write(&mut out);
                    let text = out.strip_prefix(b".").unwrap();
                    assert_eq!(Identities::read(text), Some(identities));
                    assert_eq!(
                        Identities::read(&text[..text.len() - 1]).filter(|it| *it == identities),
                        None
                    );
                }
            }
        }
        for bad in ["", "x", "xs", "xsh012", "xh0123", "xssc", "xsst0", "ss", "xssu", "x22"] {
            assert_eq!(Identities::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_user_and_a_target_have_one_hash_in_every_spelling() {
        let user = UserHash::of(&KEY, b"alice", b"example.org");
        assert_eq!(UserHash::of(&KEY, b"%61lice", b"EXAMPLE.org"), user);
        assert_ne!(UserHash::of(&KEY, b"Alice", b"example.org"), user);
        let hash = |uri: &str| UriHash::of(&KEY, &Uri::parse(uri.as_bytes()).unwrap());
        let target = hash("sip:gw@host.example:5062");
        for same in ["sip:gw@HOST.example:5062;transport=udp", "sip:%67w@host.example:5062;x=y"] {
            assert_eq!(hash(same), target, "{same}");
        }
        for other in
            ["sip:gw2@host.example:5062", "sip:gw@host.example", "sip:gw@other.example:5062", "tel:+1"]
        {
            assert_ne!(hash(other), target, "{other}");
        }
    }
}
