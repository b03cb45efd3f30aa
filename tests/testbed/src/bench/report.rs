//! Tables of the results, for the terminal and for BENCHMARKS.md, each of whose sections is written by its own command,
//! which keeps the others.

use anyhow::{Context, Result, bail};
use ringway_lab::measure::Readings;
use ringway_lab::{machine, saturation};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Result of a row against its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Met,
    Missed,
    /// The measurement failed.
    Failed,
    /// Another row has the target.
    Compared,
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "**missed**",
            Self::Failed => "**failed**",
            Self::Compared => "compared",
        }
    }

    /// Same with capitals for what is not met.
    pub(super) const fn word_in_capitals(self) -> &'static str {
        match self {
            Self::Met | Self::Compared => self.word(),
            Self::Missed => "**MISSED**",
            Self::Failed => "**FAILED**",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// A row of the table; a cell is empty if it was not measured.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) target: String,
    pub(super) floor: String,
    pub(super) kamailio: String,
    pub(super) ringway: String,
    pub(super) verdict: Verdict,
    /// Note below the table.
    pub(super) note: String,
}

/// Names of the servers of a row in its note.
const SIDES: [&str; 3] = ["floor", "kamailio", "ringway"];

impl Row {
    /// A row whose measurement failed.
    pub(super) fn failed(what: &str, target: &str, error: &anyhow::Error) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            floor: String::new(),
            kamailio: String::new(),
            ringway: "not measured".to_owned(),
            verdict: Verdict::Failed,
            note: format!("{what}: {error:#}"),
        }
    }

    /// A row with one figure of Ringway and no comparison.
    pub(super) fn single(what: &str, target: &str, ringway: String, met: bool) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            floor: String::new(),
            kamailio: String::new(),
            ringway,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
            note: String::new(),
        }
    }

    /// A figure without a target.
    pub(super) fn compared(what: &str, figure: String) -> Self {
        Self { verdict: Verdict::Compared, ..Self::single(what, "", figure, true) }
    }

    /// A row of CPU times per operation.
    pub(super) fn times(what: &str, target: TimeTarget, times: &Times<'_>) -> Self {
        let cell = |side: Option<&Result<Readings>>| match side {
            Some(Ok(readings)) => time_cell(readings),
            Some(Err(_)) => "failed".to_owned(),
            None => String::new(),
        };
        let mut row = match times.ringway {
            Err(error) => Self::failed(what, &target.words(), error),
            Ok(ours) => {
                let floor = times.floor.and_then(|side| side.as_ref().ok()).map(Readings::us);
                Self::single(what, &target.words(), time_cell(ours), target.is_met(ours.us(), floor))
            }
        };
        row.floor = cell(times.floor);
        row.kamailio = cell(times.kamailio);
        if let (Some(Ok(floor)), Ok(ours)) = (times.floor, times.ringway) {
            let _ = write!(row.ringway, ", {:.2} × floor", ours.us() / floor.us());
        }
        let sides = SIDES.into_iter().zip([times.floor, times.kamailio, Some(times.ringway)]);
        let proofs: Vec<String> = sides
            .filter_map(|(name, side)| match side? {
                Ok(readings) => Some(format!("{name} {}", readings.proof())),
                Err(error) if name != "ringway" => Some(format!("{name} {error:#}")),
                Err(_) => None,
            })
            .collect();
        if !proofs.is_empty() {
            row.add_note(&format!("saturation, {what}: {}", proofs.join("; ")));
        }
        row
    }

    /// Adds a line to the note.
    pub(super) fn add_note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("\n- ");
        }
        self.note.push_str(text);
    }
}

/// CPU times of the servers of a row.
pub(super) struct Times<'a> {
    pub(super) floor: Option<&'a Result<Readings>>,
    pub(super) kamailio: Option<&'a Result<Readings>>,
    pub(super) ringway: &'a Result<Readings>,
}

/// Upper limits of a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeTarget {
    /// Microseconds of CPU per operation.
    pub(super) us_max: f64,
    /// Maximum multiple of the floor in the same run, if required.
    pub(super) floors_max: Option<f64>,
}

impl TimeTarget {
    pub(super) const fn us(us_max: f64) -> Self {
        Self { us_max, floors_max: None }
    }

    pub(super) fn words(self) -> String {
        match self.floors_max {
            None => format!("≤ {} µs", self.us_max),
            Some(floors) => format!("≤ {} µs and ≤ {floors} × floor", self.us_max),
        }
    }

    fn is_met(self, us: f64, floor_us: Option<f64>) -> bool {
        let by_floor = match (self.floors_max, floor_us) {
            (None, _) => true,
            (Some(most), Some(floor)) => us <= most * floor,
            (Some(_), None) => false,
        };
        us <= self.us_max && by_floor
    }
}

fn time_cell(readings: &Readings) -> String {
    let (low, high) = readings.range();
    format!("{:.2} µs ({low:.2}-{high:.2})", readings.us())
}

/// Circumstances of the run, for the head of the file.
pub(super) struct Circumstances {
    /// The command line.
    pub(super) command: String,
    /// One paragraph: repeats, seconds, users.
    pub(super) plan: String,
    /// Load averages before and after.
    pub(super) load: [String; 2],
    /// Share of the machine's time the hypervisor took over the whole run, in percent.
    pub(super) steal_percent: f64,
    /// CPU time of other programs, in percent of one processor.
    pub(super) others_percent: f64,
    /// Version line of Kamailio.
    pub(super) kamailio: String,
}

/// Heading of the section with the server's table.
pub(super) const HEADING: &str = "## The server, saturated\n";

/// Renders the section of BENCHMARKS.md with the server's table.
pub(super) fn render(rows: &[Row], circumstances: &Circumstances) -> String {
    let mut text = format!(
        "{HEADING}\n\
         Written by `{}`; every figure below was measured in that one run.\n\n\
         CPU time, not wall time: what the server's threads used (`/proc/PID/task/*/schedstat`) divided by the \
         operations completed, all kernel work of its system calls included. Server on one processor, load generator on \
         another, over loopback; with SQLite, what the server writes afterwards is counted too. {}\n\n\
         - **closed loop**: the generator of `ringway lab load` keeps a window of attempts open (256 REGISTERs, 128 with a \
         challenge, 96 calls or INVITEs, 200 over TCP), as many as fit into a server's default receive buffer. It never \
         sleeps on its sockets but naps for 40 µs when nothing is there: else each answer to a sleeping generator would wake \
         it at the cost of the server, and more often at that of a slow one.\n\
         - **ballast**: on the server's processor a thread with real-time priority, whose loop touches no memory, runs for \
         {} µs and sleeps for {} µs in turn. So the server has less time than the generator, and always work.\n\
         - **saturation**: a reading counts only if the server's busiest thread ran or waited for its processor (the first \
         two fields of its `schedstat`) for {:.0} % of the time at least, and if at most 1 % of the operations had a \
         retransmission. The notes have the smallest share of all readings that count, as *runnable*.\n\
         - **floor**: a process of `xtask` that takes and sends messages as long with recvmmsg/sendmmsg (TCP: epoll) and \
         reads the first letter and the end of the first line; measured in turn with the others, with the same ballast.\n\
         - **kamailio**: {}; one worker, `-x tlsf`, location table in memory, no authentication, no log.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {:.0} % of a processor, the hypervisor took \
         {:.2} %\n\n\
         | what | must reach | floor | kamailio | ringway | |\n|---|---|---|---|---|---|\n",
        circumstances.command,
        circumstances.plan,
        saturation::BALLAST_TIME.as_micros(),
        saturation::SERVER_TIME.as_micros(),
        100.0 * saturation::RUNNABLE_MIN,
        circumstances.kamailio,
        machine::description(),
        circumstances.load[0],
        circumstances.load[1],
        circumstances.others_percent,
        circumstances.steal_percent,
    );
    add_compared_rows(&mut text, rows);
    add_notes(&mut text, rows);
    text
}

/// Adds the rows of a table with the figures of three servers.
pub(super) fn add_compared_rows(text: &mut String, rows: &[Row]) {
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what, row.target, row.floor, row.kamailio, row.ringway, row.verdict
        );
    }
}

/// Adds the rows of a table with Ringway's figures only.
pub(super) fn add_rows(text: &mut String, rows: &[Row], word: fn(Verdict) -> &'static str) {
    for row in rows {
        let _ = writeln!(text, "| {} | {} | {} | {} |", row.what, row.target, row.ringway, word(row.verdict));
    }
}

/// Adds the notes of a table as one list.
pub(super) fn add_notes(text: &mut String, rows: &[Row]) {
    let notes: Vec<&Row> = rows.iter().filter(|row| !row.note.is_empty()).collect();
    if !notes.is_empty() {
        text.push('\n');
        for row in notes {
            let _ = writeln!(text, "- {}", row.note);
        }
    }
}

/// Adds the notes of a table, each as a list of its own.
pub(super) fn add_spaced_notes(text: &mut String, rows: &[Row]) {
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        let _ = write!(text, "\n- {}\n", row.note);
    }
}

/// Prints each row with its target.
pub(super) fn print_rows(rows: &[Row]) {
    for row in rows {
        let target =
            if row.target.is_empty() { String::new() } else { format!(" (must reach {})", row.target) };
        eprintln!("{}: {}{target}", row.what, row.ringway);
    }
}

/// # Errors
/// A row missed its target, or was not measured.
pub(super) fn ensure_met(rows: &[Row]) -> Result<()> {
    match rows.iter().filter(|row| !matches!(row.verdict, Verdict::Met | Verdict::Compared)).count() {
        0 => Ok(()),
        missed => bail!("{missed} of {} rows were missed or could not be measured", rows.len()),
    }
}

/// Text of a section from its heading (`## …`) to the next section.
fn section_of<'t>(text: &'t str, heading: &str) -> Option<&'t str> {
    let rest = text.get(start_of(text, heading)?..)?;
    let end = rest.get(heading.len()..)?.find("\n## ").map_or(rest.len(), |at| at + heading.len() + 1);
    rest.get(..end)
}

/// `text` with `section` replacing the section with the same heading, or appended.
pub(crate) fn with_section(text: &str, heading: &str, section: &str) -> String {
    let (before, after) = match section_of(text, heading).zip(start_of(text, heading)) {
        Some((old, at)) => (text.get(..at), text.get(at + old.len()..)),
        None => (Some(text), None),
    };
    let parts = [before.unwrap_or_default(), section, after.unwrap_or_default()];
    let parts: Vec<&str> = parts.into_iter().map(str::trim_end).filter(|part| !part.is_empty()).collect();
    format!("{}\n", parts.join("\n\n"))
}

/// Writes a section into BENCHMARKS.md, or prints it.
///
/// # Errors
/// The file cannot be read or written.
pub(super) fn publish(workspace: &Path, heading: &str, section: &str, is_written: bool) -> Result<()> {
    if !is_written {
        println!("{section}");
        return Ok(());
    }
    let path = workspace.join("BENCHMARKS.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    fs::write(&path, with_section(&text, heading, section)).with_context(|| path.display().to_string())?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn start_of(text: &str, heading: &str) -> Option<usize> {
    if text.starts_with(heading) { Some(0) } else { text.find(&format!("\n{heading}")).map(|at| at + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_with_a_floor_needs_both() {
        let target = TimeTarget { us_max: 5.0, floors_max: Some(1.9) };
        assert!(target.is_met(4.9, Some(2.6)));
        assert!(!target.is_met(4.9, Some(2.5)));
        assert!(!target.is_met(5.1, Some(3.0)));
        assert!(!target.is_met(4.0, None));
        assert!(TimeTarget::us(8.0).is_met(8.0, None));
    }

    #[test]
    fn a_missed_and_a_failed_row_are_marked() {
        let rows = [
            Row::single("memory", "≤ 700 bytes", "712 bytes".to_owned(), false),
            Row::failed("call", "≤ 40 µs", &anyhow::anyhow!("no ready line")),
        ];
        let circumstances = Circumstances {
            command: "cargo xtask bench".to_owned(),
            plan: String::new(),
            load: ["0".to_owned(), "1".to_owned()],
            steal_percent: 0.0,
            others_percent: 0.0,
            kamailio: "none".to_owned(),
        };
        let text = render(&rows, &circumstances);
        assert!(text.contains("| memory | ≤ 700 bytes |  |  | 712 bytes | **missed** |"), "{text}");
        assert!(text.contains("| not measured | **failed** |"), "{text}");
        assert!(text.contains("- call: no ready line"), "{text}");
    }

    const PHONE: &str = "## The phone\n";
    const METAL: &str = "## Without\n";

    #[test]
    fn a_section_replaces_its_old_text_and_keeps_the_others() {
        let once = with_section("# Benchmarks\n\n| a |\n", PHONE, "## The phone\n\none\n");
        assert_eq!(once, "# Benchmarks\n\n| a |\n\n## The phone\n\none\n");
        let both = with_section(&once, METAL, "## Without\n\nx\n");
        assert_eq!(both, "# Benchmarks\n\n| a |\n\n## The phone\n\none\n\n## Without\n\nx\n");
        assert_eq!(section_of(&both, PHONE).map(str::trim_end), Some("## The phone\n\none"));
        let twice = with_section(&both, PHONE, "## The phone\n\ntwo\n");
        assert_eq!(twice, "# Benchmarks\n\n| a |\n\n## The phone\n\ntwo\n\n## Without\n\nx\n");
        assert_eq!(section_of("# Benchmarks\n", PHONE), None);
    }
}
