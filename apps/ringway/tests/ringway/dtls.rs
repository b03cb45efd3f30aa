//! DTLS of the built program: server and phones as processes, `openssl s_client -dtls1_2` as a peer that nobody here wrote, and
//! ClientHellos made by hand.
//!
//! Tested: registrations and calls, ClientHellos without a cookie, wrong cookies, handshakes that are not completed, the limit
//! of a source. Not tested here: lost flights and forged records (`services/dtls`), the syntax of a ClientHello
//! (`proto/datagram`).

use crate::program::Running;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, SanType};
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::has;
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A server with a DTLS listener, in a folder with its files.
struct Served {
    folder: TempDir,
    running: Running,
}

/// RSA of 2048 bits, which rcgen does not generate.
fn rsa_key() -> KeyPair {
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    KeyPair::from_pem_and_sign_algo(&String::from_utf8(made.stdout).unwrap(), &PKCS_RSA_SHA256).unwrap()
}

fn serve_with(key: &KeyPair, lines: &str) -> Served {
    let folder = TempDir::new().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
    fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(folder.path().join("cert.pem"), params.self_signed(key).unwrap().pem()).unwrap();
    let config = format!(
        "listen = [\"udp:127.0.0.1:0\", \"dtls:127.0.0.1:0\"]\n{lines}\n\
         [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    for user in ["alice", "bob"] {
        let args = ["user", "add", user, "--password-stdin", "--danger-weak"];
        Running::start(folder.path(), &args, "secret\n").done().ok();
    }
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    Served { folder, running }
}

fn serve() -> Served {
    serve_with(&KeyPair::generate().unwrap(), "")
}

impl Served {
    fn address(&self) -> String {
        self.running.listener("dtls")
    }

    fn stat(&self, name: &str) -> u64 {
        self.running.stat(name)
    }

    /// Waits until a value is reached; the test fails after 30 s without it.
    fn await_stat(&self, name: &str, value: u64) {
        wait_until(&format!("{name} is {value}"), || self.stat(name) == value);
    }

    /// Resident memory of the server in KiB.
    fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Output of `openssl s_client`, which sends `input` and ends when the output has `last`.
    fn openssl(&self, args: &[&str], input: &str, last: &str) -> String {
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-dtls1_2",
            "-connect",
            &self.address(),
            "-CAfile",
            "cert.pem",
            "-nocommands",
        ]);
        let (client, keys) = Running::run(command, self.folder.path(), args, input);
        let text = || String::from_utf8_lossy(&client.out()).into_owned();
        wait_until(last, || text().contains(last));
        // The end of its input makes openssl send close_notify.
        drop(keys);
        client.wait();
        text()
    }

    /// Starts a phone or a call by DTLS.
    fn phone(&self, args: &[&str]) -> Running {
        let address = self.address();
        let mut all = args.to_vec();
        all.extend(["--server", &address, "--transport", "dtls", "--ca", "cert.pem", "--password-stdin"]);
        Running::start(self.folder.path(), &all, "secret\n")
    }

    /// A client of its own port that speaks DTLS by hand.
    fn client(&self) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { socket }
    }
}

struct Client {
    socket: UdpSocket,
}

impl Client {
    /// The cookie that the server sends for the ClientHello of this random.
    fn cookie(&self, random: u32) -> Vec<u8> {
        let hello = client_hello(random, &[]);
        self.socket.send(&hello).unwrap();
        let mut answer = [0; 2000];
        let length = self.socket.recv(&mut answer).unwrap();
        assert!(length <= hello.len(), "{length} bytes for {}", hello.len());
        assert_eq!((answer[13], answer[27]), (3, 20), "a HelloVerifyRequest with 20 bytes");
        answer[28..length].to_vec()
    }

    /// True if the server begins a handshake. What it sends comes before the answer to a request by UDP that follows.
    fn begins(&self, random: u32, cookie: &[u8]) -> bool {
        self.socket.send(&client_hello(random, cookie)).unwrap();
        // The same socket is answered in order, so this cookie comes after a ServerHello.
        self.socket.send(&client_hello(random, &[])).unwrap();
        let mut answer = [0; 4000];
        self.socket.recv(&mut answer).unwrap();
        answer[13] == 2
    }
}

/// Datagram of a ClientHello with ECDHE, P-256 and AES-GCM.
fn client_hello(random: u32, cookie: &[u8]) -> Vec<u8> {
    // Groups, signature algorithms, extended master secret.
    let extensions = [0, 10, 0, 4, 0, 2, 0, 23, 0, 13, 0, 4, 0, 2, 4, 3, 0, 23, 0, 0];
    let mut body = vec![0xfe, 0xfd];
    body.extend(random.to_be_bytes());
    body.extend([7; 28]);
    body.extend([0, cookie.len() as u8]);
    body.extend(cookie);
    body.extend([0, 2, 0xc0, 0x2b, 1, 0, 0, extensions.len() as u8]);
    body.extend(extensions);
    let number = u8::from(!cookie.is_empty());
    let mut datagram = vec![22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, number];
    datagram.extend(((body.len() + 12) as u16).to_be_bytes());
    let [_, length @ ..] = (body.len() as u32).to_be_bytes();
    datagram.push(1);
    datagram.extend(length);
    datagram.extend([0, number, 0, 0, 0]);
    datagram.extend(length);
    datagram.extend(body);
    datagram
}

fn request(method: &str) -> String {
    format!(
        "{method} sip:localhost SIP/2.0\r\nVia: SIP/2.0/DTLS-UDP 127.0.0.1:9;branch=z9hG4bK{method};rport\r\n\
         From: <sip:alice@localhost>;tag=1\r\nTo: <sip:alice@localhost>\r\nCall-ID: {method}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:alice@127.0.0.1:9;transport=dtls-udp>\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn openssl_is_answered_with_keys_of_both_kinds() {
    if !has("openssl", "openssl") {
        return;
    }
    for key in [KeyPair::generate().unwrap(), rsa_key()] {
        let served = serve_with(&key, "");
        let options = served.openssl(&[], &request("OPTIONS"), "SIP/2.0 200 OK");
        assert!(options.contains("Verify return code: 0 (ok)"), "{options}");
        assert!(options.contains("Via: SIP/2.0/DTLS-UDP 127.0.0.1:9"), "{options}");
        served.await_stat("associations_open", 0);
        // A small MTU makes openssl fragment its flights.
        let register = served.openssl(&["-mtu", "300"], &request("REGISTER"), "SIP/2.0 401 ");
        assert!(register.contains("WWW-Authenticate: Digest"), "{register}");
        // There is no TLS listener, and DTLS carries no `sips:`.
        let sips = request("OPTIONS").replacen("sip:localhost", "sips:localhost", 1);
        served.openssl(&[], &sips, "SIP/2.0 416 ");
        let counts = ["dtls_cookies_sent", "dtls_accepted", "dtls_failed"].map(|name| served.stat(name));
        assert_eq!(counts, [3, 3, 0]);
    }
}

#[test]
fn two_phones_call_each_other_and_their_server_is_verified() {
    let served = serve();
    let bob = served.phone(&["answer", "--as", "sip:bob@localhost", "--register", "--count", "1"]);
    bob.says("registered for");
    let args = ["call", "sip:bob@localhost", "--from", "sip:alice@localhost", "--duration", "0.3", "--json"];
    let call = served.phone(&args).done().json();
    assert_eq!(call["result"], Value::from("answered"), "{call}");
    bob.done().ok();
    served.await_stat("associations_open", 0);
    // Another server, whose certificate the phone does not trust.
    let stranger = serve();
    fs::copy(served.folder.path().join("cert.pem"), stranger.folder.path().join("cert.pem")).unwrap();
    let refused = stranger.phone(&args).done();
    assert!(refused.status == 1 && refused.err.contains("DTLS with 127.0.0.1"), "{refused:?}");
    assert_eq!(stranger.stat("dtls_accepted"), 0);
}

#[test]
fn client_hellos_without_a_cookie_cost_no_state_and_get_less_than_they_are() {
    let served = serve();
    let client = served.client();
    // The first ones fill caches and pages.
    (0..200).for_each(|random| drop(client.cookie(random)));
    let before_kib = served.memory_kib();
    (0..10_000).for_each(|random| drop(client.cookie(1000 + random)));
    let grown_kib = served.memory_kib().saturating_sub(before_kib);
    assert!(grown_kib < 4096, "{grown_kib} KiB more: an association has more than 400 bytes");
    let open = ["associations_open", "associations_accepted", "connections_open", "dtls_refused"];
    assert_eq!(open.map(|name| served.stat(name)), [0; 4]);
    assert_eq!(served.stat("dtls_cookies_sent"), 10_200);
    assert!(served.stat("datagram_bytes_out") < served.stat("datagram_bytes_in"));
}

#[test]
fn only_the_cookie_of_the_own_address_and_hello_begins_a_handshake() {
    let served = serve();
    let (alice, mallory) = (served.client(), served.client());
    let cookie = alice.cookie(1);
    assert!(!mallory.begins(1, &cookie), "another port");
    assert!(!alice.begins(2, &cookie), "another random");
    let changed: Vec<u8> = cookie.iter().map(|byte| byte ^ 1).collect();
    assert!(!alice.begins(1, &changed), "another cookie");
    assert_eq!((served.stat("dtls_cookies_wrong"), served.stat("associations_accepted")), (3, 0));
    assert!(alice.begins(1, &cookie));
    assert_eq!((served.stat("associations_open"), served.stat("dtls_accepted")), (1, 0));
}

#[test]
fn a_handshake_that_is_not_completed_ends_and_a_new_one_replaces_it() {
    let served = serve();
    let client = served.client();
    let cookie = client.cookie(1);
    assert!(client.begins(1, &cookie));
    // The client begins again, as after a restart.
    let other = served.client();
    assert!(other.begins(1, &other.cookie(1)));
    served.await_stat("associations_open", 2);
    served.await_stat("associations_open", 0);
    assert_eq!((served.stat("handshake_failures"), served.stat("dtls_accepted")), (2, 0));
    assert!(served.stat("datagrams_out") >= 10, "the server's flights are retransmitted meanwhile");
}

#[test]
fn the_associations_of_a_source_are_limited() {
    let served = serve_with(&KeyPair::generate().unwrap(), "[limits]\nmax_connections_per_source = 2");
    let clients = [served.client(), served.client(), served.client()];
    let begun = clients.each_ref().map(|client| client.begins(1, &client.cookie(1)));
    assert_eq!(begun, [true, true, false]);
    assert_eq!((served.stat("associations_open"), served.stat("associations_over_source")), (2, 1));
}

#[test]
fn a_listener_needs_a_certificate_and_requests_none() {
    let folder = TempDir::new().unwrap();
    let check = |text: &str| {
        fs::write(folder.path().join("ringway.toml"), text).unwrap();
        Running::start(folder.path(), &["check", "ringway.toml"], "").done()
    };
    let none = check("listen = [\"dtls:127.0.0.1:0\"]\n");
    assert!(none.status != 0 && none.err.contains("certificate"), "{none:?}");
    let mutual = check(
        "listen = [\"dtls:127.0.0.1:0\"]\n[tls]\ncertificate = \"c\"\nprivate_key = \"k\"\n\
         client_auth = \"optional\"\nclient_ca = \"a\"\n",
    );
    assert!(mutual.status != 0 && mutual.err.contains("requests no certificates"), "{mutual:?}");
}
