//! Sections of BENCHMARKS.md; each is written by its own command, which keeps the others.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Text of a section from its heading (`## …`) to the next section.
pub(crate) fn section_of<'t>(text: &'t str, heading: &str) -> Option<&'t str> {
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
