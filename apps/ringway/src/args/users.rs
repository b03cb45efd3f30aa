//! Arguments of `ringway user`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

/// Arguments of `ringway user`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  ringway user add alice
  echo \"$PASSWORD\" | ringway user add bob@example.org --password-stdin
  ringway user import users.csv
  ringway user bind gateway sip:gw@192.0.2.7:5060")]
pub(crate) struct UserArgs {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: UserCommand,
    /// The server's configuration (default: the first of $RINGWAY_CONFIG, ./ringway.toml, /etc/ringway/ringway.toml)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Commands of `ringway user`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user
    #[command(after_help = "Without --password-stdin it generates a strong password and prints it once.

Examples:
  ringway user add alice
  ringway user add alice --domain example.org
  echo \"$PASSWORD\" | ringway user add alice --password-stdin")]
    Add(PasswordArgs),
    /// Add many users from a CSV file: all of them, or none
    #[command(
        after_help = "The header is `username,password` and optionally `domain`; the first invalid row is reported.

Example:
  ringway user import users.csv
  ringway user import users.csv --replace --dry-run"
    )]
    Import {
        /// The CSV file
        file: PathBuf,
        /// Make the users those of the list: remove the others, with what belongs to them, and change other passwords
        #[arg(long)]
        replace: bool,
        /// Only print what --replace would change
        #[arg(long, requires = "replace")]
        dry_run: bool,
    },
    /// List all users with their permanent contacts
    #[command(after_help = "Example:
  ringway user list --json")]
    List,
    /// Change a user's password
    #[command(after_help = "Without --password-stdin it generates a strong password and prints it once.

Examples:
  ringway user passwd alice
  echo \"$PASSWORD\" | ringway user passwd alice --password-stdin")]
    Passwd(PasswordArgs),
    /// Remove a user and its permanent contacts
    #[command(after_help = "Example:
  ringway user remove alice")]
    Remove(NameArgs),
    /// Show or change where a user's calls go when it is busy, does not answer, is not registered, or always
    #[command(
        after_help = "Give NAME before the options. Without options it shows the forwards. Each option changes one and leaves the others;
`off` instead of URI ends that one, --off ends all that are not given beside it.

Examples:
  ringway user forward bob --busy sip:carol@example.org --no-answer 20 sip:carol@example.org
  ringway user forward bob --unregistered sip:bob@mobile.example.net
  ringway user forward bob --busy off
  ringway user forward bob --off
  ringway user forward bob --json"
    )]
    Forward(ForwardArgs),
    /// Add a permanent contact of a user, which needs no registration
    #[command(after_help = "Example:
  ringway user bind gateway sip:gw@192.0.2.7:5060")]
    Bind {
        #[command(flatten)]
        user: NameArgs,
        /// The contact: a SIP URI
        contact: String,
    },
    /// Remove one or all permanent contacts of a user
    #[command(after_help = "Examples:
  ringway user unbind gateway sip:gw@192.0.2.7:5060
  ringway user unbind gateway")]
    Unbind {
        #[command(flatten)]
        user: NameArgs,
        /// The contact; all if omitted
        contact: Option<String>,
    },
}

/// A user.
#[derive(Debug, ClapArgs)]
pub(crate) struct NameArgs {
    /// The user's name, or NAME@DOMAIN
    pub(crate) name: String,
    /// The user's domain (default: the first of the configuration)
    #[arg(long)]
    pub(crate) domain: Option<String>,
}

/// Forwards of a user.
#[derive(Debug, ClapArgs)]
pub(crate) struct ForwardArgs {
    #[command(flatten)]
    pub(crate) user: NameArgs,
    /// Target of every call; the user's own phones do not ring
    #[arg(long, value_name = "URI")]
    pub(crate) always: Option<String>,
    /// Target of calls if every phone of the user is busy
    #[arg(long, value_name = "URI")]
    pub(crate) busy: Option<String>,
    /// Target of calls that nobody answers within SECONDS (1 to 180)
    #[arg(long, num_args = 1..=2, value_names = ["SECONDS", "URI"])]
    pub(crate) no_answer: Option<Vec<String>>,
    /// Target of calls if the user has no phone that can be reached
    #[arg(long, value_name = "URI")]
    pub(crate) unregistered: Option<String>,
    /// End all forwards that are not given beside it
    #[arg(long)]
    pub(crate) off: bool,
}

/// A user and its new password.
#[derive(Debug, ClapArgs)]
pub(crate) struct PasswordArgs {
    #[command(flatten)]
    pub(crate) user: NameArgs,
    /// Read the password from standard input instead of generating one
    #[arg(long)]
    pub(crate) password_stdin: bool,
    /// Take a password that is easy to guess: with fewer than 10^15 guesses by zxcvbn
    #[arg(long, requires = "password_stdin")]
    pub(crate) danger_weak: bool,
}
