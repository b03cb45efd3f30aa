//! Credentials of a phone for a digest challenge, with the first supported algorithm.

use super::Account;
use base16ct::lower::encode_string as hex;
use md5::Md5;
use ringway_sip::grammar::{trim, unquote};
use ringway_sip::{Fields, HeaderName, Message};
use sha2::{Digest, Sha256};

/// Header line with credentials for the challenge in a 401 or 407; `None` without a supported challenge.
pub(super) fn answer(
    account: &Account,
    response: &Fields<'_>,
    method: &str,
    uri: &str,
    count: u32,
) -> Option<String> {
    let pairs = [
        (HeaderName::WwwAuthenticate, "Authorization"),
        (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
    ];
    for (asked, given) in pairs {
        for value in response.lines_of(asked) {
            let value = std::str::from_utf8(value).expect("our server writes text");
            let (realm, nonce) = (param(value, "realm")?, param(value, "nonce")?);
            let algorithm = param(value, "algorithm").unwrap_or_else(|| "MD5".into());
            let hash: fn(&str) -> String = match algorithm.as_str() {
                "MD5" => |text| hex(&Md5::digest(text)),
                "SHA-256" => |text| hex(&Sha256::digest(text)),
                _ => continue,
            };
            let ha1 = hash(&format!("{}:{realm}:{}", account.user, account.password));
            let ha2 = hash(&format!("{method}:{uri}"));
            let proof = hash(&format!("{ha1}:{nonce}:{count:08x}:cnonce:auth:{ha2}"));
            return Some(format!(
                "{given}: Digest username=\"{}\",realm=\"{realm}\",nonce=\"{nonce}\",uri=\"{uri}\",\
                 response=\"{proof}\",algorithm={algorithm},cnonce=\"cnonce\",qop=auth,nc={count:08x}\r\n",
                account.user
            ));
        }
    }
    None
}

/// Challenge of a phone that wants the credentials of its own account.
pub(super) fn challenge() -> String {
    format!("Digest realm=\"trunk\",nonce=\"{NONCE}\",algorithm=MD5,qop=\"auth\"")
}

/// True for a request with credentials of this account for that challenge.
pub(super) fn is_proven(account: &Account, request: &Message<'_>) -> bool {
    request.lines_of(HeaderName::ProxyAuthorization).any(|value| {
        let value = String::from_utf8_lossy(value);
        let given = |name| param(&value, name).unwrap_or_default();
        let hash = |text: String| hex(&Md5::digest(text));
        let ha1 = hash(format!("{}:trunk:{}", account.user, account.password));
        let method = String::from_utf8_lossy(request.method().as_bytes());
        let ha2 = hash(format!("{method}:{}", given("uri")));
        let proof = format!("{ha1}:{NONCE}:{}:{}:auth:{ha2}", given("nc"), given("cnonce"));
        given("response") == hash(proof)
    })
}

fn param(challenge: &str, name: &str) -> Option<String> {
    let params = challenge.strip_prefix("Digest ")?;
    params.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = unquote(trim(value.as_bytes()));
        (key.trim() == name).then(|| String::from_utf8_lossy(value).into_owned())
    })
}

/// Nonce of the challenges.
const NONCE: &str = "nonce-of-the-trunk";
