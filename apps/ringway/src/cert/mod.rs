//! `ringway cert`: a private certificate authority, certificates of a server and of its users.

mod authority;
mod files;

use crate::admin_client::AdminClient;
use crate::args::{CertArgs, CertCommand, CertInitArgs, CertRenewArgs};
use crate::failure::Failure;
use crate::output::{self, printable};
use authority::{Authority, Issued, Subject};
use files::{Existing, NewFile};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) fn run(args: CertArgs) -> Result<(), Failure> {
    match args.command {
        CertCommand::Init(init) => run_init(&init),
        CertCommand::Renew(renew) => run_renew(&renew),
    }
}

fn run_renew(args: &CertRenewArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    let (status, answer) = server.post("/api/certificate", "")?;
    if status != 200 {
        let why = answer.get("error").and_then(Value::as_str).unwrap_or("no admin API of a ringway server");
        return Err(Failure::failed(format!("{}: {status}: {}", server.address(), printable(why))));
    }
    match args.json {
        true => output::line(&answer.to_string())?,
        false => output::line("ordering a certificate; see the server's log")?,
    }
    Ok(())
}

fn run_init(args: &CertInitArgs) -> Result<(), Failure> {
    let domain = checked_domain(&args.domain)?;
    check_clients(&args.client)?;
    let made = make(args, &domain)?;
    let existing = if args.force { Existing::Replaced } else { Existing::Kept };
    if existing == Existing::Kept {
        files::refuse_existing(&made.files)?;
    }
    files::write(&args.out, &made.files, existing)?;
    print(args, &domain, &made)
}

/// Files to write.
struct Made {
    files: Vec<NewFile>,
    has_server: bool,
}

/// Makes all keys and certificates, before any file is written.
fn make(args: &CertInitArgs, domain: &str) -> Result<Made, Failure> {
    let now = jiff::Timestamp::now().as_second();
    let path = |name: &str| args.out.join(name);
    let mut files = Vec::new();
    let authority = match Authority::read(&path(CA), &path(CA_KEY), now)? {
        Some(authority) => authority,
        None => {
            let authority = Authority::new(domain, now)?;
            files.push(NewFile::key(
                path(CA_KEY),
                authority.key_pem(),
                "key of the authority: keep it secret",
            ));
            let what = "certificate of the authority: phones trust it";
            files.push(NewFile::certificate(
                path(CA),
                authority.pem().to_owned(),
                what,
                authority.not_after(),
            ));
            authority
        }
    };
    let has_server = match (args.force, args.client.is_empty()) {
        (false, true) => true,
        (true, is_alone) => is_alone || !path(CERT).exists(),
        (false, false) => !path(CERT).exists() && !path(KEY).exists(),
    };
    if has_server {
        let subject = Subject::Server { domain, addresses: &args.address };
        let Issued { pem, key_pem, not_after } = authority.issue(&subject, now, args.days)?;
        files.push(NewFile::key(path(KEY), key_pem, "key of the server"));
        let chain = format!("{pem}{}", authority.pem());
        let what = format!("certificate of {domain} with that of the authority");
        files.push(NewFile::certificate(path(CERT), chain, what, not_after));
    } else if !args.address.is_empty() {
        return Err(Failure::usage(format!(
            "--address is for the certificate of the server, and {} exists already; renew it by --force without --client",
            path(CERT).display()
        )));
    }
    for name in &args.client {
        let Issued { pem, key_pem, not_after } =
            authority.issue(&Subject::User { name, domain }, now, args.days)?;
        files.push(NewFile::key(path(&format!("client-{name}-key.pem")), key_pem, format!("key of {name}")));
        let what = format!("certificate of {name}@{domain}");
        files.push(NewFile::certificate(path(&format!("client-{name}.pem")), pem, what, not_after));
    }
    Ok(Made { files, has_server })
}

fn print(args: &CertInitArgs, domain: &str, made: &Made) -> Result<(), Failure> {
    let path = |name: &str| args.out.join(name).display().to_string();
    if args.json {
        let files: Vec<_> = made.files.iter().map(NewFile::json).collect();
        let mut result = json!({"domain": domain, "ca": path(CA), "files": files});
        if made.has_server {
            result["tls"] = json!({"certificate": path(CERT), "private_key": path(KEY)});
        }
        return Ok(output::line(&result.to_string())?);
    }
    let names: Vec<_> = made.files.iter().map(|file| file.path().display().to_string()).collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for (file, name) in made.files.iter().zip(&names) {
        output::line(&format!("{name:<width$}  {}", file.description()))?;
    }
    if made.has_server {
        output::line(&format!(
            "\nIn ringway.toml:\n\n\
             domains = [{}]\n\
             listen = [\"udp:0.0.0.0:5060\", \"tcp:0.0.0.0:5060\", \"tls:0.0.0.0:5061\"]\n\n\
             [tls]\ncertificate = {}\nprivate_key = {}",
            toml_edit::Value::from(domain),
            toml_edit::Value::from(path(CERT)),
            toml_edit::Value::from(path(KEY)),
        ))?;
    }
    if !args.client.is_empty() {
        let title = if made.has_server { "# For users with certificates:" } else { "\nIn [tls]:\n" };
        output::line(&format!(
            "{title}\nclient_auth = \"optional\"\nclient_ca = {}\nclient_users = true",
            toml_edit::Value::from(path(CA)),
        ))?;
    }
    Ok(output::line(&format!("\nFor phones: --ca {}", path(CA)))?)
}

/// Checks the domain of the server. It becomes a dNSName and a URI (RFC 5922 §7.1), without wildcards (§7.2).
fn checked_domain(domain: &str) -> Result<String, Failure> {
    if domain.parse::<IpAddr>().is_ok() {
        return Err(Failure::usage(format!(
            "--domain {domain}: this is an address; give the domain by --domain and the address by --address"
        )));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if domain.len() > 253 || !domain.split('.').all(is_label) {
        return Err(Failure::usage(format!(
            "--domain {domain:?}: this is not a domain name in ASCII; write for example --domain example.org"
        )));
    }
    Ok(domain.to_ascii_lowercase())
}

/// Checks the names of the users, which become parts of URIs and of file names.
fn check_clients(names: &[String]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for name in names {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) || name.starts_with(['.', '-']) {
            return Err(Failure::usage(format!(
                "--client {name:?}: a name has 1 to 64 letters, digits or `.` `_` `-` `+` and no domain; write for example --client alice"
            )));
        }
        // Of `a` and `a-key`, one user's certificate would have the file name of the other one's key.
        if !seen.insert(name.as_str()) || names.iter().any(|other| *name == format!("{other}-key")) {
            return Err(Failure::usage(format!(
                "--client {name}: its files would have the same names as another user's; give each name once"
            )));
        }
    }
    Ok(())
}

const CA: &str = "ca.pem";
const CA_KEY: &str = "ca-key.pem";
const CERT: &str = "cert.pem";
const KEY: &str = "key.pem";
