//! Behaviour at the limit of open files. The test runs in a process of its own, because the limit is per process.

use crate::node::{PATIENCE, address, client, receive, start};
use ringway_linux::Config;
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::run_alone;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

#[test]
fn without_file_descriptors_only_connections_are_refused() {
    run_alone("files::at_the_limit_only_connections_are_refused");
}

#[test]
#[ignore = "run by the test above"]
fn at_the_limit_only_connections_are_refused() {
    let runtime = start(&["tcp:127.0.0.1:0", "udp:127.0.0.1:0"], 1, 1, Config::default());
    let mut old = TcpStream::connect(address(&runtime, 0)).unwrap();
    old.set_read_timeout(Some(PATIENCE)).unwrap();
    let datagrams = client(address(&runtime, 1));
    wait_until("it is accepted", || runtime.counts().connections_accepted == 1);

    // Created before the limit and connected after it: only the server needs file descriptors for them.
    let waiting: Vec<_> = (0..5)
        .map(|_| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap())
        .collect();
    limit_files(100);
    let hoard = open_all_files();
    for socket in &waiting {
        socket.connect(&address(&runtime, 0).into()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    for socket in &waiting {
        let end = (&*socket).read(&mut [0; 1]);
        assert!(matches!(end, Ok(0)) || end.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    }
    assert!(runtime.counts().connections_refused >= 5);
    old.write_all(b"0 echo\n").unwrap();
    let mut answer = [0; 7];
    old.read_exact(&mut answer).unwrap();
    datagrams.send(b"0 echo").unwrap();
    assert_eq!((&answer, receive(&datagrams).as_str()), (b"0 echo\n", "0 echo"));

    drop(hoard);
    let mut new = TcpStream::connect(address(&runtime, 0)).unwrap();
    new.set_read_timeout(Some(PATIENCE)).unwrap();
    new.write_all(b"0 echo\n").unwrap();
    new.read_exact(&mut answer).unwrap();
}

/// Opens files up to the limit.
fn open_all_files() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn limit_files(files: usize) {
    let status = Command::new("prlimit")
        .arg(format!("--pid={}", std::process::id()))
        .arg(format!("--nofile={files}:"))
        .status()
        .expect("prlimit of util-linux");
    assert!(status.success());
}
