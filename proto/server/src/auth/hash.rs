//! The arithmetic of digest (RFC 7616 §3.4) with either hash.

use crate::Ha1;
use digest::Digest;
use md5::Md5;
use ringway_sip::digest::Credentials;
use sha2::Sha256;

/// A hash algorithm of digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 1321; what every phone can do.
    Md5,
    /// RFC 8760.
    Sha256,
}

impl Algorithm {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    /// The algorithm of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Md5, Self::Sha256].into_iter().find(|one| one.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// True when the credentials' response is the one that H(A1), the method and the nonce make. Takes the same time for
    /// every wrong answer.
    pub(crate) fn proves(self, ha1: &Ha1, method: &[u8], given: &Credentials<'_>) -> bool {
        match self {
            Self::Md5 => proves::<Md5, 16>(&ha1.md5, method, given),
            Self::Sha256 => proves::<Sha256, 32>(&ha1.sha256, method, given),
        }
    }
}

fn proves<D: Digest, const N: usize>(ha1: &[u8; N], method: &[u8], given: &Credentials<'_>) -> bool {
    let mut hex = [0_u8; 64];
    let mut hash = D::new();
    hash.update(method);
    hash.update(b":");
    hash.update(given.uri);
    let ha2 = hash.finalize();
    let mut hash = D::new();
    hash.update(to_hex(ha1, &mut hex));
    hash.update(b":");
    hash.update(given.nonce);
    hash.update(b":");
    hash.update(given.nc.unwrap_or_default());
    hash.update(b":");
    hash.update(given.cnonce.unwrap_or_default());
    hash.update(b":");
    hash.update(given.qop.unwrap_or_default());
    hash.update(b":");
    hash.update(to_hex(&ha2, &mut hex));
    same(to_hex(&hash.finalize(), &mut hex), given.response)
}

fn to_hex<'h>(bytes: &[u8], hex: &'h mut [u8; 64]) -> &'h [u8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, &byte) in hex.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            *high = DIGITS.get(usize::from(byte >> 4)).copied().unwrap_or(b'0');
            *low = DIGITS.get(usize::from(byte & 15)).copied().unwrap_or(b'0');
        }
    }
    hex.get(..bytes.len() * 2).unwrap_or_default()
}

/// Compares without stopping at the first difference; the case of hexadecimal digits does not matter.
fn same(expected: &[u8], given: &[u8]) -> bool {
    if expected.len() != given.len() {
        return false;
    }
    let difference = expected
        .iter()
        .zip(given)
        .fold(0_u8, |difference, (one, two)| difference | (one ^ two.to_ascii_lowercase()));
    core::hint::black_box(difference) == 0
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
