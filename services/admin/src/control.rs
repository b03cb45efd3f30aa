//! The interface by which the admin API changes the running server.

use crate::view::{Page, Registration};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The running server as an administrator changes it. Called on threads of their own, which may wait for files.
pub trait Control: Send + Sync {
    /// Makes a change, and waits for its end.
    fn apply(&self, change: Change) -> Answer;

    /// Entries of the block lists after the one with this number, at most `limit`.
    ///
    /// # Errors
    /// The list cannot be read; the message for the administrator.
    fn blocks(&self, after: u64, limit: usize) -> Result<BlockPage, String>;

    /// Forwards of a user, which is named `name` or `name@domain`.
    fn forwards(&self, user: &str) -> Answer;

    /// Users of the store, with what is registered of each.
    ///
    /// # Errors
    /// They cannot be read; the message for the administrator.
    fn users(&self, query: &UserQuery) -> Result<Page<User>, String>;

    /// A user, which is named `name` or `name@domain`.
    fn user(&self, user: &str) -> Answer;

    /// Keys and values of the configuration in force, without secrets.
    fn configuration(&self) -> Answer;

    /// Sections of routing of the configuration file, with the `version` of the file.
    fn routes(&self) -> Answer;
}

/// Part of a list of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserQuery {
    /// `name@domain` of the last user before it.
    pub after: Option<String>,
    /// Maximum number of users.
    pub limit: usize,
    /// Text that `name@domain` must contain, or that the name must begin with.
    pub text: Option<String>,
    /// Position of the text.
    pub position: TextPosition,
}

/// Position of the text of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextPosition {
    /// Anywhere.
    #[default]
    Contains,
    /// At the beginning of the name.
    Prefix,
}

/// A user for a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// User part.
    pub name: String,
    /// Domain.
    pub domain: String,
    /// False for a user with permanent contacts only.
    pub password: bool,
    /// Registered and permanent contacts.
    pub contacts: Vec<Registration>,
    /// Targets of calls.
    pub forwards: Forwards,
    /// Number of messages that wait for a phone of the user.
    pub messages: usize,
}

/// A change of the running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Read the configuration file and the certificates again.
    Reload,
    /// Tell what a reload would change.
    DryRun,
    /// Tell what a reload of a file with these keys and values would change.
    Compare(BTreeMap<String, Option<String>>),
    /// Add an entry to a block list.
    Block(NewBlock),
    /// Remove the entry with this number.
    Unblock(u64),
    /// Replace the forwards of a user, which is named `name` or `name@domain`.
    Forward(String, Forwards),
    /// End the registrations of a user, which is named `name` or `name@domain`.
    Kick(String),
    /// Close the connection with this number.
    Drop(u64),
    /// Make phones leave within this number of seconds.
    Drain(u32),
    /// End that.
    CancelDrain,
    /// Order a certificate at once.
    RenewCertificate,
    /// Replace the sections of routing of the configuration file, or tell what that would change.
    Routes(RoutesEdit),
}

/// New sections of routing: `[[trunk]]`, `[[route]]` and `[[destination]]` of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutesEdit {
    /// The sections as TOML.
    pub text: String,
    /// Version of the file that was edited.
    pub version: String,
    /// Effect of the request.
    pub effect: RoutesEffect,
}

/// Effect of a request with new sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutesEffect {
    /// Nothing changes; the answer has the difference.
    Preview,
    /// The file is replaced and reloaded.
    Save,
}

/// Targets of a user's forwards, each a SIP URI; `None`: calls are not forwarded then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Forwards {
    /// Target of every call.
    pub always: Option<String>,
    /// Target if the user is busy.
    pub busy: Option<String>,
    /// Target if nobody answers in time.
    pub no_answer: Option<NoAnswer>,
    /// Target if the user has no phone that can be reached.
    pub unregistered: Option<String>,
}

/// Forward of calls that nobody answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoAnswer {
    /// Time in seconds: 1 to 180.
    pub after_s: u64,
    /// Target.
    pub to: String,
}

/// Result of a change: the status and the body of the response.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON object.
    pub body: Value,
}

/// Wanted drain.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDrain {
    /// Time in seconds in which all phones leave.
    #[serde(default = "over_s")]
    pub(crate) over_s: u32,
}

const fn over_s() -> u32 {
    600
}

/// A new entry of a block list: a caller or a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBlock {
    /// A SIP URI, `user@domain`, `*@domain`, a number, or a prefix of numbers with `*`.
    #[serde(default)]
    pub caller: Option<String>,
    /// An address or a network.
    #[serde(default)]
    pub network: Option<String>,
    /// Name of the user whose list it is, or `name@domain`; without one it is for all users.
    #[serde(default)]
    pub user: Option<String>,
    /// Text for administrators.
    #[serde(default)]
    pub reason: String,
    /// Hours after which it ends; without them it stays.
    #[serde(default)]
    pub hours: Option<u32>,
}

/// An entry of a block list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its number.
    pub id: u64,
    /// `caller` or `network`.
    pub kind: String,
    /// The caller or the network.
    pub pattern: String,
    /// `name@domain` of the user whose list it is; `None`: all users.
    pub user: Option<String>,
    /// Text for administrators.
    pub reason: String,
    /// Seconds until it ends; `None`: it stays.
    pub expires_s: Option<u64>,
}

/// Entries of the block lists, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPage {
    /// The entries.
    pub items: Vec<Block>,
    /// Number of all entries.
    pub total: u64,
}

impl Answer {
    /// A change that was made.
    pub const fn done(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// A change that was refused, with the reason and the remedy.
    pub fn refused(status: u16, why: impl Into<String>) -> Self {
        Self { status, body: serde_json::json!({ "error": why.into() }) }
    }
}
