//! Databases for scenarios: SQLite, MariaDB and PostgreSQL, with their own programs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use ringway_test_support::eventually::retry;
use ringway_test_support::process::run_to_end;

use super::Stage;
use super::certificates::{Authority, CA_FILE, Certificate};
use crate::process::{PATIENCE, Process, free_port};

/// Kind of a database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    MariaDb,
    PostgreSql,
}

impl Engine {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlite, Self::MariaDb, Self::PostgreSql];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::MariaDb => "mysql",
            Self::PostgreSql => "postgres",
        }
    }
}

/// A database with one user that may read and write it.
pub(crate) struct Database {
    engine: Engine,
    /// Its files, which PostgreSQL does not keep for the superuser.
    folder: tempfile::TempDir,
    /// Address of its server, and that of its user.
    host: Ipv4Addr,
    client: Ipv4Addr,
    port: u16,
    running: Option<Process>,
}

impl Database {
    /// Password of its user.
    pub(crate) const PASSWORD: &str = "pass:w@rd";

    /// Creates an empty database and starts its server.
    pub(crate) fn start(stage: &Stage, engine: Engine) -> Result<Self> {
        Self::start_at(stage, engine, [Ipv4Addr::LOCALHOST; 2])
    }

    /// The same with a server at the first address, and a user at the second one.
    pub(crate) fn start_at(stage: &Stage, engine: Engine, [host, client]: [Ipv4Addr; 2]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        if engine != Engine::Sqlite {
            Authority::create(folder.path())?.issue(Certificate::SERVER)?;
        }
        let mut database = Self { engine, folder, host, client, port: free_port()?, running: None };
        match engine {
            Engine::Sqlite => {}
            Engine::MariaDb => database.start_mariadb(stage)?,
            Engine::PostgreSql => database.start_postgresql(stage)?,
        }
        Ok(database)
    }

    /// Its URL without a password.
    pub(crate) fn url(&self) -> String {
        let Self { host, port, .. } = self;
        match self.engine {
            Engine::Sqlite => format!("sqlite://{}", self.file().display()),
            Engine::MariaDb => format!("mysql://{USER}@{host}:{port}/{NAME}"),
            Engine::PostgreSql => format!("postgres://{USER}@{host}:{port}/{NAME}"),
        }
    }

    /// Its URL with the password.
    pub(crate) fn whole_url(&self) -> String {
        let password = Self::PASSWORD.replace(':', "%3A").replace('@', "%40");
        self.url().replacen(&format!("{USER}@"), &format!("{USER}:{password}@"), 1)
    }

    /// Stops its server as a crash does.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }

    /// Starts its server again with the data that it had.
    pub(crate) fn start_again(&mut self, stage: &Stage) -> Result<()> {
        match self.engine {
            Engine::Sqlite => Ok(()),
            Engine::MariaDb => self.run_mariadb(stage),
            Engine::PostgreSql => self.run_postgresql(stage),
        }?;
        self.patiently(|| self.execute("SELECT 1;"))
    }

    /// File of the authority of its certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.path().join(CA_FILE)
    }

    /// Certificate and key of its server.
    fn certificate(&self) -> [PathBuf; 2] {
        ["server.pem", "server-key.pem"].map(|file| self.folder.path().join(file))
    }

    /// Runs statements.
    pub(crate) fn execute(&self, sql: &str) -> Result<()> {
        self.read(sql).map(drop)
    }

    /// Runs statements and returns their rows, one a line.
    pub(crate) fn read(&self, sql: &str) -> Result<String> {
        let mut command = match self.engine {
            Engine::Sqlite => {
                let mut command = Command::new("sqlite3");
                command.arg(self.file());
                command
            }
            Engine::MariaDb => {
                let mut command = self.mariadb();
                command.args(["--skip-column-names", "--batch"]).arg(NAME);
                command
            }
            Engine::PostgreSql => {
                let mut command = self.psql(USER, NAME);
                command.args(["-A", "-t"]);
                command
            }
        };
        run_to_end(&mut command, sql)
    }

    /// Runs statements of its administrator, one after another.
    pub(crate) fn administer(&self, statements: &[&str]) -> Result<()> {
        let run = |statement: &str| match self.engine {
            Engine::Sqlite => bail!("SQLite has no administrator"),
            Engine::MariaDb => run_to_end(&mut self.mariadb(), statement),
            Engine::PostgreSql => run_to_end(&mut self.psql("postgres", "postgres"), statement),
        };
        statements.iter().try_for_each(|statement| run(statement).map(drop))
    }

    /// Runs statements as another user, in the database of that name, and returns their rows.
    pub(crate) fn read_as(&self, name: &str, password: &str, sql: &str) -> Result<String> {
        let mut command = match self.engine {
            Engine::Sqlite => bail!("SQLite has no users"),
            Engine::MariaDb => {
                let mut command = Command::new("mariadb");
                command.args([
                    "--no-defaults",
                    "--skip-column-names",
                    "--batch",
                    "-h",
                    &self.host.to_string(),
                ]);
                command
                    .args(["-P", &self.port.to_string(), "-u", name])
                    .arg(format!("-p{password}"))
                    .arg(name);
                command
            }
            Engine::PostgreSql => {
                let mut command = self.psql(name, name);
                command.args(["-A", "-t"]);
                command
            }
        };
        run_to_end(&mut command, sql)
    }

    /// Port of its server.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("database.sqlite")
    }

    fn start_mariadb(&mut self, stage: &Stage) -> Result<()> {
        let data = self.folder.path().join("data");
        // The superuser must be named.
        let user = is_superuser().then_some("--user=root");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]).args(user);
        run_to_end(install.arg(format!("--datadir={}", data.display())), "")?;
        self.run_mariadb(stage)?;
        let create = format!(
            "CREATE DATABASE {NAME}; CREATE USER {USER}@{client} IDENTIFIED BY '{}'; GRANT ALL ON {NAME}.* TO {USER}@{client};",
            Self::PASSWORD,
            client = self.client,
        );
        self.patiently(|| run_to_end(&mut self.mariadb(), &create).map(drop))
    }

    fn run_mariadb(&mut self, stage: &Stage) -> Result<()> {
        let user = is_superuser().then_some("--user=root");
        let mut server = Command::new("mariadbd");
        // Names of clients would be looked up.
        server.args(["--no-defaults", "--skip-name-resolve"]).args(user);
        server.arg(format!("--bind-address={}", self.host));
        server.arg(format!("--datadir={}", self.folder.path().join("data").display()));
        server.arg(format!("--port={}", self.port)).arg(format!("--socket={}", self.socket().display()));
        let [certificate, key] = self.certificate();
        server.arg(format!("--ssl-cert={}", certificate.display()));
        server.arg(format!("--ssl-key={}", key.display()));
        self.running = Some(Process::start("mariadbd", &mut server, &stage.folder)?);
        Ok(())
    }

    fn mariadb(&self) -> Command {
        let mut command = Command::new("mariadb");
        command
            .arg("--no-defaults")
            .arg(format!("--socket={}", self.socket().display()))
            .args(["-u", "root"]);
        command
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn start_postgresql(&mut self, stage: &Stage) -> Result<()> {
        let programs = postgresql_programs()?;
        let data = self.folder.path().join("data");
        std::fs::create_dir(&data)?;
        if is_superuser() {
            let (user, group) = id_of("postgres")?;
            chown(self.folder.path(), Some(user), Some(group))?;
            chown(&data, Some(user), Some(group))?;
            for file in self.certificate() {
                chown(&file, Some(user), Some(group))?;
            }
        }
        let password = self.folder.path().join("password");
        std::fs::write(&password, Self::PASSWORD)?;
        let mut install = unprivileged(&programs.join("initdb"));
        install.arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
        ]);
        run_to_end(install.args(["--no-sync", "-E", "UTF8"]), "")?;
        let mut clients = OpenOptions::new().append(true).open(data.join("pg_hba.conf"))?;
        writeln!(clients, "host all all {}/32 scram-sha-256", self.client)?;
        self.run_postgresql(stage)?;
        let create =
            format!("CREATE USER {USER} PASSWORD '{}'; CREATE DATABASE {NAME} OWNER {USER};", Self::PASSWORD);
        // CREATE DATABASE must be alone, which it is with a statement a line.
        let create = create.replace("; ", ";\n");
        self.patiently(|| run_to_end(&mut self.psql("postgres", "postgres"), &create).map(drop))
    }

    fn run_postgresql(&mut self, stage: &Stage) -> Result<()> {
        let mut server = unprivileged(&postgresql_programs()?.join("postgres"));
        server.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        server.args(["-h", &self.host.to_string(), "-p", &self.port.to_string(), "-F"]);
        let [certificate, key] = self.certificate();
        server.args(["-c", "ssl=on", "-c"]).arg(format!("ssl_cert_file={}", certificate.display()));
        server.arg("-c").arg(format!("ssl_key_file={}", key.display()));
        self.running = Some(Process::start("postgres", &mut server, &stage.folder)?);
        Ok(())
    }

    fn psql(&self, user: &str, name: &str) -> Command {
        let mut command = Command::new("psql");
        command.args(["-q", "-v", "ON_ERROR_STOP=1", "-h"]).arg(self.folder.path());
        command.args(["-p", &self.port.to_string(), "-U", user, "-d", name]);
        command
    }

    /// Repeats until the server has started.
    fn patiently(&self, attempt: impl Fn() -> Result<()>) -> Result<()> {
        retry(PATIENCE, attempt).context(self.engine.name())
    }
}

/// PostgreSQL refuses to run as the superuser.
fn unprivileged(program: &Path) -> Command {
    if !is_superuser() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
    command
}

fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// Numbers of a user and its group in `/etc/passwd`.
fn id_of(name: &str) -> Result<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name));
    let line = line.with_context(|| format!("there is no user {name}; is PostgreSQL installed?"))?;
    match line.split(':').skip(2).take(2).map(str::parse).collect::<Result<Vec<_>, _>>()?.as_slice() {
        [user, group] => Ok((*user, *group)),
        _ => bail!("/etc/passwd: {line}"),
    }
}

/// Folder of the newest version's programs.
fn postgresql_programs() -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").context("is PostgreSQL installed?")?;
    let mut versions = versions.map(|entry| Ok(entry?.path().join("bin"))).collect::<Result<Vec<_>>>()?;
    versions.sort();
    versions.pop().context("/usr/lib/postgresql is empty")
}

const NAME: &str = "kamailio";
const USER: &str = "reader";
