//! `ringway trace`: what happens to the requests of a user, from the running server's admin API.

use crate::admin_client::{AdminClient, escape};
use crate::args::TraceArgs;
use crate::failure::Failure;
use crate::output::{self, printable};
use jiff::Timestamp;
use ringway_admin::TraceEntry;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::time::{Duration, Instant};

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let path = |query: String| format!("/api/trace?user={}{query}", escape(&args.user));
    // This begins the trace, and has the number of the newest entry of one that runs.
    let begun = server.get(&path("&wait=0".to_owned()))?;
    let mut after = number(&begun, "next").unwrap_or_default();
    let (mut ladder, mut waits) = (Ladder::default(), Waits::default());
    waits.note(&args.user, 0);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let last = left.filter(|left| *left < Duration::from_secs(1));
        if let Some(left) = last {
            std::thread::sleep(left);
        }
        let wait = if last.is_some() { Duration::ZERO } else { left.unwrap_or(POLL).min(POLL) };
        let end = if last.is_some() { "&end=true" } else { "" };
        let mut answer = server.get(&path(format!("&after={after}&wait={}{end}", wait.as_secs())))?;
        let entries = answer.get_mut("entries").map(Value::take).unwrap_or_default();
        let entries: Vec<TraceEntry> = serde_json::from_value(entries).map_err(|error| {
            let address = server.address();
            Failure::failed(format!(
                "{address}: unexpected response ({error}); use the same version of ringway as the server"
            ))
        })?;
        after = number(&answer, "next").unwrap_or(after);
        let lost = number(&answer, "lost").unwrap_or_default();
        if let Err(error) = print(args, &mut ladder, &entries, lost) {
            // Nobody reads the output: the trace is given up, so that another user can be traced.
            let _ = server.get(&path("&wait=0&end=true".to_owned()));
            return Err(error.into());
        }
        waits.note(&args.user, entries.len());
        if last.is_some() {
            return Ok(());
        }
    }
}

/// Prints the entries that are wanted, after the number of those that were lost before them.
fn print(args: &TraceArgs, ladder: &mut Ladder, entries: &[TraceEntry], lost: u64) -> io::Result<()> {
    let mut out = output::buffered();
    if lost > 0 && !args.json {
        writeln!(
            out,
            "... {lost} messages and decisions are missing here: more happened than a trace keeps"
        )?;
    }
    let is_wanted = |entry: &&TraceEntry| args.call.as_ref().is_none_or(|call| *call == entry.call_id);
    for entry in entries.iter().filter(is_wanted) {
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(entry).unwrap_or_default())?,
            false => ladder.write(entry, &mut out)?,
        }
    }
    out.flush()
}

fn number(answer: &Value, name: &str) -> Option<u64> {
    answer.get(name).and_then(Value::as_u64)
}

/// Notes for a person who waits, on standard error.
#[derive(Debug, Default)]
struct Waits {
    polls: u32,
    has_entries: bool,
}

impl Waits {
    fn note(&mut self, user: &str, entries: usize) {
        self.polls += 1;
        self.has_entries |= entries > 0;
        if self.has_entries || self.polls > NOTES_MAX {
            return;
        }
        let user = printable(user);
        match self.polls {
            1 => eprintln!("tracing {user} from now on; Ctrl-C ends the trace"),
            _ => eprintln!(
                "nothing of {user} yet; `ringway show registrations` says who is registered, `ringway user list` who may"
            ),
        }
    }
}

/// The ladder of a trace.
#[derive(Debug, Default)]
struct Ladder {
    begun: Option<Timestamp>,
    calls: HashMap<String, Sides>,
    /// Call-ID of the last line.
    last: Option<String>,
}

/// Flows of one Call-ID.
#[derive(Debug, Default)]
struct Sides {
    title: String,
    phones: HashSet<String>,
    hops: HashSet<String>,
}

/// Side of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Phone,
    NextHop,
}

impl Ladder {
    /// Writes the line of an entry, after one with the names of the columns or of the call, if those are not those of the
    /// line before.
    fn write(&mut self, entry: &TraceEntry, out: &mut impl Write) -> io::Result<()> {
        let time: Option<Timestamp> = entry.time.parse().ok();
        if self.begun.is_none() {
            self.begun = time;
            writeln!(out, "{:>9}  {:<PHONE_COLUMNS$} SERVER  {:>16}", "SECONDS", "PHONE", "NEXT HOP")?;
        }
        if self.calls.len() > CALLS_MAX {
            self.calls.clear();
        }
        let sides = self.calls.entry(entry.call_id.clone()).or_default();
        sides.learn(entry);
        if self.last.as_ref() != Some(&entry.call_id) {
            // With the time of day, to compare it with the log.
            let at = time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default();
            writeln!(out, "{:>9}  {} {at}", "", printable(&sides.title))?;
            self.last = Some(entry.call_id.clone());
        }
        let since =
            time.zip(self.begun).map_or(0.0, |(time, begun)| time.duration_since(begun).as_secs_f64());
        if let Some(text) = &entry.text {
            return writeln!(out, "{:>9}  {:PHONE_COLUMNS$} |   {}", "", "", printable(text));
        }
        let (label, flow) = (printable(&sides.label(entry)), printable(&entry.flow));
        let is_received = entry.kind == "received";
        match (sides.side_of(entry), is_received) {
            (Side::Phone, true) => {
                let line = pad(&format!("{flow} -- {label} "), '-', PHONE_COLUMNS - 1);
                writeln!(out, "{since:>9.3}  {line}> |")
            }
            (Side::Phone, false) => {
                let line = pad(&format!("{flow} <-- {label} "), '-', PHONE_COLUMNS);
                writeln!(out, "{since:>9.3}  {line} |")
            }
            (Side::NextHop, true) => {
                writeln!(out, "{since:>9.3}  {:PHONE_COLUMNS$} | <-- {label} -- {flow}", "")
            }
            (Side::NextHop, false) => {
                writeln!(out, "{since:>9.3}  {:PHONE_COLUMNS$} | -- {label} --> {flow}", "")
            }
        }
    }
}

impl Sides {
    fn learn(&mut self, entry: &TraceEntry) {
        if self.title.is_empty() {
            let method = entry.cseq.split(' ').nth(1).unwrap_or(&entry.cseq);
            let parties = match (&entry.from, &entry.to) {
                (Some(from), Some(to)) if from == to => format!(" of {from}"),
                (Some(from), Some(to)) => format!(" from {from} to {to}"),
                (Some(_) | None, _) => String::new(),
            };
            self.title = format!("== {method}{parties}, Call-ID {} ==", entry.call_id);
        }
        let is_new = !self.phones.contains(&entry.flow) && !self.hops.contains(&entry.flow);
        if is_new && entry.text.is_none() && is_request(entry) {
            match entry.kind == "received" {
                true => self.phones.insert(entry.flow.clone()),
                false => self.hops.insert(entry.flow.clone()),
            };
        }
    }

    /// Side on which the peer of a message is. An address that is on both is one of a phone that calls another of its host.
    fn side_of(&self, entry: &TraceEntry) -> Side {
        match (self.phones.contains(&entry.flow), self.hops.contains(&entry.flow)) {
            (true, false) => Side::Phone,
            (false, true) => Side::NextHop,
            (true, true) | (false, false) => match (entry.kind == "received") == is_request(entry) {
                true => Side::Phone,
                false => Side::NextHop,
            },
        }
    }

    /// Method of a request, for a next hop with its Request-URI; status and phrase of a response.
    fn label(&self, entry: &TraceEntry) -> String {
        let mut words = entry.first_line.splitn(3, ' ');
        match (is_request(entry), words.next(), words.next()) {
            (true, Some(method), Some(uri))
                if self.side_of(entry) == Side::NextHop && entry.kind == "sent" =>
            {
                format!("{method} {uri}")
            }
            (true, Some(method), _) => method.to_owned(),
            (true, None, _) => entry.first_line.clone(),
            (false, _, _) => {
                let status = entry.first_line.split_once(' ').map_or("", |(_, rest)| rest);
                match entry.cseq.split(' ').nth(1) {
                    Some("CANCEL") => format!("{status} (CANCEL)"),
                    Some(_) | None => status.to_owned(),
                }
            }
        }
    }
}

fn is_request(entry: &TraceEntry) -> bool {
    !entry.first_line.starts_with("SIP/")
}

/// Fills a text with `filler` up to a width, with two of them at least: a longer arrow moves the column of its line.
fn pad(text: &str, filler: char, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count()).max(2);
    text.chars().chain(std::iter::repeat_n(filler, missing)).collect()
}

/// Time of one request to the server.
const POLL: Duration = Duration::from_secs(5);
/// Number of notes: that the trace has begun, and that nothing has happened.
const NOTES_MAX: u32 = 2;
/// Width of the column of the phones with their arrows: that of `udp:127.0.0.1:40000 <-- 407 Proxy Authentication Required --`.
const PHONE_COLUMNS: usize = 60;
/// Calls whose sides are kept.
const CALLS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_drawn_between_its_sides_without_terminal_codes() {
        let entries: Vec<TraceEntry> =
            serde_json::from_str(include_str!("../../../testdata/trace/ladder.json")).unwrap();
        let (mut ladder, mut out) = (Ladder::default(), Vec::new());
        for entry in &entries {
            ladder.write(entry, &mut out).unwrap();
        }
        let expected = include_str!("../../../testdata/trace/ladder.txt");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
