//! Settings that the pages show and change.

use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;

/// Settings that the pages show and change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The account; `None`: the account page asks for it.
    pub account: Option<Account>,
    /// Protection that every call must have.
    pub srtp: SrtpPolicy,
    /// STUN server, `HOST[:PORT]`.
    pub stun: Option<String>,
    /// Contacts.
    pub contacts: Vec<Contact>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `sip:alice@example.org`
    pub uri: String,
    /// Display name; may be empty.
    pub name: String,
    /// User name for digest; `None`: the URI's.
    pub auth_user: Option<String>,
    /// The one realm whose challenges are answered; `None`: the one of the registration's first challenge.
    pub realm: Option<String>,
    /// `HOST[:PORT]` of the outbound proxy; `None`: requests go to the host of each URI.
    pub server: Option<String>,
    /// Transport to the server.
    pub transport: Transport,
    /// Use of a registrar.
    pub registration: Registration,
    /// Storage of the password.
    pub password: PasswordPlace,
}

/// Use of a registrar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// The account is registered.
    Wanted,
    /// It is not: calls without a server.
    Unwanted,
}

/// Storage of an account's password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordPlace {
    /// The kernel's keyring: it outlives the program, and not the restart of the machine.
    Keyring,
    /// A file of mode 600, relative to the folder of the settings.
    File(String),
    /// None: the account page asks at every start.
    Ask,
}

impl PasswordPlace {
    /// Reads `keyring`, `ask` or `file:NAME`.
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "keyring" => Some(Self::Keyring),
            "ask" => Some(Self::Ask),
            _ => {
                let name = text.strip_prefix("file:");
                name.filter(|name| !name.is_empty() && !name.contains('\0'))
                    .map(|name| Self::File(name.to_owned()))
            }
        }
    }

    /// Its text in `phone.toml`.
    pub fn text(&self) -> String {
        match self {
            Self::Keyring => "keyring".to_owned(),
            Self::File(name) => format!("file:{name}"),
            Self::Ask => "ask".to_owned(),
        }
    }
}

/// A contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Name.
    pub name: String,
    /// SIP URI.
    pub uri: String,
    /// Quick dial key, 1 to 9; no two contacts have the same.
    pub quick: Option<u8>,
}

/// A password. It is not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Completes `text` to a SIP URI: `sip:…` and `sips:…` stay as they are; others get the scheme of `own`, `bob` and numbers
/// its host.
///
/// # Errors
/// One line for the user, if it is no SIP URI.
pub fn complete_uri(text: &str, own: Option<&str>) -> Result<String, Cow<'static, str>> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("tel:") {
        return Err("tel: cannot be called; write the number alone, or sip:NUMBER@HOST".into());
    }
    let scheme = if own.is_some_and(is_sips) { "sips" } else { "sip" };
    let uri = if lower.starts_with("sip:") || is_sips(text) {
        text.to_owned()
    } else if text.contains('@') {
        format!("{scheme}:{text}")
    } else {
        let host =
            own.and_then(|own| own.rsplit_once('@')).and_then(|(_, host)| host.split([';', '?']).next());
        let host = host.ok_or("say where: NAME@HOST")?;
        let is_number = text.chars().all(|c| c.is_ascii_digit() || "+-*#() ./".contains(c));
        let user = if is_number { text.replace(['-', ' ', '(', ')', '.', '/'], "") } else { text.to_owned() };
        // In a URI the hash key is escaped (RFC 3261 §25.1: it is no `user-unreserved`).
        format!("{scheme}:{}@{host}", user.replace('#', "%23"))
    };
    if let Some(escaped) = escaped_user(&uri) {
        return Err(format!("a user part is ASCII; write {escaped}").into());
    }
    let example = "this is no SIP address; write for example bob@example.org or sip:bob@192.0.2.7:5060";
    match ringway_sip::Uri::parse(uri.as_bytes()) {
        Ok(parsed) if parsed.is_sip() && parsed.user().is_none_or(|u| !u.is_empty()) => Ok(uri),
        Ok(_) | Err(_) => Err(example.into()),
    }
}

/// True for a `sips:` URI, which needs TLS on every hop.
pub fn is_sips(uri: &str) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("sips:"))
}

/// The URI with the characters of its user part %-escaped that are not ASCII (RFC 3261 §25.1); `None`: there are none.
pub fn escaped_user(uri: &str) -> Option<String> {
    let (user, host) = uri.rsplit_once('@').filter(|(user, _)| !user.is_ascii())?;
    let mut escaped = String::new();
    for byte in user.bytes() {
        match byte.is_ascii_graphic() {
            true => escaped.push(byte.into()),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(format!("{escaped}@{host}"))
}

/// True for `HOST` or `HOST:PORT`, with an IPv6 address in brackets.
pub fn is_host_port(text: &str) -> bool {
    !text.contains(['@', ';', '?', ' ', '\t'])
        && ringway_sip::Uri::parse(format!("sip:{text}").as_bytes()).is_ok_and(|uri| uri.port() != Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dialled_becomes_a_uri() {
        let own = Some("sip:alice@example.org;transport=tcp");
        for (text, uri) in [
            ("bob", "sip:bob@example.org"),
            (" bob@192.0.2.7:5062 ", "sip:bob@192.0.2.7:5062"),
            ("SIP:bob@example.net;transport=tcp", "SIP:bob@example.net;transport=tcp"),
            ("+49 (30) 12-34", "sip:+49301234@example.org"),
            ("*21#", "sip:*21%23@example.org"),
            ("sip:192.0.2.7", "sip:192.0.2.7"),
        ] {
            assert!(
                complete_uri(text, own).unwrap().starts_with(uri),
                "{text}: {:?}",
                complete_uri(text, own)
            );
        }
        let secure = Some("sips:alice@example.org");
        for (text, uri) in [
            ("bob", "sips:bob@example.org"),
            ("112", "sips:112@example.org"),
            ("bob@example.net", "sips:bob@example.net"),
            ("sip:bob@example.net", "sip:bob@example.net"),
        ] {
            assert_eq!(complete_uri(text, secure).as_deref(), Ok(uri));
        }
        assert_eq!(complete_uri("SIPS:bob@example.net", own).as_deref(), Ok("SIPS:bob@example.net"));
        for text in ["", "a b@c", "sips:@b", "tel:1", "http://a@b c", "bob\r\nX: y@c", "@", "sip:", "sip:@b"]
        {
            assert!(complete_uri(text, own).is_err(), "{text}: {:?}", complete_uri(text, own));
        }
        assert!(complete_uri("bob", None).is_err());
        for (text, advice) in [
            ("ünï", "sip:%C3%BCn%C3%AF@example.org"),
            ("sip:山@[2001:db8::1]", "sip:%E5%B1%B1@[2001:db8::1]"),
        ] {
            assert!(complete_uri(text, own).unwrap_err().contains(advice), "{text}");
            assert_eq!(complete_uri(advice, None).as_deref(), Ok(advice), "the advice is accepted");
        }
    }
}
