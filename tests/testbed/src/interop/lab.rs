//! SIPp's scenario files: SIPp's own ones played by `ringway lab load`, ours played by SIPp, both against the server.
//! `ringway lab run` with Kamailio as a target, and with a database.

use std::collections::BTreeSet;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_lab::record;
use ringway_lab::record::Record;
use ringway_test_support::process::run_to_end;

use super::calls::{Play, users};
use super::database::{Database, Engine};
use super::server::{Mode, Server, Wanted};
use super::sipp::{Sipp, User, rows, succeeded};
use super::{Scenario, Stage, Transport};
use crate::process::{PATIENCE, Process, free_port};

/// Scenarios of the lab.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario::new("lab/xml-read", |stage: &Stage| read(stage, "uac")),
        Scenario::new("lab/xml-regexp", |stage: &Stage| read(stage, "regexp")),
        Scenario::new("lab/xml-recorded", recorded),
        Scenario::new("lab/xml-refused", refused),
    ];
    for digest in [false, true] {
        for name in NAMES {
            let protection = if digest { "digest" } else { "open" };
            let title = format!("lab/xml-write/{name}/{protection}");
            all.push(Scenario::new(title, move |stage: &Stage| write(stage, name, digest)));
        }
    }
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// Built-in scenarios that SIPp plays.
const NAMES: [&str; 7] = ["register", "logout", "call", "call-not-found", "redirect", "options", "message"];

/// The lab plays both sides of SIPp's basic call, or of that with regular expressions, unchanged, through the server.
fn read(stage: &Stage, caller: &str) -> Result<()> {
    let (status, said) = play_both(stage, caller, &["--rate", "20", "--seconds", "2", "--talk", "50ms"])?;
    ensure!(status.success(), "lab load ended with {status}: {said}");
    ensure!(said.contains("40 (100.00 %)"), "not 40 calls: {said}");
    Ok(())
}

/// SIPp's call with recorded RTP, unchanged, with SIPp's own recordings: the called side receives them.
fn recorded(stage: &Stage) -> Result<()> {
    std::fs::create_dir_all(stage.path("pcap"))?;
    for name in ["g711a.pcap", "dtmf_2833_1.pcap"] {
        let installed = std::path::Path::new("/usr/share/sip-tester").join(name);
        std::fs::copy(&installed, stage.path("pcap").join(name))
            .with_context(|| format!("{} belongs to the package sip-tester", installed.display()))?;
    }
    let more = ["--rate", "1", "--seconds", "1", "--media", "rtp", "--json"];
    let (status, said) = play_both(stage, "uac_pcap", &more)?;
    let has = |part: &str| said.contains(part);
    // Beside other scenarios packets may be late, which makes the run invalid as a measurement.
    let is_late = has("of the media packets were sent more than 5 ms late");
    ensure!(status.success() || is_late, "lab load ended with {status}: {said}");
    ensure!(has("\"success_share\":1.0"), "a call failed: {said}");
    ensure!(has("\"recordings_played\":2") && has("\"silent_streams\":0"), "not two recordings: {said}");
    ensure!(has("\"refused_streams\":{}"), "a call has no stream: {said}");
    Ok(())
}

/// The lab plays this scenario of SIPp and SIPp's called side, through the server. Returns its status and its output.
fn play_both(stage: &Stage, caller: &str, more: &[&str]) -> Result<(ExitStatus, String)> {
    for (name, file) in [(caller, "uac.xml"), ("uas", "uas.xml")] {
        std::fs::write(stage.path(file), of_sipp(name)?)?;
    }
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    std::fs::write(stage.path("list.csv"), rows(&callers)?)?;
    // SIPp's callers name the callees at the address of the server.
    let wanted = Wanted { digest: false, domain: "127.0.0.1", ..Wanted::default() };
    let server = Server::start(stage, wanted, &named(&[callers, callees].concat()))?;
    let mut command = Command::new(program(stage)?);
    command.args(["lab", "load", &format!("127.0.0.1:{}", server.port), "--domain", "127.0.0.1"]);
    command.args(["--scenario-file", "uac.xml", "--callee-file", "uas.xml", "--users-file", "list.csv"]);
    command.args(more).args(["--fail-if", "success<100%"]);
    let running = Process::start("lab", &mut command, &stage.folder)?;
    let status = running.wait_for(2 * PATIENCE)?;
    Ok((status, running.output()))
}

/// SIPp's scenarios with third-party call control are refused with the line of the first action. Those with jumps are
/// read: they fail later, for lack of a server.
fn refused(stage: &Stage) -> Result<()> {
    for name in ["branchc", "branchs"] {
        ringway_lab::sipp_xml::read(&of_sipp(name)?, ringway_lab::load::Length::Fixed(Duration::ZERO))
            .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    }
    for (name, reason) in [("3pcc-C-A", "<sendCmd>"), ("3pcc-C-B", "<recvCmd>")] {
        let text = of_sipp(name)?;
        let word = reason.trim_matches(['<', '>']);
        // Comments name the actions too, so the element is searched for.
        let is_first =
            |line: &str| [format!("<{word}>"), format!("<{word} ")].iter().any(|start| line.contains(start));
        let line = text.lines().position(is_first).context("SIPp has changed its scenario")? + 1;
        let file = format!("{name}.xml");
        std::fs::write(stage.path(&file), text)?;
        let mut command = Command::new(program(stage)?);
        command.args(["lab", "load", "127.0.0.1:9", "--scenario-file", &file]);
        let running = Process::start("lab", &mut command, &stage.folder)?;
        let status = running.wait()?;
        let said = running.output();
        let is_refused = said.contains(&format!("{file}:{line}: ")) && said.contains(reason);
        ensure!(status.code() == Some(2) && is_refused, "{name}, line {line}: {status}: {said}");
    }
    Ok(())
}

/// SIPp plays a built-in scenario that `ringway lab scenario` wrote, and its called side.
fn write(stage: &Stage, name: &'static str, digest: bool) -> Result<()> {
    let folder = stage.path("sipp");
    std::fs::create_dir_all(&folder)?;
    let written = Stage { data: stage.folder.clone(), ..stage.clone() };
    let (callers, callees) = match name {
        "call-not-found" => (users("caller", "nobody"), users("callee", "caller")),
        _ => (users("caller", "callee"), users("callee", "caller")),
    };
    let mode = if name == "redirect" { Mode::Redirect } else { Mode::Stateful };
    let wanted = Wanted { digest, mode, ..Wanted::default() };
    let server = Server::start(stage, wanted, &named(&[callers.clone(), callees.clone()].concat()))?;
    let play = Play { stage: &written, transport: Transport::Udp, digest };
    let lab = |file: &str, args: &[&str]| -> Result<()> {
        let mut command = Command::new(program(stage)?);
        command.args(["lab", "scenario"]).args(args);
        if digest {
            command.arg("--digest");
        }
        let written = run_to_end(command.args(["--domain", "example.org"]), "")?;
        Ok(std::fs::write(folder.join(format!("{file}.xml")), written)?)
    };
    lab("register", &["register"])?;
    lab("caller", &[name, "--talk", "~20ms"])?;
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(&written)?;
    let calling = play.sipp("caller", "caller", &callers, free_port()?, Some(server.port));
    if matches!(name, "register" | "logout" | "call-not-found") {
        if name == "logout" {
            play.sipp("register", "login", &callers, calling.port, Some(server.port)).run(&written)?;
        }
        calling.run(&written)?;
        let names = callers.iter().map(|user| user.name.as_str());
        return match name {
            "call-not-found" => Ok(()),
            _ => server.expect_registered(names, name == "register"),
        };
    }
    lab("callee", &[name, "--callee", "--ring", "10ms-50ms"])?;
    let answering: Sipp<'_> = play.sipp("callee", "callee", &callees, callee_port, None);
    let mut answering = answering.start(&written)?;
    calling.run(&written)?;
    succeeded("callee", &mut answering)
}

/// Text of a scenario that is built into SIPp.
fn of_sipp(name: &str) -> Result<String> {
    let output = Command::new("sipp").args(["-sd", name]).output().context("cannot start sipp")?;
    let text = String::from_utf8(output.stdout)?;
    if !text.contains("</scenario>") {
        bail!("sipp has no scenario {name}");
    }
    Ok(text)
}

fn program(stage: &Stage) -> Result<&std::path::Path> {
    stage.ringway.program().context("the lab is a part of the program")
}

fn named(users: &[User]) -> Vec<(String, String)> {
    users.iter().map(|user| (user.name.clone(), user.password.clone())).collect()
}

pub(crate) fn run_scenarios() -> Vec<Scenario> {
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
        Scenario::new("lab/profile", run_profile).alone(),
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

/// Both targets are profiled: their time is split by component. Where perf cannot sample there is a row that says so, and the campaign
/// goes on.
fn run_profile(stage: &Stage) -> Result<()> {
    let experiment = stage.path("own.toml");
    std::fs::write(&experiment, "scenario = \"update\"\nrates = [4000]\nusers = 200\nquick_seconds = 0.3\n")?;
    let mut command = lab_run(stage)?;
    command.arg(&experiment).args(["--target", "ringway", "--target", "kamailio", "--quick", "--profile"]);
    command.args(["--sources", "4", "--out"]).arg(stage.path("results"));
    let lab = Process::start("lab", &mut command, &stage.folder)?;
    let status = lab.wait_for(LIMIT)?;
    ensure!(status.success(), "{status}: {}", lab.output());
    let records = record::read(&stage.path("results"))?;
    let missing = records.iter().find_map(|record| match record {
        Record::Failed(failed) if failed.variant == "components" => Some(failed.error.as_str()),
        _ => None,
    });
    if let Some(why) = missing {
        ensure!(why.starts_with("not available: perf"), "{why}");
        return Ok(());
    }
    let mut profiled = BTreeSet::new();
    for record in &records {
        let Record::Profile(profile) = record else { continue };
        let of = &profile.target;
        let share = |key: &str| {
            profile.components.iter().find(|one| one.component == key).map_or(0.0, |one| one.share)
        };
        let sum: f64 = profile.components.iter().map(|one| one.share).sum();
        ensure!((sum - 1.0).abs() < 1e-6, "{of}: the shares are {sum} together");
        for key in ["kernel", "core", "location"] {
            ensure!(share(key) > 0.0, "{of}: no time of {key}: {:?}", profile.components);
        }
        ensure!(share("rest") < 0.25, "{of}: {} are of no component: {:?}", share("rest"), profile.functions);
        // Their difference depends on the machine's other work, and is in the record.
        ensure!(profile.samples > 100 && profile.agreement > 0.3, "{of}: {profile:?}");
        ensure!(profile.agrees == profile.disagreement.is_empty(), "{of}: {profile:?}");
        profiled.insert(of);
    }
    ensure!(profiled.len() == 2, "only {profiled:?} were profiled");
    Ok(())
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
