//! The admin API of the built server, as the dashboard uses it: users, kick, connections, configuration, and the figures that
//! the dashboard and Grafana name.

use crate::admin_api;
use crate::program::Running;
use ringway_test_support::eventually::wait_for;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A server with 250 users, without authentication.
struct Server {
    _folder: TempDir,
    _running: Running,
    admin: String,
    udp: String,
    tcp: String,
}

impl Server {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let config = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\nworkers = 2\n\
                      [auth]\nenabled = false\n[media]\nrtpengine = [\"127.0.0.1:1\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"hidden-token\"\n";
        fs::write(folder.path().join("ringway.toml"), config).unwrap();
        let rows: String = (0..250).map(|number| format!("user{number:03},secret{number}\n")).collect();
        fs::write(folder.path().join("users.csv"), format!("username,password\n{rows}")).unwrap();
        Running::start(folder.path(), &["user", "import", "users.csv"], "").done().ok();
        let running = Running::start(folder.path(), &["serve"], "");
        running.ready();
        let admin = running.admin();
        Self {
            admin,
            udp: running.listener("udp"),
            tcp: running.listener("tcp"),
            _folder: folder,
            _running: running,
        }
    }

    /// Status and body of a response.
    fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let token = "Authorization: Bearer hidden-token\r\n";
        let (head, body) = admin_api::exchange(&self.admin, method, path, token, "");
        (admin_api::status(&head), body)
    }

    fn json(&self, method: &str, path: &str) -> Value {
        let (status, body) = self.ask(method, path);
        assert_eq!(status, 200, "{method} {path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn register(&self, user: &str) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let own = socket.local_addr().unwrap();
        let text = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{user}\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@example.org>;tag=1\r\nTo: <sip:{user}@example.org>\r\nCall-ID: {user}\r\nCSeq: 1 REGISTER\r\n\
             Contact: <sip:{user}@{own}>\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send_to(text.as_bytes(), &self.udp).unwrap();
        let mut answer = [0; 2000];
        let length = socket.recv(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"SIP/2.0 200"));
    }
}

#[test]
fn users_are_listed_searched_and_kicked() {
    let server = Server::start();
    server.register("user007");
    let (mut listed, mut path) = (Vec::new(), "/api/users?limit=60".to_owned());
    loop {
        let page = server.json("GET", &path);
        assert_eq!(page["total"], 250);
        let users = page["users"].as_array().unwrap();
        listed.extend(users.iter().map(|user| user["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/users?limit=60&after={}", next.replace('@', "%40"));
    }
    assert!(listed.iter().enumerate().all(|(number, name)| *name == format!("user{number:03}")));
    assert_eq!(listed.len(), 250);

    let names = |path: &str| {
        let page = server.json("GET", path);
        let users = page["users"].as_array().unwrap().clone();
        users.iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("/api/users?q=user24&position=prefix").len(), 10);
    assert_eq!(names("/api/users?q=R117%40EXAMPLE"), ["user117"]);
    let found = server.json("GET", "/api/registrations?q=USER007");
    assert_eq!(found["registrations"].as_array().unwrap().len(), 1);

    let user = server.json("GET", "/api/users/user007");
    assert_eq!((user["contacts"].as_array().unwrap().len(), &user["password"]), (1, &json!(true)));
    assert_eq!(server.json("DELETE", "/api/users/user007/registrations")["ended"], 1);
    assert_eq!(server.ask("DELETE", "/api/users/user007/registrations").0, 404);
    assert!(server.json("GET", "/api/users/user007")["contacts"].as_array().unwrap().is_empty());
    assert_eq!(server.ask("GET", "/api/users/nobody").0, 404);
    assert_eq!(server.ask("DELETE", "/api/users/a%00b/registrations").0, 400);
    server.register("user007");
    assert_eq!(server.json("GET", "/api/users/user007@example.org")["contacts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_connection_is_found_and_dropped() {
    let server = Server::start();
    let mut phone = TcpStream::connect(&server.tcp).unwrap();
    let other = TcpStream::connect(&server.tcp).unwrap();
    phone.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let port = phone.local_addr().unwrap().port();
    let search =
        || server.json("GET", &format!("/api/connections?q=127.0.0.1:{port}"))["connections"].clone();
    let found = wait_for("a result", || search().as_array().filter(|found| found.len() == 1).cloned());
    let id = found[0]["id"].as_str().unwrap();
    server.json("DELETE", &format!("/api/connections/{id}"));
    assert_eq!(phone.read(&mut [0]).unwrap(), 0, "the server closed it");
    wait_for("a result", || search().as_array().filter(|found| found.is_empty()).cloned());
    assert_eq!(server.ask("DELETE", &format!("/api/connections/{id}")).0, 404);
    assert_eq!(server.json("GET", "/api/connections")["connections"].as_array().unwrap().len(), 1);
    drop(other);
}

#[test]
fn the_configuration_is_shown_without_secrets() {
    let server = Server::start();
    let (status, body) = server.ask("GET", "/api/config");
    assert!(status == 200 && !body.contains("hidden-token"), "{body}");
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(shown["keys"]["admin.token"], "(secret)");
    assert_eq!(shown["keys"]["auth.enabled"], "false");
    assert!(shown["file"].as_str().unwrap().ends_with("ringway.toml"));
    let info = server.json("GET", "/api/server");
    assert_eq!((&info["workers"], &info["domains"]), (&json!(2), &json!(["example.org"])));
    assert_eq!(info["listeners"], json!([format!("udp:{}", server.udp), format!("tcp:{}", server.tcp)]));
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Words of `text` that are made of the characters of a metric's name, and follow `before`.
fn names_after<'t>(text: &'t str, before: &'t str) -> BTreeSet<&'t str> {
    let is_other = |c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_';
    text.split(before)
        .skip(1)
        .filter_map(|rest| rest.split(is_other).next())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn every_figure_that_the_dashboards_name_exists() {
    let server = Server::start();
    let stats = server.json("GET", "/api/stats");
    let metrics = server.ask("GET", "/metrics").1;
    let grafana = read("packaging/grafana/ringway.json");
    let named = names_after(&grafana, "(ringway_");
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        let line = metrics.lines().find(|line| {
            line.strip_prefix(&format!("ringway_{name}")).is_some_and(|rest| rest.starts_with([' ', '{']))
        });
        assert!(line.is_some(), "grafana/ringway.json names {name}, which /metrics does not have");
    }
    let reasons = read("services/admin/src/dashboard/reasons.js");
    let counters = names_after(&reasons, "\n  ['");
    assert!(counters.len() > 60, "{counters:?}");
    for name in counters.iter().filter(|name| !OPTIONAL.contains(name)) {
        assert!(stats[name].is_number(), "reasons.js names {name}, which /api/stats does not have");
    }
    let overview = read("services/admin/src/dashboard/overview.js");
    for name in names_after(&overview, "stats.").into_iter().filter(|name| !OPTIONAL.contains(name)) {
        assert!(stats[name].is_number(), "overview.js names {name}, which /api/stats does not have");
    }
    let provisioning = read("apps/ringway/src/serve/provisioning.rs");
    for name in OPTIONAL.into_iter().filter(|name| name.starts_with("provisioning_")) {
        assert!(overview.contains(name) && provisioning.contains(&format!("\"{name}\"")), "{name}");
    }
}

/// Each counter in the table of docs/reference/limits.md is explained in the dashboard too.
#[test]
fn the_dashboard_has_the_limits_of_the_documents() {
    let (page, reasons) = (read("docs/reference/limits.md"), read("services/admin/src/dashboard/reasons.js"));
    let (_, table) = page.split_once("# Limits\n").unwrap();
    let (table, _) = table.split_once("\nMonitor at least").unwrap();
    let explained = names_after(&reasons, "\n  ['");
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let last = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap();
        // A counter alone; others of the cell are explained there as values.
        if let Some(name) = last.trim().strip_prefix('`').and_then(|name| name.split('`').next()) {
            let is_value = VALUES.contains(&name);
            assert!(is_value || explained.contains(name), "reasons.js does not explain {name}: {row}");
        }
    }
}

/// Figures that exist only with a certificate, a collector of captured messages, a database of users, or shared registrations.
const OPTIONAL: [&str; 8] = [
    "tls_certificate_expires_s",
    "hep_lost",
    "provisioning_connected",
    "provisioning_reached_seconds",
    "location_connected",
    "write_back_connected",
    "write_back_dropped",
    "location_refusals",
];

/// Figures in the table that are no counters of a limit.
const VALUES: [&str; 1] = ["held"];
