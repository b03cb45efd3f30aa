//! Rows of a database server, which are as hostile as packets.

use crate::status::Status;
use ringway_database::hex;
use ringway_store::{Condition, ForwardUri, Forwards, Ha1, NoAnswer, UserName};

/// Reads values of rows; counts those that are invalid.
pub(crate) struct RowReader<'a> {
    pub(crate) status: &'a Status,
}

/// A subscriber's row.
pub(crate) struct Subscriber {
    pub(crate) user: UserName,
    pub(crate) realm: String,
    pub(crate) ha1: Ha1,
}

impl RowReader<'_> {
    /// Reads name, domain, realm and both hashes.
    pub(crate) fn subscriber(&self, row: &[Option<&str>]) -> Option<Subscriber> {
        let [name, domain, realm, md5, sha256] = row else { return None };
        let user = self.user(*name, *domain)?;
        let realm = realm.filter(|realm| !realm.is_empty() && realm.len() <= VALUE_BYTES_MAX);
        let (Some(realm), Some(md5), Some(sha256)) = (realm, md5.and_then(hex), sha256.and_then(hex)) else {
            self.status.refuse_row(|| format!("{user}: its realm or a hash is missing or invalid"));
            return None;
        };
        Some(Subscriber { user, realm: realm.to_owned(), ha1: Ha1 { md5, sha256 } })
    }

    /// Reads name, domain and contact.
    pub(crate) fn contact<'r>(&self, row: &[Option<&'r str>]) -> Option<(UserName, &'r str)> {
        let [name, domain, contact] = row else { return None };
        let user = self.user(*name, *domain)?;
        let contact = contact.unwrap_or_default();
        match ringway_store::check_contact(contact) {
            Ok(()) => Some((user, contact)),
            Err(error) => {
                self.status.refuse_row(|| format!("contact of {user}: {error}"));
                None
            }
        }
    }

    /// Reads name, domain, kind, time and URI, and adds the forward to those that `of` returns for the user.
    pub(crate) fn forward(&self, row: &[Option<&str>]) -> Option<(UserName, Forward)> {
        let [name, domain, kind, after_s, uri] = row else { return None };
        let user = self.user(*name, *domain)?;
        let condition = Condition::ALL.into_iter().find(|condition| Some(condition.name()) == *kind);
        let target = ForwardUri::new(uri.unwrap_or_default());
        let forward = match (condition, target) {
            (Some(condition), Ok(target)) => Forward::new(condition, *after_s, target),
            (None, _) => Err("the kind of a forward is always, busy, no-answer or unregistered".to_owned()),
            (_, Err(error)) => Err(error.to_string()),
        };
        match forward {
            Ok(forward) => Some((user, forward)),
            Err(error) => {
                self.status.refuse_row(|| format!("forward of {user}: {error}"));
                None
            }
        }
    }

    pub(crate) fn user(&self, name: Option<&str>, domain: Option<&str>) -> Option<UserName> {
        match UserName::new(name.unwrap_or_default(), domain.unwrap_or_default()) {
            // Nothing finds a row of another spelling again.
            Ok(user) if Some(user.domain()) != domain => {
                self.status.refuse_row(|| format!("the domain of {user} is not in lower case"));
                None
            }
            Ok(user) => Some(user),
            Err(error) => {
                self.status.refuse_row(|| error.to_string());
                None
            }
        }
    }
}

/// A forward of a row.
pub(crate) enum Forward {
    Simple(Condition, ForwardUri),
    NoAnswer(NoAnswer),
}

impl Forward {
    fn new(condition: Condition, after_s: Option<&str>, target: ForwardUri) -> Result<Self, String> {
        match condition {
            Condition::Always | Condition::Busy | Condition::Unregistered => {
                Ok(Self::Simple(condition, target))
            }
            Condition::NoAnswer => {
                let after_s = after_s.and_then(|text| text.parse().ok()).unwrap_or_default();
                NoAnswer::new(after_s, target).map(Self::NoAnswer).map_err(|error| error.to_string())
            }
        }
    }

    pub(crate) fn add_to(self, forwards: &mut Forwards) {
        match self {
            Self::Simple(Condition::Always, to) => forwards.always = Some(to),
            Self::Simple(Condition::Busy, to) => forwards.busy = Some(to),
            Self::Simple(Condition::Unregistered | Condition::NoAnswer, to) => {
                forwards.unregistered = Some(to)
            }
            Self::NoAnswer(no_answer) => forwards.no_answer = Some(no_answer),
        }
    }
}

/// Maximum number of rows of a database.
pub(crate) const ROWS_MAX: u64 = 10_000_000;

/// Maximum length of a value in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1024;
