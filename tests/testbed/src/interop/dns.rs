//! Host names and telephone numbers with dnsmasq as the DNS server: NAPTR and SRV records lead to a callee, and past one that is
//! down; NAPTR records of numbers lead to it too (ENUM).

use std::process::Command;

use anyhow::{Result, ensure};

use super::calls::{Play, users};
use super::server::{Server, Wanted};
use super::sipp::User;
use super::{Scenario, Stage, Transport};
use crate::process::{Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let own = |scenario| Scenario { reference: false, ..scenario };
    let failovers = Transport::ALL.map(|transport| {
        let name = format!("dns/failover/{}", transport.name());
        Scenario::new(name, move |stage: &Stage| failover(stage, transport))
    });
    let numbers = [
        Scenario::new("dns/enum/record".to_owned(), |stage: &Stage| numbers(stage, NumberRecords::All)),
        Scenario::new("dns/enum/no-record".to_owned(), |stage: &Stage| numbers(stage, NumberRecords::None)),
    ];
    failovers.into_iter().chain(numbers).map(own).collect()
}

/// Records of the numbers that are called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberRecords {
    /// Each number has one.
    All,
    /// No number has any.
    None,
}

/// Twenty calls to telephone numbers: by their records to the servers of [`DOMAIN`], without records to the trunk of their route.
fn numbers(stage: &Stage, records: NumberRecords) -> Result<()> {
    let callers = users("caller", "+4416329600");
    // The record makes another user of the number.
    let callees = users("callee", "caller");
    let (unused, callee_port, dns_port) = (free_port()?, free_port()?, free_port()?);
    let mut command = dnsmasq(dns_port, Transport::Udp, [callee_port, unused]);
    for caller in callers.iter().filter(|_| records == NumberRecords::All) {
        let digits: Vec<String> =
            caller.callee.chars().rev().filter(char::is_ascii_digit).map(String::from).collect();
        let name = format!("{}.{ZONE}", digits.join("."));
        let other = "!^.*$!mailto:nobody@gate.test!";
        command.arg(format!("--naptr-record={name},10,5,u,E2U+email:mailto,{other}"));
        let regexp = format!(r"!^\+4416329600(..)$!sip:callee\1@{DOMAIN}!");
        command.arg(format!("--naptr-record={name},10,10,u,E2U+sip,{regexp}"));
    }
    let dns = start(stage, &mut command)?;
    let wanted = Wanted {
        digest: false,
        dns_port: Some(dns_port),
        // A record leads to a private address only if that is named.
        routing: "enum = [\"e164.test\"]\nenum_networks = [\"127.0.0.1\"]",
        ..Wanted::default()
    };
    let route = format!(
        "[[trunk]]\nname = \"gate\"\nuri = \"sip:127.0.0.1:{callee_port}\"\nhealth_check_s = 0\nnetworks = [\"127.0.0.9\"]\n\
         [[route]]\nprefix = \"+44\"\nto = [\"gate\"]"
    );
    let more = if records == NumberRecords::All { "" } else { route.as_str() };
    let server = Server::start_with(stage, wanted, more)?;
    let play = Play { stage, transport: Transport::Udp, digest: false };
    play.call([&callers, &callees], callee_port, server.port, &["open", "stateful"])?;
    let counters = server.counters()?;
    let count = |name| counters.get(name);
    let (asked, found, at_trunk) =
        (count("number_lookups")?, count("numbers_found")?, count("trunk_requests")?);
    let all = callers.len() as u64;
    let expected = match records {
        NumberRecords::All => (all, all, 0),
        NumberRecords::None => (all, 0, all),
    };
    ensure!(asked >= all, "{asked} numbers were looked up");
    ensure!((found, at_trunk) == (expected.1, expected.2), "{found} by record, {at_trunk} by trunk");
    ensure!(!dns.has_ended()?, "dnsmasq ended: {}", dns.output());
    Ok(())
}

/// Twenty calls to a domain whose first server is down: each reaches the second one.
fn failover(stage: &Stage, transport: Transport) -> Result<()> {
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let (down_port, callee_port, dns_port) = (free_port()?, free_port()?, free_port()?);
    let dns = start(stage, &mut dnsmasq(dns_port, transport, [down_port, callee_port]))?;
    let logins: Vec<_> = [callers.clone(), callees.clone()].concat().into_iter().map(login).collect();
    let wanted = Wanted { digest: false, dns_port: Some(dns_port), ..Wanted::default() };
    let server = Server::start(stage, wanted, &logins)?;
    let contacts =
        callees.iter().map(|callee| (callee.name.as_str(), format!("sip:{}@{DOMAIN}", callee.name)));
    server.bind_all(contacts)?;
    let play = Play { stage, transport, digest: false };
    play.call([&callers, &callees], callee_port, server.port, &["open", "stateful"])?;
    let failovers = server.counters()?.get("failovers")?;
    ensure!(failovers > 0, "no request went to the second server after the first");
    ensure!(!dns.has_ended()?, "dnsmasq ended: {}", dns.output());
    Ok(())
}

fn login(user: User) -> (String, String) {
    (user.name, user.password)
}

/// dnsmasq with the records of [`DOMAIN`]: servers at these ports in their order, for one transport.
fn dnsmasq(port: u16, transport: Transport, ports: [u16; 2]) -> Command {
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
    command
}

fn start(stage: &Stage, command: &mut Command) -> Result<Process> {
    let dns = Process::start("dnsmasq", command, &stage.folder)?;
    dns.wait_for_output("started")?;
    Ok(dns)
}

/// Zone of the numbers.
const ZONE: &str = "e164.test";

const DOMAIN: &str = "gate.test";
