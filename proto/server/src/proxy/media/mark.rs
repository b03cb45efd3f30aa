//! Mark of a relayed call in our Record-Route.
//!
//! `rm=` MAC CALL RELAY SIDES: the name of the call at the relay, the relay, and the media of caller and callee, a letter
//! each. The MAC also covers the Call-ID and the caller's tag, so that a mark is valid for one dialog, and the tags show
//! which side sends.

use crate::Config;
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::{PartHasher, RelayCall, RelayId, RelayMedia, RelaySide};
use ringway_sip::{HeaderName, Message, NameAddr, hex16, read_hex, write_hex};
use siphasher::sip::SipHasher13;

/// Parameter of our Record-Route URI with the mark.
pub(crate) const MEDIA_MARK: &[u8] = b"rm";

/// Relayed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaMark {
    pub(crate) call: RelayCall,
    pub(crate) relay: RelayId,
    pub(crate) caller: RelayMedia,
    pub(crate) callee: RelayMedia,
}

impl MediaMark {
    /// Media of the side that gets what `sender` sends.
    pub(crate) const fn media_of_other(&self, sender: RelaySide) -> RelayMedia {
        match sender {
            RelaySide::Caller => self.callee,
            RelaySide::Callee => self.caller,
        }
    }

    /// Appends the parameter's value for the dialog that `request` begins.
    pub(crate) fn write(&self, key: &[u8; 16], request: &Message<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        write_hex(out, 0, 16);
        write_hex(out, self.call.0, 16);
        write_hex(out, u64::from(self.relay.0), 8);
        out.push(letter(self.caller));
        out.push(letter(self.callee));
        let tag = request.from().tag().unwrap_or_default();
        let digits = hex16(mac(key, request, tag, out.get(start + 16..).unwrap_or_default()));
        if let Some(mac) = out.get_mut(start..start + 16) {
            mac.copy_from_slice(&digits);
        }
    }

    /// Valid mark in the routes of a request inside a dialog, and the side that sends it.
    pub(crate) fn of_request(
        config: &Config,
        key: &[u8; 16],
        request: &Message<'_>,
    ) -> Option<(Self, RelaySide)> {
        request.to().tag()?;
        let routes = request.values(HeaderName::Route).take(ROUTES_MAX);
        let mut own = routes
            .filter_map(|value| NameAddr::parse(value).ok())
            .filter(|route| route.uri.params().has(MEDIA_MARK) && config.domain_of(&route.uri).is_some());
        own.find_map(|route| Self::read(key, request, route.uri.params().value(MEDIA_MARK)?))
    }

    fn read(key: &[u8; 16], request: &Message<'_>, value: &[u8]) -> Option<(Self, RelaySide)> {
        let (given, covered) = value.split_at_checked(16)?;
        let given = read_hex(given)?;
        let (call, rest) = covered.split_at_checked(16)?;
        let (relay, sides) = rest.split_at_checked(8)?;
        let &[caller, callee] = sides else { return None };
        let mark = Self {
            call: RelayCall(read_hex(call)?),
            relay: RelayId(u32::try_from(read_hex(relay)?).ok()?),
            caller: media(caller)?,
            callee: media(callee)?,
        };
        let is_of = |tag: &[u8]| given == mac(key, request, tag, covered);
        if is_of(request.from().tag()?) {
            return Some((mark, RelaySide::Caller));
        }
        is_of(request.to().tag()?).then_some((mark, RelaySide::Callee))
    }
}

fn mac(key: &[u8; 16], message: &Message<'_>, caller_tag: &[u8], covered: &[u8]) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    for part in [b"media", message.call_id(), caller_tag, covered] {
        hash.part(part);
    }
    hash.hasher().finish()
}

const fn letter(media: RelayMedia) -> u8 {
    match media {
        RelayMedia::Same => b'e',
        RelayMedia::Plain => b'p',
        RelayMedia::Srtp => b's',
        RelayMedia::Browser => b'w',
    }
}

const fn media(letter: u8) -> Option<RelayMedia> {
    match letter {
        b'e' => Some(RelayMedia::Same),
        b'p' => Some(RelayMedia::Plain),
        b's' => Some(RelayMedia::Srtp),
        b'w' => Some(RelayMedia::Browser),
        _ => None,
    }
}

/// Maximum number of Route values that are examined.
const ROUTES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sip::Limits;

    const KEY: [u8; 16] = [7; 16];

    fn read(value: &[u8], call_id: &str, from: &str, to: &str) -> Option<(MediaMark, RelaySide)> {
        let text = alloc::format!(
            "BYE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag={from}\r\n\
             To: <sip:c@d>;tag={to}\r\nCall-ID: {call_id}\r\nCSeq: 1 BYE\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        MediaMark::read(&KEY, &message, value)
    }

    #[test]
    fn a_mark_is_valid_for_one_dialog_and_shows_the_sender() {
        let text =
            b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=x\r\n\
            To: <sip:c@d>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\n";
        let invite = Message::parse(text, &Limits::default()).unwrap();
        let mark = MediaMark {
            call: RelayCall(u64::MAX - 7),
            relay: RelayId(3),
            caller: RelayMedia::Browser,
            callee: RelayMedia::Plain,
        };
        let mut value = Vec::new();
        mark.write(&KEY, &invite, &mut value);
        assert_eq!(read(&value, "1", "x", "y"), Some((mark, RelaySide::Caller)));
        assert_eq!(read(&value, "1", "y", "x"), Some((mark, RelaySide::Callee)));
        assert_eq!(read(&value, "2", "x", "y"), None, "another call");
        assert_eq!(read(&value, "1", "z", "y"), None, "another caller");
        for at in 0..value.len() {
            let mut changed = value.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed, "1", "x", "y"), None, "byte {at}");
            assert_eq!(read(&value[..at], "1", "x", "y"), None, "{at} bytes");
        }
    }
}
