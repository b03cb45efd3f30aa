//! A packet causes no allocation when it is sent, received or played.

use allocation_counter::measure;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_media::MediaSession;
use ringway_media::session::SessionConfig;
use ringway_sansio::{Instant, Outbox, Seed};
use ringway_sdp::{Codec, CryptoSuite, Direction, MasterKey, MediaParams, Protection};

fn params(remote: SocketAddr, suite: Option<CryptoSuite>, sends: u8) -> MediaParams {
    let key = |suite: CryptoSuite, number: u8| MasterKey {
        key: vec![number; suite.key_bytes()],
        salt: vec![number; suite.salt_bytes()],
        lifetime_packets: None,
        mki: Vec::new(),
    };
    MediaParams {
        remote,
        remote_rtcp: remote,
        rtcp_mux: true,
        codec: Codec::Pcmu,
        payload_type: 0,
        receive: vec![(0, Codec::Pcmu)],
        telephone_event: Some(101),
        receive_telephone_event: Some(101),
        ptime_ms: 20,
        direction: Direction::SendRecv,
        ice: None,
        protection: match suite {
            Some(suite) => {
                Protection::Sdes { suite, send: key(suite, sends), receive: key(suite, 3 - sends) }
            }
            None => Protection::None,
        },
    }
}

#[test]
fn an_established_call_allocates_nothing() {
    let addresses = [4000, 5000].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    for suite in [None].into_iter().chain(CryptoSuite::ALL.map(Some)) {
        let mut now = Instant::from_secs(1000);
        let config = SessionConfig::default;
        let mut ends = [1, 2].map(|number| MediaSession::new(config(), Seed::from_number(number), now));
        ends[0].set_params(now, params(addresses[1], suite, 1));
        ends[1].set_params(now, params(addresses[0], suite, 2));
        let mut out = Outbox::new();
        let mut wire = [0; 2048];
        let mut call = |packets: u32, ends: &mut [MediaSession; 2]| {
            for number in 0..packets {
                if number == 20 {
                    ends[0].send_digits("1").unwrap();
                }
                for (from, to) in [(0, 1), (1, 0)] {
                    let mut sound = [(number % 500) as i16 * 64; 160];
                    let (bytes, _) = ends[from].prepare(now, &sound).unwrap();
                    let len = bytes.len();
                    wire[..len].copy_from_slice(bytes);
                    // Every seventh is lost, every fifth is duplicated.
                    if number % 7 != 0 {
                        ends[to].on_rtp(now, now, addresses[from], &mut { wire }[..len], &mut out);
                    }
                    if number % 5 == 0 {
                        ends[to].on_rtp(now, now, addresses[from], &mut wire[..len], &mut out);
                    }
                    ends[to].playout(now, &mut sound);
                    ends[to].on_timeout(now, &mut out);
                    let _ = (ends[to].report(), ends[to].poll_event());
                    out.clear();
                }
                now = now + Duration::from_millis(20);
            }
        };
        call(400, &mut ends);
        let measured = measure(|| call(1000, &mut ends));
        assert_eq!(measured.count_total, 0, "{suite:?}");
    }
}
