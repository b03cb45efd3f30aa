//! TLS of the built program: server and phones as processes, and `openssl` as a peer that nobody here wrote.
//!
//! Tested: a call by TLS on both sides, resumption, certificates that phones refuse, other protocols on the wrong port, a
//! reload and changed files. Not tested here: the rules of RFC 5922 (`services/tls`), SIPS (`server/sips.rs`), other phones
//! (`xtask interop`).

use crate::program::{Done, Running, Signal};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, SanType, SerialNumber, date_time_ymd,
};
use ringway_test_support::programs::has;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A server with a TLS listener, in a folder with its files.
struct Served {
    folder: TempDir,
    running: Running,
    issuer: Issuer<'static, KeyPair>,
}

fn issue(issuer: &Issuer<'static, KeyPair>, folder: &Path, host: Option<&str>) {
    let mut params = CertificateParams::new(host.map(str::to_owned).into_iter().collect::<Vec<_>>()).unwrap();
    if host.is_none() {
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "server");
    let key = KeyPair::generate().unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(folder.join("cert.pem"), params.signed_by(&key, issuer).unwrap().pem()).unwrap();
}

fn serve(host: Option<&str>) -> Served {
    let folder = TempDir::new().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().unwrap();
    fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    issue(&issuer, folder.path(), host);
    let config = "listen = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\", \"tls:127.0.0.1:0\"]\n\
        [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    for user in ["alice", "bob"] {
        let args = ["user", "add", user, "--password-stdin", "--danger-weak"];
        Running::start(folder.path(), &args, "secret\n").done().ok();
    }
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    Served { folder, running, issuer }
}

impl Served {
    fn listener(&self, transport: &str) -> String {
        self.running.listener(transport)
    }

    fn stat(&self, name: &str) -> u64 {
        self.running.stat(name)
    }

    /// Starts a phone or a call by TLS.
    fn phone(&self, args: &[&str]) -> Running {
        let tls = self.listener("tls");
        let mut all = args.to_vec();
        all.extend(["--server", &tls, "--transport", "tls", "--ca", "ca.pem", "--password-stdin"]);
        Running::start(self.folder.path(), &all, "secret\n")
    }

    fn call(&self, uri: &str) -> Done {
        self.phone(&["call", uri, "--from", "sip:alice@localhost", "--duration", "0.3", "--json"]).done()
    }

    /// Output of `openssl s_client`, which sends `input`.
    fn openssl(&self, args: &[&str], input: &str) -> String {
        self.openssl_to(&self.listener("tls"), args, input)
    }

    fn openssl_to(&self, address: &str, args: &[&str], input: &str) -> String {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", address, "-CAfile", "ca.pem", "-ign_eof"]);
        // The server ends the connection after a message that is none.
        let (client, _keys) = Running::run(command, self.folder.path(), args, input);
        let done = client.done();
        done.out + &done.err
    }
}

const OPTIONS: &str = "OPTIONS sip:localhost SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bKx;rport\r\n\
    From: <sip:a@b.invalid>;tag=1\r\nTo: <sip:localhost>\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n\
    this is no message\r\n\r\n";

#[test]
fn two_phones_call_each_other_by_tls_and_sessions_are_resumed() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve(None);
    let bob = served.phone(&["answer", "--as", "sip:bob@localhost", "--register", "--count", "2"]);
    bob.says("registered for");
    for _ in 0..2 {
        let call = served.call("sip:bob@localhost").json();
        assert_eq!(call["result"], Value::from("answered"), "{call}");
    }
    bob.done().ok();
    assert_eq!((served.stat("tls_accepted_full"), served.stat("tls_dialled_full")), (3, 0));
    let ok = served.openssl(&["-tls1_3"], OPTIONS);
    assert!(ok.contains("Verify return code: 0 (ok)") && ok.contains("SIP/2.0 200 OK"), "{ok}");
    for version in ["-tls1_2", "-tls1_3"] {
        let session = served.folder.path().join("session.pem");
        let path = session.to_str().unwrap();
        served.openssl(&[version, "-sess_out", path], OPTIONS);
        let again = served.openssl(&[version, "-sess_in", path], OPTIONS);
        assert!(again.contains("Reused, TLSv1") && again.contains("SIP/2.0 200 OK"), "{version}: {again}");
    }
    assert_eq!(served.stat("tls_accepted_resumed"), 2);
    for old in ["-tls1", "-tls1_1"] {
        let refused = served.openssl(&[old, "-cipher", "ALL:@SECLEVEL=0"], OPTIONS);
        assert!(!refused.contains("SIP/2.0 200"), "{old}: {refused}");
    }
}

#[test]
fn a_call_with_sdes_says_if_its_keys_went_over_tls() {
    let served = serve(None);
    let args =
        ["answer", "--as", "sip:bob@localhost", "--register", "--count", "2", "--srtp", "sdes", "--json"];
    let bob = served.phone(&args);
    bob.says("registered for");
    let mut args = vec!["call", "sip:bob@localhost", "--from", "sip:alice@localhost", "--duration", "0.3"];
    args.extend(["--srtp", "sdes", "--json"]);
    let by_tls = served.phone(&args).done().json();
    let udp = served.listener("udp");
    args.extend(["--server", &udp, "--transport", "udp", "--password-stdin"]);
    let by_udp = Running::start(served.folder.path(), &args, "secret\n").done().json();
    let protected = |result: &Value| result["security"]["keys_protected"].as_bool();
    assert_eq!((protected(&by_tls), protected(&by_udp)), (Some(true), Some(false)), "{by_tls}\n{by_udp}");
    // The called phone cannot see the caller's transport to the server.
    for result in bob.done().ok().lines() {
        assert_eq!(protected(&serde_json::from_str(result).unwrap()), Some(true), "{result}");
    }
}

#[test]
fn a_phone_refuses_a_server_with_another_name_and_says_so() {
    let served = serve(Some("elsewhere.example.org"));
    let call = served.call("sip:bob@localhost");
    assert_ne!(call.status, 0, "{call:?}");
    assert!(call.err.contains("not valid for the host"), "{call:?}");
    served.running.says("refused TLS connection");
    assert_eq!(served.stat("tls_failed_certificate"), 1);
}

#[test]
fn a_call_to_a_sips_uri_needs_tls_on_both_sides() {
    let served = serve(None);
    let bob = served.phone(&["answer", "--as", "sip:bob@localhost", "--register", "--count", "1"]);
    bob.says("registered for");
    let call = served.call("sips:bob@localhost");
    assert_eq!(call.json()["status"], Value::from(480), "bob registered a sip: contact: {call:?}");
    let udp = served.listener("udp");
    let mut args = vec!["call", "sips:bob@localhost", "--from", "sip:alice@localhost", "--server", &udp];
    args.extend(["--transport", "udp"]);
    let call = Running::start(served.folder.path(), &args, "").done();
    assert!(
        call.status == 1 && call.err.contains("needs TLS on every hop"),
        "never sent without TLS: {call:?}"
    );
}

/// RFC 5630: both phones use TLS only, and the server forwards to the `sips:` contact.
#[test]
fn sips_accounts_call_each_other_by_tls_on_every_hop() {
    let served = serve(None);
    let tls = served.listener("tls");
    let phone = |args: &[&str], more: &[&str]| {
        let common = ["--server", &tls, "--ca", "ca.pem", "--password-stdin", "--json", "--trace"];
        Running::start(served.folder.path(), &[args, &common[..], more].concat(), "secret\n")
    };
    let bob = phone(&["answer", "--as", "sips:bob@localhost", "--register", "--count", "2"], &[]);
    bob.says("REGISTER sips:localhost SIP/2.0");
    let ready = bob.says("ready ");
    assert!(ready.contains("tls:") && !ready.contains("udp:") && !ready.contains("tcp:"), "{ready}");
    let shown = Running::start(
        served.folder.path(),
        &["show", "registrations", "--json", "--admin", &served.running.admin()],
        "",
    );
    let shown = shown.done().ok();
    assert!(shown.contains("sips:bob@127.0.0.1:") && !shown.contains("transport=tls"), "{shown}");
    // Without a certificate nobody can connect to the Contact: it is the address of bob's own connection.
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let registered = &shown["registrations"][0];
    let contact = registered["contact"].as_str().unwrap();
    assert!(contact.ends_with(registered["address"].as_str().unwrap()), "{shown}");
    let call = ["call", "sips:bob@localhost", "--from", "sips:alice@localhost", "--duration", "0.3"];
    let sips = phone(&call, &["--srtp", "sdes"]).done().json();
    assert_eq!((&sips["result"], &sips["sips"]), (&Value::from("answered"), &Value::from(true)), "{sips}");
    assert_eq!(sips["security"]["keys_protected"], Value::from(true), "{sips}");
    // A phone with a `sip:` account reaches it over the same connection, and nobody says that each hop had TLS.
    let plain = served.call("sip:bob@localhost").json();
    assert_eq!(
        (&plain["result"], &plain["sips"]),
        (&Value::from("answered"), &Value::from(false)),
        "{plain}"
    );
    let results = bob.done().ok();
    let sips: Vec<_> =
        results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["sips"].clone()).collect();
    assert_eq!(sips, [true, false], "{results}");
}

#[test]
fn a_sips_account_is_never_used_without_tls() {
    let served = serve(None);
    let server = served.listener("udp");
    for transport in ["udp", "tcp"] {
        for command in [
            &["call", "sips:bob@localhost", "--from", "sips:alice@localhost"][..],
            &["call", "sip:bob@localhost", "--from", "sips:alice@localhost"],
            &["answer", "--as", "sips:bob@localhost", "--register"],
        ] {
            let args = [command, &["--server", &server, "--transport", transport][..]].concat();
            let error = Running::start(served.folder.path(), &args, "").done().refused(2);
            assert!(error.contains("a sips: address needs TLS on every hop"), "{args:?}: {error}");
        }
    }
    // A port without TLS: no REGISTER is sent there.
    let tcp = served.listener("tcp");
    let args = ["answer", "--as", "sips:bob@localhost", "--register", "--server", &tcp, "--ca", "ca.pem"];
    let failed = Running::start(served.folder.path(), &args, "").done();
    assert!(failed.status == 1 && failed.err.contains("not registered: 503"), "{failed:?}");
    assert!(failed.err.contains("check that the port is one with TLS"), "{failed:?}");
    assert!(served.stat("tls_on_plain_port") > 0, "it tried TLS");
    assert_eq!(served.stat("bindings"), 0);
}

#[test]
fn options_of_tls_without_tls_are_refused() {
    let folder = TempDir::new().unwrap();
    for (option, file) in [("--ca", "ca.pem"), ("--certificate", "own.pem")] {
        let mut args = vec!["call", "sip:bob@127.0.0.1", option, file];
        if option == "--certificate" {
            args.extend(["--private-key", "own-key.pem"]);
        }
        let error = Running::start(folder.path(), &args, "").done().refused(2);
        assert!(error.contains(&format!("{option} is for TLS; add --transport tls")), "{error}");
    }
}

#[test]
fn another_protocol_on_a_port_is_closed_and_logged() {
    let served = serve(None);
    let mut plain = TcpStream::connect(served.listener("tls")).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    plain.write_all(b"OPTIONS sip:localhost SIP/2.0\r\n").unwrap();
    assert_eq!(plain.read(&mut [0; 16]).unwrap_or(0), 0, "closed without an answer");
    served.running.says("began with `OPTIONS sip:loca`");
    let mut tls = TcpStream::connect(served.listener("tcp")).unwrap();
    tls.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    tls.write_all(&[22, 3, 1, 0, 80, 1, 0, 0, 76, 3, 3]).unwrap();
    assert_eq!(tls.read(&mut [0; 16]).unwrap_or(0), 0);
    served.running.says("this port is without TLS");
    assert_eq!((served.stat("tls_not_tls"), served.stat("tls_on_plain_port")), (1, 1));
}

#[test]
fn an_expired_revocation_list_and_a_key_that_others_can_read_are_said_everywhere() {
    let served = serve(None);
    let folder = served.folder.path();
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2024, 1, 8),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    fs::write(folder.join("crl.pem"), list.signed_by(&served.issuer).unwrap().pem().unwrap()).unwrap();
    let text = fs::read_to_string(folder.join("ringway.toml")).unwrap();
    fs::write(folder.join("ringway.toml"), text.replace("[tls]", "[tls]\ncrl = \"crl.pem\"")).unwrap();
    for (path, mode) in [(folder.to_owned(), 0o755), (folder.join("key.pem"), 0o644)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let said =
        ["a list of [tls] crl has expired", "key.pem: every account of this machine can read this file"];
    let checked = Running::start(folder, &["check"], "").done();
    assert_eq!(checked.status, 0, "{checked:?}");
    said.iter().for_each(|part| assert!(checked.err.contains(part), "{checked:?}"));
    served.running.signal(Signal::HUP);
    said.iter().for_each(|part| drop(served.running.says(part)));
    let args = ["show", "stats", "--json", "--admin", &served.running.admin()];
    let stats = Running::start(folder, &args, "").done().json();
    assert!(stats["tls_crl_expires_s"].as_f64().unwrap() < -86_400.0, "{stats}");
}

#[test]
fn certificates_are_loaded_again_at_a_reload_and_when_their_files_change() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve(None);
    let serial = |served: &Served| {
        let shown = served.openssl(&[], OPTIONS);
        let from = shown.find("-----BEGIN CERTIFICATE-----").unwrap();
        shown[from..].split("-----END").next().unwrap().to_owned()
    };
    let first = serial(&served);
    fs::write(served.folder.path().join("cert.pem"), "no certificate").unwrap();
    served.running.signal(Signal::HUP);
    served.running.says("configuration not reloaded");
    assert_eq!(serial(&served), first, "the old one remains");
    issue(&served.issuer, served.folder.path(), None);
    served.running.says("certificates reloaded: their files have changed");
    assert_ne!(serial(&served), first);
}

#[test]
fn the_admin_api_has_the_certificate_of_the_server() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve(None);
    let request = "GET /api/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = served.openssl_to(&served.running.admin(), &["-verify_return_error"], request);
    assert!(answer.contains("HTTP/1.1 200 OK") && answer.contains("tls_accepted_full"), "{answer}");
    assert_eq!(served.stat("tls_accepted_full"), 0, "it is no SIP connection");
}

#[test]
fn a_tls_listener_without_a_certificate_is_refused_with_advice() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("ringway.toml"), "listen = [\"tls:127.0.0.1:0\"]\n").unwrap();
    let error = Running::start(folder.path(), &["serve"], "").done().refused(2);
    assert!(error.contains("ringway.toml:1: listen") && error.contains("ringway cert init"), "{error}");
    let config =
        "listen = [\"tls:127.0.0.1:0\"]\n[tls]\ncertificate = \"none.pem\"\nprivate_key = \"none-key.pem\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let error = Running::start(folder.path(), &["serve"], "").done().refused(2);
    assert!(error.contains("[tls] certificate: cannot read") && error.contains("none.pem"), "{error}");
}

/// Server without authentication whose `[tls]` section has further lines, and loads on it.
struct Loaded {
    folder: TempDir,
    running: Running,
}

impl Loaded {
    fn start(served: Served, more: &str) -> Self {
        let Served { folder, running, .. } = served;
        drop(running);
        let path = folder.path().join("ringway.toml");
        let config = fs::read_to_string(&path).unwrap();
        let section = format!("[tls]\n{more}");
        let open = format!("{config}[auth]\nenabled = false\n[limits]\nper_source_rate = 0\n");
        fs::write(path, open.replace("[tls]\n", &section)).unwrap();
        let running = Running::start(folder.path(), &["serve"], "");
        running.ready();
        Self { folder, running }
    }

    /// Connections in the result of `ringway lab load` with a connection for each attempt.
    fn load(&self, more: &[&str]) -> Value {
        let tls = self.running.listener("tls");
        let mut args =
            vec!["lab", "load", &tls, "--transport", "tls", "--ca", "ca.pem", "--connections", "call"];
        args.extend(["--rate", "50", "--seconds", "1", "--json"]);
        args.extend(more);
        let done = Running::start(self.folder.path(), &args, "").done();
        let last = done.out.lines().last().unwrap_or_else(|| panic!("{done:?}")).to_owned();
        let result: Value = serde_json::from_str(&last).unwrap();
        result["connections"].clone()
    }
}

#[test]
fn a_load_over_tls_resumes_its_sessions_and_says_so() {
    let loaded = Loaded::start(serve(None), "");
    let resumed = loaded.load(&[]);
    assert!(resumed["tls_resumed"].as_u64() > Some(40) && resumed["tls_failed"] == 0, "{resumed}");
    assert!(resumed["tls_resumed_share"].as_f64() > Some(0.8), "{resumed}");
    let full = loaded.load(&["--no-resumption"]);
    assert!(full["tls_resumed"] == 0 && full["tls_full"].as_u64() > Some(40), "{full}");
}

#[test]
fn a_server_that_connects_to_the_called_users_is_the_client_of_tls() {
    let loaded = Loaded::start(serve(None), "peer_ca = \"ca.pem\"\n");
    let call = ["--scenario", "call", "--talk", "10ms", "--users", "10", "--called", "contact"];
    let own = ["--certificate", "cert.pem", "--private-key", "key.pem"];
    let result = loaded.load(&[&call[..], &own].concat());
    let count = |name: &str| result[name].as_u64().unwrap();
    assert!(count("accepted") > 0 && count("tls_failed") == 0, "{result}");
    assert_eq!(count("tls_accepted_full") + count("tls_accepted_resumed"), count("accepted"), "{result}");
    let target = loaded.running.listener("tls");
    let args = ["lab", "load", &target, "--transport", "tls", "--ca", "ca.pem"];
    let refused = Running::start(loaded.folder.path(), &[&args[..], &call].concat(), "").done().refused(2);
    assert!(refused.contains("give --certificate and --private-key"), "{refused}");
}

#[test]
fn server_and_load_agree_on_a_named_suite() {
    let named = "cipher_suites = [\"ECDHE-ECDSA-AES128-GCM-SHA256\", \"TLS_CHACHA20_POLY1305_SHA256\"]\n";
    let loaded = Loaded::start(serve(None), named);
    for accepted in [
        &["--tls-version", "1.2", "--tls-suite", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"][..],
        &["--tls-version", "1.3"],
    ] {
        let result = loaded.load(accepted);
        assert!(result["tls_full"].as_u64() > Some(0) && result["tls_failed"] == 0, "{accepted:?} {result}");
    }
    let result = loaded.load(&["--tls-suite", "TLS_AES_128_GCM_SHA256"]);
    assert!(result["tls_full"] == 0 && result["tls_failed"].as_u64() > Some(0), "{result}");
    let folder = loaded.folder.path();
    let target = loaded.running.listener("tls");
    let args = ["lab", "load", &target, "--transport", "tls", "--rate", "50", "--seconds", "30"];
    let done = Running::start(folder, &args, "").done();
    let reason = format!("FAILED: no TLS handshake with {target} succeeds: ");
    assert!(done.out.contains(&reason), "{done:?}");
    let refused = |more: &[&str]| {
        let args = [&["lab", "load", "127.0.0.1:5061", "--transport", "tls"][..], more].concat();
        Running::start(folder, &args, "").done().refused(2)
    };
    let legacy = refused(&["--tls-suite", "AES128-SHA"]);
    assert!(legacy.contains("--tls-backend openssl and --danger-legacy"), "{legacy}");
    let misspelled = refused(&["--tls-suite", "ECDHE-RSA-AES128-GCM-SHA25"]);
    assert!(misspelled.contains("did you mean \"ECDHE-RSA-AES128-GCM-SHA256\""), "{misspelled}");
}

#[cfg(feature = "legacy-tls")]
#[test]
fn a_load_over_a_legacy_suite_reaches_a_server_that_permits_it() {
    let served = serve(None);
    let key = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    fs::write(served.folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    let certificate = params.signed_by(&key, &served.issuer).unwrap();
    fs::write(served.folder.path().join("cert.pem"), certificate.pem()).unwrap();
    let legacy = "backend = \"openssl\"\ndanger_legacy = true\n\
        cipher_suites = [\"TLS_RSA_WITH_AES_128_CBC_SHA\", \"NULL-SHA\"]\n";
    let loaded = Loaded::start(served, legacy);
    loaded.running.says("LEGACY TLS IS ON");
    let load = ["--tls-backend", "openssl", "--danger-legacy", "--tls-version"];
    for version in ["1.0", "1.2"] {
        for suite in ["AES128-SHA", "NULL-SHA"] {
            let result = loaded.load(&[&load[..], &[version, "--tls-suite", suite]].concat());
            assert!(result["tls_full"].as_u64() > Some(40) && result["tls_failed"] == 0, "{suite} {result}");
        }
    }
}
