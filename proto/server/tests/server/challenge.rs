//! x
use ringway_server::Ha1;
use md5::{Digest, Md5};
use sha2::Sha256;
/// H(A1) as the store has it.
pub(crate) fn ha1(user: &str, realm: &str, password: &str) -> Ha1 {
    let text = [user, realm, password].join(":");
    Ha1 { md5: Md5::digest(text.as_bytes()).into(), sha256: Sha256::digest(text.as_bytes()).into() }
}
