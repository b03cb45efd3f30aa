//! `ringway phone` in a terminal: the built program in a pseudo-terminal (util-linux's `script`), whose screen is read
//! by a terminal emulator.
//!
//! Tested: first start and login, a call through the server with SRTP, hold, DTMF, call waiting, transfer, the ladder,
//! the verified SAS of ZRTP, quitting, the state of disk and terminal afterwards; a signal; refused starts. Not tested
//! here: each screen in detail (unit tests).
//!
//! `RINGWAY_PICTURES=write cargo test -p ringway --test ringway phone_screen` writes the screens to `docs/pictures`.

#[path = "../../../ui/src/svg.rs"]
mod picture;

use crate::program::{Running, Signal, send_signal};
use crate::terminal::Terminal;
use picture::{Glyph, Look};
use ringway_test_support::eventually::wait_until;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::{TempDir, tempdir};

const ENTER: &str = "\r";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const RIGHT: &str = "\x1b[C";
const HOME: &str = "\x1b[H";
const F2: &str = "\x1bOQ";
const F4: &str = "\x1bOS";
const F5: &str = "\x1b[15~";
const F6: &str = "\x1b[17~";
const F7: &str = "\x1b[18~";
const F9: &str = "\x1b[20~";

impl Terminal {
    /// Writes the window as a picture, if requested.
    fn picture(&self, name: &str) {
        if std::env::var("RINGWAY_PICTURES").is_ok_and(|value| value == "write") {
            let file = format!("{}/../../docs/pictures/phone-{name}.svg", env!("CARGO_MANIFEST_DIR"));
            let drawn =
                picture::svg(&rows(self.screen().screen()), &format!("ringway phone, captured: {name}"));
            fs::write(file, drawn).unwrap();
        }
    }

    /// Waits some seconds, so that the picture shows statistics.
    fn pause_for_picture(&self) {
        if std::env::var("RINGWAY_PICTURES").is_ok_and(|value| value == "write") {
            std::thread::sleep(Duration::from_secs(12));
        }
    }

    /// True if the terminal was restored: the primary screen is shown, the cursor is visible.
    fn is_restored(&self) -> bool {
        let screen = self.screen();
        !screen.screen().alternate_screen()
            && !screen.screen().hide_cursor()
            && !screen.screen().bracketed_paste()
    }
}

fn rows(screen: &vt100::Screen) -> Vec<Vec<Glyph>> {
    let number = |colour| match colour {
        vt100::Color::Idx(number) => Some(number),
        vt100::Color::Default | vt100::Color::Rgb(..) => None,
    };
    let glyph = |row, column| {
        let cell = screen.cell(row, column).unwrap();
        let look = Look {
            front: number(cell.fgcolor()),
            back: number(cell.bgcolor()),
            is_bold: cell.bold(),
            is_underlined: cell.underline(),
            is_reversed: cell.inverse(),
        };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        Glyph { text: text.to_owned(), look }
    };
    (0..24).map(|row| (0..80).map(|column| glyph(row, column)).collect()).collect()
}

/// Starts a server with alice, bob and carol, whose passwords are their names; returns it with its address.
fn server(folder: &TempDir) -> (Running, String) {
    let config = "domains = [\"localhost\"]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    for name in ["alice", "bob", "carol"] {
        Running::start(folder.path(), &["user", "add", name, "--password-stdin", "--danger-weak"], name)
            .done()
            .ok();
    }
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    (server, address)
}

#[test]
fn a_person_signs_in_calls_and_leaves() {
    let folder = tempdir().unwrap();
    let (_server, address) = server(&folder);
    let answer =
        ["answer", "--as", "sip:bob@localhost", "--server", &address, "--register", "--password-stdin"];
    let bob = Running::start(folder.path(), &[&answer[..], &["--play", "speech"]].concat(), "bob");
    bob.ready();

    fs::write(
        folder.path().join("phone.toml"),
        "# mine\n[call]\nplay = \"speech\"\n[audio]\nenabled = false\n",
    )
    .unwrap();
    let mut phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["Welcome. Who are you?", "no account"]);
    for keys in ["alice@localhost", DOWN, "alice", DOWN, &address, UP, UP, UP, RIGHT] {
        phone.press(keys);
    }
    phone.shows(&["•••••", "in phone.password, mode 600"]);
    phone.picture("login");
    phone.press(ENTER);
    phone.shows(&["registered, ", "saved in phone.toml"]);
    let mode = |name| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("phone.password"), 0o600);
    let settings = fs::read_to_string(folder.path().join("phone.toml")).unwrap();
    assert!(settings.starts_with("# mine\n[call]\n"), "{settings}");
    assert!(settings.contains("uri = \"sip:alice@localhost\"") && settings.contains("file:phone.password"));

    phone.press("bob\r");
    phone.shows(&["talking, PCMU", "ZRTP  AES", "satisfied", "0 lost"]);
    bob.says("is connected");
    phone.press("5");
    bob.says("key pressed there: 5");
    phone.press("h");
    phone.shows(&["ON HOLD by you"]);
    bob.says("holds the call");
    phone.press("h");
    bob.says("is back");

    let call = ["call", "sip:alice@localhost", "--from", "sip:carol@localhost", "--server", &address];
    let carol = Running::start(folder.path(), &[&call[..], &["--password-stdin"]].concat(), "carol");
    phone.shows(&[">> ", "sip:carol@localhost", "calls", "Enter answer"]);
    phone.picture("call-waiting");
    phone.press("\x12");
    carol.says("486");
    phone.shows(&["ZRTP  AES"]);
    phone.pause_for_picture();
    phone.picture("call");

    phone.press(F6);
    phone.shows(&["127.0.0.1", "RTP", "SIP udp", "priority"]);
    phone.press(F7);
    phone.shows(&["200 OK (INVITE)", "486 Busy Here"]);
    phone.picture("ladder");
    phone.press(HOME);
    phone.shows(&["REGISTER sip:localhost", "401 Unauthorized"]);
    phone.press("f");
    phone.press(ENTER);
    phone.shows(&["sent to", "CSeq: 1 REGISTER"]);
    phone.press(F5);
    phone.press("x");
    phone.shows(&["over: you hung up"]);
    phone.press(F4);
    phone.shows(&["sip:bob@localhost", "rejected by you"]);
    phone.picture("calls");
    phone.press("q");
    assert_eq!(phone.ends(), 0);
    assert!(phone.is_restored());

    // The next start has the calls of this one.
    assert_eq!(mode("phone.calls"), 0o600);
    let mut phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["registered, "]);
    phone.press(F4);
    phone.shows(&["sip:bob@localhost", "sip:carol@localhost", "rejected by you"]);
    phone.press("q");
    assert_eq!(phone.ends(), 0);
}

#[test]
fn a_server_that_cannot_be_resolved_is_not_saved() {
    let folder = tempdir().unwrap();
    let mut phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["Welcome"]);
    for keys in ["alice@localhost", DOWN, DOWN, "no-such-server.invalid", ENTER] {
        phone.press(keys);
    }
    phone.shows(&["nothing is saved: ", "no-such-server.invalid", "[F8 Account]"]);
    assert!(!folder.path().join("phone.toml").exists());
    phone.press("\x11");
    assert_eq!(phone.ends(), 0);
}

#[test]
fn zrtp_shows_the_same_sas_at_both_ends() {
    let folder = tempdir().unwrap();
    let settings = "[account]\nuri = \"sip:alice@127.0.0.1\"\nregister = false\n[call]\nsrtp = \"zrtp\"\nplay = \"speech\"\n\
                    [audio]\nenabled = false\n[network]\nbind = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("phone.toml"), settings).unwrap();
    let answer = [
        "answer",
        "--as",
        "sip:bob@127.0.0.1",
        "--bind",
        "127.0.0.1:0",
        "--srtp",
        "zrtp",
        "--play",
        "speech",
    ];
    let bob = Running::start(folder.path(), &answer, "");
    let address = bob.address();
    let mut phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["Quick dial"]);
    phone.press(&format!("bob@{address}\r"));
    let shown = phone.shows(&["ZRTP  AES", "SAS "]);
    let sas = shown.split("SAS ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(bob.says("compare by voice: ").contains(&format!("compare by voice: {sas}")), "{sas}");
    phone.press("v");
    phone.shows(&["compared: nobody sits between you", "satisfied"]);
    phone.pause_for_picture();
    phone.picture("zrtp");
    phone.press("\x18");
    // While the call is live, `q` asks.
    phone.shows(&["over: you hung up"]);
    phone.press("q");
    assert_eq!(phone.ends(), 0);
}

/// Waits for the SAS and `text`, and returns the SAS.
fn sas(phone: &Terminal, text: &str) -> String {
    let shown = phone.shows(&["ZRTP  AES", "SAS ", text]);
    shown.split("SAS ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn a_verified_sas_is_recognised_in_the_next_call() {
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    let (mut alice, _) = direct_phone(folders[0].path(), "alice", "srtp = \"zrtp\"");
    let (mut bob, bob_at) = direct_phone(folders[1].path(), "bob", "srtp = \"zrtp\"");
    alice.press(F2);
    let mut strings = Vec::new();
    for round in 0..2 {
        alice.press(&format!("{bob_at}\r"));
        bob.shows(&[">> ", "alice", "calls", "Enter answer"]);
        bob.press(ENTER);
        if round == 0 {
            let strings = [&alice, &bob].map(|phone| sas(phone, "v: it is equal"));
            assert_eq!(strings[0], strings[1]);
            for phone in [&mut alice, &mut bob] {
                phone.press("v");
            }
        }
        let compared = [&alice, &bob].map(|phone| sas(phone, "compared: nobody sits between you"));
        assert_eq!(compared[0], compared[1]);
        strings.extend(compared);
        alice.press("\x18");
        alice.shows(&["over: you hung up"]);
        bob.shows(&["over: "]);
        alice.press(F2);
        alice.shows(&["Quick dial"]);
        bob.press(F2);
        bob.shows(&["Quick dial"]);
    }
    assert!(strings[0] != strings[2], "the second call has a string of its own: {strings:?}");
}

/// Starts `ringway phone` without a server; returns it with its URI. `call` is the `[call]` section of its
/// configuration.
fn direct_phone(folder: &Path, name: &str, call: &str) -> (Terminal, String) {
    let settings = format!(
        "[account]\nuri = \"sip:{name}@127.0.0.1\"\nregister = false\n[call]\n{call}\n[audio]\nenabled = false\n\
         [network]\nbind = \"127.0.0.1:0\"\n"
    );
    fs::write(folder.join("phone.toml"), settings).unwrap();
    let mut phone = Terminal::open(folder, "phone");
    phone.press(F6);
    let shown = phone.shows(&["SIP udp"]);
    let address = shown.split("SIP udp").nth(1).unwrap().split_whitespace().next().unwrap();
    (phone, format!("{name}@{address}"))
}

#[test]
fn a_transfer_is_executed_when_the_user_agrees() {
    let folders = [tempdir().unwrap(), tempdir().unwrap()];
    let (mut alice, _) = direct_phone(folders[0].path(), "alice", "");
    let (mut bob, bob_at) = direct_phone(folders[1].path(), "bob", "");
    let answer = ["answer", "--as", "sip:carol@127.0.0.1", "--bind", "127.0.0.1:0"];
    let carol = Running::start(folders[0].path(), &answer, "");
    let carol_at = carol.address();

    alice.press(F2);
    alice.press(&format!("{bob_at}\r"));
    bob.shows(&[">> ", "alice", "calls"]);
    bob.press("\x01");
    for phone in [&alice, &bob] {
        phone.shows(&["talking, PCMU"]);
    }
    alice.press("t");
    alice.shows(&["Transfer"]);
    alice.press(&format!("carol@{carol_at}\r"));
    bob.shows(&["sends you to", "F9 call there"]);
    bob.press(F9);
    carol.says("is connected");
    alice.shows(&["over: transferred to sip:carol@", "transfer done: "]);
    bob.shows(&["carol@", "talking, PCMU"]);
    bob.press("m");
    bob.shows(&["MUTED"]);
    bob.press("\x03");
    bob.shows(&["live", "y hang up and leave"]);
    bob.press("y");
    assert_eq!(bob.ends(), 0);
    carol.says("answered");
}

#[test]
fn a_signal_restores_the_terminal() {
    let folder = tempdir().unwrap();
    let phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["Welcome"]);
    assert!(!phone.is_restored());
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    send_signal(pid.trim().parse().unwrap(), Signal::TERM).unwrap();
    assert_eq!(phone.ends(), 0);
    assert!(phone.is_restored());
}

#[test]
fn a_closed_terminal_ends_the_phone() {
    let folder = tempdir().unwrap();
    let phone = Terminal::open(folder.path(), "phone");
    phone.shows(&["Welcome"]);
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    phone.kill();
    let status = Path::new("/proc").join(pid.trim()).join("stat");
    // A zombie has ended.
    let has_ended = || !fs::read_to_string(&status).is_ok_and(|status| !status.contains(") Z "));
    wait_until("its end", has_ended);
}

#[test]
fn refused_starts_report_the_reason_in_one_line() {
    let refused = |folder: &Path| Running::start(folder, &["phone"], "").done().refused(2);
    let folder = tempdir().unwrap();
    assert!(refused(folder.path()).contains("needs a terminal"));
    fs::write(folder.path().join("phone.toml"), "[account]\nurl = \"sip:a@b\"\nuri = \"sip:a@b\"\n").unwrap();
    assert!(refused(folder.path()).contains("phone.toml:2: [account] url: unknown key"));
    fs::write(folder.path().join("phone.toml"), "[account]\nuri = \"sip:a@b\"\npassword = \"file:pw\"\n")
        .unwrap();
    fs::write(folder.path().join("pw"), "secret\n").unwrap();
    fs::set_permissions(folder.path().join("pw"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(folder.path());
    assert!(said.contains("mode 644") && said.contains("chmod 600") && !said.contains("secret"), "{said}");
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap();
    for (section, wanted) in [
        ("[call]\nplay = \"nofile.wav\"".to_owned(), "phone.toml:4: [call] play: nofile.wav"),
        (format!("[network]\nbind = \"{at}\""), "phone.toml: [network] bind: cannot listen on udp:"),
        (
            "[network]\nbind = \"192.0.2.1:0\"".to_owned(),
            "phone.toml: [network] bind: cannot listen on udp:192.0.2.1",
        ),
    ] {
        let text = format!("[account]\nuri = \"sip:a@localhost\"\n{section}\n");
        fs::write(folder.path().join("phone.toml"), text).unwrap();
        let said = refused(folder.path());
        assert!(said.contains(wanted), "{said}");
    }
}
