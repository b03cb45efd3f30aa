//! The real rtpengine, in user space.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::super::{Stage, namespace};
use crate::process::{PATIENCE, Running};

/// A running rtpengine.
pub(super) struct Rtpengine {
    running: Running,
    control: u16,
    namespace: Option<Arc<str>>,
}

impl Rtpengine {
    /// Starts it with its control port on loopback, and ports for media at `interface` from `first_port` on.
    pub(super) fn start(stage: &Stage, interface: Ipv4Addr, control: u16, first_port: u16) -> Result<Self> {
        // That of the system has other ports.
        let config = stage.path("rtpengine.conf");
        std::fs::write(&config, "[rtpengine]\n")?;
        let mut command = stage.command("rtpengine");
        command.arg(format!("--config-file={}", config.display()));
        command.args(["--foreground", "--log-stderr", "--log-level=5", "--table=-1"]);
        command.args([format!("--interface={interface}"), format!("--listen-ng=127.0.0.1:{control}")]);
        command.args([format!("--port-min={first_port}"), format!("--port-max={}", first_port + PORTS - 1)]);
        let running = Running::start(&format!("rtpengine-{control}"), &mut command, &stage.folder)?;
        let relay = Self { running, control, namespace: stage.namespace.clone() };
        let end = Instant::now() + PATIENCE;
        while relay.ask("d7:command4:pinge").is_err() {
            ensure!(Instant::now() < end, "rtpengine does not answer: {}", relay.running.output().trim());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(relay)
    }

    /// Number of packets that it has forwarded since its start.
    pub(super) fn relayed(&self) -> Result<u64> {
        let statistics = self.ask("d7:command10:statisticse")?;
        let (_, number) = statistics.rsplit_once("19:relayedpackets_useri").context("no relayed packets")?;
        number.split('e').next().unwrap_or_default().parse().context("relayed packets")
    }

    /// Fails if it has a call left.
    pub(super) fn expect_no_calls(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let calls = self.ask("d7:command4:liste")?;
            if calls.contains("5:callsle") {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("rtpengine has calls left: {calls}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(super) fn kill(&mut self) {
        self.running.kill();
    }

    fn ask(&self, command: &str) -> Result<String> {
        static COOKIES: AtomicU32 = AtomicU32::new(0);
        namespace::enter(self.namespace.as_deref(), || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            // A cookie that was used before gets the answer of that command.
            let cookie = COOKIES.fetch_add(1, Ordering::Relaxed);
            socket.send_to(format!("{cookie} {command}").as_bytes(), (Ipv4Addr::LOCALHOST, self.control))?;
            let mut buffer = vec![0; 65_535];
            let length = socket.recv(&mut buffer)?;
            Ok(String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned())
        })?
    }
}

/// Number of its ports for media.
const PORTS: u16 = 200;
