//! Lists of fields of SIPp (`-inf`).

use super::error::SippError;
use ringway_load::{FieldList, FieldNumbers, FieldOrder, User, Users, UsersError};
use std::collections::HashMap;
use std::sync::Arc;

/// List of fields: lines of columns that are divided by `;`.
#[derive(Clone, Debug)]
pub struct InputList {
    fields: FieldList,
    /// Number of columns of the longest line.
    columns: u16,
    /// Column whose fields are `[authentication …]`.
    credentials: Option<u16>,
    /// Numbers of the lines in the file.
    numbers: Vec<usize>,
}

/// Lists of a scenario, each with the name that `file=` gives. The first one is that of fields without a name.
#[derive(Clone, Debug, Default)]
pub struct InputLists(Vec<(String, InputList)>);

/// Columns with the users' names and passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialColumns {
    /// Column of the name.
    pub name: u16,
    /// Column of the password.
    pub password: u16,
}

/// Users of a list, and the users whom they call, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Users.
    pub users: Vec<User>,
    /// Users of the third column; empty unless each line has one. They have the passwords of the first ones.
    pub called: Vec<User>,
}

/// True if the text begins as SIPp's lists do.
pub fn is_list(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.split(',').any(|word| ORDERS.iter().any(|(name, _)| *name == word.trim()))
}

/// Reads a list of SIPp: a line `SEQUENTIAL`, `RANDOM` or `USER`, perhaps with `PRINTF=N`, then lines of columns, divided by `;`.
///
/// ```
/// use ringway_lab::sipp_xml::read_list;
///
/// let list = read_list("SEQUENTIAL\nalice;[authentication username=alice password=secret];bob\n")?.users(None)?;
/// assert_eq!((&*list.users[0].password, &*list.called[0].name), ("secret", "bob"));
/// # Ok::<(), ringway_lab::sipp_xml::SippError>(())
/// ```
///
/// # Errors
/// A first line that is not SIPp's, and limits.
pub fn read_list(text: &str) -> Result<InputList, SippError> {
    let refuse = |line: usize, reason: String| SippError { line, reason };
    let (order, repeated) =
        head(text.lines().next().unwrap_or_default()).map_err(|reason| refuse(1, reason))?;
    let (mut lines, mut numbers, mut start) = (Vec::new(), Vec::new(), 0);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let content = line.trim();
        let from = start + (line.len() - line.trim_start().len());
        start += line.len();
        if number == 1 || content.is_empty() || content.starts_with('#') {
            continue;
        }
        if lines.len() == LINES_MAX {
            return Err(refuse(number, format!("more than {LINES_MAX} lines; give fewer")));
        }
        if content.matches(';').count() >= usize::from(COLUMNS_MAX) {
            return Err(refuse(number, format!("more than {COLUMNS_MAX} columns; give fewer")));
        }
        let place = u32::try_from(from).ok().zip(u32::try_from(from + content.len()).ok());
        lines.push(place.ok_or_else(|| refuse(number, "the file is too long".to_owned()))?);
        numbers.push(number);
    }
    let columns = |&(start, end): &(u32, u32)| {
        let line = text.get(start as usize..end as usize).unwrap_or_default();
        line.split(';').map(str::trim).collect::<Vec<_>>()
    };
    let count = lines.iter().map(|line| columns(line).len()).max().unwrap_or(0);
    let is_credentials = |column: usize| {
        lines.iter().all(|line| columns(line).get(column).is_some_and(|text| text.starts_with(CREDENTIALS)))
    };
    let credentials = (0..count).find(|column| is_credentials(*column)).map(|column| column as u16);
    let fields = FieldList::new(Arc::from(text), lines, order, repeated);
    let fields = fields.ok_or_else(|| refuse(1, "the list has no line; add one".to_owned()))?;
    Ok(InputList { fields, columns: count as u16, credentials, numbers })
}

/// Order and numbers of the first line.
fn head(line: &str) -> Result<(FieldOrder, Option<FieldNumbers>), String> {
    let (mut order, mut count) = (None, None);
    let (mut offset, mut multiple) = (0, 1);
    for word in line.split(',').map(str::trim) {
        if let Some((_, found)) = ORDERS.iter().find(|(name, _)| *name == word) {
            order = Some(*found);
            continue;
        }
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok().filter(|number| *number <= NUMBER_MAX);
            number.ok_or_else(|| format!("`{word}`: give a number up to {NUMBER_MAX}"))
        };
        match word.split_once('=') {
            Some(("PRINTF", text)) => count = Some(number(text)?),
            Some(("PRINTFOFFSET", text)) => offset = number(text)?,
            Some(("PRINTFMULTIPLE", text)) => multiple = number(text)?,
            _ => {
                return Err(format!(
                    "`{word}` is not a word of the first line; known are SEQUENTIAL, RANDOM, USER, PRINTF=N, PRINTFOFFSET=N \
                     and PRINTFMULTIPLE=N"
                ));
            }
        }
    }
    let order = order.ok_or("the first line is SEQUENTIAL, RANDOM or USER; write one of them")?;
    Ok((order, count.map(|count| FieldNumbers { count, offset, multiple })))
}

impl InputList {
    /// Column whose fields are `[authentication …]`.
    pub const fn credentials(&self) -> Option<u16> {
        self.credentials
    }

    /// Number of columns of the longest line.
    pub const fn columns(&self) -> u16 {
        self.columns
    }

    fn field(&self, line: u32, column: u16) -> String {
        let mut out = Vec::new();
        self.fields.write(line, column, &mut out);
        String::from_utf8_lossy(&out).trim().to_owned()
    }

    /// True if each line has a called user in its third column.
    pub fn has_called(&self) -> bool {
        self.credentials != Some(CALLED_COLUMN)
            && (0..self.fields.count()).all(|line| !self.field(line, CALLED_COLUMN).is_empty())
    }

    /// Users of the list. Names and passwords are those of these columns, or of the column of credentials; or else the first column has
    /// the names, and the second one of lists with up to three columns the passwords.
    ///
    /// # Errors
    /// Credentials that are not a name and a password, with their line.
    pub fn users(&self, columns: Option<CredentialColumns>) -> Result<List, SippError> {
        let mut list = List::default();
        let has_called = self.has_called();
        for line in 0..self.fields.count() {
            let user = match (columns, self.credentials) {
                (Some(columns), _) => {
                    user(self.field(line, columns.name), self.field(line, columns.password))
                }
                (None, Some(column)) => {
                    let number =
                        self.numbers.get(line as usize % self.numbers.len().max(1)).copied().unwrap_or(1);
                    let refuse = |reason: &str| SippError { line: number, reason: reason.to_owned() };
                    let name = self.field(line, 0);
                    credentials(&name, &self.field(line, column)).map_err(refuse)?
                }
                (None, None) if self.columns <= PASSWORD_COLUMNS_MAX => {
                    user(self.field(line, 0), self.field(line, 1))
                }
                (None, None) => user(self.field(line, 0), String::new()),
            };
            list.users.push(user);
            if has_called {
                list.called.push(user_without_password(self.field(line, CALLED_COLUMN)));
            }
        }
        let passwords: HashMap<_, _> = list.users.iter().map(|user| (&user.name, &user.password)).collect();
        for called in &mut list.called {
            called.password =
                passwords.get(&called.name).map_or_else(Default::default, |&password| password.clone());
        }
        Ok(list)
    }
}

impl InputLists {
    /// Adds a list; `name` is that of its file, without folders.
    pub fn add(&mut self, name: String, list: InputList) {
        self.0.push((name, list));
    }

    /// Number of lists.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there is no list.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list of fields without a name.
    pub fn first(&self) -> Option<&InputList> {
        self.0.first().map(|(_, list)| list)
    }

    /// Index and list of a file.
    pub(super) fn find(&self, name: &str) -> Option<(usize, &InputList)> {
        self.0
            .iter()
            .map(|(name, list)| (name, list))
            .zip(0..)
            .find(|((own, _), _)| *own == name)
            .map(|((_, list), index)| (index, list))
    }

    /// The users with these lists for their messages.
    pub fn of(&self, users: Users) -> Users {
        users.with_lists(self.0.iter().map(|(_, list)| list.fields.clone()).collect())
    }

    /// Users of the first list with its lines. Names that no URI can have are replaced by `prefix` and the number of the line.
    ///
    /// # Errors
    /// As [`InputList::users`], and more lines than users can be.
    pub fn users(
        &self,
        columns: Option<CredentialColumns>,
        prefix: &str,
        digits: usize,
    ) -> Result<Option<(Users, List)>, ListError> {
        let Some(first) = self.first() else { return Ok(None) };
        let list = first.users(columns).map_err(ListError::Line)?;
        let users = match Users::from_list(list.users.clone()) {
            Err(UsersError::Name) if columns.is_none() && first.credentials.is_none() => {
                Users::by_rule(prefix, digits, 0, first.fields.count(), "")
            }
            users => users,
        };
        Ok(Some((self.of(users.map_err(ListError::Users)?), list)))
    }
}

/// Reason why no users can be made of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListError {
    /// A line.
    Line(SippError),
    /// The users.
    Users(UsersError),
}

fn user(name: String, password: String) -> User {
    User { name: name.into(), password: password.into() }
}

fn user_without_password(name: String) -> User {
    user(name, String::new())
}

/// User of `[authentication username=… password=…]`; without a name that of the first column.
fn credentials(name: &str, column: &str) -> Result<User, &'static str> {
    let words = column.strip_prefix(CREDENTIALS).and_then(|words| words.strip_suffix(']'));
    let words = words.ok_or("`[authentication` without `]`")?;
    let (mut name, mut password) = (name, "");
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("username", user)) => name = user,
            Some(("password", value)) => password = value,
            Some(_) | None => {
                return Err("known in [authentication] are username and password; remove the rest");
            }
        }
    }
    Ok(user(name.to_owned(), password.to_owned()))
}

const ORDERS: [(&str, FieldOrder); 3] =
    [("SEQUENTIAL", FieldOrder::Sequential), ("RANDOM", FieldOrder::Random), ("USER", FieldOrder::User)];
const CREDENTIALS: &str = "[authentication";
/// Column of the called users.
pub(super) const CALLED_COLUMN: u16 = 2;
/// Maximum number of columns of a list whose second one is a password.
const PASSWORD_COLUMNS_MAX: u16 = 3;
/// Maximum number of lines.
const LINES_MAX: usize = 1_000_000;
/// Maximum number of columns.
const COLUMNS_MAX: u16 = 64;
/// Maximum of the numbers in the first line.
const NUMBER_MAX: u32 = 1_000_000;
