//! Rows of the server without sockets: the network loop and the server of the image with a simulated network
//! card, in its own process, compared with the server with sockets in the same run.

use super::report;
use super::report::Row;
use super::rows::{Bench, RowName};
use anyhow::{Context, Result};
use ringway_lab::machine::{self, GENERATOR_CPU, SERVER_CPU};
use ringway_lab::measure::{Contestant, Readings, measure};
use ringway_lab::operation::Operation;
use ringway_lab::server::Algorithm;
use ringway_lab::subject::{Settings, Under};
use ringway_test_support::process::run_to_end;
use serde_json::Value;
use std::process::Command;
use xtask::workspace::target_dir;

/// Package of [`PROGRAM`].
pub(super) const PACKAGE: &str = "ringway-in-memory";
/// Example that measures itself.
pub(super) const PROGRAM: &str = "in_memory";

const HEADING: &str = "## Without sockets\n";

/// Minimum ratio of the cost with sockets to the cost without.
const TIMES_CHEAPER: f64 = 4.0;

/// Nanoseconds per REGISTER, of each run.
struct Figures {
    open: Vec<f64>,
    digest: Vec<f64>,
}

impl Bench {
    pub(super) fn without_sockets(&self) -> Vec<Row> {
        let figures = self.in_memory();
        [("no digest", None), ("digest MD5 (401 and retry)", Some(Algorithm::Md5))]
            .into_iter()
            .map(|(words, challenge)| {
                let what = format!(
                    "REGISTER refresh without sockets (the image's loop over memory), 10 k bindings, {words}, beside the \
                     server with sockets"
                );
                eprintln!("{what}");
                let must = challenge.is_none().then_some(TIMES_CHEAPER);
                let target = match must {
                    Some(times) => format!("{times} × cheaper than with sockets"),
                    None => "recorded".to_owned(),
                };
                let with_sockets = self.with_sockets(challenge);
                match (&figures, with_sockets) {
                    (Ok(figures), Ok(readings)) => {
                        let ours = if challenge.is_some() { &figures.digest } else { &figures.open };
                        compared(&what, (&target, must), ours, &readings)
                    }
                    (Err(error), _) => Row::failed(&what, &target, error),
                    (_, Err(error)) => Row::failed(&what, &target, &error),
                }
            })
            .collect()
    }

    /// Figures that the program prints, one for each repeat.
    fn in_memory(&self) -> Result<Figures> {
        let program = target_dir().join("release/examples").join(PROGRAM);
        let mut figures = Figures { open: Vec::new(), digest: Vec::new() };
        for _ in 0..self.plan.repeats {
            // A child inherits the processors of its parent.
            machine::pin_to(SERVER_CPU)?;
            let output = run_to_end(&mut Command::new(&program), "");
            machine::pin_to(GENERATOR_CPU)?;
            let printed: Value = serde_json::from_str(&output?).context("it printed no JSON")?;
            let figure =
                |name: &str| printed.get(name).and_then(Value::as_f64).context("a figure is missing");
            figures.open.push(figure("register_ns")?);
            figures.digest.push(figure("register_digest_ns")?);
        }
        Ok(figures)
    }

    /// Measures the server with sockets and as many users, without a store on disk.
    fn with_sockets(&self, challenge: Option<Algorithm>) -> Result<Readings> {
        let (mut subject, operation) = match challenge {
            None => (self.registered(RowName::WithoutSockets, self.users_few), Operation::Refresh),
            Some(algorithm) => {
                let settings = RowName::RegisterDigest.settings(&self.environment, self.users_few);
                let settings = Settings { challenge: Some(algorithm), ..settings };
                let made = self.environment.import_users(&settings).and_then(|_| {
                    let mut subject = self.environment.ringway(&settings, Under::Itself)?;
                    subject.register_all(Operation::RefreshChallenged)?;
                    Ok(subject)
                });
                (made, Operation::RefreshChallenged)
            }
        };
        let mut contestants = [Contestant { name: "sockets", subject: &mut subject, operation }];
        let readings = measure(&mut contestants, self.plan).into_iter().next();
        drop(subject);
        if challenge.is_some() {
            self.forget_database("subscribers.db");
        }
        readings.context("nothing was measured")?
    }
}

/// `file` with these rows as its section.
pub(super) fn with_section(file: &str, rendered: &str) -> String {
    let body = rendered.split_once("\n\n").map_or(rendered, |(_title, body)| body);
    report::with_section(file, HEADING, &format!("{HEADING}\n{body}"))
}

fn compared(what: &str, (target, must): (&str, Option<f64>), ours: &[f64], with_sockets: &Readings) -> Row {
    let mut sorted = ours.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |environment: usize| sorted.get(environment).copied().unwrap_or(f64::NAN);
    let (ns, low, high) = (at(sorted.len() / 2), at(0), at(sorted.len().saturating_sub(1)));
    let times = with_sockets.us() * 1000.0 / ns;
    let cycles = ns * machine::mhz() / 1000.0;
    let (least, most) = with_sockets.range();
    let cell = format!(
        "{ns:.0} ns ({low:.0}-{high:.0}), {cycles:.0} cycles; with sockets {:.2} µs ({least:.2}-{most:.2}): {times:.2} × \
         cheaper",
        with_sockets.us()
    );
    Row::single(what, target, cell, must.is_none_or(|must| times >= must))
}
