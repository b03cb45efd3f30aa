//! The dashboard's files, the paths behind it, and their description.

use super::{Recorder, ask, get, serve};
use ringway_admin::{AdminServer, Change, RoutesEdit, RoutesEffect, TextPosition, UserQuery};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Head of the response, and its body.
fn exchange(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

/// A server whose changes are recorded.
fn served() -> (Arc<Recorder>, AdminServer) {
    let control = Arc::new(Recorder::default());
    let server = serve(Arc::clone(&control), "t0ken");
    (control, server)
}

#[test]
fn the_files_of_the_dashboard_need_no_token_and_hold_no_data() {
    let server = serve(Arc::default(), "t0ken");
    let address = server.address();
    let get = |path: &str, host: &str| {
        exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let (_, page) = get("/", "localhost");
    let named = page.split('"').filter(|text| text.starts_with("/dashboard/"));
    for path in std::iter::once("/").chain(named) {
        let (head, body) = get(path, "localhost");
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(!body.contains("t0ken") && !body.contains("alice"), "{path}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n";
        assert!(head.contains(policy), "{path}: {head}");
        for line in
            ["x-content-type-options: nosniff", "x-frame-options: deny", "referrer-policy: no-referrer"]
        {
            assert!(head.contains(line), "{path} has no {line}: {head}");
        }
        assert!(get(path, "evil.example").0.starts_with("http/1.1 403"), "{path} for another name");
    }
    for path in [
        "/dashboard",
        "/dashboard/",
        "/dashboard/../api/users",
        "/dashboard/%2e%2e/api/stats",
        "/api/users",
        "//",
    ] {
        assert!(get(path, "localhost").0.starts_with("http/1.1 401"), "{path}");
    }
}

#[test]
fn users_are_listed_shown_and_kicked_and_connections_dropped() {
    let (control, server) = served();
    let address = server.address();
    let good = format!("Host: {address}\r\nConnection: close\r\nAuthorization: Bearer t0ken\r\n");
    let ask = |line: &str, headers: &str| ask(address, &format!("{line} HTTP/1.1\r\n{headers}\r\n"));
    let paths = [
        "GET /api/users",
        "GET /api/users/bob",
        "GET /api/config",
        "GET /api/routes",
        "GET /api/server",
        "GET /api/openapi.json",
        "DELETE /api/users/bob/registrations",
        "DELETE /api/connections/7",
        "DELETE /api/drain",
    ];
    for line in paths {
        assert_eq!(ask(line, &good.replace("t0ken", "other")).0, 401, "{line}");
        assert_eq!(ask(line, &format!("Host: {address}\r\nConnection: close\r\n")).0, 401, "{line}");
        assert_eq!(
            ask(line, &good.replace(&format!("Host: {address}"), "Host: evil.example")).0,
            403,
            "{line}"
        );
        let foreign = ask(line, &format!("{good}Origin: http://evil.example\r\n")).0;
        assert_eq!(foreign, if line.starts_with("GET") { 200 } else { 403 }, "{line}");
        assert_eq!(ask(&line.replace("GET", "PATCH").replace("DELETE", "PATCH"), &good).0, 405, "{line}");
    }
    assert!(control.changes.lock().unwrap().is_empty(), "what is refused changes nothing");
    control.queries.lock().unwrap().clear();

    for (query, status) in [
        ("", 200),
        ("?limit=0", 200),
        ("?limit=4000000000", 200),
        ("?after=bob%40example.org&limit=7&q=+b%20&position=prefix", 200),
        ("?limit=-1", 400),
        ("?limit=99999999999999999999999", 400),
        ("?position=suffix", 400),
        ("?name=x", 400),
        ("?q=%ff", 200),
    ] {
        assert_eq!(ask(&format!("GET /api/users{query}"), &good).0, status, "{query}");
    }
    assert_eq!(ask(&format!("GET /api/users?q={}", "x".repeat(129)), &good).0, 400);
    let asked = control.queries.lock().unwrap().clone();
    let limits: Vec<_> = asked.iter().map(|query| query.limit).collect();
    assert_eq!(limits[..3], [100, 1, 500]);
    let last = UserQuery {
        after: Some("bob@example.org".into()),
        limit: 7,
        text: Some("b".into()),
        position: TextPosition::Prefix,
    };
    assert_eq!(asked[3], last);

    assert!(ask("GET /api/users/%3Cb%3E", &good).1.contains("\"name\":\"<b>\""), "JSON has no markup");
    assert_eq!(ask("DELETE /api/users/a%2Fb%40example.org/registrations", &good).0, 200);
    assert_eq!(ask("DELETE /api/users/%ff/registrations", &good).0, 400);
    for id in ["x", "-1", "18446744073709551616", "7/8"] {
        assert!(matches!(ask(&format!("DELETE /api/connections/{id}"), &good).0, 400 | 404), "{id}");
    }
    assert_eq!(ask("DELETE /api/connections/18446744073709551615", &good).0, 200);
    let expected = [Change::Kick("a/b@example.org".into()), Change::Drop(u64::MAX)];
    assert_eq!(*control.changes.lock().unwrap(), expected);
}

#[test]
fn routes_are_changed_by_who_names_their_version() {
    let (control, server) = served();
    let address = server.address();
    let head = format!("Host: {address}\r\nConnection: close\r\nAuthorization: Bearer t0ken\r\n");
    let shown = exchange(address, &format!("GET /api/routes HTTP/1.1\r\n{head}\r\n")).0;
    assert!(shown.contains("etag: \"c0ffee\"\r\n"), "{shown}");
    let put = |query: &str, headers: &str, body: &str| {
        let line = format!("PUT /api/routes{query} HTTP/1.1\r\n{headers}Content-Length: {}", body.len());
        ask(address, &format!("{line}\r\n\r\n{body}")).0
    };
    let body = "{\"text\": \"x\", \"version\": \"c0ffee\"}";
    assert_eq!(put("", &head.replace("t0ken", "other"), body), 401);
    assert_eq!(put("", &format!("{head}Origin: http://evil.example\r\n"), body), 403);
    assert_eq!(put("", &head, "{\"text\": \"x\"}"), 428);
    for tag in ["*", "c0ffee", "\"a\", \"c0ffee\"", "\"other\""] {
        assert_eq!(put("", &format!("{head}If-Match: {tag}\r\n"), body), 400, "{tag}");
    }
    for (query, body) in
        [("?dry_run=1", body), ("?force=true", body), ("", "[]"), ("", "{\"version\": \"c0ffee\"}")]
    {
        assert_eq!(put(query, &head, body), 400, "{query} {body}");
    }
    assert!(control.changes.lock().unwrap().is_empty(), "what is refused changes nothing");
    assert_eq!(put("?dry_run=true", &head, body), 200);
    assert_eq!(put("", &format!("{head}If-Match: \"c0ffee\"\r\n"), "{\"text\": \"x\"}"), 200);
    let edit = |effect| Change::Routes(RoutesEdit { text: "x".into(), version: "c0ffee".into(), effect });
    assert_eq!(*control.changes.lock().unwrap(), [edit(RoutesEffect::Preview), edit(RoutesEffect::Save)]);
}

/// Every path of the router is described, and every path that is described is one of the router.
#[test]
fn the_description_has_the_paths_of_the_router() {
    let control = Arc::new(Recorder::default());
    let server = serve(Arc::clone(&control), "");
    let address = server.address();
    let text = get(address, "/api/openapi.json").1;
    let description: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(description["openapi"], "3.1.0");
    let paths = description["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let real = path.replace("{user}", "bob").replace("{id}", "7");
        for method in methods.as_object().unwrap().keys() {
            let line = format!("{} {real} HTTP/1.1", method.to_uppercase());
            let head =
                format!("{line}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}");
            let (status, body) = ask(address, &head);
            assert!(!matches!(status, 404 | 405 | 500..), "{line}: {status} {body}");
        }
    }
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        // The call may be broken after its parenthesis.
        for route in source.split(".route(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')) {
            let path = route.split('"').next().unwrap();
            assert!(paths.contains_key(path), "{}: {path} is not in openapi.json", file.display());
        }
    }
    // All references lead to something.
    for reference in text.split("\"$ref\": \"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(description.pointer(reference).is_some(), "{reference}");
    }
}
