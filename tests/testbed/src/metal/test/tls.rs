//! TLS of the image: `openssl s_client` registers, with certificate and key from each boot medium; invalid files; handshakes
//! that never end, and floods of them beside users over UDP.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ringway_lab::load::LoadTls;
use ringway_tls::{Observer, PeerCa, Role, TlsFiles};

use super::{Booted, options};
use crate::interop::certificates::{Authority, CA_FILE, Certificate};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use crate::process::{Process, free_port};

pub(super) fn checks() -> Vec<Scenario> {
    let register =
        [("kernel", Medium::Kernel), ("cd", Medium::Cd), ("usb", Medium::Usb)].map(|(name, medium)| {
            Scenario::new(format!("tls/register/{name}"), move |stage: &Stage| register(stage, medium))
        });
    let mut all = Vec::from(register);
    all.push(Scenario::new("tls/files", files));
    all.push(Scenario::new("tls/unfinished", unfinished));
    all.push(Scenario::new("tls/flood", flood));
    all
}

/// Makes an authority and a server's certificate in the stage's folder; returns the file with certificate and key.
pub(super) fn server_file(stage: &Stage) -> Result<PathBuf> {
    if !stage.path(CA_FILE).exists() {
        Authority::create(&stage.folder)?;
    }
    Authority::of(stage).issue(Certificate::SERVER)?;
    let read = |name: &str| std::fs::read_to_string(stage.path(name)).with_context(|| name.to_owned());
    let file = stage.path("tls.pem");
    std::fs::write(&file, read("server.pem")? + &read("server-key.pem")?)?;
    Ok(file)
}

/// TLS of a load that trusts the stage's authority.
pub(super) fn load(stage: &Stage) -> Result<LoadTls> {
    server_file(stage)?;
    let files = TlsFiles { peer_ca: PeerCa::File(stage.path(CA_FILE)), ..TlsFiles::default() };
    LoadTls::load(&files, None, Arc::new(Silent))
}

struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}

/// A machine with TLS, and the port of 127.0.0.1 that leads to it.
fn serving(stage: &Stage, medium: Medium) -> Result<(Booted, u16)> {
    let port = free_port()?;
    let machine = Machine::new(medium).with_tls(server_file(stage)?, port);
    Ok((Booted::serving(&machine, stage, "auth=off tls=5061")?, port))
}

/// A verified client registers with TLS 1.3 and with 1.2; one with 1.1 is refused.
fn register(stage: &Stage, medium: Medium) -> Result<()> {
    let (mut machine, port) = serving(stage, medium)?;
    for (number, (version, suite)) in SUITES.into_iter().enumerate() {
        let said = client(stage, port, version, &[version], &register_request(number))?;
        let is_answered = said.contains("SIP/2.0 200 ") && said.contains("Verify return code: 0 (ok)");
        ensure!(is_answered, "{version}: openssl got no answer over a verified connection: {said}");
        ensure!(said.contains(suite), "{version}: the suite is not {suite}: {said}");
    }
    let old = client(stage, port, "old", &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], &register_request(9))?;
    ensure!(!old.contains("SIP/2.0 200 "), "a client with TLS 1.1 was answered: {old}");
    machine.answers("handshakes")
}

/// Without a usable file the machine says what is missing, and does not serve.
fn files(stage: &Stage) -> Result<()> {
    let file = server_file(stage)?;
    let key = std::fs::read(stage.path("server-key.pem"))?;
    let certificate = std::fs::read(stage.path("server.pem"))?;
    let large = vec![b'#'; 40_000];
    let bad: [(&[u8], &str); 4] = [
        (&certificate, "must have one private key"),
        (&key, "has no certificate"),
        (b"no PEM", "has no certificate"),
        (&large, "needs a certificate and its key on the boot medium"),
    ];
    for (content, reason) in bad {
        std::fs::write(&file, content)?;
        let machine = Machine::new(Medium::Kernel).with_tls(file.clone(), free_port()?);
        let machine = Booted::start(&machine, stage, "auth=off tls=5061")?;
        machine.running.wait_for_output(reason)?;
        machine.running.wait_for_output("the server does not start")?;
    }
    let machine = Booted::start(&Machine::new(Medium::Kernel), stage, "auth=off tls=5061")?;
    machine.running.wait_for_output("needs a certificate and its key on the boot medium")
}

/// Connections that never finish a handshake are limited and end by their deadline; a client behind them is served then.
fn unfinished(stage: &Stage) -> Result<()> {
    let (mut machine, port) = serving(stage, Medium::Kernel)?;
    let begun = Instant::now();
    let mut silent = Vec::new();
    for number in 0..20 {
        let mut stream = connect(port)?;
        // A part of a record, or nothing.
        if number % 2 == 0 {
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1]);
        }
        silent.push(stream);
    }
    // QEMU may pass the silent connections on a little later.
    let is_answered = |number| -> Result<bool> {
        let said = client(stage, port, &format!("early{number}"), &[], &register_request(number))?;
        Ok(said.contains("SIP/2.0 200 "))
    };
    let are_limited = !is_answered(2)? || !is_answered(3)? || !is_answered(4)?;
    ensure!(are_limited, "more handshakes of one source at once than its limit");
    machine.answers("half-done handshakes")?;
    for mut stream in silent {
        let mut room = [0; 100];
        // The end of the stream or a reset.
        while stream.read(&mut room).is_ok_and(|count| count > 0) {}
    }
    ensure!(begun.elapsed() < Duration::from_secs(25), "half-done handshakes lasted {:?}", begun.elapsed());
    let late = client(stage, port, "late", &[], &register_request(1))?;
    ensure!(late.contains("SIP/2.0 200 "), "a client after half-done handshakes got no answer: {late}");
    let mut plain = connect(port)?;
    plain.write_all(options("TLS", 1, "").as_bytes())?;
    let mut room = [0; 100];
    ensure!(
        !plain.read(&mut room).is_ok_and(|count| count > 0),
        "SIP without TLS was answered on the TLS port"
    );
    machine.answers("SIP without TLS on the TLS port")
}

/// Handshakes as fast as they are accepted, for some seconds: OPTIONS over UDP are answered meanwhile.
fn flood(stage: &Stage) -> Result<()> {
    let (mut machine, port) = serving(stage, Medium::Kernel)?;
    // QEMU accepts few connections at a time, and the others wait for a second.
    let flooders: Vec<_> = (0..FLOODERS).map(|_| std::thread::spawn(move || flood_from_here(port))).collect();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    udp.set_read_timeout(Some(RETRANSMISSION))?;
    let (begun, mut asked) = (Instant::now(), 0);
    while begun.elapsed() < FLOOD {
        // As a phone does, since QEMU may lose a datagram on a busy computer.
        let is_answered = (0..TRIES).any(|_| {
            let sent = udp.send_to(options("UDP", asked, "").as_bytes(), machine.at);
            sent.is_ok() && udp.recv(&mut [0; 2000]).is_ok()
        });
        ensure!(is_answered, "OPTIONS {asked} over UDP got no answer");
        asked += 1;
    }
    let mut flooded = 0;
    for flooder in flooders {
        flooded += flooder.join().map_or(0, |count| count);
    }
    println!("          {asked} OPTIONS over UDP beside {flooded} ClientHellos");
    ensure!(flooded > 30 && asked > 100, "{flooded} ClientHellos and {asked} OPTIONS are no flood");
    machine.answers("a flood of ClientHellos")
}

/// Sends ClientHellos on new connections, which it closes at once; returns their number.
fn flood_from_here(port: u16) -> u32 {
    let (hello, begun, mut count) = (client_hello(), Instant::now(), 0);
    while begun.elapsed() < FLOOD {
        if connect(port).is_ok_and(|mut stream| stream.write_all(&hello).is_ok()) {
            count += 1;
        }
    }
    count
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// Output of `openssl s_client`, which verifies the server, sends `request` and waits for the answer or the end of the
/// connection.
fn client(stage: &Stage, port: u16, name: &str, arguments: &[&str], request: &str) -> Result<String> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-CAfile", CA_FILE, "-nocommands"]);
    command.args(["-verify_return_error", "-verify_ip", "127.0.0.1"]).args(arguments);
    let mut running = Process::start(&format!("client{name}"), &mut command, &stage.folder)?;
    // A refused client may have ended already.
    let _ = running.type_keys(request);
    let _ = running.wait_for_output("Content-Length: 0\r\n\r\n");
    running.close_input();
    running.wait_for(Duration::from_secs(30))?;
    Ok(running.output())
}

/// A ClientHello of TLS 1.3 that makes the server compute all of its flight; the key share is the curve's base point.
fn client_hello() -> Vec<u8> {
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes(), &sized(content)[..]].concat();
    let key_share = [&SECP256R1.to_be_bytes(), &sized(&BASE_POINT)[..]].concat();
    let extensions = [
        // supported_versions, supported_groups, signature_algorithms, key_share
        extension(43, &[2, 3, 4]),
        extension(10, &sized(&SECP256R1.to_be_bytes())),
        extension(13, &sized(&[4, 3])),
        extension(51, &sized(&key_share)),
    ];
    // Version, random, no session, TLS_AES_128_GCM_SHA256, no compression.
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(sized(&extensions.concat()));
    let message = [&[1, 0], &sized(&body)[..]].concat();
    [&[22, 3, 1], &sized(&message)[..]].concat()
}

/// `content` after its length in 16 bits.
fn sized(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}

fn register_request(number: usize) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK-{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>\r\n\
         Call-ID: r{number}\r\nCSeq: 1 REGISTER\r\nContact: <sip:alice@127.0.0.1:9;transport=tls>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

const SUITES: [(&str, &str); 2] =
    [("-tls1_3", "TLS_AES_128_GCM_SHA256"), ("-tls1_2", "ECDHE-ECDSA-AES128-GCM-SHA256")];

const FLOOD: Duration = Duration::from_secs(5);
const FLOODERS: usize = 16;
/// Interval of transmissions of an OPTIONS, and their number.
const RETRANSMISSION: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;

const SECP256R1: u16 = 23;

/// Base point of P-256 (SEC 2 §2.4.2), uncompressed.
const BASE_POINT: [u8; 65] = [
    0x04, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96, 0x4f,
    0xe3, 0x42, 0xe2, 0xfe, 0x1a, 0x7f, 0x9b, 0x8e, 0xe7, 0xeb, 0x4a, 0x7c, 0x0f, 0x9e, 0x16, 0x2b, 0xce,
    0x33, 0x57, 0x6b, 0x31, 0x5e, 0xce, 0xcb, 0xb6, 0x40, 0x68, 0x37, 0xbf, 0x51, 0xf5,
];
