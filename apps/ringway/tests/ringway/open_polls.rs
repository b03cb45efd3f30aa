//! Ten thousand open polls and slow clients of the admin API, while the built server serves SIP.
//!
//! Tested: open connections and memory of the server stay bounded, displaced ones are counted, SIP requests are answered in time,
//! the admin API answers afterwards, and every connection ends.

use crate::admin_api::stats;
use crate::program::Running;
use ringway_test_support::eventually::holds;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CONFIGURATION: &str = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\nworkers = 1\n[auth]\nenabled = false\n\
                             [limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n";

const CLIENTS: usize = 10_000;
const THREADS: usize = 16;
/// Time between two connections. Faster ones only fill the queue of the listener, and are sent again after seconds.
const PACE: Duration = Duration::from_micros(1200);
/// Time of one attempt to connect.
const CONNECT_MAX: Duration = Duration::from_millis(300);
/// The server's limit of admin connections.
const SERVED_MAX: usize = 128;
/// Files that the server may open beside them, for a moment.
const OTHER_FILES: usize = 16;
const MEMORY_GROWTH_KIB_MAX: usize = 48 << 10;
const MEDIAN_MAX: Duration = Duration::from_millis(25);

/// Connections that need a file each in this process.
fn permit_many_files() {
    let limit = format!("--nofile={0}:{0}", CLIENTS + 1000);
    let id = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap();
    assert!(done.success(), "this test needs {} open files: run it with a higher limit", CLIENTS + 1000);
}

/// Opens a connection that asks for a trace and waits, or that never ends its request.
fn open(admin: &str, number: usize) -> TcpStream {
    let mut stream = loop {
        // The queue of the listener may be full: a new attempt comes sooner than the kernel's, which doubles its time.
        if let Ok(stream) = TcpStream::connect_timeout(&admin.parse().unwrap(), CONNECT_MAX) {
            break stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let head = match number % 2 {
        0 => format!("GET /api/trace?user=bob&wait=8 HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"),
        _ => format!("GET /api/stats HTTP/1.1\r\nHost: {admin}\r\nX-Slow: "),
    };
    // It may have been displaced already.
    let _ = stream.write_all(head.as_bytes());
    stream
}

/// True if the server ends the connection, with an answer or without.
fn ends(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                let is_late =
                    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
                return !is_late;
            }
        }
    }
}

/// Time of an OPTIONS to its answer.
fn options(socket: &UdpSocket, server: &str, number: usize) -> Duration {
    let own = socket.local_addr().unwrap();
    let text = format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=a\r\nTo: <sip:example.org>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    );
    let begun = Instant::now();
    socket.send_to(text.as_bytes(), server).unwrap();
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).unwrap();
    assert!(buffer[..length].starts_with(b"SIP/2.0 200"), "{}", String::from_utf8_lossy(&buffer[..length]));
    begun.elapsed()
}

fn files(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

fn memory_kib(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ten_thousand_open_polls_leave_sip_and_memory_alone() {
    permit_many_files();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("ringway.toml"), CONFIGURATION).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    let sip = running.address();
    let admin = running.admin();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for number in 0..100 {
        options(&socket, &sip, number);
    }
    stats(&admin);
    let (files_before, memory_before) = (files(running.id()), memory_kib(running.id()));

    let opened = AtomicUsize::new(0);
    let (mut times, mut files_max, mut memory_max) = (Vec::new(), 0, 0);
    let begun = Instant::now();
    let (ended, displaced) = std::thread::scope(|scope| {
        let (opened, admin) = (&opened, admin.as_str());
        let client = |thread: usize| {
            move || {
                let streams = (0..CLIENTS / THREADS).map(|number| {
                    let due = begun + PACE * (number * THREADS + thread) as u32;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let stream = open(admin, thread + number);
                    opened.fetch_add(1, Ordering::Relaxed);
                    stream
                });
                let streams: Vec<TcpStream> = streams.collect();
                while opened.load(Ordering::Relaxed) < CLIENTS {
                    std::thread::sleep(Duration::from_millis(20));
                }
                streams.into_iter().filter(|stream| ends(stream.try_clone().unwrap())).count()
            }
        };
        let clients: Vec<_> = (0..THREADS).map(|thread| scope.spawn(client(thread))).collect();
        let mut number = 1000;
        while opened.load(Ordering::Relaxed) < CLIENTS {
            times.push(options(&socket, &sip, number));
            number += 1;
            files_max = files_max.max(files(running.id()));
            memory_max = memory_max.max(memory_kib(running.id()));
            std::thread::sleep(Duration::from_millis(5));
        }
        let displaced = stats(admin)["admin_clients_displaced"].as_u64().unwrap() as usize;
        let ended: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        (ended, displaced)
    });
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{CLIENTS} connections in {:?}: at most {files_max} files (before {files_before}), {memory_max} KiB (before {memory_before}), \
         {displaced} displaced; {} OPTIONS, median {median:?}, worst {worst:?}",
        begun.elapsed(),
        times.len()
    );
    assert!(files_max >= files_before + SERVED_MAX / 2, "the load was none: {files_max} files");
    assert!(files_max <= files_before + SERVED_MAX + OTHER_FILES, "{files_max} files, before {files_before}");
    assert!(memory_max <= memory_before + MEMORY_GROWTH_KIB_MAX, "{memory_max} KiB, before {memory_before}");
    // Some may have ended by themselves, and the listener's queue has the last ones.
    assert!(displaced > CLIENTS / 2 && displaced <= CLIENTS, "{displaced} displaced");
    assert!(times.len() > 100 && median <= MEDIAN_MAX, "{} answers, median {median:?}", times.len());
    assert_eq!(ended, CLIENTS, "every connection ends");
    let are_closed = holds(Duration::from_secs(5), || files(running.id()) <= files_before + 2);
    assert!(are_closed, "{} files stay open, {files_before} before", files(running.id()));
    assert!(stats(&admin)["admin_clients_displaced"].as_u64().unwrap() as usize >= displaced);
}
