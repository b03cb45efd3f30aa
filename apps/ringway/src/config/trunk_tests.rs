//! Tests of trunks, routes and destination rules.

use super::tests::errors;
use super::*;
use ringway_server::{CallerPrivacy, NumberForm};

/// A trunk, for the routes of a test.
const TRUNK: &str = "[[trunk]]\nname = \"a\"\nuri = \"sip:trunk.example.net\"\n";

#[test]
fn trunks_and_routes_are_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "the password\nnot this\n").unwrap();
    let text = format!(
        r#"
        [routing]
        enum = ["E164.arpa", "numbers.example"]
        enum_networks = ["10.0.0.0/8"]
        [[trunk]]
        name = "carrier"
        uri = "sip:trunk.example.net;transport=tls"
        username = "acct"
        password_file = "{}"
        realm = "example.net"
        health_check_s = 60
        networks = ["192.0.2.0/24"]
        timeout_s = 6
        caller = "+4930"
        callers = ["bob:+49302", "alice:+49301"]
        identity = {{ from = "{{number}}@{{domain}}", privacy = "id" }}
        normalise = {{ in = "national", out = "00" }}
        country = "49"
        international_prefixes = ["0011", "0018"]
        domain = "example.net"
        [[trunk]]
        name = "other"
        uri = "sip:192.0.2.9:5070"
        health_check_s = 0
        [[route]]
        pattern = "0[1-9]*"
        strip = 1
        add = "+49"
        to = ["carrier:80", "other:20"]
        [[route]]
        domain = "*"
        to = ["other"]
        [[route]]
        prefix = "+4930"
        to_user = "alice"
        [[destination]]
        prefix = ""
        calls_per_hour = 20
        [[destination]]
        prefix = "+881"
        allow = false
        "#,
        file.path().display()
    );
    let config = Config::parse(&text, None).unwrap();
    assert_eq!(config.server.trunking.enum_networks, ["10.0.0.0/8".parse().unwrap()]);
    assert!(
        config.server.trunking.enum_zones.iter().map(|zone| &**zone).eq(["e164.arpa", "numbers.example"])
    );
    let trunk = &config.server.trunking.trunks[0];
    let login = trunk.login.as_ref().unwrap();
    assert_eq!((login.username.as_str(), login.password.as_str()), ("acct", "the password"));
    assert_eq!(trunk.callers[0], ("alice".to_owned(), "+49301".to_owned()), "sorted");
    assert_eq!(trunk.silence.as_secs(), 6);
    assert_eq!(trunk.international, ["0011", "0018"]);
    assert!(trunk.identity.from.is_some() && trunk.identity.asserted.is_none());
    assert_eq!(trunk.privacy, CallerPrivacy::Id);
    assert_eq!(trunk.numbers_in, NumberForm::National { country: "49".into(), prefix: "0".into() });
    assert_eq!(trunk.numbers_out, NumberForm::DoubleZero);
    let probed = &config.server.neighbours;
    assert_eq!((probed.len(), probed[0].interval.as_secs()), (1, 60));
    assert_eq!(config.server.trunking.routes.list().len(), 3);
    assert!(!format!("{config:?}").contains("the password"));
}

/// Invalid trunks and routes: text, line of the error, key, and a part of the remedy.
#[test]
fn each_invalid_trunk_and_route_has_an_error_with_line_key_and_remedy() {
    let route = |text: &str| format!("{TRUNK}[[route]]\n{text}");
    let trunk = |text: &str| format!("{TRUNK}{text}");
    let open = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(open.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let readable = format!("username = \"u\"\npassword_file = \"{}\"", open.path().display());
    for (text, line, key, remedy) in [
        ("[[trunk]]\nname = \"a\"".to_owned(), 1, "[trunk] uri", "is missing"),
        ("[[trunk]]\nname = \"a\"\nuri = \"sip:u@b\"".to_owned(), 3, "[trunk] uri", "without a user"),
        ("[[trunk]]\nname = \"a\"\nuri = \"sip:localhost\"".to_owned(), 3, "[trunk] uri", "of this server"),
        (format!("{TRUNK}{TRUNK}"), 5, "[trunk] name", "of its own"),
        (trunk("username = \"u\""), 4, "[trunk] username", "password_file"),
        (trunk("realm = \"r\""), 4, "[trunk] realm", "username"),
        (
            trunk("username = \"u\"\npassword_file = \"/nowhere\""),
            5,
            "[trunk] password_file",
            "check the path",
        ),
        (trunk(&readable), 5, "[trunk] password_file", "chmod o="),
        (trunk("health_check_s = 3"), 4, "[trunk] health_check_s", "or 0"),
        (trunk("networks = [\"0.0.0.0/0\"]"), 4, "[trunk] networks", "every address"),
        (trunk("networks = [\"x\"]"), 4, "[trunk] networks", "not a network"),
        (trunk("caller = \"me\""), 4, "[trunk] caller", "+49301234"),
        (trunk("callers = [\"alice\"]"), 4, "[trunk] callers", "alice:+49"),
        (trunk("international_prefixes = [\"+\"]"), 4, "[trunk] international_prefixes", "up to 8 digits"),
        (
            trunk(&format!("international_prefixes = {:?}", ["0"; 9])),
            4,
            "[trunk] international_prefixes",
            "at most 8",
        ),
        (trunk("identity = { from = \"{nmber}@h\" }"), 4, "[identity] from", "{number}"),
        (trunk("identity = { privacy = \"yes\" }"), 4, "[identity] privacy", "\"id\""),
        (trunk("identity = { form = \"x@h\" }"), 4, "[identity] form", "from"),
        (trunk("normalise = { in = \"national\" }"), 4, "[normalise] in", "country"),
        (trunk("normalise = { out = \"+49\" }"), 4, "[normalise] out", "e164"),
        (
            format!("[routing]\nrecord_route = false\n{TRUNK}identity = {{ from = \"{{user}}@h\" }}"),
            3,
            "trunk",
            "record_route = true",
        ),
        (trunk("country = \"+49\""), 4, "[trunk] country", "digits"),
        (trunk("domain = \"a b\""), 4, "[trunk] domain", "example.net"),
        (route("to = [\"a\"]"), 4, "route", "one of `prefix`"),
        (route("prefix = \"1\"\npattern = \"1\"\nto = [\"a\"]"), 4, "route", "one of `prefix`"),
        (route("prefix = \"1\""), 4, "route", "either `to`"),
        (route("prefix = \"1\"\nto = [\"b\"]"), 6, "[route] to", "no [[trunk]]"),
        (route("prefix = \"1\"\nto = [\"a\", \"a\"]"), 6, "[route] to", "there twice"),
        (route("prefix = \"1\"\nto = [\"a:0\"]"), 6, "[route] to", "weight"),
        (route("prefix = \"1\"\nto = []"), 6, "[route] to", "1 to 8"),
        (route("pattern = \"1[\"\nto = [\"a\"]"), 4, "[route] pattern", "write digits"),
        (route("prefix = \"1\"\nadd = \"x\"\nto = [\"a\"]"), 6, "[route] add", "+49"),
        (route("domain = \"localhost\"\nto = [\"a\"]"), 5, "[route] domain", "of this server"),
        (route("domain = \"b\"\nstrip = 1\nto = [\"a\"]"), 6, "[route] strip", "remove it"),
        (route("prefix = \"1\"\nto_user = \"a b\""), 6, "[route] to_user", "alice"),
        (
            format!("[routing]\nstateful = false\n{}", route("prefix = \"1\"\nto = [\"a\"]")),
            6,
            "route",
            "stateful",
        ),
        ("[[destination]]\nprefix = \"1\"".to_owned(), 1, "destination", "allow"),
        ("[[destination]]\nallow = true".to_owned(), 1, "destination", "prefix"),
        (
            "[[destination]]\nprefix = \"X\"\nallow = true".to_owned(),
            1,
            "[destination] prefix",
            "write digits",
        ),
    ] {
        let errors = errors(&text);
        let expected = format!("ringway.toml:{line}: {key}: ");
        let is_there = errors.iter().any(|error| error.starts_with(&expected) && error.contains(remedy));
        assert!(is_there, "{text}\n{expected}{remedy}\n{errors:?}");
    }
}
