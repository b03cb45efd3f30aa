//! Mapping of payload types to codecs (RFC 3264 §5.1, §6.1).

use crate::text::number;
use crate::{Attribute, Codec, MediaDescription};
use alloc::format;
use alloc::vec::Vec;

/// Supported formats of a section, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats {
    pub(crate) codecs: Vec<(u8, Codec)>,
    pub(crate) telephone_event: Option<u8>,
}

impl Formats {
    /// Reads the formats of a section.
    pub(crate) fn of(section: &MediaDescription) -> Self {
        let mut formats = Self::default();
        for payload_type in payload_types(section) {
            match meaning(section, payload_type) {
                Some(Meaning::Codec(codec)) if !formats.names(payload_type) => {
                    formats.codecs.push((payload_type, codec));
                }
                Some(Meaning::TelephoneEvent) => {
                    formats.telephone_event = formats.telephone_event.or(Some(payload_type));
                }
                Some(Meaning::Codec(_)) | None => {}
            }
        }
        formats
    }

    /// Keeps the formats of `codecs`, and telephone events only if `telephone_event`.
    pub(crate) fn limited_to(mut self, codecs: &[Codec], telephone_event: bool) -> Self {
        self.codecs.retain(|(_, codec)| codecs.contains(codec));
        self.telephone_event = self.telephone_event.filter(|_| telephone_event);
        self
    }

    /// All payload types, for an `m=` line.
    pub(crate) fn list(&self) -> Vec<Vec<u8>> {
        self.payload_types().map(|payload_type| format!("{payload_type}").into_bytes()).collect()
    }

    /// Appends `a=rtpmap` for each format, also the static ones (RFC 3264 §6.1 recommends it), and the
    /// supported telephone events.
    pub(crate) fn describe(&self, attributes: &mut Vec<Attribute>) {
        for (payload_type, codec) in &self.codecs {
            let (name, rate) = (codec.name(), codec.clock_rate_hz());
            attributes.push(Attribute::with("rtpmap", format!("{payload_type} {name}/{rate}")));
        }
        if let Some(payload_type) = self.telephone_event {
            attributes
                .push(Attribute::with("rtpmap", format!("{payload_type} {TELEPHONE_EVENT}/{EVENT_RATE_HZ}")));
            attributes.push(Attribute::with("fmtp", format!("{payload_type} {EVENTS}")));
        }
    }

    /// True if RTCP can be distinguished from these payload types by its second byte (RFC 5761 §4).
    pub(crate) fn allow_rtcp_mux(&self) -> bool {
        !self.payload_types().any(|payload_type| (64..=95).contains(&payload_type))
    }

    fn names(&self, payload_type: u8) -> bool {
        self.payload_types().any(|other| other == payload_type)
    }

    fn payload_types(&self) -> impl Iterator<Item = u8> {
        self.codecs.iter().map(|(payload_type, _)| *payload_type).chain(self.telephone_event)
    }
}

/// Dynamic payload types that a section maps to something other than telephone events; they stay reserved for
/// the rest of the call (RFC 3264 §8.3.2). Bit n: payload type n.
pub(crate) fn taken_by(section: &MediaDescription) -> u128 {
    let others = payload_types(section).filter(|&payload_type| {
        DYNAMIC.contains(&payload_type) && meaning(section, payload_type) != Some(Meaning::TelephoneEvent)
    });
    others.fold(0, |taken, payload_type| taken | 1 << payload_type)
}

/// Payload type for telephone events: `wanted`, or the first dynamic one that is not reserved.
pub(crate) fn telephone_event_type(wanted: u8, taken: u128) -> Option<u8> {
    core::iter::once(wanted).chain(DYNAMIC).find(|payload_type| taken & 1 << payload_type == 0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Codec(Codec),
    TelephoneEvent,
}

/// Meaning of `payload_type` by `a=rtpmap`, or the static one; `None` if both exist and differ.
fn meaning(section: &MediaDescription, payload_type: u8) -> Option<Meaning> {
    let fixed =
        [Codec::Pcmu, Codec::Pcma].into_iter().find(|codec| codec.static_payload_type() == payload_type);
    if !section.has_rtpmap(payload_type) {
        return fixed.map(Meaning::Codec);
    }
    let map = section.rtpmap(payload_type).filter(|map| map.channels == 1)?;
    if map.encoding.eq_ignore_ascii_case(TELEPHONE_EVENT) && map.clock_rate_hz == EVENT_RATE_HZ {
        return fixed.is_none().then_some(Meaning::TelephoneEvent);
    }
    let codec = Codec::from_name(map.encoding, map.clock_rate_hz)?;
    (fixed.is_none() || fixed == Some(codec)).then_some(Meaning::Codec(codec))
}

/// Formats that are 7-bit numbers, without duplicates.
fn payload_types(section: &MediaDescription) -> impl Iterator<Item = u8> {
    let mut seen = 0_u128;
    section.formats().filter_map(number).filter(move |&payload_type: &u8| {
        let is_new = payload_type < 128 && seen & 1 << payload_type == 0;
        if is_new {
            seen |= 1 << payload_type;
        }
        is_new
    })
}

/// Usual payload type of telephone events, used if it is free.
pub(crate) const TELEPHONE_EVENT_TYPE: u8 = 101;

const TELEPHONE_EVENT: &str = "telephone-event";
const EVENT_RATE_HZ: u32 = 8000;
/// The sixteen DTMF events and the hook flash (RFC 4733 §3.2).
const EVENTS: &str = "0-16";
const DYNAMIC: core::ops::RangeInclusive<u8> = 96..=127;
