//! Ringway's SRTP with libsrtp2 in both directions, without a call.

use super::Scenario;
use crate::libsrtp::{Library, ROOM_BYTES, Side};
use anyhow::{Context, Result, bail, ensure};
use base16ct::lower::decode_vec;
use ringway_sdp::{CryptoSuite, MasterKey};
use ringway_srtp::{SrtpReceiver, SrtpSender};
use xtask::workspace::root;

/// SSRC of all packets.
const SSRC: u32 = 0x1234_5678;

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut scenario = Scenario::new("srtp/libsrtp2", |_| match Library::load()? {
        Some(library) => every_suite(&library),
        None => bail!("libsrtp2 is not installed: install the package `libsrtp2-1`"),
    });
    scenario.reference = false;
    vec![scenario]
}

/// Tests every suite that the library implements as its RFC specifies.
fn every_suite(library: &Library) -> Result<()> {
    for suite in CryptoSuite::ALL {
        let is_aes_192 = suite.key_bytes() == 24;
        if is_aes_192 && !speaks_aes_192(library)? {
            println!(
                "    {} not compared: {} derives AES-192 keys otherwise than RFC 6188 §7.4 (mended in libsrtp 2.8)",
                suite.name(),
                library.description()
            );
            continue;
        }
        both_ways(library, suite)?;
    }
    Ok(())
}

/// True if the library computes the packet of the vector for RFC 6188's key derivation. Before 2.8 it uses
/// the AES-192 master key, followed by the salt and zeros, as one for AES-256.
fn speaks_aes_192(library: &Library) -> Result<bool> {
    let path = root().join("testdata/srtp/vectors.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let vectors: serde_json::Value = serde_json::from_str(&text)?;
    let packets = vectors["packets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |packet: &&serde_json::Value| {
        packet["name"].as_str().is_some_and(|name| name.contains("AES_192_CM_HMAC_SHA1_80"))
    };
    let vector = packets.iter().find(named).context("no vector for AES-192")?;
    let field = |name: &str| {
        vector[name].as_str().and_then(|text| decode_vec(text).ok()).with_context(|| format!("no {name}"))
    };
    let key = MasterKey {
        key: field("master_key")?,
        salt: field("master_salt")?,
        lifetime_packets: None,
        mki: Vec::new(),
    };
    let (rtp, srtp) = (field("rtp")?, field("srtp")?);
    let mut slot = Slot::with(&rtp);
    let mut session = library.session(CryptoSuite::AesCm192HmacSha1_80, &key, Side::Sender)?;
    let len = session.protect_rtp(&mut slot.0, rtp.len())?;
    Ok(slot.0.get(..len) == Some(srtp.as_slice()))
}

/// Sends packets of many lengths, over two wraps of the sequence number, in both directions.
fn both_ways(library: &Library, suite: CryptoSuite) -> Result<()> {
    both_ways_of(library, suite).with_context(|| format!("{} with {}", suite.name(), library.description()))
}

fn both_ways_of(library: &Library, suite: CryptoSuite) -> Result<()> {
    let key = |first: u8| MasterKey {
        key: (first..).take(suite.key_bytes()).collect(),
        salt: (first + 100..).take(suite.salt_bytes()).collect(),
        lifetime_packets: None,
        mki: Vec::new(),
    };
    let mut our_sender = SrtpSender::new(suite, &key(1))?;
    let mut their_receiver = library.session(suite, &key(1), Side::Receiver)?;
    let mut their_sender = library.session(suite, &key(2), Side::Sender)?;
    let mut our_receiver = SrtpReceiver::new(suite, &key(2))?;
    // Steps of 1 around each wrap, large ones between: skipped packets count as lost.
    let mut index = 30_000_u32;
    while index < 3 << 16 {
        let near_wrap = (index + 20) % (1 << 16) < 40;
        index += if near_wrap { 1 } else { (65_516 - index % (1 << 16)).clamp(1, 9_973) };
        let rtp = rtp(index);
        let mut slot = Slot::with(&rtp);
        let len = our_sender.protect_rtp(&mut slot.0, rtp.len())?;
        let len = their_receiver.unprotect_rtp(&mut slot.0, len).context("libsrtp2 reads our RTP")?;
        ensure!(slot.0.get(..len) == Some(rtp.as_slice()), "libsrtp2 read something else: index {index}");
        let mut slot = Slot::with(&rtp);
        let len = their_sender.protect_rtp(&mut slot.0, rtp.len())?;
        let packet = slot.0.get_mut(..len).unwrap_or_default();
        let len = our_receiver.unprotect_rtp(packet).context("we read libsrtp2's RTP")?;
        ensure!(slot.0.get(..len) == Some(rtp.as_slice()), "we read something else: index {index}");
        let rtcp = rtcp(index);
        let mut slot = Slot::with(&rtcp);
        let len = our_sender.protect_rtcp(&mut slot.0, rtcp.len())?;
        let len = their_receiver.unprotect_rtcp(&mut slot.0, len).context("libsrtp2 reads our RTCP")?;
        ensure!(slot.0.get(..len) == Some(rtcp.as_slice()), "libsrtp2 read other RTCP: index {index}");
        let mut slot = Slot::with(&rtcp);
        let len = their_sender.protect_rtcp(&mut slot.0, rtcp.len())?;
        let packet = slot.0.get_mut(..len).unwrap_or_default();
        let len = our_receiver.unprotect_rtcp(packet).context("we read libsrtp2's RTCP")?;
        ensure!(slot.0.get(..len) == Some(rtcp.as_slice()), "we read other RTCP: index {index}");
    }
    Ok(())
}

/// Buffer of a packet, aligned for libsrtp.
#[repr(align(8))]
struct Slot([u8; 512 + ROOM_BYTES]);

impl Slot {
    fn with(packet: &[u8]) -> Self {
        let mut room = [0; 512 + ROOM_BYTES];
        if let Some(start) = room.get_mut(..packet.len()) {
            start.copy_from_slice(packet);
        }
        Self(room)
    }
}

fn rtp(index: u32) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend((index as u16).to_be_bytes());
    packet.extend((index * 160).to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.extend((0..index % 400).map(|at| at as u8));
    packet
}

fn rtcp(index: u32) -> Vec<u8> {
    let words = 1 + index % 60;
    let mut packet = vec![0x80, 200];
    packet.extend((words as u16).to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.extend((0..words * 4 - 4).map(|at| at as u8));
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_understood_by_libsrtp2_and_its_packets_by_us() {
        match Library::load().unwrap() {
            Some(library) => every_suite(&library).unwrap(),
            None => eprintln!("not tested: libsrtp2 is not installed"),
        }
    }
}
