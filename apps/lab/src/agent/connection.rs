//! A TCP connection between a campaign and an agent: frames with limits of time and length.

use super::frame::{
    FrameError, GREETING_BYTES, LENGTH_BYTES, Nonces, Opener, Sealer, Side, TAG_BYTES, greeting, length_in,
    nonce_in,
};
use super::key::AgentKey;
use anyhow::{Context, Result, anyhow, bail};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection on which each side has sent its random bytes.
pub(super) struct Connection {
    stream: TcpStream,
    sealer: Sealer,
    opener: Opener,
    /// Longest payload that is received.
    bytes_max: usize,
}

impl Connection {
    /// Connects to an agent. It has proved nothing before its first response.
    pub(super) fn open(address: SocketAddr, key: &AgentKey) -> Result<Self> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIME).context("cannot connect")?;
        prepare(&stream)?;
        let own = random()?;
        stream.write_all(&greeting(&own)).context("cannot send")?;
        let mut bytes = [0; GREETING_BYTES];
        read_until(&mut stream, &mut bytes, Some(Instant::now() + FRAME_TIME))?;
        let nonces = Nonces { campaign: own, agent: nonce_in(&bytes)? };
        let (sealer, opener) =
            (Sealer::new(key, Side::Campaign, &nonces), Opener::new(key, Side::Agent, &nonces));
        Ok(Self { stream, sealer, opener, bytes_max: RESPONSE_BYTES_MAX })
    }

    /// Accepts a campaign and its first frame, which must come within [`STRANGER_TIME`] and proves the key.
    pub(super) fn accept<T: DeserializeOwned>(mut stream: TcpStream, key: &AgentKey) -> Result<(Self, T)> {
        let until = Instant::now() + STRANGER_TIME;
        prepare(&stream)?;
        let mut bytes = [0; GREETING_BYTES];
        read_until(&mut stream, &mut bytes, Some(until))?;
        let nonces = Nonces { campaign: nonce_in(&bytes)?, agent: random()? };
        stream.write_all(&greeting(&nonces.agent)).context("cannot send")?;
        let (sealer, opener) =
            (Sealer::new(key, Side::Agent, &nonces), Opener::new(key, Side::Campaign, &nonces));
        let mut accepted = Self { stream, sealer, opener, bytes_max: STRANGER_BYTES_MAX };
        let mut byte = [0];
        read_until(&mut accepted.stream, &mut byte, Some(until))?;
        let first = accepted.rest(byte, until)?;
        accepted.bytes_max = REQUEST_BYTES_MAX;
        Ok((accepted, first))
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<()> {
        let payload = serde_json::to_vec(message).context("write a message")?;
        self.stream.write_all(&self.sealer.seal(&payload)).context("cannot send")
    }

    /// Receives a message that begins within `wait`; `None`: it may take any time, until the connection ends.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, wait: Option<Duration>) -> Result<T> {
        let begun = Instant::now();
        let wait = wait.map(|wait| begun + wait);
        let mut first = [0];
        read_until(&mut self.stream, &mut first, wait)?;
        self.rest(first, Instant::now() + FRAME_TIME)
    }

    /// Receives a frame whose first byte has come.
    fn rest<T: DeserializeOwned>(&mut self, [first]: [u8; 1], until: Instant) -> Result<T> {
        let mut length = [first; LENGTH_BYTES];
        if let Some((_, rest)) = length.split_first_mut() {
            read_until(&mut self.stream, rest, Some(until))?;
        }
        let total = LENGTH_BYTES + length_in(length, self.bytes_max)? + TAG_BYTES;
        let mut frame = length.to_vec();
        // The memory grows with what has come.
        while frame.len() < total {
            let start = frame.len();
            frame.resize(total.min(start + CHUNK_BYTES), 0);
            let chunk = frame.get_mut(start..).unwrap_or_default();
            read_until(&mut self.stream, chunk, Some(until))?;
        }
        let payload = self.opener.open(&frame)?;
        serde_json::from_slice(payload).context("the message is not known; both sides need the same version")
    }

    /// Address of this side.
    pub(super) fn local_ip(&self) -> Result<IpAddr> {
        Ok(self.stream.local_addr().context("read an address")?.ip().to_canonical())
    }
}

/// Limits of time for writing, and of a peer that is gone without an end.
fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true).context("set a connection")?;
    stream.set_write_timeout(Some(FRAME_TIME)).context("set a connection")?;
    sockopt::set_socket_keepalive(stream, true).context("set a connection")?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE).context("set a connection")?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL).context("set a connection")?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT).context("set a connection")?;
    // With sent bytes that are not acknowledged the system sends no keepalives.
    sockopt::set_tcp_user_timeout(stream, ACKNOWLEDGED_MS).context("set a connection")
}

/// Fills `bytes` before `until`.
fn read_until(stream: &mut TcpStream, bytes: &mut [u8], until: Option<Instant>) -> Result<()> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            bail!("no message in time");
        }
        stream.set_read_timeout(left).context("set a connection")?;
        match stream.read(rest) {
            Ok(0) if filled == 0 => bail!("the connection was closed"),
            Ok(0) => return Err(FrameError::Cut.into()),
            Ok(length) => filled += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("no message in time")
            }
            Err(error) => return Err(error).context("cannot receive"),
        }
    }
    Ok(())
}

/// Random bytes of this side.
fn random<const LEN: usize>() -> Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow!("the operating system returned no random bytes: {error}"))?;
    Ok(bytes)
}

/// Most time until a connection is open.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Most time from the first byte of a frame to its last, and to write one.
const FRAME_TIME: Duration = Duration::from_secs(5);
/// Time in which a connection must prove that it has the key.
pub(super) const STRANGER_TIME: Duration = Duration::from_secs(1);
/// Longest payload of a connection that has not proved it.
const STRANGER_BYTES_MAX: usize = 256;
/// Longest payload to an agent.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Longest payload to a campaign: a configuration, or a profile.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// Bytes that a frame grows by.
const CHUNK_BYTES: usize = 16 << 10;
/// Time without a packet after which the system looks whether the peer is there, the interval and number of its looks.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
/// Most milliseconds until sent bytes are acknowledged.
const ACKNOWLEDGED_MS: u32 = 25_000;
