//! CPU time of the called side of a TLS connection, in memory.

use crate::machine::{SERVER_CPU, pin_to, thread_cpu_ns};
use anyhow::{Context as _, Result, anyhow, ensure};
use ringway_stream::{Decoded, Layer};
use ringway_tls::{InlineTls, Observer, Role, TlsFiles, TlsLayer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// CPU time in µs of one connection with a request and its response: handshake, both records, and the memory. The caller uses
/// the files of `caller` and requires the certificate of `name`; `None`: of 127.0.0.1. Median of `count` connections.
///
/// # Errors
/// Files that cannot be used; handshakes that fail, or are not resumed although both files have a session timeout.
pub fn called_us(called: &TlsFiles, caller: &TlsFiles, name: Option<&str>, count: usize) -> Result<f64> {
    let [server, client] = sides(called, caller)?;
    // The first connection makes the session.
    connection_us(&server, &client, name)?;
    let mut taken = (0..count).map(|_| connection_us(&server, &client, name)).collect::<Result<Vec<_>>>()?;
    check(&server, caller, count)?;
    middle(&mut taken)
}

/// As [`called_us`], at a rate a second: the called side has [`SERVER_CPU`] and sleeps before each flight, as a server does that
/// is not saturated. Its waking up is not counted, its cold caches are.
///
/// # Errors
/// As [`called_us`]; there is no such processor.
pub fn called_us_at(
    rate: u32,
    called: &TlsFiles,
    caller: &TlsFiles,
    name: Option<&str>,
    count: usize,
) -> Result<f64> {
    let [server, client] = sides(called, caller)?;
    let interval = Duration::from_secs(1) / rate.max(1);
    let mut taken = thread::scope(|scope| -> Result<Vec<f64>> {
        let (to_called, from_caller) = channel();
        let (to_caller, from_called) = channel();
        let server = &server;
        let called = scope.spawn(move || serve(server, &from_caller, &to_caller));
        let begun = Instant::now();
        for number in 0..=count as u32 {
            request(&client, name, &to_called, &from_called)?;
            thread::sleep((interval * number).saturating_sub(begun.elapsed()));
        }
        drop(to_called);
        called.join().map_err(|_| anyhow!("the called side panicked"))?
    })?;
    check(&server, caller, count)?;
    // The first connection makes the session.
    taken.remove(0);
    middle(&mut taken)
}

fn sides(called: &TlsFiles, caller: &TlsFiles) -> Result<[InlineTls; 2]> {
    let observer: Arc<dyn Observer> = Arc::new(Silent);
    let server = InlineTls::new(called.load()?, Arc::clone(&observer));
    Ok([server, InlineTls::new(caller.load()?, observer)])
}

/// Checks that all connections after the first one were resumed, or none.
fn check(server: &InlineTls, caller: &TlsFiles, count: usize) -> Result<()> {
    let resumed = server.counters().counts().tls_accepted_resumed;
    let expected = if caller.session_timeout.is_some() { count as u64 } else { 0 };
    ensure!(resumed == expected, "{resumed} of {count} handshakes were resumed");
    Ok(())
}

fn middle(taken: &mut [f64]) -> Result<f64> {
    taken.sort_by(f64::total_cmp);
    taken.get(taken.len() / 2).copied().context("a measurement needs connections")
}

/// Called side: one connection after another, each until an empty flight. Returns the CPU time of each in µs.
fn serve(server: &InlineTls, from: &Receiver<Vec<u8>>, to: &Sender<Vec<u8>>) -> Result<Vec<f64>> {
    pin_to(SERVER_CPU)?;
    let mut taken = Vec::new();
    let mut open: Option<(TlsLayer, u64)> = None;
    while let Ok(bytes) = from.recv() {
        let begun = thread_cpu_ns();
        let (mut layer, before) = match open.take() {
            Some(open) => open,
            None => (server.server(REMOTE).context("the server has no certificate")?, 0),
        };
        if bytes.is_empty() {
            drop(layer);
            taken.push((before + thread_cpu_ns() - begun) as f64 / 1000.0);
            continue;
        }
        let (mut back, mut received) = (Vec::new(), 0);
        let mut decoded = |part: Decoded<'_>| {
            if let Decoded::Bytes(bytes) = part {
                received += bytes.len();
            }
        };
        layer.decode(&bytes, &mut decoded, &mut back)?;
        if received > 0 {
            layer.encode(&[b'x'; MESSAGE_BYTES], &mut back)?;
        }
        open = Some((layer, before + thread_cpu_ns() - begun));
        if to.send(back).is_err() {
            break;
        }
    }
    Ok(taken)
}

/// Caller of one connection with one request.
fn request(
    client: &InlineTls,
    name: Option<&str>,
    to: &Sender<Vec<u8>>,
    from: &Receiver<Vec<u8>>,
) -> Result<()> {
    let mut layer = client.client(REMOTE, name).context("the name of the server is not valid")?;
    let (mut forth, mut received) = (Vec::new(), 0);
    layer.start(&mut forth);
    layer.encode(&[b'x'; MESSAGE_BYTES], &mut forth)?;
    while !forth.is_empty() {
        to.send(std::mem::take(&mut forth)).context("the called side ended")?;
        let back = from.recv().context("the called side ended")?;
        let mut decoded = |part: Decoded<'_>| {
            if let Decoded::Bytes(bytes) = part {
                received += bytes.len();
            }
        };
        layer.decode(&back, &mut decoded, &mut forth)?;
    }
    ensure!(received == MESSAGE_BYTES, "the handshake did not end");
    to.send(Vec::new()).context("the called side ended")
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
        let caller = caller.client(REMOTE, name).context("the name of the server is not valid")?;
        let begun = thread_cpu_ns();
        let called = called.server(REMOTE).context("the server has no certificate")?;
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
/// Address of the other side, for reports.
const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5061);

struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}
