//! Tests of the documents: defaults and ranges in the tables of keys are those of the program, and all configurations are valid.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// Text that must precede a key, with its section open at the end.
fn before(key: &str) -> String {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let trunk = "[[trunk]]\nname = \"t\"\nuri = \"sip:t.example\"\n";
    match (section, name) {
        ("", _) => String::new(),
        ("store", "url" | "durability") => "[store]\n".to_owned(),
        ("store", "query_interval_s") => {
            "[store]\nurl = \"postgres://u@192.0.2.1/d\"\nquery = \"SELECT 1\"\nquery_changed = \"SELECT 2\"\n"
                .to_owned()
        }
        ("store", _) => "[store]\nurl = \"postgres://u@192.0.2.1/d\"\n".to_owned(),
        ("registrar", "default_expires_s") => "[registrar]\nmin_expires_s = 1\n".to_owned(),
        ("registrar", "max_expires_s") => "[registrar]\nmin_expires_s = 1\ndefault_expires_s = 1\n".to_owned(),
        ("location", "ca" | "hold") => {
            "[cluster]\nnode = \"a\"\nlisten = \"192.0.2.1:5070\"\nsecret = \"secret\"\n[location]\nurl = \"rediss://192.0.2.8\"\n"
                .to_owned()
        }
        ("records", "keep_days") => "[records]\nurl = \"sqlite://calls.db\"\n".to_owned(),
        ("records", "max_mb") => "[records]\nfile = \"calls.jsonl\"\n".to_owned(),
        ("tls", name) if name.starts_with("acme.") => {
            "[tls.acme]\naccept_terms = true\ndomains = [\"example.org\"]\n".to_owned()
        }
        ("hep", _) => "[hep]\ncollector = \"tcp:192.0.2.1:9060\"\n".to_owned(),
        ("media", name) if name.starts_with("interface.") => {
            "[[media.interface]]\nname = \"i\"\n".to_owned()
        }
        ("presence", "min_expires_s") => "[presence]\nmax_expires_s = 86400\n".to_owned(),
        ("presence", "max_expires_s") => "[presence]\nmin_expires_s = 10\n".to_owned(),
        ("overload", "target_delay_ms") => "[overload]\nmax_delay_ms = 10000\n".to_owned(),
        ("overload", "max_delay_ms") => "[overload]\ntarget_delay_ms = 1\n".to_owned(),
        ("advertise", _) => "[[advertise]]\naddress = \"203.0.113.1\"\n".to_owned(),
        ("proxy_protocol", _) => {
            "[[proxy_protocol]]\nlisten = \"tcp:127.0.0.1:5060\"\nnetworks = [\"192.0.2.7\"]\n".to_owned()
        }
        ("neighbour", _) => {
            "[[neighbour]]\nname = \"n\"\nuri = \"sip:n.example;transport=tcp\"\n".to_owned()
        }
        ("trunk", name) if name.starts_with("header.") => {
            format!("{trunk}[[trunk.header]]\nname = \"X-A\"\naction = \"remove\"\n")
        }
        ("trunk", name) => match name.split_once('.') {
            Some((table, _)) => format!("{trunk}[trunk.{table}]\n"),
            None => trunk.to_owned(),
        },
        ("route", _) => format!("{trunk}[[route]]\nprefix = \"0\"\nto = [\"t\"]\n"),
        ("dialing", "normalise.in" | "normalise.out") => {
            format!("{trunk}[[dialing]]\n[dialing.normalise]\n")
        }
        ("dialing", _) => "[[dialing]]\n".to_owned(),
        ("destination", _) => "[[destination]]\nprefix = \"0\"\n".to_owned(),
        _ => format!("[{section}]\n"),
    }
}

/// The name of a key in its section.
fn name(key: &str) -> &str {
    key.rsplit('.').next().unwrap()
}

#[test]
fn defaults_in_the_table_are_those_of_the_program() {
    let (mut checked, mut others) = (0, Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "5e71c9a8".repeat(8)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let file = folder.path().join("ringway.toml");
    for row in example::rows() {
        let key = row.keys[0];
        let Some(value) = row.value() else {
            others.push(row.default);
            continue;
        };
        let before = before(key);
        let [without, with] = [before.clone(), format!("{before}{} = {value}\n", name(key))].map(|text| {
            Config::parse(&text, Some(&file)).unwrap_or_else(|errors| panic!("{key}: {text}{errors:?}"))
        });
        let changes = without.keys.changes_to(&with.keys);
        // Keys that a section of a list has and those that it does not have differ in the list of all keys.
        let with = Config { keys: without.keys.clone(), ..with };
        assert!(without == with, "the default of {key} is not {value}: {changes:?}");
        checked += 1;
    }
    assert!(checked > 60, "{checked}");
    // Those that no single value has.
    let described = [
        "all",
        "all others",
        "any",
        "made from the key",
        "none",
        "public addresses",
        "the host names of `domains`",
        "the first domain",
        "the host of `uri`",
        "those of `/etc/resolv.conf`",
        "true with `file` or `url`",
    ];
    others.retain(|default| !described.contains(default));
    assert_eq!(others, [""; 0]);
}

/// The least and the largest number of a cell such as `1 to 255`, `to 30 s` or `from 1 s`, and true if 0 is permitted beside.
fn range(cell: &str) -> Option<(u64, Option<u64>, bool)> {
    let has_zero = cell.starts_with("0, ") || cell.ends_with("; 0");
    let cell = cell.trim_start_matches("0, ").trim_end_matches("; 0").replace(',', "");
    let words: Vec<&str> = cell.split(' ').collect();
    let number = |word: &str| word.parse().ok();
    match words.as_slice() {
        ["from", least, ..] => Some((number(least)?, None, has_zero)),
        ["to", most, ..] => Some((0, Some(number(most)?), has_zero)),
        [least, "to", most, ..] => Some((number(least)?, Some(number(most)?), has_zero)),
        _ => None,
    }
}

#[test]
fn ranges_in_the_table_are_those_of_the_program() {
    let mut checked = 0;
    for row in example::rows() {
        let (key, cell) = (row.keys[0], row.range);
        let is_number = row.value().is_some_and(|value| value.parse::<u64>().is_ok());
        let Some((least, most, has_zero)) = range(cell).filter(|_| is_number || key.ends_with("_per_hour"))
        else {
            continue;
        };
        if row.keys.len() > 1 {
            // Two keys, one of which is a text.
            continue;
        }
        let before = before(key);
        let faults = |value: i128| match Config::parse(&format!("{before}{} = {value}\n", name(key)), None) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ConfigError::to_string).collect(),
        };
        let mut inside = vec![i128::from(least)];
        let mut outside = vec![i128::from(least) - 1];
        if let Some(most) = most.map(i128::from) {
            inside.push(most);
            outside.push(most + 1);
        }
        if has_zero {
            inside.push(0);
            outside.retain(|&value| value != 0);
        }
        for value in inside {
            assert_eq!(faults(value), Vec::<String>::new(), "{key} = {value} is in the range {cell}");
        }
        for value in outside {
            let faults = faults(value);
            let is_named = faults.iter().any(|fault| fault.contains(name(key)));
            assert!(is_named, "{key} = {value} is not in the range {cell}: {faults:?}");
        }
        checked += 1;
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn each_configuration_in_the_documents_is_valid() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = tempfile::tempdir().unwrap();
    // Passwords and rates are read from the current folder, unless their path is absolute.
    let secret = folder.path().join("secret");
    fs::write(&secret, "5e71c9a8".repeat(8)).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let rates = folder.path().join("rates.csv");
    fs::write(&rates, "4930,0.0095\n").unwrap();
    let stir = super::trunk_tests::stir_files(folder.path());
    let with_secrets = |block: &str| {
        let block = stir.iter().fold(block.to_owned(), |block, (name, path)| {
            block.replace(&format!("{name:?}"), &format!("{path:?}"))
        });
        let block = ["supplier-a", "supplier-b"].iter().fold(block, |block, name| {
            block.replace(&format!("/etc/ringway/{name}.csv"), &rates.display().to_string())
        });
        let files = ["carrier.password", "redis-password", "cluster-secret", "database-password"];
        files.iter().fold(block, |block, name| {
            block.replace(&format!("{name:?}"), &format!("{:?}", secret.display().to_string()))
        })
    };
    let file = folder.path().join("ringway.toml");
    let (mut checked, mut wrong) = (0, Vec::new());
    for kind in ["start", "recipes", "reference"] {
        for page in fs::read_dir(docs.join(kind)).unwrap() {
            let page = page.unwrap().path();
            let text = fs::read_to_string(&page).unwrap();
            let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
            // The phone's settings have a test of their own; a build without OpenSSL refuses it.
            let is_checked = |block: &&str| {
                !block.starts_with("[account]")
                    && (cfg!(feature = "legacy-tls") || !block.contains("danger_legacy"))
            };
            for block in blocks.filter(is_checked) {
                if let Err(errors) = Config::parse(&with_secrets(block), Some(&file)) {
                    wrong.push(format!("{}: {block}{errors:?}", page.display()));
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
