//! Tests of the opening handshake: the examples of both RFCs, every refused request and response, the limits.

use super::*;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;

/// Request of RFC 7118 §4.1.
fn request() -> String {
    "GET / HTTP/1.1\nHost: sip-ws.example.com\nUpgrade: websocket\nConnection: Upgrade\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nOrigin: http://www.example.com\n\
     Sec-WebSocket-Protocol: sip\nSec-WebSocket-Version: 13\n\n"
        .replace('\n', "\r\n")
}

fn response() -> String {
    "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\nSec-WebSocket-Protocol: sip\n\n"
        .replace('\n', "\r\n")
}

fn check(request: &str) -> Result<[u8; 28], Refusal> {
    let origins = vec!["http://www.example.com".to_string()];
    check_request(request.as_bytes(), &WebSocketServer { origins, ..WebSocketServer::default() })
}

/// Status of the response to a refused request.
fn status(refused: Result<[u8; 28], Refusal>) -> String {
    let mut out = Vec::new();
    match refused {
        Ok(_) => return "101".into(),
        Err(refusal) => refusal.write(&mut out),
    }
    let text = String::from_utf8(out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{text}");
    assert!(head.contains("close"), "{text}");
    let code = head.split(' ').nth(1).unwrap();
    assert_eq!(code == "426", head.contains("Upgrade: websocket") && head.contains("Version: 13"), "{text}");
    code.into()
}

#[test]
fn the_accept_key_is_that_of_the_rfcs_example() {
    assert_eq!(&accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn the_example_of_rfc_7118_gets_its_response() {
    let mut out = Vec::new();
    write_response(&check(&request()).unwrap(), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), response());
    assert_eq!(check_response(response().as_bytes(), b"dGhlIHNhbXBsZSBub25jZQ=="), Ok(()));
}

#[test]
fn requests_that_are_no_handshake_for_sip_are_refused() {
    let changes = [
        ("GET / HTTP/1.1", "GET / HTTP/1.0", "400"),
        ("GET / HTTP/1.1", "HEAD / HTTP/1.1", "400"),
        ("GET / HTTP/1.1", "GET HTTP/1.1", "400"),
        ("GET / HTTP/1.1", "nonsense", "400"),
        ("Host: sip-ws.example.com\r\n", "", "400"),
        ("Host: sip-ws.example.com", "Host:", "400"),
        ("Host: ", "Host: a\r\nHost: ", "400"),
        ("Host: ", "Content-Length: 3\r\nHost: ", "400"),
        ("Host: ", "Transfer-Encoding: chunked\r\nHost: ", "400"),
        ("Host: ", "Ho st: a\r\nHost: ", "400"),
        ("Upgrade: websocket\r\n", "", "426"),
        ("Upgrade: websocket", "Upgrade: h2c", "426"),
        ("Connection: Upgrade\r\n", "", "426"),
        ("Connection: Upgrade", "Connection: keep-alive", "426"),
        ("Version: 13", "Version: 8", "426"),
        ("Sec-WebSocket-Version: 13\r\n", "", "426"),
        ("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 13", "426"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ", "400"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j", "400"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZWVl", "400"),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhb!BsZSBub25jZQ==", "400"),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", "400"),
        ("Origin", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin", "400"),
        ("Protocol: sip", "Protocol: chat, sips", "400"),
        ("Sec-WebSocket-Protocol: sip\r\n", "", "400"),
        ("\r\n\r\n", "\r\n\nGET / HTTP/1.1\r\n\r\n", "400"),
    ];
    for (from, to, expected) in changes {
        let changed = request().replacen(from, to, 1);
        assert_ne!(changed, request());
        assert_eq!(status(check(&changed)), expected, "{to:?} for {from:?}");
    }
}

#[test]
fn requests_in_other_forms_are_accepted() {
    let changes = [
        ("GET / ", "GET /sip?user=1 "),
        ("Upgrade: websocket", "uPGRADE: h2c , WebSocket"),
        ("Connection: Upgrade", "Connection: keep-alive,upgrade"),
        ("Connection: Upgrade", "Connection: keep-alive\r\nConnection: upgrade"),
        ("Protocol: sip", "Protocol: chat, sip"),
        ("Protocol: sip", "Protocol: chat\r\nSec-WebSocket-Protocol: sip"),
        ("Host: ", "Content-Length: 0\r\nHost: "),
        ("Host: ", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nHost: "),
        ("Version: 13", "Version:   13 "),
    ];
    for (from, to) in changes {
        let changed = request().replacen(from, to, 1);
        assert_ne!(changed, request());
        assert_eq!(status(check(&changed)), "101", "{to:?} for {from:?}");
    }
}

/// A page of another site could use what the server permits the address of its visitor.
#[test]
fn without_origins_pages_of_the_same_host_and_programs_may_connect() {
    for (host, origin, expected) in [
        ("sip.example.com:8080", "Origin: https://SIP.example.com\r\n", "101"),
        ("127.0.0.1:8080", "Origin: http://127.0.0.1:3000\r\n", "101"),
        ("[::1]:8080", "Origin: http://[::1]\r\n", "101"),
        ("sip.example.com", "", "101"),
        ("sip.example.com", "Origin: https://www.example.com\r\n", "403"),
        ("sip.example.com", "Origin: https://sip.example.com.evil.test\r\n", "403"),
        ("sip.example.com", "Origin: null\r\n", "403"),
        ("sip.example.com", "Origin: \r\n", "403"),
        ("sip.example.com", "Origin: https://sip.example.com\r\nOrigin: https://evil.test\r\n", "403"),
        ("[::1]", "Origin: http://[::2]\r\n", "403"),
    ] {
        let request = request()
            .replace("Host: sip-ws.example.com", &format!("Host: {host}"))
            .replace("Origin: http://www.example.com\r\n", origin);
        let checked = check_request(request.as_bytes(), &WebSocketServer::default());
        assert_eq!(status(checked), expected, "{host} {origin:?}");
    }
}

#[test]
fn only_pages_of_the_given_origins_may_connect() {
    let origins = vec!["https://phone.example.com".to_string(), "http://www.example.com:8080".to_string()];
    let server = WebSocketServer { origins, ..WebSocketServer::default() };
    for (origin, expected) in [
        ("Origin: https://phone.example.com\r\n", "101"),
        ("Origin: HTTPS://Phone.Example.com\r\n", "101"),
        ("Origin: http://www.example.com:8080\r\n", "101"),
        ("Origin: http://www.example.com\r\n", "403"),
        ("Origin: http://phone.example.com\r\n", "403"),
        ("Origin: https://phone.example.com:443\r\n", "403"),
        ("Origin: https://phone.example.com.evil.test\r\n", "403"),
        ("Origin: null\r\n", "403"),
        ("Origin:\r\n", "403"),
        ("Origin: https://phone.example.com\r\nOrigin: https://phone.example.com\r\n", "403"),
        ("", "403"),
    ] {
        let request = request().replace("Origin: http://www.example.com\r\n", origin);
        assert_eq!(status(check_request(request.as_bytes(), &server)), expected, "{origin:?}");
    }
}

#[test]
fn a_head_ends_at_its_empty_line_however_it_is_split() {
    let bytes = [request().as_bytes(), b"frames\r\n\r\nbehind"].concat();
    for size in 1..bytes.len() {
        let (mut head, mut frames) = (Head::new(), None::<Vec<u8>>);
        for piece in bytes.chunks(size) {
            match (&mut frames, head.bytes().ends_with(END)) {
                (Some(frames), _) => frames.extend_from_slice(piece),
                (None, _) => match head.push(piece) {
                    Pushed::More => assert!(head.may_be_get()),
                    Pushed::Complete(behind) => frames = Some(behind.to_vec()),
                    Pushed::TooLarge => unreachable!("it is small"),
                },
            }
        }
        assert_eq!((head.bytes(), frames.unwrap()), (request().as_bytes(), b"frames\r\n\r\nbehind".to_vec()));
    }
}

#[test]
fn a_head_has_limits_of_bytes_and_lines() {
    let padded = |bytes: usize| {
        let empty = request().len() + "X: \r\n".len();
        request().replace("Host", &format!("X: {}\r\nHost", "x".repeat(bytes - empty)))
    };
    for (bytes, size) in [(HEAD_BYTES_MAX, 1), (HEAD_BYTES_MAX, 3000), (HEAD_BYTES_MAX, 100_000)] {
        let (mut good, mut large) = (Head::new(), Head::new());
        let last = padded(bytes).as_bytes().chunks(size).map(|piece| good.push(piece) == Pushed::More).last();
        assert_eq!(last, Some(false), "complete");
        assert_eq!(good.bytes().len(), HEAD_BYTES_MAX);
        let text = padded(bytes + 1);
        let mut pushed = text.as_bytes().chunks(size).map(|piece| large.push(piece));
        assert!(pushed.any(|pushed| pushed == Pushed::TooLarge));
        drop(pushed);
        assert_eq!(large.bytes().len(), HEAD_BYTES_MAX, "no more is kept");
    }
    let lines = |count: usize| request().replace("Host", &format!("{}Host", "X: y\r\n".repeat(count)));
    let own = 7;
    assert_eq!(status(check(&lines(HEADER_LINES_MAX - own))), "101");
    assert_eq!(status(check(&lines(HEADER_LINES_MAX - own + 1))), "431");
}

#[test]
fn a_client_refuses_wrong_responses() {
    let changes = [
        ("101", "200"),
        ("HTTP/1.1", "HTTP/1.0"),
        ("HTTP/1.1", "SIP/2.0"),
        ("Upgrade: websocket\r\n", ""),
        ("Connection: Upgrade\r\n", "Connection: close\r\n"),
        ("s3pPLMBi", "S3pPLMBi"),
        ("Sec-WebSocket-Accept", "X-Accept"),
        ("Protocol: sip", "Protocol: chat"),
        ("Sec-WebSocket-Protocol: sip\r\n", ""),
        ("Connection", "Sec-WebSocket-Extensions: permessage-deflate\r\nConnection"),
        ("\r\n\r\n", "\r\n\n\r\n\r\n"),
    ];
    for (from, to) in changes {
        let changed = response().replacen(from, to, 1);
        assert_ne!(changed, response());
        let result = check_response(changed.as_bytes(), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert!(result.is_err(), "{to:?} for {from:?}");
    }
}

#[test]
fn a_clients_request_is_a_valid_handshake() {
    let key = encode_key(b"the sample nonce");
    assert_eq!(&key, b"dGhlIHNhbXBsZSBub25jZQ==");
    for origin in [None, Some("https://phone.example.com")] {
        let target = WebSocketTarget::new("[2001:db8::1]:8080", "/ws?a=b", origin).unwrap();
        let mut request = Vec::new();
        write_request(&target, &key, &mut request);
        let origins = origin.map(str::to_string).into_iter().collect();
        let server = WebSocketServer { origins, ..WebSocketServer::default() };
        assert_eq!(check_request(&request, &server), Ok(*b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(String::from_utf8(request).unwrap().contains("Origin"), origin.is_some());
    }
    for (host, resource, origin) in [
        ("", "/", None),
        ("a b", "/", None),
        ("a\r\nX: y", "/", None),
        ("a", "", None),
        ("a", "x", None),
        ("a", "/ HTTP/1.1\r\n", None),
        ("a", "/é", None),
        ("a", "/", Some("")),
        ("a", "/", Some("x\n")),
    ] {
        assert_eq!(WebSocketTarget::new(host, resource, origin), None, "{host:?} {resource:?} {origin:?}");
    }
}
