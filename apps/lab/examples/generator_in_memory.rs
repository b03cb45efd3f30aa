//! Plays attempts with both sides of the load generator and without sockets, so that a profiler counts the generator alone:
//! `generator_in_memory register|call ATTEMPTS`.

use anyhow::{Context, Result, bail};
use ringway_lab::load::Flow;
use ringway_lab::load::in_memory::Stage;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let name = words.next().context("give the kind of attempts: register or call")?;
    let flow = Flow::ALL.into_iter().find(|(_, known)| *known == name).context("give register or call")?.0;
    let attempts = words.next().context("give the number of attempts")?.parse()?;
    let mut stage = Stage::new(flow, attempts, RATE, USERS)?;
    stage.play()?;
    if stage.successes != attempts {
        bail!("{} of {attempts} attempts were successful", stage.successes);
    }
    Ok(())
}

/// Attempts a second of the simulated clock.
const RATE: f64 = 3000.0;
const USERS: u32 = 10_000;
