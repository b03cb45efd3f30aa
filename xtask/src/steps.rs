//! Steps of a long task: chosen by name, run in their order, reported with their times.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

/// Options of a task that has steps.
#[derive(clap::Args)]
pub(crate) struct Choice<S: ValueEnum + PartialEq + Send + Sync + 'static> {
    /// Only these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<S>,
    /// All but these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<S>,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
}

/// Outcome of a step that did not fail.
pub(crate) enum Outcome {
    Passed,
    /// Not run, with the reason.
    Skipped(String),
}

impl<S: ValueEnum + PartialEq + Send + Sync + 'static> Choice<S> {
    /// Runs the chosen steps of the task `task` and prints their times.
    ///
    /// # Errors
    /// Names the steps that failed.
    pub(crate) fn run(&self, task: &str, run_step: impl Fn(&S) -> Result<Outcome>) -> Result<()> {
        let started = Instant::now();
        let is_chosen =
            |step: &&S| !self.skip.contains(step) && (self.only.is_empty() || self.only.contains(step));
        let steps: Vec<&S> = S::value_variants().iter().filter(is_chosen).collect();
        let mut report = Vec::new();
        let mut failed = Vec::new();
        let (mut passed, mut skipped) = (0, 0);
        for (number, step) in (1..).zip(&steps) {
            let name = step.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let so_far = started.elapsed().as_secs_f64();
            println!("== {name} ({number} of {}, after {so_far:.0} s)", steps.len());
            let begun = Instant::now();
            let outcome = run_step(step);
            let seconds = begun.elapsed().as_secs_f64();
            match outcome {
                Ok(Outcome::Passed) => {
                    passed += 1;
                    report.push(format!("ok      {seconds:6.1} s  {name}"));
                }
                Ok(Outcome::Skipped(why)) => {
                    skipped += 1;
                    report.push(format!("skipped {seconds:6.1} s  {name}: {why}"));
                }
                Err(error) => {
                    report.push(format!("FAILED  {seconds:6.1} s  {name}: {error:#}"));
                    failed.push(name);
                    if self.fail_fast {
                        break;
                    }
                }
            }
        }
        println!("\n{}", report.join("\n"));
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{task}: {passed} steps passed, {} failed, {skipped} skipped in {seconds:.0} s",
            failed.len()
        );
        if !failed.is_empty() {
            bail!("{task} failed: {}", failed.join(", "));
        }
        Ok(())
    }
}
