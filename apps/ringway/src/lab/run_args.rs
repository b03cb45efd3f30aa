//! Arguments of `ringway lab run`.

use clap::{Args as ClapArgs, ValueEnum};
use ringway_lab::load::Criterion;
use ringway_lab::server::Algorithm;
use ringway_lab::server::Carrier;
use std::net::IpAddr;
use std::path::PathBuf;

/// Help behind the options of `ringway lab run`.
pub(crate) const RUN_HELP: &str =
    "Each target is started in a temporary folder, pinned to the first processor, and
loaded from the second one; the targets take turns (A B B A). Every trial is
written at once to DIR/results.jsonl; `ringway lab report DIR` makes charts of
it. A trial that the generator did not play in time is repeated once and never
counts. docs/reference/lab.md explains the criteria.

Targets: ringway, kamailio (with -x tlsf), kamailio-default (with the allocator
of its package), or HOST:PORT of a running server.

Examples:
  ringway lab run register call --target ringway --target kamailio --quick
  ringway lab run peak --target ringway --seconds 10 --out results/peak
  ringway lab run call --transport tcp --digest MD5 --repeat 7
  ringway lab run ./mine.toml --target 127.0.0.1:5060 --domain example.org \\
    --password-file lab.password
  ringway lab run authentication --sources 20 \\
    --database postgres://ringway@127.0.0.1/lab --database-password-file FILE
  ringway lab run register --fail-if 'p99>50ms' \\
    --compare results/2026-01-31-120000

Exit status: 0 done; 1 a target failed, a condition of --fail-if holds, or the
campaign was interrupted; 2 bad usage or a bad experiment file.";

/// Arguments of `ringway lab run`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Experiments of `ringway lab list`, or TOML files of your own
    #[arg(value_name = "EXPERIMENT", required = true)]
    pub(crate) experiments: Vec<String>,
    /// Server: ringway, kamailio, kamailio-default or HOST:PORT; may be given several times
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
    /// Host besides loopback that load may be sent to
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
