//! Pages of the list of users, sorted by domain and name.

use super::{Store, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

/// Access to the users of a store, page by page.
pub struct UserPages<'s> {
    store: &'s Store,
}

/// User of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    /// User part.
    pub name: String,
    /// Domain.
    pub domain: String,
    /// Realm of the password; `None`: there is no password, only permanent contacts.
    pub realm: Option<String>,
}

/// Part of the users that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserFilter<'a> {
    /// All of them.
    All,
    /// Those whose name begins with this text.
    Prefix(&'a str),
    /// Those whose `name@domain` contains this text, in upper or lower case of ASCII.
    Contains(&'a str),
}

/// Users of a page, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundUsers {
    /// The users that were found.
    pub users: Vec<UserRow>,
    /// Name and domain of the last user that was read; `None`: there are no more.
    pub next: Option<(String, String)>,
}

impl<'s> UserPages<'s> {
    /// The users of this store.
    pub const fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// Up to `limit` users after `after` (name and domain), of up to `scan` that are read.
    ///
    /// # Errors
    /// A query failed.
    pub fn page(
        &self,
        after: Option<(&str, &str)>,
        filter: UserFilter<'_>,
        limit: usize,
        scan: usize,
    ) -> Result<FoundUsers, StoreError> {
        read(&self.store.lock(), after, filter, limit, scan).map_err(self.store.sql())
    }
}

fn read(
    connection: &Connection,
    after: Option<(&str, &str)>,
    filter: UserFilter<'_>,
    limit: usize,
    scan: usize,
) -> rusqlite::Result<FoundUsers> {
    let mut found = FoundUsers::default();
    let (mut name, first) = after.map_or((None, ""), |(name, domain)| (Some(name.to_owned()), domain));
    let mut left = scan;
    let mut domain = next_domain(connection, first)?;
    while let Some(current) = domain {
        // The domain of the cursor may be gone.
        let last = name.take().filter(|_| current == first).unwrap_or_default();
        let read = read_domain(connection, &current, &last, filter, (limit, left), &mut found.users)?;
        left = left.saturating_sub(read.count);
        if !read.is_complete {
            found.next = Some((read.last, current));
            return Ok(found);
        }
        domain = next_domain(connection, &format!("{current}\0"))?;
    }
    Ok(found)
}

/// Result of reading the users of a domain.
struct DomainRead {
    count: usize,
    last: String,
    /// False: a limit was reached.
    is_complete: bool,
}

fn read_domain(
    connection: &Connection,
    domain: &str,
    after: &str,
    filter: UserFilter<'_>,
    (limit, scan): (usize, usize),
    users: &mut Vec<UserRow>,
) -> rusqlite::Result<DomainRead> {
    let (from, until) = match filter {
        UserFilter::Prefix(prefix) => (prefix, format!("{prefix}{}", char::MAX)),
        UserFilter::All | UserFilter::Contains(_) => ("", char::MAX.to_string()),
    };
    let wanted = match filter {
        UserFilter::Contains(text) => Some(text.to_ascii_lowercase()),
        UserFilter::All | UserFilter::Prefix(_) => None,
    };
    let mut statement = connection.prepare_cached(
        "SELECT name, realm FROM subscriber WHERE domain = ?1 AND name > ?2 AND name >= ?3 AND name <= ?4
         UNION ALL
         SELECT name, NULL FROM (SELECT DISTINCT name FROM contact c
             WHERE domain = ?1 AND name > ?2 AND name >= ?3 AND name <= ?4 AND NOT EXISTS
                 (SELECT 1 FROM subscriber s WHERE s.domain = c.domain AND s.name = c.name))
         ORDER BY name",
    )?;
    let mut rows = statement.query(params![domain, after, from, until])?;
    let mut read = DomainRead { count: 0, last: after.to_owned(), is_complete: false };
    loop {
        if users.len() >= limit || read.count >= scan {
            return Ok(read);
        }
        let Some(row) = rows.next()? else {
            read.is_complete = true;
            return Ok(read);
        };
        let name: String = row.get(0)?;
        read.count += 1;
        let is_wanted = wanted
            .as_ref()
            .is_none_or(|text| format!("{name}@{domain}").to_ascii_lowercase().contains(text.as_str()));
        read.last.clone_from(&name);
        if is_wanted {
            users.push(UserRow { name, domain: domain.to_owned(), realm: row.get(1).unwrap_or_default() });
        }
    }
}

/// First domain with a user that is not less than `from`.
fn next_domain(connection: &Connection, from: &str) -> rusqlite::Result<Option<String>> {
    connection
        .query_row(
            // A domain that is not text is no user's.
            "SELECT min(domain) FROM (SELECT min(domain) AS domain FROM subscriber WHERE domain >= ?1 AND domain < x''
                 UNION ALL SELECT min(domain) FROM contact WHERE domain >= ?1 AND domain < x'')",
            params![from],
            |row| row.get(0),
        )
        .optional()
        .map(Option::flatten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreUrl, UserName};

    fn store() -> Store {
        let store = Store::open(&StoreUrl::Memory).unwrap();
        for (name, domain) in
            [("alice", "b.org"), ("bob", "a.org"), ("alina", "a.org"), ("carol", "a.org"), ("al", "c.org")]
        {
            store.add(&UserName::new(name, domain).unwrap(), domain, "secret").unwrap();
        }
        store.bind(&UserName::new("door", "a.org").unwrap(), "sip:door@192.0.2.1").unwrap();
        store.bind(&UserName::new("bob", "a.org").unwrap(), "sip:bob@192.0.2.1").unwrap();
        store
    }

    fn names(found: &FoundUsers) -> Vec<String> {
        found.users.iter().map(|user| format!("{}@{}", user.name, user.domain)).collect()
    }

    #[test]
    fn pages_follow_each_other_across_domains() {
        let store = store();
        for (limit, scan) in [(1, 100), (2, 100), (100, 1), (100, 2), (3, 2), (100, 100)] {
            let (mut all, mut after) = (Vec::new(), None::<(String, String)>);
            loop {
                let cursor = after.as_ref().map(|(name, domain)| (name.as_str(), domain.as_str()));
                let found = UserPages::of(&store).page(cursor, UserFilter::All, limit, scan).unwrap();
                assert!(found.users.len() <= limit.min(scan));
                all.extend(names(&found));
                let Some(next) = found.next else { break };
                after = Some(next);
            }
            let expected =
                ["alina@a.org", "bob@a.org", "carol@a.org", "door@a.org", "alice@b.org", "al@c.org"];
            assert_eq!(all, expected, "{limit} {scan}");
        }
        let gone = UserPages::of(&store).page(Some(("zoe", "aa.org")), UserFilter::All, 9, 9).unwrap();
        assert_eq!(names(&gone), ["alice@b.org", "al@c.org"], "the domain of the cursor is gone");
    }

    #[test]
    fn a_search_finds_prefixes_and_parts() {
        let store = store();
        let find = |filter| names(&UserPages::of(&store).page(None, filter, 10, 100).unwrap());
        assert_eq!(find(UserFilter::Prefix("al")), ["alina@a.org", "alice@b.org", "al@c.org"]);
        assert_eq!(find(UserFilter::Prefix("ali")), ["alina@a.org", "alice@b.org"]);
        assert!(find(UserFilter::Prefix("%")).is_empty(), "it is text");
        assert_eq!(find(UserFilter::Contains("OB@A")), ["bob@a.org"]);
        assert_eq!(find(UserFilter::Contains("oo")), ["door@a.org"]);
        assert!(find(UserFilter::Contains("' OR 1")).is_empty());
        let door = UserPages::of(&store).page(None, UserFilter::Prefix("door"), 1, 10).unwrap();
        assert_eq!(door.users[0].realm, None, "it has no password");
    }
}
