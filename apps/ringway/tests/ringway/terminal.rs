//! The built program in a pseudo-terminal (util-linux's `script`), whose screen is read by a terminal emulator.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "no test needs all of it, and a test fails by panicking"
)]

use crate::program::{Running, TIME_LIMIT};
use ringway_test_support::eventually::retry;
use std::io::Write;
use std::num::NonZero;
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::time::Duration;

/// `ringway` in a terminal of 80 by 24 cells.
pub(crate) struct Terminal {
    script: Running,
    keys: ChildStdin,
}

impl Terminal {
    /// Starts the program in a folder, which then has its process id in the file `pid`.
    pub(crate) fn open(folder: &Path, args: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_ringway");
        let inside = format!("stty rows 24 cols 80; echo $$ > pid; exec {program} {args}");
        let mut script = Command::new("script");
        script.env("TERM", "xterm-256color");
        let (script, keys) = Running::run(script, folder, &["-qfec", &inside, "/dev/null"], "");
        Self { script, keys }
    }

    /// Types keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        // Two escape sequences in one read are two keys; an Esc before a letter would be Alt.
        std::thread::sleep(Duration::from_millis(60));
    }

    /// Screen as a terminal emulator has it.
    pub(crate) fn screen(&self) -> vt100::Parser {
        let mut parser = vt100::Parser::new(NonZero::new(24).unwrap(), NonZero::new(80).unwrap(), 0);
        parser.process(&self.script.out());
        parser
    }

    /// Waits until the window shows all texts, and returns its text.
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        let shown = retry(TIME_LIMIT, || {
            let shown = self.screen().screen().contents();
            if texts.iter().all(|text| shown.contains(text)) { Ok(shown) } else { Err(shown) }
        });
        shown.unwrap_or_else(|shown| panic!("it does not show {texts:?}, but:\n{shown}"))
    }

    /// Waits for the end, and returns the exit status.
    pub(crate) fn ends(&self) -> i32 {
        self.script.wait()
    }

    /// Closes the terminal.
    pub(crate) fn kill(&self) {
        self.script.kill();
    }
}
