//! Table of the phone: a section of BENCHMARKS.md after the server's.

use super::super::report::Verdict;
use ringway_lab::machine;
use std::fmt::Write as _;

/// Heading of the section.
pub(super) const HEADING: &str = "## The phone\n";

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct PhoneRow {
    pub(super) what: String,
    /// Target, as text.
    pub(super) target: String,
    /// Result of another implementation in the same run; empty if there is none.
    pub(super) beside: String,
    pub(super) ringway: String,
    pub(super) verdict: Verdict,
    /// Notes below the table.
    pub(super) notes: Vec<String>,
}

impl PhoneRow {
    /// A row whose measurement failed.
    pub(super) fn failed(what: &str, target: &str, error: &anyhow::Error) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            beside: String::new(),
            ringway: "not measured".to_owned(),
            verdict: Verdict::Failed,
            notes: vec![format!("{what}: {error:#}")],
        }
    }
}

/// Circumstances of the run.
pub(super) struct Circumstances {
    /// The command line.
    pub(super) command: String,
    /// Load averages before and after.
    pub(super) load: [String; 2],
}

/// Renders the section.
pub(super) fn render(rows: &[PhoneRow], circumstances: &Circumstances) -> String {
    let mut text = format!(
        "{HEADING}\n\
         Written by `{}`; every figure below was measured in that one run.\n\n\
         - CPU time of the thread that does it (`CLOCK_THREAD_CPUTIME_ID`); medians, and in brackets the range of the \
         middle half of the readings; allocations as its allocator counts them.\n\
         - libsrtp2: the one that is installed, and whose ciphers it was built with; `LD_LIBRARY_PATH` names another \
         build.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | beside it | ringway | |\n|---|---|---|---|---|\n",
        circumstances.command,
        machine::description(),
        circumstances.load[0],
        circumstances.load[1],
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.what, row.target, row.beside, row.ringway, row.verdict
        );
    }
    let mut notes = rows.iter().flat_map(|row| &row.notes).peekable();
    if notes.peek().is_some() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_row_has_its_error() {
        let circumstances =
            Circumstances { command: "cargo xtask bench phone".into(), load: ["0".into(), "1".into()] };
        let rows = [PhoneRow::failed("protect", "≤ 330 ns", &anyhow::anyhow!("no key"))];
        let text = render(&rows, &circumstances);
        assert!(text.contains("| protect | ≤ 330 ns |  | not measured | **failed** |"), "{text}");
        assert!(text.ends_with("- protect: no key\n"), "{text}");
    }
}
