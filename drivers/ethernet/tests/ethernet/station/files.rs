//! TFTP through the station's own port. The protocol itself is tested in `tests/tftp/`.

use crate::station::harness::{Link, PEER};
use ringway_ethernet::{Download, DownloadLimits, TFTP_PORT};
use std::net::SocketAddrV4;
use std::time::Duration;

fn download(link: &Link) -> Download {
    let server = SocketAddrV4::new(PEER, TFTP_PORT);
    Download::new(server, "users.csv", DownloadLimits::default(), link.now).unwrap()
}

#[test]
fn a_file_comes_in_blocks() {
    let mut link = Link::new();
    let mut host = link.host();
    let (server, transfer) = (host.udp(TFTP_PORT), host.udp(3000));
    link.station.fetch(download(&link));
    let file: Vec<u8> = (0..2000_u32).map(|place| place as u8).collect();
    let mut blocks = file.chunks(512).enumerate();
    let mut end = None;
    for _ in 0..50 {
        link.talk(&mut host, 1);
        // A server without options answers the request with the first block, and each acknowledgement with the next.
        if let Some((_, from)) = host.received(server).or_else(|| host.received(transfer))
            && let Some((number, block)) = blocks.next()
        {
            let mut data = vec![0, 3, 0, number as u8 + 1];
            data.extend_from_slice(block);
            host.send_to(transfer, &data, from);
        }
        end = end.or_else(|| link.station.take_fetched());
    }
    assert!(end.unwrap().unwrap() == file);
}

#[test]
fn a_missing_server_is_an_error_with_a_message() {
    let mut link = Link::new();
    link.station.fetch(download(&link));
    let mut end = None;
    for _ in 0..60 {
        link.pass(Duration::from_secs(1));
        end = end.or_else(|| link.station.take_fetched());
    }
    let error = end.unwrap().unwrap_err().to_string();
    assert!(error.contains("users.csv") && error.contains("192.0.2.2"), "{error}");
}
