//! RTP: arbitrary bytes as a packet, and arbitrary packets as a stream. A parsed packet matches its bytes,
//! and no stream makes a session panic or its sound louder than the peer's.

use core::net::SocketAddr;
use core::time::Duration;
use ringway_media::MediaSession;
use ringway_media::rtp::RtpPacket;
use ringway_media::session::SessionConfig;
use ringway_sansio::{Instant, Outbox, Seed};
use ringway_sdp::{Codec, Direction, MediaParams, Protection};

pub(crate) fn run(data: &[u8]) {
    as_packet(data);
    as_stream(data);
}

fn as_packet(data: &[u8]) {
    let Ok(packet) = RtpPacket::parse(data) else { return };
    let header = packet.header().to_bytes();
    assert_eq!(header[1..], data[1..12]);
    assert!(packet.csrcs().len() <= 15);
    let rest =
        12 + 4 * packet.csrcs().len() + packet.extension().map_or(0, |extension| 4 + extension.data.len());
    assert!(data[rest..].starts_with(packet.payload()));
    let padding = data.len() - rest - packet.payload().len();
    assert_eq!(padding, if data[0] & 0x20 == 0 { 0 } else { usize::from(data[data.len() - 1]) });
    let whole = RtpPacket::parse_header(data).map(|packet| packet.payload().len());
    assert_eq!(whole, Ok(packet.payload().len() + padding));
}

/// Records of a length, the elapsed time in units of 5 ms, and a datagram; one with a length above 200 is
/// from another sender.
fn as_stream(data: &[u8]) {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4000));
    let stranger = SocketAddr::from(([192, 0, 2, 66], 6666));
    let mut now = Instant::from_secs(1000);
    let mut session = MediaSession::new(SessionConfig::default(), Seed::from_number(1), now);
    session.set_params(now, params(peer));
    let mut out = Outbox::new();
    let mut rest = data;
    let (mut datagrams, mut strangers, mut is_latched) = (0, 0, false);
    while let [len, wait, behind @ ..] = rest {
        let (bytes, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        datagrams += 1;
        strangers += u64::from(*len > 200);
        let from = if *len > 200 { stranger } else { peer };
        session.on_rtp(now, now, from, &mut bytes.to_vec(), &mut out);
        assert!(out.is_empty(), "nothing is answered");
        is_latched |= session.report().heard_from == Some(stranger);
        now = now + Duration::from_millis(5 * u64::from(*wait));
        session.playout(now, &mut [0; 160]);
        assert!(session.prepare(now, &[0; 160]).is_some());
        if datagrams % 64 == 0 {
            session.on_timeout(now, &mut out);
            let target = session.report().target;
            assert!(out.packets().all(|(packet, _)| Some(packet.flow.remote) == target));
            out.clear();
        }
    }
    let report = session.report();
    assert!(report.received.counts.received <= datagrams);
    assert!(report.refused.strangers >= strangers || is_latched);
    assert!(report.mos.is_none_or(|mos| (1.0..=4.5).contains(&mos)), "{:?}", report.mos);
    while session.poll_event().is_some() {}
}

fn params(remote: SocketAddr) -> MediaParams {
    MediaParams {
        remote,
        remote_rtcp: remote,
        rtcp_mux: true,
        codec: Codec::Pcmu,
        payload_type: 0,
        receive: vec![(0, Codec::Pcmu), (8, Codec::Pcma)],
        telephone_event: Some(101),
        receive_telephone_event: Some(101),
        ptime_ms: 20,
        direction: Direction::SendRecv,
        protection: Protection::None,
        ice: None,
    }
}
