//! Trunks: Kamailio as a carrier with digest, and baresip as a back-to-back user agent, for calls both ways, and with
//! one of two killed. Kamailio beside Ringway as the next hop of calls in both directions.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ringway_test_support::eventually::retry;

use super::baresip::{Phone, modules};
use super::calls::{Play, users};
use super::server::{Server, Wanted, await_sip, kamailio};
use super::sipp::succeeded;
use super::softphone::{Keys, Line, Softphone};
use super::{Scenario, Stage, Transport};
use crate::process::{Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        for algorithm in ["MD5", "SHA-256"] {
            let name = format!("trunk/both-ways/{}/{algorithm}", transport.name());
            all.push(Scenario::new(name, move |stage: &Stage| both_ways(stage, transport, algorithm)));
        }
    }
    for transport in Transport::ALL {
        let name = format!("trunk/registers/{}", transport.name());
        all.push(Scenario::new(name, move |stage: &Stage| registers(stage, transport)));
    }
    all.push(Scenario::new("operator/identity", reads_from));
    all.push(Scenario::new("operator/headers", header_rules));
    all.push(Scenario::new("operator/bulk", bulk));
    all.push(Scenario::new("operator/gateways", gateways));
    all.push(Scenario::new("operator/emergency", emergency));
    all.push(Scenario::new("operator/hidden", hidden));
    all.push(Scenario::new("trunk/wrong-password", wrong_password));
    all.push(Scenario::new("trunk/failover", failover));
    all.push(Scenario::new("trunk/back-to-back", back_to_back));
    all.push(Scenario::new("trunk/back-to-back-inwards", back_to_back_inwards));
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// A user calls a number through the carrier, which challenges INVITE and BYE, and the carrier's gateway calls the user.
fn both_ways(stage: &Stage, transport: Transport, algorithm: &str) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, transport)?;
    let port = free_port()?;
    let server = server(stage, &[("carrier", CARRIER, port, transport)], PASSWORD)?;
    let _carrier =
        carrier(stage, "carrier", (CARRIER, port), (server.port, &gateway), (transport, algorithm))?;
    let mut alice = alice(stage, &server)?;
    for call in 1..=2 {
        alice.dial("sip:+44-123-4567@example.org;user=phone")?;
        alice.established().context("the call through the carrier")?;
        gateway.established()?;
        std::thread::sleep(Duration::from_millis(500));
        alice.hang_up()?;
        gateway.ended().context("the BYE, which the carrier challenges")?;
        let counters = server.counters()?;
        ensure!(
            counters.get("trunk_auth_failures")? == 0,
            "the carrier refused the credentials in call {call}"
        );
        ensure!(counters.get("trunk_challenges")? >= 1, "the carrier challenged nothing");
    }
    gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port};transport={}", transport.name()))?;
    gateway.established().context("the call from the carrier")?;
    gateway.hang_up()
}

/// The server registers at the carrier, which then calls the registered contact; strangers have no permission to call.
fn registers(stage: &Stage, transport: Transport) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, transport)?;
    let port = free_port()?;
    write_password(stage, PASSWORD)?;
    let text = format!(
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port};transport={}\"\n\
         username = \"acct\"\npassword_file = \"trunk.password\"\nrealm = \"carrier.example\"\n\
         domain = \"carrier.example\"\nhealth_check_s = 0\nregister = true\n\
         [[route]]\nprefix = \"{INBOUND}\"\nto_user = \"alice\"\n",
        transport.name()
    );
    let _carrier =
        carrier(stage, "carrier", (CARRIER, port), (free_port()?, &gateway), (transport, "SHA-256"))?;
    let wanted = Wanted { auth: "strangers = \"none\"", ..Wanted::default() };
    let server = Server::start_with(stage, wanted, &text)?;
    server.add_user("alice")?;
    let mut alice = alice(stage, &server)?;
    server.await_counter("trunk_registrations", 1, Duration::from_secs(10))?;
    for call in 1..=2 {
        gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port};transport={}", transport.name()))?;
        gateway.established_calls(call).context("the call from the carrier")?;
        // The carrier challenges the BYE of alice, which is answered if the call came from the trunk's address and port (0057, Doubts).
        match (call, transport) {
            (2, Transport::Udp) => alice.hang_up()?,
            _ => gateway.hang_up()?,
        }
        gateway.ended_calls(call).context("the end of the call")?;
    }
    let calls = server.counters()?.get("trunk_line_calls")?;
    ensure!(calls == 2, "{calls} calls to the registered contact");
    Ok(())
}

/// All numbers are registered at once; calls come with the number in the Request-URI, and go out with the carrier's Service-Route.
fn bulk(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    write_password(stage, PASSWORD)?;
    let text = format!(
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nusername = \"acct\"\npassword_file = \"trunk.password\"\n\
         domain = \"carrier.example\"\ncaller = \"+4930123400\"\nhealth_check_s = 0\nregister = true\nbulk = true\n\
         [[route]]\nprefix = \"{INBOUND}\"\nto_user = \"alice\"\n[[route]]\nprefix = \"+\"\nto = [\"carrier\"]\n"
    );
    let plain = (Transport::Udp, "SHA-256");
    let _carrier = carrier(stage, BULK, (CARRIER, port), (free_port()?, &gateway), plain)?;
    let server = Server::start_with(stage, Wanted::default(), &text)?;
    server.add_user("alice")?;
    let mut alice = alice(stage, &server)?;
    server.await_counter("trunk_registrations", 1, Duration::from_secs(10))?;
    gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port}"))?;
    gateway.established().context("the call from the carrier")?;
    gateway.hang_up()?;
    alice.ended()?;
    alice.dial(&format!("sip:{NUMBER}@example.org"))?;
    alice.established_calls(2).context("the call over the service route")?;
    alice.hang_up()?;
    let calls = server.counters()?.get("trunk_line_calls")?;
    ensure!(calls == 1, "{calls} calls to the registered contact");
    Ok(())
}

/// The carrier takes calls from its own numbers only, by From; alice's phone and the gateway end calls, also one in which alice asked for
/// another session.
fn reads_from(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    let trunk = |extra: &str| {
        format!(
            "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nusername = \"acct\"\n\
             password_file = \"trunk.password\"\nnetworks = [\"{CARRIER}\"]\ncaller = \"+4930123400\"\n\
             domain = \"carrier.example\"\nhealth_check_s = 0\n{extra}[[route]]\nprefix = \"+\"\nto = [\"carrier\"]\n"
        )
    };
    write_password(stage, PASSWORD)?;
    let identity = "identity = { from = \"{number}@{domain}\" }\n";
    let server = Server::start_with(stage, Wanted::default(), &trunk(identity))?;
    server.add_user("alice")?;
    let plain = (Transport::Udp, "MD5");
    let _carrier = carrier(stage, READS_FROM, (CARRIER, port), (server.port, &gateway), plain)?;
    let mut alice = alice(stage, &server)?;
    for call in 1..=2 {
        alice.dial(&format!("sip:{NUMBER}@example.org"))?;
        alice.established_calls(call).context("the call through a carrier that reads From")?;
        gateway.established_calls(call)?;
        std::thread::sleep(Duration::from_millis(300));
        if call == 1 {
            gateway.hang_up()?
        } else {
            alice.hang_up()?
        }
        alice.ended_calls(call).context("the end of the call at the caller")?;
        gateway.ended_calls(call).context("the end of the call at the gateway")?;
    }
    Ok(())
}

/// The carrier takes calls with its number in P-Asserted-Identity only, which a rule writes there; a field of its responses is added for the
/// phone by another one.
fn header_rules(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    let trunk = format!(
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nusername = \"acct\"\n\
         password_file = \"trunk.password\"\nnetworks = [\"{CARRIER}\"]\nhealth_check_s = 0\n\
         [[trunk.header]]\nname = \"P-Asserted-Identity\"\naction = \"replace\"\nmatch = \"sip:alice@[^;>]+\"\n\
         value = \"sip:+4930123400@carrier.example\"\n\
         [[trunk.header]]\nname = \"X-Carrier\"\naction = \"add\"\nvalue = \"by rule\"\ndirection = \"in\"\n\
         messages = \"responses\"\nmethods = [\"INVITE\"]\n\
         [[route]]\nprefix = \"+\"\nto = [\"carrier\"]\n"
    );
    write_password(stage, PASSWORD)?;
    let server = Server::start_with(stage, Wanted::default(), &trunk)?;
    server.add_user("alice")?;
    let _carrier =
        carrier(stage, "ruled", (CARRIER, port), (server.port, &gateway), (Transport::Udp, "MD5"))?;
    let mut alice = alice(stage, &server)?;
    alice.dial(&format!("sip:{NUMBER}@example.org"))?;
    alice.established().context("the call of a carrier that reads P-Asserted-Identity")?;
    gateway.established()?;
    alice.hang_up()?;
    gateway.ended().context("the BYE")?;
    ensure!(alice.trace()?.contains("X-Carrier: by rule"), "the phone got no field by a rule");
    Ok(())
}

/// The domain of alice and its carrier have as many calls as they may have, her address sends too much, and a rule forbids short numbers: her
/// emergency call goes through, with the number and the location of her site. A stranger's does not.
fn emergency(stage: &Stage) -> Result<()> {
    let gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let rescue =
        Phone::start(stage, Line { host: RESCUE, server_host: RESCUE, ..line_of("112", Transport::Udp) })?;
    let (port, rescue_port) = (free_port()?, free_port()?);
    write_password(stage, PASSWORD)?;
    let trunk = |name: &str, host: Ipv4Addr, port: u16| {
        format!(
            "[[trunk]]\nname = \"{name}\"\nuri = \"sip:{host}:{port}\"\nusername = \"acct\"\n\
             password_file = \"trunk.password\"\nnetworks = [\"{host}\"]\ncaller = \"+4930123400\"\n\
             domain = \"carrier.example\"\nhealth_check_s = 0\ncalls_max = 1\n"
        )
    };
    let text = trunk("carrier", CARRIER, port) + &trunk("rescue", SECOND_CARRIER, rescue_port) + EMERGENCY;
    let limits = "per_source_rate = 40\ndomain_calls_max = 1";
    let mut server = Server::start_with(stage, Wanted { limits, ..Wanted::default() }, &text)?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let plain = (Transport::Udp, "MD5");
    let _carrier = carrier(stage, "carrier", (CARRIER, port), (server.port, &gateway), plain)?;
    let _rescue = carrier(stage, "rescue", (SECOND_CARRIER, rescue_port), (server.port, &rescue), plain)?;
    let mut alice = alice(stage, &server)?;
    let mut bob = Phone::start(stage, Line::at_server("bob", 1000.0, server.port, Transport::Udp))?;
    bob.registered()?;
    bob.dial(&format!("sip:{NUMBER}@example.org"))?;
    bob.established_calls(1).context("the only call of the domain")?;
    alice.dial(&format!("sip:{NUMBER}@example.org"))?;
    alice.ended_calls(1).context("the call that is one too many")?;
    ensure!(server.counters()?.get("domain_calls_refused")? == 1, "the limit of the domain refused nothing");
    let flood = Flood::start(server.port)?;
    retry(Duration::from_secs(10), || {
        ensure!(server.counters()?.get("over_rate")? > 0, "the flood is not over the rate");
        Ok(())
    })?;
    alice.dial("sip:112@example.org")?;
    rescue.established_calls(1).context("the emergency call")?;
    alice.established_calls(1)?;
    let counters = server.counters()?;
    ensure!(counters.get("emergency_calls")? == 1, "the call is not counted");
    ensure!(counters.get("over_rate_emergencies")? >= 1, "the source was not over its rate");
    flood.stop()?;
    let lines = server.log_lines("emergency call", 1)?;
    ensure!(lines.iter().any(|line| line.contains("site=berlin")), "the log has no site: {lines:?}");
    stranger_calls(&server)
}

/// OPTIONS from the address of the phones, more than a source may send.
struct Flood {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Flood {
    fn start(port: u16) -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let request = request("OPTIONS", "sip:example.org", &socket)?;
        let seen = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                socket.send_to(request.as_bytes(), (Ipv4Addr::LOCALHOST, port))?;
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        Ok(Self { ends, thread })
    }

    fn stop(self) -> Result<()> {
        self.ends.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| anyhow!("the flood panicked"))??)
    }
}

/// Calls 112 without a password, by number and by service; both are refused.
fn stranger_calls(server: &Server) -> Result<()> {
    // The flood has used up the rate of its address for a second.
    std::thread::sleep(Duration::from_secs(2));
    for target in ["sip:112@example.org", "urn:service:sos"] {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let request = request("INVITE", target, &socket)?;
        socket.send_to(request.as_bytes(), (Ipv4Addr::LOCALHOST, server.port))?;
        let mut buffer = [0; 2048];
        let (len, _) = socket.recv_from(&mut buffer).context("the answer to a stranger")?;
        let answer = String::from_utf8_lossy(buffer.get(..len).unwrap_or_default()).into_owned();
        ensure!(answer.starts_with("SIP/2.0 4"), "a stranger who calls {target} gets {answer}");
    }
    ensure!(server.counters()?.get("emergency_calls")? == 1, "the call of a stranger is counted");
    Ok(())
}

fn request(method: &str, target: &str, socket: &UdpSocket) -> Result<String> {
    let port = socket.local_addr()?.port();
    Ok(format!(
        "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bK{port}\r\nMax-Forwards: 70\r\n\
         From: <sip:x@elsewhere.example>;tag=1\r\nTo: <{target}>\r\nCall-ID: {port}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:x@127.0.0.1:{port}>\r\nContent-Length: 0\r\n\r\n"
    ))
}

/// The inside is hidden from a carrier: its gateway sees no address of alice's phone, and not its Call-ID; both sides call and end calls.
fn hidden(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    write_password(stage, PASSWORD)?;
    let trunk = format!(
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nusername = \"acct\"\n\
         password_file = \"trunk.password\"\nnetworks = [\"{CARRIER}\"]\ncaller = \"+4930123400\"\n\
         domain = \"carrier.example\"\nhealth_check_s = 0\nhide_topology = true\n\
         [[route]]\nprefix = \"+4930\"\nto_user = \"alice\"\n[[route]]\nprefix = \"+\"\nto = [\"carrier\"]\n"
    );
    let server = Server::start_with(stage, Wanted::default(), &trunk)?;
    server.add_user("alice")?;
    let _carrier =
        carrier(stage, "blind", (CARRIER, port), (server.port, &gateway), (Transport::Udp, "MD5"))?;
    let line = Line::at_server("alice", 440.0, server.port, Transport::Udp);
    let mut alice = Phone::start(stage, Line { host: INSIDE, ..line })?;
    alice.registered()?;
    for call in 1..=4 {
        match call {
            1 | 2 => alice.dial(&format!("sip:{NUMBER}@example.org"))?,
            _ => gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port}"))?,
        }
        alice.established_calls(call).with_context(|| format!("call {call} at alice"))?;
        gateway.established_calls(call)?;
        std::thread::sleep(Duration::from_millis(300));
        if call % 2 == 1 {
            gateway.hang_up()?;
        } else {
            alice.hang_up()?;
        }
        alice.ended_calls(call).with_context(|| format!("the end of call {call} at alice"))?;
        gateway.ended_calls(call).with_context(|| format!("the end of call {call} at the gateway"))?;
    }
    let (inside, outside) = (alice.trace()?, gateway.trace()?);
    let call_ids = |trace: &str| -> Vec<String> {
        let lines = trace.lines().filter_map(|line| line.strip_prefix("Call-ID: "));
        lines.map(|line| line.trim().to_owned()).collect()
    };
    let own = call_ids(&inside);
    ensure!(!own.is_empty() && !call_ids(&outside).is_empty(), "a trace has no messages");
    ensure!(call_ids(&outside).iter().all(|of| !own.contains(of)), "a Call-ID is the same at both sides");
    // Without a port it is in SDP too.
    for address in [format!("{INSIDE}:"), format!("@{INSIDE}")] {
        ensure!(!outside.contains(&address), "the gateway saw {address}");
        ensure!(inside.contains(&address), "alice's phone has another address: the test of the test");
    }
    Ok(())
}

/// The carrier refuses the password: the call ends, and the carrier got three requests at most.
fn wrong_password(stage: &Stage) -> Result<()> {
    let gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    let server = server(stage, &[("carrier", CARRIER, port, Transport::Udp)], "wrong")?;
    let _carrier =
        carrier(stage, "carrier", (CARRIER, port), (server.port, &gateway), (Transport::Udp, "MD5"))?;
    let mut alice = alice(stage, &server)?;
    alice.dial(&format!("sip:{NUMBER}@example.org"))?;
    alice.ended().context("the refused call")?;
    let counters = server.counters()?;
    ensure!(counters.get("trunk_auth_failures")? == 1, "not one refused password");
    ensure!(counters.get("trunk_requests")? <= 3, "{} requests", counters.get("trunk_requests")?);
    Ok(())
}

/// Two carriers; the first one is killed, and calls go through the other: at first after `timeout_s`, then at once.
fn failover(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let (first_port, second_port) = (free_port()?, free_port()?);
    let trunks = [
        ("first", CARRIER, first_port, Transport::Udp),
        ("second", SECOND_CARRIER, second_port, Transport::Udp),
    ];
    let server = server(stage, &trunks, PASSWORD)?;
    let plain = (Transport::Udp, "MD5");
    let first = carrier(stage, "first", (CARRIER, first_port), (server.port, &gateway), plain)?;
    let _second = carrier(stage, "second", (SECOND_CARRIER, second_port), (server.port, &gateway), plain)?;
    let mut alice = alice(stage, &server)?;
    for (call, failovers) in [(1, 0), (2, 1), (3, 1)] {
        if call == 2 {
            first.kill();
        }
        alice.dial(&format!("sip:{NUMBER}@example.org"))?;
        alice.established().with_context(|| format!("call {call}"))?;
        gateway.established()?;
        alice.hang_up()?;
        gateway.ended()?;
        let counted = server.counters()?.get("trunk_failovers")?;
        ensure!(counted <= failovers, "{counted} failovers after call {call}");
    }
    Ok(())
}

/// A back-to-back user agent as the trunk: a call of a user through it to a gateway.
fn back_to_back(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    let server = server(stage, &[("b2bua", CARRIER, port, Transport::Udp)], PASSWORD)?;
    let next = host_of(&gateway);
    let b2bua = start_b2bua(stage, port, &format!("out@{CARRIER}:{port}"), &next)?;
    let mut alice = alice(stage, &server)?;
    for _ in 0..2 {
        alice.dial(&format!("sip:{NUMBER}@example.org"))?;
        alice.established().context("the call through the back-to-back user agent")?;
        gateway.established()?;
        std::thread::sleep(Duration::from_millis(500));
        alice.hang_up()?;
        gateway.ended()?;
    }
    ensure!(!b2bua.has_ended()?, "the back-to-back user agent ended: {}", b2bua.output());
    Ok(())
}

/// A back-to-back user agent as the trunk calls a user, without a password although its caller has an address in our domain.
/// A number that has a route to a trunk it does not reach.
fn back_to_back_inwards(stage: &Stage) -> Result<()> {
    let port = free_port()?;
    let server = server(stage, &[("b2bua", CARRIER, port, Transport::Udp)], PASSWORD)?;
    let mut alice = alice(stage, &server)?;
    let ringway = format!("{}:{}", Ipv4Addr::LOCALHOST, server.port);
    let b2bua = start_b2bua(stage, port, "+4930123499@example.org", &ringway)?;
    let line = Line::at_server("caller", 1000.0, port, Transport::Udp);
    let mut caller = Phone::start(stage, Line { host: GATEWAY, server_host: CARRIER, ..line })?;
    for call in 1..=2 {
        caller.dial(&format!("sip:{INBOUND}@example.org"))?;
        alice.established_calls(call).context("the call from the back-to-back user agent")?;
        caller.established_calls(call)?;
        std::thread::sleep(Duration::from_millis(500));
        match call {
            1 => caller.hang_up()?,
            _ => alice.hang_up()?,
        }
        alice.ended_calls(call).with_context(|| format!("the end of call {call} at the user"))?;
        caller.ended_calls(call).with_context(|| format!("the end of call {call} at the caller"))?;
    }
    caller.dial(&format!("sip:{NUMBER}@example.org"))?;
    caller.ended_calls(3).context("the call from trunk to trunk")?;
    let sent = server.counters()?.get("trunk_requests")?;
    ensure!(sent == 0, "{sent} requests from trunk to trunk");
    ensure!(!b2bua.has_ended()?, "the back-to-back user agent ended: {}", b2bua.output());
    Ok(())
}

/// 10,000 trunks, and rates of 100,000 prefixes, with three SIPp carriers among them: the cheapest refuses with 503, the next cheaper one
/// is called; where another one has a longer prefix with a lower cost it is called first.
fn gateways(stage: &Stage) -> Result<()> {
    let ports = [free_port()?, free_port()?, free_port()?];
    let mut text = String::new();
    for (index, port) in ports.iter().enumerate() {
        text += &format!(
            "[[trunk]]\nname = \"sipp-{index}\"\nuri = \"sip:127.0.0.1:{port}\"\nhealth_check_s = 0\n\
             rates_file = \"{}\"\n",
            stage.path(&format!("rates-{index}.csv")).display()
        );
    }
    for number in ports.len()..TRUNKS {
        let (high, low) = (number / 250, number % 250);
        text += &format!(
            "[[trunk]]\nname = \"gateway-{number}\"\nuri = \"sip:10.9.{high}.{low}\"\n\
             networks = [\"10.9.{high}.{low}\"]\nhealth_check_s = 0\n"
        );
    }
    text += "[[route]]\nprefix = \"+\"\nby_cost = true\n";
    // The first carrier has a long list of other countries, too.
    let others: String = (0..99_996).map(|number| format!("7{number:05},0.5\n")).collect();
    std::fs::write(stage.path("rates-0.csv"), format!("prefix,cost\n44,0.01\n{others}"))?;
    std::fs::write(stage.path("rates-1.csv"), "44,0.02\n")?;
    std::fs::write(stage.path("rates-2.csv"), "+44,0.03\n+4420,0.005\n")?;
    let server = Server::start_with(stage, Wanted::default(), &text)?;
    server.add_user("alice")?;
    let user = users("carrier", "alice").into_iter().next().context("no user")?;
    let users = [user];
    let play = Play { stage, transport: Transport::Udp, digest: false };
    let role = |scenario, name, port| -> Result<Process> {
        let mut sipp = play.sipp(scenario, name, &users, port, None);
        sipp.parts = &["routed"];
        sipp.start(stage)
    };
    let [first_port, next_port, longer_port] = ports;
    let mut refusing = role("unavailable", "sipp-0", first_port)?;
    let mut next = role("answer", "sipp-1", next_port)?;
    let mut longer = role("answer", "sipp-2", longer_port)?;
    let mut alice = alice(stage, &server)?;
    for (call, number) in [(1, "+441234567"), (2, "+44201234567")] {
        alice.dial(&format!("sip:{number}@example.org"))?;
        alice.established_calls(call).with_context(|| format!("the call to {number}"))?;
        alice.hang_up()?;
        alice.ended_calls(call)?;
    }
    succeeded("sipp-0", &mut refusing).context("the carrier that refuses")?;
    succeeded("sipp-1", &mut next).context("the next cheaper carrier")?;
    succeeded("sipp-2", &mut longer).context("the carrier with the longer prefix")?;
    let failovers = server.counters()?.get("trunk_failovers")?;
    ensure!(failovers == 1, "{failovers} failovers");
    Ok(())
}

/// Ringway with these trunks for all numbers, in this order, and the user alice.
fn server(stage: &Stage, trunks: &[(&str, Ipv4Addr, u16, Transport)], password: &str) -> Result<Server> {
    write_password(stage, password)?;
    let mut text = String::new();
    for (name, host, port, transport) in trunks {
        let transport = transport.name();
        text += &format!(
            "[[trunk]]\nname = \"{name}\"\nuri = \"sip:{host}:{port};transport={transport}\"\nusername = \"acct\"\n\
             password_file = \"trunk.password\"\nrealm = \"carrier.example\"\nnetworks = [\"{host}\"]\n\
             caller = \"+4930123400\"\ndomain = \"carrier.example\"\nhealth_check_s = 0\ntimeout_s = 1\n"
        );
    }
    let names: Vec<_> = trunks.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
    let names = names.join(", ");
    text += &format!("[[route]]\nprefix = \"+\"\nto = [{names}]\n");
    text += &format!("[[route]]\nprefix = \"{INBOUND}\"\nto_user = \"alice\"\n");
    let server = Server::start_with(stage, Wanted::default(), &text)?;
    server.add_user("alice")?;
    Ok(server)
}

pub(super) fn write_password(stage: &Stage, password: &str) -> Result<()> {
    let file = stage.path("trunk.password");
    std::fs::write(&file, password)?;
    Ok(std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?)
}

pub(super) fn alice(stage: &Stage, server: &Server) -> Result<Phone> {
    let mut alice = Phone::start(stage, Line::at_server("alice", 440.0, server.port, Transport::Udp))?;
    alice.registered()?;
    Ok(alice)
}

/// The phone behind a carrier, whose user is the number.
pub(super) fn gateway(stage: &Stage, number: &str, transport: Transport) -> Result<Phone> {
    Phone::start(stage, line_of(number, transport))
}

fn line_of(number: &str, transport: Transport) -> Line<'_> {
    Line {
        user: number,
        host: GATEWAY,
        server: None,
        server_host: GATEWAY,
        transport,
        keys: Keys::None,
        tone_hz: 1000.0,
        seconds: 20,
    }
}

pub(super) fn carrier(
    stage: &Stage,
    name: &str,
    (host, port): (Ipv4Addr, u16),
    (ringway, gateway): (u16, &Phone),
    (transport, algorithm): (Transport, &str),
) -> Result<Process> {
    let words = [
        ("@GATEWAY@", host_of(gateway)),
        ("@NUMBER@", NUMBER.to_owned()),
        ("@HOST@", host.to_string()),
        ("@PORT@", port.to_string()),
        ("@RINGWAY@", ringway.to_string()),
        ("@ALGORITHM@", algorithm.to_owned()),
        ("@TRANSPORT@", transport.name().to_owned()),
        ("@READS_FROM@", u8::from(name == READS_FROM).to_string()),
        ("@BULK@", u8::from(name == BULK).to_string()),
    ];
    let config = stage.path(&format!("{name}.cfg"));
    stage.fill("kamailio/carrier.cfg", &words, &config)?;
    let running = Process::start(name, &mut kamailio(&config), &stage.folder)?;
    await_sip(host, port)?;
    Ok(running)
}

/// baresip at [`CARRIER`] as a back-to-back user agent: for each call to it, it calls the same address at `next`, as `calling`.
fn start_b2bua(stage: &Stage, port: u16, calling: &str, next: &str) -> Result<Process> {
    let home = stage.path("b2bua");
    std::fs::create_dir_all(&home)?;
    let words = [
        ("@HOST@", CARRIER.to_string()),
        ("@PORT@", port.to_string()),
        ("@MODULES@", modules()?),
        ("@CALLING@", calling.to_owned()),
        ("@NEXT@", next.to_owned()),
    ];
    for file in ["config", "accounts"] {
        stage.fill(&format!("baresip/b2bua-{file}"), &words, &home.join(file))?;
    }
    std::fs::write(home.join("contacts"), "")?;
    let mut command = Command::new("baresip");
    command.env("HOME", &home).arg("-s").arg("-f").arg(&home);
    let running = Process::start("b2bua", &mut command, &stage.folder)?;
    running.wait_for_output("baresip is ready")?;
    Ok(running)
}

/// Host, port and parameters of a phone's own URI.
pub(super) fn host_of(phone: &Phone) -> String {
    let uri = phone.uri();
    uri.split_once('@').map_or(uri.clone(), |(_, host)| host.to_owned())
}

pub(crate) fn next_hop_scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let name = transport.name();
        all.push(Scenario::new(format!("kamailio/inbound/{name}"), move |stage: &Stage| {
            inbound(stage, transport)
        }));
        all.push(Scenario::new(format!("kamailio/outbound/{name}"), move |stage: &Stage| {
            outbound(stage, transport)
        }));
    }
    all
}

/// A stranger calls, through Kamailio, a user who is registered with digest at Ringway.
fn inbound(stage: &Stage, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let (callers, callees) = (users("stranger", "callee"), users("callee", "stranger"));
    let accounts: Vec<_> = callees.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let server = Server::start(stage, Wanted::default(), &accounts)?;
    let (_kamailio, kamailio_port) = next_hop(stage, server.port)?;
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    play.sipp("call-inbound", "caller", &callers, free_port()?, Some(kamailio_port)).run(stage)?;
    succeeded("callee", &mut answering)
}

/// A user of Ringway, authenticated, calls a user who is registered at Kamailio.
fn outbound(stage: &Stage, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let open = Play { stage, transport, digest: false };
    let (callers, callees) = (users("caller", "remote"), users("remote", "caller"));
    let accounts: Vec<_> = callers.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let server = Server::start(stage, Wanted::default(), &accounts)?;
    let (_kamailio, kamailio_port) = next_hop(stage, server.port)?;
    let callee_port = free_port()?;
    open.sipp("register", "register", &callees, callee_port, Some(kamailio_port)).run(stage)?;
    let mut answering = open.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let words = [("PEER", format!("127.0.0.1:{kamailio_port}"))];
    let mut calling = play.sipp("call-outbound", "caller", &callers, free_port()?, Some(server.port));
    calling.words = &words;
    calling.run(stage)?;
    succeeded("callee", &mut answering)
}

fn next_hop(stage: &Stage, ringway_port: u16) -> Result<(Process, u16)> {
    let port = free_port()?;
    let text = std::fs::read_to_string(stage.data.join("kamailio/next-hop.cfg"))?;
    let text = text.replace("@PORT@", &port.to_string()).replace("@RINGWAY@", &ringway_port.to_string());
    let config = stage.path("next-hop.cfg");
    std::fs::write(&config, text)?;
    let running = Process::start("next-hop", &mut kamailio(&config), &stage.folder)?;
    await_sip(std::net::Ipv4Addr::LOCALHOST, port)?;
    Ok((running, port))
}

/// Name of a carrier that wants numbers in bulk (RFC 6140), and calls with the Service-Route that it gave.
const BULK: &str = "bulk";
/// Routes and emergency calls of `operator/emergency`.
const EMERGENCY: &str = r#"
[[route]]
prefix = "+"
to = ["carrier"]
[[destination]]
prefix = "11"
allow = false
[emergency]
numbers = ["112"]
to = ["rescue"]
[[emergency.site]]
name = "berlin"
networks = ["127.0.0.0/8"]
caller = "+4930123400"
geolocation = "https://locations.example.org/berlin"
"#;
/// Name of a carrier that takes calls of its own numbers in From only.
const READS_FROM: &str = "reads-from";
pub(super) const CARRIER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND_CARRIER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);
/// Phone of the emergency service.
const RESCUE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// A phone whose address a carrier must not see.
const INSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
/// Number that is called through a trunk, and that of alice.
pub(super) const NUMBER: &str = "+441234567";
pub(super) const INBOUND: &str = "+4930123401";
pub(super) const PASSWORD: &str = "trunk secret";
/// Number of trunks with which the cheapest are found.
const TRUNKS: usize = 10_000;
