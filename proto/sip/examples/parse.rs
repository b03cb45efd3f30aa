//! CPU time of [`Message::parse`], of this thread: `cargo run --release -p ringway-sip --example parse`.
//!
//! The argument is the number of times that each message is read; few are enough for a tool that counts instructions.
//! The messages are a REGISTER of 551 bytes and an INVITE of 788 bytes, as phones send them.

use ringway_sip::{Limits, Message};
use std::hint::black_box;
use std::io;

const REPEATS: usize = 3;

fn main() -> io::Result<()> {
    let limits = Limits::default();
    let rounds =
        std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(1_000_000).max(1_u64);
    for (name, text) in [("REGISTER", REGISTER), ("INVITE", INVITE)] {
        let message = text.replace('\n', "\r\n").into_bytes();
        let mut best = u64::MAX;
        for _ in 0..REPEATS {
            let start = thread_cpu_ns()?;
            for _ in 0..rounds {
                match Message::parse(black_box(&message), &limits) {
                    Ok(message) => {
                        black_box(&message);
                    }
                    Err(rejected) => return Err(io::Error::other(rejected.reason.phrase())),
                }
            }
            best = best.min(thread_cpu_ns()? - start);
        }
        println!("{name} {} bytes: {} ns", message.len(), best / rounds);
    }
    Ok(())
}

/// The first number of schedstat is the thread's time on a CPU in nanoseconds. It is brought up to date a few hundred times
/// a second, so what is measured has to be long.
fn thread_cpu_ns() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    text.split(' ').next().and_then(|number| number.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
}

const REGISTER: &str = "REGISTER sip:example.org SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:30000;branch=z9hG4bKn0123456789ab;rport
Max-Forwards: 70
From: <sip:u0000001@example.org>;tag=r0000001
To: <sip:u0000001@example.org>
Call-ID: reg-u0000001-3f1c94ab@127.0.0.1
CSeq: 1000001 REGISTER
Contact: <sip:u0000001@127.0.0.1:30000>
Expires: 3600
Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK
Supported: replaces, outbound, path, gruu, timer
User-Agent: bench phone for measurements 0.1 (x86_64/linux), one of a million of them
Content-Length: 0

";

const INVITE: &str = "INVITE sip:u0000002@example.org SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:30000;branch=z9hG4bKi0123456789ab;rport
Max-Forwards: 70
From: <sip:u0000001@example.org>;tag=a0123456789ab
To: <sip:u0000002@example.org>
Call-ID: 0123456789ab@127.0.0.1
CSeq: 1000001 INVITE
Contact: <sip:u0000001@127.0.0.1:30000>
Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK
Supported: replaces, outbound, path, gruu, timer
User-Agent: bench phone for measurement 0.1 (x86_64/linux)
Content-Type: application/sdp
Content-Length: 245

v=0
o=u0000001 2890844526 2890844526 IN IP4 127.0.0.1
s=a call of the bench
c=IN IP4 127.0.0.1
t=0 0
m=audio 30002 RTP/AVP 0 8 101
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000
a=sendrecv
a=ptime:20
a=x
";
