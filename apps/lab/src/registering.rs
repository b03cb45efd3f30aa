//! REGISTERs of many users, for a server that was started elsewhere.

use crate::load::{Files, Flow, LoadTls, Plan, Session, Side, Transport, Users, Window};
use crate::operation::Operation;
use crate::server::{DOMAIN, PASSWORD, write_users};
use anyhow::{Context, Result, ensure};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// The phones of all users.
pub struct Registering {
    session: Option<Session>,
}

impl Registering {
    /// Creates the phones of `users` users for a server on UDP `port` of 127.0.0.1.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn at(port: u16, users: u32) -> Result<Self> {
        Self::over((Transport::Udp, None), port, users)
    }

    /// Creates them for a server on `port` of this transport, with TLS if it needs it. Over a stream transport all share one
    /// connection.
    ///
    /// # Errors
    /// The sockets cannot be opened.
    pub fn over((transport, tls): (Transport, Option<LoadTls>), port: u16, users: u32) -> Result<Self> {
        let users = Users::by_rule("u", 7, 0, users, PASSWORD)?;
        let scenario = Operation::Refresh.scenario()?.as_ref().clone();
        let plan = Plan {
            files: Some(Files::new("registrations".to_owned(), scenario, None)?),
            domain: DOMAIN.to_owned(),
            transport,
            tls,
            ..Plan::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Flow::Register, users.clone(), users)
        };
        Ok(Self { session: Some(Session::open(&plan)?) })
    }

    /// Writes the list of these users.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_users(path: &Path, users: u32) -> Result<()> {
        write_users(path, users).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Sends `registers` REGISTERs of all users in turn, `window` at a time; with `with_digest` after a challenge. Lost messages
    /// are retransmitted.
    ///
    /// # Errors
    /// An unexpected response, or none for some time.
    pub fn run(&mut self, registers: u64, window: u32, with_digest: bool) -> Result<()> {
        let operation = if with_digest { Operation::RefreshChallenged } else { Operation::Refresh };
        let session = self.session.take().context("an earlier load failed")?;
        let window = Window { size: window, length: TIME_MAX, attempts: registers };
        let run = session.start_window(Side::Callers, &operation.scenario()?, window)?;
        let (statistics, session) = run.finish_session()?;
        self.session = Some(session);
        if let Some(loss) = statistics.target_loss() {
            anyhow::bail!("{loss}");
        }
        let successes = statistics.successes();
        ensure!(
            successes == registers,
            "{successes} of {registers} REGISTERs succeeded: {:?}",
            statistics.outcomes()
        );
        Ok(())
    }
}

/// Longest time for a number of REGISTERs.
const TIME_MAX: Duration = Duration::from_secs(600);
