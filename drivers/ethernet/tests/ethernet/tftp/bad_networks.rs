//! Networks that lose, duplicate and delay packets, from seeds.

use super::network::{Faults, Network, server_port};
use super::{file, serving};
use ringway_ethernet::{DownloadFailure, DownloadLimits};
use ringway_sansio::{Rng, Seed};
use ringway_test_support::tftp::{Options, RepeatedAck, TftpServer, data};
use std::time::Duration;

const SEEDS: u64 = 200;

#[test]
fn on_any_network_the_file_is_complete_or_the_server_did_not_answer() {
    let mut finished = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let faults = Faults {
            lost: rng.below(250) as u32,
            duplicated: rng.below(300) as u32,
            late: rng.below(300) as u32,
        };
        let bytes = rng.below(20_000) as usize;
        let options = [Options::Understood, Options::Ignored, Options::Refused(8)][rng.below(3) as usize];
        let server = TftpServer { options, ..serving(file(bytes)) };
        let mut network = Network::new(server, DownloadLimits::default()).with_faults(faults, seed);
        match network.run() {
            Ok(came) => {
                assert!(came == file(bytes), "seed {seed}: another file");
                finished += 1;
            }
            Err(DownloadFailure::NoAnswer { .. } | DownloadFailure::Silent { .. }) => {}
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(finished > SEEDS * 9 / 10, "only {finished} of {SEEDS}");
}

#[test]
fn duplication_and_delay_lose_no_file() {
    for seed in 0..SEEDS {
        let faults = Faults { lost: 0, duplicated: 500, late: 100 };
        let server = serving(file(8_000));
        let mut network = Network::new(server, DownloadLimits::default()).with_faults(faults, seed);
        assert!(network.run() == Ok(file(8_000)), "seed {seed}");
    }
}

#[test]
fn a_lost_acknowledgement_is_repeated_for_a_retransmitted_block() {
    for lost in 0..=2_u16 {
        let mut network = Network::new(serving(file(1_500)), DownloadLimits::default());
        let ack = [[0, 4].as_slice(), &lost.to_be_bytes()].concat();
        let is_sent = |network: &Network| network.sent.last().is_some_and(|(_, _, packet)| *packet == ack);
        while !is_sent(&network) {
            assert!(network.step());
        }
        network.drop_packets_in_flight();
        let result = network.run();
        assert_eq!(result, Ok(file(1_500)));
        assert!(network.server.transfers[0].is_complete, "ACK {lost}");
    }
}

#[test]
fn a_duplicate_block_counts_once_and_an_old_one_is_ignored() {
    let mut network = Network::new(serving(Vec::new()), DownloadLimits::default());
    network.step();
    let from = server_port(50_000);
    let at = |network: &mut Network, packet: Vec<u8>| {
        network.now = network.now + Duration::from_millis(500);
        network.inject(from, &packet).map(|(_, answer)| answer)
    };
    let block = |number: u16| data(number, &[number as u8; 8]);
    assert_eq!(at(&mut network, b"\0\x06blksize\x008\0".to_vec()).unwrap(), [0, 4, 0, 0]);
    assert_eq!(
        at(&mut network, b"\0\x06blksize\x008\0".to_vec()).unwrap(),
        [0, 4, 0, 0],
        "options come again"
    );
    for number in 1..=4 {
        assert_eq!(at(&mut network, block(number)).unwrap(), [0, 4, 0, number as u8]);
        assert_eq!(at(&mut network, block(number)).unwrap(), [0, 4, 0, number as u8]);
        assert_eq!(at(&mut network, block(number - 1)), None);
        assert_eq!(at(&mut network, b"\0\x06blksize\x008\0".to_vec()), None);
        assert_eq!(network.download.received().0, 8 * usize::from(number));
    }
    assert_eq!(at(&mut network, data(5, b"end")).unwrap(), [0, 4, 0, 5]);
    let whole = [[1; 8], [2; 8], [3; 8], [4; 8]].concat();
    assert_eq!(network.result(), Some(Ok([whole.as_slice(), b"end"].concat())));
}

#[test]
fn duplicate_blocks_do_not_delay_the_retransmission() {
    let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
    while network.download.received().0 == 0 {
        assert!(network.step());
    }
    let due = network.download.next_deadline().unwrap();
    network.now = network.now + Duration::from_millis(400);
    assert!(network.inject(server_port(50_000), &data(1, &file(1_428))).is_some());
    assert_eq!(network.download.next_deadline(), Some(due));
}

#[test]
fn a_simple_server_does_not_become_a_sorcerers_apprentice() {
    let blocks = 200;
    for seed in 0..20 {
        let server = TftpServer { repeated_ack: RepeatedAck::Resends, ..serving(file(1_428 * blocks)) };
        let faults = Faults { lost: 0, duplicated: 20, late: 0 };
        let mut network = Network::new(server, DownloadLimits::default()).with_faults(faults, seed);
        assert!(network.run() == Ok(file(1_428 * blocks)), "seed {seed}");
        // Each duplicated acknowledgement causes one retransmitted block and no more.
        let retransmitted = network.server.sent_of(3) - blocks;
        assert!(retransmitted < 30, "seed {seed}: {retransmitted} retransmitted blocks");
    }
}
