//! Records under AES-128-GCM (RFC 8446 §5.2 for TLS 1.3, RFC 5288 §3 for TLS 1.2); SHA-256, and HMAC with it.

use aes_gcm::{AeadInOut, KeyInit};
use alloc::boxed::Box;
use hmac::Mac;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, NONCE_LEN, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, Tls13AeadAlgorithm, UnsupportedOperationError, make_tls12_aad, make_tls13_aad,
};
use rustls::crypto::{hash, hmac as interface};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};
use sha2::Digest;

/// AES-128-GCM of both versions.
pub(super) struct Aes128Gcm;

impl Tls13AeadAlgorithm for Aes128Gcm {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Tls13Records { cipher: Cipher::new(&key), iv })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Tls13Records { cipher: Cipher::new(&key), iv })
    }

    fn key_len(&self) -> usize {
        KEY_BYTES
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(ConnectionTrafficSecrets::Aes128Gcm { key, iv })
    }
}

impl Tls12AeadAlgorithm for Aes128Gcm {
    fn encrypter(&self, key: AeadKey, salt: &[u8], explicit: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(Tls12Sender { cipher: Cipher::new(&key), iv: joined(salt, explicit) })
    }

    fn decrypter(&self, key: AeadKey, salt: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(Tls12Receiver { cipher: Cipher::new(&key), salt: joined(salt, &[]) })
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        KeyBlockShape {
            enc_key_len: KEY_BYTES,
            fixed_iv_len: SALT_BYTES,
            explicit_nonce_len: EXPLICIT_NONCE_BYTES,
        }
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        salt: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Ok(ConnectionTrafficSecrets::Aes128Gcm { key, iv: joined(salt, explicit) })
    }
}

/// AES-128-GCM under one key.
pub(super) struct Cipher(aes_gcm::Aes128Gcm);

impl Cipher {
    pub(super) fn new(key: &AeadKey) -> Self {
        // rustls passes `KEY_BYTES` bytes.
        let mut bytes = zeroize::Zeroizing::new([0; KEY_BYTES]);
        bytes.iter_mut().zip(key.as_ref()).for_each(|(to, from)| *to = *from);
        Self(aes_gcm::Aes128Gcm::new((&*bytes).into()))
    }

    /// Encrypts the bytes of `payload` from `from` on, and appends the tag.
    pub(super) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        payload: &mut PrefixedPayload,
        from: usize,
    ) -> Result<(), Error> {
        let text = payload.as_mut().get_mut(from..).ok_or(Error::EncryptError)?;
        let tag = self.0.encrypt_inout_detached(&nonce.into(), associated, text.into());
        payload.extend_from_slice(&tag.map_err(|_| Error::EncryptError)?);
        Ok(())
    }

    /// Decrypts `text`, which ends with the tag; returns the length of the plain text.
    pub(super) fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        text: &mut [u8],
    ) -> Result<usize, Error> {
        let (text, tag) = text.split_last_chunk_mut::<TAG_BYTES>().ok_or(Error::DecryptError)?;
        let opened =
            self.0.decrypt_inout_detached(&nonce.into(), associated, (&mut *text).into(), &(*tag).into());
        opened.map(|()| text.len()).map_err(|_| Error::DecryptError)
    }
}

struct Tls13Records {
    cipher: Cipher,
    iv: Iv,
}

impl MessageEncrypter for Tls13Records {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let total = self.encrypted_payload_len(message.payload.len());
        let mut payload = PrefixedPayload::with_capacity(total);
        payload.extend_from_chunks(&message.payload);
        payload.extend_from_slice(&[message.typ.into()]);
        self.cipher.seal(Nonce::new(&self.iv, number).0, &make_tls13_aad(total), &mut payload, 0)?;
        // Protected records have the version of TLS 1.2 (RFC 8446 §5.2).
        Ok(OutboundOpaqueMessage::new(ContentType::ApplicationData, ProtocolVersion::TLSv1_2, payload))
    }

    fn encrypted_payload_len(&self, bytes: usize) -> usize {
        bytes + 1 + TAG_BYTES
    }
}

impl MessageDecrypter for Tls13Records {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let payload = &mut message.payload;
        let associated = make_tls13_aad(payload.len());
        let bytes = self.cipher.open(Nonce::new(&self.iv, number).0, &associated, payload)?;
        payload.truncate(bytes);
        message.into_tls13_unpadded_message()
    }
}

struct Tls12Sender {
    cipher: Cipher,
    iv: Iv,
}

impl MessageEncrypter for Tls12Sender {
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let bytes = message.payload.len();
        let mut payload = PrefixedPayload::with_capacity(self.encrypted_payload_len(bytes));
        let nonce = Nonce::new(&self.iv, number).0;
        payload.extend_from_slice(nonce.get(SALT_BYTES..).unwrap_or_default());
        payload.extend_from_chunks(&message.payload);
        let associated = make_tls12_aad(number, message.typ, message.version, bytes);
        self.cipher.seal(nonce, &associated, &mut payload, EXPLICIT_NONCE_BYTES)?;
        Ok(OutboundOpaqueMessage::new(message.typ, message.version, payload))
    }

    fn encrypted_payload_len(&self, bytes: usize) -> usize {
        bytes + EXPLICIT_NONCE_BYTES + TAG_BYTES
    }
}

struct Tls12Receiver {
    cipher: Cipher,
    /// Salt in the first bytes.
    salt: Iv,
}

impl MessageDecrypter for Tls12Receiver {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let (kind, version) = (message.typ, message.version);
        let payload = &mut message.payload;
        let bytes = payload.len().checked_sub(EXPLICIT_NONCE_BYTES + TAG_BYTES).ok_or(Error::DecryptError)?;
        if bytes > PLAIN_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        let (explicit, text) =
            payload.split_at_mut_checked(EXPLICIT_NONCE_BYTES).ok_or(Error::DecryptError)?;
        let salt = self.salt.as_ref().get(..SALT_BYTES).unwrap_or_default();
        let mut nonce = [0; NONCE_LEN];
        nonce.iter_mut().zip(salt.iter().chain(&*explicit)).for_each(|(to, from)| *to = *from);
        self.cipher.open(nonce, &make_tls12_aad(number, kind, version, bytes), text)?;
        Ok(message.into_plain_message_range(EXPLICIT_NONCE_BYTES..EXPLICIT_NONCE_BYTES + bytes))
    }
}

/// Salt and explicit nonce, one after the other (RFC 5288 §3).
fn joined(salt: &[u8], explicit: &[u8]) -> Iv {
    let mut bytes = [0; NONCE_LEN];
    bytes.iter_mut().zip(salt.iter().chain(explicit)).for_each(|(to, from)| *to = *from);
    Iv::new(bytes)
}

const KEY_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
const SALT_BYTES: usize = 4;
const EXPLICIT_NONCE_BYTES: usize = 8;
/// Maximum length of a record's plain text (RFC 5246 §6.2.1).
const PLAIN_BYTES_MAX: usize = 1 << 14;

/// SHA-256 (FIPS 180-4).
pub(super) struct Sha256;

impl hash::Hash for Sha256 {
    fn start(&self) -> Box<dyn hash::Context> {
        Box::new(Context(sha2::Sha256::new()))
    }

    fn hash(&self, data: &[u8]) -> hash::Output {
        hash::Output::new(&sha2::Sha256::digest(data))
    }

    fn output_len(&self) -> usize {
        HASH_BYTES
    }

    fn algorithm(&self) -> hash::HashAlgorithm {
        hash::HashAlgorithm::SHA256
    }
}

struct Context(sha2::Sha256);

impl hash::Context for Context {
    fn fork_finish(&self) -> hash::Output {
        hash::Output::new(&self.0.clone().finalize())
    }

    fn fork(&self) -> Box<dyn hash::Context> {
        Box::new(Self(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> hash::Output {
        hash::Output::new(&self.0.finalize())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

/// HMAC-SHA256 (RFC 2104). rustls makes HKDF (RFC 5869) and the PRF of TLS 1.2 (RFC 5246 §5) of it.
pub(super) struct HmacSha256;

impl interface::Hmac for HmacSha256 {
    fn with_key(&self, key: &[u8]) -> Box<dyn interface::Key> {
        // Longer keys are hashed first (RFC 2104 §2).
        let mut block = [0; BLOCK_BYTES];
        let digest;
        let key = if key.len() > BLOCK_BYTES {
            digest = sha2::Sha256::digest(key);
            digest.as_slice()
        } else {
            key
        };
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        let mac = hmac::Hmac::<sha2::Sha256>::new(&block.into());
        zeroize::Zeroize::zeroize(&mut block);
        Box::new(Key(mac))
    }

    fn hash_output_len(&self) -> usize {
        HASH_BYTES
    }
}

struct Key(hmac::Hmac<sha2::Sha256>);

impl interface::Key for Key {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> interface::Tag {
        let mut mac = self.0.clone();
        mac.update(first);
        middle.iter().for_each(|part| mac.update(part));
        mac.update(last);
        interface::Tag::new(&mac.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        HASH_BYTES
    }
}

const HASH_BYTES: usize = 32;
const BLOCK_BYTES: usize = 64;
