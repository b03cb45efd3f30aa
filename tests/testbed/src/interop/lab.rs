//! SIPp's scenario files: SIPp's own ones played by `ringway lab load`, ours played by SIPp, both against the server.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use ringway_test_support::process::run_to_end;

use super::calls::{Play, users};
use super::server::{Mode, Server, Wanted};
use super::sipp::{Sipp, User, rows, succeeded};
use super::{Scenario, Stage, Transport};
use crate::process::{PATIENCE, Process, free_port};

/// Scenarios of the lab.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![Scenario::new("lab/xml-read", read), Scenario::new("lab/xml-refused", refused)];
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

/// The lab plays both sides of SIPp's basic call, unchanged, through the server.
fn read(stage: &Stage) -> Result<()> {
    for name in ["uac", "uas"] {
        std::fs::write(stage.path(&format!("{name}.xml")), of_sipp(name)?)?;
    }
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    std::fs::write(stage.path("list.csv"), rows(&callers)?)?;
    // SIPp's callers name the callees at the address of the server.
    let wanted = Wanted { digest: false, domain: "127.0.0.1", ..Wanted::default() };
    let server = Server::start(stage, wanted, &named(&[callers, callees].concat()))?;
    let mut command = Command::new(program(stage)?);
    command.args(["lab", "load", &format!("127.0.0.1:{}", server.port), "--domain", "127.0.0.1"]);
    command.args(["--scenario-file", "uac.xml", "--callee-file", "uas.xml", "--users-file", "list.csv"]);
    command.args(["--rate", "20", "--seconds", "2", "--talk", "50ms", "--fail-if", "success<100%"]);
    let running = Process::start("lab", &mut command, &stage.folder)?;
    let status = running.wait_for(2 * PATIENCE)?;
    ensure!(status.success(), "lab load ended with {status}: {}", running.output());
    ensure!(running.output().contains("40 (100.00 %)"), "not 40 calls: {}", running.output());
    Ok(())
}

/// SIPp's scenarios with actions and jumps are refused with the line of the first one.
fn refused(stage: &Stage) -> Result<()> {
    for (name, reason) in [
        ("regexp", "<ereg>"),
        ("branchc", "`next`"),
        ("branchs", "<ereg>"),
        ("uac_pcap", "<exec>"),
        ("3pcc-C-A", "<ereg>"),
    ] {
        let text = of_sipp(name)?;
        let word = reason.trim_matches(['<', '>', '`']);
        // Comments name the actions too, so the element or attribute is searched for.
        let is_first =
            |line: &str| line.contains(&format!("<{word} ")) || line.contains(&format!("{word}=\""));
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
