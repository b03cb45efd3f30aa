//! Times of the steps of a message: the clock that the shards get, and what the admin API shows.

use super::view::ServerView;
use super::{Node, Running};
use ringway_admin::{StepTime, StepTimes};
use ringway_linux::sys::monotonic;
use ringway_server::{Step, StepClass, StepTable};

impl Running {
    /// Turns the timing points of all shards on, with a clock in nanoseconds, or off.
    pub(super) fn measure_steps(&self, is_on: bool) {
        let now: fn() -> u64 = || monotonic().as_nanos() as u64;
        self.runtime.shards().with_each(|node| node.measure_steps(is_on.then_some(now)));
    }
}

impl ServerView {
    /// Times of the steps in all shards; `None`: they are not measured.
    pub(super) fn step_times(&self) -> Option<StepTimes> {
        let mut table: Option<StepTable> = None;
        self.shards.with_each(|node: &mut Node| {
            if let Some(of_shard) = node.steps() {
                table.get_or_insert_default().add(of_shard);
            }
        });
        table.as_ref().map(times_of)
    }
}

/// Rows of a table: the steps of each class that was handled, and all of them.
fn times_of(table: &StepTable) -> StepTimes {
    let mark = table.mark();
    let mut steps = Vec::new();
    for class in StepClass::ALL.into_iter().filter(|class| table.messages(*class) > 0) {
        let of_steps = Step::ALL.map(|step| (step, table.sum(class, step)));
        let all: u64 = of_steps.iter().map(|(_, sum)| sum.net(mark)).sum();
        let row = |step: &str, messages: u64, time: u64| StepTime {
            message: class.name().to_owned(),
            step: step.to_owned(),
            messages,
            mean_ns: rounded(time as f64 / messages as f64),
            share: rounded(100.0 * time as f64 / all.max(1) as f64),
        };
        let had = of_steps.iter().filter(|(_, sum)| sum.messages > 0);
        steps.extend(had.map(|(step, sum)| row(step.name(), sum.messages, sum.net(mark))));
        steps.push(row("all", table.messages(class), all));
    }
    StepTimes { mark_ns: mark, steps }
}

/// With one digit after the point.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
