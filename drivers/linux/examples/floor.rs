//! Bare echo of datagrams: cost of receiving and sending a batch without further work, as the lower bound of
//! measurements.
//!
//! Prints its port, and echoes until it is killed. Argument: datagrams per batch, 1 to 64, default 32.

use ringway_linux::sys::{ReceiveBatch, SendBatch, Wait, set_buffers};
use std::error::Error;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd;

fn main() -> Result<(), Box<dyn Error>> {
    let batch = std::env::args().nth(1).map_or(Ok(32), |text| text.parse())?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    set_buffers(socket.as_fd(), 8 << 20);
    println!("{}", socket.local_addr()?.port());
    let (mut receive, mut send) = (ReceiveBatch::new(batch), SendBatch::new(batch));
    loop {
        let count = receive.receive(socket.as_fd(), Wait::ForOne)?;
        let mut sending = send.begin();
        for (from, bytes) in (0..count).filter_map(|index| receive.datagram(index)) {
            sending.push(from, bytes, 0);
        }
        while sending.left() > 0 {
            match sending.send(socket.as_fd()) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
