//! CPU time of the load generator for each new TLS connection, with a request over it, to a running server.
//!
//! Usage: `tls_connections HOST:PORT CA_FILE RATE SECONDS full|resumed [1.2|1.3]`.

use anyhow::{Context, Result, anyhow, bail};
use ringway_lab::load::{ConnectionUse, Flow, LoadTls, Plan, Transport, Users, run};
use ringway_tls::{Backend, Observer, Offer, PeerCa, Role, TlsFiles, TlsVersion};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Prints the failures.
struct Printed;

impl Observer for Printed {
    fn failed(&self, remote: SocketAddr, _role: Role, reason: &str) {
        eprintln!("{remote}: {reason}");
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut next = |what: &'static str| words.next().context(what);
    let target: SocketAddr = next("give HOST:PORT")?.parse()?;
    let ca = next("give the file of the authority")?;
    let rate: f64 = next("give connections a second")?.parse()?;
    let seconds: f64 = next("give seconds")?.parse()?;
    let is_full = match next("give full or resumed")?.as_str() {
        "full" => true,
        "resumed" => false,
        other => bail!("{other} is neither full nor resumed"),
    };
    let version =
        next("").ok().map(|name| name.parse::<TlsVersion>().map_err(|error| anyhow!(error))).transpose()?;
    let offer = Offer::new(Backend::Rustls, Vec::new(), version, false);
    let defaults = TlsFiles::default();
    let files = TlsFiles {
        peer_ca: PeerCa::File(ca.into()),
        session_timeout: defaults.session_timeout.filter(|_| !is_full),
        offer: offer.map_err(|error| anyhow!("{error:?}"))?,
        ..defaults
    };
    let users = || Users::by_rule("u", 7, 0, 10_000, "");
    let plan = Plan {
        transport: Transport::Tls,
        tls: Some(LoadTls::load(&files, None, Arc::new(Printed))?),
        connections: ConnectionUse::PerAttempt,
        domain: "example.org".to_owned(),
        rate,
        length: Duration::from_secs_f64(seconds),
        ..Plan::new(target, Flow::Register, users()?, users()?)
    };
    let statistics = run(&plan)?.finish()?;
    let (wire, ended) = (statistics.wire(), statistics.ended().max(1));
    let us = statistics.generator_cpu().as_secs_f64() * 1e6 / ended as f64;
    println!(
        "{} full, {} resumed, {} failed handshakes; {} of {ended} attempts succeeded; {us:.1} µs of CPU for each, {:.0} a second of one core; lag {:?}",
        wire.tls_full,
        wire.tls_resumed,
        wire.tls_failed,
        statistics.successes(),
        1e6 / us,
        statistics.health().lag_p99,
    );
    Ok(())
}
