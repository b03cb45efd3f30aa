//! The collector and the thread that sends to it.

use crate::link::{Buffer, CollectorTransport, Link, Packets, Pushed};
use crate::packet::{Packet, PacketWriter, TooLong, TransportProtocol};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

/// Address of a collector, and what it gets with each packet.
#[derive(Clone, PartialEq, Eq)]
pub struct CollectorConfig {
    /// Transport.
    pub transport: CollectorTransport,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Number of this capture agent.
    pub capture_id: u32,
    /// Key for the collector; empty: none.
    pub password: String,
}

impl fmt::Debug for CollectorConfig {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {}", self.capture_id)
    }
}

impl fmt::Display for CollectorConfig {
    /// Shows `tcp:homer.example.org:9060`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            CollectorTransport::Tcp => "tcp",
            CollectorTransport::Udp => "udp",
        };
        if self.host.contains(':') {
            write!(f, "{transport}:[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{transport}:{}:{}", self.host, self.port)
        }
    }
}

/// Figures of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorStats {
    /// Packets given to the kernel.
    pub sent: u64,
    /// Packets that did not fit, or whose connection failed.
    pub lost: u64,
    /// True while connected.
    pub is_connected: bool,
}

/// A collector. Its thread ends when it is dropped.
pub struct Collector {
    shared: Arc<Shared>,
}

struct Shared {
    config: CollectorConfig,
    writer: PacketWriter,
    is_connected: AtomicBool,
    is_stopping: AtomicBool,
    has_ended: AtomicBool,
    buffer: Buffer,
    sent: AtomicU64,
    lost: AtomicU64,
    thread: OnceLock<Thread>,
}

impl Collector {
    /// Starts the thread, which connects.
    ///
    /// # Errors
    /// The thread cannot be started, or the password is too long.
    pub fn start(config: CollectorConfig) -> io::Result<Self> {
        let writer = PacketWriter::new(config.capture_id, config.password.as_bytes())
            .map_err(|TooLong| io::Error::new(io::ErrorKind::InvalidInput, "the password is too long"))?;
        let shared = Arc::new(Shared {
            config,
            writer,
            is_connected: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            buffer: Buffer::default(),
            sent: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            thread: OnceLock::new(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("hep".to_owned()).spawn(move || {
            own.run();
            own.has_ended.store(true, Ordering::Release);
        })?;
        // It cannot be set already. Nobody waits for the thread: a lookup can take long.
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Self { shared })
    }

    /// True if what is captured now is kept.
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Relaxed)
    }

    /// Keeps a message for the collector, if it is connected.
    pub fn capture(
        &self,
        (source, destination): (SocketAddr, SocketAddr),
        protocol: TransportProtocol,
        payload: &[u8],
    ) {
        if !self.is_connected() {
            return;
        }
        let Shared { writer, buffer, lost, thread, .. } = &*self.shared;
        let packet = Packet {
            source,
            destination,
            protocol,
            time: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            payload,
        };
        match buffer.push(writer, &packet) {
            Pushed::Kept => {}
            Pushed::HalfFull => {
                if let Some(thread) = thread.get() {
                    thread.unpark();
                }
            }
            Pushed::Lost => {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Figures since the start.
    pub fn stats(&self) -> CollectorStats {
        CollectorStats {
            sent: self.shared.sent.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            is_connected: self.is_connected(),
        }
    }

    /// Sends what waits and ends the thread; waits for that until `until`.
    pub fn stop(&self, until: Instant) {
        self.shared.request_end();
        while !self.shared.has_ended.load(Ordering::Acquire) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.request_end();
    }
}

impl Shared {
    fn request_end(&self) {
        self.is_stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn run(&self) {
        let (mut pause, mut is_reported) = (PAUSE_MIN, false);
        let CollectorConfig { transport, host, port, .. } = &self.config;
        while !self.is_stopping() {
            let began = Instant::now();
            let ended = Link::connect(*transport, host, *port).and_then(|link| {
                tracing::info!(collector = %self.config, "HEP collector is connected");
                is_reported = false;
                self.serve(link)
            });
            let Err(error) = ended else { return };
            if !std::mem::replace(&mut is_reported, true) {
                tracing::warn!(
                    collector = %self.config,
                    "HEP collector cannot be reached: {error}; nothing is captured until it can"
                );
            }
            if began.elapsed() > LASTING {
                pause = PAUSE_MIN;
            }
            self.wait(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Sends until the end, or an error.
    fn serve(&self, mut link: Link) -> io::Result<()> {
        let mut packets = Packets::default();
        // Packets that a thread added after the last connection ended are old.
        self.buffer.take(&mut packets);
        self.lost.fetch_add(packets.count, Ordering::Relaxed);
        self.is_connected.store(true, Ordering::Relaxed);
        let ended = loop {
            let is_last = self.is_stopping();
            self.buffer.take(&mut packets);
            let sent = link.check().and_then(|()| link.send(&packets));
            match sent {
                Ok(()) => self.sent.fetch_add(packets.count, Ordering::Relaxed),
                Err(error) => {
                    self.lost.fetch_add(packets.count, Ordering::Relaxed);
                    break Err(error);
                }
            };
            if is_last {
                break Ok(());
            }
            self.wait(if packets.count > 0 { BATCH } else { IDLE });
            // Memory of a peak is not kept.
            if packets.bytes.capacity() > KEPT_BYTES {
                packets.bytes = Vec::new();
            }
        };
        self.is_connected.store(false, Ordering::Relaxed);
        ended
    }

    fn wait(&self, time: Duration) {
        if !self.is_stopping() {
            thread::park_timeout(time);
        }
    }
}

/// Time for which packets are collected while there are some, and while there are none: nobody wakes the thread.
const BATCH: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_millis(100);
/// Pause before the first further attempt to connect; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A connection that lasted this long was a good one.
const LASTING: Duration = Duration::from_secs(10);
const KEPT_BYTES: usize = 1 << 20;
