//! Parameters of a load.

use anyhow::{Result, bail};
use ringway_load::{Classic, Length, MediaUse, Spacing, Users};
use ringway_transaction::Timers;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
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

    /// True if the called users' side is played too.
    pub(crate) const fn has_callees(self) -> bool {
        match self {
            Self::Call | Self::Redirect | Self::Options | Self::Message => true,
            Self::Register | Self::Logout | Self::CallNotFound => false,
        }
    }

    pub(crate) const fn caller(self, plan: &Plan) -> Classic {
        match self {
            Self::Register => Classic::Register,
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
            Self::Register | Self::Logout | Self::Call | Self::CallNotFound | Self::Redirect => {
                Classic::Answer { ring: plan.ring }
            }
        }
    }
}

impl Plan {
    /// Checks that packets stay where they may go, and that the numbers are possible.
    pub(crate) fn check(&self) -> Result<()> {
        let host = *self.target.ip();
        if !may_send(host.into(), &self.allowed_hosts) {
            bail!("{host} is not a loopback address; give --allow-remote {host} to send load there");
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
        Ok(())
    }

    /// True if called users are registered before the load starts.
    pub const fn flow_needs_callees(&self) -> bool {
        self.flow.has_callees()
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
