//! The admin API over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use ringway_admin::{
    Admin, Call, ChangeError, Connection, Forwards, Page, Registration, Stat, Stats, TlsSource, UserForwards,
    View,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server with three registrations.
struct Three;

impl View for Three {
    fn registrations(&self, after: Option<&str>, limit: usize) -> Page<Registration> {
        let all = ["alice", "bob", "carol"];
        let first = after.map_or(0, |after| after.parse().unwrap_or(all.len()));
        let items: Vec<_> = all.iter().skip(first).take(limit).map(|name| registration(name)).collect();
        let end = first + items.len();
        Page { items, total: 3, next: (end < all.len()).then(|| end.to_string()) }
    }

    fn calls(&self, _: Option<&str>, _: usize) -> Page<Call> {
        Page::default()
    }

    fn connections(&self, _: Option<&str>, _: usize) -> Page<Connection> {
        Page::default()
    }

    fn stats(&self) -> Stats {
        vec![Stat::counter("registers_total", "REGISTER requests.", 3)]
    }

    fn forwards(&self, user: &str) -> Result<UserForwards, ChangeError> {
        self.set_forwards(user, &Forwards::default())
    }

    fn set_forwards(&self, user: &str, forwards: &Forwards) -> Result<UserForwards, ChangeError> {
        match user {
            "bob" | "bob@example.org" => {
                Ok(UserForwards { user: "bob@example.org".into(), forwards: forwards.clone() })
            }
            "broken" => Err(ChangeError::Failed("the disk is full".into())),
            _ => Err(ChangeError::NotFound(format!("{user} is not a user here"))),
        }
    }
}

fn registration(name: &str) -> Registration {
    Registration {
        aor: format!("sip:{name}@example.org"),
        contact: format!("sip:{name}@192.0.2.1:5060"),
        transport: "udp".to_owned(),
        address: Some("192.0.2.1:5060".to_owned()),
        expires_s: Some(3599),
        q: 0.7,
        permanent: false,
    }
}

fn no_tls() -> TlsSource {
    Arc::new(|| None)
}

/// Sends `request` and gives status and body.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    ask_over(stream, request)
}

fn ask_over(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

#[test]
fn registrations_come_in_parts_with_a_cursor() {
    let server =
        Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Arc::new(Three), "", no_tls()).unwrap();
    let (status, body) = get(server.address(), "/api/registrations?limit=2");
    assert_eq!(status, 200);
    assert_eq!(
        body,
        "{\"next\":\"2\",\"registrations\":[\
         {\"address\":\"192.0.2.1:5060\",\"aor\":\"sip:alice@example.org\",\"contact\":\"sip:alice@192.0.2.1:5060\",\
         \"expires_s\":3599,\"permanent\":false,\"q\":0.7,\"transport\":\"udp\"},\
         {\"address\":\"192.0.2.1:5060\",\"aor\":\"sip:bob@example.org\",\"contact\":\"sip:bob@192.0.2.1:5060\",\
         \"expires_s\":3599,\"permanent\":false,\"q\":0.7,\"transport\":\"udp\"}],\"total\":3}\n"
    );
    let (_, body) = get(server.address(), "/api/registrations?after=2&limit=2");
    assert!(body.contains("carol") && !body.contains("bob") && body.contains("\"next\":null"), "{body}");
    assert_eq!(get(server.address(), "/api/registrations?limit=many").0, 400);
    assert_eq!(
        get(server.address(), "/api/calls"),
        (200, "{\"calls\":[],\"next\":null,\"total\":0}\n".into())
    );
    assert_eq!(
        get(server.address(), "/api/stats"),
        (200, "{\"admin_clients_displaced\":0,\"registers_total\":3}\n".into())
    );
    let (status, body) = get(server.address(), "/metrics");
    assert!(status == 200 && body.contains("\nringway_registers_total 3\n"), "{body}");
    assert!(get(server.address(), "/").1.contains("/api/registrations"));
    assert_eq!(get(server.address(), "/nothing").0, 404);
}

#[test]
fn forwards_are_replaced_and_removed() {
    let server =
        Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Arc::new(Three), "", no_tls()).unwrap();
    let address = server.address();
    let send = |method: &str, user: &str, headers: &str, body: &str| {
        let start = format!(
            "{method} /api/users/{user}/forward HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
        );
        ask(address, &format!("{start}{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    let none = r#"{"forwards":{"always":null,"busy":null,"no_answer":null,"unregistered":null},"user":"bob@example.org"}"#;
    assert_eq!(send("GET", "bob", "", ""), (200, format!("{none}\n")));
    assert_eq!(send("DELETE", "bob%40example.org", "", ""), (200, format!("{none}\n")));
    let forwards = r#"{"busy":"sip:c@d","no_answer":{"after_s":20,"to":"sip:e@f"}}"#;
    let (status, body) = send("PUT", "bob", "", forwards);
    assert_eq!(status, 200);
    assert!(
        body.contains(r#""no_answer":{"after_s":20,"to":"sip:e@f"}"#) && body.contains(r#""busy":"sip:c@d""#),
        "{body}"
    );
    for bad in ["", "[]x", r#"{"bsy":"sip:c@d"}"#, r#"{"busy":7}"#, r#"{"no_answer":"sip:c@d"}"#] {
        assert_eq!(send("PUT", "bob", "", bad).0, 400, "{bad}");
    }
    assert_eq!(send("PUT", "bob", "", &" ".repeat(20_000)).0, 413);
    assert_eq!(send("GET", "nobody", "", "").0, 404);
    assert_eq!(send("PUT", "broken", "", "{}"), (500, "{\"error\":\"the disk is full\"}\n".into()));
    assert_eq!(send("POST", "bob", "", "{}").0, 405);
    assert_eq!(send("PUT", "bob", "Origin: http://evil.example\r\n", forwards).0, 403);
}

#[test]
fn requests_that_should_not_be_served_are_not() {
    let server = Admin::bind("127.0.0.1:0".parse().unwrap())
        .unwrap()
        .serve(Arc::new(Three), "t0ken", no_tls())
        .unwrap();
    let address = server.address();
    let request = |line: &str, headers: &str| ask(address, &format!("{line} HTTP/1.1\r\n{headers}\r\n"));
    let good = "Host: localhost\r\nConnection: close\r\nAuthorization: Bearer t0ken\r\n";
    assert_eq!(request("GET /api/stats", good).0, 200);
    assert_eq!(request("POST /api/stats", good).0, 405);
    assert_eq!(request("GET /api/stats", "Host: localhost\r\nConnection: close\r\n").0, 401);
    assert_eq!(request("GET /metrics", "Host: localhost\r\nConnection: close\r\n").0, 401);
    let rebound = good.replace("localhost", "rebound.example");
    assert_eq!(request("GET /api/stats", &rebound).0, 403);
    let many: String = (0..100).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(request("GET /api/stats", &format!("{good}{many}")).0, 431);
    let long = format!("{good}X-Long: {}\r\n", "y".repeat(100_000));
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{long}\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "a head of 100,000 bytes was served");
    assert_eq!(request("GET /api/stats", good).0, 200);
}

#[test]
fn clients_that_hang_keep_nobody_from_being_served() {
    let server =
        Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Arc::new(Three), "", no_tls()).unwrap();
    let address = server.address();
    let mut hanging = Vec::new();
    for (crowd, begun) in [(64, ""), (64, "GET /api/stats HTTP/1.1\r\nHost: loc"), (436, "G")] {
        for _ in 0..crowd {
            let mut stream = TcpStream::connect(address).unwrap();
            // Those who came first may have been closed by now.
            let _ = stream.write_all(begun.as_bytes());
            hanging.push(stream);
        }
        let start = Instant::now();
        assert_eq!(get(address, "/api/registrations").0, 200, "beside {} that hang", hanging.len());
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    assert!(!get(address, "/api/stats").1.contains("\"admin_clients_displaced\":0,"));
}

#[test]
fn a_stopped_listener_frees_its_port_and_a_taken_one_is_named() {
    let mut server =
        Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Arc::new(Three), "", no_tls()).unwrap();
    let address = server.address();
    let error = Admin::bind(address).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("choose another port"), "{error}");
    server.stop();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_client_that_begins_tls_is_answered_by_the_certificate_of_now() {
    let issue = || {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let chain = vec![certified.cert.der().clone()];
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        (certified.cert.der().clone(), Arc::new(config))
    };
    let ((first, config), (second, changed)) = (issue(), issue());
    let current = Arc::new(Mutex::new(config));
    let shown = Arc::clone(&current);
    let tls: TlsSource = Arc::new(move || Some(Arc::clone(&shown.lock().unwrap())));
    let server =
        Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap().serve(Arc::new(Three), "t0ken", tls).unwrap();
    let connect = |certificate| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        StreamOwned::new(connection, stream)
    };
    let good = "GET /api/stats HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer t0ken\r\n\r\n";
    assert_eq!(ask_over(connect(first.clone()), good).0, 200);
    assert_eq!(
        ask_over(connect(first.clone()), &good.replace("t0ken", "other")).0,
        401,
        "TLS is no permission"
    );
    assert_eq!(ask(server.address(), good).0, 200, "this machine may use plain HTTP");
    *current.lock().unwrap() = changed;
    assert_eq!(ask_over(connect(second), good).0, 200);
    let refused = connect(first).write_all(good.as_bytes());
    assert!(refused.unwrap_err().to_string().contains("certificate"), "the old certificate");
}
