//! RTCP: arbitrary bytes as a compound packet. An accepted packet can be read to its end, and our reports are
//! accepted.

use ringway_media::rtcp::{Compound, OwnReport, REPORT_BYTES_MAX, ReportKind, RtcpPacket};

pub(crate) fn run(data: &[u8]) {
    let Ok(compound) = Compound::parse(data) else { return };
    let mut words = 0;
    let mut about = None;
    for packet in compound.packets() {
        words += 1;
        match packet {
            RtcpPacket::SenderReport { ssrc, info, blocks } => {
                assert!(blocks.iter().count() <= 31);
                about = Some((ssrc, Some(info), blocks.iter().next()));
            }
            RtcpPacket::ReceiverReport { ssrc, blocks } => {
                assert!(blocks.iter().count() <= 31);
                about = Some((ssrc, None, blocks.iter().next()));
            }
            RtcpPacket::SourceDescription { cname, .. } => {
                assert!(cname.is_none_or(|cname| cname.len() <= 255))
            }
            RtcpPacket::Goodbye(sources) => assert!(sources.iter().count() <= 31),
            RtcpPacket::Other(_) => {}
        }
    }
    assert!(words >= 1 && words * 4 <= data.len(), "every packet has a header");
    let Some((ssrc, sent, reception)) = about else { return };
    let cname = core::str::from_utf8(data).unwrap_or("name");
    let report = OwnReport { ssrc, sent, reception, cname, kind: ReportKind::Bye };
    let mut room = [0; REPORT_BYTES_MAX];
    let len = report.write(&mut room);
    let again = Compound::parse(&room[..len]);
    let first = again.map(|compound| compound.packets().next());
    match first {
        Ok(Some(RtcpPacket::SenderReport { ssrc: of, info, blocks })) => {
            assert_eq!((of, Some(info), blocks.iter().next()), (ssrc, sent, reception));
        }
        Ok(Some(RtcpPacket::ReceiverReport { ssrc: of, blocks })) => {
            assert_eq!((of, None, blocks.iter().next()), (ssrc, sent, reception));
        }
        other => panic!("our own report: {other:?}"),
    }
}
