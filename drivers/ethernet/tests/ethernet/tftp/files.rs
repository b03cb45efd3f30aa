//! Files of every size, from servers that follow the RFCs.

use super::network::{Network, SERVER, START};
use super::{failure, fetch, file, serving};
use ringway_ethernet::{Download, DownloadFailure, DownloadLimits, DownloadOutput};
use ringway_test_support::tftp::{Options, TftpServer};
use std::time::Duration;

#[test]
fn files_of_every_size_around_a_block_arrive_whole() {
    for blocks in [0, 1, 2, 3] {
        for bytes in [-2, -1, 0, 1, 2] {
            let Some(bytes) = (1428 * blocks as usize).checked_add_signed(bytes) else { continue };
            let (network, result) = fetch(serving(file(bytes)));
            assert_eq!(result, Ok(file(bytes)), "{bytes}");
            assert_eq!(network.server.sent_of(3), bytes / 1428 + 1, "a short block ends {bytes} bytes");
            assert!(network.server.transfers[0].is_complete);
            assert!(network.server.received_errors().is_empty());
        }
    }
}

#[test]
fn a_server_without_options_sends_blocks_of_512_bytes() {
    for bytes in [0, 1, 511, 512, 513, 5_000] {
        let server = TftpServer { options: Options::Ignored, ..serving(file(bytes)) };
        let (network, result) = fetch(server);
        assert_eq!(result, Ok(file(bytes)));
        assert_eq!(network.server.sent_of(3), bytes / 512 + 1);
    }
}

#[test]
fn a_server_that_refuses_options_gets_a_plain_request() {
    for code in [8, 4] {
        let server = TftpServer { options: Options::Refused(code), ..serving(file(2_000)) };
        let (network, result) = fetch(server);
        assert_eq!(result, Ok(file(2_000)));
        let requests: Vec<_> = network.server.received.iter().filter(|packet| packet[1] == 1).collect();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[1], b"\0\x01users.csv\0octet\0");
    }
}

#[test]
fn a_smaller_block_size_is_accepted_and_numbers_wrap_after_65535() {
    let limits = DownloadLimits::default();
    let bytes = 8 * 70_000 + 3;
    let server = TftpServer { block_bytes_max: 8, ..serving(file(bytes)) };
    let mut network = Network::new(server, limits);
    assert!(network.run() == Ok(file(bytes)), "the file is another one");
    assert_eq!(network.server.sent_of(3), 70_001);
    assert!(network.server.sent.iter().any(|packet| packet[..4] == [0, 3, 0, 0]), "block 0 after 65,535");
}

#[test]
fn the_largest_file_is_accepted_and_one_byte_more_is_not() {
    let limits = DownloadLimits { file_bytes_max: 10_000, ..DownloadLimits::default() };
    for options in [Options::Understood, Options::Ignored] {
        for (bytes, is_taken) in [(9_999, true), (10_000, true), (10_001, false), (20_000, false)] {
            let server = TftpServer { options, ..serving(file(bytes)) };
            let mut network = Network::new(server, limits);
            let result = network.run();
            if is_taken {
                assert_eq!(result, Ok(file(bytes)));
                continue;
            }
            let reported = (options == Options::Understood).then_some(bytes as u64);
            let too_large = DownloadFailure::TooLarge { bytes: reported, bytes_max: 10_000 };
            assert_eq!(result, Err(too_large));
            assert_eq!(network.server.received_errors()[0].0, 3, "the server gets the error 'disk full'");
            if options == Options::Understood {
                assert_eq!(network.server.sent_of(3), 0, "not a byte of it was sent");
            }
        }
    }
}

#[test]
fn the_default_limit_is_four_mebibytes() {
    let (_, result) = fetch(serving(file(4 << 20)));
    assert!(result == Ok(file(4 << 20)), "4 MiB are accepted");
    let failure = failure(serving(file((4 << 20) + 1)));
    assert_eq!(failure.to_string(), "it has 4194305 bytes, and the limit is 4194304; make it smaller");
}

#[test]
fn the_progress_is_readable() {
    let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
    let mut seen = Vec::new();
    while network.step() {
        seen.push(network.download.received());
    }
    seen.dedup();
    let of_all = |received| (received, Some(5_000));
    assert_eq!(seen, [(0, None), of_all(0), of_all(1428), of_all(2856), of_all(4284), (0, None)]);
}

#[test]
fn timers_run_when_due_and_invalid_names_are_refused() {
    let limits = DownloadLimits::default();
    let mut download = Download::new(SERVER, "users.csv", limits, START).unwrap();
    let mut out = DownloadOutput::default();
    assert_eq!(download.next_deadline().unwrap().at, START, "the request is due at once");
    download.on_timeout(START, &mut out);
    assert_eq!(out.datagram().unwrap().0, SERVER);
    download.on_timeout(START + Duration::from_millis(999), &mut out);
    assert_eq!(out.datagram(), None);
    for name in ["", "a\0b", "a\nb", &"x".repeat(256)] {
        let error = Download::new(SERVER, name, limits, START).unwrap_err();
        assert_eq!(error.failure, DownloadFailure::UnusableName, "{name:?}");
        assert!(
            error
                .to_string()
                .starts_with(&format!("{name:?} from the TFTP server 192.0.2.1:69: a file name"))
        );
    }
    assert!(Download::new(SERVER, &"x".repeat(255), limits, START).is_ok());
    assert!(Download::new(SERVER, "ringway/users über.csv", limits, START).is_ok());
}
