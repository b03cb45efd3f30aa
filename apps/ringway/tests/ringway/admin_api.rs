//! Requests to the admin API of a server.

use crate::program::TIME_LIMIT;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a request; returns head and body of the response. Each of `headers` ends with CRLF.
pub(crate) fn exchange(admin: &str, method: &str, path: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n{headers}");
    // A body that is refused by its length may not be read.
    let _ = stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Status and body of a response.
pub(crate) fn ask(admin: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
    let (head, body) = exchange(admin, method, path, headers, body);
    (status(&head), serde_json::from_str(&body).unwrap())
}

/// Same of a GET.
pub(crate) fn get(admin: &str, path: &str) -> (u16, Value) {
    ask(admin, "GET", path, "", "")
}

/// Counters of the server.
pub(crate) fn stats(admin: &str) -> Value {
    let (status, stats) = get(admin, "/api/stats");
    assert_eq!(status, 200, "{stats}");
    stats
}

/// Status of a response with this head.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}
