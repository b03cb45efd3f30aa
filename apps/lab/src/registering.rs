//! REGISTERs of many users, for a server that was started elsewhere.

use crate::closed_loop::{Extent, drive};
use crate::digest::Algorithm;
use crate::register::{Expect, Refresh, Walk};
use crate::server::write_users;
use crate::template::Carrier;
use crate::wire::{PHONE_SOCKETS, Phones};
use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

/// The phones of all users.
pub struct Registering {
    phones: Phones,
    ports: [u16; PHONE_SOCKETS],
    walk: Walk,
}

impl Registering {
    /// Creates the phones of `users` users for a server on `port` of 127.0.0.1.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn at(port: u16, users: u32) -> Result<Self> {
        let phones = Phones::bind()?;
        phones.connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        Ok(Self { ports: phones.ports()?, phones, walk: Walk::new(users) })
    }

    /// Writes the list of these users.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_users(path: &Path, users: u32) -> Result<()> {
        write_users(path, users).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Sends `registers` REGISTERs of all users in turn, `window` at a time; with `with_digest` after a
    /// challenge with MD5. Lost messages are retransmitted.
    ///
    /// # Errors
    /// An unexpected response, or none for some time.
    pub fn run(&mut self, registers: u64, window: usize, with_digest: bool) -> Result<()> {
        let Self { phones, ports, walk } = self;
        let expect = if with_digest { Expect::Challenge(Algorithm::Md5) } else { Expect::Ok };
        let mut scenario = Refresh::new(walk, *ports, Carrier::Udp, expect).with_window(window);
        drive(phones, &mut scenario, Extent::Operations(registers), &mut || Ok(0))?;
        Ok(())
    }
}
