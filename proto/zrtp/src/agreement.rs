//! Diffie-Hellman: the 3072-bit group of RFC 3526 §4 and the curve P-256 of RFC 5114 §2.6.

use crate::algorithm::{CipherType, KeyAgreement};
use alloc::boxed::Box;
use alloc::vec::Vec;
use crypto_bigint::modular::ConstMontyForm;
use crypto_bigint::{U512, U3072};
use p256::elliptic_curve::sec1::ToSec1Point;
use ringway_sansio::Entropy;
use zeroize::{Zeroize, Zeroizing};

/// Private key and public value. The private key is erased when dropped.
pub(crate) struct KeyPair {
    secret: Secret,
    public: Vec<u8>,
}

enum Secret {
    Dh3k { exponent: Box<Exponent>, bits: u32 },
    Ec25(Box<p256::SecretKey>),
}

struct Exponent(U512);

impl Drop for Exponent {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A public value that makes the result predictable, or that is not a group element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPublicValue;

impl KeyPair {
    /// Generates a key pair: one exponentiation, or one scalar multiplication on the curve.
    pub(crate) fn new(key_agreement: KeyAgreement, cipher: CipherType, entropy: &mut Entropy) -> Self {
        match key_agreement {
            KeyAgreement::Dh3k => Self::dh3k(exponent_bits(cipher), entropy),
            KeyAgreement::Ec25 => Self::ec25(entropy),
        }
    }

    /// True if the pair belongs to this key agreement and is strong enough for this cipher.
    pub(crate) fn serves(&self, key_agreement: KeyAgreement, cipher: CipherType) -> bool {
        match &self.secret {
            Secret::Dh3k { bits, .. } => {
                key_agreement == KeyAgreement::Dh3k && *bits >= exponent_bits(cipher)
            }
            Secret::Ec25(_) => key_agreement == KeyAgreement::Ec25,
        }
    }

    /// Public value, pvi or pvr: 384 or 64 bytes.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// Computes DHResult, 384 or 32 bytes, after checking the peer's value (RFC 6189 §4.4.1.2, §5.1.5).
    pub(crate) fn agree(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadPublicValue> {
        match &self.secret {
            Secret::Dh3k { exponent, bits } => {
                let base = dh3k_public(peer).ok_or(BadPublicValue)?;
                Ok(Zeroizing::new(power(&base, &exponent.0, *bits)))
            }
            Secret::Ec25(secret) => {
                let point = ec25_public(peer).ok_or(BadPublicValue)?;
                let shared = p256::ecdh::diffie_hellman(secret.to_nonzero_scalar(), point.as_affine());
                Ok(Zeroizing::new(shared.raw_secret_bytes().to_vec()))
            }
        }
    }

    fn dh3k(bits: u32, entropy: &mut Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; 64]);
        entropy.fill(&mut bytes[64 - bits as usize / 8..]);
        let exponent = Box::new(Exponent(U512::from_be_slice(&*bytes)));
        let public = power(&U3072::from_u8(GENERATOR), &exponent.0, bits);
        Self { secret: Secret::Dh3k { exponent, bits }, public }
    }

    fn ec25(entropy: &mut Entropy) -> Self {
        // Of 2^32 random strings all but about one are a scalar below the order of the curve.
        let secret = loop {
            let bytes = Zeroizing::new(entropy.bytes::<32>());
            if let Ok(secret) = p256::SecretKey::from_slice(&*bytes) {
                break secret;
            }
        };
        let point = secret.public_key().to_sec1_point(false);
        let public = point.as_bytes().get(1..).unwrap_or_default().to_vec();
        Self { secret: Secret::Ec25(Box::new(secret)), public }
    }
}

/// Length of the private exponent: twice the length of the cipher's key (RFC 6189 §5.1.5).
const fn exponent_bits(cipher: CipherType) -> u32 {
    cipher.key_bytes() as u32 * 16
}

/// base ^ exponent mod p, in a time that depends only on the exponent's length.
fn power(base: &U3072, exponent: &U512, bits: u32) -> Vec<u8> {
    let mut form = ConstMontyForm::<Modp3072, { U3072::LIMBS }>::new(base).pow_bounded_exp(exponent, bits);
    let mut result = form.retrieve();
    let bytes = result.to_be_bytes().as_ref().to_vec();
    form.as_montgomery_mut().zeroize();
    result.zeroize();
    bytes
}

/// Parses a public value from 2 to p - 2.
fn dh3k_public(bytes: &[u8]) -> Option<U3072> {
    if bytes.len() != KeyAgreement::Dh3k.public_bytes() {
        return None;
    }
    let value = U3072::from_be_slice(bytes);
    let largest = PRIME.wrapping_sub(&U3072::from_u8(2));
    (value > U3072::ONE && value <= largest).then_some(value)
}

/// Parses both coordinates of a point on the curve.
fn ec25_public(bytes: &[u8]) -> Option<p256::PublicKey> {
    let mut encoded = [0; 65];
    let (form, coordinates) = encoded.split_first_mut()?;
    *form = UNCOMPRESSED;
    *coordinates.first_chunk_mut()? = *<&[u8; 64]>::try_from(bytes).ok()?;
    p256::PublicKey::from_sec1_bytes(&encoded).ok()
}

const GENERATOR: u8 = 2;
const UNCOMPRESSED: u8 = 4;

mod group {
    use crypto_bigint::{U3072, const_monty_params};

    /// 2^3072 - 2^3008 - 1 + 2^64 · ([2^2942 · π] + 1690314) (RFC 3526 §4).
    pub(crate) const PRIME: U3072 = U3072::from_be_hex(PRIME_HEX);

    const_monty_params!(Modp3072, U3072, PRIME_HEX, "Arithmetic modulo the prime of RFC 3526 §4.");

    const PRIME_HEX: &str = "\
        FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74\
        020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437\
        4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
        EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05\
        98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB\
        9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
        E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718\
        3995497CEA956AE515D2261898FA051015728E5A8AAAC42DAD33170D04507A33\
        A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7\
        ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864\
        D87602733EC86A64521F2B18177B200CBBE117577A615D6C770988C0BAD946E2\
        08E24FA074E5AB3143DB5BFCE0FD108E4B82D120A93AD2CAFFFFFFFFFFFFFFFF";
}
use group::{Modp3072, PRIME};

/// p - 1, the element of order 2.
#[cfg(test)]
pub(crate) fn less_one() -> Vec<u8> {
    PRIME.wrapping_sub(&U3072::ONE).to_be_bytes().as_ref().to_vec()
}

#[cfg(test)]
#[path = "agreement_tests.rs"]
mod tests;
