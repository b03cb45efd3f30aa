//! CPU time of the called side of a TLS connection, in memory.

use crate::machine::thread_cpu_ns;
use anyhow::{Context as _, Result, ensure};
use ringway_stream::{Decoded, Layer};
use ringway_tls::{InlineTls, Observer, Role, TlsFiles, TlsLayer};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// CPU time in µs of one connection with a request and its response: handshake, both records, and the memory. The caller uses
/// the files of `caller` and requires the certificate of `name`; `None`: of 127.0.0.1. Median of `count` connections.
///
/// # Errors
/// Files that cannot be used; handshakes that fail, or are not resumed although both files have a session timeout.
pub fn called_us(called: &TlsFiles, caller: &TlsFiles, name: Option<&str>, count: usize) -> Result<f64> {
    let observer: Arc<dyn Observer> = Arc::new(Silent);
    let server = InlineTls::new(called.load()?, Arc::clone(&observer));
    let client = InlineTls::new(caller.load()?, observer);
    // The first connection makes the session.
    connect(&server, &client, name)?;
    let mut taken = (0..count).map(|_| connect(&server, &client, name)).collect::<Result<Vec<_>>>()?;
    let resumed = server.counters().counts().tls_accepted_resumed;
    let expected = if caller.session_timeout.is_some() { count as u64 } else { 0 };
    ensure!(resumed == expected, "{resumed} of {count} handshakes were resumed");
    taken.sort_by(f64::total_cmp);
    taken.get(count / 2).copied().context("a measurement needs connections")
}

fn connect(server: &InlineTls, client: &InlineTls, name: Option<&str>) -> Result<f64> {
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 5061));
    let mut caller = client.client(remote, name).context("the name of the server is not valid")?;
    let (mut to_called, mut to_caller) = (Vec::new(), Vec::new());
    caller.start(&mut to_called);
    caller.encode(&[b'x'; MESSAGE_BYTES], &mut to_called)?;
    let mut ns = 0;
    let mut called: Option<TlsLayer> = None;
    let mut is_answered = false;
    while !to_called.is_empty() {
        let bytes = std::mem::take(&mut to_called);
        let begun = thread_cpu_ns();
        if called.is_none() {
            called = server.server(remote);
        }
        let called = called.as_mut().context("the server has a certificate")?;
        let mut received = 0;
        let mut decoded = |part: Decoded<'_>| {
            if let Decoded::Bytes(bytes) = part {
                received += bytes.len();
            }
        };
        called.decode(&bytes, &mut decoded, &mut to_caller)?;
        if received > 0 {
            called.encode(&[b'x'; MESSAGE_BYTES], &mut to_caller)?;
            is_answered = true;
        }
        ns += thread_cpu_ns() - begun;
        caller.decode(&std::mem::take(&mut to_caller), &mut |_| {}, &mut to_called)?;
    }
    ensure!(is_answered, "the handshake did not end");
    let begun = thread_cpu_ns();
    drop(called);
    Ok((ns + thread_cpu_ns() - begun) as f64 / 1000.0)
}

/// Bytes of a request and of a response.
const MESSAGE_BYTES: usize = 400;

struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}
