//! Files that hold secrets: written whole, and read only if nobody else can; in them passwords of user-to-user authentication
//! (RFC 3261 §22.2).

use crate::failure::Failure;
use crate::phone::args::AccountArgs;
use ringway_agent::{CallerAuth, PeerCredentials};
use ringway_sip::Uri;
use ringway_users::UserList;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Its owner reads and writes it, nobody else.
pub(crate) const MODE: u32 = 0o600;

/// Replaces the content of `file` by `bytes` atomically.
pub(crate) fn replace(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    // One that a crash left behind could be open to others, or a link to somewhere.
    match fs::remove_file(fresh) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
    open.write_all(bytes)?;
    open.sync_all()?;
    fs::rename(fresh, file)
}

/// Reads a file of at most `bytes_max`, `None` where there is none. The error is one line; `what` says what it should hold.
pub(crate) fn read(file: &Path, what: &str, bytes_max: u64) -> Result<Option<String>, String> {
    let name = file.display();
    let unreadable = |error: io::Error| match error.kind() {
        ErrorKind::InvalidData => format!("{name}: {what} is not valid UTF-8; save the file as UTF-8"),
        _ => format!("{name}: cannot read {what}: {error}; check the file"),
    };
    let open = match File::open(file) {
        Ok(open) => open,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    // Asked of the open file: its name could be another file's by now.
    let mode = open.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("{name}: others may read {what} (mode {mode:o}); run chmod 600 {name}"));
    }
    let mut text = String::new();
    open.take(bytes_max + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > bytes_max {
        return Err(format!("{name}: longer than {bytes_max} bytes; give the file that holds {what}"));
    }
    Ok(Some(text))
}

/// Reads the callers of `ringway answer --challenge`. The realm is user and host of `aor`, so that no server's password is an answer.
pub(crate) fn of_callers(file: &Path, aor: &str) -> Result<CallerAuth, Failure> {
    let text = read_passwords(file, "the callers' passwords")?;
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
    let text = read_passwords(file, "the called phone's password")?;
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

fn read_passwords(file: &Path, what: &str) -> Result<String, Failure> {
    match read(file, what, BYTES_MAX) {
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
