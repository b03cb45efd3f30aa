//! CPU time of rustls and OpenSSL side by side, in memory: `cargo xtask bench tls-engines`.
//!
//! Does: measures the thread's CPU time of the called side for full and resumed handshakes, and of both directions of a record.
//! The caller is rustls, so that both libraries do the same work; with a legacy suite it is OpenSSL.
//!
//! Does not: open sockets, or measure the caller.

use anyhow::{Context as _, Result, anyhow, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize,
};
use ringway_lab::handshake_cost::Ends;
use ringway_lab::machine::thread_cpu_ns;
use ringway_stream::Layer;
use ringway_tls::{
    Backend, ClientAuth, InlineTls, Observer, Offer, PeerCa, Role, Suite, TlsFiles, TlsVersion,
};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Key of a certificate.
#[derive(Clone, Copy)]
enum Key {
    P256,
    Rsa2048,
}

/// One kind of connections.
struct Case {
    name: &'static str,
    key: Key,
    suite: &'static str,
    is_mutual: bool,
}

const CASES: [Case; 3] = [
    Case { name: "TLS 1.3, P-256", key: Key::P256, suite: "TLS_AES_128_GCM_SHA256", is_mutual: false },
    Case {
        name: "TLS 1.2, RSA-2048",
        key: Key::Rsa2048,
        suite: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        is_mutual: false,
    },
    Case {
        name: "TLS 1.2, P-256, mutual",
        key: Key::P256,
        suite: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        is_mutual: true,
    },
];

/// Suites of the documents, by OpenSSL on both sides.
const LEGACY: [&str; 4] = [
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_NULL_SHA",
];

const ROUNDS: usize = 5;
/// Handshakes of a round.
const FULL: usize = 200;
const RESUMED: usize = 500;
/// Records of a round, and the bytes of one: a SIP request.
const RECORDS: usize = 20_000;
const RECORD_BYTES: usize = 500;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let certificates = Certificates::make(folder.path())?;
    println!("| CPU time of the called side | rustls | OpenSSL | OpenSSL : rustls |\n|---|---|---|---|");
    for case in &CASES {
        let sides = [Backend::Rustls, Backend::OpenSsl]
            .map(|backend| certificates.sides(case, backend, Backend::Rustls));
        let [rustls, openssl] = sides;
        let sides = [rustls?, openssl?];
        for (what, count) in [("full handshake", FULL), ("resumed handshake", RESUMED)] {
            let is_resumed = count == RESUMED;
            let figures = measure(&sides, |sides| sides.handshakes(count, is_resumed))?;
            row(&format!("{}: {what}", case.name), figures, handshake);
        }
        let figures = measure(&sides, Sides::records)?;
        row(&format!("{}: a record of 500 bytes received, another sent", case.name), figures, records);
    }
    println!(
        "\n| OpenSSL on both sides, TLS 1.2, RSA-2048 | full handshake | a record received, another sent |"
    );
    println!("|---|---|---|");
    for suite in LEGACY {
        let case = Case { name: suite, key: Key::Rsa2048, suite, is_mutual: false };
        match certificates.sides(&case, Backend::OpenSsl, Backend::OpenSsl) {
            Ok(sides) => {
                let sides = [sides];
                let [full] = measure(&sides, |sides| sides.handshakes(FULL, false))?;
                let [record] = measure(&sides, Sides::records)?;
                println!("| {suite} | {} | {} |", handshake(full), records(record));
            }
            Err(error) => println!("| {suite} | {error} | |"),
        }
    }
    Ok(())
}

fn row(what: &str, [rustls, openssl]: [f64; 2], text: fn(f64) -> String) {
    println!("| {what} | {} | {} | {:.2} |", text(rustls), text(openssl), openssl / rustls);
}

fn handshake(us: f64) -> String {
    format!("{us:.0} µs")
}

/// Time of two records, and the bytes of both for a second of CPU time.
fn records(us: f64) -> String {
    format!("{us:.2} µs, {:.0} MB/s", (2 * RECORD_BYTES) as f64 / us)
}

/// Medians of the rounds, in turn.
fn measure<const N: usize>(
    sides: &[Sides; N],
    mut round: impl FnMut(&Sides) -> Result<f64>,
) -> Result<[f64; N]> {
    let mut taken = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (sides, taken) in sides.iter().zip(&mut taken) {
            taken.push(round(sides)?);
        }
    }
    Ok(taken.map(|mut taken| {
        taken.sort_by(f64::total_cmp);
        taken.get(ROUNDS / 2).copied().unwrap_or(f64::NAN)
    }))
}

/// Files of certificates.
struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    fn make(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        fs::write(folder.join("ca.pem"), params.self_signed(&key)?.pem())?;
        let issuer = Issuer::new(params, key);
        let keys = [
            ("p256", KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?),
            ("rsa", KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?),
        ];
        for (name, key) in keys {
            let mut params = CertificateParams::new(vec![NAME.to_owned()])?;
            // With the name of the authority it would seem to have signed itself.
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, NAME);
            fs::write(folder.join(format!("{name}.pem")), params.signed_by(&key, &issuer)?.pem())?;
            fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem())?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    fn sides(&self, case: &Case, called: Backend, caller: Backend) -> Result<Sides> {
        let suite = Suite::by_name(case.suite).context("an unknown suite")?;
        let ca = self.folder.join("ca.pem");
        let name = match case.key {
            Key::P256 => "p256",
            Key::Rsa2048 => "rsa",
        };
        let pair = (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}-key.pem")));
        let version = if suite.is_of(TlsVersion::V1_3) { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
        let layers = |backend, certificate, is_resumed: bool| -> Result<InlineTls> {
            let names = ringway_tls::OfferSettings { openssl: "OpenSSL", danger_legacy: "danger_legacy" };
            let offer = Offer::new(backend, vec![suite], Some(version), true);
            let offer = offer.map_err(|error| anyhow!(error.text(names)))?;
            let defaults = TlsFiles::default();
            let files = TlsFiles {
                certificate,
                client_auth: if case.is_mutual { ClientAuth::Required } else { ClientAuth::None },
                client_ca: Some(ca.clone()),
                peer_ca: PeerCa::File(ca.clone()),
                session_timeout: defaults.session_timeout.filter(|_| is_resumed),
                offer,
                ..defaults
            };
            Ok(InlineTls::new(files.load()?, Arc::new(Silent)))
        };
        let own = case.is_mutual.then(|| pair.clone());
        Ok(Sides {
            called: layers(called, Some(pair), true)?,
            full: layers(caller, own.clone(), false)?,
            resumed: layers(caller, own, true)?,
        })
    }
}

/// The called side, and callers that resume sessions or do not.
struct Sides {
    called: InlineTls,
    full: InlineTls,
    resumed: InlineTls,
}

impl Sides {
    /// CPU time of the called side for a handshake, in µs.
    fn handshakes(&self, count: usize, is_resumed: bool) -> Result<f64> {
        let caller = if is_resumed { &self.resumed } else { &self.full };
        Ends::connect(&self.called, caller, Some(NAME), &[])?;
        let before = self.called.counters().counts();
        let mut ns = 0;
        for _ in 0..count {
            ns += Ends::connect(&self.called, caller, Some(NAME), &[])?.called_ns;
        }
        let after = self.called.counters().counts();
        let resumed = after.tls_accepted_resumed - before.tls_accepted_resumed;
        if resumed != if is_resumed { count as u64 } else { 0 } {
            bail!("{resumed} of {count} handshakes were resumed");
        }
        Ok(ns as f64 / 1000.0 / count as f64)
    }

    /// CPU time of the called side for receiving a record and sending another, in µs.
    fn records(&self) -> Result<f64> {
        let mut ends = Ends::connect(&self.called, &self.full, Some(NAME), &[])?;
        let message = [b'x'; RECORD_BYTES];
        // Several records for each reading of the clock.
        let batch = 20;
        ends.called_ns = 0;
        for _ in 0..RECORDS / batch {
            let (mut in_order, mut wire) = (Vec::new(), Vec::new());
            for _ in 0..batch {
                ends.caller.encode(&message, &mut in_order)?;
            }
            let begun = thread_cpu_ns();
            let size = in_order.len() / batch;
            for record in in_order.chunks(size) {
                ends.called.decode(record, &mut |_| {}, &mut wire)?;
                ends.called.encode(&message, &mut wire)?;
            }
            ends.called_ns += thread_cpu_ns() - begun;
            ends.caller.decode(&wire, &mut |_| {}, &mut Vec::new())?;
        }
        Ok(ends.called_ns as f64 / 1000.0 / RECORDS as f64)
    }
}

/// Reports failed handshakes.
struct Silent;

impl Observer for Silent {
    fn failed(&self, remote: SocketAddr, role: Role, reason: &str) {
        eprintln!("{remote} {role:?}: {reason}");
    }
}

/// Name of the called side.
const NAME: &str = "sip.example.org";
