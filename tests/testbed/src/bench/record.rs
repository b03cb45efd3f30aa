//! Record of instructions per operation in a file of the repository, so that an increase is noticed.

use anyhow::{Context, Result, bail};
use ringway_lab::machine;
use std::fs;
use std::path::PathBuf;

/// Maximum growth of a count in percent.
const GROWTH_PERCENT_MAX: f64 = 5.0;

/// A file with counts.
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    /// Description of the counts and of the method.
    pub(crate) what: String,
    /// Command that writes the file.
    pub(crate) written_by: &'static str,
}

impl Record {
    /// Writes the counts with their names.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, counts: &[(&str, f64)]) -> Result<()> {
        let mut text = format!(
            "# Instructions per operation ({}).\n# Written by `{}`; to grow by more than {GROWTH_PERCENT_MAX} % is an \
             error.\nrustc = \"{}\"\n",
            self.what,
            self.written_by,
            machine::version_of("rustc", &["--version"]),
        );
        for (name, count) in counts {
            text.push_str(&format!("{name} = {count:.0}\n"));
        }
        fs::write(&self.path, text).with_context(|| self.path.display().to_string())
    }

    /// Compares counts with the file and prints a line for each.
    ///
    /// # Errors
    /// A count has grown too much, or is not recorded.
    pub(crate) fn check(&self, counts: &[(&str, f64)]) -> Result<()> {
        let (path, written_by) = (self.path.display(), self.written_by);
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("{path}: make it with `{written_by}`"))?;
        let recorded: toml::Table = text.parse().with_context(|| path.to_string())?;
        let compiler = recorded.get("rustc").and_then(toml::Value::as_str).unwrap_or_default();
        let mut grown = Vec::new();
        for &(name, now) in counts {
            let before = recorded.get(name).and_then(toml::Value::as_integer).unwrap_or_default();
            if before <= 0 {
                bail!("{path}: `{name}` is missing");
            }
            let percent = growth_percent(before as f64, now);
            eprintln!("  {name}: {now:.0} instructions, recorded {before}, {percent:+.1} %");
            if percent > GROWTH_PERCENT_MAX {
                grown.push(format!("{name} by {percent:.1} %"));
            } else if percent < -GROWTH_PERCENT_MAX {
                eprintln!("  {name} has become cheaper: record it with `{written_by}`");
            }
        }
        if !grown.is_empty() {
            bail!(
                "instructions per operation grew: {} (recorded with {compiler}; `{written_by}` records what is meant to \
                 be)",
                grown.join(", ")
            );
        }
        Ok(())
    }
}

fn growth_percent(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_fails_the_check_and_shrinking_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let in_file =
            |name| Record { path: folder.path().join(name), what: "a test".into(), written_by: "test" };
        let record = in_file("counts.toml");
        record.write(&[("register", 10_000.0), ("call", 50_000.0)]).unwrap();
        record.check(&[("register", 10_400.0), ("call", 20_000.0)]).unwrap();
        let error = record.check(&[("register", 10_600.0), ("call", 50_000.0)]).unwrap_err();
        assert!(error.to_string().contains("register by 6.0 %"), "{error}");
        assert!(record.check(&[("logout", 1.0)]).is_err());
        assert!(in_file("none").check(&[("register", 1.0)]).is_err());
    }
}
