//! `ringway completions` and `ringway man`: what is made from the definition of the command line.

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    write(&script_of(args.shell))
}

fn script_of(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "ringway", &mut script);
    script
}

/// Prints the manual page of the program, or writes those of all commands.
pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    match &args.out {
        None => write(&page(&command)?),
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
            write_pages(folder, &command)
        }
    }
}

/// Page of a command, of section 1.
fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(corrected(command, &String::from_utf8_lossy(&text)).into_bytes())
}

/// A page with what the generator leaves out: the values of options in the synopsis, and a name for the section of notes and examples.
fn corrected(command: &Command, page: &str) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let section = if help.starts_with("Example") { ".SH EXAMPLES" } else { ".SH NOTES" };
    let page = page.replacen(".SH EXTRA", section, 1);
    let Some((before, rest)) = page.split_once(SYNOPSIS) else { return page };
    let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
    let mut line = line.to_owned();
    for option in command.get_arguments().filter(|option| option.get_action().takes_values()) {
        let (Some(long), Some(values)) = (option.get_long(), option.get_value_names()) else { continue };
        let name = format!("\\-\\-{}\\fR", long.replace('-', "\\-"));
        let values: Vec<String> =
            values.iter().map(|value| format!(" \\fI<{}>\\fR", value.replace('-', "\\-"))).collect();
        line = line.replacen(&name, &format!("{name}{}", values.concat()), 1);
    }
    format!("{before}{SYNOPSIS}{line}\n{after}")
}

/// Header of the synopsis, which is one line.
const SYNOPSIS: &str = ".SH SYNOPSIS\n";

/// Writes the pages of a command and of those below it.
fn write_pages(folder: &Path, command: &Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|error| unwritable(&path, &error))?;
    let mut shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    shown.try_for_each(|sub| write_pages(folder, sub))
}

fn write(text: &[u8]) -> Result<(), Failure> {
    let mut out = output::buffered();
    out.write_all(text)?;
    Ok(out.flush()?)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: cannot be written: {error}; give another folder with --out", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_command() {
        let folder = tempfile::tempdir().unwrap();
        man(&ManArgs { out: Some(folder.path().join("man1")) }).unwrap();
        let names: Vec<String> = fs::read_dir(folder.path().join("man1"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for name in ["ringway.1", "ringway-serve.1", "ringway-user-add.1", "ringway-lab-load.1"] {
            assert!(names.iter().any(|found| found == name), "{name} of {names:?}");
        }
        let page = fs::read_to_string(folder.path().join("man1/ringway-user-add.1")).unwrap();
        assert!(page.contains("password\\-stdin") && page.contains("ringway\\-user\\-add"), "{page}");
        for (name, part) in [
            ("ringway-serve.1", "[\\fB\\-\\-config\\fR \\fI<FILE>\\fR]"),
            ("ringway-serve.1", ".SH NOTES"),
            ("ringway-check.1", ".SH EXAMPLES"),
            ("ringway-check.1", "[\\fB\\-\\-json\\fR]"),
            ("ringway-trace.1", "[\\fB\\-\\-seconds\\fR \\fI<N>\\fR]"),
        ] {
            let page = fs::read_to_string(folder.path().join("man1").join(name)).unwrap();
            assert!(page.contains(part) && !page.contains(".SH EXTRA"), "{part}: {page}");
        }
    }

    #[test]
    fn each_shell_completes_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(script_of(shell)).unwrap();
            assert!(script.contains("against-running") && script.contains("completions"), "{shell}");
        }
    }
}
