//! The header of a message, line by line, without a check of the rest: a trace has malformed messages too.

use memchr::memmem::Finder;
use std::borrow::Cow;

/// First line of a message, and its header fields as far as they can be told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) first_line: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Head<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        let end = memchr::memchr(b'\n', message).unwrap_or(message.len());
        let (first_line, rest) = message.split_at(end);
        Self { first_line: first_line.trim_ascii(), rest: rest.get(1..).unwrap_or_default() }
    }

    /// Names and values, until the body. A value that continues on further lines ends with its first one.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.rest.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
        lines.take_while(|line| !line.is_empty()).take(LINES_MAX).filter_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            let (name, value) = line.split_at(colon);
            Some((name.trim_ascii(), value.get(1..).unwrap_or_default().trim_ascii()))
        })
    }
}

/// Finds the Call-ID of a message without reading all its header fields.
#[derive(Debug)]
pub(super) struct CallIdFinder {
    usual: Finder<'static>,
}

impl CallIdFinder {
    pub(super) fn new() -> Self {
        Self { usual: Finder::new(b"\nCall-ID:") }
    }

    /// The same, but for a message whose Call-ID has its compact name: then it is that of a message in its body, if there is one.
    pub(super) fn probable<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        match self.usual.find(message) {
            Some(at) => Some(self.value(message, at)),
            None => self.find(message),
        }
    }

    /// Call-ID; `None`: the message has none.
    pub(super) fn find<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        if let Some(at) = self.usual.find(message)
            && !is_in_body(message, at)
        {
            return Some(self.value(message, at));
        }
        let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"Call-ID") || name.eq_ignore_ascii_case(b"i");
        Head::of(message).fields().find(|(name, _)| is_it(name)).map(|(_, value)| value)
    }

    /// Value of the line that begins at `at`.
    fn value<'a>(&self, message: &'a [u8], at: usize) -> &'a [u8] {
        let value = message.get(at + self.usual.needle().len()..).unwrap_or_default();
        let end = memchr::memchr(b'\n', value).unwrap_or(value.len());
        value.get(..end).unwrap_or_default().trim_ascii()
    }
}

/// True if a header ends before `at`.
fn is_in_body(message: &[u8], at: usize) -> bool {
    let head = message.get(..at).unwrap_or_default();
    memchr::memchr_iter(b'\n', head).any(|end| {
        let next = head.get(end + 1..).unwrap_or_default();
        next.starts_with(b"\n") || next.starts_with(b"\r\n")
    })
}

/// Text of at most `bytes_max` bytes; bytes that are not UTF-8 are replaced.
pub(super) fn text(bytes: &[u8], bytes_max: usize) -> String {
    let cut = bytes.get(..bytes_max).unwrap_or(bytes);
    match String::from_utf8_lossy(cut) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    }
}

/// Maximum number of header lines that are read.
const LINES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_is_found_in_each_form_and_never_in_the_body() {
        let finder = CallIdFinder::new();
        for (message, call_id) in [
            (&b"BYE x SIP/2.0\r\nCall-ID: a@b\r\n\r\n"[..], Some(&b"a@b"[..])),
            (b"BYE x SIP/2.0\r\ni:c\r\n\r\n", Some(b"c")),
            (b"BYE x SIP/2.0\ncall-id : d \n\n", Some(b"d")),
            (b"BYE x SIP/2.0\r\nSubject: i\r\n\r\ni: body", None),
            (b"BYE x SIP/2.0\r\ni: x\r\n\r\na\r\nCall-ID: body\r\n", Some(b"x")),
            (b"\x00\xff", None),
            (b"", None),
        ] {
            assert_eq!(finder.find(message), call_id);
        }
    }
}
