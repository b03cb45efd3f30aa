//! Delay of calls inside a server, by the kernel's time stamps of the packets at its UDP port.
//!
//! A load generator measures delays that contain its own waking up. A raw socket gets a copy of each packet with the time at which
//! the kernel delivered it, so that only the server's part is left: INVITE in to INVITE out, and 180 in to 180 out.

use anyhow::{Context as _, Result, ensure};
use ringway_linux::sys::{BATCH_MAX, StampedBatch, set_buffers, stamp_arrivals};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime};

/// Copies of the UDP packets of this machine.
pub struct PacketCopies {
    socket: OwnedFd,
    /// UDP port of the server.
    port: u16,
}

impl PacketCopies {
    /// Begins to copy the packets of the server at a UDP port.
    ///
    /// # Errors
    /// Raw sockets need `CAP_NET_RAW`.
    pub fn of(port: u16) -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::UDP))
            .context("open a raw socket (needs CAP_NET_RAW)")?;
        set_buffers(socket.as_fd(), BUFFER_BYTES);
        stamp_arrivals(socket.as_fd()).context("ask for time stamps")?;
        Ok(Self { socket, port })
    }

    /// Takes the copies so far; returns the percentile (0 to 100) of the server's delays of 180.
    ///
    /// # Errors
    /// Fewer than `calls_min` calls have all their packets.
    pub fn percentile(&self, percent: f64, calls_min: u64) -> Result<Duration> {
        let mut calls: HashMap<Vec<u8>, Call> = HashMap::new();
        let mut batch = StampedBatch::new(BATCH_MAX);
        while let Ok(count) = batch.receive(self.socket.as_fd()) {
            for datagram in
                (0..count).filter_map(|index| batch.datagram(index).map(|it| (it.arrived, it.bytes.to_vec())))
            {
                if let (Some(arrived), bytes) = datagram {
                    note(&mut calls, &bytes, self.port, arrived);
                }
            }
        }
        let mut delays: Vec<Duration> = calls.values().filter_map(Call::delay).collect();
        ensure!(
            delays.len() as u64 >= calls_min.max(1),
            "{} of {calls_min} calls have all time stamps",
            delays.len()
        );
        delays.sort();
        let index = (delays.len() as f64 * percent / 100.0) as usize;
        delays.get(index.min(delays.len() - 1)).copied().context("no call")
    }
}

/// Times of a call's first packets at the server: INVITE in and out, 180 in and out.
#[derive(Clone, Copy, Debug, Default)]
struct Call([Option<SystemTime>; 4]);

impl Call {
    fn delay(&self) -> Option<Duration> {
        let between = |from: Option<SystemTime>, to: Option<SystemTime>| to?.duration_since(from?).ok();
        let [invite_in, invite_out, ringing_in, ringing_out] = self.0;
        Some(between(invite_in, invite_out)? + between(ringing_in, ringing_out)?)
    }
}

/// Notes an IPv4 packet if it is an INVITE or a 180 to or from the server.
fn note(calls: &mut HashMap<Vec<u8>, Call>, packet: &[u8], port: u16, arrived: SystemTime) {
    let Some(&first) = packet.first() else { return };
    let Some(udp) = packet.get(usize::from(first & 0xf) * 4..) else { return };
    let Some(([a, b, c, d, ..], message)) = udp.split_first_chunk::<UDP_HEADER>() else { return };
    let is_out = match port {
        _ if port == u16::from_be_bytes([*c, *d]) => false,
        _ if port == u16::from_be_bytes([*a, *b]) => true,
        _ => return,
    };
    let kind = match message {
        _ if message.starts_with(b"INVITE ") => 0,
        _ if message.starts_with(b"SIP/2.0 180 ") => 2,
        _ => return,
    };
    let Some(at) = memchr::memmem::find(message, CALL_ID) else { return };
    let id = message.get(at + CALL_ID.len()..).unwrap_or_default();
    let id = id.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let call = calls.entry(id.to_vec()).or_default();
    if let Some(time) = call.0.get_mut(kind + usize::from(is_out)) {
        // The first one: others are retransmissions.
        time.get_or_insert(arrived);
    }
}

const UDP_HEADER: usize = 8;
const CALL_ID: &[u8] = b"\nCall-ID:";
/// Room for some ten thousand packets, which are read after the load.
const BUFFER_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: u16, to: u16, message: &str) -> Vec<u8> {
        let mut packet = vec![0x45; 20];
        packet.extend([from.to_be_bytes(), to.to_be_bytes(), [0, 0], [0, 0]].concat());
        packet.extend(message.as_bytes());
        packet
    }

    #[test]
    fn the_delay_is_that_of_both_messages_inside_the_server() {
        let mut calls = HashMap::new();
        let at = |us| SystemTime::UNIX_EPOCH + Duration::from_micros(us);
        let invite = "INVITE sip:b@c SIP/2.0\r\nCall-ID: 1@x\r\n\r\n";
        let ringing = "SIP/2.0 180 Ringing\r\nCall-ID: 1@x\r\n\r\n";
        for (from, to, message, us) in [
            (9, 5060, invite, 100),
            (5060, 8, invite, 130),
            (5060, 8, invite, 900),
            (8, 5060, ringing, 2000),
            (5060, 9, ringing, 2007),
            (9, 8, ringing, 2500),
            (9, 5060, "SIP/2.0 200 OK\r\nCall-ID: 1@x\r\n\r\n", 2600),
        ] {
            note(&mut calls, &packet(from, to, message), 5060, at(us));
        }
        note(&mut calls, &packet(9, 5060, &invite.replace('1', "2")), 5060, at(3000));
        note(&mut calls, &[0x4f], 5060, at(3000));
        let delays: Vec<Duration> = calls.values().filter_map(Call::delay).collect();
        assert_eq!((calls.len(), delays), (2, vec![Duration::from_micros(37)]));
    }
}
