//! Figures measured by the checks: printed, and on request written into BENCHMARKS.md.

use std::fmt::Write as _;
use std::fs;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use xtask::image::{Image, bytes_of};
use xtask::workspace::root;

use crate::bench::with_section;

/// A row of the table.
struct Figure {
    what: String,
    goal: String,
    got: String,
    is_met: bool,
}

/// Prints a figure with its goal and adds it to the table.
pub(super) fn note(what: impl Into<String>, goal: impl Into<String>, got: impl Into<String>, is_met: bool) {
    let figure = Figure { what: what.into(), goal: goal.into(), got: got.into(), is_met };
    let verdict = if is_met { "" } else { ": missed" };
    println!("          {}: {}, goal {}{verdict}", figure.what, figure.got, figure.goal);
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).push(figure);
}

/// Writes the figures into BENCHMARKS.md.
pub(super) fn write() -> Result<()> {
    let image = Image::server();
    let (size, most) = (bytes_of(&image.elf)?, image.elf_bytes_max);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    note(
        "the image without GRUB",
        format!("≤ {:.1} MB", megabytes(most)),
        format!("{:.2} MB", megabytes(size)),
        size <= most,
    );
    let mut section = format!(
        "{HEADING}\nWritten by `cargo xtask metal test --benchmarks`; every figure below was measured in that one run.\n\n\
         - QEMU's emulated processor (TCG), which is no PC: its times are those of booting, its instructions those of the \
         image (`-icount`), and packets a second are not measured through it. What a REGISTER costs without sockets on a \
         processor is in the table \"Without sockets\".\n- machine: {}\n\n| what | must reach | ringway | |\n|---|---|---|---|\n",
        ringway_lab::machine::description()
    );
    for Figure { what, goal, got, is_met } in NOTED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let verdict = if *is_met { "met" } else { "**missed**" };
        let _ = writeln!(section, "| {what} | {goal} | {got} | {verdict} |");
    }
    let path = root().join("BENCHMARKS.md");
    let before = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    fs::write(&path, with_section(&before, HEADING, &section)).with_context(|| path.display().to_string())
}

/// Heading of the section.
const HEADING: &str = "## Without an operating system\n";

static NOTED: Mutex<Vec<Figure>> = Mutex::new(Vec::new());
