//! Network between a download and its server: time, packets on their way, faults.

use ringway_ethernet::{Download, DownloadFailure, DownloadLimits, DownloadOutput, DownloadProgress};
use ringway_sansio::{Instant, Rng, Seed};
use ringway_test_support::tftp::{Sent, TftpServer};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub(crate) const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 69);
pub(crate) const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 10), 40_000);
pub(crate) const START: Instant = Instant::from_secs(1_000);

/// A port of the server's host.
pub(crate) fn server_port(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(*SERVER.ip(), port)
}

/// The requests that a download sends: with options and without.
const REQUESTS: [&[u8]; 2] =
    [b"\0\x01users.csv\0octet\0blksize\x001428\0tsize\x000\0", b"\0\x01users.csv\0octet\0"];

/// Faults of the network, each per thousand packets.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
    /// Delayed by up to two seconds.
    pub(crate) late: u32,
}

pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) download: Download,
    pub(crate) server: TftpServer,
    pub(crate) faults: Faults,
    /// One-way delay.
    pub(crate) delay: Duration,
    /// Sent datagrams of the download: time, destination, payload.
    pub(crate) sent: Vec<(Instant, SocketAddrV4, Vec<u8>)>,
    result: Option<Result<Vec<u8>, DownloadFailure>>,
    rng: Rng,
    /// Packets on their way: arrival time, sender, destination, payload.
    in_flight: Vec<(Instant, SocketAddrV4, SocketAddrV4, Vec<u8>)>,
}

impl Network {
    pub(crate) fn new(server: TftpServer, limits: DownloadLimits) -> Self {
        Self {
            now: START,
            download: Download::new(SERVER, "users.csv", limits, START).unwrap(),
            server,
            faults: Faults::default(),
            delay: Duration::from_millis(2),
            sent: Vec::new(),
            result: None,
            rng: Rng::new(&Seed::from_number(0)),
            in_flight: Vec::new(),
        }
    }

    pub(crate) fn with_faults(mut self, faults: Faults, seed: u64) -> Self {
        self.faults = faults;
        self.rng = Rng::new(&Seed::from_number(seed));
        self
    }

    /// Runs until the download has a result and no deadline.
    pub(crate) fn run(&mut self) -> Result<Vec<u8>, DownloadFailure> {
        for _ in 0..2_000_000 {
            if !self.step() {
                // The last packets to the server.
                while let Some(at) = self.in_flight.iter().map(|way| way.0).min() {
                    self.arrive(at);
                }
                let result = self.result.take();
                return result.unwrap_or_else(|| panic!("no event is pending, and there is no result"));
            }
        }
        panic!("it never ends: {:?}", self.download);
    }

    /// Runs the next event. False: the download has none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(deadline) = self.download.next_deadline() else { return false };
        let arrival = self.in_flight.iter().map(|way| way.0).min();
        let retransmission = self.server.next_deadline().map(|after| START + after);
        let next = [arrival, retransmission].into_iter().flatten().fold(deadline.at, Instant::min);
        self.now = self.now.max(next);
        if arrival == Some(next) {
            self.arrive(next);
        } else if deadline.at == next {
            let mut out = DownloadOutput::default();
            let progress = self.download.on_timeout(self.now, &mut out);
            self.take(progress, &out);
        } else {
            let answers = self.server.on_timeout(self.now.since(START));
            self.answers(answers);
        }
        true
    }

    /// Delivers a datagram at once.
    pub(crate) fn inject(&mut self, from: SocketAddrV4, packet: &[u8]) -> Option<(SocketAddrV4, Vec<u8>)> {
        let mut out = DownloadOutput::default();
        let progress = self.download.on_datagram(self.now, from, packet, &mut out);
        self.take(progress, &out);
        out.datagram().map(|(to, bytes)| (to, bytes.to_vec()))
    }

    pub(crate) fn drop_packets_in_flight(&mut self) {
        self.in_flight.clear();
    }

    /// The result, if there is one.
    pub(crate) fn result(&mut self) -> Option<Result<Vec<u8>, DownloadFailure>> {
        self.result.take()
    }

    /// Delivers the datagram that arrives at `at`.
    fn arrive(&mut self, at: Instant) {
        let place = self.in_flight.iter().position(|way| way.0 == at).unwrap();
        let (_, from, to, packet) = self.in_flight.remove(place);
        if to == CLIENT {
            self.inject(from, &packet);
            return;
        }
        if packet[1] == 1 {
            assert!(to == SERVER && REQUESTS.contains(&packet.as_slice()), "{packet:?} to {to}");
        }
        let answers = self.server.on_packet(self.now.since(START), from.port(), to.port(), &packet);
        self.answers(answers);
    }

    fn answers(&mut self, answers: Vec<Sent>) {
        for Sent { from, packet, .. } in answers {
            self.send(server_port(from), CLIENT, packet);
        }
    }

    fn take(&mut self, progress: DownloadProgress, out: &DownloadOutput) {
        let result = match progress {
            DownloadProgress::Pending => None,
            DownloadProgress::Finished(file) => Some(Ok(file)),
            DownloadProgress::Failed(error) => {
                assert_eq!((error.file.as_str(), error.server), ("users.csv", SERVER));
                assert!(!error.to_string().contains('\n'));
                Some(Err(error.failure))
            }
        };
        if result.is_some() {
            assert!(self.result.is_none(), "a second result");
            self.result = result;
        }
        if let Some((to, packet)) = out.datagram() {
            assert!(packet.len() <= 516);
            self.sent.push((self.now, to, packet.to_vec()));
            if to.ip() == SERVER.ip() {
                self.send(CLIENT, to, packet.to_vec());
            }
        }
    }

    fn send(&mut self, from: SocketAddrV4, to: SocketAddrV4, packet: Vec<u8>) {
        let copies = 1 + usize::from(self.rng.random_bool(self.faults.duplicated));
        for _ in 0..copies {
            if self.rng.random_bool(self.faults.lost) {
                continue;
            }
            let late = if self.rng.random_bool(self.faults.late) { self.rng.below(2000) } else { 0 };
            self.in_flight.push((
                self.now + self.delay + Duration::from_millis(late),
                from,
                to,
                packet.clone(),
            ));
        }
    }
}
