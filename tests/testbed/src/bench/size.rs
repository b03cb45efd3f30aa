//! `cargo xtask bench size`: what the bytes of the release binary are.
//!
//! Does: adds up the functions of the binary by crate, and its other sections, with `nm` and `size` of binutils. A function of a generic
//! type of std counts for the first other crate in its name.
//!
//! Does not: say which of them a build without a feature would not have.

use super::publish;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use xtask::workspace::target_dir;

/// Adds up the bytes of the release binary by what they are.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Write the table into BENCHMARKS.md
    #[arg(long)]
    write: bool,
}

/// Parts of the table, each with its crates: their names, or how these begin.
const PARTS: [(&str, &[&str]); 9] = [
    ("the program, its server and phone", &["ringway", "ringway_*"]),
    ("load generator and experiments", &["ringway_lab", "ringway_load"]),
    (
        "TLS, DTLS and ciphers",
        &[
            "aws_lc*",
            "rustls*",
            "webpki",
            "x509_parser",
            "rcgen",
            "yasna",
            "rtc_*",
            "p256",
            "p384",
            "aes*",
            "sha*",
            "ecdsa",
            "elliptic_curve",
            "crypto_bigint",
            "primeorder",
            "num_bigint",
            "tokio_rustls",
            "asn1_rs",
            "der*",
            "ghash",
            "polyval",
            "md5",
            "ctr",
            "hmac",
            "ecp",
            "ecp_*",
            "edwards25519",
            "curve25519*",
            "p521*",
            "Lp384*",
            "rsa*",
            "bignum*",
            "bn_*",
            "ml_kem*",
            "ring*",
        ],
    ),
    ("SQLite", &["sqlite3*", "rusqlite", "libsqlite3_sys"]),
    (
        "PostgreSQL, MySQL and Redis",
        &["mysql*", "tokio_postgres*", "postgres*", "redis", "ringway_sql", "ringway_redis"],
    ),
    (
        "DNS, HTTP and their runtime",
        &[
            "hickory*",
            "tokio*",
            "hyper*",
            "axum*",
            "ureq*",
            "http*",
            "tower*",
            "moka",
            "instant_acme",
            "mio",
            "url",
            "idna*",
            "matchit",
            "futures*",
            "crossbeam*",
            "parking_lot*",
        ],
    ),
    ("command line and terminal", &["clap*", "ratatui*", "crossterm*", "toml*", "serde*", "winnow*"]),
    ("regular expressions", &["regex*", "aho_corasick", "memchr"]),
    (
        "Rust's library",
        &["core", "alloc", "std", "hashbrown", "sort", "gimli", "addr2line", "rustc_demangle"],
    ),
];

/// Crates whose part does not follow from the first pattern that fits.
const FIRST: [&str; 4] = ["ringway_lab", "ringway_load", "ringway_sql", "ringway_redis"];

/// Runs the command on the release binary.
///
/// # Errors
/// `nm` or `size` is missing, or the table cannot be written.
pub(super) fn run(args: &Args, root: &Path) -> Result<()> {
    let binary = target_dir().join("release/ringway");
    let symbols = output("nm", &["-S", "-C", "--defined-only"], &binary)?;
    let sections = output("size", &["-A", "-d"], &binary)?;
    let section = table(&symbols, &sections)?;
    publish(root, HEADING, &section, args.write)
}

fn output(program: &str, args: &[&str], file: &Path) -> Result<String> {
    let ran = Command::new(program).args(args).arg(file).output();
    let ran = ran.with_context(|| format!("run {program}; install binutils"))?;
    ensure!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

fn table(symbols: &str, sections: &str) -> Result<String> {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for (size, name) in symbols.lines().filter_map(function) {
        *bytes.entry(part_of(crate_of(name))).or_default() += size;
    }
    let size_of = |name: &str| -> u64 {
        let line = sections.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
    };
    let code = size_of(".text");
    let named: u64 = bytes.values().sum();
    let unwinding = size_of(".eh_frame") + size_of(".eh_frame_hdr") + size_of(".gcc_except_table");
    let tables = size_of(".rela.dyn") + size_of(".data.rel.ro") + size_of(".got") + size_of(".data");
    let rest = code.saturating_sub(named);
    let constants = size_of(".rodata");
    ensure!(code > 0 && named > 0, "the binary has no symbols; build it with `cargo build --release`");
    let total = code + unwinding + tables + constants;
    let mut rows: Vec<(&str, u64)> = bytes.into_iter().collect();
    rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    rows.extend([
        ("code without a name", rest),
        ("constants: texts, tables of ciphers, the dashboard", constants),
        ("tables for unwinding after a panic", unwinding),
        ("addresses that the loader fills in", tables),
        ("**all, without names of functions**", total),
    ]);
    let mut out = format!(
        "{HEADING}\nCommand: `cargo xtask bench size --write`. Code by crate, and the other sections.\n\n| What | MB |\n|---|---|\n"
    );
    for (what, bytes) in rows {
        let _ = writeln!(out, "| {what} | {:.2} |", bytes as f64 / 1e6);
    }
    Ok(out)
}

/// Size and name of a function in a line of `nm`.
fn function(line: &str) -> Option<(u64, &str)> {
    let mut words = line.splitn(4, ' ');
    let (_, size, kind, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if !matches!(kind, "t" | "T" | "w" | "W") {
        return None;
    }
    Some((u64::from_str_radix(size, 16).ok()?, name))
}

/// Crate of a function: the first one in its name that is none of std; that of std if there is no other.
fn crate_of(name: &str) -> &str {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut of_std = None;
    let mut rest = name;
    while let Some(at) = rest.find("::") {
        let before = &rest[..at];
        let start = before.rfind(|character| !is_word(character)).map_or(0, |at| at + 1);
        // Behind `::` a path goes on: only its first word is a crate.
        let is_first = !before[..start].ends_with("::");
        let word = &before[start..];
        if is_first && word.starts_with(|first: char| first.is_ascii_lowercase()) {
            match word {
                "core" | "alloc" | "std" => of_std = of_std.or(Some(word)),
                word => return word,
            }
        }
        rest = &rest[at + 2..];
        // The rest of this path.
        let end = rest.find(|character| !is_word(character) && character != ':').unwrap_or(rest.len());
        rest = &rest[end..];
    }
    of_std.unwrap_or(name)
}

fn part_of(of: &str) -> &'static str {
    let is_own = FIRST.contains(&of);
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => !is_own && of.starts_with(start),
        None => of == pattern,
    };
    let part = PARTS.iter().find(|(_, crates)| crates.iter().any(|pattern| fits(pattern)));
    part.map_or("other crates", |(part, _)| part)
}

const HEADING: &str = "## Size of the program";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_counts_for_the_first_crate_that_is_not_of_std() {
        for (name, of) in [
            ("ringway_server::proxy::fork", "ringway_server"),
            ("<ringway_sip::uri::Uri as core::fmt::Debug>::fmt", "ringway_sip"),
            ("core::ptr::drop_in_place<alloc::vec::Vec<hickory_proto::Record>>", "hickory_proto"),
            ("<alloc::vec::Vec<T> as core::fmt::Debug>::fmt", "alloc"),
            ("core::slice::sort::unstable::quicksort", "core"),
            ("sqlite3VdbeExec", "sqlite3VdbeExec"),
        ] {
            assert_eq!(crate_of(name), of, "{name}");
        }
        assert_eq!(part_of("ringway_lab"), "load generator and experiments");
        assert_eq!(part_of("ringway_server"), "the program, its server and phone");
        assert_eq!(part_of("sqlite3VdbeExec"), "SQLite");
        assert_eq!(part_of("unheard"), "other crates");
    }

    #[test]
    fn the_table_adds_up() {
        let symbols =
            "0001 0000000000001000 t ringway::main\n0002 0000000000000800 T sqlite3_open\n0003 10 r text\n";
        let sections = ".text 8192 1\n.rodata 1000000 2\n.eh_frame 500000 3\n";
        let table = table(symbols, sections).unwrap();
        assert!(table.contains("| constants: texts, tables of ciphers, the dashboard | 1.00 |"), "{table}");
        assert!(table.contains("| **all, without names of functions** | 1.51 |"), "{table}");
    }
}
