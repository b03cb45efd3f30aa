use super::*;

const FILE: u32 = 0x1234_5678;
const OURS: Format = Format::V2 { file: Some(FILE) };

fn sealed(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut buffer = Vec::new();
    for (key, value) in records {
        assert!(encode(&mut buffer, key, |out| out.extend_from_slice(value)));
    }
    assert_eq!(seal(&mut buffer, FILE, 7), 7 + records.len() as u32);
    buffer
}

#[test]
fn a_record_is_decoded_and_a_part_of_it_is_not() {
    let buffer = sealed(&[(b"alice", b"contact")]);
    let content = Content::Record { key: b"alice", value: b"contact" };
    let expected = Whole { content, length: buffer.len(), position: Some((FILE, 7)) };
    assert_eq!(decode(OURS, &buffer), Step::Whole(expected));
    for cut in 0..buffer.len() {
        assert_eq!(decode(OURS, &buffer[..cut]), Step::Incomplete, "cut at {cut}");
    }
}

#[test]
fn every_flipped_bit_after_the_mark_is_detected_and_an_intact_key_is_read() {
    for (key, value) in [(&b"bob@x"[..], &b"v"[..]), (b"bob@x", b""), (b"bob@x", b"bob@x")] {
        let good = sealed(&[(key, value)]);
        for bit in 32..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let Step::Damaged(lost) = decode(OURS, &bad) else { panic!("bit {bit}") };
            let is_behind_key = bit / 8 >= RECORD_HEADER_BYTES + key.len() || (26..30).contains(&(bit / 8));
            assert_eq!(lost.is_some_and(|lost| lost.is_certain), is_behind_key, "bit {bit}");
            assert!(!is_behind_key || lost.is_some_and(|lost| lost.key == key), "bit {bit}");
        }
    }
}

#[test]
fn a_record_of_another_file_is_invalid() {
    let buffer = sealed(&[(b"alice@x", b"contact")]);
    assert!(matches!(decode(Format::V2 { file: Some(1) }, &buffer), Step::Damaged(_)));
    assert!(matches!(decode(Format::V2 { file: None }, &buffer), Step::Whole(_)));
}

#[test]
fn records_are_numbered_and_control_records_are_not() {
    let mut buffer = Vec::new();
    encode(&mut buffer, b"a", |_| {});
    encode_synced(&mut buffer, 77);
    encode(&mut buffer, b"b", |_| {});
    assert_eq!(seal(&mut buffer, FILE, 0), 2);
    let mut rest = &buffer[..];
    let mut numbers = Vec::new();
    while let Step::Whole(record) = decode(OURS, rest) {
        numbers.extend(record.position.map(|(_, number)| number));
        rest = &rest[record.length..];
    }
    assert_eq!((numbers, rest.len()), (vec![0, 1, 1], 0));
}

#[test]
fn too_long_records_and_empty_keys_are_not_encoded() {
    let mut buffer = Vec::new();
    assert!(!encode(&mut buffer, b"", |_| {}));
    assert!(!encode(&mut buffer, &[b'k'; KEY_BYTES_MAX + 1], |_| {}));
    assert!(!encode(&mut buffer, b"k", |value| value.resize(value.len() + VALUE_BYTES_MAX + 1, 0)));
    assert!(buffer.is_empty());
    assert!(
        encode(&mut buffer, &[b'k'; KEY_BYTES_MAX], |value| value.resize(value.len() + VALUE_BYTES_MAX, 0))
    );
    assert_eq!(buffer.len(), RECORD_BYTES_MAX);
}

#[test]
fn control_records_are_decoded() {
    let mut buffer = Vec::new();
    encode_synced(&mut buffer, 77);
    encode_end(&mut buffer, 5);
    seal(&mut buffer, FILE, 0);
    let Step::Whole(first) = decode(OURS, &buffer) else { panic!("synced") };
    assert_eq!(first.content, Content::Synced);
    let Step::Whole(second) = decode(OURS, &buffer[first.length..]) else { panic!("end") };
    assert_eq!(second.content, Content::End { records: 5 });
}
