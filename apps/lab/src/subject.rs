//! A server under measurement with its phones: Ringway, Kamailio or the floor.

use crate::call::{Calls, Carried};
use crate::closed_loop::{Extent, Outcome, drive};
use crate::floor::Kind;
use crate::process::Process;
use crate::refused::{Ending, Refusals};
use crate::register::{Expect, Refresh, Walk};
use crate::server::Allocator;
use crate::template::Carrier;
use crate::wire::{Connections, PHONE_SOCKETS, Phones};
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};

pub use crate::server::{Environment, Routing, Settings, Store, Under, free_port};

/// A measured operation with all its messages in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A REGISTER that refreshes a binding, over UDP.
    Refresh(Expect),
    /// The same over 200 TCP connections.
    RefreshByTcp(Expect),
    /// INVITE, 100, 180, 200, ACK, BYE, 200.
    Call(Carried),
    /// INVITE, final response, ACK.
    Refuse(Ending),
}

/// A running server with its phones.
pub struct Subject {
    /// The server.
    pub process: Process,
    phones: Phones,
    ports: [u16; PHONE_SOCKETS],
    /// Address of the server for UDP and TCP (of the floor for one of them).
    address: SocketAddrV4,
    registering: Walk,
    calling: Walk,
}

impl Subject {
    /// Runs an operation.
    pub fn run(&mut self, operation: Operation, extent: Extent) -> Result<Outcome> {
        let Self { process, phones, ports, address, registering, calling } = self;
        let mut server_ns = || process.cpu_ns();
        let outcome = match operation {
            Operation::Refresh(expect) => {
                let mut scenario = Refresh::new(registering, *ports, Carrier::Udp, expect);
                drive(phones, &mut scenario, extent, &mut server_ns)
            }
            Operation::RefreshByTcp(expect) => {
                let mut scenario = Refresh::new(registering, *ports, Carrier::Tcp, expect);
                drive(&mut Connections::open(*address)?, &mut scenario, extent, &mut server_ns)
            }
            Operation::Call(carried) => {
                drive(phones, &mut Calls::new(calling, *ports, carried), extent, &mut server_ns)
            }
            Operation::Refuse(ending) => {
                drive(phones, &mut Refusals::new(calling, *ports, ending), extent, &mut server_ns)
            }
        };
        outcome.with_context(|| format!("{operation:?}{}", process.fate()))
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Registers every user once.
    pub fn register_all(&mut self, expect: Expect) -> Result<()> {
        let users = u64::from(self.registering.users());
        self.run(Operation::Refresh(expect), Extent::Operations(users)).context("register all users")?;
        Ok(())
    }

    /// Ends the server.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

impl Environment {
    /// Starts Ringway on a free port.
    pub fn ringway(&self, settings: &Settings, under: Under<'_>) -> Result<Subject> {
        let port = free_port()?;
        let process = self.start_ringway(settings, port, under)?;
        subject(process, port, Phones::bind()?, settings.users)
    }

    /// Restarts Ringway, possibly with another configuration; returns the time until it is ready.
    pub fn restart(&self, subject: &mut Subject, settings: &Settings) -> Result<Duration> {
        subject.stop()?;
        let begun = Instant::now();
        subject.process = self.start_ringway(settings, subject.address.port(), Under::Itself)?;
        Ok(begun.elapsed())
    }

    /// Starts Kamailio on a free port.
    pub fn kamailio(&self, program: &Path, settings: &Settings, carrier: Carrier) -> Result<Subject> {
        let port = free_port()?;
        let process = self.start_kamailio(program, settings, port, carrier, Allocator::Tlsf)?;
        subject(process, port, Phones::bind()?, settings.users)
    }

    /// Starts the floor for the phones of the generator.
    pub fn floor(&self, kind: Kind, users: u32) -> Result<Subject> {
        let phones = Phones::bind()?;
        let ports = phones.ports()?;
        self.start_floor(kind, &ports, phones, users)
    }

    /// Starts a floor that learns its phones from their REGISTERs.
    pub fn learning_floor(&self, kind: Kind) -> Result<Subject> {
        self.start_floor(kind, &[], Phones::bind()?, 1)
    }

    fn start_floor(&self, kind: Kind, ports: &[u16], phones: Phones, users: u32) -> Result<Subject> {
        let mut command = (self.floor_command)()?;
        command.arg(kind.name());
        command.args(ports.iter().map(u16::to_string));
        let mut process = Process::start("floor", &mut command, &self.folder.join("floor.log"))?;
        let line = process.ready()?;
        let port = line
            .rsplit_once(':')
            .and_then(|(_, port)| port.trim().parse().ok())
            .with_context(|| format!("the floor printed {line:?}, which has no port"))?;
        subject(process, port, phones, users)
    }
}

fn subject(process: Process, port: u16, phones: Phones, users: u32) -> Result<Subject> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    phones.connect(address)?;
    let ports = phones.ports()?;
    Ok(Subject { process, phones, ports, address, registering: Walk::new(users), calling: Walk::new(users) })
}
