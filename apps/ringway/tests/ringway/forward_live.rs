//! Forwards of the built server: loaded at its start, and changed by the admin API while it runs.
//!
//! Not tested here: what forwards do to calls, which `proto/server/tests/server/forwards.rs` has.

use crate::admin_api;
use crate::program::{Running, TIME_LIMIT};
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const CONFIGURATION: &str = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[auth]\nenabled = false\n\
                             [admin]\nlisten = \"127.0.0.1:0\"\n";

/// Sends a request to the admin API; returns status and body.
fn ask(admin: &str, method: &str, user: &str, body: &str) -> (u16, Value) {
    admin_api::ask(admin, method, &format!("/api/users/{user}/forward"), "", body)
}

/// Calls bob again and again, with another Call-ID each time, until `is_it` is true for what `socket` receives.
fn call_until(
    server: &str,
    caller: &UdpSocket,
    number: &mut u32,
    socket: &UdpSocket,
    is_it: impl Fn(&str) -> bool,
) -> String {
    let end = Instant::now() + TIME_LIMIT;
    let mut last = String::new();
    while Instant::now() < end {
        *number += 1;
        let own = caller.local_addr().unwrap();
        let text = format!(
            "INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{own}>\r\nContent-Length: 0\r\n\r\n"
        );
        caller.send_to(text.as_bytes(), server).unwrap();
        let mut buffer = [0; 4096];
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            if let Ok((length, _)) = socket.recv_from(&mut buffer) {
                last = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if is_it(&last) {
                    return last;
                }
            }
        }
    }
    panic!("it did not arrive; the last was {last:?}");
}

#[test]
fn forwards_are_loaded_and_change_while_the_server_runs() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path();
    fs::write(path.join("ringway.toml"), CONFIGURATION).unwrap();
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let uri = format!("sip:desk@{}", target.local_addr().unwrap());
    for args in [&["user", "add", "bob"][..], &["user", "forward", "bob", "--always", &uri]] {
        assert_eq!(Running::start(path, args, "").done().status, 0);
    }
    let running = Running::start(path, &["serve"], "");
    let server = running.address();
    let admin = running.admin();

    let mut number = 0;
    let forwarded = call_until(&server, &caller, &mut number, &target, |text| text.starts_with("INVITE "));
    assert!(forwarded.starts_with(&format!("INVITE {uri};cause=302 ")), "{forwarded}");
    assert!(forwarded.contains("reason=unconditional"), "{forwarded}");

    let (status, shown) = ask(&admin, "GET", "bob", "");
    assert_eq!((status, &shown["forwards"]["always"]), (200, &json!(uri)));
    assert_eq!(ask(&admin, "DELETE", "bob@example.org", "").0, 200);
    call_until(&server, &caller, &mut number, &caller, |text| text.starts_with("SIP/2.0 480 "));
    let (status, shown) = ask(&admin, "PUT", "bob", &json!({"unregistered": uri}).to_string());
    assert_eq!((status, &shown["user"]), (200, &json!("bob@example.org")));
    let forwarded =
        call_until(&server, &caller, &mut number, &target, |text| text.contains("reason=unavailable"));
    assert!(forwarded.starts_with("INVITE "), "{forwarded}");

    assert_eq!(ask(&admin, "PUT", "nobody", &json!({"always": uri}).to_string()).0, 404);
    for bad in [json!({"always": "desk"}), json!({"always": "sip:bob@example.org"})] {
        let (status, answer) = ask(&admin, "PUT", "bob", &bad.to_string());
        assert!(status == 400 && answer["error"].is_string(), "{answer}");
    }
    let listed = Running::start(path, &["user", "list"], "").done().ok();
    assert!(listed.contains(&format!(" unregistered: {uri}")), "{listed}");
    let listed = Running::start(path, &["user", "list", "--json"], "").done().json();
    assert_eq!(listed["users"][0]["forwards"]["unregistered"], json!(uri));
    let shown = Running::start(path, &["user", "forward", "bob", "--json"], "").done().json();
    assert_eq!(
        (&shown["forwards"]["always"], &shown["forwards"]["unregistered"]),
        (&json!(null), &json!(uri))
    );
}
