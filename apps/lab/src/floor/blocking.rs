//! Floor for SIPp at ordinary rates: a thread for each socket that blocks in recvfrom or read, and one system call for
//! each message that it sends.

use anyhow::{Context, Result, bail};
use memchr::memmem;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

/// Size of the buffer of a socket, larger than what SIPp sends in one call.
const BUFFER_BYTES: usize = 65_536;

/// Sends datagrams back.
pub(super) fn echo(socket: &UdpSocket) -> Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let Some((bytes, sender)) = received(socket, &mut buffer)? else { continue };
        send(socket, bytes, sender)?;
    }
}

/// Relays datagrams between the two `phones`; answers an INVITE with a 100 if it is `stateful`.
pub(super) fn relay(socket: &UdpSocket, phones: &[u16], stateful: bool) -> Result<()> {
    let [caller, callee] = pair(phones)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut trying = Vec::new();
    loop {
        let Some((bytes, sender)) = received(socket, &mut buffer)? else { continue };
        if stateful && write_trying(bytes, &mut trying) {
            send(socket, &trying, sender)?;
        }
        send(socket, bytes, if sender == caller { callee } else { caller })?;
    }
}

/// Echoes the bytes of connections.
pub(super) fn echo_streams(listener: &TcpListener) -> Result<()> {
    loop {
        let mut stream = accepted(listener)?;
        thread::spawn(move || copy(&mut stream, None));
    }
}

/// Connects each accepted connection to the second of the `phones` and relays the bytes in both directions; answers an
/// INVITE with a 100.
pub(super) fn relay_streams(listener: &TcpListener, phones: &[u16]) -> Result<()> {
    let [_, callee] = pair(phones)?;
    loop {
        let mut from = accepted(listener)?;
        let mut to = TcpStream::connect(callee).context("connect to the called phone")?;
        to.set_nodelay(true).context("set a connection")?;
        let (mut back_from, mut back_to) = (
            to.try_clone().context("duplicate a connection")?,
            from.try_clone().context("duplicate a connection")?,
        );
        thread::spawn(move || copy(&mut back_from, Some(&mut back_to)));
        thread::spawn(move || copy(&mut from, Some(&mut to)));
    }
}

/// Copies what arrives on `from` to `to`, or back without `to`, until one of them is closed. Then the thread stays, as the
/// CPU time of a thread that has ended is not counted.
fn copy(from: &mut TcpStream, mut to: Option<&mut TcpStream>) -> ! {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut trying = Vec::new();
    loop {
        let count = from.read(&mut buffer).unwrap_or_default();
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        let sent = match &mut to {
            None => from.write_all(bytes),
            Some(to) if write_trying(bytes, &mut trying) => {
                from.write_all(&trying).and_then(|()| to.write_all(bytes))
            }
            Some(to) => to.write_all(bytes),
        };
        if sent.is_err() {
            break;
        }
    }
    // The other direction ends as well; a connection that is closed already gives an error.
    for stream in [Some(from), to].into_iter().flatten() {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    loop {
        thread::park();
    }
}

fn accepted(listener: &TcpListener) -> Result<TcpStream> {
    let (stream, _) = listener.accept().context("accept on the floor's socket")?;
    stream.set_nodelay(true).context("set a connection")?;
    Ok(stream)
}

fn pair(phones: &[u16]) -> Result<[SocketAddr; 2]> {
    match phones {
        &[caller, callee] => Ok([caller, callee].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
        _ => bail!("a blocking relay needs the ports of two phones, not {}", phones.len()),
    }
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
    fn a_relay_carries_both_ways_and_answers_the_invite() {
        let bind = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (relaying, caller, callee) = (bind(), bind(), bind());
        let to = relaying.local_addr().unwrap();
        let ports = [&caller, &callee].map(|socket| socket.local_addr().unwrap().port());
        thread::spawn(move || relay(&relaying, &ports, true));
        let mut buffer = [0; 256];
        caller.send_to(b"INVITE sip:a SIP/2.0\r\nVia: 1\r\nContent-Type: x\r\n\r\n", to).unwrap();
        let count = caller.recv(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"SIP/2.0 100 Trying\r\nVia: 1\r\n"));
        let count = callee.recv(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"INVITE "));
        callee.send_to(b"SIP/2.0 200 OK\r\n\r\n", to).unwrap();
        let count = caller.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"SIP/2.0 200 OK\r\n\r\n");
    }
}
