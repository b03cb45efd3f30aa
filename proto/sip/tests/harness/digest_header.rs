//! Digest headers: credentials read the same when written again, and a challenge keeps its quotes closed.

use ringway_sip::digest::{AuthenticationInfo, Challenge, Credentials, QopOffer, unescape};

/// Reads `data` as the value of an Authorization field, and uses it as a realm.
pub(crate) fn run(data: &[u8]) {
    if let Ok(Some(credentials)) = Credentials::parse(data) {
        let _ = credentials.nonce_count();
        written_again(&credentials);
    }
    challenged_with(data);
    informed_by(data);
}

/// Reads `data` as the value of an Authentication-Info field.
fn informed_by(data: &[u8]) {
    let Ok(info) = AuthenticationInfo::parse(data) else { return };
    let mut out = Vec::new();
    info.write(&mut out);
    if !data.contains(&b'"') && !data.contains(&b'\\') {
        assert_eq!(AuthenticationInfo::parse(&out), Ok(info), "{}", String::from_utf8_lossy(&out));
    }
}

fn written_again(credentials: &Credentials<'_>) {
    let pairs = [
        ("username", Some(credentials.username)),
        ("realm", Some(credentials.realm)),
        ("nonce", Some(credentials.nonce)),
        ("uri", Some(credentials.uri)),
        ("response", Some(credentials.response)),
        ("algorithm", credentials.algorithm),
        ("cnonce", credentials.cnonce),
        ("qop", credentials.qop),
        ("nc", credentials.nc),
        ("opaque", credentials.opaque),
    ];
    let mut out = b"Digest ".to_vec();
    for (name, value) in pairs {
        let Some(value) = value else { continue };
        // An unquoted value may contain characters that are not allowed within quotes.
        if value.contains(&b'"') || value.contains(&b'\\') {
            return;
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"=\"");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\" , ");
    }
    assert_eq!(Credentials::parse(&out), Ok(Some(*credentials)), "{}", String::from_utf8_lossy(&out));
}

fn challenged_with(text: &[u8]) {
    let mut out = Vec::new();
    let is_stale = text.len().is_multiple_of(2);
    let (opaque, qop) = (is_stale.then_some(text), QopOffer::Auth);
    Challenge { realm: text, nonce: text, algorithm: "SHA-256", opaque, qop, is_stale }.write(&mut out);
    // Read back with our own reader: a challenge has the form of credentials that lack what the client adds.
    let Some(rest) = out.strip_prefix(b"Digest ") else { panic!("not a digest challenge") };
    let as_credentials = [b"Digest username=u,uri=u,response=r,", rest].concat();
    match Credentials::parse(&as_credentials) {
        Ok(Some(read)) => {
            assert_eq!(unescape(read.realm), text);
            assert_eq!(unescape(read.nonce), text);
            assert_eq!((read.algorithm, read.qop), (Some(&b"SHA-256"[..]), Some(&b"auth"[..])));
        }
        other => panic!("{other:?}: {}", String::from_utf8_lossy(&out)),
    }
}
