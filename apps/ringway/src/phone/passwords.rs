//! Passwords of user-to-user authentication (RFC 3261 §22.2), from files that nobody else may read.

use crate::failure::Failure;
use crate::phone::args::AccountArgs;
use crate::phone::private_file;
use ringway_agent::{CallerAuth, PeerCredentials};
use ringway_sip::Uri;
use ringway_users::UserList;
use std::path::Path;

/// Reads the callers of `ringway answer --challenge`. The realm is user and host of `aor`, so that no server's password is an answer.
pub(crate) fn of_callers(file: &Path, aor: &str) -> Result<CallerAuth, Failure> {
    let text = read(file, "the callers' passwords")?;
    let realm = user_and_host(aor);
    let wrong = |why: String| Failure::usage(format!("--challenge {}:{why}", file.display()));
    let mut list = UserList::new("localhost");
    let mut rest = text.as_bytes();
    let mut users = Vec::new();
    while let Some(row) = list.next(&mut rest).map_err(|bad| wrong(bad.to_string()))? {
        let ha1 = row.user.ha1(&realm, row.password).map_err(|bad| wrong(format!("{}: {bad}", row.line)))?;
        users.push((row.user.name().to_owned(), ha1));
        if users.len() > CALLERS_MAX {
            return Err(wrong(format!("{}: more than {CALLERS_MAX} callers; give fewer", row.line)));
        }
    }
    match users.is_empty() {
        true => {
            Err(wrong(" nobody is in it; write rows with username,password under that header".to_owned()))
        }
        false => Ok(CallerAuth { realm, users }),
    }
}

/// Reads the password for `--peer-realm`, of the user of `own` if there is no `--peer-username`.
pub(crate) fn for_peer(args: &AccountArgs, own: &str) -> Result<Option<PeerCredentials>, Failure> {
    let (Some(realm), Some(file)) = (&args.peer_realm, &args.peer_password_file) else { return Ok(None) };
    let text = read(file, "the called phone's password")?;
    let password = text.lines().next().unwrap_or_default().to_owned();
    if password.is_empty() {
        return Err(Failure::usage(format!(
            "{}: the first line is empty; write the password there",
            file.display()
        )));
    }
    let user = || user_and_host(own).split('@').next().unwrap_or_default().to_owned();
    let username = args.peer_username.clone().unwrap_or_else(user);
    Ok(Some(PeerCredentials { realm: realm.clone(), username, password }))
}

fn read(file: &Path, what: &str) -> Result<String, Failure> {
    match private_file::read(file, what, BYTES_MAX) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(Failure::usage(format!(
            "{}: there is no such file; give the one with {what}",
            file.display()
        ))),
        Err(why) => Err(Failure::usage(why)),
    }
}

/// `bob@example.org` of `sip:bob@example.org:5070;transport=tcp`.
fn user_and_host(aor: &str) -> String {
    let Ok(uri) = Uri::parse(aor.as_bytes()) else { return String::new() };
    let mut out = Vec::new();
    uri.unescaped_user_into(&mut out);
    if !out.is_empty() {
        out.push(b'@');
    }
    out.extend_from_slice(uri.host().as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

/// People who may call one phone.
const CALLERS_MAX: usize = 10_000;

/// The longest file that is read.
const BYTES_MAX: u64 = 1 << 20;
