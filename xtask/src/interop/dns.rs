//! Host names with dnsmasq as the DNS server: NAPTR and SRV records lead to a callee, and past one that is down.

use std::process::Command;

use anyhow::{Result, ensure};

use super::calls::{Play, users};
use super::process::{Running, free_port};
use super::server::{Server, Wanted};
use super::sipp::{Connections, User, succeeded};
use super::{Scenario, Stage, Transport};

pub(crate) fn scenarios() -> Vec<Scenario> {
    Transport::ALL
        .map(|transport| {
            let name = format!("dns/failover/{}", transport.name());
            Scenario {
                reference: false,
                ..Scenario::new(name, move |stage: &Stage| failover(stage, transport))
            }
        })
        .into()
}

/// Twenty calls to a domain whose first server is down: each reaches the second one.
fn failover(stage: &Stage, transport: Transport) -> Result<()> {
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let (down_port, callee_port, dns_port) = (free_port()?, free_port()?, free_port()?);
    let mut dns = start_dnsmasq(stage, dns_port, transport, [down_port, callee_port])?;
    let logins: Vec<_> = [callers.clone(), callees.clone()].concat().into_iter().map(login).collect();
    let wanted = Wanted { digest: false, dns_port: Some(dns_port), ..Wanted::default() };
    let server = Server::start(stage, wanted, &logins)?;
    let contacts =
        callees.iter().map(|callee| (callee.name.as_str(), format!("sip:{}@{DOMAIN}", callee.name)));
    server.bind_all(contacts)?;
    let play = Play { stage, transport, digest: false };
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let mut calling = play.sipp("call", "caller", &callers, free_port()?, Some(server.port));
    calling.connections = Connections::OnePerCall;
    calling.parts = &["open", "stateful"];
    calling.run(stage)?;
    succeeded("callee", &mut answering)?;
    let failovers = server.counters()?.get("failovers")?;
    ensure!(failovers > 0, "no request went to the second server after the first");
    ensure!(!dns.has_ended()?, "dnsmasq ended: {}", dns.output());
    Ok(())
}

fn login(user: User) -> (String, String) {
    (user.name, user.password)
}

/// dnsmasq with the records of [`DOMAIN`]: servers at these ports in their order, for one transport.
fn start_dnsmasq(stage: &Stage, port: u16, transport: Transport, ports: [u16; 2]) -> Result<Running> {
    let (service, naptr) = match transport {
        Transport::Udp => ("_sip._udp", "SIP+D2U"),
        Transport::Tcp => ("_sip._tcp", "SIP+D2T"),
        Transport::Tls => ("_sips._tcp", "SIPS+D2T"),
    };
    let mut command = Command::new("dnsmasq");
    command.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--log-facility=-", "--log-queries"]);
    command.args(["--conf-file=/dev/null", "--user=", "--group=", "--pid-file="]);
    command.args(["--listen-address=127.0.0.1", "--bind-interfaces", &format!("--port={port}")]);
    command.arg(format!("--naptr-record={DOMAIN},10,10,S,{naptr},,{service}.{DOMAIN}"));
    for (priority, port) in ports.iter().enumerate() {
        command.arg(format!("--srv-host={service}.{DOMAIN},server{priority}.{DOMAIN},{port},{priority},0"));
        command.arg(format!("--host-record=server{priority}.{DOMAIN},127.0.0.1"));
    }
    let mut dns = Running::start("dnsmasq", &mut command, &stage.folder)?;
    dns.wait_for_output("started")?;
    Ok(dns)
}

const DOMAIN: &str = "gate.test";
