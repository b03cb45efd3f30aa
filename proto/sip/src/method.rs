//! Request methods.

use crate::Malformed;
use crate::grammar::is_token_str;

/// A method: case-sensitive and never unescaped (RFC 3261 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'a> {
    /// RFC 3261 §13.
    Invite,
    /// RFC 3261 §13.2.2.4 and §17.1.1.3.
    Ack,
    /// RFC 3261 §15.
    Bye,
    /// RFC 3261 §9.
    Cancel,
    /// RFC 3261 §10.
    Register,
    /// RFC 3261 §11.
    Options,
    /// RFC 3262.
    Prack,
    /// RFC 3311.
    Update,
    /// RFC 6086.
    Info,
    /// RFC 3428.
    Message,
    /// RFC 6665.
    Subscribe,
    /// RFC 6665.
    Notify,
    /// RFC 3515.
    Refer,
    /// RFC 3903.
    Publish,
    /// Any other method.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// The method spelled `bytes`, which must be a token.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        match bytes {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"PRACK" => Self::Prack,
            b"UPDATE" => Self::Update,
            b"INFO" => Self::Info,
            b"MESSAGE" => Self::Message,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"REFER" => Self::Refer,
            b"PUBLISH" => Self::Publish,
            other => Self::Other(other),
        }
    }

    /// The method spelled `bytes`, when it is a token.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        match Self::from_bytes(bytes) {
            Self::Other(other) if !is_token_str(other) => Err(Malformed),
            method => Ok(method),
        }
    }

    /// The method's spelling on the wire.
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Invite => b"INVITE",
            Self::Ack => b"ACK",
            Self::Bye => b"BYE",
            Self::Cancel => b"CANCEL",
            Self::Register => b"REGISTER",
            Self::Options => b"OPTIONS",
            Self::Prack => b"PRACK",
            Self::Update => b"UPDATE",
            Self::Info => b"INFO",
            Self::Message => b"MESSAGE",
            Self::Subscribe => b"SUBSCRIBE",
            Self::Notify => b"NOTIFY",
            Self::Refer => b"REFER",
            Self::Publish => b"PUBLISH",
            Self::Other(other) => other,
        }
    }
}
