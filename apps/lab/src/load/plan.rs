//! Parameters of a load.

use super::locals::{Locals, may_send};
use super::streams::CONNECTIONS_MAX;
use anyhow::{Context, Result, bail};
use ringway_load::{Classic, ConnectionUse, Length, MediaUse, Spacing, Users};
use ringway_sansio::Transport;
use ringway_transaction::Timers;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Load of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Address of the server.
    pub target: SocketAddr,
    /// The callers send to the callees of their thread in place of a server: generator against generator, over UDP.
    pub is_direct: bool,
    /// Transport to the server.
    pub transport: Transport,
    /// Connections of the callers over a stream transport. Called users have one each, unless they share one.
    pub connections: ConnectionUse,
    /// Hosts that packets may go to besides loopback.
    pub allowed_hosts: Vec<IpAddr>,
    /// Kind of attempts.
    pub flow: Flow,
    /// Attempts a second.
    pub rate: f64,
    /// Intervals between planned attempts.
    pub spacing: Spacing,
    /// Time during which attempts are planned.
    pub length: Duration,
    /// Users.
    pub users: Users,
    /// Called users.
    pub peers: Users,
    /// Domain of the users.
    pub domain: String,
    /// First local address, of the same family as the target's.
    pub local: IpAddr,
    /// Number of local addresses, from the first one on; a server with a limit for each source needs several.
    pub sources: u8,
    /// Number of sockets for each local address, of each thread and side; over a stream transport that of shared
    /// connections.
    pub sockets: u8,
    /// Number of threads.
    pub threads: u32,
    /// Ring time.
    pub ring: Length,
    /// Talk time.
    pub talk: Length,
    /// Media streams of the calls.
    pub media: MediaUse,
    /// Values of T1, T2 and T4.
    pub timers: Timers,
}

/// Kind of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// REGISTER that creates or refreshes a binding.
    Register,
    /// REGISTER that refreshes a binding; the bindings are made before the load starts.
    Update,
    /// REGISTER that removes a binding; the bindings are made before the load starts.
    Logout,
    /// Call between two users; both sides are played.
    Call,
    /// Call of an unknown user, which ends with 404.
    CallNotFound,
    /// Call through a redirect server.
    Redirect,
    /// OPTIONS to a user; both sides are played.
    Options,
    /// MESSAGE between two users; both sides are played.
    Message,
}

impl Flow {
    /// All kinds with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Register, "register"),
        (Self::Update, "update"),
        (Self::Logout, "logout"),
        (Self::Call, "call"),
        (Self::CallNotFound, "call-not-found"),
        (Self::Redirect, "redirect"),
        (Self::Options, "options"),
        (Self::Message, "message"),
    ];

    /// Name on the command line and in results.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(flow, _)| *flow == self).map_or("", |(_, name)| name)
    }

    /// True if the called users' side is played too.
    pub(crate) const fn has_callees(self) -> bool {
        match self {
            Self::Call | Self::Redirect | Self::Options | Self::Message => true,
            Self::Register | Self::Update | Self::Logout | Self::CallNotFound => false,
        }
    }

    /// True if the users' bindings are made before the load starts.
    pub(crate) const fn has_bindings(self) -> bool {
        matches!(self, Self::Update | Self::Logout)
    }

    pub(crate) const fn caller(self, plan: &Plan) -> Classic {
        match self {
            Self::Register | Self::Update => Classic::Register,
            Self::Logout => Classic::Logout,
            Self::Call => Classic::Call { talk: plan.talk },
            Self::CallNotFound => Classic::CallNotFound,
            Self::Redirect => Classic::Redirect { talk: plan.talk },
            Self::Options => Classic::Options,
            Self::Message => Classic::Message,
        }
    }

    pub(crate) const fn callee(self, plan: &Plan) -> Classic {
        match self {
            Self::Message => Classic::AnswerSingle("MESSAGE"),
            Self::Options => Classic::AnswerSingle("OPTIONS"),
            Self::Register
            | Self::Update
            | Self::Logout
            | Self::Call
            | Self::CallNotFound
            | Self::Redirect => Classic::Answer { ring: plan.ring },
        }
    }
}

impl Plan {
    /// Checks that packets stay where they may go, and that the numbers are possible.
    ///
    /// # Errors
    /// The value, and what to do.
    pub fn check(&self) -> Result<()> {
        let host = self.target.ip();
        if !may_send(host, &self.allowed_hosts) {
            bail!("{host} is not a loopback address; give --allow-remote {host} to send load there");
        }
        if host.is_ipv4() != self.local.is_ipv4() {
            bail!(
                "{} cannot be reached from {}; give --local with an address of its family",
                host,
                self.local
            );
        }
        if self.media != MediaUse::None && !matches!(self.flow, Flow::Call | Flow::Redirect) {
            bail!("only calls have media: leave out the media, or take the scenario call or redirect");
        }
        if !(self.rate.is_finite() && self.rate > 0.0 && self.rate <= RATE_MAX) {
            bail!("the rate must be above 0 and at most {RATE_MAX} a second");
        }
        let sockets = u16::from(self.sources) * u16::from(self.sockets);
        if !(1..=SOCKETS_MAX).contains(&sockets) || !(1..=THREADS_MAX).contains(&self.threads) {
            bail!(
                "1 to {SOCKETS_MAX} sockets (sources × sockets for each) and 1 to {THREADS_MAX} threads are possible"
            );
        }
        let users = self.users.count().min(self.peers.count());
        if users < self.threads {
            bail!("{} threads need as many users; there are {users}", self.threads);
        }
        let attempts = self.rate * self.length.as_secs_f64();
        if self.flow == Flow::Logout && attempts > f64::from(self.users.count()) + 0.5 {
            bail!(
                "{attempts:.0} logouts need as many users, for each has one binding to remove; there are {}: raise --users",
                self.users.count()
            );
        }
        if self.is_direct && (self.transport != Transport::Udp || !self.flow.has_callees()) {
            bail!("generator against generator needs UDP and a flow with called users");
        }
        self.check_connections()
    }

    fn check_connections(&self) -> Result<()> {
        if !self.transport.is_stream() || self.connections != ConnectionUse::PerUser {
            return Ok(());
        }
        let sides = if self.flow.has_callees() { 2 } else { 1 };
        let users = u64::from(self.users.count());
        let files = ringway_linux::sys::raise_open_files().context("read the limit of open files")?;
        if users * sides + FILES_RESERVED > files {
            bail!(
                "a connection for each of {users} users needs {} open files and {files} are permitted; raise the limit \
                 (ulimit -n) or lower --users",
                users * sides + FILES_RESERVED
            );
        }
        let users_each = users.div_ceil(u64::from(self.threads));
        if users_each > CONNECTIONS_MAX as u64 {
            bail!("a thread has at most {CONNECTIONS_MAX} connections; raise --threads");
        }
        Ok(())
    }

    /// Part of thread `index`: its users and its share of the rate.
    pub(crate) fn of_thread(&self, index: u32) -> Result<Self> {
        let part = |users: &Users| users.part(index, self.threads).context("a thread has no user");
        Ok(Self {
            rate: self.rate / f64::from(self.threads),
            users: part(&self.users)?,
            peers: part(&self.peers)?,
            ..self.clone()
        })
    }

    /// Local addresses.
    pub(crate) const fn locals(&self) -> Locals {
        Locals { first: self.local, sources: self.sources, sockets: self.sockets }
    }

    /// Users that are registered before the load starts.
    pub const fn registered_before(&self) -> Option<&Users> {
        match (self.flow.has_callees(), self.flow.has_bindings()) {
            (true, _) => Some(&self.peers),
            (false, true) => Some(&self.users),
            (false, false) => None,
        }
    }
}

/// Maximum attempts a second.
const RATE_MAX: f64 = 10_000_000.0;
/// Maximum number of sockets of a thread and side.
const SOCKETS_MAX: u16 = 256;
/// Maximum number of threads.
const THREADS_MAX: u32 = 64;
/// Open files besides the connections of users.
const FILES_RESERVED: u64 = 64;
