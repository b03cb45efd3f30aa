//! SRTP and SRTCP: arbitrary bytes to a receiver, and any change to a protected packet. A rejected packet is
//! left unchanged, and a valid packet is accepted afterwards, once.

use ringway_sdp::{CryptoSuite, MasterKey};
use ringway_srtp::{SrtpReceiver, SrtpSender, UnprotectError};
use std::vec;
use std::vec::Vec;

/// Input: suite (one byte), kind of change (one byte), packet.
pub(crate) fn run(data: &[u8]) {
    let [suite, change, packet @ ..] = data else { return };
    let suite = CryptoSuite::ALL[usize::from(*suite & 7)];
    let mut receiver = SrtpReceiver::new(suite, &key(suite)).unwrap();
    forged(&mut receiver, packet);
    protected(&mut receiver, suite, packet, *change);
}

fn forged(receiver: &mut SrtpReceiver, packet: &[u8]) {
    let mut bytes = packet.to_vec();
    let is_refused =
        receiver.unprotect_rtp(&mut bytes).is_err() && receiver.unprotect_rtcp(&mut bytes).is_err();
    assert!(is_refused, "a packet without the key was accepted");
    assert_eq!(bytes, packet, "a refused packet was changed");
}

fn protected(receiver: &mut SrtpReceiver, suite: CryptoSuite, packet: &[u8], change: u8) {
    let mut sender = SrtpSender::new(suite, &key(suite)).unwrap();
    let mut buffer = packet.to_vec();
    buffer.resize(packet.len() + SrtpSender::OVERHEAD_BYTES_MAX, 0);
    let is_rtcp = change & 1 != 0;
    let result = if is_rtcp {
        sender.protect_rtcp(&mut buffer, packet.len())
    } else {
        sender.protect_rtp(&mut buffer, packet.len())
    };
    let Ok(len) = result else { return };
    let good = &buffer[..len];
    let open = |receiver: &mut SrtpReceiver, bytes: &mut [u8]| {
        if is_rtcp { receiver.unprotect_rtcp(bytes) } else { receiver.unprotect_rtp(bytes) }
    };
    let mut bad = good.to_vec();
    let at = usize::from(change >> 1) * len / 128;
    bad[at] ^= 1 << (change & 7);
    let before = bad.clone();
    assert!(open(receiver, &mut bad).is_err(), "a changed packet was accepted");
    assert_eq!(bad, before, "a refused packet was changed");
    let mut copy = good.to_vec();
    let opened = open(receiver, &mut copy);
    assert_eq!(
        opened.map(|len| copy[..len].to_vec()).as_deref(),
        Ok(packet),
        "a good packet was not accepted"
    );
    assert_eq!(open(receiver, &mut good.to_vec()), Err(UnprotectError::Replayed));
}

fn key(suite: CryptoSuite) -> MasterKey {
    MasterKey {
        key: vec![0x17; suite.key_bytes()],
        salt: vec![0x71; suite.salt_bytes()],
        lifetime_packets: None,
        mki: Vec::new(),
    }
}
