//! Phones in the tabs of a browser, driven by `tests/interop/browser/phones.mjs`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail, ensure};
use ringway_test_support::process::run_to_end;
use serde_json::Value;
use xtask::workspace::target_dir;

use super::super::Stage;
use super::super::certificates::CA_FILE;
use crate::process::{Process, free_port};

/// A browser whose tabs are phones.
pub(in super::super) struct Phones {
    running: Process,
    port: u16,
    /// Number of times that the counters of a phone were read.
    readings: usize,
}

/// Counters of a call in a browser (`getStats`).
#[derive(Debug)]
pub(in super::super) struct Figures(Value);

impl Phones {
    /// Starts a browser that trusts the authority in the stage's folder.
    pub(in super::super) fn start(stage: &Stage) -> Result<Self> {
        let modules = installed(&stage.data.join("browser"))?;
        trust(stage)?;
        let port = free_port()?;
        let mut command = Command::new("node");
        command.arg(modules.join("phones.mjs")).args([&port.to_string(), "/usr/bin/chromium"]);
        // The browser keeps its profile and looks for trusted authorities there.
        command.env("HOME", &stage.folder).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        let running = Process::start("browser", &mut command, &stage.folder)?;
        running.wait_for_output("ready\n")?;
        Ok(Self { running, port, readings: 0 })
    }

    /// Origin of its pages.
    pub(in super::super) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Opens a tab whose phone registers as `name` by the WebSocket `url`.
    pub(in super::super) fn open(&mut self, name: &str, url: &str, password: &str) -> Result<()> {
        self.running.type_line(&format!("open {name} {url} {password}"))
    }

    /// Same, and waits until it is registered.
    pub(in super::super) fn register(&mut self, name: &str, url: &str) -> Result<()> {
        self.open(name, url, &super::password(name))?;
        self.expect(name, "registered", 1)
    }

    /// Gives a command to the phone `name`.
    pub(in super::super) fn command(&mut self, name: &str, command: &str) -> Result<()> {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        self.running.type_line(&format!("{verb} {name} {rest}"))
    }

    /// Waits until the phone `name` has reported `event` `count` times.
    pub(in super::super) fn expect(&mut self, name: &str, event: &str, count: usize) -> Result<()> {
        let line = format!("{name} {event}");
        let is_event = |output: &str| events(output, &line).count() >= count;
        let failed = |output: &str| events(output, &format!("{name} fault")).next().map(str::to_owned);
        let waited = self.running.wait_until(&line, |output| is_event(output) || failed(output).is_some());
        waited.context("the browser")?;
        let output = self.running.output();
        if let (Some(fault), false) = (failed(&output), is_event(&output)) {
            bail!("{fault}");
        }
        Ok(())
    }

    /// True if the phone has reported `event`.
    pub(in super::super) fn has(&self, name: &str, event: &str) -> bool {
        events(&self.running.output(), &format!("{name} {event}")).next().is_some()
    }

    /// Counters of the call of `name`.
    pub(in super::super) fn figures(&mut self, name: &str) -> Result<Figures> {
        self.command(name, "figures")?;
        let before = self.readings;
        self.readings += 1;
        let is_figures = |line: &&str| line.split(' ').nth(1) == Some("figures");
        self.running.wait_until("figures", |output| output.lines().filter(is_figures).count() > before)?;
        let output = self.running.output();
        let line = output.lines().filter(is_figures).nth(before).context("no figures")?;
        let json = line.splitn(3, ' ').nth(2).context("no figures")?;
        Ok(Figures(serde_json::from_str(json).context("the figures are not JSON")?))
    }

    /// SIP messages of `name`, each with its direction (`->`, `<-`).
    pub(in super::super) fn messages(&mut self, name: &str) -> Result<Vec<String>> {
        self.command(name, "trace")?;
        self.expect(name, "traced", 1)?;
        let output = self.running.output();
        let prefix = format!("{name} message ");
        let messages = output.lines().filter_map(|line| line.strip_prefix(&prefix));
        messages.map(|json| serde_json::from_str(json).context("a message is not JSON")).collect()
    }
}

impl Figures {
    /// 0 before the first packet, when `getStats` has no such counter yet.
    fn count(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_default()
    }

    /// Fails unless packets went in both directions between `before` and these figures, with sound in them.
    pub(in super::super) fn expect_sound_since(&self, before: &Self) -> Result<()> {
        for name in ["sent", "received"] {
            let packets = self.count(name) - before.count(name);
            ensure!(packets > 50.0, "{packets} packets {name} in {}, before {}", self.0, before.0);
        }
        let energy = self.count("energy") - before.count("energy");
        ensure!(energy > 0.0, "only silence arrived: {}, before {}", self.0, before.0);
        self.expect_protected()
    }

    /// Fails unless ICE and DTLS are done.
    fn expect_protected(&self) -> Result<()> {
        let is = |name: &str, value: &str| self.0[name].as_str() == Some(value);
        ensure!(is("dtls", "connected") && is("connection", "connected"), "not connected: {}", self.0);
        Ok(())
    }
}

fn events<'a>(output: &'a str, line: &str) -> impl Iterator<Item = &'a str> {
    output.lines().filter(move |other| {
        other.strip_prefix(line).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })
}

/// Folder with the driver and its packages in their locked versions; they are installed at the first use and after a
/// change of the lock file.
pub(super) fn installed(data: &Path) -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let folder = target_dir().join("interop-browser");
    std::fs::create_dir_all(&folder)?;
    let (lock, done) = (data.join("package-lock.json"), folder.join("installed-lock.json"));
    for name in ["package.json", "package-lock.json", "phones.mjs", "page.js", "dashboard.mjs", "ladder.mjs"]
    {
        // Browsers of other scenarios read them.
        let (from, to) = (data.join(name), folder.join(name));
        let text = std::fs::read(&from).with_context(|| from.display().to_string())?;
        if std::fs::read(&to).is_ok_and(|present| present == text) {
            continue;
        }
        std::fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    let lock = std::fs::read(lock)?;
    if std::fs::read(&done).is_ok_and(|installed| installed == lock) {
        return Ok(folder);
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    run_to_end(&mut command, "")?;
    std::fs::write(done, lock)?;
    Ok(folder)
}

/// Makes the browser's store of authorities in the stage's folder.
fn trust(stage: &Stage) -> Result<()> {
    let store = stage.path(".pki/nssdb");
    if store.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&store)?;
    let database = format!("sql:{}", store.display());
    let ca = stage.path(CA_FILE);
    let ca = ca.to_string_lossy();
    let adding = ["-A", "-d", &database, "-n", "authority", "-t", "C,,", "-i", &ca];
    for arguments in [&["-N", "-d", &database, "--empty-password"][..], &adding[..]] {
        run_to_end(Command::new("certutil").args(arguments), "")?;
    }
    Ok(())
}
