//! Servers that refuse, announce wrong values or stop answering.

use super::network::{Network, START, server_port};
use super::{failure, fetch, file, serving};
use ringway_ethernet::{DownloadFailure, DownloadLimits};
use ringway_sansio::Instant;
use ringway_test_support::tftp::{Answer, Options, TftpServer, data};
use std::time::Duration;

fn refusal(code: u16, text: &'static str) -> DownloadFailure {
    failure(TftpServer { answer: Answer::Error(code, text), ..serving(file(10)) })
}

#[test]
fn the_servers_refusal_is_shown_with_its_text_and_advice() {
    let missing = refusal(1, "File not found");
    assert_eq!(missing, DownloadFailure::NotFound { text: "File not found".to_owned() });
    assert_eq!(
        missing.to_string(),
        "there is no such file (\"File not found\"); put it into the server's folder, or correct the name"
    );
    assert_eq!(
        refusal(2, "").to_string(),
        "the server is not permitted to read it; make it readable for the server"
    );
    assert_eq!(
        refusal(0, "disk\x1b[31m\u{e9}").to_string(),
        "the server refuses with error 0 (\"disk?[31m??\"); see the server's log",
        "control characters are replaced"
    );
    let DownloadFailure::Refused { text, .. } = refusal(7, "0123456789".repeat(50).leak()) else {
        panic!("an error is a refusal")
    };
    assert_eq!(text.len(), 100);
}

#[test]
fn a_server_that_refuses_every_request_gets_a_limited_number() {
    let server =
        TftpServer { options: Options::Refused(8), answer: Answer::Error(4, "no"), ..serving(file(10)) };
    let (network, result) = fetch(server);
    assert_eq!(result, Err(DownloadFailure::Refused { code: 4, text: "no".to_owned() }));
    assert_eq!(network.server.received.len(), 1 + 6, "once with options, and then plainly");
}

#[test]
fn late_refusals_of_options_do_not_end_the_plain_request() {
    for code in [8, 4] {
        let server = TftpServer { options: Options::Refused(code), ..serving(file(2_000)) };
        let mut network = Network::new(server, DownloadLimits::default());
        // Request and refusal take longer than the first timeout, and the refusals are duplicated.
        network.faults.duplicated = 1000;
        network.delay = Duration::from_millis(700);
        assert_eq!(network.run(), Ok(file(2_000)));
        assert!(network.server.sent_of(5) >= 4);
    }
}

#[test]
fn an_error_in_the_middle_ends_it() {
    let spoil = |packet: &mut Vec<u8>| {
        if packet[3] == 3 {
            *packet = b"\0\x05\0\0disk on fire\0".to_vec();
        }
    };
    let server = TftpServer { spoil, ..serving(file(10_000)) };
    let (network, result) = fetch(server);
    assert_eq!(result, Err(DownloadFailure::Refused { code: 0, text: "disk on fire".to_owned() }));
    assert!(network.server.received_errors().is_empty(), "an error is not answered");
    let spoil = |packet: &mut Vec<u8>| {
        if packet[3] == 3 {
            *packet = b"\0\x05\0\x05unknown transfer ID\0".to_vec();
        }
    };
    assert_eq!(failure(TftpServer { spoil, ..serving(file(10_000)) }), DownloadFailure::UnknownTransfer);
}

#[test]
fn a_wrong_announced_size_is_detected() {
    let lie = |size: &str| {
        let server = TftpServer { announced_size: Some(size.to_owned()), ..serving(file(3_000)) };
        let (network, result) = fetch(server);
        (result.unwrap_err(), network.server.received_errors())
    };
    let (failure, errors) = lie("2999");
    assert_eq!(failure, DownloadFailure::WrongSize { announced: 2_999, received: 3_000 });
    assert_eq!(errors, [(0, "size differs from tsize".to_owned())]);
    assert_eq!(lie("3001").0, DownloadFailure::WrongSize { announced: 3_001, received: 3_000 });
    assert_eq!(lie("0").0, DownloadFailure::WrongSize { announced: 0, received: 1_428 });
    let huge = DownloadFailure::TooLarge { bytes: Some(u64::MAX), bytes_max: 4 << 20 };
    assert_eq!(lie("18446744073709551615").0, huge);
    for no_number in ["", "-1", "+3000", "3000 ", "0x10", "18446744073709551616", "3\u{663}"] {
        let (failure, errors) = lie(no_number);
        assert!(matches!(failure, DownloadFailure::WrongOption { .. }), "{no_number:?}: {failure}");
        assert_eq!(errors[0].0, 8);
    }
}

#[test]
fn options_that_were_not_requested_are_refused() {
    let with = |name, value| {
        let server = TftpServer { option_added: Some((name, value)), ..serving(file(10)) };
        let (network, result) = fetch(server);
        assert_eq!(network.server.received_errors(), [(8, "option was not requested".to_owned())]);
        result.unwrap_err().to_string()
    };
    let fault = "which was not requested; this is a defect of the server; use another one";
    assert_eq!(with("timeout", "3"), format!("the server accepted \"timeout 3\", {fault}"));
    assert_eq!(with("windowsize", "16"), format!("the server accepted \"windowsize 16\", {fault}"));
    assert_eq!(with("", ""), format!("the server accepted \" \", {fault}"));
    // A repeated option is invalid, regardless of case.
    assert_eq!(with("blksize", "512"), format!("the server accepted \"blksize 512\", {fault}"));
    assert_eq!(with("TSIZE", "10"), format!("the server accepted \"TSIZE 10\", {fault}"));
}

#[test]
fn a_block_size_is_at_most_the_requested_one() {
    for (value, is_good) in
        [("1428", true), ("8", true), ("1429", false), ("7", false), ("0", false), ("x", false)]
    {
        let mut network = Network::new(serving(file(10)), DownloadLimits::default());
        network.step();
        let answer = network.inject(server_port(50_000), format!("\0\u{6}blksize\0{value}\0").as_bytes());
        let (_, answer) = answer.unwrap();
        assert_eq!(answer.starts_with(b"\0\x04\0\0"), is_good, "{value}: {answer:?}");
        assert_eq!(answer.starts_with(b"\0\x05\0\x08"), !is_good, "{value}: {answer:?}");
        assert_eq!(network.result().is_some(), !is_good, "{value}");
    }
}

#[test]
fn too_long_blocks_and_blocks_out_of_sequence_fail_the_download() {
    let spoil = |packet: &mut Vec<u8>| packet.push(0);
    let too_long = failure(TftpServer { spoil, ..serving(file(10_000)) });
    assert_eq!(too_long, DownloadFailure::BlockTooLong { bytes: 1_429, agreed: 1_428 });
    let server = TftpServer { spoil, options: Options::Ignored, ..serving(file(10_000)) };
    assert_eq!(failure(server), DownloadFailure::BlockTooLong { bytes: 513, agreed: 512 });
    let spoil = |packet: &mut Vec<u8>| packet[3] += u8::from(packet[3] > 2);
    let (network, result) = fetch(TftpServer { spoil, ..serving(file(10_000)) });
    assert_eq!(result, Err(DownloadFailure::WrongBlock { expected: 3, found: 4 }));
    assert_eq!(network.server.received_errors(), [(4, "unexpected block number".to_owned())]);
}

#[test]
fn a_missing_server_gets_six_requests_at_growing_intervals() {
    let mut network = Network::new(serving(file(10)), DownloadLimits::default());
    network.faults.lost = 1000;
    let failure = network.run().unwrap_err();
    assert_eq!(failure, DownloadFailure::NoAnswer { tries: 6 });
    assert_eq!(
        failure.to_string(),
        "no answer to 6 requests; check the address, and that the server runs and is not behind a firewall"
    );
    let times: Vec<_> = network.sent.iter().map(|(at, ..)| at.since(START).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 23]);
    assert_eq!(network.now.since(START).as_secs(), 31);
    assert!(network.sent.iter().all(|(_, _, packet)| *packet == network.sent[0].2));
}

#[test]
fn a_server_that_stops_gets_repeated_acknowledgements_and_an_error() {
    let (network, result) =
        fetch(TftpServer { answer: Answer::FallsSilentAfter(2), ..serving(file(10_000)) });
    assert_eq!(result, Err(DownloadFailure::Silent { received: 2 * 1_428, tries: 6 }));
    let (_, _, last) = network.sent.last().unwrap();
    assert_eq!(last, b"\0\x05\0\0transfer aborted by the receiver\0");
    let reminders: Vec<_> = network.sent.iter().filter(|(_, _, packet)| packet == b"\0\x04\0\x02").collect();
    let first = reminders[0].0;
    let times: Vec<_> = reminders.iter().map(|(at, ..)| at.since(first).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 23]);
}

#[test]
fn a_slow_server_is_given_up_after_the_time_limit() {
    let limits = DownloadLimits::default();
    let mut network = Network::new(serving(Vec::new()), limits);
    network.step();
    network.inject(server_port(50_000), b"\0\x06blksize\x008\0");
    let mut block = 0;
    let failure = loop {
        block += 1;
        network.now = network.now + Duration::from_secs(7);
        network.inject(server_port(50_000), &data(block, b"12345678"));
        let mut out = ringway_ethernet::DownloadOutput::default();
        let progress = network.download.on_timeout(network.now, &mut out);
        if let ringway_ethernet::DownloadProgress::Failed(error) = progress {
            break error.failure;
        }
        assert!(network.now < Instant::from_secs(10_000), "it is never given up");
    };
    assert_eq!(failure, DownloadFailure::TooSlow { received: 129 * 8, duration_max: limits.duration_max });
    assert_eq!(network.download.next_deadline(), None);
}
