//! The command line.

mod users;

use crate::lab::LabArgs;
use crate::phone::{AnswerArgs, AudioArgs, CallArgs, DemoArgs, OptionsArgs, PhoneScreenArgs};
use clap::error::ErrorKind;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
pub(crate) use users::{ForwardArgs, NameArgs, PasswordArgs, UserArgs, UserCommand};

const EXAMPLES: &str = "Examples:
  ringway demo                           see it work, without any set-up
  ringway serve                          start on safe defaults: domain localhost, 127.0.0.1:5060
  ringway user add alice                 add a user; prints the password once
  ringway serve --config ringway.toml    start with a configuration
  ringway reload                         apply a changed configuration while calls run
  ringway drain                          make phones leave, for maintenance
  ringway block add --network 192.0.2.7  refuse an address
  ringway show registrations             registered users and their contacts
  ringway phone                          a phone in this terminal
  ringway call sip:bob@192.0.2.7         call without a screen
  ringway options sip:192.0.2.7          query the capabilities of a server or a phone

Exit status: 0 done, 1 the operation failed (a call was refused, `check` found errors), 2 bad usage or bad configuration.";

/// A SIP server (registrar, proxy, redirect) and a phone.
#[derive(Debug, Parser)]
#[command(name = "ringway", version, about, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    #[command(
        after_help = "Without --config it reads the first of $RINGWAY_CONFIG, ./ringway.toml and /etc/ringway/ringway.toml that there is, else it
uses safe defaults.
It prints one line beginning with `ready` when it listens. SIGTERM stops it gracefully; SIGHUP reloads.

Examples:
  ringway serve
  ringway serve --config /etc/ringway.toml"
    )]
    Serve(ServeArgs),
    /// Add, change, list and remove users; a running server sees it within a second
    User(UserArgs),
    /// Make a private certificate authority and certificates, for TLS
    Cert(CertArgs),
    /// Check a configuration file without starting
    #[command(after_help = "Examples:
  ringway check
  ringway check ringway.toml
  ringway check ringway.toml --json
  ringway check ringway.toml --memory
  ringway check ringway.toml --against-running")]
    Check(CheckArgs),
    /// Print a configuration file with every key, its default and its meaning
    #[command(after_help = "Examples:
  ringway config example > ringway.toml")]
    Config(ConfigArgs),
    /// Make the running server read its configuration and certificates again, and print what that changes
    #[command(after_help = "It changes everything or, when something is wrong or needs a restart, nothing.

Examples:
  ringway reload --dry-run
  ringway reload --config /etc/ringway.toml
  ringway reload --json")]
    Reload(ReloadArgs),
    /// Make phones leave the running server, for maintenance; calls go on
    #[command(
        after_help = "Connections of phones are closed and their REGISTER gets 503, spread evenly over the time, so that they register at
another server. Other new requests get 503 at once. Requests in calls are handled as before.

Examples:
  ringway drain
  ringway drain --over 60
  ringway drain --cancel
  ringway show stats | grep drain"
    )]
    Drain(DrainArgs),
    /// Block callers and networks; a running server sees it within a second
    Block(BlockArgs),
    /// Write users, contacts, forwards and block lists into a new file, while the server runs
    #[command(after_help = "Registrations are not in it: phones register again.

Examples:
  ringway backup users-2026-05-01.db
  ringway backup /var/backups/ringway.db --config /etc/ringway/ringway.toml")]
    Backup(BackupArgs),
    /// Make users, contacts, forwards and block lists those of a backup; a running server sees it within a second
    #[command(after_help = "What the backup does not have is removed.

Examples:
  ringway restore users-2026-05-01.db --dry-run
  ringway restore users-2026-05-01.db")]
    Restore(RestoreArgs),
    /// Take over the users of Kamailio or OpenSIPS from their database; a running server sees it within a second
    #[command(
        after_help = "Nothing is written there, and nobody is removed here: repeat it before you switch.

Examples:
  ringway migrate kamailio sqlite:///etc/kamailio/kamailio.sqlite --dry-run
  ringway migrate kamailio mysql://kamailio@db.example.org/kamailio --password-stdin --settings proposed.toml
  ringway migrate opensips postgres://opensips@127.0.0.1/opensips --realm example.org"
    )]
    Migrate(MigrateArgs),
    /// Query the running server
    #[command(after_help = "Examples:
  ringway show registrations
  ringway show registrations --json
  ringway show stats --admin 127.0.0.1:8060")]
    Show(ShowArgs),
    /// Print what happens to the requests of a user, with each decision of the server and its reason
    #[command(
        after_help = "It shows what happens from now on, until Ctrl-C. Begin it, then have the user call or register.

Examples:
  ringway trace bob
  ringway trace bob@example.org --seconds 30
  ringway trace +441632960001 --json"
    )]
    Trace(TraceArgs),
    /// Run the phone in this terminal
    Phone(PhoneScreenArgs),
    /// Call without a screen: for scripts and tests
    Call(Box<CallArgs>),
    /// Wait for calls and answer them, without a screen
    Answer(Box<AnswerArgs>),
    /// Ask a phone or a server what it can do, and how long that takes (OPTIONS)
    Options(Box<OptionsArgs>),
    /// List microphones and loudspeakers; `*` marks the ones that are used by default
    Audio(AudioArgs),
    /// Offer load to a SIP server and measure it
    Lab(LabArgs),
    /// See it work: a server, two phones and a protected call in one process, in a few seconds
    Demo(DemoArgs),
    /// Print the completions of a shell; the Debian package has them
    #[command(after_help = "Examples:
  ringway completions bash > ~/.local/share/bash-completion/completions/ringway
  ringway completions zsh > ~/.zfunc/_ringway
  ringway completions fish > ~/.config/fish/completions/ringway.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page; the Debian package has one for each command
    #[command(after_help = "Examples:
  ringway man | man -l -
  ringway man --out /usr/local/share/man/man1")]
    Man(ManArgs),
}

/// Arguments of `ringway backup`.
#[derive(Debug, ClapArgs)]
pub(crate) struct BackupArgs {
    /// The new file
    pub(crate) file: PathBuf,
    /// The server's configuration, which names its database (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway restore`.
#[derive(Debug, ClapArgs)]
pub(crate) struct RestoreArgs {
    /// The backup, or the database of another server
    pub(crate) file: PathBuf,
    /// The server's configuration, which names its database (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Only print what it would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway migrate`.
#[derive(Debug, ClapArgs)]
pub(crate) struct MigrateArgs {
    /// The server that has the users
    pub(crate) origin: MigrationOrigin,
    /// Its database: sqlite://FILE, mysql://USER@HOST/NAME or postgres://USER@HOST/NAME
    pub(crate) url: String,
    /// Read the database's password from standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Realm of stored password hashes (default: the domain of each user)
    #[arg(long, value_name = "REALM", value_parser = realm)]
    pub(crate) realm: Option<String>,
    /// Domain of users that have none there (default: the first of the configuration)
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Write a configuration with its domains, networks and accounts at other servers into a new file
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Only print what it would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The server's configuration, which names its database (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Server that has the users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MigrationOrigin {
    /// Kamailio
    Kamailio,
    /// OpenSIPS
    Opensips,
}

fn realm(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == '"' || c == '\\') {
        return Err("a realm has no quotes, backslashes or control characters");
    }
    Ok(text.to_owned())
}

/// Arguments of `ringway completions`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `ringway man`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `ringway serve`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// The configuration (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `ringway check`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// The configuration to check (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    pub(crate) file: Option<PathBuf>,
    /// Also print what a reload would change in the running server, whose admin API has the address in the file
    #[arg(long)]
    pub(crate) against_running: bool,
    /// Address of the admin API, if it differs from the configuration
    #[arg(long, value_name = "ADDRESS:PORT", requires = "against_running")]
    pub(crate) admin: Option<SocketAddr>,
    /// Also list what the server keeps because of its peers, with the most memory of each part
    #[arg(long)]
    pub(crate) memory: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway config`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Output
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// Outputs of `ringway config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every key with its default and its meaning, as comments
    Example,
}

/// Arguments of `ringway reload`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Only print what a reload would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway drain`.
#[derive(Debug, ClapArgs)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Time in which all phones leave
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) over: u32,
    /// End a drain: phones may register again
    #[arg(long, conflicts_with = "over")]
    pub(crate) cancel: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway block`.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "A caller is a SIP URI, user@domain, *@domain for all of a domain, a number, or +4930* for all numbers that begin so.
The From of a caller without a password is what the caller says it is.

Examples:
  ringway block add --caller sip:spam@example.com --reason \"calls at night\"
  ringway block add --caller \"*@example.com\" --user alice
  ringway block add --caller \"+4930*\" --for 24
  ringway block add --network 192.0.2.0/24
  ringway block remove --network 192.0.2.0/24
  ringway block list --json"
)]
pub(crate) struct BlockArgs {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: BlockCommand,
    /// The server's configuration (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Commands of `ringway block`.
#[derive(Debug, Subcommand)]
pub(crate) enum BlockCommand {
    /// Block a caller or a network
    #[command(after_help = "Examples:
  ringway block add --caller sip:spam@example.com --reason \"calls at night\"
  ringway block add --caller \"+4930*\" --user alice --for 24
  ringway block add --network 192.0.2.0/24")]
    Add {
        #[command(flatten)]
        entry: BlockPatternArgs,
        /// Text for administrators
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        /// Hours after which the entry ends (default: it stays)
        #[arg(long = "for", value_name = "HOURS", value_parser = clap::value_parser!(u32).range(1..=i64::from(crate::serve::control::HOURS_MAX)))]
        hours: Option<u32>,
    },
    /// Remove an entry
    #[command(after_help = "Examples:
  ringway block remove --caller sip:spam@example.com
  ringway block remove --id 7")]
    Remove {
        #[command(flatten)]
        entry: BlockPatternArgs,
        /// Number of the entry, as `list` shows it
        #[arg(long, conflicts_with_all = ["caller", "network", "user"])]
        id: Option<u64>,
    },
    /// List all entries, or those of a user
    #[command(after_help = "Examples:
  ringway block list
  ringway block list --user alice --json")]
    List {
        /// The user, or NAME@DOMAIN
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
}

/// An entry of a block list.
#[derive(Debug, ClapArgs)]
pub(crate) struct BlockPatternArgs {
    /// A SIP URI, user@domain, *@domain, a number, or a number prefix with * at its end
    #[arg(long, value_name = "CALLER", conflicts_with = "network")]
    pub(crate) caller: Option<String>,
    /// An address, or a network as 192.0.2.0/24
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Only for calls to this user, or NAME@DOMAIN (default: for all users)
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

/// The running server that a command asks.
#[derive(Debug, ClapArgs)]
pub(crate) struct ServerArgs {
    /// The server's configuration, which has the address of its admin API (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address of the admin API, if it differs from the configuration
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) admin: Option<SocketAddr>,
}

/// Arguments of `ringway show`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Listing to show
    pub(crate) what: Shown,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Listings of `ringway show`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shown {
    /// Registrations: address-of-record, contact, transport, address, time left
    Registrations,
    /// Calls now; those that are answered with `[records] enabled = true`
    Calls,
    /// Records of the last 1,000 calls that ended, with `[records] enabled = true`
    Records,
    /// Open TCP connections
    Connections,
    /// Trunks: up, down, silent or busy, calls, last response, refused logins
    Trunks,
    /// Media relays: up or down, and when they answered last
    Relays,
    /// Nodes that share registrations, and their store
    Cluster,
    /// Counters and gauges
    Stats,
    /// Time of each step of handling a message, with `[log] steps = true`
    Steps,
}

/// Arguments of `ringway trace`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceArgs {
    /// The user, as NAME or NAME@DOMAIN; a number, or a caller elsewhere, is one too
    pub(crate) user: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print each message and decision as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// End after this time in seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Print this call only
    #[arg(long, value_name = "CALL-ID")]
    pub(crate) call: Option<String>,
}

/// Arguments of `ringway cert`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CertArgs {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: CertCommand,
}

/// Commands of `ringway cert`.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Make a private certificate authority and the certificates of a server and of users
    #[command(
        after_help = "The authority is made once: while DIR has ca.pem and ca-key.pem, they issue all further certificates.
Existing files are kept unless --force is given, the authority's in any case.

Examples:
  ringway cert init --domain example.org
  ringway cert init --domain localhost --address 127.0.0.1 --out test
  ringway cert init --domain example.org --client alice    add a user's certificate
  ringway cert init --domain example.org --force           renew the server's certificate"
    )]
    Init(CertInitArgs),
    /// Make the running server order its certificate of [tls.acme] at once; the log says what comes of it
    #[command(
        after_help = "Without it, the server orders again at two thirds of the certificate's life, and after a failure with growing pauses.

Example:
  ringway cert renew"
    )]
    Renew(CertRenewArgs),
}

/// Arguments of `ringway cert renew`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CertRenewArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `ringway cert init`.
#[derive(Debug, ClapArgs)]
pub(crate) struct CertInitArgs {
    /// Domain of the server, as in `domains` of its configuration
    #[arg(long)]
    pub(crate) domain: String,
    /// Folder for the files
    #[arg(long, value_name = "DIR", default_value = "tls")]
    pub(crate) out: PathBuf,
    /// User of the domain who gets a certificate; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Vec<String>,
    /// IP address of the server, for clients that connect to it without a name; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Vec<IpAddr>,
    /// Validity of new certificates in days; that of a new authority is ten years
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
    /// Replace existing certificates: those of the users given, or else that of the server
    #[arg(long)]
    pub(crate) force: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses the command line. `Err`: the exit status after help or an error was printed.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // An error means that standard output is closed.
            let _ = error.print();
            ExitCode::from(error.exit_code() as u8)
        }
        _ => {
            let text = error.to_string();
            let first: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
            let first = first.join(" ");
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
            let tip = tip.map(|tip| format!("; {tip}")).unwrap_or_default();
            eprintln!("ringway: {}{tip}; see --help", first.trim_start_matches("error: "));
            ExitCode::from(2)
        }
    })
}

#[cfg(test)]
mod tests;
