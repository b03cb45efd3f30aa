//! Keywords of messages: SIPp's fields of lists, variables and branches as keywords of ours.

use super::list::{CALLED_COLUMN, CredentialColumns, InputLists};
use ringway_load::{Scenario, Variable};
use std::borrow::Cow;
use std::collections::HashMap;

/// Names of a scenario's variables, in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<String, u16>,
    /// Uses whose variable no action may have set, with their line.
    uses: Vec<(String, usize)>,
    assigned: Vec<String>,
}

impl Names {
    /// Variable of a name that an action sets.
    pub(super) fn set(&mut self, name: &str) -> Result<Variable, String> {
        self.assigned.push(name.to_owned());
        self.number(name)
    }

    /// Variable of a name that is used in this line.
    pub(super) fn used(&mut self, name: &str, line: usize) -> Result<Variable, String> {
        self.uses.push((name.to_owned(), line));
        self.number(name)
    }

    fn number(&mut self, name: &str) -> Result<Variable, String> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(format!(
                "the name of the variable {name:?} is not one of letters, digits and underscores"
            ));
        }
        let next = self.numbers.len() as u16;
        if next == Scenario::VARIABLES_MAX && !self.numbers.contains_key(name) {
            return Err(format!("more than {} variables; take fewer", Scenario::VARIABLES_MAX));
        }
        Ok(Variable(*self.numbers.entry(name.to_owned()).or_insert(next)))
    }

    /// First use of a variable that no action sets.
    pub(super) fn unassigned(&self) -> Option<&(String, usize)> {
        self.uses.iter().find(|(name, _)| !self.assigned.contains(name))
    }
}

/// Words that the keywords of a text depend on.
pub(super) struct Keywords<'r> {
    pub(super) lists: &'r InputLists,
    pub(super) names: &'r mut Names,
    /// Columns of `[authentication username=[field0] password=[field1]]`.
    pub(super) credentials: &'r mut Option<CredentialColumns>,
    /// Line of the text.
    pub(super) line: usize,
}

impl Keywords<'_> {
    /// The text with keywords of ours.
    ///
    /// # Errors
    /// A keyword that is not supported, with the number of its line in the text, counted from 0.
    pub(super) fn replaced(&mut self, text: &str, is_message: bool) -> Result<String, (usize, String)> {
        let start = text.trim_start();
        let has_own_branch = is_message && (start.starts_with("ACK ") || start.starts_with("CANCEL "));
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, bracketed)) = rest.split_once('[') {
            out.push_str(before);
            let end = keyword_end(bracketed);
            let (Some(keyword), Some(after)) = (bracketed.get(..end), bracketed.get(end..)) else { break };
            let read = text.len() - bracketed.len();
            let line = text.get(..read).map_or(0, |read| read.matches('\n').count());
            out.push('[');
            out.push_str(&self.keyword(keyword, has_own_branch, line).map_err(|reason| (line, reason))?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn keyword<'k>(
        &mut self,
        keyword: &'k str,
        has_own_branch: bool,
        line: usize,
    ) -> Result<Cow<'k, str>, String> {
        let words: Vec<&str> = keyword.split_whitespace().collect();
        if let Some(name) = keyword.strip_prefix('$') {
            return Ok(format!("${}", self.names.used(name, self.line + line)?.0).into());
        }
        match words.as_slice() {
            ["authentication"] => Ok("authentication".into()),
            ["authentication", name, password] if name.contains('[') || password.contains('[') => {
                self.authentication(name, password)
            }
            [field, words @ ..] if field.starts_with("field") => self.field(field, words),
            // The ACK of a failed INVITE and the CANCEL are sent by its transaction, the ACK of a 2xx has a branch of its own.
            _ if has_own_branch && keyword.starts_with("branch-") => Ok("branch".into()),
            _ => Ok(keyword.into()),
        }
    }

    /// `[field3 file="list.csv"]`.
    fn field(&self, field: &str, words: &[&str]) -> Result<Cow<'static, str>, String> {
        let column = field.strip_prefix("field").and_then(|column| column.parse::<u16>().ok());
        let column = column
            .ok_or_else(|| format!("unknown keyword `[{field}]`: fields are [field0], [field1] and so on"))?;
        let name = match words {
            [] => None,
            [word] => match word.strip_prefix("file=") {
                Some(name) => Some(name.trim_matches(['"', '\''])),
                None => return Err(refused_word(word)),
            },
            [_, word, ..] => return Err(refused_word(word)),
        };
        let (index, list) = match (name, self.lists.first()) {
            (Some(name), _) => self
                .lists
                .find(name)
                .ok_or_else(|| format!("`[{field}]` names the list {name:?}; give it with --inf"))?,
            (None, Some(first)) => (0, first),
            (None, None) => {
                return match column {
                    0 => Ok("user".into()),
                    1 => Ok("authentication".into()),
                    2 => Ok("peer".into()),
                    _ => Err(format!(
                        "unknown keyword `[{field}]`: without a list of SIPp there are [field0], the user, [field1], \
                         `[authentication …]`, and [field2], the called user; give a list with --inf"
                    )),
                };
            }
        };
        if column >= list.columns() {
            let count = list.columns();
            return Err(format!(
                "`[{field}]`: the lines of the list have {count} columns, of which the first one is [field0]"
            ));
        }
        if list.credentials() == Some(column) {
            return match index {
                0 => Ok("authentication".into()),
                _ => Err(format!("`[{field}]` has credentials; they are those of the first list")),
            };
        }
        if index == 0 && column == CALLED_COLUMN && list.has_called() {
            return Ok("peer".into());
        }
        Ok(format!("field {index} {column}").into())
    }

    /// `[authentication username=[field0] password=[field1]]`.
    fn authentication(&mut self, name: &str, password: &str) -> Result<Cow<'static, str>, String> {
        let column = |word: &str, key: &str| {
            let field = word.strip_prefix(key)?.strip_prefix("=[field")?.strip_suffix(']')?;
            field.parse::<u16>().ok()
        };
        let columns = column(name, "username").zip(column(password, "password"));
        let (name, password) = columns.ok_or_else(|| {
            "[authentication] has `username=[field0] password=[field1]`, with columns of the first list"
                .to_owned()
        })?;
        let columns = CredentialColumns { name, password };
        if self.credentials.is_some_and(|known| known != columns) {
            return Err(
                "[authentication] has other columns than before; a user has one name and password".to_owned()
            );
        }
        match self.lists.first() {
            Some(list) if name.max(password) >= list.columns() => {
                return Err(format!(
                    "[authentication]: the lines of the list have {} columns",
                    list.columns()
                ));
            }
            Some(_) => *self.credentials = Some(columns),
            None if (name, password) == (0, 1) => {}
            None => return Err("[authentication]: give the list of these columns with --inf".to_owned()),
        }
        Ok("authentication".into())
    }
}

fn refused_word(word: &str) -> String {
    format!("`{word}` of a field is not supported: an attempt has one line of a list; known is file=NAME")
}

/// Position of the `]` that ends a keyword; keywords can be inside of it.
fn keyword_end(bracketed: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in bracketed.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' if depth == 0 => return at,
            ']' => depth -= 1,
            '\n' => return at,
            _ => {}
        }
    }
    bracketed.len()
}

/// Reason why a keyword is refused, with advice.
pub(super) fn unknown_keyword(name: &str) -> String {
    let advice = match name {
        _ if name.starts_with("authentication") => {
            "write [authentication], and give the users' passwords with --users-file or --password-file"
        }
        _ => "remove it or write the value itself",
    };
    format!("unknown keyword `[{name}]`: {advice}")
}
