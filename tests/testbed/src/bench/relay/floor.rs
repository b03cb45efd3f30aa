//! Floor of a request to a media relay: the same datagrams through an epoll loop that does nothing else.

use super::control::Relay;
use anyhow::{Context, Result};
use ringway_lab::floor::Kind;
use ringway_lab::process::Process;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// A floor that sends datagrams back, at once or after a request to a scripted relay.
pub(super) struct Floor {
    process: Process,
    socket: UdpSocket,
    direct: Vec<u8>,
    asking: Vec<u8>,
    _relay: Relay,
}

impl Floor {
    pub(super) fn start(environment: &Environment) -> Result<Self> {
        let control = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the relay")?;
        let relay_address = control.local_addr().context("address of the relay")?;
        let relay = Relay::scripted(control)?;
        let mut command = (environment.floor_command)()?;
        command.arg(Kind::Asking.name());
        let mut process = Process::start("floor", &mut command, &environment.folder.join("floor.log"))?;
        let line = process.ready()?;
        let address = line.rsplit_once("udp:").map(|(_, address)| address.trim()).context("no address")?;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a socket")?;
        socket.connect(address).context("connect to the floor")?;
        socket.set_read_timeout(Some(Duration::from_secs(1))).context("time limit of a socket")?;
        let sdp = "v".repeat(SDP_BYTES);
        let request =
            format!("0123456789abcdef d7:command5:offer3:sdp{SDP_BYTES}:{sdp}{:1$}e", "", OPTIONS_BYTES);
        let direct = request.clone().into_bytes();
        let asking = format!("{relay_address}\n{request}").into_bytes();
        Ok(Self { process, socket, direct, asking, _relay: relay })
    }

    /// CPU time that a request to the relay adds to a datagram that is sent back, in µs.
    pub(super) fn reading(&mut self, rate: u32, seconds: u32) -> Result<f64> {
        let direct = self.time_of(&self.direct, rate, seconds)?;
        let asking = self.time_of(&self.asking, rate, seconds)?;
        Ok(asking - direct)
    }

    fn time_of(&self, datagram: &[u8], rate: u32, seconds: u32) -> Result<f64> {
        let count = rate * seconds;
        let before = self.process.cpu_ns()?;
        let begin = Instant::now();
        for number in 0..count {
            let due = begin + Duration::from_secs(1) * number / rate;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.socket.send(datagram).context("send to the floor")?;
            self.socket.recv(&mut [0; 2048]).context("the floor does not answer")?;
        }
        let used = self.process.cpu_ns()?.saturating_sub(before);
        Ok(used as f64 / 1000.0 / f64::from(count))
    }
}

/// Bytes of an SDP, and of the rest of an offer.
const SDP_BYTES: usize = 200;
const OPTIONS_BYTES: usize = 250;
