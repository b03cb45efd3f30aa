//! A proposal of `ringway.toml` from the settings of another server.

use super::taken::Taken;
use crate::output::printable;
use ringway_sql::migration::{Database, Settings};
use std::fmt::Write as _;

/// A configuration with what is certain, and the rest as comments.
pub(super) fn proposal(settings: &Settings, taken: &Taken<'_>, source: &Database) -> String {
    let mut text = format!("# Proposed from {} at {}.\n", source.origin().name(), printable(source.url()));
    let domains = taken.domains(settings);
    let quoted: Vec<String> = domains.iter().map(|domain| format!("\"{domain}\"")).collect();
    let _ = writeln!(text, "domains = [{}]", quoted.join(", "));
    auth(&mut text, settings, taken);
    for account in &settings.registrations {
        let (server, user) = (printable(&account.server), printable(&account.user));
        let _ = writeln!(
            text,
            "\n# An account at another server. The password goes into a file of its own.\n# [[trunk]]\n# name = \"…\"\n\
             # uri = \"sip:{}\"\n# username = \"{user}\"\n# password_file = \"…\"",
            server.trim_start_matches("sip:"),
        );
    }
    text
}

fn auth(text: &mut String, settings: &Settings, taken: &Taken<'_>) {
    let mut lines = String::new();
    if taken.md5_only() > 0 {
        lines.push_str("algorithms = [\"MD5\"]\n");
    }
    if !settings.addresses.is_empty() {
        lines.push_str(
            "# What the script did with these networks is for you to say: proxies whose word is taken belong into `trusted`,\n\
             # gateways into `networks` of a [[trunk]].\n",
        );
    }
    for network in &settings.addresses {
        let remark = printable(&network.remark);
        let _ = writeln!(lines, "# trusted = [\"{}/{}\"]  # {remark}", network.address, network.prefix);
    }
    if !lines.is_empty() {
        let _ = write!(text, "\n[auth]\n{lines}");
    }
    for (domain, realm) in taken.foreign_realms() {
        let _ = writeln!(text, "\n[[auth.domain]]\nname = \"{domain}\"\nrealm = \"{realm}\"");
    }
}
