//! Media relays of the measured servers: rtpengine, and an answerer of its protocol; the floor of a request to one: the
//! same datagrams through an epoll loop that does nothing else.

use anyhow::{Context, Result};
use ringway_lab::floor::Kind;
use ringway_lab::process::Process;
use ringway_lab::subject::Environment;
use ringway_test_support::process::Site;
use ringway_test_support::rtpengine::{Rtpengine, media_ports};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Media relay of a server, which ends with this value.
pub(super) enum Relay {
    Scripted { is_over: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
    Rtpengine(#[expect(dead_code, reason = "it runs until it is dropped")] Box<Rtpengine>),
}

impl Relay {
    /// Answers each command at once, an offer or answer with its own SDP.
    pub(super) fn scripted(control: UdpSocket) -> Result<Self> {
        control.set_read_timeout(Some(Duration::from_millis(100))).context("time limit of the relay")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 16_384];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, from)) = control.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(buffer.get(..length).unwrap_or_default()) {
                    // The command of a lost answer is sent again.
                    let _ = control.send_to(&answer, from);
                }
            }
        });
        Ok(Self::Scripted { is_over, thread: Some(thread) })
    }

    pub(super) fn rtpengine(folder: &Path, control: SocketAddr) -> Result<Self> {
        let site = Site { folder: folder.to_owned(), namespace: None };
        let mut arguments = media_ports(Ipv4Addr::LOCALHOST, 30_000, 2001);
        arguments.push("--log-level=3".to_owned());
        Ok(Self::Rtpengine(Box::new(Rtpengine::start_at(&site, control.port(), &arguments)?)))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Self::Scripted { is_over, thread } = self {
            is_over.store(true, Ordering::Relaxed);
            // An error of the thread has failed the readings.
            drop(thread.take().map(JoinHandle::join));
        }
    }
}

/// Answer to a command; `None` for one without a cookie.
fn answer(command: &[u8]) -> Option<Vec<u8>> {
    let cookie = command.get(..17)?;
    let sdp = command.windows(KEY.len()).position(|window| window == KEY).and_then(|at| {
        let rest = command.get(at + KEY.len()..)?;
        let digits = rest.iter().position(|byte| *byte == b':')?;
        let length: usize = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
        rest.get(..digits + 1 + length)
    });
    let sdp = sdp.map(|sdp| [KEY, sdp].concat()).unwrap_or_default();
    Some([cookie, b"d", &sdp, b"6:result2:oke"].concat())
}

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

/// Key of the SDP in a command.
const KEY: &[u8] = b"3:sdp";
/// Bytes of an SDP, and of the rest of an offer.
const SDP_BYTES: usize = 200;
const OPTIONS_BYTES: usize = 250;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_answered_with_their_sdp() {
        let offer = b"0123456789abcdef d7:command5:offer3:sdp3:v=07:replacel6:originee";
        assert_eq!(answer(offer).unwrap(), b"0123456789abcdef d3:sdp3:v=06:result2:oke");
        assert_eq!(
            answer(b"0123456789abcdef d7:command4:pinge").unwrap(),
            b"0123456789abcdef d6:result2:oke"
        );
        assert_eq!(answer(b"short"), None);
    }
}
