//! Tested: both formats, byte orders and resolutions; link types, tags, extension headers; what is not played, with its count; limits;
//! files that are cut off or changed anywhere.

use super::*;

/// A UDP packet without the link's header.
pub(crate) fn ip(version: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let udp = [&[0x10, 0x00][..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat();
    match version {
        4 => {
            let total = (20 + length).to_be_bytes();
            let header =
                [&[0x45, 0][..], &total, &[0, 1, 0x40, 0, 64, 17, 0, 0], &[127, 0, 0, 1, 127, 0, 0, 2]];
            [&header.concat()[..], &udp].concat()
        }
        _ => {
            let header = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[17, 64], &[0; 32]].concat();
            [&header[..], &udp].concat()
        }
    }
}

fn ethernet(tags: &[u8], packet: &[u8]) -> Vec<u8> {
    let kind: &[u8] = if packet[0] >> 4 == 4 { &[8, 0] } else { &[0x86, 0xdd] };
    [&[2; 12][..], tags, kind, packet].concat()
}

/// Byte order of a file.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Big,
    Little,
}

impl Order {
    fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }

    fn u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Big => value.to_be_bytes(),
            Self::Little => value.to_le_bytes(),
        }
    }
}

/// A pcap file; the frames have milliseconds after a time.
pub(crate) fn pcap(order: Order, is_nano: bool, link: u32, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let magic = if is_nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let header = [magic, 0x0004_0002, 0, 0, 65_535, link].map(|value| order.u32(value)).concat();
    let record = |(ms, bytes): &(u32, Vec<u8>)| {
        let (seconds, ms) = (1_700_000_000 + (900 + ms) / 1000, (900 + ms) % 1000);
        let fraction = ms * if is_nano { 1_000_000 } else { 1000 };
        let length = u32::try_from(bytes.len()).unwrap();
        let header = [seconds, fraction, length, length].map(|value| order.u32(value)).concat();
        [header, bytes.clone()].concat()
    };
    [header, frames.iter().flat_map(record).collect()].concat()
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let body = [body, &vec![0; (4 - body.len() % 4) % 4]].concat();
    let length = order.u32(u32::try_from(12 + body.len()).unwrap());
    [&order.u32(kind)[..], &length, &body, &length].concat()
}

/// A pcapng file with one interface, whose times have this resolution.
fn pcapng(order: Order, resolution: Option<u8>, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let section = [&order.u32(0x1a2b_3c4d)[..], &[0; 4], &[0xff; 8]].concat();
    let options = match resolution {
        Some(value) => [&order.u16(9)[..], &order.u16(1), &[value, 0, 0, 0], &[0; 4]].concat(),
        None => Vec::new(),
    };
    let interface = [&order.u16(1)[..], &[0; 6], &options].concat();
    let mut file = [block(order, 0x0a0d_0d0a, &section), block(order, 1, &interface)].concat();
    // Statistics of an interface.
    file.extend(block(order, 5, &[0; 12]));
    for (time, bytes) in frames {
        let length = u32::try_from(bytes.len()).unwrap();
        let values = [0, (time >> 32) as u32, *time as u32, length, length];
        let body = [&values.map(|value| order.u32(value)).concat()[..], bytes].concat();
        file.extend(block(order, 6, &body));
    }
    file
}

/// Packets in their order.
fn packets(capture: &Capture) -> impl Iterator<Item = (Duration, u16, &[u8])> {
    (0..capture.recording.len()).map(|index| capture.recording.packet(index).unwrap())
}

/// Milliseconds, offsets of ports and payloads of a file.
fn played(file: &[u8]) -> Vec<(u128, u16, Vec<u8>)> {
    let capture = parse(file).unwrap();
    assert_eq!(capture.note(), None);
    packets(&capture).map(|(at, offset, bytes)| (at.as_millis(), offset, bytes.to_vec())).collect()
}

fn two() -> [(u32, Vec<u8>); 2] {
    [(0, ethernet(&[], &ip(4, 4000, b"one"))), (1020, ethernet(&[], &ip(6, 4001, b"two")))]
}

#[test]
fn both_formats_are_read_in_both_byte_orders_and_with_their_resolutions() {
    let expected = [(0, 0, b"one".to_vec()), (1020, 1, b"two".to_vec())];
    for order in [Order::Big, Order::Little] {
        for is_nano in [false, true] {
            // A frame check sequence of 4 bytes is noted above the link type.
            assert_eq!(played(&pcap(order, is_nano, 0x4400_0001, &two())), expected);
        }
        for (resolution, units) in
            [(None, 1_000_000), (Some(3), 1000), (Some(9), 1_000_000_000), (Some(0x80 | 10), 1024)]
        {
            let time = |ms: u32| 1_700_000_000 * units + u64::from(ms) * units / 1000;
            let frames = two().map(|(ms, bytes)| (time(ms), bytes));
            let found = played(&pcapng(order, resolution, &frames));
            assert_eq!(found.len(), 2);
            assert!(found[1].0.abs_diff(1020) <= 1 && found[1].2 == b"two", "{resolution:?}: {found:?}");
        }
    }
    // Two files behind each other, as sections; the second in another byte order.
    let frames = two().map(|(ms, bytes)| (u64::from(ms) * 1000, bytes));
    let sections = [pcapng(Order::Little, None, &frames), pcapng(Order::Big, None, &frames)].concat();
    assert_eq!(played(&sections).len(), 4);
}

#[test]
fn packets_are_found_behind_each_link_header() {
    let (v4, v6) = (ip(4, 9, b"x"), ip(6, 9, b"x"));
    let cooked = |kind: &[u8], packet: &[u8]| [&[0; 14][..], kind, packet].concat();
    let cooked_2 = |kind: &[u8], packet: &[u8]| [kind, &[0; 18][..], packet].concat();
    // Hop-by-hop options of 8 bytes, and destination options of 16.
    let mut extended = v6.clone();
    extended[6] = 0;
    extended[5] += 24;
    extended.splice(40..40, [[60, 0, 0, 0, 0, 0, 0, 0], [17, 1, 0, 0, 0, 0, 0, 0], [0; 8]].concat());
    let long_header = {
        let mut packet = v4.clone();
        (packet[0], packet[3]) = (0x46, packet[3] + 4);
        packet.splice(20..20, [1, 1, 1, 1]);
        packet
    };
    // Ethernet fills short frames with bytes that are not of the packet.
    let filled = [&ethernet(&[], &v4)[..], &[0; 18]].concat();
    for (link, frame) in [
        (1, ethernet(&[], &v4)),
        (1, filled),
        (1, ethernet(&[0x81, 0, 0, 7], &v6)),
        (1, ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8], &v4)),
        (1, ethernet(&[], &extended)),
        (1, ethernet(&[], &long_header)),
        (0, [&[2, 0, 0, 0][..], &v4].concat()),
        (0, [&[0, 0, 0, 30][..], &v6].concat()),
        (108, [&[0, 0, 0, 2][..], &v4].concat()),
        (12, v4.clone()),
        (101, v6.clone()),
        (228, v4.clone()),
        (229, v6.clone()),
        (113, cooked(&[8, 0], &v4)),
        (113, cooked(&[0x86, 0xdd], &v6)),
        (276, cooked_2(&[8, 0], &v4)),
        (276, cooked_2(&[0x86, 0xdd], &v6)),
    ] {
        let found = played(&pcap(Order::Little, false, link, &[(0, frame.clone())]));
        assert_eq!(found, [(0, 0, b"x".to_vec())], "{link}: {frame:?}");
    }
    let unknown = pcap(Order::Little, false, 105, &[(0, v4)]);
    assert!(parse(&unknown).unwrap_err().to_string().starts_with("link type 105 is not supported"));
}

#[test]
fn what_is_not_played_is_counted() {
    let good = ip(4, 4000, b"good");
    let changed = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        packet
    };
    let fragment_6 = {
        let mut packet = ip(6, 4000, b"x");
        packet[6] = 44;
        packet
    };
    let frames = [
        good.clone(),
        changed(9, 6),
        changed(6, 0x20),
        changed(7, 0x10),
        fragment_6,
        changed(0, 0x55),
        ip(4, 4000, b""),
        ip(4, 4000, &[7; 1501]),
        Vec::new(),
        good.clone(),
    ];
    let frames: Vec<(u32, Vec<u8>)> = frames.into_iter().map(|packet| (0, packet)).collect();
    let mut file = pcap(Order::Big, false, 101, &frames);
    // Only the first bytes of the last packet were recorded.
    let last = file.len() - good.len();
    file.truncate(file.len() - 2);
    let captured = u32::try_from(good.len() - 2).unwrap();
    file[last - 8..last - 4].copy_from_slice(&captured.to_be_bytes());
    let capture = parse(&file).unwrap();
    assert_eq!(capture.recording.len(), 1);
    let note = "packets that are not played: 2 empty or above 1,500 bytes, 3 fragments, 3 not UDP, 1 not recorded whole";
    assert_eq!(capture.note().unwrap(), note);
    // A block without a time.
    let simple = [&4_u32.to_le_bytes()[..], &ethernet(&[], &good)].concat();
    let file = [pcapng(Order::Little, None, &[]), block(Order::Little, 3, &simple)].concat();
    let error = parse(&file).unwrap_err().to_string();
    assert_eq!(error, "no UDP packet that can be played; packets that are not played: 1 without a time");
    assert_eq!(parse(&pcapng(Order::Little, None, &[])).unwrap_err().to_string(), "no packet");
}

#[test]
fn a_file_that_was_broken_off_is_played_as_far_as_it_goes() {
    let frames = two().map(|(ms, bytes)| (u64::from(ms), bytes));
    for file in [pcap(Order::Little, false, 1, &two()), pcapng(Order::Little, None, &frames)] {
        let capture = parse(&file[..file.len() - 1]).unwrap();
        assert_eq!(capture.recording.len(), 1);
        assert_eq!(capture.note().unwrap(), "packets that are not played: 1 cut off by the end of the file");
    }
}

#[test]
fn files_that_are_cut_or_changed_anywhere_do_no_harm() {
    let frames = two().map(|(ms, bytes)| (u64::from(ms), bytes));
    let files = [
        pcap(Order::Little, false, 1, &two()),
        pcap(Order::Big, true, 1, &two()),
        pcapng(Order::Little, Some(9), &frames),
        pcapng(Order::Big, None, &frames),
    ];
    let (mut read, mut refused) = (0, 0);
    let mut count = |result: Result<Capture>| match result {
        Ok(capture) => {
            read += 1;
            // No more than the file has.
            assert!(packets(&capture).map(|(_, _, bytes)| bytes.len()).sum::<usize>() < 200);
        }
        Err(_) => refused += 1,
    };
    for file in &files {
        for length in 0..file.len() {
            count(parse(&file[..length]));
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                count(parse(&changed));
            }
            // Lengths at their limits.
            for value in [[0xff; 4], [0; 4], [0x7f, 0xff, 0xff, 0xff], [0xfc, 0xff, 0xff, 0xff]] {
                let mut changed = file.clone();
                changed.splice(at..(at + 4).min(file.len()), value);
                count(parse(&changed));
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
}

#[test]
fn a_file_has_limits() {
    let packet = ip(4, 4000, b"x");
    let many: Vec<(u32, Vec<u8>)> = (0..=Recording::PACKETS_MAX).map(|_| (0, packet.clone())).collect();
    let error = parse(&pcap(Order::Little, false, 101, &many)).unwrap_err().to_string();
    assert!(error.contains("more than 100000 UDP packets"), "{error}");
    let interfaces = vec![block(Order::Little, 1, &[1, 0, 0, 0, 0, 0, 0, 0]); 256].concat();
    let error = parse(&[pcapng(Order::Little, None, &[]), interfaces].concat()).unwrap_err().to_string();
    assert!(error.contains("more than 256 interfaces"), "{error}");
    let fine = pcapng(Order::Little, Some(20), &[]);
    assert!(parse(&fine).unwrap_err().to_string().contains("too fine"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pcap");
    File::create(&path).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("longer than 64 MiB"));
    assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("longer than 64 MiB"));
    assert!(format!("{:#}", read(folder.path()).unwrap_err()).contains("irectory"));
}
