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
    connection_us(&server, &client, name)?;
    let mut taken = (0..count).map(|_| connection_us(&server, &client, name)).collect::<Result<Vec<_>>>()?;
    let resumed = server.counters().counts().tls_accepted_resumed;
    let expected = if caller.session_timeout.is_some() { count as u64 } else { 0 };
    ensure!(resumed == expected, "{resumed} of {count} handshakes were resumed");
    taken.sort_by(f64::total_cmp);
    taken.get(count / 2).copied().context("a measurement needs connections")
}

fn connection_us(called: &InlineTls, caller: &InlineTls, name: Option<&str>) -> Result<f64> {
    let ends = Ends::connect(called, caller, name, &[b'x'; MESSAGE_BYTES])?;
    let begun = thread_cpu_ns();
    drop(ends.called);
    Ok((ends.called_ns + thread_cpu_ns() - begun) as f64 / 1000.0)
}

/// Both ends of a connection in memory.
pub struct Ends {
    /// The end that dialled.
    pub caller: TlsLayer,
    /// The end that was dialled.
    pub called: TlsLayer,
    /// CPU time of the called end.
    pub called_ns: u64,
}

impl Ends {
    /// Connects. If there is a `request`, the caller sends it with the end of its handshake, and the called end answers with
    /// the same bytes. The caller requires the certificate of `name`; `None`: of 127.0.0.1.
    ///
    /// # Errors
    /// The handshake failed; the called side has no certificate.
    pub fn connect(
        called: &InlineTls,
        caller: &InlineTls,
        name: Option<&str>,
        request: &[u8],
    ) -> Result<Self> {
        let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, 5061));
        let caller = caller.client(remote, name).context("the name of the server is not valid")?;
        let begun = thread_cpu_ns();
        let called = called.server(remote).context("the server has no certificate")?;
        let mut ends = Self { caller, called, called_ns: thread_cpu_ns() - begun };
        let (mut forth, mut back, mut received) = (Vec::new(), Vec::new(), 0);
        ends.caller.start(&mut forth);
        if !request.is_empty() {
            ends.caller.encode(request, &mut forth)?;
        }
        while !forth.is_empty() {
            let bytes = std::mem::take(&mut forth);
            let begun = thread_cpu_ns();
            let before = received;
            let mut decoded = |part: Decoded<'_>| {
                if let Decoded::Bytes(bytes) = part {
                    received += bytes.len();
                }
            };
            ends.called.decode(&bytes, &mut decoded, &mut back)?;
            if received > before {
                ends.called.encode(request, &mut back)?;
            }
            ends.called_ns += thread_cpu_ns() - begun;
            ends.caller.decode(&std::mem::take(&mut back), &mut |_| {}, &mut forth)?;
        }
        let is_open = !ends.called.is_handshaking() && !ends.caller.is_handshaking();
        ensure!(is_open && received == request.len(), "the handshake did not end");
        Ok(ends)
    }
}

/// Bytes of a request and of a response.
const MESSAGE_BYTES: usize = 400;

struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}
