//! Servers of Redis, on free ports and with folders of their own.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server, which is killed when the value is dropped.
pub struct RedisServer {
    program: &'static str,
    arguments: Vec<String>,
    child: Option<Child>,
    port: u16,
    folder: TempDir,
    /// Arguments of `redis-cli` for this server.
    pub cli: Vec<String>,
}

impl RedisServer {
    /// Starts a server without persistence, with further arguments.
    pub fn start(arguments: &[&str]) -> Self {
        let owned: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self::start_with("redis-server", |port, _| {
            let mut all = vec!["--port".to_owned(), port.to_string()];
            all.extend(owned.iter().cloned());
            all
        })
    }

    /// Starts a server with a configuration file, which has no port.
    pub fn start_with_configuration(text: &str) -> Self {
        Self::start_with("redis-server", |port, folder| {
            fs::write(folder.path().join("redis.conf"), text).unwrap();
            ["redis.conf", "--port", &port.to_string()].map(str::to_owned).to_vec()
        })
    }

    /// Starts a server over TLS only, with files of the certificate, its key and the authority.
    pub fn start_tls(certificate: &str, key: &str, authority: &str) -> Self {
        let mut server = Self::start_with("redis-server", |port, folder| {
            for (name, text) in [("cert.pem", certificate), ("key.pem", key), ("ca.pem", authority)] {
                fs::write(folder.path().join(name), text).unwrap();
            }
            let port = port.to_string();
            ["--port", "0", "--tls-port", &port, "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"]
                .into_iter()
                .chain(["--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no"])
                .map(str::to_owned)
                .collect()
        });
        let authority = server.folder.path().join("ca.pem").display().to_string();
        server.cli = vec!["--tls".to_owned(), "--cacert".to_owned(), authority];
        server
    }

    /// Starts a Sentinel of one vote for the master `mymaster`.
    pub fn start_sentinel(master: &Self) -> Self {
        let master = master.port;
        Self::start_with("redis-sentinel", |port, folder| {
            let settings = format!(
                "port {port}\nsentinel monitor mymaster 127.0.0.1 {master} 1\n\
                 sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 2000\n"
            );
            let file = folder.path().join("sentinel.conf");
            fs::write(&file, settings).unwrap();
            vec![file.display().to_string()]
        })
    }

    /// Starts a cluster of three masters.
    pub fn start_cluster() -> Vec<Self> {
        let start = || {
            let bus = free_port().to_string();
            let arguments =
                ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "1000"];
            Self::start(&arguments)
        };
        let servers: Vec<Self> = (0..3).map(|_| start()).collect();
        let hosts = servers.iter().map(|server| format!("127.0.0.1:{}", server.port));
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(hosts)
            .arg("--cluster-yes")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        for server in &servers {
            wait_for(|| server.run(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        }
        servers
    }

    fn start_with(program: &'static str, arguments: impl Fn(u16, &TempDir) -> Vec<String>) -> Self {
        for _ in 0..5 {
            let (port, folder) = (free_port(), TempDir::new().unwrap());
            let arguments = arguments(port, &folder);
            let mut server = Self { program, arguments, child: None, port, folder, cli: Vec::new() };
            if server.try_start() {
                return server;
            }
        }
        panic!("{program} does not start");
    }

    /// Starts the process. False: it ended, because another one took the port.
    fn try_start(&mut self) -> bool {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).current_dir(self.folder.path());
        // With a file it has the settings of that.
        if self.program == "redis-server"
            && self.arguments.first().is_some_and(|first| first.starts_with("--"))
        {
            command.args(["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]);
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = self.child.insert(child.unwrap_or_else(|error| panic!("{}: {error}", self.program)));
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if is_answered(self.port, self.arguments.iter().any(|argument| argument == "--tls-port")) {
                return true;
            }
            sleep(Duration::from_millis(20));
        }
        false
    }

    /// Port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs a command and returns its result as a text.
    pub fn run(&self, command: &[&str]) -> String {
        let port = self.port.to_string();
        let mut all = Command::new("redis-cli");
        all.args(["-p", &port]).args(&self.cli).args(command).stdin(Stdio::null());
        String::from_utf8_lossy(&all.output().unwrap().stdout).trim_end().to_owned()
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after [`RedisServer::kill`], on the same port.
    pub fn start_again(&mut self) {
        assert!(self.try_start(), "{} does not start again", self.program);
    }

    /// Stops the process for a time (SIGSTOP, SIGCONT).
    pub fn pause(&self, time: Duration) {
        self.signal("-STOP");
        sleep(time);
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something is true, for 20 s at most.
#[track_caller]
pub fn wait_for(mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < until, "not within 20 s");
        sleep(Duration::from_millis(10));
    }
}

fn is_answered(port: u16, is_tls: bool) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    if is_tls {
        return true;
    }
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && (answer == *b"+PONG\r\n" || answer.starts_with(b"-NOAUTH") || answer.starts_with(b"-DENIED"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
