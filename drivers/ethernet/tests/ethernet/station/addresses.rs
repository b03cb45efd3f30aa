//! DHCP: leases, refusals, silence.

use crate::station::harness::{Link, OWN, PEER};
use ringway_ethernet::{Change, Lease};
use ringway_test_support::ethernet::dhcp_host::DhcpHost;
use std::net::Ipv4Addr;
use std::time::Duration;

fn run(link: &mut Link, server: &mut DhcpHost, milliseconds: u32) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..milliseconds {
        link.pass(Duration::from_millis(1));
        for frame in link.sent() {
            link.to_station.borrow_mut().extend(server.answer(&frame));
        }
        while let Some(change) = link.station.take_change() {
            if let Change::Leased(lease) = &change {
                link.station.set_lease(Some(lease.clone()));
            }
            changes.push(change);
        }
    }
    changes
}

#[test]
fn a_lease_brings_address_gateway_name_server_and_boot_server() {
    let mut link = Link::bare();
    let mut server = DhcpHost::new(OWN);
    server.dhcp.extra = vec![(66, b"192.0.2.9".to_vec()), (67, b"users.csv\0".to_vec())];
    link.station.start_dhcp();
    let changes = run(&mut link, &mut server, 10);
    let Some(Change::Leased(lease)) = changes.last() else { panic!("{changes:?}") };
    let expected = Lease {
        gateway: Some(PEER),
        name_servers: vec![PEER],
        boot_server: Some(Ipv4Addr::new(192, 0, 2, 9)),
        boot_file: Some("users.csv".to_owned()),
        dhcp_server: Some(PEER),
        duration: Some(Duration::from_secs(600)),
        ..Lease::fixed(OWN, 24, None).unwrap()
    };
    assert_eq!(*lease, expected);
    run(&mut link, &mut server, 310_000);
    assert!(server.dhcp.seen.len() >= 3, "renewed after half of the time: {:?}", server.dhcp.seen);
}

#[test]
fn siaddr_is_used_without_option_66() {
    let mut link = Link::bare();
    let mut server = DhcpHost::new(OWN);
    link.station.start_dhcp();
    let changes = run(&mut link, &mut server, 10);
    let Some(Change::Leased(lease)) = changes.last() else { panic!("{changes:?}") };
    assert_eq!((lease.boot_server, &lease.boot_file), (Some(PEER), &None));
}

#[test]
fn requests_are_repeated_every_second_until_a_server_answers() {
    let mut link = Link::bare();
    link.station.start_dhcp();
    for _ in 0..5 {
        link.pass(Duration::from_secs(1));
    }
    assert!((4..=6).contains(&link.sent().len()));
    let changes = run(&mut link, &mut DhcpHost::new(OWN), 2000);
    assert!(matches!(changes.last(), Some(Change::Leased(_))), "{changes:?}");
}

#[test]
fn a_nak_restarts_the_client() {
    let mut link = Link::bare();
    let mut server = DhcpHost::new(OWN);
    server.dhcp.refuses = true;
    link.station.start_dhcp();
    run(&mut link, &mut server, 10_000);
    let asked = server.dhcp.discovers();
    assert!((10..=50).contains(&asked), "asked {asked} times in 10 s");
    server.dhcp.refuses = false;
    let changes = run(&mut link, &mut server, 3000);
    assert!(matches!(changes.last(), Some(Change::Leased(_))), "{changes:?}");
}

#[test]
fn an_unrequested_nak_does_not_revoke_a_lease() {
    let mut link = Link::bare();
    let mut server = DhcpHost::new(OWN);
    link.station.start_dhcp();
    run(&mut link, &mut server, 10);
    // Every host of the link received the last request and its transaction ID.
    let asked = server.asked.clone();
    let mut hostile = DhcpHost::new(Ipv4Addr::new(192, 0, 2, 255));
    for refuses in [true, false] {
        hostile.dhcp.refuses = refuses;
        link.to_station.borrow_mut().extend(hostile.answer(&asked));
        assert_eq!(run(&mut link, &mut server, 10), []);
    }
    assert_eq!(link.station.counters().frames_foreign, 2);
    run(&mut link, &mut server, 310_000);
    assert_eq!(server.dhcp.seen.len(), 3, "it is renewed all the same: {:?}", server.dhcp.seen);
    server.dhcp.refuses = true;
    let changes = run(&mut link, &mut server, 310_000);
    assert_eq!(changes.first(), Some(&Change::Lost), "a renewal may be refused");
}

#[test]
fn an_unusable_address_is_refused() {
    for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(192, 0, 2, 255)] {
        let mut link = Link::bare();
        link.station.start_dhcp();
        let changes = run(&mut link, &mut DhcpHost::new(address), 50);
        assert!(!changes.iter().any(|change| matches!(change, Change::Leased(_))), "{address}");
    }
}

#[test]
fn a_lease_that_is_not_renewed_is_lost() {
    let mut link = Link::bare();
    link.station.start_dhcp();
    run(&mut link, &mut DhcpHost::new(OWN), 10);
    let mut lost = false;
    for _ in 0..700 {
        link.pass(Duration::from_secs(1));
        lost |= link.station.take_change() == Some(Change::Lost);
    }
    assert!(lost);
}
