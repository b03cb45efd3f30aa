//! Two nodes with one account at a carrier, Kamailio: one of them registers, and the other one when that is killed.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::nodes::{Nodes, within};
use super::{Redis, two_users};
use crate::interop::server::Wanted;
use crate::interop::softphone::Softphone;
use crate::interop::trunk::{CARRIER, INBOUND, NUMBER, PASSWORD, alice, carrier, gateway, write_password};
use crate::interop::{Stage, Transport};
use crate::process::free_port;

pub(super) fn owner(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let port = free_port()?;
    write_password(stage, PASSWORD)?;
    let trunk = format!(
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nusername = \"acct\"\npassword_file = \"{}\"\n\
         realm = \"carrier.example\"\ndomain = \"carrier.example\"\nhealth_check_s = 0\nregister = true\n\
         [[route]]\nprefix = \"{INBOUND}\"\nto_user = \"alice\"\n",
        stage.path("trunk.password").display()
    );
    let _carrier =
        carrier(stage, "carrier", (CARRIER, port), (free_port()?, &gateway), (Transport::Udp, "SHA-256"))?;
    let redis = Redis::single(stage)?;
    let wanted = Wanted { auth: "strangers = \"none\"", ..Wanted::default() };
    let mut nodes = Nodes::start_with(stage, &redis, (wanted, &[trunk.clone(), trunk]), &two_users())?;
    let registered = |nodes: &Nodes, index: usize| nodes.node(index)?.counters()?.get("trunk_registrations");
    let contact = |nodes: &Nodes, index: usize| {
        Ok::<_, anyhow::Error>(format!("@127.0.0.1:{};", nodes.node(index)?.port))
    };
    // The node that started first had the trunk alone for a moment. If its contact stayed, the owner's next refresh replaces it (0057).
    std::thread::sleep(Duration::from_secs(95));
    let before = contacts(port)?;
    ensure!(before.len() == 1, "before: {before:?}");
    let owner = usize::from(!before[0].contains(&contact(&nodes, 0)?));
    let other = 1 - owner;
    let (of_owner, of_other) = (contact(&nodes, owner)?, contact(&nodes, other)?);
    ensure!(before[0].contains(&of_owner), "neither node has the contact {before:?}");
    let by_other = registered(&nodes, other)?;
    let mut alice = alice(stage, nodes.node(other)?)?;
    nodes.node_mut(owner)?.kill();
    let killed = Instant::now();
    within(Duration::from_secs(5), "the registration of the other node", || {
        ensure!(registered(&nodes, other)? > by_other, "it has not registered");
        Ok(())
    })?;
    println!("    the other node registered {} ms after the kill", killed.elapsed().as_millis());
    within(Duration::from_secs(5), "one contact", || {
        let contacts = self::contacts(port)?;
        ensure!(contacts.len() == 1 && contacts[0].contains(&of_other), "after: {contacts:?}");
        Ok(())
    })?;
    gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port}"))?;
    gateway.established().context("the call from the carrier")?;
    alice.hang_up()?;
    gateway.ended().context("the end of the call")
}

/// Contacts of the account that the carrier has: the answer to a REGISTER without a Contact. It asks its own number for no password.
fn contacts(port: u16) -> Result<Vec<String>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let own = socket.local_addr()?;
    let number = own.port();
    let request = format!(
        "REGISTER sip:carrier.example SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{number};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:{NUMBER}@carrier.example>;tag=1\r\nTo: <sip:acct@carrier.example>\r\nCall-ID: fetch{number}\r\n\
         CSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(request.as_bytes(), SocketAddrV4::new(CARRIER, port))?;
    let mut answer = [0; 4096];
    let len = socket.recv(&mut answer).context("the carrier's contacts")?;
    let text = String::from_utf8_lossy(answer.get(..len).unwrap_or_default()).into_owned();
    ensure!(text.starts_with("SIP/2.0 200"), "{text}");
    let lines = text.lines().filter_map(|line| line.strip_prefix("Contact: "));
    Ok(lines.flat_map(|line| line.split(", ")).map(str::to_owned).collect())
}
