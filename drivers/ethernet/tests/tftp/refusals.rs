//! Servers that refuse, lie or fall silent.

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
fn the_servers_refusal_is_told_with_its_own_words_and_what_to_do() {
    let missing = refusal(1, "File not found");
    assert_eq!(missing, DownloadFailure::NotFound { said: "File not found".to_owned() });
    assert_eq!(
        missing.to_string(),
        "there is no such file (\"File not found\"); put it into the server's folder, or correct the name"
    );
    assert_eq!(
        refusal(2, "").to_string(),
        "the server may not read it; make it readable for everybody there"
    );
    assert_eq!(
        refusal(0, "disk\x1b[31m\u{e9}").to_string(),
        "the server refuses with error 0 (\"disk?[31m??\"); look into the server's log",
        "nothing that moves a cursor reaches a screen"
    );
    let DownloadFailure::Refused { said, .. } = refusal(7, "0123456789".repeat(50).leak()) else {
        panic!("an error is a refusal")
    };
    assert_eq!(said.len(), 100);
}

#[test]
fn a_server_that_refuses_options_and_the_file_is_not_asked_for_ever() {
    let server =
        TftpServer { options: Options::Refused(8), answer: Answer::Error(4, "no"), ..serving(file(10)) };
    let (network, result) = fetch(server);
    assert_eq!(result, Err(DownloadFailure::Refused { code: 4, said: "no".to_owned() }));
    assert_eq!(network.server.heard.len(), 1 + 6, "once with options, and then plainly");
}

#[test]
fn refusals_of_options_that_come_late_do_not_end_what_is_asked_for_plainly() {
    for code in [8, 4] {
        let server = TftpServer { options: Options::Refused(code), ..serving(file(2_000)) };
        let mut network = Network::new(server, DownloadLimits::default());
        // Request and refusal take longer than the first wait, and the refusals come twice.
        network.faults.doubled = 1000;
        network.way = Duration::from_millis(700);
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
    assert_eq!(result, Err(DownloadFailure::Refused { code: 0, said: "disk on fire".to_owned() }));
    assert!(network.server.errors_heard().is_empty(), "an error is not answered");
    let spoil = |packet: &mut Vec<u8>| {
        if packet[3] == 3 {
            *packet = b"\0\x05\0\x05unknown transfer ID\0".to_vec();
        }
    };
    assert_eq!(failure(TftpServer { spoil, ..serving(file(10_000)) }), DownloadFailure::UnknownTransfer);
}

#[test]
fn a_size_that_is_not_true_is_found_out() {
    let lie = |size: &str| {
        let server = TftpServer { size_told: Some(size.to_owned()), ..serving(file(3_000)) };
        let (network, result) = fetch(server);
        (result.unwrap_err(), network.server.errors_heard())
    };
    let (failure, errors) = lie("2999");
    assert_eq!(failure, DownloadFailure::WrongSize { told: 2_999, received: 3_000 });
    assert_eq!(errors, [(0, "not as large as tsize said".to_owned())]);
    assert_eq!(lie("3001").0, DownloadFailure::WrongSize { told: 3_001, received: 3_000 });
    assert_eq!(lie("0").0, DownloadFailure::WrongSize { told: 0, received: 1_428 });
    let huge = DownloadFailure::TooLarge { bytes: Some(u64::MAX), bytes_max: 4 << 20 };
    assert_eq!(lie("18446744073709551615").0, huge);
    for no_number in ["", "-1", "+3000", "3000 ", "0x10", "18446744073709551616", "3\u{663}"] {
        let (failure, errors) = lie(no_number);
        assert!(matches!(failure, DownloadFailure::WrongOption { .. }), "{no_number:?}: {failure}");
        assert_eq!(errors[0].0, 8);
    }
}

#[test]
fn options_that_were_not_asked_for_are_refused() {
    let with = |name, value| {
        let server = TftpServer { option_added: Some((name, value)), ..serving(file(10)) };
        let (network, result) = fetch(server);
        assert_eq!(network.server.errors_heard(), [(8, "this option was not asked for".to_owned())]);
        result.unwrap_err().to_string()
    };
    let fault = "which was not asked for; this is a fault of the server, use another one";
    assert_eq!(with("timeout", "3"), format!("the server agrees to \"timeout 3\", {fault}"));
    assert_eq!(with("windowsize", "16"), format!("the server agrees to \"windowsize 16\", {fault}"));
    assert_eq!(with("", ""), format!("the server agrees to \" \", {fault}"));
    // Twice the same option is one too many, whatever its case.
    assert_eq!(with("blksize", "512"), format!("the server agrees to \"blksize 512\", {fault}"));
    assert_eq!(with("TSIZE", "10"), format!("the server agrees to \"TSIZE 10\", {fault}"));
}

#[test]
fn a_block_size_is_at_most_the_one_that_was_asked_for() {
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
fn a_block_longer_than_agreed_and_one_out_of_turn_end_it() {
    let spoil = |packet: &mut Vec<u8>| packet.push(0);
    let too_long = failure(TftpServer { spoil, ..serving(file(10_000)) });
    assert_eq!(too_long, DownloadFailure::BlockTooLong { bytes: 1_429, agreed: 1_428 });
    let server = TftpServer { spoil, options: Options::Ignored, ..serving(file(10_000)) };
    assert_eq!(failure(server), DownloadFailure::BlockTooLong { bytes: 513, agreed: 512 });
    let spoil = |packet: &mut Vec<u8>| packet[3] += u8::from(packet[3] > 2);
    let (network, result) = fetch(TftpServer { spoil, ..serving(file(10_000)) });
    assert_eq!(result, Err(DownloadFailure::WrongBlock { expected: 3, found: 4 }));
    assert_eq!(network.server.errors_heard(), [(4, "it is another block's turn".to_owned())]);
}

#[test]
fn a_server_that_is_not_there_is_asked_six_times_and_less_often_each_time() {
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
fn a_server_that_falls_silent_is_reminded_and_then_told() {
    let (network, result) =
        fetch(TftpServer { answer: Answer::FallsSilentAfter(2), ..serving(file(10_000)) });
    assert_eq!(result, Err(DownloadFailure::Silent { received: 2 * 1_428, tries: 6 }));
    let (_, _, last) = network.sent.last().unwrap();
    assert_eq!(last, b"\0\x05\0\0the receiver gives up\0");
    let reminders: Vec<_> = network.sent.iter().filter(|(_, _, packet)| packet == b"\0\x04\0\x02").collect();
    let first = reminders[0].0;
    let times: Vec<_> = reminders.iter().map(|(at, ..)| at.since(first).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 23]);
}

#[test]
fn a_server_that_sends_a_byte_now_and_then_is_given_up_in_the_end() {
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
