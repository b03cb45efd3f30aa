//! Messages with a body: Hello, Commit, DHPart, Ping, Error (RFC 6189 §5.2 to §5.16).

use crate::algorithm::{Algorithms, Chosen, KeyAgreement, TypeBlock};
use crate::hash::implicit_mac;
use crate::packet::{MESSAGE_HEAD_BYTES, MessageType, write_message};
use alloc::vec::Vec;

/// Version in our Hello; of a peer's version the first three characters are compared (RFC 6189 §4.1.1).
pub(crate) const VERSION: [u8; 4] = *b"1.10";

/// Contents of a Hello except its MAC (RFC 6189 §5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: [u8; 4],
    pub(crate) client_id: [u8; 16],
    pub(crate) h3: [u8; 32],
    pub(crate) zid: [u8; 12],
    /// Passive flag P: the sender never sends a Commit.
    pub(crate) is_passive: bool,
    pub(crate) algorithms: Algorithms,
}

impl Hello {
    pub(crate) fn write(&self, h2: &[u8; 32]) -> Vec<u8> {
        let lists = &self.algorithms;
        let [hashes, ciphers] = [blocks(&lists.hashes), blocks(&lists.ciphers)];
        let [tags, agreements] = [blocks(&lists.auth_tags), blocks(&lists.key_agreements)];
        let sas_types = blocks(&lists.sas_types);
        let count = |list: &[u8]| (list.len() / 4) as u8;
        let flags = [
            if self.is_passive { FLAG_PASSIVE } else { 0 },
            count(&hashes),
            count(&ciphers) << 4 | count(&tags),
            count(&agreements) << 4 | count(&sas_types),
        ];
        let parts: [&[u8]; 10] = [
            &self.version,
            &self.client_id,
            &self.h3,
            &self.zid,
            &flags,
            &hashes,
            &ciphers,
            &tags,
            &agreements,
            &sas_types,
        ];
        sealed(MessageType::Hello, &parts, h2)
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let mut body = Body::new(message);
        let (version, client_id, h3, zid) = (body.take()?, body.take()?, body.take()?, body.take()?);
        let [flags, hashes, ciphers_tags, agreements_sas] = body.take()?;
        let algorithms = Algorithms {
            hashes: body.list(hashes & 15)?,
            ciphers: body.list(ciphers_tags >> 4)?,
            auth_tags: body.list(ciphers_tags & 15)?,
            key_agreements: body.list(agreements_sas >> 4)?,
            sas_types: body.list(agreements_sas & 15)?,
        };
        let _mac: [u8; 8] = body.take()?;
        let is_passive = flags & FLAG_PASSIVE != 0;
        body.end()?;
        Some(Self { version, client_id, h3, zid, is_passive, algorithms: algorithms.completed() })
    }
}

/// Contents of a Commit in a Diffie-Hellman mode (RFC 6189 §5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) h2: [u8; 32],
    pub(crate) zid: [u8; 12],
    pub(crate) chosen: Chosen,
    /// Hash commitment of the initiator to its DHPart2.
    pub(crate) hvi: [u8; 32],
}

/// Reason why a Commit is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitRefusal {
    Malformed,
    /// A hash that we did not list; the same for the algorithms that follow.
    Hash,
    Cipher,
    AuthTag,
    KeyAgreement,
    SasType,
    /// A mode without Diffie-Hellman.
    Preshared,
    Multistream,
}

impl Commit {
    pub(crate) fn write(&self, h1: &[u8; 32]) -> Vec<u8> {
        let blocks = self.chosen.blocks();
        sealed(MessageType::Commit, &[&self.h2, &self.zid, blocks.as_flattened(), &self.hvi], h1)
    }

    /// Hash image H2 only: it shows whether the sender is that of the Hello before anything else is parsed.
    pub(crate) fn h2(message: &[u8]) -> Option<[u8; 32]> {
        Body::new(message).take()
    }

    /// Parses a Commit that chooses among `listed`, the algorithms of our Hello.
    pub(crate) fn parse(message: &[u8], listed: &Algorithms) -> Result<Self, CommitRefusal> {
        let mut body = Body::new(message);
        let (h2, zid, blocks, rest) = (|| {
            let (h2, zid) = (body.take()?, body.take()?);
            let blocks: [[u8; 4]; 5] = [body.take()?, body.take()?, body.take()?, body.take()?, body.take()?];
            Some((h2, zid, blocks, body.rest))
        })()
        .ok_or(CommitRefusal::Malformed)?;
        let [hash, cipher, auth_tag, key_agreement, sas] = blocks;
        match (&key_agreement, rest.len()) {
            (b"Prsh", 32) => return Err(CommitRefusal::Preshared),
            (b"Mult", 24) => return Err(CommitRefusal::Multistream),
            (_, 40) => {}
            _ => return Err(CommitRefusal::Malformed),
        }
        let chosen = Chosen {
            hash: one_of(hash, &listed.hashes).ok_or(CommitRefusal::Hash)?,
            cipher: one_of(cipher, &listed.ciphers).ok_or(CommitRefusal::Cipher)?,
            auth_tag: one_of(auth_tag, &listed.auth_tags).ok_or(CommitRefusal::AuthTag)?,
            key_agreement: one_of(key_agreement, &listed.key_agreements)
                .ok_or(CommitRefusal::KeyAgreement)?,
            sas: one_of(sas, &listed.sas_types).ok_or(CommitRefusal::SasType)?,
        };
        let hvi = body.take().ok_or(CommitRefusal::Malformed)?;
        Ok(Self { h2, zid, chosen, hvi })
    }
}

/// Truncated hashes by which both ends find shared secrets (RFC 6189 §4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecretIds {
    pub(crate) rs1: [u8; 8],
    pub(crate) rs2: [u8; 8],
    pub(crate) aux: [u8; 8],
    pub(crate) pbx: [u8; 8],
}

/// Contents of a DHPart1 or DHPart2 except the MAC (RFC 6189 §5.5, §5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DhPart<'a> {
    pub(crate) h1: [u8; 32],
    pub(crate) ids: SecretIds,
    pub(crate) public: &'a [u8],
}

impl<'a> DhPart<'a> {
    pub(crate) fn write(&self, kind: MessageType, h0: &[u8; 32]) -> Vec<u8> {
        let SecretIds { rs1, rs2, aux, pbx } = &self.ids;
        sealed(kind, &[&self.h1, rs1, rs2, aux, pbx, self.public], h0)
    }

    pub(crate) fn parse(message: &'a [u8], key_agreement: KeyAgreement) -> Option<Self> {
        let mut body = Body::new(message);
        let h1 = body.take()?;
        let ids = SecretIds { rs1: body.take()?, rs2: body.take()?, aux: body.take()?, pbx: body.take()? };
        let (public, mac) = body.rest.split_at_checked(key_agreement.public_bytes())?;
        (mac.len() == MAC_BYTES).then_some(Self { h1, ids, public })
    }
}

/// Answer to a Ping (RFC 6189 §5.16); the endpoint hash is our truncated ZID.
pub(crate) fn ping_ack(ping: &[u8], ping_ssrc: u32, zid: &[u8; 12]) -> Option<Vec<u8>> {
    let mut body = Body::new(ping);
    let (_version, endpoint): ([u8; 4], [u8; 8]) = (body.take()?, body.take()?);
    body.end()?;
    let parts: [&[u8]; 4] = [&VERSION, zid.first_chunk::<8>()?, &endpoint, &ping_ssrc.to_be_bytes()];
    Some(write_message(MessageType::PingAck, &parts))
}

/// An Error with its code (RFC 6189 §5.9).
pub(crate) fn error(code: u32) -> Vec<u8> {
    write_message(MessageType::Error, &[&code.to_be_bytes()])
}

pub(crate) fn error_code(message: &[u8]) -> Option<u32> {
    let mut body = Body::new(message);
    let code = u32::from_be_bytes(body.take()?);
    body.end()?;
    Some(code)
}

/// True if the MAC at the end of a Hello, Commit or DHPart was made with this link of the sender's hash chain
/// (RFC 6189 §9).
pub(crate) fn is_sealed_with(key: &[u8; 32], message: &[u8]) -> bool {
    message
        .split_last_chunk::<MAC_BYTES>()
        .is_some_and(|(before, mac)| crate::hash::is_equal(&implicit_mac(key, before), mac))
}

/// A message with its MAC; its length field includes the MAC.
fn sealed(kind: MessageType, parts: &[&[u8]], key: &[u8; 32]) -> Vec<u8> {
    let mut all = parts.to_vec();
    all.push(&[0; MAC_BYTES]);
    let mut message = write_message(kind, &all);
    if let Some((before, mac)) = message.split_last_chunk_mut::<MAC_BYTES>() {
        *mac = implicit_mac(key, before);
    }
    message
}

fn one_of<T: TypeBlock>(block: [u8; 4], listed: &[T]) -> Option<T> {
    T::from_block(block).filter(|item| listed.contains(item))
}

fn blocks<T: TypeBlock>(list: &[T]) -> Vec<u8> {
    list.iter().take(LIST_MAX).flat_map(|item| item.block()).collect()
}

/// Unread rest of a message body.
pub(crate) struct Body<'a> {
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self { rest: message.get(MESSAGE_HEAD_BYTES..).unwrap_or_default() }
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn end(self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }

    /// Parses a list of `count` type blocks, at most seven (RFC 6189 §5.2); unknown algorithms are skipped.
    fn list<T: TypeBlock>(&mut self, count: u8) -> Option<Vec<T>> {
        if usize::from(count) > LIST_MAX {
            return None;
        }
        let mut list = Vec::new();
        for _ in 0..count {
            list.extend(T::from_block(self.take()?));
        }
        Some(list)
    }
}

const FLAG_PASSIVE: u8 = 0x10;
const MAC_BYTES: usize = 8;
const LIST_MAX: usize = 7;

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
