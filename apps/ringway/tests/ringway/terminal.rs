//! The built program in a pseudo-terminal (util-linux's `script`), whose screen is read by a terminal emulator.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "no test needs all of it, and a test fails by panicking"
)]

use crate::program::{Output, POLL_INTERVAL, TIME_LIMIT};
use std::io::Write;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// `ringway` in a terminal of 80 by 24 cells.
pub(crate) struct Terminal {
    script: Child,
    keys: ChildStdin,
    written: Output,
}

impl Terminal {
    /// Starts the program in a folder, which then has its process id in the file `pid`.
    pub(crate) fn open(folder: &Path, args: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_ringway");
        let inside = format!("stty rows 24 cols 80; echo $$ > pid; exec {program} {args}");
        let mut script = Command::new("script")
            .args(["-qfec", &inside, "/dev/null"])
            .current_dir(folder)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let written = Output::of(script.stdout.take().unwrap());
        let keys = script.stdin.take().unwrap();
        Self { script, keys, written }
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
        parser.process(&self.written.bytes());
        parser
    }

    /// Waits until the window shows all texts, and returns its text.
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            let shown = self.screen().screen().contents();
            if texts.iter().all(|text| shown.contains(text)) {
                return shown;
            }
            assert!(Instant::now() < end, "it does not show {texts:?}, but:\n{shown}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for the end, and returns the exit status.
    pub(crate) fn ends(&mut self) -> i32 {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.screen().screen().contents());
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Closes the terminal.
    pub(crate) fn kill(&mut self) {
        // It has usually ended already.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill();
    }
}
