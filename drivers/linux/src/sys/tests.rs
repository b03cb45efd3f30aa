//! Tested: addresses, batches, waiting, timers, time stamps, priority. Not tested: opening files, locking memory.

use super::socket::Name;
use super::*;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime};

#[test]
fn addresses_are_converted_to_the_kernels_format_and_back() {
    for text in ["127.0.0.1:5060", "255.1.2.3:1", "[::1]:65535", "[2001:db8::5]:5060", "[fe80::1%3]:5060"] {
        let address: SocketAddr = text.parse().unwrap();
        let mut name = Name::empty();
        name.set(address);
        assert_eq!(name.address(), Some(address));
    }
    assert_eq!(Name::empty().address(), None);
}

#[test]
fn an_eventfd_ends_a_wait_until_it_is_reset() {
    let (epoll, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
    epoll.add(event.as_fd(), 7, Interest::Read).unwrap();
    let mut ready = ReadyList::new(4);
    event.signal();
    epoll.wait(&mut ready, Duration::from_secs(5)).unwrap();
    assert!(ready.at(0).is_some_and(|ready| ready.token == 7 && ready.read && !ready.write));
    event.reset();
    epoll.wait(&mut ready, Duration::ZERO).unwrap();
    assert!(ready.is_empty());
}

#[test]
fn a_batch_is_sent_and_received() {
    let (a, b) = (
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let payloads: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n; usize::from(n) + 1]).collect();
    let mut send = SendBatch::new(4);
    let mut sending = send.begin();
    let taken = payloads.iter().filter(|p| sending.push(b.local_addr().unwrap(), p, 0)).count();
    assert_eq!(taken, 4, "the fifth has no room");
    assert_eq!(sending.send(a.as_fd()).unwrap(), 4);
    let mut receive = ReceiveBatch::new(8);
    assert_eq!(receive.receive(b.as_fd(), Wait::ForOne).unwrap(), 4);
    for (index, payload) in payloads.iter().take(4).enumerate() {
        assert_eq!(receive.datagram(index), Some((a.local_addr().unwrap(), &payload[..])));
    }
    assert_eq!(receive.datagram(4), None);
    let nothing = receive.receive(b.as_fd(), Wait::Never).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_connected_socket_sends_to_its_peer() {
    let (a, b) = (
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let mut send = SendBatch::new(2);
    let mut sending = send.begin();
    sending.push_to_peer(b"early", 0);
    assert!(sending.send(a.as_fd()).is_err(), "it has no peer");
    a.connect(b.local_addr().unwrap()).unwrap();
    assert_eq!(sending.send(a.as_fd()).unwrap(), 1);
    let mut room = [0; 8];
    assert_eq!((b.recv(&mut room).unwrap(), &room[..5]), (5, &b"early"[..]));
}

#[test]
fn a_failed_packet_is_skipped_and_the_others_are_sent() {
    let (a, b) = (
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let to = b.local_addr().unwrap();
    let huge = vec![0; 70_000];
    let mut send = SendBatch::new(8);
    let mut sending = send.begin();
    sending.push(to, b"one", 1);
    sending.push(to, &huge, 2);
    sending.push(to, b"three", 3);
    assert_eq!(sending.send(a.as_fd()).unwrap(), 1);
    assert!(sending.send(a.as_fd()).is_err());
    assert_eq!(sending.skip(), Some(2));
    assert_eq!(sending.send(a.as_fd()).unwrap(), 1);
    assert_eq!((sending.left(), sending.skip()), (0, None));
}

#[test]
fn a_timer_ends_a_wait_at_its_time() {
    let (epoll, timer) = (Epoll::new().unwrap(), Timer::new().unwrap());
    epoll.add(timer.as_fd(), 3, Interest::Read).unwrap();
    let mut ready = ReadyList::new(4);
    let due = monotonic() + Duration::from_millis(5);
    timer.set(due);
    epoll.wait(&mut ready, Duration::from_secs(5)).unwrap();
    assert!(ready.at(0).is_some_and(|ready| ready.token == 3) && monotonic() >= due);
    timer.set(monotonic() + Duration::from_secs(60));
    epoll.wait(&mut ready, Duration::ZERO).unwrap();
    assert!(ready.is_empty(), "setting it anew takes the old time back");
    timer.set(Duration::ZERO);
    epoll.wait(&mut ready, Duration::from_secs(5)).unwrap();
    assert!(!ready.is_empty(), "a time that has passed is due at once");
}

#[test]
fn an_exact_wait_ends_at_its_time_or_with_an_event() {
    let (epoll, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
    epoll.add(event.as_fd(), 7, Interest::Read).unwrap();
    let mut ready = ReadyList::new(4);
    let before = monotonic();
    epoll.wait_exact(&mut ready, Duration::from_micros(300)).unwrap();
    assert!(ready.is_empty() && monotonic() >= before + Duration::from_micros(300));
    event.signal();
    epoll.wait_exact(&mut ready, Duration::from_secs(60)).unwrap();
    assert!(ready.at(0).is_some_and(|ready| ready.token == 7));
}

#[test]
fn arrivals_are_stamped_by_the_kernel_and_long_datagrams_are_marked() {
    let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    stamp_arrivals(b.as_fd()).unwrap();
    // The kernel needs a moment to start time stamping for the first socket that requests it.
    std::thread::sleep(Duration::from_millis(100));
    let before = SystemTime::now();
    let to = b.local_addr().unwrap();
    for length in [1, 2048, 2049, 9000, 0] {
        a.send_to(&vec![7; length], to).unwrap();
    }
    let after = SystemTime::now();
    std::thread::sleep(Duration::from_millis(20));
    let mut batch = StampedBatch::new(8);
    assert_eq!(batch.receive(b.as_fd()).unwrap(), 5);
    let tolerance = Duration::from_millis(2);
    for (index, (length, is_whole)) in
        [(1, true), (2048, true), (2048, false), (2048, false), (0, true)].into_iter().enumerate()
    {
        let got = batch.datagram(index).unwrap();
        assert_eq!((got.from, got.bytes.len(), got.is_whole), (a.local_addr().unwrap(), length, is_whole));
        let stamp = got.arrived.unwrap();
        assert!(stamp + tolerance >= before && stamp <= after + tolerance, "{stamp:?} {before:?} {after:?}");
        got.bytes.fill(1);
    }
    assert!(batch.datagram(5).is_none());
    assert_eq!(batch.receive(b.as_fd()).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(batch.datagram(0).is_none(), "the last batch is forgotten");
}

#[test]
fn what_waited_in_a_socket_has_its_time() {
    let waited = Duration::from_millis(60);
    let is_right =
        |time: Duration| time >= waited - Duration::from_millis(5) && time < Duration::from_secs(30);
    let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut batch = ReceiveBatch::new(4);
    a.send_to(b"x", b.local_addr().unwrap()).unwrap();
    assert_eq!(batch.receive(b.as_fd(), Wait::ForOne).unwrap(), 1);
    assert_eq!(batch.waited(), Duration::ZERO, "without time stamps it is not measured");
    stamp_arrivals(b.as_fd()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    stamp_arrivals(listener.as_fd()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    for _ in 0..2 {
        a.send_to(b"y", b.local_addr().unwrap()).unwrap();
        client.write_all(b"z").unwrap();
        std::thread::sleep(waited);
        assert_eq!(batch.receive(b.as_fd(), Wait::ForOne).unwrap(), 1);
        assert!(is_right(batch.waited()), "{:?}", batch.waited());
        let (count, waited) = read_stamped(accepted.as_fd(), &mut [0; 8]).unwrap();
        assert!(count == 1 && is_right(waited), "{waited:?}");
    }
    let empty = read_stamped(accepted.as_fd(), &mut [0; 8]).unwrap_err();
    assert_eq!(empty.kind(), std::io::ErrorKind::WouldBlock);
    drop(client);
    assert_eq!(read_stamped(accepted.as_fd(), &mut [0; 8]).unwrap().0, 0);
}

#[test]
fn a_priority_that_is_not_permitted_is_an_error() {
    let thread = std::thread::spawn(|| (set_real_time(1).is_ok(), set_nice(5).is_ok()));
    assert!(thread.join().unwrap().1, "anyone may be nicer");
    assert!(set_real_time(0).is_err() && set_real_time(100).is_err());
}

/// Receives a datagram and returns the field TOS, or the traffic class, of its packet. The option `IP_RECVTOS` or
/// `IPV6_RECVTCLASS` is set.
pub(crate) fn received_tos(socket: BorrowedFd<'_>) -> Option<u8> {
    let (mut byte, mut control) = (0_u8, [0_u64; 16]);
    let mut part = libc::iovec { iov_base: std::ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    let mut header = super::socket::empty_header().msg_hdr;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: the header points to a part and to control data that live through the call, with their lengths.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, 0) };
    if count < 0 {
        return None;
    }
    // SAFETY: the kernel wrote whole control messages; these macros walk no further than their length. TOS is a byte,
    // the traffic class an int.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while let Some(current) = message.as_ref() {
            let kind = (current.cmsg_level, current.cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_TOS) {
                return Some(libc::CMSG_DATA(message).read());
            }
            if kind == (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) {
                return u8::try_from(libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned()).ok();
            }
            message = libc::CMSG_NXTHDR(&header, message);
        }
    }
    None
}
