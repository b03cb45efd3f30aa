//! SIPp's scenario files: [`read()`] makes a [`Scenario`] of one, [`write()`] one of a scenario, [`read_list`] reads a list
//! of users. Reads a list of users of SIPp's `-inf`.
//!
//! A file is read if each of its elements and attributes either means the same here or cannot matter, such as the tables of
//! SIPp's statistics. Anything else is refused with its line: variables, regular expressions, jumps, media. Retransmissions are those of
//! RFC 3261, whatever `retrans` says.

mod read;
mod write;

pub use read::{FILE_BYTES_MAX, SippError, read};
use ringway_load::{Scenario, User};
pub use write::{Style, write};

/// Users of a list, and the users whom they call, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Users of the first column.
    pub users: Vec<User>,
    /// Users of the third column; empty if there is none. They have the passwords of the first column.
    pub called: Vec<User>,
}

/// True if the text begins as SIPp's lists do.
pub fn is_list(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    ["SEQUENTIAL", "RANDOM", "USER"].iter().any(|word| first.trim_end().split(',').next() == Some(word))
}

/// Reads a list of SIPp: a line `SEQUENTIAL`, then lines `name`, `name;password` or
/// `name;[authentication username=name password=secret]`, each also with `;` and the called user.
///
/// ```
/// use ringway_lab::sipp_xml::read_list;
///
/// let list = read_list("SEQUENTIAL\nalice;[authentication username=alice password=secret];bob\n")?;
/// assert_eq!((&*list.users[0].password, &*list.called[0].name), ("secret", "bob"));
/// # Ok::<(), ringway_lab::sipp_xml::SippError>(())
/// ```
///
/// # Errors
/// Another order than `SEQUENTIAL`, another number of columns than in the first line, credentials of another user.
pub fn read_list(text: &str) -> Result<List, SippError> {
    let mut lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    if lines.next().map(|(line, _)| line) != Some("SEQUENTIAL") {
        let reason = "users are taken in their order only; write SEQUENTIAL".to_owned();
        return Err(SippError { line: 1, reason });
    }
    let mut list = List::default();
    for (text, line) in lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#')) {
        let refuse = |reason: &str| SippError { line, reason: reason.to_owned() };
        let mut columns = text.split(';').map(str::trim);
        let (name, credentials, called) = (columns.next(), columns.next(), columns.next());
        if columns.next().is_some_and(|column| !column.is_empty()) {
            return Err(refuse(
                "the columns are the user, the credentials and the called user; remove the others",
            ));
        }
        let name = name.unwrap_or_default();
        let password = password(name, credentials.unwrap_or_default()).map_err(refuse)?;
        let called = called.filter(|called| !called.is_empty());
        if called.is_some() != (list.called.len() == list.users.len()) && !list.users.is_empty() {
            return Err(refuse("each line has a called user, or none has; add or remove it"));
        }
        list.users.push(User { name: name.into(), password: password.into() });
        list.called.extend(called.map(|name| User { name: name.into(), password: "".into() }));
    }
    let passwords: std::collections::HashMap<_, _> =
        list.users.iter().map(|user| (&user.name, &user.password)).collect();
    for called in &mut list.called {
        called.password =
            passwords.get(&called.name).map_or_else(Default::default, |&password| password.clone());
    }
    Ok(list)
}

/// Password of a column: of `[authentication …]`, or the column itself.
fn password<'a>(name: &str, column: &'a str) -> Result<&'a str, &'static str> {
    let Some(words) = column.strip_prefix("[authentication") else { return Ok(column) };
    let words = words.strip_suffix(']').ok_or("`[authentication` without `]`")?;
    let mut password = "";
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("username", user)) if user == name => {}
            Some(("username", _)) => return Err("the credentials are of another user than the first column"),
            Some(("password", value)) => password = value,
            Some(_) | None => {
                return Err("known in [authentication] are username and password; remove the rest");
            }
        }
    }
    Ok(password)
}

#[cfg(test)]
mod tests;
