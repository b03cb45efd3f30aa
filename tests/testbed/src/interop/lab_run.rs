//! `ringway lab run` with Kamailio as a target, and with a database.

use super::database::{Database, Engine};
use super::{Scenario, Stage};
use crate::process::Process;
use anyhow::{Context, Result, bail, ensure};
use ringway_lab::record::{self, Record};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let engines = [(Engine::MariaDb, "update"), (Engine::PostgreSql, "call")];
    let with_database = engines.map(|(engine, flow)| {
        Scenario::new(format!("lab/run-database/{}", engine.name()), move |stage: &Stage| {
            run_database(stage, engine, flow)
        })
    });
    let whole = Campaign {
        experiments: &["register", "update", "logout", "call", "call-not-found", "redirect"],
        targets: &["ringway", "kamailio", "kamailio-default"],
        variants: 4,
    };
    let short = Campaign { experiments: &["call"], targets: &["ringway", "kamailio"], variants: 4 };
    let with_kamailio = [
        Scenario::new("lab/run-kamailio-all", move |stage: &Stage| whole.run(stage)).long(),
        Scenario::new("lab/run-kamailio", move |stage: &Stage| short.run(stage)).alone(),
    ];
    let all = with_kamailio.into_iter().chain(with_database);
    // They need the lab of the program.
    all.map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// `ringway lab run` with these arguments, in the folder of the stage.
fn lab_run(stage: &Stage) -> Result<Command> {
    let program = stage.ringway.program().context("the lab is a command of the program")?;
    let mut command = Command::new(program);
    command.args(["lab", "run"]);
    Ok(command)
}

/// Experiments on Ringway and on Kamailio: all attempts succeed.
struct Campaign {
    experiments: &'static [&'static str],
    targets: &'static [&'static str],
    /// Of each experiment: UDP and TCP, without digest and with MD5.
    variants: usize,
}

impl Campaign {
    fn run(&self, stage: &Stage) -> Result<()> {
        let mut command = lab_run(stage)?;
        command.args(self.experiments);
        command.args(self.targets.iter().flat_map(|target| ["--target", *target]));
        command.args(["--quick", "--seconds", "0.3", "--out"]).arg(stage.path("results"));
        let status = Process::start("lab", &mut command, &stage.folder)?.wait_for(LIMIT)?;
        let records = record::read(&stage.path("results"))?;
        let mut measured = BTreeSet::new();
        for record in &records {
            match record {
                Record::Failed(failed) => {
                    bail!("{} ({}), {}: {}", failed.experiment, failed.variant, failed.target, failed.error)
                }
                // A busy machine delays attempts; none may fail.
                Record::Measurement(trial) => {
                    if trial.successes != trial.started {
                        let of = format!("{} ({}), {}", trial.experiment, trial.variant, trial.target);
                        bail!(
                            "{of}: {} of {} succeeded, {:?}",
                            trial.successes,
                            trial.started,
                            trial.failures
                        );
                    }
                    measured.insert((&trial.experiment, &trial.variant, &trial.target));
                }
                _ => {}
            }
        }
        let expected = self.experiments.len() * self.variants * self.targets.len();
        if !status.success() || measured.len() != expected {
            bail!("{status}; {} of {expected} were measured", measured.len());
        }
        Ok(())
    }
}

/// Both targets read the passwords of their users from an empty database, which is empty again afterwards. One that has a table is
/// refused and keeps it.
fn run_database(stage: &Stage, engine: Engine, flow: &str) -> Result<()> {
    let database = Database::start(stage, engine)?;
    let (experiment, password) = (stage.path("own.toml"), stage.path("database-password"));
    std::fs::write(&experiment, format!("scenario = \"{flow}\"\n{READS}"))?;
    std::fs::write(&password, Database::PASSWORD)?;
    let run = |out: &str| -> Result<Process> {
        let mut command = lab_run(stage)?;
        command.arg(&experiment).args(["--target", "ringway", "--target", "kamailio", "--quick"]);
        command.args(["--database", &database.url(), "--database-password-file"]).arg(&password);
        Process::start(out, command.arg("--out").arg(stage.path(out)), &stage.folder)
    };
    let lab = run("results")?;
    let status = lab.wait_for(LIMIT)?;
    ensure!(status.success(), "{status}: {}", lab.output());
    let mut measured = BTreeSet::new();
    for record in record::read(&stage.path("results"))? {
        let Record::Measurement(trial) = record else { continue };
        let of = format!("{}, {}", trial.variant, trial.target);
        ensure!(trial.variant == "udp, digest MD5, database", "{of}");
        ensure!(trial.successes > 0 && trial.challenges > 0, "{of}: {} succeeded", trial.successes);
        // Kamailio has no other passwords.
        let is_read = trial.target == "kamailio"
            || trial.database_lookups.is_some_and(|lookups| lookups >= trial.successes);
        ensure!(is_read, "{of}: {:?} passwords were read", trial.database_lookups);
        measured.insert(trial.target);
    }
    let text = std::fs::read_to_string(stage.path("results").join(record::FILE))?;
    ensure!(!text.contains(Database::PASSWORD), "the results have the password of the database");
    ensure!(measured.len() == 2, "only {measured:?} were measured");

    let own = match engine {
        Engine::MariaDb => "database()",
        Engine::PostgreSql | Engine::Sqlite => "current_schema()",
    };
    let tables = || {
        database
            .read(&format!("SELECT table_name FROM information_schema.tables WHERE table_schema = {own};"))
    };
    ensure!(tables()?.trim().is_empty(), "the lab left tables: {}", tables()?);
    database.execute("CREATE TABLE customer (login varchar(64));")?;
    let refused = run("refused")?;
    let status = refused.wait()?;
    let said = refused.output();
    ensure!(status.code() == Some(2) && said.contains("is not empty") && said.contains("customer"), "{said}");
    ensure!(tables()?.trim() == "customer" && !stage.path("refused").exists(), "{}", tables()?);
    Ok(())
}

const READS: &str = "rates = [50]
users = 20
quick_seconds = 0.3
digests = [\"MD5\"]
passwords = \"database\"
";

/// Maximum time of a campaign, with every trial repeated.
const LIMIT: Duration = Duration::from_secs(600);
