use super::*;
use alloc::vec::Vec;
use ringway_sansio::Seed;

const INFO: SenderInfo = SenderInfo { ntp: 0x0102_0304_0506_0708, timestamp: 9, packets: 10, octets: 11 };
const BLOCK: ReportBlock = ReportBlock {
    ssrc: 0xaabb_ccdd,
    fraction_lost: 64,
    cumulative_lost: -3,
    highest_sequence: 0x0001_ffff,
    jitter: 7,
    last_report: 0x0304_0506,
    delay_since_last_report: 65_536,
};

fn written(report: &OwnReport<'_>) -> Vec<u8> {
    let mut room = [0; REPORT_BYTES_MAX];
    let len = report.write(&mut room);
    room[..len].to_vec()
}

fn full() -> Vec<u8> {
    written(&OwnReport {
        ssrc: 5,
        sent: Some(INFO),
        reception: Some(BLOCK),
        cname: "alice@192.0.2.1",
        kind: ReportKind::Bye,
    })
}

#[test]
fn a_written_report_is_parsed_as_the_same() {
    let bytes = full();
    assert_eq!(bytes.len() % 4, 0);
    let compound = Compound::parse(&bytes).unwrap();
    assert_eq!(compound.ssrc(), 5);
    let packets: Vec<_> = compound.packets().collect();
    let [report, description, goodbye] = packets[..] else { panic!("{packets:?}") };
    let RtcpPacket::SenderReport { ssrc: 5, info, blocks } = report else { panic!("{report:?}") };
    assert_eq!((info, blocks.iter().collect::<Vec<_>>()), (INFO, Vec::from([BLOCK])));
    assert_eq!(description, RtcpPacket::SourceDescription { ssrc: 5, cname: Some(b"alice@192.0.2.1") });
    let RtcpPacket::Goodbye(sources) = goodbye else { panic!("{goodbye:?}") };
    assert_eq!(sources.iter().collect::<Vec<_>>(), [5]);
}

#[test]
fn a_report_without_reception_has_no_block() {
    let report = OwnReport { ssrc: 5, sent: None, reception: None, cname: "", kind: ReportKind::Periodic };
    let bytes = written(&report);
    assert_eq!(bytes, [0x80, 201, 0, 1, 0, 0, 0, 5, 0x81, 202, 0, 2, 0, 0, 0, 5, 1, 0, 0, 0]);
    assert!(Compound::parse(&bytes).is_ok());
}

#[test]
fn every_length_of_name_ends_at_a_word_boundary() {
    let name = "n".repeat(100);
    for len in 0..=100 {
        let report = OwnReport {
            ssrc: 5,
            sent: Some(INFO),
            reception: Some(BLOCK),
            cname: &name[..len],
            kind: ReportKind::Bye,
        };
        let bytes = written(&report);
        let compound = Compound::parse(&bytes).unwrap();
        let cname = compound.packets().find_map(|packet| match packet {
            RtcpPacket::SourceDescription { cname, .. } => cname,
            _ => None,
        });
        assert_eq!(cname.map(<[u8]>::len), Some(len.min(CNAME_BYTES_MAX)));
        assert_eq!(compound.packets().count(), 3);
    }
}

#[test]
fn no_truncated_compound_packet_is_accepted() {
    let bytes = full();
    let ends = [52, 80, 88];
    assert_eq!(bytes.len(), 88);
    for len in 0..bytes.len() {
        // A truncation at the end of a packet is a valid compound packet.
        assert_eq!(Compound::parse(&bytes[..len]).is_ok(), ends.contains(&len), "{len} bytes");
    }
}

#[test]
fn counts_above_the_length_are_rejected() {
    let mut bytes = full();
    bytes[0] = 0x82;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::Length));
    let mut bytes = full();
    bytes[80] = 0x9f;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::Length));
    let mut bytes = full();
    bytes[61] = 200;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::Length), "a CNAME of 200 bytes");
    let mut bytes = full();
    bytes[1] = 202;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::FirstPacket));
    let mut bytes = full();
    bytes[52] = 0x41;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::Version));
}

#[test]
fn only_the_last_packet_may_be_padded() {
    let mut bytes = full();
    bytes[0] |= PADDING;
    assert_eq!(Compound::parse(&bytes), Err(RtcpError::Padding));
    for (count, fits) in [(4, true), (8, false), (3, false), (0, false), (255, false)] {
        let mut bytes = full();
        bytes[80] |= PADDING;
        bytes[83] += 1;
        bytes.extend_from_slice(&[0, 0, 0, count]);
        assert_eq!(Compound::parse(&bytes).is_ok(), fits, "{count} bytes of padding");
    }
}

#[test]
fn reports_are_sent_every_five_seconds_randomised() {
    let mut rng = Rng::new(&Seed::from_number(1));
    let mut now = Instant::from_secs(100);
    let mut schedule = ReportSchedule::new(now, &mut rng);
    let first = schedule.due().since(now).as_secs_f64();
    assert!((1.02..=3.08).contains(&first), "{first}");
    let (mut sum, mut shortest, mut longest) = (0.0, f64::MAX, 0.0_f64);
    for _ in 0..2000 {
        schedule.on_sent(now, &mut rng);
        let interval = schedule.due().since(now).as_secs_f64();
        sum += interval;
        shortest = shortest.min(interval);
        longest = longest.max(interval);
        now = schedule.due();
    }
    assert!((2.05..2.2).contains(&shortest) && (6.0..6.16).contains(&longest), "{shortest} {longest}");
    assert!((sum / 2000.0 - 5.0 / 1.21828).abs() < 0.1, "{}", sum / 2000.0);
}

/// RFC 3550 §6.4.1, figure 2: 10 Nov 1995 11:33:25.125 UTC is 0xb44db705.20000000.
#[test]
fn time_is_written_as_in_the_rfc() {
    let now = Instant::from_nanos(816_003_205_125_000_000);
    assert_eq!(ntp_time(now), 0xb44d_b705_2000_0000);
    assert_eq!(ntp_middle(ntp_time(now)), 0xb705_2000);
}
