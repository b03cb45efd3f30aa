//! Times of the steps of a message, of the built program.
//!
//! Tested: off by default; the steps of REGISTERs with digest and of calls, as a table and as JSON; a reload turns them on and off.

use crate::lab::import_users;
use crate::program::{Done, Running};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

/// A server with users, in a folder of its own.
struct Server {
    folder: TempDir,
    running: Running,
}

impl Server {
    fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, more);
        import_users(&folder);
        let running = Running::start(folder.path(), &["serve"], "");
        running.ready();
        Self { folder, running }
    }

    fn command(&self, args: &[&str]) -> Done {
        let admin = self.running.admin();
        Running::start(self.folder.path(), &[args, &["--admin", &admin]].concat(), "").done()
    }

    /// Reloads a configuration with these lines.
    fn reload(&self, more: &str) {
        write(&self.folder, more);
        self.command(&["reload"]).ok();
    }

    /// Result of a load in which all succeed.
    fn load(&self, scenario: &str) -> Value {
        let address = self.running.address();
        let args = ["lab", "load", &address, "--users-file", "users.csv", "--json", "--scenario", scenario];
        let more = ["--rate", "20", "--seconds", "1", "--talk", "10ms-50ms"];
        let done = Running::start(self.folder.path(), &[&args[..], &more].concat(), "").done();
        let result: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        assert_eq!(result["outcomes"]["success"], result["started"], "{result}");
        assert!(result["started"].as_u64().unwrap() > 0, "{result}");
        result
    }

    fn steps(&self) -> Value {
        self.command(&["show", "steps", "--json"]).json()
    }

    /// Row of a step.
    fn step(&self, message: &str, step: &str) -> Value {
        let steps = self.steps();
        let rows = steps["steps"].as_array().unwrap_or_else(|| panic!("{steps}"));
        let row = rows.iter().find(|row| row["message"] == message && row["step"] == step);
        row.unwrap_or_else(|| panic!("{message} has no {step}: {steps}")).clone()
    }
}

fn write(folder: &TempDir, more: &str) {
    let config = format!(
        "listen = [\"udp:127.0.0.1:0\"]\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n[limits]\nper_source_rate = 0\n{more}"
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
}

#[test]
fn steps_of_registrations_and_calls_are_measured() {
    let server = Server::start("[log]\nsteps = true\n");
    let registered = server.load("update")["started"].as_u64().unwrap();
    let count = |step: &str| server.step("REGISTER", step)["messages"].as_u64().unwrap();
    // A REGISTER without credentials is challenged, the next one writes the binding.
    assert!(count("add user") >= registered, "{}", server.steps());
    assert!(count("find user") >= registered && count("authenticate") > count("add user"));
    let all = count("all");
    assert_eq!([count("parse"), count("format"), count("rest")], [all; 3]);
    let rows = server.steps()["steps"].as_array().unwrap().clone();
    let of_register = || rows.iter().filter(|row| row["message"] == "REGISTER" && row["step"] != "all");
    let shares: f64 = of_register().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((99.0..101.0).contains(&shares), "{rows:?}");
    assert!(of_register().all(|row| row["mean_ns"].as_f64().unwrap() > 0.0), "{rows:?}");

    server.load("call");
    for step in ["parse", "find user", "authenticate", "format"] {
        assert!(server.step("INVITE", step)["messages"].as_u64().unwrap() > 0, "{step}");
    }
    assert!(server.step("response", "format")["messages"].as_u64().unwrap() > 0);
    let table = server.command(&["show", "steps"]).ok();
    assert!(table.starts_with("MESSAGE "), "{table}");
    assert!(table.lines().any(|line| line.starts_with("REGISTER ") && line.contains("add user")), "{table}");
    assert!(table.ends_with("ns of each timing point are taken off\n"), "{table}");
}

#[test]
fn steps_are_off_until_a_reload_turns_them_on() {
    let server = Server::start("");
    server.load("update");
    let off = server.command(&["show", "steps"]).ok();
    assert!(off.starts_with("off: set [log] steps = true"), "{off}");
    assert!(server.steps()["steps"].is_null());
    server.reload("[log]\nsteps = true\n");
    assert_eq!(server.steps()["steps"], Value::Array(Vec::new()));
    server.load("update");
    assert!(server.step("REGISTER", "parse")["messages"].as_u64().unwrap() > 0);
    // The sums stay as long as it is on.
    server.reload("[log]\nsteps = true\nlevel = \"warn\"\n");
    assert!(server.step("REGISTER", "parse")["messages"].as_u64().unwrap() > 0);
    server.reload("[log]\nlevel = \"warn\"\n");
    assert!(server.steps()["steps"].is_null());
}
