//! Session descriptions (RFC 8866 §5), and their serialisation: every line ends in CRLF, and the lines have the order
//! of the grammar (RFC 8866 §9).

use crate::text::{RawLine, fields, is_number, lines, number};
use crate::{Attribute, Connection, Direction, Fault, Limits, Line, Malformed, MediaDescription};
use alloc::vec::Vec;
use core::net::IpAddr;

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

impl SessionDescription {
    /// Appends the description to `out`. A description that was parsed from lines in the order of the grammar
    /// is written unchanged.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        line(out, b'v', b"0");
        let origin = &self.origin;
        let fields: [&[u8]; 4] = [&origin.username, &origin.session_id, &origin.version, &origin.address];
        line(out, b'o', &fields.join(&b' '));
        // The grammar requires a value; RFC 3264 §5 recommends this one if there is no subject.
        let name: &[u8] = if self.session_name.is_empty() { b"-" } else { &self.session_name };
        line(out, b's', name);
        for letter in b"iuep" {
            lines_of(out, *letter, &self.others);
        }
        if let Some(connection) = &self.connection {
            connection_line(out, connection);
        }
        lines_of(out, b'b', &self.others);
        if !self.times.iter().any(|time| time.letter == b't') {
            line(out, b't', b"0 0");
        }
        for time in &self.times {
            line(out, time.letter, &time.value);
        }
        lines_of(out, b'k', &self.others);
        for other in self.others.iter().filter(|other| !b"iuepbk".contains(&other.letter)) {
            line(out, other.letter, &other.value);
        }
        attribute_lines(out, &self.attributes);
        for section in &self.media {
            section.write_to(out);
        }
    }
}

impl MediaDescription {
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"m=");
        out.extend_from_slice(&self.medium);
        out.extend_from_slice(alloc::format!(" {}", self.port).as_bytes());
        if let Some(ports) = &self.ports {
            out.push(b'/');
            out.extend_from_slice(ports);
        }
        for field in core::iter::once(&self.protocol).chain(&self.formats) {
            out.push(b' ');
            out.extend_from_slice(field);
        }
        out.extend_from_slice(b"\r\n");
        lines_of(out, b'i', &self.others);
        for connection in &self.connections {
            connection_line(out, connection);
        }
        lines_of(out, b'b', &self.others);
        lines_of(out, b'k', &self.others);
        for other in self.others.iter().filter(|other| !b"ibk".contains(&other.letter)) {
            line(out, other.letter, &other.value);
        }
        attribute_lines(out, &self.attributes);
    }
}

/// Network type, address type and address, for `c=` and `o=`.
pub(crate) fn address(ip: IpAddr) -> Vec<u8> {
    let kind = if ip.is_ipv4() { "IP4" } else { "IP6" };
    alloc::format!("IN {kind} {ip}").into_bytes()
}

fn connection_line(out: &mut Vec<u8>, connection: &Connection) {
    match connection {
        Connection::Address(ip) => line(out, b'c', &address(*ip)),
        Connection::Other(text) => line(out, b'c', text),
    }
}

fn attribute_lines(out: &mut Vec<u8>, attributes: &[Attribute]) {
    for Attribute { name, value } in attributes {
        match value {
            Some(value) => line(out, b'a', &[name.as_slice(), value].join(&b':')),
            None => line(out, b'a', name),
        }
    }
}

fn lines_of(out: &mut Vec<u8>, letter: u8, lines: &[Line]) {
    for found in lines.iter().filter(|line| line.letter == letter) {
        line(out, letter, &found.value);
    }
}

fn line(out: &mut Vec<u8>, letter: u8, value: &[u8]) {
    out.extend_from_slice(&[letter, b'=']);
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[path = "description_tests.rs"]
mod tests;
