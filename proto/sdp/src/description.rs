//! Session descriptions (RFC 8866 §5).

use crate::text::{RawLine, fields, is_number, lines, number};
use crate::{Attribute, Connection, Direction, Fault, Limits, Line, Malformed, MediaDescription};
use alloc::vec::Vec;

/// A session description. Unknown lines are kept and written again.
///
/// The parser is strict if two implementations could interpret the text differently (a second `c=`, a lone
/// carriage return), and lenient for known defects of phones (order of the session lines, extra spaces, a
/// missing `s=` or `t=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    pub(crate) origin: Origin,
    pub(crate) session_name: Vec<u8>,
    pub(crate) connection: Option<Connection>,
    /// `t=`, `r=` and `z=` lines, in their order.
    pub(crate) times: Vec<Line>,
    /// Lines of all other letters.
    pub(crate) others: Vec<Line>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) media: Vec<MediaDescription>,
}

/// Creator and version of a description (RFC 8866 §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// User name; `-` for none.
    pub username: Vec<u8>,
    /// Session identifier, in digits.
    pub session_id: Vec<u8>,
    /// Session version, in digits.
    pub version: Vec<u8>,
    /// Network type, address type and address, not parsed: nothing is ever sent there.
    pub address: Vec<u8>,
}

impl SessionDescription {
    /// Parses a description.
    ///
    /// # Errors
    /// The first fault, with its line number; exceeding one of `limits` is a fault.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, Malformed> {
        let lines = lines(bytes, limits)?;
        let start = Malformed { line: 1, fault: Fault::Start };
        let [version, origin, rest @ ..] = lines.as_slice() else { return Err(start) };
        if version.letter != b'v' || version.value.trim_ascii_end() != b"0" || origin.letter != b'o' {
            return Err(start);
        }
        let origin = Origin::parse(origin.value).ok_or(origin.malformed(Fault::Origin))?;
        let media_at = rest.iter().position(|line| line.letter == b'm').unwrap_or(rest.len());
        let (session, mut media) = rest.split_at_checked(media_at).ok_or(start)?;
        let mut description = Self::empty(origin);
        for line in session {
            description.read_session_line(line, limits)?;
        }
        while let [first, after @ ..] = media {
            let end = after.iter().position(|line| line.letter == b'm').unwrap_or(after.len());
            let (section, next) = after.split_at_checked(end).ok_or(start)?;
            if description.media.len() == limits.media_max {
                return Err(first.malformed(Fault::TooManyMedia));
            }
            let section = MediaDescription::parse(first, section, limits)?;
            if section.port != 0 && section.connections.is_empty() && description.connection.is_none() {
                return Err(first.malformed(Fault::NoConnection));
            }
            description.media.push(section);
            media = next;
        }
        Ok(description)
    }

    /// A description without attributes and media.
    pub(crate) const fn empty(origin: Origin) -> Self {
        Self {
            origin,
            session_name: Vec::new(),
            connection: None,
            times: Vec::new(),
            others: Vec::new(),
            attributes: Vec::new(),
            media: Vec::new(),
        }
    }

    /// The `o=` line.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Connection data of the session, for sections without their own.
    pub const fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Attributes of the session, in their order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Lines of the session that are not parsed, in their order.
    pub fn other_lines(&self) -> &[Line] {
        &self.others
    }

    /// Start and stop time in seconds since 1900; zeros mean an unbounded session.
    pub fn time(&self) -> (u64, u64) {
        let first = self.times.iter().find(|line| line.letter == b't');
        first.and_then(|line| time(&line.value)).unwrap_or_default()
    }

    /// Media sections, in their order.
    pub fn media(&self) -> &[MediaDescription] {
        &self.media
    }

    /// Direction of a section, as seen from the sender of the description: from the section, else from the
    /// session, else `sendrecv` (RFC 8866 §6.7).
    pub fn direction_of(&self, section: &MediaDescription) -> Direction {
        let of_section = crate::media::direction(&section.attributes);
        of_section.or_else(|| crate::media::direction(&self.attributes)).unwrap_or_default()
    }

    fn read_session_line(&mut self, line: &RawLine<'_>, limits: &Limits) -> Result<(), Malformed> {
        let value = line.value.to_vec();
        match line.letter {
            b'v' | b'o' => return Err(line.malformed(Fault::Start)),
            b's' if self.session_name.is_empty() => self.session_name = value,
            b's' => return Err(line.malformed(Fault::Repeated)),
            b'c' if self.connection.is_some() => return Err(line.malformed(Fault::Repeated)),
            b'c' => {
                let connection = Connection::parse(line.value).ok_or(line.malformed(Fault::Connection))?;
                self.connection = Some(connection);
            }
            b't' if time(line.value).is_none() => return Err(line.malformed(Fault::Time)),
            b't' | b'r' | b'z' => self.times.push(Line { letter: line.letter, value }),
            b'a' if self.attributes.len() == limits.attributes_max => {
                return Err(line.malformed(Fault::TooManyAttributes));
            }
            b'a' => self.attributes.push(Attribute::parse(line.value)),
            letter => self.others.push(Line { letter, value }),
        }
        Ok(())
    }
}

impl Origin {
    /// Parses from the end, because some phones send user names with spaces.
    fn parse(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value).rev();
        let (address, kind, network) = (fields.next()?, fields.next()?, fields.next()?);
        let (version, session_id) = (fields.next()?, fields.next()?);
        let mut words: Vec<_> = fields.collect();
        words.reverse();
        if words.is_empty() || !is_number(version) || !is_number(session_id) {
            return None;
        }
        Some(Self {
            username: words.join(&b' '),
            session_id: session_id.to_vec(),
            version: version.to_vec(),
            address: [network, kind, address].join(&b' '),
        })
    }
}

fn time(value: &[u8]) -> Option<(u64, u64)> {
    let mut fields = fields(value);
    let times = (number(fields.next()?)?, number(fields.next()?)?);
    fields.next().is_none().then_some(times)
}

#[cfg(test)]
#[path = "description_tests.rs"]
mod tests;
