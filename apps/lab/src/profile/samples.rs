//! Samples in the text of `perf script`.
//!
//! ```text
//! ringway 4711/4712   400.198905055:     200003:
//! <TAB>ffffffff816dfdb6 __d_lookup_rcu ([kernel.kallsyms])
//! <TAB>    55d0c0ffee00 _ZN14ringway_server6server... (/usr/bin/ringway)
//! <empty line>
//! ```

use anyhow::{Context, Result};
use std::io::BufRead;

/// A sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Name of the thread, as perf prints it.
    pub thread: String,
    /// Process.
    pub pid: u32,
    /// Monotonic clock in nanoseconds.
    pub time_ns: u64,
    /// Time that it counts for.
    pub period_ns: u64,
    /// Innermost function; empty if it has no name.
    pub function: String,
    /// File of it, such as `/usr/lib/libc.so.6` or `[kernel.kallsyms]`; empty if perf does not name it.
    pub object: String,
    /// It is in the kernel.
    pub is_kernel: bool,
    /// The kernel was receiving packets.
    pub is_receiving: bool,
}

/// Reader of samples, one at a time.
#[derive(Debug)]
pub struct Samples<R> {
    input: R,
    line: Vec<u8>,
    sample: Sample,
    frames: usize,
    has_sample: bool,
    /// Lines that are neither a sample nor a frame of one.
    unreadable: u64,
}

impl<R: BufRead> Samples<R> {
    /// Reads from `input`.
    pub fn new(input: R) -> Self {
        let (line, sample) = (Vec::new(), Sample::default());
        Self { input, line, sample, frames: 0, has_sample: false, unreadable: 0 }
    }

    /// Number of lines so far that are neither a sample nor a frame of one.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The next sample; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_sample(&mut self) -> Result<Option<Sample>> {
        loop {
            if !read_line(&mut self.input, &mut self.line).context("read perf script")? {
                return Ok(self.take());
            }
            let text = String::from_utf8_lossy(&self.line);
            let text = text.trim_end();
            if text.is_empty() {
                continue;
            }
            if text.starts_with([' ', '\t'])
                && self.has_sample
                && self.frames < FRAMES_MAX
                && let Some((address, function, object)) = frame(text)
            {
                self.sample.add(self.frames, address, function, object);
                self.frames += 1;
                continue;
            }
            match head(text) {
                Some(sample) => {
                    let before = self.take();
                    (self.sample, self.has_sample) = (sample, true);
                    if before.is_some() {
                        return Ok(before);
                    }
                }
                None if self.frames >= FRAMES_MAX => {}
                None => self.unreadable += 1,
            }
        }
    }

    fn take(&mut self) -> Option<Sample> {
        self.frames = 0;
        std::mem::take(&mut self.has_sample).then(|| std::mem::take(&mut self.sample))
    }
}

impl Sample {
    /// Adds a frame; the first one is the innermost.
    fn add(&mut self, index: usize, address: u64, function: &str, object: &str) {
        let is_kernel = object.starts_with("[kernel") || address >= KERNEL_FROM;
        if index == 0 {
            let name = if function == UNKNOWN { "" } else { function };
            self.function = name.to_owned();
            self.object = if object == UNKNOWN { String::new() } else { object.to_owned() };
            self.is_kernel = is_kernel;
        }
        self.is_receiving |= is_kernel && function == RECEIVE;
    }
}

/// First line of a sample: name of the thread, process and thread, time, period.
fn head(text: &str) -> Option<Sample> {
    // The name may contain anything, so the line is read from its end.
    let (rest, period) = last_word(text)?;
    let (rest, time) = last_word(rest)?;
    let (thread, numbers) = last_word(rest)?;
    let period_ns = period.strip_suffix(':').unwrap_or(period).parse().ok()?;
    let (seconds, fraction) = time.strip_suffix(':')?.split_once('.')?;
    let (seconds, nanoseconds): (u64, u64) = match fraction.len() {
        9 => (seconds.parse().ok()?, fraction.parse().ok()?),
        _ => return None,
    };
    let time_ns = seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    let (pid, _) = numbers.split_once('/')?;
    let (pid, thread) = (pid.parse().ok()?, thread.trim().to_owned());
    Some(Sample { thread, pid, time_ns, period_ns, ..Sample::default() })
}

/// Text before the last word, and that word.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_end();
    let at = text.rfind(' ')?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Line of a frame: address, function, file in brackets.
fn frame(text: &str) -> Option<(u64, &str, &str)> {
    let (address, rest) = text.trim_start().split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let rest = rest.strip_suffix(')')?;
    // Functions and files may contain spaces and brackets; a file begins with a slash or a square bracket.
    let at = rest.rfind(" (/").max(rest.rfind(" ([")).or_else(|| rest.rfind(" ("))?;
    Some((address, rest.get(..at)?.trim(), rest.get(at + 2..)?))
}

/// Reads a line into `line`, of which at most [`LINE_BYTES_MAX`] are kept. False at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut has_read = false;
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(has_read);
        }
        has_read = true;
        let end = memchr::memchr(b'\n', available);
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
        let consumed = part.len() + usize::from(end.is_some());
        input.consume(consumed);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Name that perf gives to a function or a file that it does not find.
const UNKNOWN: &str = "[unknown]";
/// Function of the kernel below which all received packets are processed.
const RECEIVE: &str = "net_rx_action";
/// Lowest address of the kernel on 64-bit machines.
const KERNEL_FROM: u64 = 0x8000_0000_0000_0000;
/// Bytes of a line that are read.
const LINE_BYTES_MAX: usize = 4096;
/// Frames of a sample that are read.
const FRAMES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &[u8] = include_bytes!("../../../../testdata/lab/perf-script.txt");

    fn all(text: &[u8]) -> (Vec<Sample>, u64) {
        let mut samples = Samples::new(text);
        let mut found = Vec::new();
        while let Some(sample) = samples.next_sample().unwrap() {
            found.push(sample);
        }
        (found, samples.unreadable())
    }

    #[test]
    fn samples_of_a_recording_are_read() {
        let (samples, unreadable) = all(RECORDED);
        assert_eq!((samples.len(), unreadable), (7, 0));
        let [user, kernel, receiving, nameless, without, spaces, deleted] = samples.try_into().unwrap();
        assert_eq!((user.thread.as_str(), user.pid, user.period_ns), ("ringway-0", 4711, 200_003));
        assert_eq!(user.time_ns, 400_198_588_841);
        assert_eq!(user.function, "_ZN11ringway_sip7message7Message5parse17h0123456789abcdefE");
        assert_eq!((user.object.as_str(), user.is_kernel), ("/usr/bin/ringway", false));
        assert!(kernel.is_kernel && !kernel.is_receiving);
        assert!(receiving.is_kernel && receiving.is_receiving);
        assert_eq!((nameless.function.as_str(), nameless.object.as_str()), ("", ""));
        assert_eq!((without.function.as_str(), without.object.as_str(), without.pid), ("", "", 4800));
        assert_eq!(
            (spaces.thread.as_str(), spaces.function.as_str()),
            ("opt cgu.1: 5/6", "(anonymous)::f (int)")
        );
        assert_eq!(deleted.object, "/usr/sbin/kamailio (deleted)");
    }

    #[test]
    fn hostile_lines_are_counted_and_bounded() {
        let mut text = Vec::new();
        for line in [
            &b"\tffff no sample yet (x)"[..],
            b"name 1/1 1.0: 5:",
            b"name 99999999999/1 1.000000000: 5:",
            b"name 1/1 99999999999999999999.000000000: 5:",
            b"name 18446744073709551615/1 1.000000000: 99999999999999999999999:",
            b"\xff\xfe\x00",
            b":",
            b"/",
        ] {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        assert_eq!(all(&text), (Vec::new(), 8));
        let mut text = b"a 1/1 1.000000000: 5:\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 1 << 20));
        text.extend_from_slice(b"\n\t1 f (/x)\n");
        for _ in 0..1000 {
            text.extend_from_slice(b"\tffffffff00000000 net_rx_action ([kernel.kallsyms])\n");
        }
        let (samples, unreadable) = all(&text);
        assert_eq!((samples.len(), unreadable), (1, 1));
        assert!(samples.first().is_some_and(|sample| sample.is_receiving && sample.function == "f"));
    }

    #[test]
    fn lines_are_cut() {
        let (mut line, mut input) =
            (Vec::new(), &[vec![b'x'; LINE_BYTES_MAX + 9], b"\ny".to_vec()].concat()[..]);
        assert!(read_line(&mut input, &mut line).unwrap());
        assert_eq!(line.len(), LINE_BYTES_MAX);
        assert!(read_line(&mut input, &mut line).unwrap());
        assert_eq!(line, b"y");
        assert!(!read_line(&mut input, &mut line).unwrap());
    }
}
