//! Configurations of other programs in the documents, with these programs, and pages that are followed command by command.

use crate::program::Running;
use crate::terminal::Terminal;
use ringway_test_support::programs::has;
use ringway_test_support::redis::RedisServer;
use std::fs;
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tempfile::TempDir;

const BROWSER: &str = include_str!("../../../../docs/start/browser.md");
const COOKBOOK: &str = include_str!("../../../../docs/recipes/cookbook.md");
const DASHBOARD: &str = include_str!("../../../../docs/recipes/dashboard.md");
const ENUM: &str = include_str!("../../../../docs/recipes/telephone-numbers.md");
pub(crate) const FAIL2BAN: &str = include_str!("../../../../docs/recipes/fail2ban.md");
const HOST_NAMES: &str = include_str!("../../../../docs/recipes/host-names.md");
const KAMAILIO: &str = include_str!("../../../../docs/recipes/kamailio.md");
const LOAD_BALANCER: &str = include_str!("../../../../docs/recipes/load-balancer.md");
const LAB: &str = include_str!("../../../../docs/reference/lab.md");
const LAB_SIPP: &str = include_str!("../../../../docs/reference/lab-sipp.md");
const LOG: &str = include_str!("../../../../docs/reference/log.md");
const RECORDS: &str = include_str!("../../../../docs/recipes/call-records.md");
const SCALE: &str = include_str!("../../../../docs/recipes/scale.md");
const TLS: &str = include_str!("../../../../docs/recipes/tls.md");
const TWO_PHONES: &str = include_str!("../../../../docs/start/two-phones.md");

/// The only block of a document that begins with this text.
pub(crate) fn block<'d>(document: &'d str, start: &str) -> &'d str {
    let blocks = document.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap().1);
    let found: Vec<_> = blocks.filter(|block| block.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "blocks that begin with {start:?}");
    found[0]
}

/// The text of a heading, to the next one.
fn section<'d>(document: &'d str, heading: &str) -> &'d str {
    document.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap()
}

/// Runs the commands of a page that come before the start of the server.
fn before_start(folder: &Path, commands: &str) -> Output {
    symlink(env!("CARGO_BIN_EXE_ringway"), folder.join("ringway")).unwrap();
    let commands = commands.trim_end().strip_suffix("ringway serve").unwrap();
    let script = format!("set -e; PATH=$PWD:$PATH\n{commands}");
    let done = Command::new("bash").args(["-c", &script]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{script}\n{done:?}");
    done
}

#[test]
fn redis_loads_its_configuration_and_a_check_finds_nothing_missing_there() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let configuration = block(SCALE, "# redis.conf").replace("192.0.2.8", "127.0.0.1");
    let redis = RedisServer::start_with_configuration(&configuration);
    let folder = TempDir::new().unwrap();
    let page = section(COOKBOOK, "Two servers");
    let node = block(page, "domains").replace("192.0.2.8:6379", &redis.host());
    fs::write(folder.path().join("ringway.toml"), node).unwrap();
    let done = before_start(folder.path(), block(page, "umask 077"));
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
}

#[test]
fn keepalived_takes_its_configuration() {
    // It has no address on loopback.
    let interfaces = fs::read_dir("/sys/class/net").unwrap().map(|name| name.unwrap().file_name());
    let mut names = interfaces.map(|name| name.into_string().unwrap());
    let Some(interface) = names.find(|name| name != "lo") else { return };
    if !has("keepalived", "keepalived") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("keepalived.conf");
    let program = env!("CARGO_BIN_EXE_ringway");
    let configuration =
        block(SCALE, "global_defs").replace("eth0", &interface).replace("/usr/bin/ringway", program);
    let faults = |text: &str| {
        fs::write(&file, text).unwrap();
        // It ends its process group.
        let done =
            Command::new("keepalived").arg("-t").arg("-f").arg(&file).process_group(0).output().unwrap();
        String::from_utf8(done.stderr).unwrap()
    };
    assert_eq!(faults(&configuration), "");
    assert!(faults(&configuration.replace("track_script", "trak_script")).contains("trak_script"));
}

#[test]
fn haproxy_takes_its_configuration() {
    if !has("haproxy", "haproxy") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("haproxy.cfg");
    let is_taken = |text: &str| {
        fs::write(&file, format!("{text}\n")).unwrap();
        let done = Command::new("haproxy").arg("-c").arg("-f").arg(&file).output().unwrap();
        // A warning, as of a missing timeout, is a fault of the page.
        let said = [done.stdout, done.stderr].concat();
        done.status.success() && !String::from_utf8(said).unwrap().contains("WARNING")
    };
    let configuration = block(LOAD_BALANCER, "defaults");
    assert!(is_taken(configuration));
    assert!(!is_taken(&configuration.replace("send-proxy-v2", "send-proxy-v3")));
    assert!(!is_taken(&configuration.replace("    timeout server 3h\n", "")));
}

#[test]
fn fail2ban_finds_refused_logins_in_the_log_and_in_syslog_and_takes_its_jails() {
    if !has("fail2ban-regex", "fail2ban") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let copied = Command::new("cp").args(["-r", "/etc/fail2ban", "etc"]).current_dir(&folder).status();
    assert!(copied.unwrap().success());
    // The jail of sshd needs its log.
    fs::remove_dir_all(folder.path().join("etc/jail.d")).unwrap();
    fs::create_dir(folder.path().join("etc/jail.d")).unwrap();
    let filter = folder.path().join("etc/filter.d/ringway.conf");
    fs::write(&filter, block(FAIL2BAN, "# /etc/fail2ban/filter.d")).unwrap();
    let log = folder.path().join("syslog");
    let matched = |lines: &str| {
        fs::write(&log, lines).unwrap();
        let mut command = Command::new("fail2ban-regex");
        command.arg("-c").arg("etc").args([&log, &filter]).current_dir(&folder);
        let done = command.output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let count: Option<u32> =
            text.split(" ignored, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        count.unwrap_or_else(|| panic!("{text}"))
    };
    let line = block(LOG, "2026-01-02T03:04:05").lines().next().unwrap();
    assert!(line.contains("INFO refused login user=alice address=203.0.113.5"));
    for prefix in
        ["", "Jan  2 03:04:05 host ringway[7]: ", "2026-01-02T03:04:05.679123+00:00 host ringway[7]: "]
    {
        assert_eq!(matched(&format!("{prefix}{line}\n")), 1, "{prefix}");
    }
    for prefix in ["Jan  2 03:04:05 host other[7]: ", "Jan  2 03:04:05 host ringway[7]: user=x "] {
        assert_eq!(matched(&format!("{prefix}{line}\n")), 0, "{prefix}");
    }
    let jail = block(FAIL2BAN, "# /etc/fail2ban/jail.d");
    let of_file = block(FAIL2BAN, "backend = auto").replace("/var/log/syslog", log.to_str().unwrap());
    let commands = |jail: &str| {
        fs::write(folder.path().join("etc/jail.d/ringway.conf"), jail).unwrap();
        let done = Command::new("fail2ban-client").args(["-c", "etc", "-d"]).current_dir(&folder).output();
        let done = done.unwrap();
        done.status.success().then(|| String::from_utf8(done.stdout).unwrap())
    };
    for jail in [jail.to_owned(), jail.replace("backend = systemd", of_file.trim_end())] {
        let commands = commands(&jail).unwrap();
        // Its own default is TCP only.
        assert!(commands.contains("['protocol', 'tcp,udp']"), "{jail}{commands}");
    }
    assert_eq!(commands(&jail.replace("filter = ringway", "filter = ringwy")), None);
}

#[test]
fn systemd_takes_the_service_with_the_lines_of_the_documents_and_lets_it_write_call_records() {
    if !has("systemd-analyze", "systemd") {
        return;
    }
    let service = include_str!("../../../../packaging/ringway.service");
    let folder = TempDir::new().unwrap();
    let unit = folder.path().join("ringway.service");
    let program = env!("CARGO_BIN_EXE_ringway");
    // The user is one that exists.
    fs::write(&unit, service.replace("/usr/bin/ringway", program).replace("=ringway\n", "=root\n")).unwrap();
    let lines = folder.path().join("ringway.service.d");
    fs::create_dir(&lines).unwrap();
    let said = |text: &str| {
        fs::write(lines.join("override.conf"), text).unwrap();
        let done = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        let text = String::from_utf8(done.stderr).unwrap();
        text.lines().filter(|line| line.contains("ringway.service")).collect::<Vec<_>>().join("\n")
    };
    let text = block(DASHBOARD, "[Service]");
    assert_eq!(said(text), "");
    assert!(said(&text.replace("ReadWritePaths", "ReadWritePath")).contains("ReadWritePath"));
    let records = block(RECORDS, "[records]");
    assert!(service.contains("\nLogsDirectory=ringway\n") && records.contains("\"/var/log/ringway/"));
    assert!(
        service.contains("\nStateDirectory=ringway\n") && records.contains("\"sqlite:///var/lib/ringway/")
    );
}

#[test]
fn a_name_server_takes_the_records_of_the_documents() {
    if !has("named-checkzone", "bind9-utils") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("zone");
    let is_taken = |zone: &str, records: &str| {
        let head =
            "@ 300 IN SOA ns hostmaster 1 3600 600 86400 300\n@ 300 IN NS ns\nns 300 IN A 192.0.2.53\n";
        let hosts = ["a", "b", "sip1", "sip2"].map(|host| format!("{host} 300 IN A 192.0.2.1\n"));
        fs::write(&file, format!("{head}{}{records}", hosts.concat())).unwrap();
        let done = Command::new("named-checkzone").args(["-i", "full", zone]).arg(&file).output().unwrap();
        // A zone with a bad host name is taken with a warning.
        done.status.success() && !String::from_utf8(done.stdout).unwrap().contains("has no address records")
    };
    let srv = block(SCALE, "_sip._tcp.example.org.");
    let all = block(HOST_NAMES, "example.org.            NAPTR");
    assert!(is_taken("example.org", srv) && is_taken("example.org", all));
    assert!(is_taken("numbers.example", block(ENUM, "3.8.0.0.6.9.2.3.6.1.4.4.numbers.example.")));
    assert!(!is_taken("example.org", &srv.replace("SRV 10", "SRV")));
    assert!(!is_taken("example.org", &all.replace("sip1.", "sip3.")));
}

#[test]
fn openssl_connects_as_the_documents_say() {
    if !has("openssl", "openssl") {
        return;
    }
    let folder = TempDir::new().unwrap();
    Running::start(folder.path(), &["cert", "init", "--domain", "example.org"], "").done().ok();
    let listen = "domains = [\"example.org\"]\nlisten = [\"tls:127.0.0.1:0\", \"dtls:127.0.0.1:0\"]\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"memory:\"\n\
         [tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"tls/key.pem\"\n";
    fs::write(folder.path().join("ringway.toml"), listen).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let commands = TLS.split(['\n', '`']).filter(|text| text.starts_with("openssl s_client "));
    let transports = commands.map(|command| {
        let transport = if command.contains("-dtls") { "dtls" } else { "tls" };
        let address = server.listener(transport);
        let command = command.replace("example.org:5061", &address);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{command} </dev/null")]).current_dir(&folder);
        let done = shell.output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        // Without any answer it verifies nothing, and says OK.
        let is_verified = text.contains("Verify return code: 0 (ok)") && text.contains("BEGIN CERTIFICATE");
        assert!(is_verified, "{command}: {done:?}");
        transport
    });
    assert_eq!(transports.collect::<Vec<_>>(), ["tls", "dtls"]);
}

#[test]
fn a_browser_would_take_the_script_of_the_documents() {
    if !has("node", "nodejs") {
        return;
    }
    let stub = "const done = []; const JsSIP = {
          WebSocketInterface: class { constructor(url) { this.url = url; } },
          UA: class { constructor(c) { done.push(c.uri, c.sockets[0].url, typeof c.password); } start() { done.push('start'); } call(to) { done.push(to); } } };";
    let script =
        format!("{stub}\n{}\nconsole.log(done.join(' '));", block(BROWSER, "const phone = new JsSIP"));
    let done = Command::new("node").args(["-e", &script]).output().unwrap();
    let expected = "sip:alice@example.org wss://example.org:8443 string start sip:bob@example.org\n";
    assert_eq!(String::from_utf8(done.stdout).unwrap(), expected, "{script}");
}

#[test]
fn the_page_of_the_edge_names_what_its_configuration_calls() {
    let page = section(COOKBOOK, "Behind a Kamailio edge");
    let configuration = kamailio_configuration(kamailio_links(page)[0]);
    for command in ["add_path_received()", "record_route()"] {
        assert!(
            page.contains(command) && configuration.contains(command),
            "the page or edge.cfg has no {command}"
        );
    }
}

#[test]
fn kamailio_takes_each_configuration_that_the_documents_name() {
    let mut names: Vec<&str> =
        [COOKBOOK, KAMAILIO, SCALE, TLS].into_iter().flat_map(kamailio_links).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["dispatcher.cfg", "edge.cfg", "next-hop.cfg", "tls.cfg"]);
    if !has("kamailio", "kamailio") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("kamailio.cfg");
    let is_taken = |text: &str| {
        fs::write(&file, text).unwrap();
        let done = Command::new("kamailio").arg("-c").arg("-f").arg(&file).output().unwrap();
        done.status.success()
    };
    for name in names {
        // It is an address in this one, a port in the others.
        let ringway = if name == "edge.cfg" { "127.0.0.1:5070" } else { "5070" };
        let text = kamailio_configuration(name).replace("@PORT@", "5060").replace("@TLS@", "5061");
        let text = text.replace("@RINGWAY@", ringway);
        assert!(is_taken(&text), "{name}");
        assert!(!is_taken(&text.replace("t_relay(", "t_realy(")), "{name} with a wrong function");
    }
}

/// Names of the configurations of Kamailio that a document links to.
fn kamailio_links(document: &str) -> Vec<&str> {
    let links = document.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter_map(|link| link.split_once("/tests/interop/kamailio/").map(|(_, name)| name)).collect()
}

fn kamailio_configuration(name: &str) -> String {
    let folder = format!("{}/../../tests/interop/kamailio", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

#[test]
fn sipp_plays_the_scenario_with_the_list_of_the_documents() {
    if !has("sipp", "sip-tester") {
        return;
    }
    let folder = TempDir::new().unwrap();
    symlink(env!("CARGO_BIN_EXE_ringway"), folder.path().join("ringway")).unwrap();
    let run = |commands: &str| {
        let script = format!("set -e; PATH=$PWD:$PATH\n{}", commands.replace("$ ", ""));
        let done = Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{script}\n{done:?}");
    };
    let users = block(LAB, "$ (echo username,password");
    let (users, serve) = users.rsplit_once("$ ringway ").unwrap();
    assert_eq!(serve, "serve");
    run(&users.replace(":5060", ":0").replace("[limits]", "[admin]\\nlisten = \"127.0.0.1:0\"\\n[limits]"));
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    let commands = block(LAB_SIPP, "$ (echo SEQUENTIAL").replace("127.0.0.1:5060", &address);
    run(&commands.replace("-r 10 -m 100", "-r 100 -m 20"));
    let commands = block(LAB_SIPP, "$ ringway lab scenario call").replace("127.0.0.1:5060", &address);
    run(&format!(
        "{} --rate 10 --seconds 1 --fail-if 'success<100%'",
        commands.replace("--talk 2s", "--talk 50ms")
    ));
}

#[test]
fn the_home_server_is_set_up_and_called_as_its_page_says() {
    let page = section(COOKBOOK, "Home server");
    let folder = TempDir::new().unwrap();
    let configuration = block(page, "domains").replace("192.168.1.10:5060", "127.0.0.1:0");
    fs::write(
        folder.path().join("ringway.toml"),
        format!("{configuration}\n[admin]\nlisten = \"127.0.0.1:0\"\n"),
    )
    .unwrap();
    let passwords = block(page, "ringway user add alice").lines().filter_map(|line| {
        let words = line.split('#').next().unwrap().trim().strip_prefix("ringway user ")?;
        let args: Vec<&str> = ["user"].into_iter().chain(words.split(' ')).collect();
        let said = Running::start(folder.path(), &args, "").done().ok();
        Some(said.trim_end().rsplit(' ').next().unwrap().to_owned())
    });
    let [alice, bob] = passwords.collect::<Vec<_>>().try_into().unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    let bob = Running::start_by_shell(
        folder.path(),
        &format!(
            "echo {bob} | $0 answer --as sip:bob@home.arpa --server {address} --register --password-stdin \
             --play silence --count 1"
        ),
    );
    bob.says("ready");
    let call = block(page, "ringway call").trim_end().replace("192.168.1.10", &address);
    let call = call.strip_prefix("ringway ").unwrap().replace("--duration 5", "--duration 0.2");
    let mut terminal = Terminal::open(folder.path(), &call);
    terminal.shows(&["password, and Enter"]);
    terminal.press(&format!("{alice}\r"));
    terminal.shows(&["sip:bob@home.arpa: answered"]);
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn the_office_has_extensions_and_emergency_calls_and_no_strangers() {
    let folder = TempDir::new().unwrap();
    let run = |args: &[&str], input: &str| Running::start(folder.path(), args, input).done();
    let carrier = UdpSocket::bind("127.0.0.2:0").unwrap();
    let carrier_address = carrier.local_addr().unwrap().to_string();
    let (sender, dialled) = channel();
    std::thread::spawn(move || be_busy(&carrier, &sender));
    let lines: Vec<_> = block(section(COOKBOOK, "Office with a trunk"), "domains").lines().collect();
    let configuration =
        lines.join("\n").replace("0.0.0.0:5060", "127.0.0.1:0").replace("0.0.0.0:5061", "127.0.0.1:0");
    let configuration = configuration
        .replace("trunk.example.net", &carrier_address)
        .replace("calls_per_hour = 20", "calls_per_hour = 1");
    fs::write(
        folder.path().join("ringway.toml"),
        format!("{configuration}\n[admin]\nlisten = \"127.0.0.1:0\"\n"),
    )
    .unwrap();
    let commands = block(section(COOKBOOK, "Office with a trunk"), "ringway cert init");
    before_start(folder.path(), &commands.replace("alice,SECRET1", "alice,a"));
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    let call = |number: &str, from: &str, password: &str| {
        let uri = format!("sip:{number}@office.example");
        let args = [
            "call",
            &uri,
            "--from",
            from,
            "--server",
            &address,
            "--duration",
            "0.1",
            "--play",
            "silence",
            "--json",
        ];
        let password_args: &[&str] = if password.is_empty() { &[] } else { &["--password-stdin"] };
        run(&[&args[..], password_args].concat(), password).json()["status"].as_u64().unwrap()
    };
    let alice = |number: &str| call(number, "sip:alice@office.example", "a");
    // Users without a phone, and no user at all.
    assert_eq!(["10", "11", "12", "bob", "19"].map(alice), [480, 480, 480, 480, 404]);
    assert_eq!(["112", "110", "0112", "0301234567"].map(alice), [BUSY; 4]);
    assert_eq!(["0301234567", "00881234567", "112"].map(alice), [403, 403, BUSY]);
    let dialled: Vec<String> = dialled.try_iter().collect();
    assert_eq!(dialled, ["112", "110", "112", "+49301234567", "112"]);
    assert_eq!(call("alice", "sip:mallory@elsewhere.example", ""), 407);
}

#[test]
fn two_phones_on_one_machine_call_each_other_as_the_page_says() {
    if !has("baresip", "baresip-core") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("target/release/ringway");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    symlink(env!("CARGO_BIN_EXE_ringway"), program).unwrap();
    let any = "listen = [\"udp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), any).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    for start in ["printf wonderland | target", "mkdir -p target/phones", "cat > target/phones/alice/config"]
    {
        let commands = block(TWO_PHONES, start).replace("127.0.0.1:5060", &address);
        let done = Command::new("sh").args(["-ec", &commands]).current_dir(folder.path()).output().unwrap();
        assert!(done.status.success(), "{commands}\n{done:?}");
    }
    assert!(TWO_PHONES.contains("Add two users. A running server reads them within a second."));
    std::thread::sleep(Duration::from_secs(1));
    let phone = |name: &str| {
        let words = block(TWO_PHONES, &format!("baresip -f target/phones/{name}"));
        // Its output would wait for a full buffer.
        let mut command = Command::new("stdbuf");
        command.arg("-oL").args(words.split(' '));
        Running::run(command, folder.path(), &[], "")
    };
    let ((bob, _open), (alice, mut keys)) = (phone("bob"), phone("alice"));
    for phone in [&bob, &alice] {
        phone.says("[1 binding]");
    }
    assert!(TWO_PHONES.contains("In alice's terminal type `/dial sip:bob@localhost` and Enter."));
    keys.write_all(b"/dial sip:bob@localhost\n").unwrap();
    for phone in [&bob, &alice] {
        phone.says("Call established");
    }
}

#[test]
fn baresip_registers_and_calls_with_the_accounts_of_the_page() {
    if !has("baresip", "baresip-core") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let configuration = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
    for user in ["alice", "bob"] {
        let add = Running::start(
            folder.path(),
            &["user", "add", user, "--password-stdin", "--danger-weak"],
            "secret\n",
        );
        assert_eq!(add.done().status, 0);
    }
    let server = Running::start(folder.path(), &["serve"], "");
    let ready = server.ready();
    let at = |transport: &str| {
        let address = ready.split(&format!("{transport}:")).nth(1).unwrap();
        address.split_whitespace().next().unwrap().trim_end_matches(',').to_owned()
    };
    let accounts = block(TWO_PHONES, "<sip:alice@example.org>").replace("PASSWORD", "secret");
    let settings = block(TWO_PHONES, "cat > target/phones/alice/config");
    let settings = settings.split_once("<<'END'\n").unwrap().1.split_once("END\n").unwrap().0;
    let phone = |name: &str| {
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        let account = accounts.lines().find(|line| line.contains(&format!("sip:{name}@"))).unwrap();
        let transport = if account.contains("transport=tcp") { "tcp" } else { "udp" };
        fs::write(own.join("accounts"), account.replace("192.0.2.10:5060", &at(transport)) + "\n").unwrap();
        fs::write(own.join("config"), settings).unwrap();
        // Its output would wait for a full buffer.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "baresip", "-f"]).arg(&own);
        Running::run(command, folder.path(), &[], "")
    };
    let ((bob, _open), (alice, mut keys)) = (phone("bob"), phone("alice"));
    for phone in [&bob, &alice] {
        phone.says("[1 binding]");
    }
    keys.write_all(b"/dial sip:bob@example.org\n").unwrap();
    for phone in [&bob, &alice] {
        phone.says("Call established");
    }
}

/// Refuses calls as busy, answers other requests, and sends the dialled numbers.
fn be_busy(socket: &UdpSocket, dialled: &Sender<String>) {
    let mut room = [0; 4096];
    while let Ok((length, from)) = socket.recv_from(&mut room) {
        let request = String::from_utf8_lossy(&room[..length]).into_owned();
        let number = request.split(['@', ' ']).nth(1).unwrap().trim_start_matches("sip:").to_owned();
        let status = match request.split(' ').next() {
            Some("ACK") => continue,
            Some("INVITE") => {
                // The test may have ended.
                let _ = dialled.send(number);
                "486 Busy Here"
            }
            _ => "200 OK",
        };
        let is_copied = |line: &&str| {
            ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
        };
        let copied: Vec<&str> = request.lines().filter(is_copied).collect();
        let response = format!("SIP/2.0 {status}\r\n{}\r\nContent-Length: 0\r\n\r\n", copied.join("\r\n"));
        let _ = socket.send_to(response.as_bytes(), from);
    }
}

const BUSY: u64 = 486;
