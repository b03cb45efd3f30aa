//! Client certificates made by `ringway cert init`: users without passwords, and a trusted neighbour. The peer is
//! `openssl s_client`, which nobody here wrote.

use crate::program::{Running, Signal};
use ringway_test_support::programs::has;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

struct Served {
    folder: TempDir,
    running: Running,
}

fn serve() -> Served {
    let folder = TempDir::new().unwrap();
    let cert = |args: &[&str]| {
        let mut all = vec!["cert", "init", "--domain", "localhost", "--address", "127.0.0.1"];
        all.extend(args);
        Running::start(folder.path(), &all, "").done().ok();
    };
    cert(&["--client", "alice", "--client", "bob", "--client", "mallory"]);
    // A neighbour has a server's certificate of the same authority.
    let copy = |name: &str| fs::copy(folder.path().join("tls").join(name), folder.path().join(name)).unwrap();
    copy("ca.pem");
    fs::create_dir(folder.path().join("trunk")).unwrap();
    for name in ["ca.pem", "ca-key.pem"] {
        fs::copy(folder.path().join("tls").join(name), folder.path().join("trunk").join(name)).unwrap();
    }
    let trunk = ["cert", "init", "--domain", "trunk.example.net", "--out", "trunk"];
    Running::start(folder.path(), &trunk, "").done().ok();
    let config = "listen = [\"udp:127.0.0.1:0\", \"tls:127.0.0.1:0\"]\n\
        [tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"tls/key.pem\"\nclient_auth = \"optional\"\n\
        client_ca = \"tls/ca.pem\"\nclient_users = true\n[auth]\nstrangers = \"none\"\n\
        [admin]\nlisten = \"127.0.0.1:0\"\n[[neighbour]]\nname = \"trunk\"\ncertificate = \"trunk.example.net\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    for user in ["alice", "bob"] {
        Running::start(
            folder.path(),
            &["user", "add", user, "--password-stdin", "--danger-weak"],
            "secret\n",
        )
        .done()
        .ok();
    }
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    Served { folder, running }
}

impl Served {
    /// First lines of the responses to `messages` over a connection with a certificate, and all that openssl says.
    fn send(&self, certificate: Option<&str>, more: &[&str], messages: &str) -> (Vec<String>, String) {
        let tls = self.running.listener("tls");
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &tls, "-CAfile", "tls/ca.pem", "-ign_eof"]).args(more);
        if let Some(name) = certificate {
            let (pem, key) = match name {
                "trunk" => ("trunk/cert.pem".to_owned(), "trunk/key.pem".to_owned()),
                name => (format!("tls/client-{name}.pem"), format!("tls/client-{name}-key.pem")),
            };
            command.args(["-cert", &pem, "-key", &key]);
        }
        // The server ends the connection after a message that is none.
        let input = format!("{messages}this is no message\r\n\r\n");
        let (client, _keys) = Running::run(command, self.folder.path(), &[], &input);
        let done = client.done();
        let out = done.out + &done.err;
        let status = |line: &str| Some(line.split_once("SIP/2.0 ")?.1.get(..3)?.to_owned());
        let is_response = |line: &&str| line.contains("SIP/2.0 ") && !line.contains("Via:");
        (out.lines().filter(is_response).filter_map(status).collect(), out)
    }
}

fn register(user: &str, cseq: u32) -> String {
    format!(
        "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@localhost>;tag=1\r\nTo: <sip:{user}@localhost>\r\nCall-ID: of-{user}\r\n\
         CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@127.0.0.1:9;transport=tls>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn message(branch: &str) -> String {
    format!(
        "MESSAGE sip:alice@localhost SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK{branch};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:x@example.com>;tag=1\r\nTo: <sip:alice@localhost>\r\nCall-ID: {branch}\r\n\
         CSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn a_user_with_a_certificate_registers_without_a_password_also_after_resumption() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve();
    let both = register("alice", 1) + &register("bob", 1);
    assert_eq!(served.send(Some("alice"), &[], &both).0, ["200", "401"], "alice's certificate is not bob's");
    assert_eq!(served.send(None, &[], &register("alice", 2)).0, ["401"]);
    assert_eq!(served.send(Some("mallory"), &[], &register("mallory", 1)).0, ["401"], "not a subscriber");
    for (version, cseq) in [("-tls1_2", 10), ("-tls1_3", 20)] {
        let session = format!("session{cseq}.pem");
        let first = served.send(Some("bob"), &[version, "-sess_out", &session], &register("bob", cseq));
        assert_eq!(first.0, ["200"], "{}", first.1);
        // Resumed by a client that has the session, and presents nothing.
        let again = served.send(Some("bob"), &[version, "-sess_in", &session], &register("bob", cseq + 1));
        assert!(again.1.contains("Reused, TLSv1") && again.0 == ["200"], "{version}: {}", again.1);
    }
}

#[test]
fn a_neighbour_with_its_certificate_is_trusted_and_registers_nobody() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve();
    assert_eq!(served.send(None, &[], &message("stranger")).0, ["407"]);
    assert_eq!(served.send(Some("alice"), &[], &message("user")).0, ["480"], "as with her password");
    assert_eq!(served.send(Some("trunk"), &[], &message("trunk")).0, ["480"], "alice is not registered");
    assert_eq!(served.send(Some("trunk"), &[], &register("alice", 1)).0, ["401"]);
}

#[test]
fn a_reload_with_another_client_ca_refuses_the_old_certificates_and_their_sessions() {
    if !has("openssl", "openssl") {
        return;
    }
    let served = serve();
    let session = ["-tls1_3", "-sess_out", "session.pem"];
    assert_eq!(served.send(Some("alice"), &session, &register("alice", 1)).0, ["200"]);
    let other = ["cert", "init", "--domain", "elsewhere.example", "--out", "other"];
    Running::start(served.folder.path(), &other, "").done().ok();
    let path = served.folder.path().join("ringway.toml");
    let config = fs::read_to_string(&path)
        .unwrap()
        .replace("client_ca = \"tls/ca.pem\"", "client_ca = \"other/ca.pem\"");
    fs::write(&path, config).unwrap();
    served.running.signal(Signal::HUP);
    served.running.says("configuration reloaded");
    let resumed = ["-tls1_3", "-sess_in", "session.pem"];
    let refused = served.send(Some("alice"), &resumed, &register("alice", 2));
    assert!(refused.0.is_empty() && !refused.1.contains("Reused, TLSv1"), "{}", refused.1);
    assert_eq!(served.send(None, &resumed, &register("alice", 3)).0, ["401"], "no certificate, no identity");
}
