//! Searches that the thread runs.

use crate::answer::Answer;
use crate::texts::{NaptrText, SrvText};
use ringway_resolve::{Locator, NumberSearch, Question};

/// Search for servers, or for the URIs of a number.
pub(crate) enum Search {
    Servers(Locator),
    Uris(NumberSearch),
}

impl Search {
    /// The lookup that the search waits for; `None` at its end.
    pub(crate) fn question(&self) -> Option<Question> {
        match self {
            Self::Servers(locator) => locator.question(),
            Self::Uris(search) => search.question(),
        }
    }

    /// Gives the search the records that it asked for.
    pub(crate) fn take(&mut self, answer: &Answer) {
        match (self, answer) {
            (Self::Servers(locator), Answer::Naptr(texts)) => {
                locator.on_naptr(texts.iter().map(NaptrText::record));
            }
            (Self::Servers(locator), Answer::Srv(texts)) => locator.on_srv(texts.iter().map(SrvText::record)),
            (Self::Servers(locator), Answer::Addresses(addresses)) => {
                locator.on_addresses(addresses.iter().copied());
            }
            (Self::Uris(search), Answer::Naptr(texts)) => {
                search.on_naptr(texts.iter().map(NaptrText::record));
            }
            // It asks for NAPTR records only.
            (Self::Uris(_), Answer::Srv(_) | Answer::Addresses(_)) => {}
        }
    }
}
