//! Rows of `ringway_location`.

use std::net::SocketAddr;

/// A registration of this node, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRegistration {
    /// Contact URI.
    pub contact: Vec<u8>,
    /// Transport of the REGISTER.
    pub transport: String,
    /// Source address of the REGISTER.
    pub received: SocketAddr,
    /// Path values, the first hop first.
    pub path: Vec<Vec<u8>>,
    /// Instance of the phone, if the contact names one.
    pub instance: Option<Vec<u8>>,
    /// Call-ID of the REGISTER.
    pub call_id: Vec<u8>,
    /// CSeq of the REGISTER.
    pub cseq: u32,
    /// Seconds until it ends.
    pub expires_in_s: u64,
}

/// A user with all its rows of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRows {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// Texts of a row that any database takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) contact: String,
    pub(crate) transport: String,
    pub(crate) received: String,
    pub(crate) path: String,
    pub(crate) instance: Option<String>,
    pub(crate) call_id: String,
    pub(crate) cseq: String,
    pub(crate) expires_in_s: String,
}

impl UserRows {
    /// The rows of a user; `None` if the columns cannot have its name, as that of a user without a password can be.
    pub(crate) fn new(aor: &[u8], registrations: &[LiveRegistration]) -> Option<Self> {
        let (name, domain) = std::str::from_utf8(aor).ok()?.rsplit_once('@')?;
        let fits = |text: &str| !text.contains('\0') && text.chars().count() <= NAME_CHARS_MAX;
        let rows = registrations.iter().map(Row::new).collect();
        (fits(name) && fits(domain)).then(|| Self { domain: domain.to_owned(), name: name.to_owned(), rows })
    }
}

impl Row {
    fn new(registration: &LiveRegistration) -> Self {
        let path: Vec<String> = registration.path.iter().map(|value| escaped(value)).collect();
        Self {
            contact: escaped(&registration.contact),
            transport: registration.transport.clone(),
            received: registration.received.to_string(),
            path: path.join(", "),
            instance: registration.instance.as_deref().map(escaped),
            call_id: escaped(&registration.call_id),
            cseq: registration.cseq.to_string(),
            expires_in_s: registration.expires_in_s.to_string(),
        }
    }
}

/// Text in ASCII, which a database of any encoding takes: other bytes become `%` and two digits, as in a URI.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                text.push('%');
                text.extend(
                    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
                );
            }
        }
    }
    text
}

/// Maximum length of the columns of name and domain.
const NAME_CHARS_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_phone_sends_becomes_text_that_every_database_takes() {
        let registration = LiveRegistration {
            contact: b"sip:\xE4'; DROP TABLE x\0@192.0.2.1".to_vec(),
            transport: "udp".to_owned(),
            received: ([192, 0, 2, 1], 5060).into(),
            path: vec![b"<sip:a;lr>".to_vec(), b"<sip:b;lr>".to_vec()],
            instance: None,
            call_id: b"1\r\n".to_vec(),
            cseq: u32::MAX,
            expires_in_s: 60,
        };
        let user = UserRows::new(b"a@b@example.org", &[registration]).unwrap();
        assert_eq!((user.name.as_str(), user.domain.as_str()), ("a@b", "example.org"));
        let row = &user.rows[0];
        assert_eq!(row.contact, "sip:%E4'; DROP TABLE x%00@192.0.2.1");
        assert_eq!((row.path.as_str(), row.call_id.as_str()), ("<sip:a;lr>, <sip:b;lr>", "1%0D%0A"));
        assert_eq!((row.received.as_str(), row.cseq.as_str()), ("192.0.2.1:5060", "4294967295"));
    }

    #[test]
    fn names_that_the_columns_cannot_have_are_passed_over() {
        let long = format!("{}@b", "a".repeat(NAME_CHARS_MAX + 1));
        for aor in [&b"no domain"[..], b"\xFF@b", b"a\0@b", long.as_bytes()] {
            assert_eq!(UserRows::new(aor, &[]), None, "{}", aor.escape_ascii());
        }
        assert!(UserRows::new("ä@b".as_bytes(), &[]).is_some());
    }
}
