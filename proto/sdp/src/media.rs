//! Media sections (RFC 8866 §5.14).

use crate::text::{RawLine, fields, is_number, number, split_at_byte};
use crate::{Attribute, Connection, Fault, Limits, Line, Malformed, Profile};
use alloc::vec;
use alloc::vec::Vec;

/// An `m=` line and the lines that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaDescription {
    pub(crate) medium: Vec<u8>,
    pub(crate) port: u16,
    /// Number of ports, not parsed.
    pub(crate) ports: Option<Vec<u8>>,
    pub(crate) protocol: Vec<u8>,
    pub(crate) formats: Vec<Vec<u8>>,
    pub(crate) connections: Vec<Connection>,
    /// Lines other than `c=` and `a=`.
    pub(crate) others: Vec<Line>,
    pub(crate) attributes: Vec<Attribute>,
}

impl MediaDescription {
    pub(crate) fn parse(
        first: &RawLine<'_>,
        rest: &[RawLine<'_>],
        limits: &Limits,
    ) -> Result<Self, Malformed> {
        let mut section = Self::parse_line(first.value).ok_or(first.malformed(Fault::Media))?;
        if section.formats.len() > limits.formats_max {
            return Err(first.malformed(Fault::TooManyFormats));
        }
        for line in rest {
            match line.letter {
                b'v' | b'o' => return Err(line.malformed(Fault::Start)),
                b's' | b'u' | b'e' | b'p' | b't' | b'r' | b'z' => {
                    return Err(line.malformed(Fault::Misplaced));
                }
                b'c' => {
                    let connection = Connection::parse(line.value);
                    section.connections.push(connection.ok_or(line.malformed(Fault::Connection))?);
                }
                b'a' if section.attributes.len() == limits.attributes_max => {
                    return Err(line.malformed(Fault::TooManyAttributes));
                }
                b'a' => section.attributes.push(Attribute::parse(line.value)),
                letter => section.others.push(Line { letter, value: line.value.to_vec() }),
            }
        }
        Ok(section)
    }

    /// A section that consists of its `m=` line.
    pub(crate) fn new(medium: &[u8], port: u16, protocol: &[u8], formats: Vec<Vec<u8>>) -> Self {
        Self {
            medium: medium.to_vec(),
            port,
            ports: None,
            protocol: protocol.to_vec(),
            formats,
            connections: Vec::new(),
            others: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// The same section, disabled: port 0, one format, no attributes (RFC 3264 §6, §8.2).
    pub(crate) fn disabled(&self) -> Self {
        let format = self.formats.first().cloned().unwrap_or_else(|| b"0".to_vec());
        Self::new(&self.medium, 0, &self.protocol, vec![format])
    }

    /// Media type: `audio`, `video`, …
    pub fn medium(&self) -> &[u8] {
        &self.medium
    }

    /// Port at which media is received; 0 if the stream is disabled (RFC 3264 §5.1).
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// True if the line has a number of ports, which is used by layered encodings and not supported.
    pub fn has_several_ports(&self) -> bool {
        self.ports.as_deref().is_some_and(|ports| number(ports) != Some(1_u8))
    }

    /// Protocol of the `m=` line, if it is a known RTP profile.
    pub fn profile(&self) -> Option<Profile> {
        Profile::from_name(&self.protocol)
    }

    /// Formats, in order of preference.
    pub fn formats(&self) -> impl Iterator<Item = &[u8]> {
        self.formats.iter().map(Vec::as_slice)
    }

    /// `c=` lines of the section; more than one only for multicast groups.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Attributes of the section, in their order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Lines of the section that are not parsed, in their order.
    pub fn other_lines(&self) -> &[Line] {
        &self.others
    }

    /// Parses the `m=` line. The list of formats may be empty, because some phones send none in a disabled
    /// section.
    fn parse_line(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value);
        let (medium, port, protocol) = (fields.next()?, fields.next()?, fields.next()?);
        let (port, ports) = split_at_byte(port, b'/');
        if ports.is_some_and(|ports| !is_number(ports)) {
            return None;
        }
        let formats = fields.map(<[u8]>::to_vec).collect();
        let mut section = Self::new(medium, number(port)?, protocol, formats);
        section.ports = ports.map(<[u8]>::to_vec);
        Some(section)
    }
}
