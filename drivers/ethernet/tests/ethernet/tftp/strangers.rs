//! Packets of other senders, and invalid packets.

use super::network::{Network, SERVER, server_port};
use super::{file, serving};
use ringway_ethernet::DownloadLimits;
use ringway_test_support::tftp::data;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

fn stranger() -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 66), 50_000)
}

/// A download that waits for block 3.
fn half_way() -> Network {
    let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
    while network.download.received().0 < 2 * 1_428 {
        assert!(network.step());
    }
    network
}

#[test]
fn other_ports_and_other_hosts_get_error_5_and_change_nothing() {
    let mut network = half_way();
    for from in [stranger(), server_port(50_001), SERVER] {
        for packet in
            [data(3, b"forged"), data(2, b""), b"\0\x06blksize\x008\0".to_vec(), b"\0\x04\0\x02".to_vec()]
        {
            let (to, answer) = network.inject(from, &packet).unwrap();
            assert_eq!(to, from);
            assert!(answer.starts_with(b"\0\x05\0\x05"), "{answer:?}");
        }
        assert_eq!(network.inject(from, b"\0\x05\0\x01File not found\0"), None, "errors are not answered");
    }
    assert_eq!(network.run(), Ok(file(5_000)));
}

#[test]
fn errors_to_other_senders_are_limited() {
    let mut network = half_way();
    let answered = (0..1_000).filter(|_| network.inject(stranger(), &data(1, b"")).is_some()).count();
    assert_eq!(answered, 32);
    assert_eq!(network.inject(SocketAddrV4::new(*stranger().ip(), 0), &data(1, b"")), None);
    assert_eq!(network.run(), Ok(file(5_000)));
}

#[test]
fn only_packets_of_the_server_after_the_request_are_answers() {
    let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
    let forged = data(1, b"forged");
    assert!(
        network.inject(server_port(50_000), &forged).unwrap().1.starts_with(b"\0\x05\0\x05"),
        "no request was sent yet"
    );
    network.step();
    assert!(network.inject(stranger(), &forged).unwrap().1.starts_with(b"\0\x05\0\x05"));
    assert_eq!(network.inject(stranger(), b"\0\x05\0\x01File not found\0"), None);
    // A packet of a transfer from before a restart is not accepted as the first block.
    assert!(network.inject(server_port(49_999), &data(7, b"x")).unwrap().1.starts_with(b"\0\x05\0\x05"));
    assert_eq!(network.run(), Ok(file(5_000)));
}

#[test]
fn a_request_that_was_answered_twice_makes_one_transfer() {
    let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
    network.faults.duplicated = 1000;
    assert_eq!(network.run(), Ok(file(5_000)));
    assert!(
        network.server.received_errors().iter().any(|(code, _)| *code == 5),
        "the second one gets an error"
    );
    assert_eq!(network.server.transfers.len(), 1);
}

#[test]
fn truncated_packets_are_ignored_at_every_length() {
    let whole = [
        data(3, &file(1_428)),
        b"\0\x06blksize\x001428\0tsize\x005000\0".to_vec(),
        b"\0\x05\0\x01File not found\0".to_vec(),
    ];
    // Before the first answer: truncated options are invalid; a truncated block is a short block.
    for packet in &whole[1..2] {
        for length in 3..packet.len() - 1 {
            let mut network = Network::new(serving(file(5_000)), DownloadLimits::default());
            network.step();
            let answer = network.inject(server_port(50_000), &packet[..length]);
            if packet[..length].iter().filter(|byte| **byte == 0).count() % 2 == 0 || packet[length - 1] != 0
            {
                assert_eq!(answer, None, "{length}");
            }
            assert!(network.result().is_none(), "{length}");
        }
    }
    // During the transfer: packets shorter than a header have no effect.
    for packet in &whole {
        for length in 0..4 {
            let mut network = half_way();
            if length == 2 && packet[1] == 6 {
                continue;
            }
            assert_eq!(network.inject(server_port(50_000), &packet[..length]), None, "{length}");
            assert_eq!(network.run(), Ok(file(5_000)));
        }
    }
}

#[test]
fn a_truncated_block_is_a_wrong_size() {
    // UDP's length and checksum prevent this; the announced size detects it too.
    for length in (4..1_432).step_by(17) {
        let mut network = half_way();
        let answer = network.inject(server_port(50_000), &data(3, &file(1_428))[..length]);
        assert!(answer.unwrap().1.starts_with(b"\0\x05\0\0"));
        assert!(network.result().unwrap().is_err());
    }
}

#[test]
fn requests_acknowledgements_and_unknown_codes_of_the_server_have_no_effect() {
    let mut network = half_way();
    let mut packets = vec![b"\0\x01users.csv\0octet\0".to_vec(), b"\0\x02a\0octet\0".to_vec()];
    packets.extend((7..=255).map(|code| vec![0, code, 0, 3, 0]));
    packets.extend([b"\0\x04\0\x02".to_vec(), b"\0\0\0\x03".to_vec(), b"\x01\x03\0\x03".to_vec()]);
    packets.push(b"\0\x06blksize\x008\0".to_vec());
    for packet in packets {
        assert_eq!(network.inject(server_port(50_000), &packet), None, "{packet:?}");
    }
    assert_eq!(network.run(), Ok(file(5_000)));
}

#[test]
fn after_the_end_only_the_last_block_is_acknowledged_again_and_not_for_long() {
    let mut network = Network::new(serving(file(10)), DownloadLimits::default());
    while network.result().is_none() {
        assert!(network.step());
    }
    let end = network.now;
    network.now = end + Duration::from_secs(2);
    let last = data(1, &file(10));
    assert_eq!(
        network.inject(server_port(50_000), &last),
        Some((server_port(50_000), b"\0\x04\0\x01".to_vec()))
    );
    assert_eq!(network.inject(server_port(50_000), &last), None, "they crossed");
    assert_eq!(network.inject(server_port(50_000), &data(2, b"more")), None);
    assert_eq!(network.inject(server_port(50_000), b"\0\x05\0\0too late\0"), None);
    assert!(network.inject(stranger(), &last).is_some());
    let deadline = network.download.next_deadline().unwrap();
    assert_eq!(deadline.at, end + Duration::from_secs(5));
    while network.step() {}
    assert_eq!(network.inject(server_port(50_000), &last), None);
    assert!(network.result().is_none(), "there is one result");
}
