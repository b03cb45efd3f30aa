//! Warnings about files with secrets that every account of the machine can read or replace.

use super::Config;
use ringway_store::StoreUrl;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Warnings, one line for each file. Files that must not be open at all, as those of passwords, are errors of their keys.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut files: Vec<(&Path, String, &str)> = Vec::new();
    if let Some(file) = &config.file {
        let keys: Vec<&str> = config.keys.secrets().collect();
        if !keys.is_empty() {
            files.push((file, format!("the configuration with {}", keys.join(", ")), "o="));
        }
    }
    let own = config.tls.certificate.iter().map(|(_, key)| (key, "[tls] private_key"));
    let of_domains =
        config.tls.domains.iter().map(|domain| (&domain.private_key, "[[tls.domain]] private_key"));
    for (key, name) in own.chain(of_domains) {
        files.push((key, name.to_owned(), "o="));
    }
    if let StoreUrl::Sqlite(file) = &config.store.url {
        files.push((file, "the users' hashes, which are equivalent to passwords".to_owned(), "go="));
    }
    let warning = |(file, what, mode): (&Path, String, &str)| {
        let access = access_of_others(file)?;
        let file = file.display();
        Some(format!(
            "{file}: every account of this machine can {access} this file, {what}; run `chmod {mode} {file}`, and replace the \
             secret if others use this machine"
        ))
    };
    files.into_iter().filter_map(warning).collect()
}

/// Access to a file of accounts that are neither its owner nor in its group; `None`: there is none.
fn access_of_others(file: &Path) -> Option<&'static str> {
    let file = fs::canonicalize(file).ok()?;
    let mode = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if !file.ancestors().skip(1).all(|folder| mode(folder) & 0o001 != 0) {
        return None;
    }
    match mode(&file) & 0o006 {
        0o004 => Some("read"),
        0o002 => Some("replace"),
        0o006 => Some("read and replace"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn each_file_with_a_secret_that_others_can_reach_has_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let at = folder.path().display();
        let text = format!(
            "[admin]\ntoken = \"0123456789abcdef\"\n[hep]\ncollector = \"tcp:192.0.2.7:9060\"\npassword = \"x\"\n\
             [store]\nurl = \"sqlite://{at}/r.db\"\n[tls]\ncertificate = \"{at}/cert.pem\"\nprivate_key = \"{at}/key.pem\"\n\
             [[tls.domain]]\nname = \"b.org\"\ncertificate = \"{at}/cert.pem\"\nprivate_key = \"{at}/b.pem\"\n"
        );
        let names = ["ringway.toml", "key.pem", "b.pem", "r.db"];
        for name in names {
            fs::write(file(name), "").unwrap();
        }
        let warned = |text: &str, mode: u32| -> Vec<String> {
            names.iter().for_each(|name| set_mode(&file(name), mode));
            warnings(&Config::parse(text, Some(&file("ringway.toml"))).unwrap())
        };
        set_mode(folder.path(), 0o755);
        for (mode, access) in
            [(0o644, "can read this"), (0o602, "can replace this"), (0o666, "can read and replace")]
        {
            let lines = warned(&text, mode);
            assert_eq!(lines.len(), names.len(), "{lines:#?}");
            for (line, name) in lines.iter().zip(names) {
                assert!(line.starts_with(&format!("{at}/{name}: ")) && line.contains(access), "{line}");
            }
            assert!(lines[0].contains("with admin.token, hep.password; run `chmod o= "), "{}", lines[0]);
            assert!(!lines.concat().contains("0123456789abcdef"));
        }
        assert_eq!(warned(&text, 0o640), Vec::<String>::new());
        assert_eq!(warned("", 0o644), Vec::<String>::new(), "a configuration without a secret");
        let url = "[store]\nurl = \"postgres://u:p@127.0.0.1/d\"\n";
        assert!(warned(url, 0o644)[0].contains("with store.url"), "a URL with a password");
        set_mode(folder.path(), 0o750);
        assert_eq!(warned(&text, 0o644), Vec::<String>::new(), "nobody else gets into the folder");
    }
}
