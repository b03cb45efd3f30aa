//! The admin API over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod dashboard;

use ringway_admin::{
    Admin, AdminServer, Answer, Block, BlockPage, Call, CallRecord, Change, Connection, Control, Forwards,
    NewBlock, NoAnswer, Page, Registration, ServerInfo, Stat, Stats, TlsSource, TokenProof, User, UserQuery,
    View,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Records the changes, and has three blocks.
#[derive(Default)]
struct Recorder {
    changes: Mutex<Vec<Change>>,
    queries: Mutex<Vec<UserQuery>>,
}

impl Control for Recorder {
    fn apply(&self, change: Change) -> Answer {
        self.changes.lock().unwrap().push(change.clone());
        match change {
            Change::Unblock(404) => Answer::refused(404, "there is no such entry"),
            Change::Forward(user, _) if user == "nobody" => Answer::refused(404, "nobody is not a user here"),
            Change::Reload
            | Change::DryRun
            | Change::Compare(_)
            | Change::Block(_)
            | Change::Unblock(_)
            | Change::Kick(_)
            | Change::Drain(_)
            | Change::CancelDrain
            | Change::RenewCertificate
            | Change::Drop(_)
            | Change::Routes(_)
            | Change::Forward(..) => Answer::done(serde_json::json!({"ok": true})),
        }
    }

    fn blocks(&self, after: u64, limit: usize) -> Result<BlockPage, String> {
        let block = |id| Block {
            id,
            kind: "caller".to_owned(),
            pattern: "spam@example.com".to_owned(),
            user: None,
            reason: String::new(),
            expires_s: None,
        };
        let items = (1..=3).filter(|id| *id > after).take(limit).map(block).collect();
        Ok(BlockPage { items, total: 3 })
    }

    fn forwards(&self, user: &str) -> Answer {
        Answer::done(serde_json::json!({"user": user, "forwards": Forwards::default()}))
    }

    fn users(&self, query: &UserQuery) -> Result<Page<User>, String> {
        self.queries.lock().unwrap().push(query.clone());
        Ok(Page { items: vec![user("bob")], total: 1, next: None })
    }

    fn user(&self, name: &str) -> Answer {
        Answer::done(serde_json::json!(user(name)))
    }

    fn configuration(&self) -> Answer {
        Answer::done(serde_json::json!({"file": null, "keys": {}}))
    }

    fn routes(&self) -> Answer {
        Answer::done(serde_json::json!({"version": "c0ffee", "text": "[[route]]\n"}))
    }
}

/// A server with three registrations.
struct Three;

impl View for Three {
    fn registrations(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Registration> {
        let all = ["alice", "bob", "carol"];
        if let Some(text) = text {
            let found = all.iter().filter(|name| name.contains(text));
            return Page { items: found.map(|name| registration(name)).collect(), total: 3, next: None };
        }
        let first = after.map_or(0, |after| after.parse().unwrap_or(all.len()));
        let items: Vec<_> = all.iter().skip(first).take(limit).map(|name| registration(name)).collect();
        let end = first + items.len();
        Page { items, total: 3, next: (end < all.len()).then(|| end.to_string()) }
    }

    fn calls(&self, _: Option<&str>, _: usize) -> Page<Call> {
        Page::default()
    }

    fn records(&self, _: Option<&str>, _: usize) -> Page<CallRecord> {
        Page::default()
    }

    fn connections(&self, _: Option<&str>, _: usize, _: Option<&str>) -> Page<Connection> {
        Page::default()
    }

    fn stats(&self) -> Stats {
        vec![Stat::counter("registers_total", "REGISTER requests.", 3)]
    }

    fn server(&self) -> ServerInfo {
        ServerInfo { version: "1.2.3".to_owned(), uptime_s: 7, ..ServerInfo::default() }
    }
}

fn user(name: &str) -> User {
    let (name, domain) = (name.to_owned(), "example.org".to_owned());
    User { name, domain, password: true, contacts: Vec::new(), forwards: Forwards::default(), messages: 0 }
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
        instance: None,
        reg_id: None,
        node: None,
        path: Vec::new(),
    }
}

/// A server on a free port, without TLS.
fn serve(control: Arc<Recorder>, token: &str) -> AdminServer {
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    admin.serve(Arc::new(Three), control, token, Arc::new(|| None)).unwrap()
}

/// Sends `request` and gives status and body.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    ask_over(stream, request)
}

/// Connection from this address of the machine.
fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
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
    let server = serve(Arc::default(), "");
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
        (
            200,
            "{\"admin_clients_displaced\":0,\"admin_tokens_refused\":0,\"admin_tokens_slowed\":0,\"registers_total\":3}\n".into()
        )
    );
    let (status, body) = get(server.address(), "/metrics");
    assert!(status == 200 && body.contains("\nringway_registers_total 3\n"), "{body}");
    let (_, body) = get(server.address(), "/api/registrations?q=+ali+");
    assert!(body.contains("alice") && !body.contains("bob"), "{body}");
    assert_eq!(get(server.address(), &format!("/api/registrations?q={}", "x".repeat(129))).0, 400);
    assert!(get(server.address(), "/api/server").1.contains("\"version\":\"1.2.3\""));
    assert!(get(server.address(), "/").1.contains("/dashboard/app.js"));
    assert_eq!(get(server.address(), "/nothing").0, 404);
}

#[test]
fn requests_that_should_not_be_served_are_not() {
    let server = serve(Arc::default(), "t0ken");
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
fn wrong_tokens_are_slowed_by_source_and_counted() {
    let server = serve(Arc::default(), "t0ken");
    let get = |from: &str, path: &str, token: &str| {
        let stream = connect_from(from, server.address());
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        ask_over(stream, &head)
    };
    let statuses: Vec<u16> =
        (0..100).map(|number| get("127.0.0.66", "/api/calls", &format!("{number}")).0).collect();
    let refused = statuses.iter().filter(|status| **status == 401).count();
    assert!(refused >= 20 && statuses[..20].iter().all(|status| *status == 401), "{statuses:?}");
    assert_eq!(get("127.0.0.66", "/api/calls", "t0ken").0, 429);
    let (status, stats) = get("127.0.0.1", "/api/stats", "t0ken");
    assert_eq!(status, 200, "the right token from another address");
    let slowed = statuses.len() - refused + 1;
    assert!(
        stats.contains(&format!("\"admin_tokens_refused\":{refused},\"admin_tokens_slowed\":{slowed},")),
        "{stats}"
    );
}

/// Behind a reverse proxy all clients have one address.
#[test]
fn a_long_token_passes_from_an_address_that_is_slowed() {
    let token = "a-token-of-32-random-characters!";
    let server = serve(Arc::default(), token);
    let get = |token: &str| {
        let head = format!(
            "GET /api/calls HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        ask(server.address(), &head).0
    };
    let wrong: Vec<u16> = (0..40).map(|number| get(&number.to_string())).collect();
    assert_eq!((wrong[0], wrong[39], get(token)), (401, 429, 200), "{wrong:?}");
}

#[test]
fn a_server_with_the_token_proves_it_to_a_client_that_has_it() {
    for token in ["t0ken", ""] {
        let server = serve(Arc::default(), token);
        let prove = |line: &str, authorization: &str| {
            let head = format!(
                "{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
            );
            ask(server.address(), &head)
        };
        let proof = TokenProof::new("t0ken", [1; 32]);
        let (status, body) = prove("GET /api/proof", &proof.authorization());
        assert_eq!(status, 200);
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
        if token.is_empty() {
            assert_eq!(answer, serde_json::json!({"token": false, "proof": null}));
            continue;
        }
        assert!(proof.is_of_server(answer["proof"].as_str().unwrap()), "{body}");
        assert_eq!(prove("GET /api/calls", &proof.authorization()).0, 401, "it is good for nothing else");
        let other = TokenProof::new("other", [1; 32]).authorization();
        for (line, authorization) in [("GET /api/proof", &other[..]), ("GET /api/proof", "Bearer t0ken")] {
            assert_eq!(prove(line, authorization).0, 401, "{authorization}");
        }
    }
}

#[test]
fn a_page_that_navigates_here_starts_no_trace() {
    let server = serve(Arc::default(), "");
    let get = |path: &str, site: &str, mode: &str| {
        let fetch = format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\n");
        ask(
            server.address(),
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fetch}\r\n"),
        )
        .0
    };
    let all = ["/api/trace?user=bob", "/api/calls", "/api/users", "/api/config", "/metrics", "/nothing"];
    for path in all {
        for mode in ["navigate", "no-cors", "cors"] {
            assert_eq!(get(path, "cross-site", mode), 403, "{path} {mode}");
            assert_eq!(get(path, "same-site", mode), 403, "{path} {mode}");
        }
    }
    // This view has no traces.
    assert_eq!(get(all[0], "none", "navigate"), 404, "an address that its user typed");
    assert_eq!(get(all[0], "same-origin", "cors"), 404, "the dashboard");
    assert_eq!(get("/", "cross-site", "navigate"), 200, "a link to the dashboard");
    assert_eq!(get("/", "cross-site", "no-cors"), 403);
}

#[test]
fn forwards_of_a_user_are_shown_replaced_and_ended() {
    let control = Arc::new(Recorder::default());
    let server = serve(Arc::clone(&control), "");
    let address = server.address();
    let send = |method: &str, user: &str, headers: &str, body: &str| {
        let start = format!(
            "{method} /api/users/{user}/forward HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n"
        );
        ask(address, &format!("{start}{headers}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    let (status, body) = send("GET", "bob%40example.org", "", "");
    assert_eq!(status, 200);
    assert!(body.contains("\"user\":\"bob@example.org\"") && body.contains("\"busy\":null"), "{body}");
    let body = r#"{"busy":"sip:c@d","no_answer":{"after_s":20,"to":"sip:e@f"}}"#;
    assert_eq!(send("PUT", "bob", "", body).0, 200);
    assert_eq!(send("DELETE", "bob", "", "").0, 200);
    let no_answer = Some(NoAnswer { after_s: 20, to: "sip:e@f".into() });
    let forwards = Forwards { busy: Some("sip:c@d".into()), no_answer, ..Forwards::default() };
    let expected =
        vec![Change::Forward("bob".into(), forwards), Change::Forward("bob".into(), Forwards::default())];
    assert_eq!(*control.changes.lock().unwrap(), expected);
    for bad in ["", "[]x", r#"{"bsy":"sip:c@d"}"#, r#"{"busy":7}"#, r#"{"no_answer":"sip:c@d"}"#] {
        assert_eq!(send("PUT", "bob", "", bad).0, 400, "{bad}");
    }
    assert_eq!(send("PUT", "bob", "", &" ".repeat(20_000)).0, 413);
    assert_eq!(send("PUT", "nobody", "", "{}").0, 404);
    assert_eq!(send("POST", "bob", "", "{}").0, 405);
    assert_eq!(send("PUT", "bob", "Origin: http://evil.example\r\n", body).0, 403);
    assert_eq!(control.changes.lock().unwrap().len(), 3, "what is refused changes nothing");
}

#[test]
fn clients_that_hang_keep_nobody_from_being_served() {
    let server = serve(Arc::default(), "");
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
    let mut server = serve(Arc::default(), "");
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
    let server = Admin::bind("127.0.0.1:0".parse().unwrap())
        .unwrap()
        .serve(Arc::new(Three), Arc::new(Recorder::default()), "t0ken", tls)
        .unwrap();
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

#[test]
fn changes_need_the_token_the_method_and_this_origin() {
    let control = Arc::new(Recorder::default());
    let server = serve(Arc::clone(&control), "t0ken");
    let address = server.address();
    let good = format!("Host: {address}\r\nConnection: close\r\nAuthorization: Bearer t0ken\r\n");
    let ask = |line: &str, headers: &str, body: &str| {
        let length = body.len();
        ask(address, &format!("{line} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"))
    };
    for (line, body) in [
        ("POST /api/reload", ""),
        ("POST /api/reload?dry_run=true", "{\"workers\": \"1\"}"),
        ("POST /api/blocks", "{\"caller\": \"spam@example.com\"}"),
        ("DELETE /api/blocks/7", ""),
    ] {
        let evil = format!("{good}Origin: http://evil.example\r\n");
        assert_eq!(ask(line, &evil, body).0, 403, "{line}");
        assert_eq!(ask(line, &good.replace("t0ken", "other"), body).0, 401, "{line}");
        assert_eq!(ask(line, &good.replace(&format!("Host: {address}"), "Host: evil.example"), body).0, 403);
        assert!(control.changes.lock().unwrap().is_empty(), "{line}");
        assert_eq!(ask(line, &good, body), (200, "{\"ok\":true}\n".into()), "{line}");
        assert_eq!(control.changes.lock().unwrap().drain(..).count(), 1);
    }
    for (line, status) in [
        ("GET /api/reload", 405),
        ("PUT /api/reload", 405),
        ("DELETE /api/reload", 405),
        ("POST /api/stats", 405),
        ("DELETE /api/blocks", 405),
        ("GET /api/blocks/7", 405),
        ("DELETE /api/blocks/seven", 400),
        ("DELETE /api/blocks/404", 404),
        ("POST /api/reload?dry=true", 400),
        ("POST /api/reload?dry_run=perhaps", 400),
        ("GET /api/blocks?after=x", 400),
    ] {
        assert_eq!(ask(line, &good, "").0, status, "{line}");
    }
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|number| format!("\"k{number}\":\"1\"")).collect();
        format!("{{{}}}", keys.join(","))
    };
    assert_eq!(ask("POST /api/reload?dry_run=true", &good, &keys(100_000)).0, 200);
    let (status, body) = ask("POST /api/reload?dry_run=true", &good, &keys(200_000));
    assert!(status == 400 && body.contains("more than 100000 keys"), "{status} {body}");
    server.set_token("new");
    assert_eq!(ask("POST /api/reload", &good, "").0, 401);
    assert_eq!(ask("POST /api/reload", &good.replace("t0ken", "new"), "").0, 200);
}

#[test]
fn bodies_are_bounded_and_checked() {
    let control = Arc::new(Recorder::default());
    let server = serve(Arc::clone(&control), "");
    let address = server.address();
    let post = |path: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        ask(address, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    // A declared length allocates nothing, and a body above the limit is not read.
    for (path, length) in
        [("/api/reload?dry_run=true", 4_u64 << 30), ("/api/reload", 5 << 20), ("/api/blocks", 5000)]
    {
        let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        assert_eq!(ask(address, &format!("{head}Content-Length: {length}\r\n\r\n")).0, 413, "{path}");
    }
    // Neither is one without a declared length.
    let chunk = format!("fff\r\n{}\r\n", "x".repeat(0xfff));
    let head = format!("POST /api/blocks HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    let text = format!("{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunk.repeat(2));
    assert_eq!(ask(address, &text).0, 413);
    for body in
        ["", "{", "3", "{\"caller\": 3}", "{\"call\": \"x@y\"}", "{\"caller\": \"x@y\", \"hours\": -1}"]
    {
        let (status, body) = post("/api/blocks", body);
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(post("/api/reload", "domains = []").0, 400, "a reload reads the server's own file");
    assert_eq!(post("/api/reload?dry_run=true", "workers = 1").0, 400);
    assert!(control.changes.lock().unwrap().is_empty());
    assert_eq!(post("/api/reload?dry_run=true", "{\"workers\": \"1\", \"x\": null}").0, 200);
    let entry = "{\"network\": \"192.0.2.0/24\", \"user\": \"bob\", \"reason\": \"r\", \"hours\": 5}";
    assert_eq!(post("/api/blocks", entry).0, 200);
    let block = NewBlock {
        network: Some("192.0.2.0/24".to_owned()),
        caller: None,
        user: Some("bob".to_owned()),
        reason: "r".to_owned(),
        hours: Some(5),
    };
    let keys = [("workers".to_owned(), Some("1".to_owned())), ("x".to_owned(), None)];
    let expected = [Change::Compare(keys.into()), Change::Block(block)];
    assert_eq!(*control.changes.lock().unwrap(), expected);
    let (status, body) = get(address, "/api/blocks?limit=2");
    assert!(status == 200 && body.contains("\"next\":\"2\"") && body.contains("\"total\":3"), "{body}");
    assert!(get(address, "/api/blocks?after=2").1.contains("\"next\":null"));
}
