//! `phone.toml`, its errors, writing it back, and the storage of the password.

use super::*;
use ringway_audio::pulse::Names;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;
use ringway_ui::phone::{Account, Contact, PasswordPlace, Registration, Secret};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::tempdir;

/// A `phone.toml` with an account and three contacts.
const FILE: &str = r#"
[account]
uri = "sip:alice@example.org"
server = "192.0.2.10:5060"
password = "ask"

[[contact]]
name = "Bob"
uri = "sip:bob@example.org"
quick = 1

[[contact]]
name = "Carol Danvers"
uri = "sip:carol@example.org"
quick = 4

[[contact]]
name = "Door"
uri = "sip:door@192.0.2.30"
"#;

fn errors(text: &str) -> Vec<String> {
    let errors = Settings::parse(text, Path::new("phone.toml")).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_is_documented() {
    const GUIDE: &str = include_str!("../../../../../../docs/reference/phone.md");
    let known_keys = |text: &str| {
        let list =
            errors(text).into_iter().find_map(|error| Some(error.split_once("give one of: ")?.1.to_owned()));
        list.map(|list| list.split(", ").map(str::to_owned).collect::<Vec<_>>()).unwrap()
    };
    let mut documented = 0;
    for section in known_keys("no_key = 1") {
        let header = if section == "contact" { format!("[[{section}]]") } else { format!("[{section}]") };
        let text =
            GUIDE.split_once(&format!("\n{header}\n")).map(|(_, rest)| rest.split("\n[").next().unwrap());
        let text = text.unwrap_or_else(|| panic!("docs/reference/phone.md has no {header}"));
        for key in known_keys(&format!("{header}\nno_key = 1")) {
            assert!(
                format!("\n{text}").contains(&format!("\n{key} = ")),
                "docs/reference/phone.md has no {key} in {header}"
            );
            documented += 1;
        }
    }
    assert!(documented > 18);
}

#[test]
fn every_key_is_read() {
    let text = r#"
        [account]
        uri = "alice@example.org"
        name = "Alice"
        auth_user = "al"
        realm = "asterisk"
        server = "[2001:db8::1]:5080"
        transport = "tcp"
        register = false
        password = "file:secret"
        [call]
        srtp = "zrtp"
        play = "tone:440"
        record = "heard"
        replay_window = 256
        [audio]
        in = "headset"
        [network]
        bind = "192.0.2.7:5062"
        stun = "stun.example.org"
        port_row = 8
        instance = "urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF"
        [[contact]]
        name = "Bob"
        uri = "bob@example.org"
        quick = 9
    "#;
    let settings = Settings::parse(text, Path::new("conf/phone.toml")).unwrap();
    let account = Account {
        uri: "sip:alice@example.org".into(),
        name: "Alice".into(),
        auth_user: Some("al".into()),
        realm: Some("asterisk".into()),
        server: Some("[2001:db8::1]:5080".into()),
        transport: ringway_sansio::Transport::Tcp,
        registration: Registration::Unwanted,
        password: PasswordPlace::File("secret".into()),
    };
    assert_eq!(settings.pages.account, Some(account));
    assert_eq!(settings.pages.srtp, SrtpPolicy::Zrtp);
    assert_eq!((settings.play.as_str(), settings.record), ("tone:440", Some("heard".into())));
    assert_eq!((settings.replay_window, settings.port_row), (256, 8));
    assert_eq!(settings.instance.as_deref(), Some("urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF"));
    assert_eq!(settings.audio, Some(Names { microphone: Some("headset".into()), loudspeaker: None }));
    assert_eq!(settings.bind, "192.0.2.7:5062".parse().ok());
    assert_eq!(settings.pages.stun.as_deref(), Some("stun.example.org"));
    let bob = Contact { name: "Bob".into(), uri: "sip:bob@example.org".into(), quick: Some(9) };
    assert_eq!(settings.pages.contacts, [bob]);
}

#[test]
fn nothing_at_all_is_a_good_file() {
    let settings = Settings::parse("", Path::new("phone.toml")).unwrap();
    assert_eq!((settings.pages.account, settings.pages.contacts), (None, vec![]));
    assert_eq!((settings.pages.srtp, settings.play.as_str()), (SrtpPolicy::Best, "microphone"));
    assert_eq!(settings.audio, Some(Names::default()));
    let off = Settings::parse("[audio]\nenabled = false\nin = \"x\"", Path::new("phone.toml")).unwrap();
    assert_eq!(off.audio, None);
    assert_eq!(settings.bind, None);
}

#[test]
fn a_sips_address_implies_tls() {
    for transport in ["", "transport = \"tls\""] {
        let text = format!("[account]\nuri = \"sips:a@b\"\n{transport}\n");
        let account = Settings::parse(&text, Path::new("phone.toml")).unwrap().pages.account.unwrap();
        assert_eq!((account.uri.as_str(), account.transport), ("sips:a@b", Transport::Tls));
    }
}

#[test]
fn errors_name_key_and_line() {
    let text = "[account]\nuri = \"sip:alice@example.org\"\ntransprot = \"udp\"\n[cal]\nx = 1\n[call]\nsrtp = \"tls\"\n";
    let found = errors(text);
    assert!(found[0].starts_with("phone.toml:3: [account] transprot: unknown key"), "{found:?}");
    assert!(found[1].starts_with("phone.toml:4: [cal]: unknown key"), "{found:?}");
    assert!(
        found[2].starts_with("phone.toml:7: [call] srtp: \"tls\" is unknown; give one of \"best\""),
        "{found:?}"
    );
    for (text, wanted) in [
        ("[account]\nname = \"A\"", "phone.toml:1: [account] uri: is missing"),
        (
            "[account]\nuri = \"sip:example.org\"",
            "phone.toml:2: [account] uri: \"sip:example.org\" has no user",
        ),
        (
            "[account]\nuri = \"sips:a@b\"\ntransport = \"tcp\"",
            "phone.toml:3: [account] transport: a sips: address needs \"tls\"",
        ),
        (
            "[account]\nuri = \"a@b\"\ntransport = \"wss\"",
            "phone.toml:3: [account] transport: \"wss\" is not supported in this build",
        ),
        (
            "[account]\nuri = \"a@b\"\npassword = \"hunter2\"",
            "phone.toml:3: [account] password: is not the password",
        ),
        ("[network]\nbind = \"here\"", "phone.toml:2: [network] bind: \"here\" is no address"),
        ("[network]\ninstance = \"desk\"", "phone.toml:2: [network] instance: give a URN"),
        ("[network]\nport_row = 65", "phone.toml:2: [network] port_row: "),
        ("[call]\nreplay_window = 63", "phone.toml:2: [call] replay_window: "),
        ("[network]\nstun = \"a b\"", "phone.toml:2: [network] stun: \"a b\" is no host"),
        ("contact = 1", "phone.toml:1: contact: is a list of sections"),
        ("[[contact]]\nname = \"B\"", "phone.toml:1: [contact] uri: is missing"),
        ("[[contact]]\nname = \"B\"\nuri = \"b\"", "phone.toml:3: [contact] uri: \"b\": say where"),
        (
            "[[contact]]\nname = \"B\"\nuri = \"b@c\"\nquick = 10",
            "phone.toml:4: [contact] quick: 10 is out of range",
        ),
        ("[call]\nplay = 1", "phone.toml:2: [call] play: is of type integer here"),
        ("[call", "phone.toml:1: not TOML"),
    ] {
        assert!(errors(text)[0].starts_with(wanted), "{text}: {:?}", errors(text));
    }
    assert!(!errors("[account]\nuri = \"a@b\"\npassword = \"hunter2\"")[0].contains("hunter2"));
    let twice = format!("{FILE}\nquick = 4\n");
    assert!(errors(&twice)[0].contains("another contact has this key"));
}

#[test]
fn saving_keeps_what_a_person_wrote() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("phone.toml");
    let text =
        "# mine\n[call]\nsrtp = \"sdes\" # always\n\n[account]\nuri = \"sip:a@b\" # me\nname = \"A\"\n";
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let mut settings = Settings::load(&file).unwrap();
    settings.pages.contacts.push(Contact {
        name: "Bob \"B\"".into(),
        uri: "sip:bob@b".into(),
        quick: Some(2),
    });
    settings.pages.stun = Some("stun.example.org".into());
    // It was changed by hand meanwhile.
    fs::write(&file, text.replace("always", "always, really")).unwrap();
    save(&settings.pages, &file).unwrap();
    let saved = fs::read_to_string(&file).unwrap();
    assert!(saved.starts_with("# mine\n[call]\nsrtp = \"sdes\" # always, really\n"), "{saved}");
    assert_eq!(Settings::load(&file).unwrap(), settings, "{saved}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    settings.pages.contacts.clear();
    settings.pages.stun = None;
    save(&settings.pages, &file).unwrap();
    assert_eq!(Settings::load(&file).unwrap(), settings);
}

#[test]
fn comments_without_keys_stay_at_the_start() {
    let folder = tempdir().unwrap();
    let account = Settings::parse(FILE, Path::new("phone.toml")).unwrap().pages;
    for (name, text, start) in
        [("new.toml", None, "# The phone of"), ("mine.toml", Some("# mine\n"), "# mine\n")]
    {
        let file = folder.path().join(name);
        text.map_or(Ok(()), |text| fs::write(&file, text)).unwrap();
        for _ in 0..2 {
            save(&account, &file).unwrap();
            let saved = fs::read_to_string(&file).unwrap();
            assert!(saved.starts_with(start) && saved.matches(start).count() == 1, "{saved}");
            assert!(saved.trim_end().ends_with("\"sip:door@192.0.2.30\""), "{saved}");
        }
    }
}

#[test]
fn a_new_file_is_its_owners_alone() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("phone.toml");
    assert_eq!(Settings::load(&file).unwrap().pages.account, None);
    let settings = Settings::parse(FILE, &file).unwrap();
    save(&settings.pages, &file).unwrap();
    assert_eq!(Settings::load(&file).unwrap(), settings);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&file, "[broken\n").unwrap();
    let why = save(&settings.pages, &file).unwrap_err();
    assert!(why.contains("phone.toml:1: not TOML") && why.contains("nothing is saved"), "{why}");
    assert!(
        save(&settings.pages, &folder.path().join("no/phone.toml")).unwrap_err().contains("cannot write")
    );
}

#[test]
fn a_password_file_that_others_may_read_is_refused() {
    let folder = tempdir().unwrap();
    let config = folder.path().join("phone.toml");
    let place = PasswordPlace::from_text("file:pw").unwrap();
    let path = folder.path().join("pw");
    assert_eq!(password::read(&place, &config, "sip:a@b"), Ok(None));
    let secret = Secret("pass word ".into());
    password::keep(&place, &config, "sip:a@b", &secret).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(password::read(&place, &config, "sip:a@b"), Ok(Some(secret)));
    for mode in [0o644, 0o640, 0o604, 0o660] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let why = password::read(&place, &config, "sip:a@b").unwrap_err();
        assert!(why.contains(&format!("mode {mode:o}")) && why.contains("chmod 600"), "{why}");
    }
    // A password that cannot be read back is not reported as kept.
    let ends_a_line = Secret("ends a line\r".into());
    let why = password::keep(&place, &config, "sip:a@b", &ends_a_line).unwrap_err();
    assert!(why.contains("cannot be read back"), "{why}");
    // Kept anew, it is closed again, whatever it was.
    password::keep(&place, &config, "sip:a@b", &Secret("new".into())).unwrap();
    assert_eq!(password::read(&place, &config, "sip:a@b"), Ok(Some(Secret("new".into()))));
    fs::write(&path, "x".repeat(2000)).unwrap();
    assert!(password::read(&place, &config, "sip:a@b").unwrap_err().contains("longer than 1024"));
    password::forget(&place, &config, "sip:a@b").unwrap();
    password::forget(&place, &config, "sip:a@b").unwrap();
    assert!(!path.exists());
}

#[test]
fn the_keyring_gives_back_what_it_was_given() {
    let (place, config) = (PasswordPlace::Keyring, Path::new("phone.toml"));
    let uri = format!("sip:test-{}@localhost", std::process::id());
    let secret = Secret("in the kernel".into());
    match password::keep(&place, config, &uri, &secret) {
        Ok(()) => {
            assert_eq!(password::read(&place, config, &uri), Ok(Some(secret)));
            password::forget(&place, config, &uri).unwrap();
        }
        // Some containers have no keyring: then it must say what else can be done.
        Err(why) => assert!(why.contains("file:phone.password"), "{why}"),
    }
    assert_eq!(password::read(&place, config, "sip:nobody-here@localhost").unwrap_or(None), None);
}
