//! Sound between the offer and the answer.

use super::wire::{address, plain};
use super::*;
use crate::rtp::RtpHeader;
use alloc::vec::Vec;
use ringway_sansio::Outbox;
use ringway_sdp::Codec;

const START: Instant = Instant::from_secs(1000);

/// A session whose offer was sent, and the time.
struct Caller {
    session: MediaSession,
    now: Instant,
    /// Blocks that were played and are no silence.
    loud_blocks: usize,
}

impl Caller {
    fn new(may_be_protected: bool) -> Self {
        let mut session = MediaSession::new(SessionConfig::default(), Seed::from_number(1), START);
        session.set_offered(OfferedSound { receive: Vec::from([(0, Codec::Pcmu)]), may_be_protected });
        Self { session, now: START, loud_blocks: 0 }
    }

    /// Receives packets of loud G.711 from `from`, one every 20 ms.
    fn hear(&mut self, from: SocketAddr, payload_type: u8, bytes: usize, sequences: core::ops::Range<u16>) {
        for sequence in sequences {
            let timestamp = 160 * u32::from(sequence);
            let header = RtpHeader { marker: false, payload_type, sequence, timestamp, ssrc: 7 };
            let mut packet = header.to_bytes().to_vec();
            packet.extend((0..bytes).map(|at| if at / 20 % 2 == 0 { 0x10 } else { 0x90 }));
            let mut out = Outbox::new();
            self.session.on_rtp(self.now, self.now, from, &mut packet, &mut out);
            self.session.on_timeout(self.now, &mut out);
            assert_eq!(self.session.prepare(self.now, &[0; 160]).is_some(), self.session.params().is_some());
            assert!(self.session.params().is_some() || out.is_empty(), "nothing is sent before the answer");
            self.now = self.now + Duration::from_millis(20);
            let mut block = [0; 160];
            self.session.playout(self.now, &mut block);
            self.loud_blocks += usize::from(block.iter().any(|sample| sample.unsigned_abs() > 100));
        }
    }

    fn received(&self) -> u64 {
        self.session.report().received.counts.received
    }
}

#[test]
fn sound_before_the_answer_is_played_and_goes_on_after_it() {
    let mut caller = Caller::new(false);
    let peer = address(2, 4000);
    caller.hear(peer, 0, 160, 0..50);
    assert_eq!(
        (caller.received(), caller.session.report().refused.early),
        (46, 4),
        "a source has five packets"
    );
    assert!(caller.loud_blocks > 35, "{}", caller.loud_blocks);
    assert!(matches!(caller.session.poll_event(), Some(MediaEvent::EarlySound)));
    caller.session.set_params(caller.now, plain(peer));
    let before = caller.loud_blocks;
    caller.hear(peer, 0, 160, 50..100);
    assert_eq!((caller.received(), caller.session.report().received.counts.lost()), (96, 0));
    assert!(caller.loud_blocks >= before + 45, "{before}, {}", caller.loud_blocks);
}

#[test]
fn one_source_is_heard_before_the_answer_and_only_the_peer_after_it() {
    let mut caller = Caller::new(false);
    let (first, second) = (address(3, 4000), address(4, 4000));
    caller.hear(first, 0, 160, 0..20);
    caller.hear(second, 0, 160, 0..20);
    assert_eq!((caller.received(), caller.session.report().refused.early), (16, 24));
    caller.session.set_params(caller.now, plain(address(2, 4000)));
    caller.hear(address(2, 4000), 0, 160, 0..1);
    let before = caller.received();
    caller.hear(first, 0, 160, 20..40);
    assert_eq!(caller.received(), before);
}

#[test]
fn what_may_be_srtp_and_what_was_not_offered_is_not_played() {
    // Of 160 bytes and a tag of 80 or 32 bits.
    for (may_be_protected, payload_type, bytes, is_played) in [
        (true, 0, 160, true),
        (true, 0, 240, true),
        (true, 0, 170, false),
        (true, 0, 164, false),
        (true, 0, 0, false),
        (false, 0, 170, true),
        (false, 8, 160, false),
        (false, 101, 4, false),
    ] {
        let mut caller = Caller::new(may_be_protected);
        caller.hear(address(2, 4000), payload_type, bytes, 0..20);
        let received = if is_played { 16 } else { 0 };
        assert_eq!(caller.received(), received, "{payload_type}, {bytes} bytes, {may_be_protected}");
        assert_eq!(caller.session.report().refused.early, 20 - received);
    }
}

#[test]
fn without_an_offer_nothing_is_played() {
    let mut caller = Caller::new(false);
    caller.session = MediaSession::new(SessionConfig::default(), Seed::from_number(1), START);
    caller.hear(address(2, 4000), 0, 160, 0..20);
    assert_eq!((caller.received(), caller.loud_blocks), (0, 0));
    assert_eq!(caller.session.report().refused.early, 20);
}
