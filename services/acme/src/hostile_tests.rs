//! Orders from a directory that answers what it should not: over TLS on loopback, with a folder that must stay as it was.

use crate::answers::Answers;
use crate::config::{AcmeConfig, ChallengeKind};
use crate::folder::{Folder, State};
use crate::http::{DirectoryClient, RETRY_AFTER_MAX};
use crate::order::{OrderContext, OrderError};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Answer of the directory to `METHOD /path`; `None`: it never answers. `$` in it is the directory's URL without its path.
type Script = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

fn response(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\nReplay-Nonce: abc\r\n{headers}Content-Length: {length}\r\n\r\n{body}"))
}

fn ok(body: &str) -> Option<String> {
    // The length counts after the URL is put in.
    Some(format!("HTTP/1.1 200 OK\r\nReplay-Nonce: abc\r\nLocation: $/it\r\nConnection: close\r\n\r\n{body}"))
}

const DIRECTORY: &str = r#"{"newNonce":"$/nonce","newAccount":"$/account","newOrder":"$/order"}"#;

/// Answers of a directory that issues `chain` without a challenge, unless `change` has another one.
fn issuing(chain: &str, change: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Script {
    let (chain, is_final) = (chain.to_owned(), AtomicBool::new(false));
    Arc::new(move |request| {
        let order = |status: &str| {
            ok(&format!(
                r#"{{"status":"{status}","authorizations":["$/authorization"],"finalize":"$/finalize","certificate":"$/chain"}}"#
            ))
        };
        if let Some(changed) = change(request) {
            return Some(changed);
        }
        match request {
            "GET /directory" => ok(DIRECTORY),
            "HEAD /nonce" => response("200 OK", "", ""),
            "POST /account" => ok(r#"{"status":"valid"}"#),
            "POST /order" => order("ready"),
            // The order, as its Location says.
            "POST /it" if is_final.load(Ordering::Relaxed) => order("valid"),
            "POST /it" => order("ready"),
            "POST /finalize" => {
                is_final.store(true, Ordering::Relaxed);
                order("valid")
            }
            "POST /authorization" => ok(AUTHORIZED),
            "POST /chain" => ok(&chain),
            _ => response("404 Not Found", "", "{}"),
        }
    })
}

const AUTHORIZED: &str =
    r#"{"status":"valid","identifier":{"type":"dns","value":"example.org"},"challenges":[]}"#;

/// Serves a script on loopback.
async fn serve(listener: TcpListener, tls: TlsAcceptor, script: Script) {
    let base = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, script, base) = (tls.clone(), Arc::clone(&script), base.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read(&mut byte).await.unwrap_or(0) == 0 {
                    return;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let line = head.split(" HTTP/").next().unwrap();
            match script(line) {
                Some(answer) => {
                    // The client may have enough before the end.
                    let _ = stream.write_all(answer.replace('$', &base).as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
                None => std::future::pending().await,
            }
        });
    }
}

/// Orders from a directory with this script, and checks that the folder still has its self-signed certificate.
fn refused(script: Script) -> OrderError {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let authority: CertificateDer<'static> = own.der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![authority.clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::new(place.path());
    let domains = vec!["example.org".to_owned()];
    folder.prepare(&domains).unwrap();
    let before = std::fs::read(folder.certificate()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = format!("https://localhost:{}/directory", listener.local_addr().unwrap().port());
        let mut client = DirectoryClient::new(&directory, &[authority]).unwrap();
        client.time_max = Duration::from_secs(2);
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), script));
        let context = OrderContext {
            config: Arc::new(AcmeConfig {
                directory,
                contact: None,
                domains,
                challenge: ChallengeKind::Http01("127.0.0.1:0".parse().unwrap()),
                folder: place.path().to_owned(),
                ca: None,
            }),
            authorities: Arc::default(),
            folder: folder.clone(),
            shared: None,
            answers: Arc::new(Answers::default()),
            set_challenges: Arc::new(|_| {}),
        };
        context.order_from(client).await.unwrap_err()
    });
    runtime.shutdown_background();
    assert!(matches!(folder.state(), State::Placeholder(_)));
    assert_eq!(std::fs::read(folder.certificate()).unwrap(), before);
    error
}

/// The error of an order whose request `at` is answered so.
#[track_caller]
fn names(at: &'static str, answer: Option<String>, why: &str) {
    let error = refused(issuing("", move |request| (request == at).then(|| answer.clone()).flatten()));
    let error = error.why.to_string();
    assert!(error.contains(why), "{at}: {why}: {error}");
}

#[test]
fn nonsense_redirects_and_other_hosts_are_refused() {
    names("GET /directory", ok("<html>hello</html>"), "no directory of ACME");
    names("GET /directory", ok("{}"), "names no newNonce");
    names("GET /directory", ok(&DIRECTORY.replace("$/nonce", "http://[")), "names no newNonce");
    let elsewhere = "which is not https at its own host";
    names("GET /directory", ok(&DIRECTORY.replace("$/order", "https://192.0.2.1/order")), elsewhere);
    names("GET /directory", ok(&DIRECTORY.replace("$/order", "http://localhost/order")), elsewhere);
    names(
        "GET /directory",
        response("302 Found", "Location: https://192.0.2.1/\r\n", ""),
        "redirects to https://192.0.2.1/",
    );
    names(
        "POST /account",
        response("307 Temporary Redirect", "Location: https://192.0.2.1/\r\n", ""),
        "redirects",
    );
    names("POST /order", ok("[]"), "not what RFC 8555 says");
    let order = r#"{"status":"ready","authorizations":["https://192.0.2.1/a"],"finalize":"$/finalize"}"#;
    names("POST /order", ok(order), elsewhere);
    let order = r#"{"status":"ready","authorizations":["$/a","$/b"],"finalize":"$/finalize"}"#;
    names("POST /order", ok(order), "more authorizations than there are domains");
    let other = AUTHORIZED.replace("example.org", "example.com");
    names("POST /authorization", ok(&other), "which was not ordered");
}

#[test]
fn sizes_and_times_have_an_end() {
    names("GET /directory", ok(&"x".repeat(300 << 10)), "length limit");
    let long = response("200 OK", &format!("A: {}\r\n", "x".repeat(20 << 10)), "{}");
    let script = issuing("", move |request| (request == "POST /order").then(|| long.clone()).flatten());
    let why = refused(script).why.to_string();
    // It names the port that was dialled too.
    let port = why.split("localhost:").nth(1).and_then(|rest| rest.split(':').next());
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok()), "{why}");
    let hangs: Script = Arc::new(|_| None);
    assert!(refused(hangs).why.to_string().contains("did not answer within 2 s"));
    let script = issuing("", |_| None);
    let hangs_later: Script =
        Arc::new(move |request| if request == "POST /order" { None } else { script(request) });
    assert!(refused(hangs_later).why.to_string().contains("did not answer within 2 s"));
}

#[test]
fn a_certificate_of_others_is_refused_and_the_old_one_stays() {
    let key = KeyPair::generate().unwrap();
    let other = CertificateParams::new(["example.org".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
    for (chain, why) in [(other.as_str(), "another key"), ("<html>", "is not there")] {
        let error = refused(issuing(chain, |_| None)).why.to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_token_that_is_none_is_refused() {
    let pending = AUTHORIZED.replace("valid", "pending").replace(
        "[]",
        r#"[{"type":"http-01","url":"$/challenge","status":"pending","token":"../../etc/passwd"}]"#,
    );
    names("POST /authorization", ok(&pending), "which is no token");
    let none = AUTHORIZED.replace("valid", "pending");
    names("POST /authorization", ok(&none), "offers no http-01 for example.org");
}

#[test]
fn a_pause_that_the_directory_wants_is_taken_and_cut() {
    let limited = r#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too\nmany"}"#;
    for (header, pause) in [
        ("Retry-After: 7200\r\n", Duration::from_secs(7200)),
        ("Retry-After: 18446744073709551615\r\n", RETRY_AFTER_MAX),
        ("Retry-After: 99999999999999999999999\r\n", RETRY_AFTER_MAX),
        ("", Duration::from_secs(3600)),
    ] {
        let answer = response("429 Too Many Requests", header, limited);
        let error =
            refused(issuing("", move |request| (request == "POST /order").then(|| answer.clone()).flatten()));
        assert_eq!(error.retry_after, Some(pause), "{header}");
        assert!(error.why.to_string().contains("too many"), "{}", error.why);
    }
    // The library adds it to the clock.
    let order = r#"{"status":"processing","authorizations":["$/authorization"],"finalize":"$/finalize"}"#;
    let long =
        format!("HTTP/1.1 200 OK\r\nRetry-After: 18446744073709551615\r\nConnection: close\r\n\r\n{order}");
    names("POST /it", Some(long), "timed out waiting for an order update");
}
