//! Requests of many sources at a steady rate.

use super::message::{Serial, Template};
use super::script::bind;
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Sources, each with its own address.
pub struct Flood {
    sources: Vec<Source>,
}

struct Source {
    socket: UdpSocket,
    /// Sent in turn.
    templates: Vec<Template>,
    turn: u32,
}

/// Traffic of a flood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Requests sent.
    pub requests: u64,
    /// Requests that could not be sent.
    pub unsent: u64,
    /// Responses received.
    pub responses: u64,
}

impl Flood {
    /// Creates sources 127.0.1.1 and up, each with the texts of `templates`, which send to `server`.
    pub fn new(
        sources: u8,
        server: SocketAddrV4,
        templates: impl Fn(SocketAddrV4) -> Vec<String>,
    ) -> Result<Self> {
        let source = |number| {
            let (socket, address) = bind(Ipv4Addr::new(127, 0, 1, number))?;
            socket.connect(server).context("connect a source to the server")?;
            socket.set_nonblocking(true).context("set a source")?;
            let templates = templates(address).iter().map(|text| Template::new(text)).collect();
            Ok(Source { socket, templates, turn: 0 })
        };
        Ok(Self { sources: (1..=sources).map(source).collect::<Result<_>>()? })
    }

    /// Sends `rate` requests per second from each source. `each` is called ten times per second; its text
    /// ends the progress line, printed every five seconds.
    pub fn run(
        &mut self,
        what: &str,
        rate: u32,
        duration: Duration,
        mut each: impl FnMut() -> Result<String>,
    ) -> Result<Traffic> {
        let (begun, mut traffic) = (Instant::now(), Traffic::default());
        let (mut next_look, mut next_line) = (Duration::ZERO, Duration::ZERO);
        loop {
            let elapsed = begun.elapsed();
            if elapsed >= duration {
                return Ok(traffic);
            }
            for (number, source) in (0..).zip(&mut self.sources) {
                let due = due(rate, elapsed).saturating_sub(source.turn);
                for _ in 0..due.min(BURST_MAX) {
                    source.send(number, &mut traffic)?;
                }
                traffic.responses += drain(&source.socket, |_| {})?;
            }
            if elapsed >= next_look {
                next_look = elapsed + Duration::from_millis(100);
                let figures = each()?;
                if elapsed >= next_line {
                    next_line = elapsed + Duration::from_secs(5);
                    eprintln!("  {what}: {} of {} s{figures}", elapsed.as_secs(), duration.as_secs());
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Source {
    fn send(&mut self, number: u16, traffic: &mut Traffic) -> Result<()> {
        let Some(template) = self.templates.get(self.turn as usize % self.templates.len().max(1)) else {
            return Ok(());
        };
        let serial = Serial { sender: number, turn: self.turn };
        let mut message = Vec::with_capacity(65_536);
        template.write(self.turn % 10_000_000, serial, &mut message);
        self.turn += 1;
        match self.socket.send(&message) {
            Ok(_) => traffic.requests += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => traffic.unsent += 1,
            Err(error) => return Err(error).context("send to the server"),
        }
        Ok(())
    }
}

/// Receives all datagrams queued at a non-blocking socket; returns their number.
pub fn drain(socket: &UdpSocket, mut each: impl FnMut(&[u8])) -> Result<u64> {
    let mut room = [0; 65_536];
    let mut count = 0;
    loop {
        match socket.recv(&mut room) {
            Ok(length) => each(room.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
            Err(error) => return Err(error).context("receive from the server (is it still running?)"),
        }
        count += 1;
    }
}

/// Waits and prints a line every ten seconds that ends with `figures`.
pub fn wait(what: &str, duration: Duration, mut figures: impl FnMut() -> Result<String>) -> Result<()> {
    let begun = Instant::now();
    while let left = duration.saturating_sub(begun.elapsed())
        && !left.is_zero()
    {
        eprintln!("  {what}: {} s more; {}", left.as_secs_f64().ceil(), figures()?);
        thread::sleep(left.min(Duration::from_secs(10)));
    }
    Ok(())
}

/// Text of a stranger's request with a body of `body` bytes; each request is a new transaction.
pub fn request(method: &str, uri: &str, source: SocketAddrV4, body: usize) -> String {
    format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/UDP {source};branch=z9hG4bKf{{serial}};rport\nMax-Forwards: 70\n\
         From: <{}>;tag=f{{serial}}\nTo: <{uri}>\nCall-ID: f{{serial}}@{}\nCSeq: 1 {method}\n\
         Contact: <sip:mallory@{source}>\nContent-Type: application/octet-stream\nContent-Length: {body}\n\n{}",
        super::peer::STRANGER,
        source.ip(),
        "x".repeat(body)
    )
}

/// Requests that are due after `elapsed`.
fn due(rate: u32, elapsed: Duration) -> u32 {
    u32::try_from(elapsed.as_millis() * u128::from(rate) / 1000).unwrap_or(u32::MAX)
}

/// Maximum number of requests that one source sends at once after a delay of the generator.
const BURST_MAX: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_in_spite_of_delays_of_the_generator() {
        assert_eq!(due(195, Duration::ZERO), 0);
        assert_eq!(due(195, Duration::from_millis(100)), 19);
        assert_eq!(due(195, Duration::from_secs(60)), 11_700);
        assert_eq!(due(u32::MAX, Duration::from_secs(60)), u32::MAX);
    }

    #[test]
    fn a_request_is_as_long_as_its_content_length() {
        let source = "127.0.1.1:5060".parse().unwrap();
        let mut message = Vec::new();
        let template = Template::new(&request("INVITE", "sip:u{peer}@example.org", source, 100));
        template.write(7, Serial::default(), &mut message);
        let parsed = ringway_sip::Message::parse(&message, &ringway_sip::Limits::default()).unwrap();
        assert_eq!(parsed.body().len(), 100);
        assert!(message.starts_with(b"INVITE sip:u0000007@example.org SIP/2.0\r\n"));
    }
}
