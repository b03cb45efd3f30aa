//! Floor for the load generator at ordinary rates: a thread for each socket that blocks in recvfrom or read, and one system
//! call for each message that it sends.

use anyhow::{Context, Result};
use memchr::memmem;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Size of the buffer of a socket, larger than what the generator sends in one call.
const BUFFER_BYTES: usize = 65_536;

const REGISTER: &[u8] = b"REGISTER sip:";
/// Status line of an answer.
pub(super) const OK: &[u8] = b"SIP/2.0 200 OK";
const CHALLENGE: &[u8] = b"SIP/2.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"example.org\", \
    nonce=\"00010203040506070809101112131415161718192021\", algorithm=MD5, qop=\"auth\"";

/// Answers each REGISTER with `line` and its own headers.
pub(super) fn answer(socket: &UdpSocket, line: fn(&[u8]) -> &'static [u8]) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut answers = Vec::new();
    loop {
        let Some((bytes, sender)) = received(socket, &mut buffer)? else { continue };
        write_answers(bytes, line(bytes), &mut answers);
        send(socket, &answers, sender)?;
    }
}

/// Status line of every REGISTER.
pub(super) const fn ok(_register: &[u8]) -> &'static [u8] {
    OK
}

/// Status line of a REGISTER that must have credentials; they are not checked.
pub(super) fn ok_with_credentials(register: &[u8]) -> &'static [u8] {
    if memmem::find(register, b"\r\nAuthorization:").is_some() { OK } else { CHALLENGE }
}

/// Relays datagrams between the phone that registers and the caller; answers an INVITE with a 100 if it is `stateful`.
pub(super) fn relay(socket: &UdpSocket, stateful: bool) -> Result<()> {
    let (mut phone, mut caller) = (None, None);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut answers = Vec::new();
    loop {
        let Some((bytes, sender)) = received(socket, &mut buffer)? else { continue };
        let to = if bytes.starts_with(REGISTER) {
            phone = Some(sender);
            write_answers(bytes, OK, &mut answers);
            send(socket, &answers, sender)?;
            continue;
        } else if phone == Some(sender) {
            caller
        } else {
            caller = Some(sender);
            if stateful && write_trying(bytes, &mut answers) {
                send(socket, &answers, sender)?;
            }
            phone
        };
        if let Some(to) = to {
            send(socket, bytes, to)?;
        }
    }
}

/// Answers each REGISTER of a connection with 200 and its own headers.
pub(super) fn answer_streams(listener: &TcpListener) -> Result<()> {
    loop {
        let mut stream = accepted(listener)?;
        thread::spawn(move || {
            let mut answers = Vec::new();
            read_all(&mut stream, |stream, bytes| {
                write_answers(bytes, OK, &mut answers);
                stream.write_all(&answers)
            })
        });
    }
}

/// Relays the bytes of connections between the one of the phone that registers and that of the caller; answers an INVITE with
/// a 100.
pub(super) fn relay_streams(listener: &TcpListener) -> Result<()> {
    let ends = Arc::new(Ends::default());
    loop {
        let mut stream = accepted(listener)?;
        let ends = Arc::clone(&ends);
        thread::spawn(move || {
            let (mut to, mut is_phone) = (None, None);
            let mut answers = Vec::new();
            read_all(&mut stream, |stream, bytes| {
                let is_register = bytes.starts_with(REGISTER);
                let is_phone = *is_phone.get_or_insert(is_register);
                let [own, other] =
                    if is_phone { [&ends.phone, &ends.caller] } else { [&ends.caller, &ends.phone] };
                if to.is_none() {
                    *locked(own) = Some(stream.try_clone()?);
                }
                if is_register {
                    write_answers(bytes, OK, &mut answers);
                    return stream.write_all(&answers);
                }
                if !is_phone && write_trying(bytes, &mut answers) {
                    stream.write_all(&answers)?;
                }
                if to.is_none() {
                    to = locked(other).as_ref().map(TcpStream::try_clone).transpose()?;
                }
                to.as_mut().map_or(Ok(()), |to| to.write_all(bytes))
            })
        });
    }
}

/// Connections of a relay.
#[derive(Default)]
struct Ends {
    phone: Mutex<Option<TcpStream>>,
    caller: Mutex<Option<TcpStream>>,
}

fn locked(end: &Mutex<Option<TcpStream>>) -> MutexGuard<'_, Option<TcpStream>> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes what arrives on `stream` to `each` until it is closed or fails. Then the thread stays, as the CPU time of a thread
/// that has ended is not counted.
fn read_all(stream: &mut TcpStream, mut each: impl FnMut(&mut TcpStream, &[u8]) -> std::io::Result<()>) -> ! {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = stream.read(&mut buffer).unwrap_or_default();
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        if each(stream, bytes).is_err() {
            break;
        }
    }
    // A connection that is closed already gives an error.
    let _ = stream.shutdown(std::net::Shutdown::Both);
    loop {
        thread::park();
    }
}

fn accepted(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().context("accept on the floor's socket")?;
    stream.set_nodelay(true).context("set a connection")?;
    Ok(stream)
}

/// A datagram; `None` if a phone has closed its port.
fn received<'b>(socket: &UdpSocket, buffer: &'b mut [u8]) -> Result<Option<(&'b [u8], SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok((count, sender)) => Ok(Some((buffer.get(..count).unwrap_or_default(), sender))),
        Err(error) if is_refused(&error) => Ok(None),
        Err(error) => Err(error).context("receive on the floor's socket"),
    }
}

fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> Result<()> {
    match socket.send_to(bytes, to) {
        Ok(_) => Ok(()),
        Err(error) if is_refused(&error) => Ok(()),
        Err(error) => Err(error).context("send from the floor's socket"),
    }
}

fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

/// Writes `bytes` with `line` in place of the first line of each REGISTER.
pub(super) fn write_answers(bytes: &[u8], line: &[u8], answers: &mut Vec<u8>) {
    answers.clear();
    let mut rest = bytes;
    while let Some(start) = memmem::find(rest, REGISTER) {
        let (before, request) = rest.split_at(start);
        let end = memmem::find(request, b"\r\n").unwrap_or(request.len());
        answers.extend_from_slice(before);
        answers.extend_from_slice(line);
        rest = request.split_at(end).1;
    }
    answers.extend_from_slice(rest);
}

/// Writes a 100 for each INVITE in `bytes`: its headers without those of the body. False if there is none.
fn write_trying(bytes: &[u8], trying: &mut Vec<u8>) -> bool {
    trying.clear();
    let mut rest = bytes;
    loop {
        if rest.starts_with(b"INVITE ") {
            let start = memmem::find(rest, b"\r\n").unwrap_or(rest.len());
            let end = memmem::find(rest, b"\r\nContent-Type:").unwrap_or(rest.len());
            trying.extend_from_slice(b"SIP/2.0 100 Trying");
            trying.extend_from_slice(rest.get(start..end).unwrap_or_default());
            trying.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
        }
        let Some(next) = rest.get(1..).and_then(|after| memmem::find(after, b"\nINVITE ")) else { break };
        rest = rest.get(next + 2..).unwrap_or_default();
    }
    !trying.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Flow, Plan, Session, Transport, Users};
    use std::time::Duration;

    #[test]
    fn each_invite_of_a_read_gets_a_100_without_a_body() {
        let invite = "INVITE sip:a SIP/2.0\r\nVia: 1\r\nContent-Type: x\r\nContent-Length: 2\r\n\r\n\r\n";
        let mut trying = Vec::new();
        assert!(write_trying(format!("{invite}{invite}").as_bytes(), &mut trying));
        let one = "SIP/2.0 100 Trying\r\nVia: 1\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&trying), format!("{one}{one}"));
        assert!(!write_trying(b"ACK sip:a SIP/2.0\r\nCSeq: 1 INVITE \r\n\r\n", &mut trying));
    }

    #[test]
    fn each_register_of_a_read_is_answered_with_its_headers() {
        let mut answers = Vec::new();
        let register = "REGISTER sip:a SIP/2.0\r\nCSeq: 1 REGISTER\r\n\r\n";
        write_answers(format!("{register}{register}").as_bytes(), ok(b""), &mut answers);
        let one = "SIP/2.0 200 OK\r\nCSeq: 1 REGISTER\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&answers), format!("{one}{one}"));
        assert!(ok_with_credentials(register.as_bytes()).starts_with(b"SIP/2.0 401 "));
        assert_eq!(ok_with_credentials(b"REGISTER sip:a SIP/2.0\r\nAuthorization: Digest x\r\n"), OK);
    }

    /// Two loads of one session, which all succeed. Each attempt has users of its own, so that none finds its
    /// users busy, however long this process has to wait for the processor.
    fn assert_accepted(flow: Flow, transport: Transport, target: SocketAddr) {
        let users = |first| Users::by_rule("u", 7, first, 40, "secret").unwrap();
        let plan = Plan {
            transport,
            is_outbound_proxy: true,
            rate: 200.0,
            length: Duration::from_millis(100),
            domain: "example.org".to_owned(),
            ..Plan::new(target, flow, users(0), users(40))
        };
        let session = Session::open(&plan).unwrap();
        let (first, session) = session.start(200.0, plan.length).unwrap().finish_session().unwrap();
        let second = session.start(400.0, plan.length).unwrap().finish().unwrap();
        assert_eq!(
            (first.successes(), second.successes()),
            (20, 40),
            "{:?} {:?}",
            first.outcomes(),
            second.outcomes()
        );
    }

    fn at_socket(serve: impl FnOnce(UdpSocket) -> Result<()> + Send + 'static) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = socket.local_addr().unwrap();
        thread::spawn(move || serve(socket));
        target
    }

    fn at_listener(serve: impl FnOnce(TcpListener) -> Result<()> + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        thread::spawn(move || serve(listener));
        target
    }

    #[test]
    fn the_generator_accepts_the_floor_over_udp() {
        assert_accepted(Flow::Update, Transport::Udp, at_socket(|socket| answer(&socket, ok)));
        assert_accepted(
            Flow::Update,
            Transport::Udp,
            at_socket(|socket| answer(&socket, ok_with_credentials)),
        );
        assert_accepted(Flow::Call, Transport::Udp, at_socket(|socket| relay(&socket, true)));
        assert_accepted(Flow::Call, Transport::Udp, at_socket(|socket| relay(&socket, false)));
    }

    #[test]
    fn the_generator_accepts_the_floor_over_tcp() {
        assert_accepted(Flow::Update, Transport::Tcp, at_listener(|listener| answer_streams(&listener)));
        assert_accepted(Flow::Call, Transport::Tcp, at_listener(|listener| relay_streams(&listener)));
    }
}
