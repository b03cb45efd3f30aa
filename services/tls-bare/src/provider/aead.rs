//! Records under AES-128-GCM: RFC 8446 §5.2 for TLS 1.3, RFC 5288 §3 for TLS 1.2.

use aes_gcm::{AeadInOut, KeyInit};
use alloc::boxed::Box;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter,
    MessageEncrypter, NONCE_LEN, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload,
    Tls12AeadAlgorithm, Tls13AeadAlgorithm, UnsupportedOperationError, make_tls12_aad, make_tls13_aad,
};
use rustls::{ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion};

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
