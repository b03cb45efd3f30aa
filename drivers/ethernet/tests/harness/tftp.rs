//! TFTP with arbitrary datagrams from any sender at any time. A download ends, returns its result once, respects its
//! limits, sends only valid packets to their receivers, and other senders change nothing.
//!
//! An input is a list of events: a byte with the flags of [`Event`], a byte for the length, the datagram.

use ringway_ethernet::{Download, DownloadLimits, DownloadOutput, DownloadProgress};
use ringway_sansio::Instant;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 69);
const FILE_BYTES_MAX: usize = 3_000;
const START: Instant = Instant::from_secs(1_000);

/// Flags of an event's first byte.
struct Event<'a> {
    /// Bits 0 and 1: the server's port 50,000 (two values), another port of the server, another host.
    from: SocketAddrV4,
    /// Bits 2 and 3: time since the previous event.
    later: Duration,
    /// Bit 4: the clock advances to the deadline instead.
    is_timeout: bool,
    /// Bit 5: the datagram gets the header of the expected block, so that inputs need not guess it.
    is_next_block: bool,
    /// Bit 6: extended 100 times with zeros.
    datagram: Vec<u8>,
    rest: &'a [u8],
}

impl<'a> Event<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let (&[what, length], rest) = data.split_first_chunk::<2>()?;
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let from = match what & 3 {
            0 | 1 => SocketAddrV4::new(*SERVER.ip(), 50_000),
            2 => SocketAddrV4::new(*SERVER.ip(), 50_001),
            _ => SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 66), 50_000),
        };
        let later = Duration::from_millis([0, 60, 1_100, 9_000][usize::from(what >> 2 & 3)]);
        let mut datagram = bytes.to_vec();
        if what & 0x40 != 0 {
            datagram.resize(bytes.len() * 100, 0);
        }
        Some(Self {
            from,
            later,
            is_timeout: what & 0x10 != 0,
            is_next_block: what & 0x20 != 0,
            datagram,
            rest,
        })
    }
}

struct Run {
    now: Instant,
    download: Download,
    out: DownloadOutput,
    /// Block that was acknowledged last.
    acknowledged: u16,
    is_decided: bool,
}

/// Runs the events of `data`, then waits without further datagrams.
pub(crate) fn run(data: &[u8]) {
    let limits = DownloadLimits { file_bytes_max: FILE_BYTES_MAX, ..DownloadLimits::default() };
    let download = Download::new(SERVER, "users.csv", limits, START).expect("the name is good");
    let out = DownloadOutput::default();
    let mut run = Run { now: START, download, out, acknowledged: 0, is_decided: false };
    let mut rest = data;
    while let Some(event) = Event::read(rest) {
        rest = event.rest;
        run.play(event);
    }
    for _ in 0..10 {
        run.timeout();
    }
    assert!(run.is_decided && run.download.next_deadline().is_none(), "silence ends every download");
}

impl Run {
    fn play(&mut self, event: Event<'_>) {
        if event.is_timeout {
            self.timeout();
            return;
        }
        self.now = self.now + event.later;
        let mut datagram = event.datagram;
        if event.is_next_block {
            let next = self.acknowledged.wrapping_add(1).to_be_bytes();
            datagram.splice(..0, [0, 3, next[0], next[1]]);
        }
        let before = (self.download.received(), self.download.next_deadline());
        let progress = self.download.on_datagram(self.now, event.from, &datagram, &mut self.out);
        if event.from.ip() != SERVER.ip() {
            assert_eq!(progress, DownloadProgress::Pending);
            assert_eq!(
                (self.download.received(), self.download.next_deadline()),
                before,
                "a stranger had an effect"
            );
        }
        if let Some((to, _)) = self.out.datagram() {
            assert!(to == event.from || (to == SERVER && event.from.ip() == SERVER.ip()));
        }
        self.check(progress);
    }

    fn timeout(&mut self) {
        let Some(deadline) = self.download.next_deadline() else { return };
        self.now = self.now.max(deadline.at);
        let progress = self.download.on_timeout(self.now, &mut self.out);
        assert!(!matches!(progress, DownloadProgress::Finished(_)));
        self.check(progress);
        let next = self.download.next_deadline();
        assert!(next.is_none_or(|next| next.at > self.now), "it would be called again at once");
    }

    fn check(&mut self, progress: DownloadProgress) {
        let (received, size) = self.download.received();
        assert!(
            received <= FILE_BYTES_MAX && size.is_none_or(|size| received <= size && size <= FILE_BYTES_MAX)
        );
        if let Some((_, bytes)) = self.out.datagram() {
            match (bytes, bytes.len()) {
                ([0, 1, name @ ..], ..=516) => assert!(name.starts_with(b"users.csv\0octet\0")),
                ([0, 4, high, low], 4) => self.acknowledged = u16::from_be_bytes([*high, *low]),
                ([0, 5, 0, _, text @ ..], ..=516) => assert_eq!(text.last(), Some(&0)),
                _ => panic!("sent an invalid packet: {bytes:?}"),
            }
        }
        let is_result = match progress {
            DownloadProgress::Pending => false,
            DownloadProgress::Finished(file) => {
                assert!(file.len() <= FILE_BYTES_MAX);
                true
            }
            DownloadProgress::Failed(error) => {
                assert_eq!(self.download.next_deadline(), None);
                let text = error.to_string();
                assert!(text.chars().all(|c| matches!(c, ' '..='~')), "{text:?}");
                true
            }
        };
        assert!(!(is_result && self.is_decided), "a second result");
        self.is_decided |= is_result;
    }
}
