//! Scenario files that play recorded RTP, in the built program.
//!
//! Tested: a file is played to the called side, which counts its packets by their sequence numbers, with and without streams of its own; files
//! that cannot be played. Not tested here: the times of the packets, which are tested on virtual time in `proto/load`; formats of files
//! (`apps/lab/src/capture`).

use crate::lab::{load, serve};
use crate::program::Running;
use serde_json::Value;
use std::fs;

/// A pcap file with RTP of these sequence numbers, 20 ms apart.
fn rtp(sequences: &[u8]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 101_u32].map(u32::to_be_bytes).concat();
    for (number, sequence) in (0_u32..).zip(sequences) {
        let stamp = (number * 160).to_be_bytes();
        let packet = [&[0x80, 0, 0, *sequence][..], &stamp, &[0, 0, 0, 7], &[0xd5; 160]].concat();
        let length = u8::try_from(28 + packet.len()).unwrap();
        let ip = [0x45, 0, 0, length, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let udp = [0x10, 0, 0x20, 0, 0, length - 20, 0, 0];
        let lengths = [u32::from(length); 2];
        file.extend([[0, number * 20_000], lengths].concat().into_iter().flat_map(u32::to_be_bytes));
        file.extend([&ip[..], &udp, &packet].concat());
    }
    file
}

#[test]
fn a_recording_is_played_to_the_called_side_which_counts_its_packets() {
    let (folder, _server, address) = serve();
    let written =
        |args: &[&str]| Running::start(folder.path(), &[&["lab", "scenario"], args].concat(), "").done().ok();
    let caller = written(&["call", "--digest", "--talk", "400ms"]);
    let play = "<nop><action><exec play_pcap_audio=\"gap.pcap\"/></action></nop>\n  <pause";
    fs::write(folder.path().join("call.xml"), caller.replacen("<pause", play, 1)).unwrap();
    fs::write(folder.path().join("answer.xml"), written(&["call", "--callee", "--ring", "10ms"])).unwrap();
    // The number 104 is missing.
    let sequences: Vec<u8> = (100..110).filter(|number| *number != 104).collect();
    fs::write(folder.path().join("gap.pcap"), rtp(&sequences)).unwrap();
    let line = |number: usize| {
        format!("u{number};[authentication username=u{number} password=secret{number}];u{}\n", 19 - number)
    };
    fs::write(
        folder.path().join("users.csv"),
        format!("SEQUENTIAL\n{}", (0..20).map(line).collect::<String>()),
    )
    .unwrap();
    let files =
        ["--scenario-file", "call.xml", "--callee-file", "answer.xml", "--rate", "1", "--seconds", "1"];
    let media = |more: &[&str]| {
        let (records, _) = load(&folder, &address, &[&files[..], more].concat());
        let result = records.last().unwrap();
        assert_eq!(result["outcomes"]["success"], Value::from(1), "{result}");
        result["media"].clone()
    };
    let count = |media: &Value, name: &str| media[name].as_u64().unwrap();
    // The called side has streams: it sends its own, and finds the gap of the recorded one.
    let with_streams = media(&["--media", "rtp"]);
    let of = |name: &str| count(&with_streams, name);
    assert_eq!((of("recordings_played"), of("streams"), of("silent_streams")), (1, 2, 0), "{with_streams}");
    assert_eq!(of("packets_lost"), 1, "{with_streams}");
    assert_eq!(of("packets_received") + of("stray"), of("packets_sent"), "{with_streams}");
    assert!(of("packets_sent") > 9, "{with_streams}");
    // Without streams nothing else is sent, and what arrives is of no stream.
    let without = media(&[]);
    let of = |name: &str| count(&without, name);
    assert_eq!((of("recordings_played"), of("streams")), (1, 0), "{without}");
    assert_eq!((of("packets_sent"), of("stray")), (9, 9), "{without}");

    let refused = |more: &[&str], status: i32| {
        let args = [&["lab", "load", &address, "--users-file", "users.csv"], &files[..], more].concat();
        Running::start(folder.path(), &args, "").done().refused(status)
    };
    assert!(refused(&["--media", "srtp"], 2).contains("give --media rtp or none"));
    fs::write(folder.path().join("gap.pcap"), "no capture").unwrap();
    let error = refused(&[], 2);
    assert!(error.contains("call.xml:") && error.contains("gap.pcap: not a pcap or pcapng file"), "{error}");
}
