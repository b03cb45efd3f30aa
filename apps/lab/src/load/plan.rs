//! Parameters of a load.

use anyhow::{Result, bail};
use ringway_load::{Classic, Keyword, Length, Scenario, Spacing, Step, Users};
use ringway_transaction::Timers;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

/// Load of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Address of the server.
    pub target: SocketAddrV4,
    /// Hosts that packets may go to besides loopback.
    pub allowed_hosts: Vec<IpAddr>,
    /// Kind of attempts.
    pub flow: Flow,
    /// Scenarios of files in place of those of `flow`.
    pub files: Option<Files>,
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
    /// First local address.
    pub local: Ipv4Addr,
    /// Number of local addresses, from the first one on; a server with a limit for each source needs several.
    pub sources: u8,
    /// Number of sockets for each local address, of each thread and side.
    pub sockets: u8,
    /// Number of threads.
    pub threads: u32,
    /// Ring time.
    pub ring: Length,
    /// Talk time.
    pub talk: Length,
    /// Values of T1, T2 and T4.
    pub timers: Timers,
}

/// Scenarios of files.
#[derive(Clone, Debug)]
pub struct Files {
    name: String,
    caller: Arc<Scenario>,
    callee: Option<Arc<Scenario>>,
}

/// Kind of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// REGISTER that creates or refreshes a binding.
    Register,
    /// REGISTER that removes a binding.
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
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Register, "register"),
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

    /// Scenario of the caller.
    pub const fn caller(self, talk: Length) -> Classic {
        match self {
            Self::Register => Classic::Register,
            Self::Logout => Classic::Logout,
            Self::Call => Classic::Call { talk },
            Self::CallNotFound => Classic::CallNotFound,
            Self::Redirect => Classic::Redirect { talk },
            Self::Options => Classic::Options,
            Self::Message => Classic::Message,
        }
    }

    /// Scenario of the called user, if that side is played too.
    pub const fn callee(self, ring: Length) -> Option<Classic> {
        match self {
            Self::Message => Some(Classic::AnswerSingle("MESSAGE")),
            Self::Options => Some(Classic::AnswerSingle("OPTIONS")),
            Self::Call | Self::Redirect => Some(Classic::Answer { ring }),
            Self::Register | Self::Logout | Self::CallNotFound => None,
        }
    }
}

impl Files {
    /// Checks the sides of two scenarios; `name` is their name in results. Without `callee` nobody plays the called users.
    ///
    /// # Errors
    /// A caller's scenario that begins with a received message, or a callee's that begins with a sent one.
    pub fn new(name: String, caller: Scenario, callee: Option<Scenario>) -> Result<Self> {
        if !caller.is_caller() {
            bail!("{name} begins with a received message: it is the scenario of a called user");
        }
        if callee.as_ref().is_some_and(Scenario::is_caller) {
            bail!("the scenario of the called user begins with a sent message: it is that of a caller");
        }
        Ok(Self { name, caller: Arc::new(caller), callee: callee.map(Arc::new) })
    }

    /// True if the caller's messages name a called user.
    pub fn has_peers(&self) -> bool {
        self.caller.steps().iter().any(|step| match step {
            Step::Send(send) => send.template.has(|keyword| *keyword == Keyword::Peer),
            Step::Receive(_) | Step::Pause(_) => false,
        })
    }
}

impl Plan {
    /// Checks that packets stay where they may go, and that the numbers are possible.
    ///
    /// # Errors
    /// The first value that is not possible.
    pub fn check(&self) -> Result<()> {
        let host = *self.target.ip();
        if !may_send(host.into(), &self.allowed_hosts) {
            bail!("{host} is not a loopback address; give --allow-remote {host} to send load there");
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
        Ok(())
    }

    /// Name of the scenario in results.
    pub fn scenario_name(&self) -> &str {
        self.files.as_ref().map_or(self.flow.name(), |files| &files.name)
    }

    /// True if called users are registered before the load starts.
    pub const fn has_callees(&self) -> bool {
        match &self.files {
            Some(files) => files.callee.is_some(),
            None => self.flow.callee(self.ring).is_some(),
        }
    }

    pub(crate) fn caller(&self) -> Result<Arc<Scenario>> {
        match &self.files {
            Some(files) => Ok(Arc::clone(&files.caller)),
            None => Ok(Arc::new(self.flow.caller(self.talk).scenario()?)),
        }
    }

    /// Scenario of the called users, if they are played too.
    pub(crate) fn callee(&self) -> Result<Option<Arc<Scenario>>> {
        match &self.files {
            Some(files) => Ok(files.callee.clone()),
            None => Ok(self.flow.callee(self.ring).map(Classic::scenario).transpose()?.map(Arc::new)),
        }
    }
}

/// True if packets may go to this address.
pub(crate) fn may_send(to: IpAddr, allowed: &[IpAddr]) -> bool {
    to.is_loopback() || allowed.contains(&to)
}

/// Maximum attempts a second.
const RATE_MAX: f64 = 10_000_000.0;
/// Maximum number of sockets of a thread and side.
const SOCKETS_MAX: u16 = 256;
/// Maximum number of threads.
const THREADS_MAX: u32 = 64;
