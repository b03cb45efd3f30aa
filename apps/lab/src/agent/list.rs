//! An agent's own list: programs that it may start, and running servers that it may watch.

use crate::process;
use crate::server::find_program;
use crate::server::program::Program;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Programs and running servers of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramList {
    programs: BTreeMap<&'static str, PathBuf>,
    running: Vec<RunningServer>,
}

/// A server that the agent did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunningServer {
    name: String,
    process: ProcessName,
    /// Its port for UDP and TCP.
    pub(super) port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessName {
    Number(u32),
    Program(String),
}

impl ProgramList {
    /// Adds a program: `NAME` for the one that is installed, or `NAME=PATH`. `own` is this program, for `ringway`.
    ///
    /// # Errors
    /// No program that the lab configures has this name; it is not installed.
    pub fn allow(&mut self, text: &str, own: PathBuf) -> Result<()> {
        let (name, path) = match text.split_once('=') {
            Some((name, path)) => (name, Some(PathBuf::from(path))),
            None => (text, None),
        };
        let Some(known) = STARTED.into_iter().find(|known| *known == name) else {
            bail!("the lab does not start {name:?}; give one of {}", STARTED.join(", "))
        };
        let path = match path {
            Some(path) => path,
            None if known == "ringway" => own,
            None => {
                find_program(known).with_context(|| format!("{known} is not installed; give {known}=PATH"))?
            }
        };
        ensure!(path.is_file(), "{known}: {} is not a file", path.display());
        self.programs.insert(known, path);
        Ok(())
    }

    /// Adds a running server: `NAME=PROCESS:PORT`, where the process is a number or the name of a program that runs once.
    ///
    /// # Errors
    /// A part is missing, or the name is that of a program that the lab starts.
    pub fn watch(&mut self, text: &str) -> Result<()> {
        let parts = text.split_once('=').and_then(|(name, rest)| {
            let (process, port) = rest.rsplit_once(':')?;
            Some((name, process, port.parse().ok().filter(|port| *port > 0)?))
        });
        let Some((name, process, port)) =
            parts.filter(|(name, process, _)| is_name(name) && !process.is_empty())
        else {
            bail!("{text:?} is not NAME=PROCESS:PORT, for example pbx=asterisk:5060 or pbx=4711:5060")
        };
        ensure!(
            Program::by_name(name).is_none(),
            "{name:?} is a program that the lab starts; give another name"
        );
        let process = match process.parse() {
            Ok(number) => ProcessName::Number(number),
            Err(_) => ProcessName::Program(process.to_owned()),
        };
        self.running.push(RunningServer { name: name.to_owned(), process, port });
        Ok(())
    }

    /// True without any entry.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.running.is_empty()
    }

    /// Path of a program that the lab starts.
    pub(super) fn path(&self, program: &str) -> Option<&PathBuf> {
        self.programs.get(program)
    }

    /// The program with this name, if it may be started.
    pub(super) fn program(&self, name: &str) -> Result<Program> {
        let program = Program::by_name(name).filter(|program| self.path(program_of(*program)).is_some());
        program.with_context(|| format!("{name:?} is not on the agent's list, which has {}", self.names()))
    }

    /// The running server with this name.
    pub(super) fn running(&self, name: &str) -> Result<&RunningServer> {
        let found = self.running.iter().find(|server| server.name == name);
        found.with_context(|| format!("{name:?} is not on the agent's list, which has {}", self.names()))
    }

    /// All names, for people.
    pub fn names(&self) -> String {
        let names =
            self.programs.keys().copied().chain(self.running.iter().map(|server| server.name.as_str()));
        let names = names.collect::<Vec<_>>().join(", ");
        if names.is_empty() { "nothing".to_owned() } else { names }
    }
}

impl RunningServer {
    /// Number of its process.
    pub(super) fn pid(&self) -> Result<u32> {
        match &self.process {
            ProcessName::Number(number) => Ok(*number),
            ProcessName::Program(name) => process::find(name),
        }
    }
}

/// Name of the program that is started, without the allocator.
const fn program_of(program: Program) -> &'static str {
    match program {
        Program::Ringway(_) => "ringway",
        Program::Kamailio(_) => "kamailio",
        Program::OpenSips => "opensips",
    }
}

fn is_name(text: &str) -> bool {
    let is_permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(is_permitted)
}

/// Programs that the lab configures.
const STARTED: [&str; 3] = ["ringway", "kamailio", "opensips"];
/// Longest name of a running server.
const NAME_CHARS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_the_list_are_found() {
        let own = std::env::current_exe().unwrap();
        let mut list = ProgramList::default();
        assert!(list.is_empty());
        assert!(list.program("ringway").unwrap_err().to_string().ends_with("which has nothing"));
        list.allow("ringway", own.clone()).unwrap();
        list.allow(&format!("kamailio={}", own.display()), PathBuf::new()).unwrap();
        assert!(list.program("ringway").is_ok() && list.program("ringway-uncontrolled").is_ok());
        // The same program with other options.
        assert!(list.program("kamailio-default").is_ok());
        assert_eq!(list.path("kamailio"), Some(&own));
        for name in ["opensips", "sh", "/bin/sh", "../ringway", ""] {
            assert!(list.program(name).is_err() && list.running(name).is_err(), "{name}");
        }
        let refused =
            |list: &mut ProgramList, text: &str| list.allow(text, own.clone()).unwrap_err().to_string();
        assert!(refused(&mut list, "sh=/bin/sh").contains("give one of ringway"));
        assert!(refused(&mut list, "opensips=/nowhere").contains("is not a file"));
    }

    #[test]
    fn running_servers_have_a_process_and_a_port() {
        let mut list = ProgramList::default();
        list.watch(&format!("pbx={}:5060", std::process::id())).unwrap();
        list.watch("switch=no-such-program-runs:5070").unwrap();
        let server = list.running("pbx").unwrap();
        assert_eq!((server.pid().unwrap(), server.port), (std::process::id(), 5060));
        assert!(list.running("switch").unwrap().pid().is_err());
        assert_eq!(list.names(), "pbx, switch");
        for text in
            ["pbx", "pbx=1", "pbx=:5060", "=1:5060", "p x=1:5060", "pbx=1:0", "pbx=1:65536", "ringway=1:5060"]
        {
            assert!(list.watch(text).is_err(), "{text}");
        }
    }
}
