//! Credentials of a phone for a digest challenge, with the first supported algorithm.

use super::Account;
use base16ct::lower::encode_string as hex;
use md5::Md5;
use ringway_sip::grammar::{trim, unquote};
use ringway_sip::{Fields, HeaderName};
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

fn param(challenge: &str, name: &str) -> Option<String> {
    let params = challenge.strip_prefix("Digest ")?;
    params.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let value = unquote(trim(value.as_bytes()));
        (key.trim() == name).then(|| String::from_utf8_lossy(value).into_owned())
    })
}
