//! Capture of messages for a HEP collector.
//!
//! Without a connected collector a message costs one load of an atomic.

use super::listeners::ListenerTable;
use super::settings;
use crate::failure::Failure;
use ringway_hep::{Collector, CollectorConfig, CollectorStats, TransportProtocol};
use ringway_linux::Direction;
use ringway_sansio::{Flow, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Collector of now, which a reload replaces, and the addresses of the listeners.
#[derive(Default)]
pub(super) struct Capture {
    is_on: AtomicBool,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    config: Option<CollectorConfig>,
    collector: Option<Arc<Collector>>,
    /// Addresses of the listeners by number, as peers see them.
    listeners: Vec<SocketAddr>,
    /// Packets of the collectors that were replaced.
    sent: u64,
    lost: u64,
}

/// A collector that a new configuration needs.
pub(super) struct NewCollector(Option<(CollectorConfig, Arc<Collector>)>);

impl Capture {
    /// Starts the collector of a new configuration; `None`: that of now stays.
    pub(super) fn prepare(&self, config: Option<&CollectorConfig>) -> Result<Option<NewCollector>, Failure> {
        if self.read().config.as_ref() == config {
            return Ok(None);
        }
        let Some(config) = config else { return Ok(Some(NewCollector(None))) };
        let collector = Collector::start(config.clone()).map_err(|error| {
            Failure::failed(format!("cannot start the thread for [hep] collector: {error}"))
        })?;
        Ok(Some(NewCollector(Some((config.clone(), Arc::new(collector))))))
    }

    /// Uses a new collector from now on.
    pub(super) fn replace(&self, new: NewCollector) {
        let old = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let stats = state.stats();
            (state.sent, state.lost) = (stats.sent, stats.lost);
            let (config, collector) = new.0.unzip();
            state.config = config;
            self.is_on.store(collector.is_some(), Ordering::Relaxed);
            std::mem::replace(&mut state.collector, collector)
        };
        drop(old);
    }

    /// Uses these listeners from now on.
    pub(super) fn set_listeners(&self, table: &ListenerTable) {
        let listeners = table.all().map(|listen| settings::advertised(listen.address)).collect();
        self.state.write().unwrap_or_else(PoisonError::into_inner).listeners = listeners;
    }

    /// Keeps a message for the collector.
    pub(super) fn on_message(&self, direction: Direction, flow: &Flow, message: &[u8]) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let state = self.read();
        let Some(collector) = state.collector.as_ref().filter(|collector| collector.is_connected()) else {
            return;
        };
        let local = local_address(state.listeners.get(usize::from(flow.listener.0)), flow.remote.ip());
        let ends = match direction {
            Direction::Received => (flow.remote, local),
            Direction::Sent => (local, flow.remote),
        };
        let protocol = match flow.transport {
            Transport::Udp | Transport::Dtls => TransportProtocol::Udp,
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => TransportProtocol::Tcp,
        };
        collector.capture(ends, protocol, message);
    }

    /// Figures since the start; `None` without a collector, now and before.
    pub(super) fn stats(&self) -> Option<CollectorStats> {
        let state = self.read();
        let stats = state.stats();
        (state.collector.is_some() || stats != CollectorStats::default()).then_some(stats)
    }

    /// Sends what waits, and ends the thread.
    pub(super) fn stop(&self) {
        let collector = self.read().collector.clone();
        if let Some(collector) = collector {
            collector.stop(Instant::now() + STOP_MAX);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn stats(&self) -> CollectorStats {
        let stats = self.collector.as_ref().map(|collector| collector.stats()).unwrap_or_default();
        CollectorStats { sent: self.sent + stats.sent, lost: self.lost + stats.lost, ..stats }
    }
}

/// This machine's end of a flow: the address of the listener. Towards loopback a listener on all addresses has a loopback address.
fn local_address(listener: Option<&SocketAddr>, remote: IpAddr) -> SocketAddr {
    let (loopback, unknown): (IpAddr, IpAddr) = match remote {
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()),
    };
    let (ip, port) = listener.map_or((unknown, 0), |listener| (listener.ip(), listener.port()));
    let ip = match ip {
        _ if remote.is_loopback() => loopback,
        ip if ip.is_ipv4() == remote.is_ipv4() => ip,
        _ => unknown,
    };
    SocketAddr::new(ip, port)
}

/// Time limit of sending what waits at the end.
const STOP_MAX: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_flow_have_the_same_family() {
        let local = |listener: &str, remote: &str| {
            local_address(Some(&listener.parse().unwrap()), remote.parse().unwrap()).to_string()
        };
        assert_eq!(local("192.0.2.1:5060", "192.0.2.9"), "192.0.2.1:5060");
        assert_eq!(local("192.0.2.1:5060", "127.0.0.1"), "127.0.0.1:5060");
        assert_eq!(local("[2001:db8::1]:5060", "2001:db8::9"), "[2001:db8::1]:5060");
        assert_eq!(local("[2001:db8::1]:5060", "192.0.2.9"), "0.0.0.0:5060");
        assert_eq!(local_address(None, "::1".parse().unwrap()).to_string(), "[::1]:0");
    }
}
