//! `ringway lab report`: one HTML file from the results of a campaign.

use super::args::ReportArgs;
use super::note;
use crate::failure::Failure;
use crate::output;
use ringway_lab::{record, report};
use std::fs;
use std::path::{Path, PathBuf};

/// Reads the results and writes the report.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let out = out(args)?;
    let mut records = Vec::new();
    for results in &args.results {
        let more = record::read(results).map_err(|error| Failure::usage(format!("{error:#}")))?;
        records.extend(more);
    }
    let (records, notes) = record::without_duplicates(records);
    for text in notes {
        note(&text);
    }
    let html = report::html(&records).map_err(|error| Failure::usage(format!("{error:#}")))?;
    fs::write(&out, &html)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", out.display())))?;
    output::line(&format!("{}: {} records, {} kB", out.display(), records.len(), html.len().div_ceil(1000)))?;
    Ok(())
}

/// File that is written: never one of the results.
fn out(args: &ReportArgs) -> Result<PathBuf, Failure> {
    let default = || {
        let first = args.results.first().map_or(Path::new("."), PathBuf::as_path);
        let folder = if first.is_dir() { Some(first) } else { first.parent() };
        folder.unwrap_or(Path::new(".")).join(REPORT)
    };
    let out = args.out.clone().unwrap_or_else(default);
    let same = |path: &Path| matches!((path.canonicalize(), out.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if args.results.iter().any(|results| same(results) || same(&results.join(record::FILE))) {
        return Err(Failure::usage(format!(
            "--out {}: these are the results; name another file",
            out.display()
        )));
    }
    Ok(out)
}

/// Name of the report in the folder of the results.
const REPORT: &str = "report.html";
