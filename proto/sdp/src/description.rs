//! A whole description (RFC 8866 §5).

use crate::text::{RawLine, fields, is_number, lines, number};
use crate::{Attribute, Connection, Direction, Fault, Limits, Line, Malformed, MediaDescription};
use alloc::vec::Vec;

/// A session description: what it says, and every line that is not understood, so that it can be written again.
///
/// Strict where two readers could disagree on what counts (a second `c=`, a lone carriage return), forgiving where
/// phones are known to be careless (order of the session's lines, blanks, a missing `s=` or `t=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    pub(crate) origin: Origin,
    pub(crate) session_name: Vec<u8>,
    pub(crate) connection: Option<Connection>,
    /// `t=`, `r=` and `z=`, in their order.
    pub(crate) times: Vec<Line>,
    /// Every line of another letter.
    pub(crate) others: Vec<Line>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) media: Vec<MediaDescription>,
}

/// Who made a description, and which version of it this is (RFC 8866 §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The user name; `-` for none.
    pub username: Vec<u8>,
    /// The session's number, in digits.
    pub session_id: Vec<u8>,
    /// The version, in digits.
    pub version: Vec<u8>,
    /// Network, address type and address, as written: nothing is ever sent there.
    pub address: Vec<u8>,
}

impl SessionDescription {
    /// Reads a description.
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

    /// A description of nothing.
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

    /// Who made it.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Where media is received, unless a section says otherwise.
    pub const fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// The session's attributes, known or not, in their order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The lines of the session that say nothing to us, in their order.
    pub fn other_lines(&self) -> &[Line] {
        &self.others
    }

    /// When the session begins and ends, in seconds since 1900; zeroes: now, and without an end.
    pub fn time(&self) -> (u64, u64) {
        let first = self.times.iter().find(|line| line.letter == b't');
        first.and_then(|line| time(&line.value)).unwrap_or_default()
    }

    /// The media sections, in their order.
    pub fn media(&self) -> &[MediaDescription] {
        &self.media
    }

    /// Which way a section's media goes, seen from who wrote this: the section says it, or the session for all of its
    /// sections, or nobody and it is both ways (RFC 8866 §6.7).
    pub fn direction_of(&self, section: &MediaDescription) -> Direction {
        let of_section = crate::attribute::direction(&section.attributes);
        of_section.or_else(|| crate::attribute::direction(&self.attributes)).unwrap_or_default()
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
    /// Reads from the end, because there are phones whose user names have blanks in them.
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
