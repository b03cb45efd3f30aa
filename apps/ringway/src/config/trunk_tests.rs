//! Tests of trunks, routes and destination rules.

use super::tests::errors;
use super::*;
use ringway_server::{
    CallerPrivacy, FieldName, NumberForm, Pattern, RuleAction, RuleDirection, RuleMessages,
};

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
        [[trunk.header]]
        name = "s"
        action = "replace"
        match = "^(.*)!$"
        value = "$1 $$"
        direction = "in"
        messages = "all"
        methods = ["INVITE", "BYE"]
        [[trunk.header]]
        name = "X-A"
        action = "add"
        value = ""
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
    assert_eq!(
        trunk.numbers_in,
        NumberForm::National { country: "49".into(), prefix: "0".into(), international: "00".into() }
    );
    assert_eq!(trunk.numbers_out, NumberForm::DoubleZero);
    let [subject, added] = trunk.headers.as_slice() else { panic!("{:?}", trunk.headers) };
    assert_eq!(subject.name, FieldName::parse("Subject").unwrap());
    assert_eq!((subject.direction, subject.messages), (RuleDirection::In, RuleMessages::All));
    assert_eq!(subject.methods, ["INVITE", "BYE"]);
    let pattern = Pattern::parse("^(.*)!$").unwrap();
    assert_eq!(subject.action, RuleAction::Replace(pattern, b"$1 $$".as_slice().into()));
    assert_eq!((added.direction, added.messages), (RuleDirection::Out, RuleMessages::Requests));
    assert_eq!(added.action, RuleAction::Add(b"".as_slice().into()));
    assert!(config.server.trunking.trunks[1].headers.is_empty());
    let probed = &config.server.neighbours;
    assert_eq!((probed.len(), probed[0].interval.as_secs()), (1, 60));
    assert!(!config.server.trunking.routes.is_empty() && !config.server.trunking.routes.uses_rates());
    assert!(!format!("{config:?}").contains("the password"));
}

/// Invalid rules: text behind the line of their section, line of the error, key, and a part of the remedy.
#[test]
fn each_invalid_rule_for_a_header_field_has_an_error_with_line_key_and_remedy() {
    let refused = |text: &str, line: usize, key: &str, remedy: &str| {
        let errors = errors(&format!("{TRUNK}[[trunk.header]]\n{text}"));
        let start = format!("ringway.toml:{line}: {key}: ");
        let is_it = |error: &String| error.starts_with(&start) && error.contains(remedy);
        assert!(errors.iter().any(is_it), "{text}: {errors:?}");
    };
    let name = "name = \"X-A\"\n";
    let rule = |text: &str| format!("{name}{text}");
    let (key, long) = (|key: &str| format!("[trunk.header] {key}"), "x".repeat(1025));
    refused("action = \"remove\"", 4, &key("name"), "is missing");
    for needed in ["Via", "v", "CONTACT", "Proxy-Authorization", "Require", "r"] {
        refused(&format!("name = {needed:?}\naction = \"remove\""), 5, &key("name"), "give another field");
    }
    refused("name = \"X A\"\naction = \"remove\"", 5, &key("name"), "not the name");
    refused(name, 4, &key("action"), "\"remove\"");
    refused(&rule("action = \"set\""), 6, &key("action"), "unknown");
    refused(&rule("action = \"add\""), 4, &key("value"), "is missing");
    refused(&rule("action = \"add\"\nvalue = \"a\"\nmatch = \"b\""), 8, &key("match"), "take it out");
    refused(&rule("action = \"remove\"\nvalue = \"a\""), 7, &key("value"), "take it out");
    refused(&rule("action = \"replace\"\nvalue = \"a\""), 4, &key("match"), "is missing");
    refused(&rule("action = \"replace\"\nmatch = \"a\""), 4, &key("value"), "is missing");
    refused(&rule("action = \"remove\"\nmatch = \"(\""), 7, &key("match"), "no regular expression");
    refused(&rule("action = \"remove\"\nmatch = \"(a{100}){100}\""), 7, &key("match"), "65536 bytes");
    refused(&rule("action = \"replace\"\nmatch = \"a\"\nvalue = \"$1\""), 8, &key("value"), "$$");
    for broken in ["a\\r\\nVia: x", "a\\u0000", &long] {
        refused(&rule(&format!("action = \"add\"\nvalue = \"{broken}\"")), 7, &key("value"), "in one line");
    }
    refused(&rule("action = \"remove\"\nmethods = [\"invite\"]"), 7, &key("methods"), "INVITE");
    refused(&rule("action = \"remove\"\ndirection = \"up\""), 7, &key("direction"), "in");
    refused(&rule("action = \"remove\"\nmessage = \"all\""), 7, &key("message"), "messages");
    let many = format!("[[trunk.header]]\n{name}action = \"remove\"\n").repeat(65);
    assert!(errors(&format!("{TRUNK}{many}")).iter().any(|error| error.contains("at most 64 rules")));
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
        (trunk("hide_topology = true"), 4, "[trunk] hide_topology", "networks"),
        (
            format!("[routing]\nstateful = false\n{TRUNK}networks = [\"192.0.2.1\"]\nhide_topology = true"),
            7,
            "[trunk] hide_topology",
            "stateful",
        ),
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
        (route("prefix = \"1\""), 4, "route", "one of `to`"),
        (route("prefix = \"1\"\nby_cost = true"), 6, "[route] by_cost", "rates_file"),
        (trunk("rates_file = \"/nowhere\""), 4, "[trunk] rates_file", "check the path"),
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

/// 10,000 trunks are read, and one more is refused; too many connections too. The keys of so many are one key.
#[test]
fn ten_thousand_trunks_are_read_and_health_checks_are_limited() {
    let trunks = |count: usize, extra: &str| -> String {
        let trunk = |number: usize| {
            let (high, low) = (number / 250, number % 250);
            format!("[[trunk]]\nname = \"t{number}\"\nuri = \"sip:10.0.{high}.{low}{extra}\"\n")
        };
        (0..count).map(trunk).collect()
    };
    let text = trunks(10_000, "") + "[[route]]\nprefix = \"+\"\nto = [\"t9999\", \"t7\"]\n";
    let config = Config::parse(&text, None).unwrap();
    assert_eq!(config.server.trunking.trunks.len(), 10_000);
    assert!(config.warnings().iter().any(|warning| warning.contains("333 a second")));
    let keys: Vec<_> = config.keys.iter().filter(|key| key.starts_with("trunk")).collect();
    assert_eq!(keys, ["trunk"]);
    let other = Config::parse(&text.replace("10.0.0.7", "10.0.0.8"), None).unwrap();
    let changes = config.keys.changes_to(&other.keys);
    assert!(changes.len() == 1 && changes[0].to_string().contains("10000 sections"), "{changes:?}");
    let error = &errors(&trunks(10_001, ""))[0];
    assert!(error.contains("[trunk]") || error.contains("trunk: the list is too long"), "{error}");
    assert!(errors(&trunks(1000, ";transport=tcp")).is_empty());
    assert!(errors(&trunks(1001, ";transport=tcp"))[0].contains("health_check_s = 0"));
}

#[test]
fn rates_are_read_and_a_changed_file_is_another_configuration() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let read = |rates: &str| {
        std::fs::write(file.path(), rates).unwrap();
        let trunk = format!("{TRUNK}rates_file = \"{}\"\n", file.path().display());
        let second = trunk.replace("\"a\"", "\"b\"");
        Config::parse(&format!("{trunk}{second}[[route]]\nprefix = \"+\"\nby_cost = true\n"), None).unwrap()
    };
    let config = read("49,1\n4930,2\n");
    let number = |text: &str| ringway_server::Number::parse(text.as_bytes()).unwrap();
    assert_eq!(config.server.trunking.rates.find(&number("+493012")), [0, 1], "both share the file");
    assert!(config.server.trunking.routes.uses_rates());
    assert_ne!(config.server.trunking.rates, read("49,1\n4930,2\n1,1\n").server.trunking.rates);
}

#[test]
fn limits_of_callers_and_emergency_calls_are_read() {
    let text = format!(
        r#"
        domains = ["example.org", "b.example"]
        {TRUNK}calls_in_max = 5
        calls_both_max = 30
        [limits]
        user_calls_max = 4
        user_calls = ["bob:0", "alice@b.example:9"]
        domain_calls_per_s_max = 7
        domain_calls = ["b.example:2"]
        [emergency]
        numbers = ["112", "0110:110"]
        services = ["sos.Police:110"]
        to = ["a"]
        strangers = ["10.0.0.0/8"]
        [[emergency.site]]
        name = "berlin"
        networks = ["192.0.2.0/24"]
        users = ["bob", "alice@b.example"]
        caller = "+49301"
        geolocation = "https://example.org/berlin"
        "#
    );
    let server = Config::parse(&text, None).unwrap().server;
    let trunk = &server.trunking.trunks[0];
    assert_eq!((trunk.calls_in.unwrap().under_way, trunk.calls_both), (Some(5), Some(30)));
    let limits = &server.caller_limits;
    assert_eq!((limits.of_user.under_way, limits.of_domain.per_second), (Some(4), Some(7)));
    assert_eq!(limits.users, [("alice@b.example".into(), Some(9)), ("bob@example.org".into(), None)]);
    assert_eq!(limits.domains, [("b.example".into(), Some(2))]);
    let emergency = &server.trunking.emergency;
    assert_eq!((emergency.numbers[1].dialled.as_str(), emergency.numbers[1].sent.as_str()), ("0110", "110"));
    assert_eq!(emergency.services, [("sos.police".into(), "110".into())]);
    assert_eq!((emergency.trunks.as_slice(), emergency.strangers.len()), (&[0][..], 1));
    let site = &emergency.sites[0];
    assert_eq!(site.users, ["alice@b.example", "bob@example.org"]);
    assert_eq!((site.caller.as_deref(), site.networks.len()), (Some("+49301"), 1));
}

#[test]
fn each_invalid_limit_and_emergency_call_has_an_error_with_line_key_and_remedy() {
    let emergency = |text: &str| format!("{TRUNK}[emergency]\n{text}");
    let site = |text: &str| {
        emergency(&format!("numbers = [\"112\"]\nto = [\"a\"]\n[[emergency.site]]\nname = \"x\"\n{text}"))
    };
    for (text, line, key, remedy) in [
        ("[limits]\nuser_calls = [\"alice\"]".to_owned(), 2, "[limits] user_calls", "alice:20"),
        ("[limits]\nuser_calls = [\"a@b:1\"]".to_owned(), 2, "[limits] user_calls", "alice:20"),
        ("[limits]\nuser_calls = [\"a:1\", \"a:2\"]".to_owned(), 2, "[limits] user_calls", "twice"),
        ("[limits]\ndomain_calls = [\"b:1\"]".to_owned(), 2, "[limits] domain_calls", "example.org:20"),
        (
            "[routing]\nrecord_route = false\n[limits]\nuser_calls_max = 1".to_owned(),
            4,
            "[limits] user_calls_max",
            "record_route = true",
        ),
        (
            format!("[routing]\nrecord_route = false\n{TRUNK}calls_in_max = 1"),
            6,
            "[trunk] calls_in_max",
            "record_route = true",
        ),
        (emergency("numbers = [\"112\"]"), 5, "[emergency] to", "is missing"),
        (emergency("to = [\"a\"]"), 5, "[emergency] numbers", "is missing"),
        (emergency("numbers = [\"x\"]\nto = [\"a\"]"), 5, "[emergency] numbers", "0112:112"),
        (emergency("numbers = [\"112\"]\nto = [\"b\"]"), 6, "[emergency] to", "no [[trunk]]"),
        (
            emergency("numbers = [\"112\"]\nto = [\"a\"]\nservices = [\"police:110\"]"),
            7,
            "[emergency] services",
            "sos.police:110",
        ),
        (
            emergency("numbers = [\"112\"]\nto = [\"a\"]\nstrangers = [\"0.0.0.0/0\"]"),
            7,
            "[emergency] strangers",
            "every address",
        ),
        (
            format!("[routing]\nstateful = false\n{}", emergency("numbers = [\"112\"]\nto = [\"a\"]")),
            8,
            "[emergency] to",
            "stateful",
        ),
        (site("caller = \"112\""), 7, "emergency.site", "`networks` or `users`"),
        (site("users = [\"alice\"]"), 7, "emergency.site", "`geolocation`"),
        (
            site("users = [\"alice\"]\ngeolocation = \"cid:1@x\""),
            10,
            "[emergency.site] geolocation",
            "https:",
        ),
        (
            site("users = [\"alice@elsewhere\"]\ncaller = \"+49\""),
            9,
            "[emergency.site] users",
            "alice@DOMAIN",
        ),
    ] {
        let errors = errors(&text);
        let expected = format!("ringway.toml:{line}: {key}: ");
        let is_there = errors.iter().any(|error| error.starts_with(&expected) && error.contains(remedy));
        assert!(is_there, "{text}\n{expected}{remedy}\n{errors:?}");
    }
}

#[test]
fn what_a_carrier_would_misread_has_a_warning() {
    let of = |text: &str| Config::parse(&format!("{TRUNK}{text}"), None).unwrap().warnings().join("\n");
    let out = "normalise = { out = \"00\" }\n";
    assert!(of(&format!("{out}caller = \"4930\"\n")).contains("\"4930\" of [[trunk]] \"a\""));
    assert!(of(&format!("{out}callers = [\"alice:030\"]\n")).contains("\"030\""));
    assert!(!of(&format!("{out}caller = \"+4930\"\n")).contains("normalise"));
    assert!(!of("caller = \"4930\"\n").contains("normalise"));
    let emergency = "[emergency]\nnumbers = [\"112\"]\nto = [\"a\"]\n";
    assert!(of(emergency).contains("[[emergency.site]]"));
    let site = "[[emergency.site]]\nname = \"x\"\nusers = [\"alice\"]\ncaller = \"+4930\"\n";
    assert!(!of(&format!("{emergency}{site}")).contains("emergency"));
}

/// Writes a key, its certificate, and the authority of it into a folder; returns names and paths.
pub(super) fn stir_files(folder: &Path) -> Vec<(&'static str, String)> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let files = [
        ("stir-key.pem", key.serialize_pem()),
        ("stir.pem", certificate.pem()),
        ("stir-authorities.pem", certificate.pem()),
    ];
    let write = |(name, text): (&'static str, String)| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        (name, path.display().to_string())
    };
    files.into_iter().map(write).collect()
}

#[test]
fn the_key_of_identities_is_compared_with_its_certificate() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(_, key), (_, certificate), (_, authorities)] =
        <[_; 3]>::try_from(stir_files(folder.path())).unwrap();
    let [(_, other_key), ..] = <[_; 3]>::try_from(stir_files(other.path())).unwrap();
    let own = |key: &str, certificate: &str, url: &str| {
        format!("[stir]\nprivate_key = {key:?}\ncertificate = {certificate:?}\ncertificate_url = {url:?}\n")
    };
    let url = "https://a.example/c.pem";
    let trunk = |stir: &str| format!("{TRUNK}networks = [\"192.0.2.7\"]\nstir = [{stir}]\n");
    let good = own(&key, &certificate, url);
    let checks = format!("{good}authorities = {authorities:?}\ncertificate_hosts = [\"*.b.example\"]\n");
    let config = Config::parse(&format!("{checks}{}", trunk("\"sign\", \"require\"")), None).unwrap();
    let stir = config.server.trunking.trunks[0].stir;
    assert!(stir.signs && stir.check == ringway_server::CallerCheck::Require);
    assert_eq!(config.server.stir.origin_id.len(), 36);
    assert_eq!(config.stir.signers.as_ref().unwrap().authorities.len(), 1);
    assert!(!config.warnings().iter().any(|warning| warning.contains("[stir]")), "{:?}", config.warnings());
    assert_eq!(Config::parse(&good, None).unwrap().server.stir.origin_id, config.server.stir.origin_id);
    let long = format!("https://a.example/{}", "a".repeat(200));
    for (text, line, why) in [
        (own(&other_key, &certificate, url), 3, "is not a certificate of this private_key"),
        (own(&certificate, &certificate, url), 2, "has no private key of P-256"),
        (own(&key, &key, url), 3, "has no certificate in PEM format"),
        (own("/nowhere/key.pem", &certificate, url), 2, "cannot be read"),
        (own(&key, &certificate, "http://a.example/c.pem"), 4, "is no URL"),
        (own(&key, &certificate, &long), 4, "is no URL"),
        (format!("[stir]\nprivate_key = {key:?}"), 2, "needs private_key, certificate and certificate_url"),
        (format!("{good}origid = \"7\""), 5, "is no UUID"),
        ("[stir]\ncertificate_hosts = [\"https://a.example\"]".to_owned(), 2, "is no host"),
        (format!("[stir]\nauthorities = {key:?}"), 2, "has no certificate in PEM format"),
        (trunk("\"sign\""), 5, "needs [stir] private_key"),
        (trunk("\"verify\""), 5, "needs [stir] authorities and certificate_hosts"),
        (format!("{checks}{TRUNK}stir = [\"verify\"]"), 10, "needs `networks` of the trunk"),
        (format!("{good}{}", trunk("\"seal\"")), 9, "is unknown"),
        (format!("[routing]\nstateful = false\n{good}{}", trunk("\"sign\"")), 11, "needs [routing] stateful"),
    ] {
        let errors = errors(&text);
        let error = errors.first().unwrap_or_else(|| panic!("{text}"));
        assert!(
            error.starts_with(&format!("ringway.toml:{line}:")) && error.contains(why),
            "{text}{errors:?}"
        );
    }
    let hosts = Config::parse("[stir]\ncertificate_hosts = [\"*\"]", None).unwrap();
    assert!(hosts.warnings().iter().any(|warning| warning.contains("without `authorities`")));
}
