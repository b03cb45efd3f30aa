//! Serialisation of descriptions: every line ends in CRLF, and the lines have the order of the grammar (RFC
//! 8866 §9).

use crate::{Attribute, Connection, Line, MediaDescription, SessionDescription};
use alloc::vec::Vec;
use core::net::IpAddr;

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
