//! Bytes of the generator for each user, and for each open attempt.

use super::Kind;

use super::table::Row;
use anyhow::{Result, bail};
use ringway_lab::load::Flow;
use ringway_lab::load::in_memory::Stage;

/// Measures both.
pub(super) fn rows() -> Vec<Row> {
    let user = "generator: bytes for each of 1 M registered users, nothing open";
    let open = "generator: bytes for each open REGISTER (100 k), and for each open call of both sides (10 k)";
    vec![
        bytes_of_users().map_or_else(
            |error| Row::failed(user, &error),
            |bytes| Row::single(user, "< 300 bytes", format!("{bytes:.0} bytes"), bytes < 300.0),
        ),
        bytes_open(Kind::Register, 100_000)
            .and_then(|register| Ok([register, bytes_open(Kind::Call, 10_000)?]))
            .map_or_else(
                |error| Row::failed(open, &error),
                |[register, call]| {
                    Row::single(open, "recorded", format!("{register:.0} bytes, {call:.0} bytes"), true)
                },
            ),
    ]
}

/// Registers all users once, and lets all transactions end.
fn bytes_of_users() -> Result<f64> {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let run = || -> Result<Stage> {
            let mut stage = Stage::new(Flow::Register, USERS.into(), USERS_RATE, USERS)?;
            stage.settle()?;
            Ok(stage)
        };
        kept = Some(run());
    });
    match kept {
        Some(Ok(stage)) if stage.successes == u64::from(USERS) => {
            Ok(counted.bytes_current as f64 / f64::from(USERS))
        }
        Some(Ok(stage)) => bail!("{} of {USERS} users were registered", stage.successes),
        Some(Err(error)) => Err(error),
        None => bail!("nothing was measured"),
    }
}

/// Opens attempts that end later.
fn bytes_open(kind: Kind, count: u32) -> Result<f64> {
    let mut stage = Stage::new(kind.flow(), count.into(), f64::from(count) * 100.0, count)?;
    stage.is_mute = kind == Kind::Register;
    let mut result = Ok(());
    let counted = allocation_counter::measure(|| {
        while stage.open() < count as usize && result.is_ok() {
            result = stage.turn();
        }
        stage.release_spare();
    });
    result?;
    Ok(counted.bytes_current as f64 / f64::from(count))
}

const USERS: u32 = 1_000_000;
const USERS_RATE: f64 = 20_000.0;
