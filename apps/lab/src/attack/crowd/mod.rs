//! Calls of many users behind one address at a steady rate, and what became of each of their requests.
//!
//! Every fourth caller cancels while the phone rings; the others talk for a time and hang up. Requests are retransmitted as RFC 3261 says, so
//! that a request which the server drops shows.

mod callers;

use super::message::{Serial, respond};
use super::script::{T1, T2, bind};
use anyhow::{Context, Result};
use callers::Callers;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Load of a crowd.
#[derive(Clone, Copy, Debug)]
pub struct CrowdPlan {
    /// The server.
    pub server: SocketAddrV4,
    /// Calls a second.
    pub rate: u32,
    /// Time during which calls begin.
    pub length: Duration,
    /// Time from the answer to the BYE.
    pub talk: Duration,
    /// Number of callers: users with the numbers from 0 on.
    pub users: u32,
    /// The called user.
    pub callee: u32,
}

/// A port of all callers, and one of the called phone.
pub struct Crowd {
    callers: (UdpSocket, SocketAddrV4),
    phone: (UdpSocket, SocketAddrV4),
}

/// Requests of one kind in admitted calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of requests.
    pub requests: u64,
    /// Number of those that had to be sent again.
    pub again: u64,
    /// Number of those that were refused, or never answered. Of ACKs those that did not arrive.
    pub failed: u64,
}

/// Results of the requests.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Calls that began.
    pub offered: u64,
    /// Calls that rang, or were answered.
    pub admitted: u64,
    /// Other calls, by the status of their final response; 0 without one.
    pub refused: BTreeMap<u16, u64>,
    /// ACKs of answered calls.
    pub acks: Sent,
    /// BYEs.
    pub byes: Sent,
    /// CANCELs.
    pub cancels: Sent,
}

impl Crowd {
    /// Binds a port for all callers on `callers`, and one of the called phone on `phone`.
    pub fn bind(callers: Ipv4Addr, phone: Ipv4Addr) -> Result<Self> {
        let open = |ip| {
            let (socket, address) = bind(ip)?;
            socket.set_nonblocking(true).context("set a socket")?;
            Ok::<_, anyhow::Error>((socket, address))
        };
        Ok(Self { callers: open(callers)?, phone: open(phone)? })
    }

    /// Address of the called phone.
    pub const fn phone(&self) -> SocketAddrV4 {
        self.phone.1
    }

    /// Makes the calls, and waits until all have ended.
    pub fn run(&self, plan: CrowdPlan) -> Result<Outcomes> {
        let (mut callers, mut phone) = (Callers::new(&self.callers, plan), Phone::new(&self.phone));
        let begun = Instant::now();
        let (mut number, mut next_look, mut next_line) = (0, begun, Duration::ZERO);
        let mut room = [0; 65_536];
        loop {
            let now = Instant::now();
            let elapsed = now - begun;
            let due = elapsed.min(plan.length).as_millis() * u128::from(plan.rate) / 1000;
            while u128::from(number) < due {
                callers.begin(number, now)?;
                number += 1;
            }
            while let Some((length, _)) = receive(&self.callers.0, &mut room)? {
                callers.on_response(room.get(..length).unwrap_or_default(), now)?;
            }
            while let Some((length, from)) = receive(&self.phone.0, &mut room)? {
                phone.on_request(room.get(..length).unwrap_or_default(), from, now)?;
            }
            if now >= next_look {
                next_look = now + LOOK_INTERVAL;
                callers.look(now)?;
                phone.look(now)?;
            }
            if elapsed >= next_line {
                next_line = elapsed + Duration::from_secs(10);
                eprintln!(
                    "  crowd: {} of {} s, {} calls open",
                    elapsed.as_secs(),
                    plan.length.as_secs(),
                    callers.open()
                );
            }
            if elapsed >= plan.length && callers.open() == 0 && phone.unacknowledged() == 0 {
                let (again, failed) = phone.acks();
                let mut outcomes = callers.into_outcomes();
                (outcomes.acks.again, outcomes.acks.failed) = (again, failed);
                return Ok(outcomes);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A message that is sent again until its answer (RFC 3261 §17.1).
struct Pending {
    bytes: Vec<u8>,
    to: SocketAddr,
    next: Instant,
    interval: Duration,
    interval_max: Duration,
    until: Instant,
    was_repeated: bool,
}

impl Pending {
    /// Sends a message for the first time.
    fn send(
        socket: &UdpSocket,
        bytes: Vec<u8>,
        to: SocketAddr,
        (now, interval_max): (Instant, Duration),
    ) -> Result<Self> {
        send(socket, &bytes, to)?;
        let (next, until) = (now + T1, now + 64 * T1);
        Ok(Self { bytes, to, next, interval: T1, interval_max, until, was_repeated: false })
    }

    /// Sends it again if it is due. False: its time is over.
    fn repeat(&mut self, socket: &UdpSocket, now: Instant) -> Result<bool> {
        if self.until <= now {
            return Ok(false);
        }
        if self.next <= now {
            send(socket, &self.bytes, self.to)?;
            self.interval = (self.interval * 2).min(self.interval_max);
            (self.next, self.was_repeated) = (now + self.interval, true);
        }
        Ok(true)
    }
}

/// Number of the call in the Call-ID of a message of a crowd.
fn number_of(message: &[u8]) -> Option<u32> {
    super::message::value(message, "Call-ID")?.strip_prefix(CALL_ID)?.parse().ok()
}

/// True for a call that its caller cancels.
const fn is_cancelled(number: u32) -> bool {
    number.is_multiple_of(4)
}

fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> Result<()> {
    match socket.send_to(bytes, to) {
        // A datagram that the kernel does not take now is sent again as if it was lost.
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error).context("send to the server"),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn receive(socket: &UdpSocket, room: &mut [u8]) -> Result<Option<(usize, SocketAddr)>> {
    match socket.recv_from(room) {
        Ok(received) => Ok(Some(received)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("receive from the server (is it still running?)"),
    }
}

struct Phone<'c> {
    socket: &'c UdpSocket,
    address: SocketAddrV4,
    calls: HashMap<u32, Incoming>,
    /// Answered calls whose ACK came after a repeat of the 200, and those whose ACK did not come.
    again: u64,
    failed: u64,
}

enum Incoming {
    /// INVITE of a call that will be cancelled, and the tag of its responses.
    Ringing(Vec<u8>),
    /// Final response until its ACK.
    Answered(Pending),
    Acknowledged,
}

impl<'c> Phone<'c> {
    fn new((socket, address): &'c (UdpSocket, SocketAddrV4)) -> Self {
        Self { socket, address: *address, calls: HashMap::new(), again: 0, failed: 0 }
    }

    /// Number of final responses without an ACK.
    fn unacknowledged(&self) -> usize {
        self.calls.values().filter(|call| matches!(call, Incoming::Answered(_))).count()
    }

    /// Number of ACKs that needed a repeated 200, and of those that did not come.
    const fn acks(&self) -> (u64, u64) {
        (self.again, self.failed)
    }

    fn on_request(&mut self, request: &[u8], from: SocketAddr, now: Instant) -> Result<()> {
        let Some(number) = number_of(request) else { return Ok(()) };
        let method = request.split(|&byte| byte == b' ').next().unwrap_or_default();
        match (method, self.calls.remove(&number)) {
            (b"ACK", Some(Incoming::Answered(answer))) => {
                self.again += u64::from(answer.was_repeated && !is_cancelled(number));
                self.calls.insert(number, Incoming::Acknowledged);
            }
            (b"INVITE", None) if is_cancelled(number) => {
                send(self.socket, &self.response(request, b"180 Ringing"), from)?;
                self.calls.insert(number, Incoming::Ringing(request.to_vec()));
            }
            (b"INVITE", None) => {
                send(self.socket, &self.response(request, b"180 Ringing"), from)?;
                self.answer(number, request, b"200 OK", (from, now))?;
            }
            (b"CANCEL", Some(Incoming::Ringing(invite))) => {
                send(self.socket, &self.response(request, b"200 OK"), from)?;
                self.answer(number, &invite, b"487 Request Terminated", (from, now))?;
            }
            (b"ACK" | b"INVITE" | b"SIP/2.0", Some(call)) => drop(self.calls.insert(number, call)),
            (b"ACK" | b"SIP/2.0", None) => {}
            (_, call) => {
                send(self.socket, &self.response(request, b"200 OK"), from)?;
                self.calls.extend(call.map(|call| (number, call)));
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        number: u32,
        invite: &[u8],
        status: &[u8],
        (to, now): (SocketAddr, Instant),
    ) -> Result<()> {
        let answer = Pending::send(self.socket, self.response(invite, status), to, (now, T2))?;
        self.calls.insert(number, Incoming::Answered(answer));
        Ok(())
    }

    fn response(&self, request: &[u8], status: &[u8]) -> Vec<u8> {
        let mut response = Vec::with_capacity(1024);
        respond(request, status, Serial::default(), &mut response);
        let end = format!("Contact: <sip:phone@{}>\r\nContent-Length: 0\r\n\r\n", self.address);
        response.extend_from_slice(end.as_bytes());
        response
    }

    /// Repeats the final responses that are due.
    fn look(&mut self, now: Instant) -> Result<()> {
        for (&number, call) in &mut self.calls {
            let Incoming::Answered(answer) = call else { continue };
            if !answer.repeat(self.socket, now)? {
                self.failed += u64::from(!is_cancelled(number));
                *call = Incoming::Acknowledged;
            }
        }
        Ok(())
    }
}

/// Prefix of the Call-IDs.
const CALL_ID: &str = "crowd-";
/// Time between two searches for what is due.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
