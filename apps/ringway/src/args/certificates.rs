//! Arguments of `ringway cert`.

use super::ServerArgs;
use clap::{Args as ClapArgs, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

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
