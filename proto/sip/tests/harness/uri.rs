//! URIs: what is printed is what was read, the parts make up the whole, and comparison is fair.

use ringway_sip::{Host, NameAddr, Uri};

/// Two URIs with a line break between them; without one, the same twice.
pub(crate) fn run(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (first, second) = (&data[..at], data.get(at + 1..).unwrap_or(&data[..at]));
    let (first, second) = (Uri::parse(first), Uri::parse(second));
    for (uri, bytes) in [(&first, &data[..at]), (&second, data.get(at + 1..).unwrap_or(&data[..at]))] {
        if let Ok(uri) = uri {
            assert_eq!(uri.as_bytes(), bytes, "printed as read");
            holds(uri);
        }
    }
    if let (Ok(first), Ok(second)) = (&first, &second) {
        let equal = first.equals(second);
        assert_eq!(equal, second.equals(first), "symmetric");
        if equal {
            assert_eq!(first.scheme(), second.scheme());
            assert_eq!(first.port(), second.port());
            assert!(first.host().equals(second.host().as_bytes()));
            assert_eq!(unescaped_user(first), unescaped_user(second));
        }
    }
}

fn holds(uri: &Uri<'_>) {
    assert!(uri.equals(uri), "reflexive");
    assert!(uri.as_bytes().iter().all(|&byte| byte > b' ' && byte < 127), "no line break, no blank");
    let _ = uri.is_loose_router();
    if !uri.is_sip() {
        return;
    }
    let host = uri.host();
    assert_eq!(Host::parse(host.as_bytes()), Ok(host));
    let _ = host.ip();
    let rebuilt = rebuilt(uri);
    match Uri::parse(&rebuilt) {
        Ok(again) => {
            assert!(again.equals(uri) && uri.equals(&again), "the parts are the whole");
            assert_eq!(again.params(), uri.params());
        }
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&rebuilt)),
    }
    let bracketed = [b"\"a <b>\" <", uri.as_bytes(), b">;tag=t"].concat();
    match NameAddr::parse(&bracketed) {
        Ok(address) => assert_eq!((address.uri, address.tag()), (*uri, Some(&b"t"[..]))),
        Err(error) => panic!("in brackets: {error}"),
    }
}

fn rebuilt(uri: &Uri<'_>) -> Vec<u8> {
    let scheme_len = uri.as_bytes().iter().position(|&byte| byte == b':').unwrap_or_default();
    let mut out = uri.as_bytes()[..=scheme_len].to_vec();
    if let Some(user) = uri.user() {
        out.extend_from_slice(user);
        if let Some(password) = uri.password() {
            out.push(b':');
            out.extend_from_slice(password);
        }
        out.push(b'@');
    }
    out.extend_from_slice(uri.host().as_bytes());
    if let Some(port) = uri.port() {
        out.extend_from_slice(format!(":{port}").as_bytes());
    }
    out.extend_from_slice(uri.params().as_bytes());
    if !uri.headers().is_empty() {
        out.push(b'?');
        out.extend_from_slice(uri.headers());
    }
    out
}

fn unescaped_user(uri: &Uri<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    uri.unescaped_user_into(&mut out);
    out
}
