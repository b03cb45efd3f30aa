//! The media relay rtpengine, in user space.

use crate::eventually::{PATIENCE, retry};
use crate::namespace;
use crate::process::{Process, Site, temporary_site};
use anyhow::{Context, Result, ensure};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// A running rtpengine, which ends when the value is dropped.
pub struct Rtpengine {
    process: Process,
    control: SocketAddr,
    site: Site,
    /// The folder of one that has no other.
    _folder: Option<TempDir>,
}

impl Rtpengine {
    /// Starts it with these arguments and a free control port.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start(arguments: impl FnOnce(u16) -> Vec<String>) -> Result<Self> {
        let (site, folder) = temporary_site();
        let control = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let relay = Self::start_at(&site, control, &arguments(control))?;
        Ok(Self { _folder: Some(folder), ..relay })
    }

    /// Starts it at a site with its control port on loopback, and further arguments: those of [`media_ports`], for example.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_at(site: &Site, control: u16, arguments: &[String]) -> Result<Self> {
        Self::start_with(site, control, ("", arguments))
    }

    /// The same with these lines of its configuration file.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_from(site: &Site, control: u16, lines: &str) -> Result<Self> {
        Self::start_with(site, control, (lines, &[]))
    }

    fn start_with(site: &Site, control: u16, (lines, arguments): (&str, &[String])) -> Result<Self> {
        // That of the system has other ports.
        let config = site.folder.join("rtpengine.conf");
        std::fs::write(&config, format!("[rtpengine]\n{lines}\n"))?;
        let control = SocketAddr::from((Ipv4Addr::LOCALHOST, control));
        let mut command = site.command("rtpengine");
        command.arg(format!("--config-file={}", config.display()));
        if !lines.contains("listen-ng") {
            command.arg(format!("--listen-ng={control}"));
        }
        command.args(["--foreground", "--log-stderr", "--log-level=5", "--table=-1"]).args(arguments);
        let name = format!("rtpengine-{}", control.port());
        let process = Process::start(&name, &mut command, &site.folder)?;
        let relay = Self { process, control, site: site.clone(), _folder: None };
        retry(PATIENCE, || relay.ask("d7:command4:pinge"))
            .with_context(|| format!("rtpengine does not answer: {}", relay.process.output().trim()))?;
        Ok(relay)
    }

    /// Address of its control port.
    pub const fn control(&self) -> SocketAddr {
        self.control
    }

    /// Number of packets that it has forwarded since its start.
    ///
    /// # Errors
    /// It does not answer.
    pub fn relayed(&self) -> Result<u64> {
        let statistics = self.ask("d7:command10:statisticse")?;
        let (_, number) = statistics.rsplit_once("19:relayedpackets_useri").context("no relayed packets")?;
        number.split('e').next().unwrap_or_default().parse().context("relayed packets")
    }

    /// Waits until it has no calls.
    ///
    /// # Errors
    /// It has one left after [`PATIENCE`].
    pub fn expect_no_calls(&self) -> Result<()> {
        retry(PATIENCE, || {
            let calls = self.ask("d7:command4:liste")?;
            ensure!(calls.contains("5:callsle"), "rtpengine has calls left: {calls}");
            Ok(())
        })
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    fn ask(&self, command: &str) -> Result<String> {
        static COOKIES: AtomicU32 = AtomicU32::new(0);
        namespace::enter(self.site.namespace.as_deref(), || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            // A cookie that was used before gets the answer of that command.
            let cookie = COOKIES.fetch_add(1, Ordering::Relaxed);
            socket.send_to(format!("{cookie} {command}").as_bytes(), self.control)?;
            let mut buffer = vec![0; 65_535];
            let length = socket.recv(&mut buffer)?;
            Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
        })?
    }
}

/// Arguments for media at an interface, at `count` ports from `first` on.
pub fn media_ports(interface: Ipv4Addr, first: u16, count: u16) -> Vec<String> {
    let last = first + count - 1;
    vec![format!("--interface={interface}"), format!("--port-min={first}"), format!("--port-max={last}")]
}
