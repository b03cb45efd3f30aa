//! The built program as a process: input, output, exit status.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "no test needs all of it, and a test fails by panicking"
)]

use ringway_test_support::process::Process;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::sync::Arc;
use std::time::Duration;

/// The variable that names a configuration.
const CONFIG: &str = "RINGWAY_CONFIG";

pub(crate) use ringway_test_support::process::{Signal, send_signal};

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Returns the output of a command that succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.out
    }

    /// Returns the line on standard error of a command that failed with `status`.
    pub(crate) fn refused(&self, status: i32) -> String {
        assert_eq!((self.status, self.err.lines().count(), self.out.len()), (status, 1, 0), "{self:?}");
        self.err.clone()
    }

    /// Parses the output, whatever the exit status is.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A running command, which is killed when dropped.
pub(crate) struct Running {
    process: Process,
    folder: PathBuf,
}

impl Running {
    /// Starts `ringway` in a folder.
    pub(crate) fn start(folder: &Path, args: &[&str], input: &str) -> Self {
        Self::start_and_keep_input(folder, args, input).0
    }

    /// Like [`Running::start`], with a limit of open files.
    pub(crate) fn start_with_files(folder: &Path, args: &[&str], files: u32) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_ringway"));
        Self::run(command, folder, args, "").0
    }

    /// Like [`Running::start`], with a limit of the address space in bytes.
    pub(crate) fn start_with_memory(folder: &Path, args: &[&str], bytes: u64) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={bytes}:{bytes}")).arg(env!("CARGO_BIN_EXE_ringway"));
        Self::run(command, folder, args, "").0
    }

    /// Like [`Running::start`], with a variable in its environment.
    pub(crate) fn start_with_variable(folder: &Path, args: &[&str], (name, value): (&str, &Path)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
        command.env(name, value);
        Self::run(command, folder, args, "").0
    }

    /// Starts `ringway`, which is `$0`, by a script of the shell.
    pub(crate) fn start_by_shell(folder: &Path, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_ringway")]);
        Self::run(command, folder, &[], "").0
    }

    /// Like [`Running::start`], without the end of standard input.
    pub(crate) fn start_and_keep_input(folder: &Path, args: &[&str], input: &str) -> (Self, ChildStdin) {
        Self::run(Command::new(env!("CARGO_BIN_EXE_ringway")), folder, args, input)
    }

    /// Starts any program.
    pub(crate) fn run(mut command: Command, folder: &Path, args: &[&str], input: &str) -> (Self, ChildStdin) {
        // A file that the caller of the tests names is none of theirs.
        if command.get_envs().all(|(name, _)| name != CONFIG) {
            command.env_remove(CONFIG);
        }
        let process = Process::start_with_pipes("it", command.args(args).current_dir(folder));
        let mut process = process.unwrap();
        let mut stdin = process.take_input().unwrap();
        // A command that does not read its input may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        (Self { process, folder: folder.to_owned() }, stdin)
    }

    /// Waits for a line on either output that contains the text, and returns it.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> String {
        self.line(text, |line| line.contains(text))
    }

    /// True if a line contains the text.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said().contains(text)
    }

    /// Waits for the line with the listeners, and returns it.
    pub(crate) fn ready(&self) -> String {
        self.line("ready", |line| line.starts_with("ready "))
    }

    /// Waits for the UDP listener, and returns its address.
    pub(crate) fn address(&self) -> String {
        self.listener("udp")
    }

    /// Waits for the listener of a transport, and returns its address.
    pub(crate) fn listener(&self, transport: &str) -> String {
        let ready = self.ready();
        let mut words = ready.split_whitespace();
        words.find_map(|word| word.strip_prefix(transport)?.strip_prefix(':')).unwrap().to_owned()
    }

    /// Waits for the admin API, and returns its address.
    pub(crate) fn admin(&self) -> String {
        let line = self.says("admin API on http://");
        line.split("http://").nth(1).unwrap().trim_end_matches(['/', '"', '}']).to_owned()
    }

    /// Output of `ringway show WHAT --json` about this server.
    pub(crate) fn show(&self, what: &str) -> Value {
        Self::start(&self.folder, &["show", what, "--json", "--admin", &self.admin()], "").done().json()
    }

    /// A figure of `ringway show stats`.
    pub(crate) fn stat(&self, name: &str) -> u64 {
        let stats = self.show("stats");
        stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id().as_raw_pid().unsigned_abs()
    }

    /// Sends SIGTERM.
    pub(crate) fn end(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Waits for the end of the process, and returns its exit status.
    #[track_caller]
    pub(crate) fn wait(&self) -> i32 {
        let status = self.process.wait_for(TIME_LIMIT);
        status.unwrap_or_else(|error| panic!("{error}:\n{}", self.said())).code().unwrap()
    }

    /// Same with its result.
    #[track_caller]
    pub(crate) fn done(self) -> Done {
        let status = self.wait();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { status, out: text(self.process.out()), err: text(self.process.err()) }
    }

    #[track_caller]
    fn line(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        self.process.wait_for_line(TIME_LIMIT, what, is_wanted).unwrap()
    }

    /// Lines of both outputs so far.
    pub(crate) fn said(&self) -> String {
        self.process.lines()
    }

    /// Standard output so far.
    pub(crate) fn out(&self) -> Vec<u8> {
        self.process.out()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended already.
        self.kill();
    }
}

/// Time limit of any wait.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A client with TLS over a connection, with the authority in this folder.
pub(crate) fn secured(stream: TcpStream, folder: &Path) -> impl Read + Write + use<> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&fs::read(folder.join("ca.pem")).unwrap()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let tls = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    rustls::StreamOwned::new(tls, stream)
}
