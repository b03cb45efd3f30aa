//! Arguments of `ringway lab`.

use super::agent::AgentArgs;
use super::sum::{self, SumArgs};
use crate::tls_args::TlsArgs;
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use ringway_lab::load::{Called, ConnectionUse, Criterion, CryptoSuite, Flow, MediaUse, Transport};
use ringway_lab::server::{Algorithm, Carrier};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Arguments of `ringway lab`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LabArgs {
    /// Command of the lab.
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// Commands of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Offer one load to a server, in an open loop
    #[command(after_help = "The attempts start at planned times, however slowly the server responds, and the
response time counts from the planned time. A result is marked invalid if the
generator did not do its part in time. docs/reference/lab.md explains it.

Conditions of --fail-if: success<99.9%, achieved<99%, retransmissions>1%,
lag>1ms, and percentiles of the response time, p50 (the median) to p100 (the
maximum): p99>50ms fails if the 99th percentile, the time that 99 % of the
attempts took at most, is above 50 ms.

Examples:
  ringway lab load 127.0.0.1:5060 --scenario register --rate 1000 --sources 20
  ringway lab load 127.0.0.1:5060 --scenario call --rate 100 --users 500 \\
    --talk 5s --password-file lab.password
  ringway lab load [::1]:5060 --scenario update --users 1000 --transport tcp \\
    --connections user
  ringway lab load 127.0.0.1:5060 --rate 3000 --json \\
    --pid $(pidof kamailio | cut -d' ' -f1)
  ringway lab load 127.0.0.1:5060 --rate 500 --fail-if 'p99>50ms' \\
    --fail-if 'success<99.9%'
  ringway lab load 127.0.0.1:5060 --scenario-file uac.xml \\
    --callee-file uas.xml --users-file users.csv

Ctrl-C ends the run with its results so far, a second Ctrl-C without them.

Exit status: 0 done; 1 the result is INVALID, a condition of --fail-if holds,
the server does not answer, or the run failed; 2 bad usage; 130 interrupted.")]
    Load(Box<LoadArgs>),
    /// Write a built-in scenario as a scenario file of SIPp
    #[command(after_help = "SIPp takes the users from a list: a line SEQUENTIAL, then lines
`name;[authentication username=name password=secret];called user`.
--users-file of `lab load` reads it too.

Examples:
  ringway lab scenario register --digest --domain example.org > register.xml
  ringway lab scenario call --talk 2s > call.xml
  ringway lab scenario call --callee --ring 1s-3s > answer.xml
  sipp 127.0.0.1:5060 -sf call.xml -inf users.csv -i 127.0.0.1 -r 10 -m 100")]
    Scenario(ScenarioArgs),
    /// Run experiments on servers: start each, load it at several rates, compare
    #[command(after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// List the experiments: name, title, what each reproduces of the documents
    #[command(after_help = "Examples:\n  ringway lab list\n  ringway lab list --json")]
    List(ListArgs),
    /// Make a report of the results of a campaign: one HTML file with charts and tables
    #[command(after_help = "The file needs no network, no script and no other file, and can be printed.
Trials that the generator did not play in time are shown hollow and listed, and
are no results. Several campaigns can be in one report if they are of the
same machine; one that is given several times counts once.

Examples:
  ringway lab report results/2026-01-31-120000
  ringway lab report monday tuesday --out week.html

Exit status: 0 done, 1 the report cannot be written, 2 bad usage or results
that cannot be read.")]
    Report(ReportArgs),
    /// Add up the results of generators that played one load together
    #[command(after_help = SumArgs::HELP)]
    Sum(SumArgs),
    /// Serve campaigns of another machine: start servers here, and report their CPU time and memory
    #[command(after_help = AgentArgs::HELP, args_conflicts_with_subcommands = true)]
    Agent(AgentArgs),
}

/// Arguments of `ringway lab scenario`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ScenarioArgs {
    /// Kind of attempts
    #[arg(value_enum, value_name = "NAME")]
    pub(crate) scenario: ScenarioArg,
    /// Write the side of the called user
    #[arg(long)]
    pub(crate) callee: bool,
    /// The server challenges requests: write the challenge and the second request
    #[arg(long)]
    pub(crate) digest: bool,
    /// Domain of the users
    #[arg(long, value_name = "DOMAIN", default_value = "localhost")]
    pub(crate) domain: String,
    /// Ring time of calls
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = ringway_lab::times::length)]
    pub(crate) ring: ringway_lab::load::Length,
    /// Talk time of calls
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = ringway_lab::times::length)]
    pub(crate) talk: ringway_lab::load::Length,
}

/// Arguments of `ringway lab report`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Folder with the results of `ringway lab run`, or its results.jsonl
    #[arg(value_name = "DIR", required = true)]
    pub(crate) results: Vec<PathBuf>,
    /// File to write (default: report.html beside the first results)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Write each chart as an SVG file into this folder, too
    #[arg(long, value_name = "FOLDER")]
    pub(crate) pictures: Option<PathBuf>,
}

/// Arguments of `ringway lab load`.
#[derive(Debug, ClapArgs)]
pub(crate) struct LoadArgs {
    /// Address of the server, one of IPv6 in brackets; loopback, unless --allow-remote permits another one
    #[arg(value_name = "HOST:PORT")]
    pub(crate) target: String,
    /// Kind of attempts
    #[arg(long, value_enum, default_value_t = ScenarioArg::Register)]
    pub(crate) scenario: ScenarioArg,
    /// Scenario file of SIPp for the callers, in place of --scenario; a pause without a time is --talk
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    pub(crate) scenario_file: Option<PathBuf>,
    /// Scenario file of SIPp for the called users, who are then registered and played
    #[arg(long, value_name = "FILE", requires = "scenario_file")]
    pub(crate) callee_file: Option<PathBuf>,
    /// List of fields of SIPp, as its -inf; the first one is that of `[field0]` and of the users, another one is named in the
    /// message: `[field0 file="NAME"]`. Several are possible
    #[arg(long, value_name = "FILE", requires = "scenario_file")]
    pub(crate) inf: Vec<PathBuf>,
    /// File for the lines of `<log>` and `<warning>` of the scenario files [default: the first 100 on standard error]
    #[arg(long, value_name = "FILE", requires = "scenario_file")]
    pub(crate) log_file: Option<PathBuf>,
    /// Transport to the server
    #[arg(long, value_enum, default_value_t = TransportArg::Udp)]
    pub(crate) transport: TransportArg,
    /// Certificate authorities of the server for TLS, PEM [default: those of the operating system]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Name that the server's certificate must have [default: its address]
    #[arg(long, value_name = "HOST")]
    pub(crate) server_name: Option<String>,
    /// Certificate chain of the callers and called users for TLS, PEM
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of --certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) private_key: Option<PathBuf>,
    /// Make a full TLS handshake on every connection
    #[arg(long)]
    pub(crate) no_resumption: bool,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Connections of the callers over TCP and TLS
    #[arg(long, value_enum, default_value_t = ConnectionsArg::Shared)]
    pub(crate) connections: ConnectionsArg,
    /// Connections of the called users [default: one shared by all if --connections is shared, otherwise one for each]
    #[arg(long, value_enum)]
    pub(crate) called: Option<CalledArg>,
    /// Send requests inside a call to the server even if it records no route
    #[arg(long)]
    pub(crate) outbound_proxy: bool,
    /// Honour overload control: a user who gets 503 begins nothing for as long as its Retry-After says (`withheld`)
    #[arg(long)]
    pub(crate) oc: bool,
    /// Attempts a second
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    pub(crate) rate: f64,
    /// Exponentially distributed intervals between attempts in place of equal ones
    #[arg(long)]
    pub(crate) poisson: bool,
    /// Seconds during which attempts are started
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Number of users; a call needs as many more, who are called
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "users_file")]
    pub(crate) users: u32,
    /// Name of the users before their number
    #[arg(long, value_name = "TEXT", default_value = "u")]
    pub(crate) prefix: String,
    /// Digits of the users' numbers
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub(crate) digits: usize,
    /// File with a user a line, `name` or `name,password`, of which the second half is called; or the list of `ringway user
    /// import`, or one of SIPp
    #[arg(long, value_name = "FILE")]
    pub(crate) users_file: Option<PathBuf>,
    /// File with the password of all users
    #[arg(long, value_name = "FILE", conflicts_with = "users_file")]
    pub(crate) password_file: Option<PathBuf>,
    /// Domain of the users
    #[arg(long, value_name = "DOMAIN", default_value = "localhost")]
    pub(crate) domain: String,
    /// Ring time of calls: a time (2s, 500ms), a range (1s-3s), or a mean (~3s, exponential)
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = ringway_lab::times::length)]
    pub(crate) ring: ringway_lab::load::Length,
    /// Talk time of calls
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = ringway_lab::times::length)]
    pub(crate) talk: ringway_lab::load::Length,
    /// Media streams of calls: packets of 20 ms in both directions during the talk time
    #[arg(long, value_enum, default_value_t = MediaArg::None)]
    pub(crate) media: MediaArg,
    /// SRTP crypto suite of --media srtp
    #[arg(long, value_name = "SUITE", default_value = "AES_CM_128_HMAC_SHA1_80", value_parser = suite)]
    pub(crate) suite: CryptoSuite,
    /// First local address [default: the one that packets to the server have]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) local: Option<IpAddr>,
    /// Local addresses, from the first one on: hosts that a server with a limit for each source tells apart
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sources: u8,
    /// Sockets for each local address, of each thread and side; over TCP shared connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sockets: u8,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: u32,
    /// Timer T1, from which the retransmission timers follow
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = ringway_lab::times::duration)]
    pub(crate) t1: Duration,
    /// Host besides loopback that load may be sent to
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_remote: Vec<IpAddr>,
    /// Process of the server, whose CPU time for each attempt is measured, with its children
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Time of the clock at which the load starts, for several generators together: seconds since 1970, or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = sum::clock_time)]
    pub(crate) start_at: Option<SystemTime>,
    /// Condition under which the exit status is 1
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Criterion>,
    /// Print JSON Lines: a record for each second and one for the result
    #[arg(long)]
    pub(crate) json: bool,
}

/// Kind of attempts.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ScenarioArg {
    /// Create or refresh a binding
    Register,
    /// Refresh a binding that was made before
    Update,
    /// Remove a binding that was made before
    Logout,
    /// Call between two users; both sides are played
    Call,
    /// Call of an unknown user: 404
    CallNotFound,
    /// Call through a redirect server
    Redirect,
    /// OPTIONS to a user; both sides are played
    Options,
    /// MESSAGE between two users; both sides are played
    Message,
    /// SUBSCRIBE to the own presence, ended by one NOTIFY
    Subscribe,
    /// PUBLISH of the own presence
    Publish,
}

/// Media streams of calls.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MediaArg {
    /// SDP without streams
    None,
    /// RTP
    Rtp,
    /// SRTP with keys in the SDP
    Srtp,
}

impl MediaArg {
    /// The media streams, with the suite of SRTP.
    pub(crate) const fn media_use(self, suite: CryptoSuite) -> MediaUse {
        match self {
            Self::None => MediaUse::None,
            Self::Rtp => MediaUse::Rtp,
            Self::Srtp => MediaUse::Srtp(suite),
        }
    }
}

fn suite(name: &str) -> Result<CryptoSuite, String> {
    CryptoSuite::from_name(name).ok_or_else(|| {
        let names = CryptoSuite::ALL.map(CryptoSuite::name).join(", ");
        format!("{name:?} is not a suite; give one of {names}")
    })
}

impl ScenarioArg {
    /// The kind of attempts.
    pub(crate) const fn flow(self) -> Flow {
        match self {
            Self::Register => Flow::Register,
            Self::Update => Flow::Update,
            Self::Logout => Flow::Logout,
            Self::Call => Flow::Call,
            Self::CallNotFound => Flow::CallNotFound,
            Self::Redirect => Flow::Redirect,
            Self::Options => Flow::Options,
            Self::Message => Flow::Message,
            Self::Subscribe => Flow::Subscribe,
            Self::Publish => Flow::Publish,
        }
    }
}

/// Transport to the server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TransportArg {
    /// UDP
    Udp,
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
    /// WebSocket over TCP
    Ws,
    /// WebSocket over TLS
    Wss,
}

impl TransportArg {
    /// The transport.
    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
            Self::Tls => Transport::Tls,
            Self::Ws => Transport::Ws,
            Self::Wss => Transport::Wss,
        }
    }
}

/// Connections over TCP.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ConnectionsArg {
    /// One for each local address and each of its --sockets
    Shared,
    /// One for each user
    User,
    /// One for each attempt
    Call,
}

impl ConnectionsArg {
    /// The use of connections.
    pub(crate) const fn connections(self) -> ConnectionUse {
        match self {
            Self::Shared => ConnectionUse::Shared,
            Self::User => ConnectionUse::PerUser,
            Self::Call => ConnectionUse::PerAttempt,
        }
    }
}

/// Connections of the called users.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CalledArg {
    /// One for each local address and each of its --sockets
    Shared,
    /// One for each user
    User,
    /// None: the server opens connections to their Contacts; TLS needs --certificate
    Contact,
}

impl CalledArg {
    /// The connections.
    pub(crate) const fn called(self) -> Called {
        match self {
            Self::Shared => Called::Shared,
            Self::User => Called::PerUser,
            Self::Contact => Called::Dialled,
        }
    }
}

/// Arguments of `ringway lab run`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Experiments and campaigns of `ringway lab list`, or TOML files of your own
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,
    /// Server: ringway, ringway-uncontrolled, kamailio, kamailio-default, HOST:PORT, or NAME@HOST:PORT at an agent; may be given several times
    #[arg(long, value_name = "TARGET", default_values_t = ["ringway".to_owned()])]
    pub(crate) target: Vec<String>,
    /// Seconds of each trial in place of the experiments' own
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<f64>,
    /// Trials of each point in place of the experiments' own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// One short trial of each point; the results are marked indicative
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only variants with this transport
    #[arg(long, value_enum)]
    pub(crate) transport: Option<CarrierArg>,
    /// Only variants with this digest algorithm, or without any
    #[arg(long, value_enum)]
    pub(crate) digest: Option<DigestArg>,
    /// Folder for the results (default: results/ and the time)
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Earlier results of this machine to compare with
    #[arg(long, value_name = "DIR")]
    pub(crate) compare: Option<PathBuf>,
    /// Condition on a trial under which the exit status is 1
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Criterion>,
    /// Local addresses, from 127.0.0.1 on: hosts that a server with a limit for each source tells apart
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) sources: u8,
    /// Longest time, of the whole campaign, to wait until other programs leave the machine
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = ringway_lab::times::duration)]
    pub(crate) patience: Duration,
    /// Sample each target in a further trial of each variant: its CPU time by component (perf; root or CAP_PERFMON)
    #[arg(long)]
    pub(crate) profile: bool,
    /// Domain of the users of a running server
    #[arg(long, value_name = "DOMAIN", default_value = Self::DOMAIN)]
    pub(crate) domain: String,
    /// File with the password of the users u0000000, u0000001, … of a running server
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Empty database for experiments that read passwords from one: postgres://USER@HOST/NAME or mysql://USER@HOST/NAME
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// File with the password of the database's user
    #[arg(long, value_name = "FILE", requires = "database")]
    pub(crate) database_password_file: Option<PathBuf>,
    /// Key of the agents of `ringway lab agent init`
    #[arg(long, value_name = "FILE")]
    pub(crate) agent_key: Option<PathBuf>,
    /// Host besides loopback that load and questions to agents may be sent to
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_remote: Vec<IpAddr>,
    /// Print the records as JSON Lines in place of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunArgs {
    /// Default of `--domain`.
    pub(crate) const DOMAIN: &str = "localhost";
}

/// Arguments of `ringway lab list`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Print JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// Transport of a variant.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CarrierArg {
    /// UDP
    Udp,
    /// TCP
    Tcp,
    /// TLS over TCP
    Tls,
    /// WebSocket over TCP
    Ws,
    /// WebSocket over TLS
    Wss,
}

/// Algorithm of a variant.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DigestArg {
    /// No challenge
    #[value(name = "none")]
    None,
    /// MD5
    #[value(name = "MD5", alias = "md5")]
    Md5,
    /// SHA-256
    #[value(name = "SHA-256", alias = "sha-256")]
    Sha256,
}

impl CarrierArg {
    /// The transport.
    pub(crate) const fn carrier(self) -> Carrier {
        match self {
            Self::Udp => Carrier::Udp,
            Self::Tcp => Carrier::Tcp,
            Self::Tls => Carrier::Tls,
            Self::Ws => Carrier::Ws,
            Self::Wss => Carrier::Wss,
        }
    }
}

impl DigestArg {
    /// The algorithm.
    pub(crate) const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::None => None,
            Self::Md5 => Some(Algorithm::Md5),
            Self::Sha256 => Some(Algorithm::Sha256),
        }
    }
}

/// Help behind the options of `ringway lab run`.
const RUN_HELP: &str = "Each target is started in a temporary folder, pinned to the first processor, and
loaded from the second one; the targets take turns (A B B A). Every trial is
written at once to DIR/results.jsonl; `ringway lab report DIR` makes charts of
it. A trial that the generator did not play in time is repeated once and never
counts. docs/reference/lab.md explains the criteria.

Targets: ringway, ringway-uncontrolled (without overload control), kamailio
(with -x tlsf), kamailio-default (with the allocator of its package), HOST:PORT
of a running server, or NAME@HOST:PORT for a server on another machine, where
`ringway lab agent` starts or watches it.

Examples:
  ringway lab run register call --target ringway --target kamailio --quick
  ringway lab run peak --target ringway --seconds 10 --out results/peak
  ringway lab run call --transport tcp --digest MD5 --repeat 7
  ringway lab run register peak --target ringway --target kamailio --profile
  ringway lab run ./mine.toml --target 127.0.0.1:5060 --domain example.org \\
    --password-file lab.password
  ringway lab run authentication --sources 20 \\
    --database postgres://ringway@127.0.0.1/lab --database-password-file FILE
  ringway lab run register --fail-if 'p99>50ms' \\
    --compare results/2026-01-31-120000
  ringway lab run call --target ringway@192.0.2.1:8061 \\
    --agent-key agent.key --allow-remote 192.0.2.1

Exit status: 0 done; 1 a target failed, a condition of --fail-if holds, or the
campaign was interrupted; 2 bad usage or a bad experiment file.";
