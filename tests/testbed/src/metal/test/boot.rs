//! Boot time: from the start of QEMU to a DHCP lease.

use std::time::Instant;

use anyhow::{Result, bail};

use super::figures;
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use crate::process::{Process, cpu_s, free_port};
use ringway_lab::statistics::median;

pub(super) fn checks() -> Vec<Scenario> {
    KINDS
        .into_iter()
        .map(|kind| {
            Scenario::new(format!("boot/{}", kind.name), move |stage: &Stage| kind.measure(stage)).alone()
        })
        .collect()
}

/// Boot medium with its time limit.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    medium: Medium,
    tries: u32,
    goal_s: f64,
}

impl Kind {
    /// Measures the boot time. Fails only if QEMU also needed twice the goal in CPU time, because the
    /// computer may be busy.
    fn measure(self, stage: &Stage) -> Result<()> {
        let Self { name, medium, tries, goal_s } = self;
        let mut command = Machine::new(medium).command(&stage.folder, free_port()?, "auth=off")?;
        let (mut times, mut least_s) = (Vec::new(), f64::INFINITY);
        for _ in 0..tries {
            let begun = Instant::now();
            let running = Process::start("machine", &mut command, &stage.folder)?;
            running.wait_for_output("by DHCP from")?;
            times.push(begun.elapsed().as_secs_f64());
            least_s = least_s.min(cpu_s(&running)?);
        }
        times.sort_by(f64::total_cmp);
        let (least, most) =
            (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
        let typical = median(times.iter().copied());
        figures::note(
            format!("from QEMU's start to the lease of DHCP, {name}"),
            format!("≤ {goal_s} s"),
            format!("{typical:.2} s, median of {tries} ({least:.2} to {most:.2})"),
            typical <= goal_s,
        );
        if typical.min(least_s) > 2.0 * goal_s {
            bail!(
                "{typical:.2} s, and {least_s:.2} s of a processor, are more than twice the goal of {goal_s} s"
            );
        }
        Ok(())
    }
}

const KINDS: [Kind; 3] = [
    Kind { name: "kernel", medium: Medium::Kernel, tries: 5, goal_s: 0.5 },
    Kind { name: "cd", medium: Medium::Cd, tries: 3, goal_s: 1.5 },
    Kind { name: "usb", medium: Medium::Usb, tries: 3, goal_s: 1.5 },
];
