//! `ringway trace`: what happens to the requests of a user, from the running server's admin API.

mod ladder;

use crate::admin_client::{AdminClient, escape};
use crate::args::TraceArgs;
use crate::failure::Failure;
use crate::output::{self, printable};
use ladder::Ladder;
use ringway_admin::TraceEntry;
use serde_json::Value;
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

/// Time of one request to the server.
const POLL: Duration = Duration::from_secs(5);
/// Number of notes: that the trace has begun, and that nothing has happened.
const NOTES_MAX: u32 = 2;
