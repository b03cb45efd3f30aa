//! Escaping of text from the network for the log: on one line, limited in length, without ambiguous fields.

use std::fmt;

/// A value without spaces: quotes, backslashes and bytes that are not visible ASCII are written as `\xNN`.
pub(super) struct Word<'a>(pub(super) &'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take(WORD_BYTES_MAX) {
            match byte {
                b'\\' | b'"' | b'\'' => write!(f, "\\x{byte:02x}")?,
                byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "\\x{byte:02x}")?,
            }
        }
        if self.0.len() > WORD_BYTES_MAX { f.write_str("...") } else { Ok(()) }
    }
}

/// A message in quotes on one line without spaces: line ends as `\r\n`, other bytes that are not visible ASCII as
/// `\xNN`, credentials omitted. With a space a part of a message could look like another field or line.
pub(super) struct Quoted<'a>(pub(super) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut hides = false;
        for line in self.0.get(..MESSAGE_BYTES_MAX).unwrap_or(self.0).split_inclusive(|&byte| byte == b'\n') {
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            if is_folded && hides {
                continue;
            }
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii_end();
            let secret = SECRET.iter().find(|secret| secret.eq_ignore_ascii_case(name));
            hides = secret.is_some();
            match secret {
                Some(name) => {
                    write_text(f, name)?;
                    f.write_str(": ...\\r\\n")?;
                }
                None => write_text(f, line)?,
            }
        }
        if self.0.len() > MESSAGE_BYTES_MAX { f.write_str("\"...") } else { f.write_str("\"") }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    for &byte in text {
        match byte {
            b'\r' => f.write_str("\\r")?,
            b'\n' => f.write_str("\\n")?,
            b'\\' | b'"' => write!(f, "\\{}", char::from(byte))?,
            byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(byte))?,
            byte => write!(f, "\\x{byte:02x}")?,
        }
    }
    Ok(())
}

/// Header fields whose values permit guessing passwords.
const SECRET: [&[u8]; 2] = [b"Authorization", b"Proxy-Authorization"];

/// Maximum length of a shown name, URI or Call-ID.
const WORD_BYTES_MAX: usize = 256;

/// Maximum length of a shown message.
const MESSAGE_BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_with_any_content() {
        let hostile = "a b\r\nrefused login user=x address=192.0.2.1 reason=\"y\"\\\u{1b}[31m\u{85}\u{fc}";
        let shown = Word(hostile.as_bytes()).to_string();
        assert!(shown.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'), "{shown}");
        assert_eq!(Word(b"alice@example.org").to_string(), "alice@example.org");
        assert_eq!(Word(b"sip:a@[::1]:5060;transport=tcp").to_string(), "sip:a@[::1]:5060;transport=tcp");
        assert_eq!(Word(&[b'x'; 300]).to_string().len(), WORD_BYTES_MAX + 3);
    }

    #[test]
    fn a_message_is_one_line_without_credentials() {
        let message = b"REGISTER sip:a SIP/2.0\r\nproxy-authorization : Digest\r\n response=\"s3cret\"\r\nX: \"\x1b\xff\"\r\n\r\n";
        assert_eq!(
            Quoted(message).to_string(),
            "\"REGISTER\\x20sip:a\\x20SIP/2.0\\r\\nProxy-Authorization: ...\\r\\nX:\\x20\\\"\\x1b\\xff\\\"\\r\\n\\r\\n\""
        );
        let hostile = Quoted(b"\n INFO refused login user=x address=192.0.2.1\t\x0b\x7f\\ \" ").to_string();
        assert!(hostile.bytes().all(|byte| byte.is_ascii_graphic()), "{hostile}");
        assert!(Quoted(&[b'x'; 60_000]).to_string().len() < MESSAGE_BYTES_MAX + 10);
    }
}
