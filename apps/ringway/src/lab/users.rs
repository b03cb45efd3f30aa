//! Users of `ringway lab load`, from a rule or a file.

use super::args::{LoadArgs, ScenarioArg};
use crate::failure::Failure;
use ringway_lab::load::{Files, User, Users, UsersError};
use ringway_lab::sipp_xml::{CredentialColumns, InputLists, List, ListError, SippError, is_list, read_list};
use ringway_lab::text_file;
use ringway_users::UserList;
use std::path::Path;

/// Users whom the attempts are to.
#[derive(Clone, Copy)]
enum Called {
    /// The users themselves.
    Same,
    /// As many others.
    Others,
    /// Nobody.
    Unknown,
}

/// Lists of fields of `--inf`, after a list of SIPp in `--users-file`.
pub(super) fn lists(args: &LoadArgs) -> Result<InputLists, Failure> {
    let mut lists = InputLists::default();
    let users_file = args.users_file.iter().filter(|_| args.scenario_file.is_some());
    for (file, is_optional) in
        users_file.map(|file| (file, true)).chain(args.inf.iter().map(|file| (file, false)))
    {
        let text = read(file)?;
        if is_optional && !is_list(&text) {
            continue;
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lists.add(name, read_list(&text).map_err(|error| at_line(file, &error))?);
    }
    if lists.len() > LISTS_MAX {
        return Err(Failure::usage(format!("--inf: at most {LISTS_MAX} lists are possible")));
    }
    Ok(lists)
}

fn at_line(file: &Path, error: &SippError) -> Failure {
    Failure::usage(format!("{}:{}: {}", file.display(), error.line, error.reason))
}

/// Users, and the users that they call.
pub(super) fn users(
    args: &LoadArgs,
    files: Option<&Files>,
    lists: &InputLists,
    columns: Option<CredentialColumns>,
) -> Result<(Users, Users), Failure> {
    let called = match (files, args.scenario) {
        (Some(files), _) if files.has_peers() => Called::Others,
        (Some(_), _)
        | (
            None,
            ScenarioArg::Register
            | ScenarioArg::Update
            | ScenarioArg::Logout
            | ScenarioArg::Subscribe
            | ScenarioArg::Publish,
        ) => Called::Same,
        (None, ScenarioArg::CallNotFound) => Called::Unknown,
        (None, ScenarioArg::Call | ScenarioArg::Redirect | ScenarioArg::Options | ScenarioArg::Message) => {
            Called::Others
        }
    };
    let password = args.password_file.as_deref().map(password).transpose()?.unwrap_or_default();
    // A list of names without `--inf` has the users, and messages have the fields of the lists too.
    let is_users_list = args.users_file.is_some() && lists.len() == args.inf.len();
    if files.is_some() && !is_users_list {
        let file = args.users_file.as_ref().or(args.inf.first());
        let found = lists.users(columns, &args.prefix, args.digits).map_err(|error| match (error, file) {
            (ListError::Line(error), Some(file)) => at_line(file, &error),
            (ListError::Line(error), None) => Failure::usage(error.to_string()),
            (ListError::Users(error), _) => usage(error),
        })?;
        if let Some((users, list)) = found {
            let peers = match called {
                Called::Others if list.called.is_empty() => {
                    return Err(Failure::usage("the list of users: give the called user in a third column"));
                }
                Called::Others => lists.of(from_list(&list.called)?),
                Called::Same | Called::Unknown => users.clone(),
            };
            return Ok((users, peers));
        }
    }
    let rule = |first| Users::by_rule(&args.prefix, args.digits, first, args.users, &password).map_err(usage);
    let list = args.users_file.as_deref().map(|file| list(file, called, &args.domain)).transpose()?;
    let users = match &list {
        Some(list) => from_list(&list.users)?,
        None => rule(0)?,
    };
    let peers = match (called, &list) {
        (Called::Same, _) => users.clone(),
        (Called::Others, Some(list)) => from_list(&list.called)?,
        (Called::Others, None) => rule(args.users)?,
        (Called::Unknown, _) => Users::by_rule("nobody", 7, 0, 1_000_000, "").map_err(usage)?,
    };
    Ok((lists.of(users), lists.of(peers)))
}

fn from_list(list: &[User]) -> Result<Users, Failure> {
    Users::from_list(list.to_vec()).map_err(usage)
}

fn usage(error: UsersError) -> Failure {
    Failure::usage(format!("users: {error}"))
}

/// Password in the first line of a file.
pub(super) fn password(file: &Path) -> Result<String, Failure> {
    let text = text_file::read(file, FILE_BYTES_MAX).map_err(|error| Failure::usage(format!("{error:#}")))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::usage(format!("{}: the first line is to be the password", file.display()))),
    }
}

/// Users of a file, and the users that they call if those are others: of their column in a list of SIPp, else the second half.
fn list(file: &Path, called: Called, domain: &str) -> Result<List, Failure> {
    let text = read(file)?;
    if is_list(&text) {
        let list =
            read_list(&text).and_then(|list| list.users(None)).map_err(|error| at_line(file, &error))?;
        return match called {
            Called::Others if list.called.is_empty() => {
                Err(Failure::usage(format!("{}: give the called user in a third column", file.display())))
            }
            Called::Others | Called::Same | Called::Unknown => Ok(list),
        };
    }
    let mut users = match has_header(&text) {
        true => imported(&text, domain),
        false => Ok(plain(&text)),
    }
    .map_err(|reason| Failure::usage(format!("{}:{reason}", file.display())))?;
    if users.len() > USERS_MAX {
        return Err(Failure::usage(format!("{}: more than {USERS_MAX} users; give fewer", file.display())));
    }
    let called = match called {
        Called::Others => users.split_off(users.len() / 2),
        Called::Same | Called::Unknown => Vec::new(),
    };
    Ok(List { users, called })
}

/// Users of lines `name` or `name,password`.
fn plain(text: &str) -> Vec<User> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let user = |line: &str| {
        let (name, password) = line.split_once(',').unwrap_or((line, ""));
        User { name: name.trim().into(), password: password.into() }
    };
    lines.map(user).take(USERS_MAX + 1).collect()
}

/// True if the text begins with the header of `ringway user import`.
fn has_header(text: &str) -> bool {
    let header = text.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or_default();
    let columns: Vec<&str> = header.split(',').map(|name| name.trim().trim_matches('"')).collect();
    ["username", "password"].iter().all(|name| columns.contains(name))
}

/// Users of a list for `ringway user import`. The error begins with the line.
fn imported(text: &str, domain: &str) -> Result<Vec<User>, String> {
    let (mut list, mut rest, mut users) = (UserList::new(domain), text.as_bytes(), Vec::new());
    loop {
        // The end of the text ends the last row too.
        let is_end = rest.is_empty();
        match list.next(&mut rest).map_err(|bad| bad.to_string())? {
            Some(row) if row.user.domain() != domain => {
                let (line, own) = (row.line, row.user.domain());
                return Err(format!(
                    "{line}: the user is of {own}; give --domain {own}, and a file for each domain"
                ));
            }
            Some(row) => users.push(User { name: row.user.name().into(), password: row.password.into() }),
            None if is_end => return Ok(users),
            None => {}
        }
        if users.len() > USERS_MAX {
            return Ok(users);
        }
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    text_file::read(file, FILE_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("{error:#}; give a text file with a user a line")))
}

/// Maximum length of a file in bytes.
const FILE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of lists.
const LISTS_MAX: usize = 16;
/// Maximum number of users in a file.
const USERS_MAX: usize = 1_000_000;
