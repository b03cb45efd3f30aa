//! Answer to one question.

use crate::texts::{NaptrText, SrvText};
use std::net::IpAddr;

/// Records that answer a question; none, if there are none or the lookup failed.
pub(crate) enum Answer {
    Naptr(Vec<NaptrText>),
    Srv(Vec<SrvText>),
    Addresses(Vec<IpAddr>),
}

impl Answer {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Naptr(texts) => texts.is_empty(),
            Self::Srv(texts) => texts.is_empty(),
            Self::Addresses(addresses) => addresses.is_empty(),
        }
    }

    /// Bytes of the records.
    pub(crate) fn bytes_len(&self) -> usize {
        match self {
            Self::Naptr(texts) => texts.iter().map(NaptrText::bytes_len).sum(),
            Self::Srv(texts) => texts.iter().map(SrvText::bytes_len).sum(),
            Self::Addresses(addresses) => size_of_val(addresses.as_slice()),
        }
    }
}
