//! `ringway show`: queries the running server's admin API.

use crate::admin_client::{AdminClient, escape};
use crate::args::{ShowArgs, Shown};
use crate::failure::Failure;
use crate::output::{self, printable};
use ringway_admin::{
    Call, CallRecord, Cluster, ClusterNode, Connection, Registration, Relay, StepTime, StepTimes, Trunk,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Items per request.
const PAGE_ITEMS: usize = 5000;

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let server = AdminClient::of(&args.server)?;
    match args.what {
        Shown::Registrations => list::<Registration>(&server, "registrations", args.json),
        Shown::Calls => list::<Call>(&server, "calls", args.json),
        Shown::Records => list::<CallRecord>(&server, "records", args.json),
        Shown::Connections => list::<Connection>(&server, "connections", args.json),
        Shown::Trunks => list::<Trunk>(&server, "trunks", args.json),
        Shown::Relays => list::<Relay>(&server, "relays", args.json),
        Shown::Cluster => cluster(&server, args.json),
        Shown::Stats => stats(&server, args.json),
        Shown::Steps => steps(&server, args.json),
    }
}

/// An item of a listing, as a row of a table.
trait Row: Serialize + DeserializeOwned {
    const HEADER: &[&str];
    /// True if the last column is left out when the first page has nothing in it.
    const IS_LAST_OPTIONAL: bool = false;
    fn cells(&self) -> Vec<String>;
}

impl Row for Registration {
    const HEADER: &[&str] = &["AOR", "CONTACT", "TRANSPORT", "ADDRESS", "TIME LEFT", "NODE"];
    const IS_LAST_OPTIONAL: bool = true;

    fn cells(&self) -> Vec<String> {
        let left = match self.expires_s {
            Some(seconds) if !self.permanent => duration(seconds),
            Some(_) | None => "permanent".to_owned(),
        };
        let address = self.address.as_deref().unwrap_or("-");
        let node = self.node.clone().unwrap_or_else(|| "-".to_owned());
        vec![self.aor.clone(), self.contact.clone(), self.transport.clone(), address.to_owned(), left, node]
    }
}

impl Row for Call {
    const HEADER: &[&str] = &["FROM", "TO", "STATE", "SINCE", "CALL-ID"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.from.clone(),
            self.to.clone(),
            self.state.clone(),
            duration(self.age_s),
            self.call_id.clone(),
        ]
    }
}

impl Row for CallRecord {
    const HEADER: &[&str] = &["FROM", "TO", "BEGUN", "LASTED", "STATUS", "REASON", "TARGET", "CALL-ID"];

    fn cells(&self) -> Vec<String> {
        let lasted = self.duration_s.map_or_else(|| "-".to_owned(), |lasted| duration(lasted as u64));
        vec![
            self.from.clone(),
            self.to.clone(),
            self.begun.clone(),
            lasted,
            self.status.to_string(),
            self.reason.clone(),
            self.target.clone().unwrap_or_else(|| "-".to_owned()),
            self.call_id.clone(),
        ]
    }
}

impl Row for Connection {
    const HEADER: &[&str] = &["TRANSPORT", "ADDRESS", "LOCAL", "NEIGHBOUR", "SINCE"];

    fn cells(&self) -> Vec<String> {
        let neighbour = self.neighbour.as_deref().unwrap_or("-").to_owned();
        vec![
            self.transport.clone(),
            self.address.clone(),
            self.local.clone(),
            neighbour,
            duration(self.age_s),
        ]
    }
}

impl Row for Trunk {
    const HEADER: &[&str] =
        &["TRUNK", "STATE", "CALLS", "LAST RESPONSE", "LOGINS REFUSED", "REGISTERED", "URI"];

    fn cells(&self) -> Vec<String> {
        let last = match (self.last_status, self.last_answer_s) {
            (Some(status), Some(seconds)) => format!("{status}, {} ago", duration(seconds)),
            (_, _) => "-".to_owned(),
        };
        let registered = match self.registered {
            Some(true) => "yes",
            Some(false) if self.of_other_node => "other node",
            Some(false) => "no",
            None => "-",
        };
        let (calls, refused) = (self.calls.to_string(), self.logins_refused.to_string());
        vec![
            self.name.clone(),
            self.state.clone(),
            calls,
            last,
            refused,
            registered.to_owned(),
            self.uri.clone(),
        ]
    }
}

impl Row for Relay {
    const HEADER: &[&str] = &["RELAY", "STATE", "LAST ANSWER"];

    fn cells(&self) -> Vec<String> {
        vec![self.address.clone(), self.state.clone(), format!("{} ago", duration(self.last_answer_s))]
    }
}

impl Row for ClusterNode {
    const HEADER: &[&str] = &["NODE", "STATE", "LINK", "ADDRESS", "SEEN", "PROTOCOL"];

    fn cells(&self) -> Vec<String> {
        let Self { name, state, link, address, seen_s, version } = self;
        let seen = format!("{} ago", duration(*seen_s));
        vec![name.clone(), state.clone(), link.clone(), address.clone(), seen, version.to_string()]
    }
}

impl Row for StepTime {
    const HEADER: &[&str] = &["MESSAGE", "STEP", "MESSAGES", "MEAN NS", "SHARE"];

    fn cells(&self) -> Vec<String> {
        let Self { message, step, messages, mean_ns, share } = self;
        let numbers = [messages.to_string(), format!("{mean_ns:.0}"), format!("{share:.1} %")];
        [message.clone(), step.clone()].into_iter().chain(numbers).collect()
    }
}

/// Prints a listing page by page, so that memory does not grow with the number of rows.
fn list<T: Row>(server: &AdminClient, name: &str, is_json: bool) -> Result<(), Failure> {
    let mut out = output::buffered();
    let mut widths = Vec::new();
    let mut path = format!("/api/{name}?limit={PAGE_ITEMS}");
    let mut is_first = true;
    loop {
        let mut answer = server.get(&path)?;
        let items = answer.get_mut(name).map(Value::take).unwrap_or_default();
        let items: Vec<T> = serde_json::from_value(items).map_err(|error| unexpected(server, &error))?;
        if is_json {
            write_json(&mut out, name, &items, is_first)?;
        } else {
            write_table(&mut out, &items, &mut widths)?;
        }
        is_first = false;
        match answer.get("next").and_then(Value::as_str) {
            Some(next) if !items.is_empty() => {
                path = format!("/api/{name}?limit={PAGE_ITEMS}&after={}", escape(next));
            }
            Some(_) | None => {
                let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
                if is_json {
                    writeln!(out, "],\"total\":{total}}}")?;
                } else {
                    writeln!(out, "{}", total_of(total, name))?;
                }
                return Ok(out.flush()?);
            }
        }
    }
}

/// Number of the rows of a listing, whose name is a plural.
fn total_of(total: u64, name: &str) -> String {
    let noun = if total == 1 { name.trim_end_matches('s') } else { name };
    format!("{total} {noun}")
}

fn write_json<T: Row>(out: &mut impl Write, name: &str, items: &[T], is_first: bool) -> io::Result<()> {
    if is_first {
        write!(out, "{{\"{name}\":[")?;
    }
    for (index, item) in items.iter().enumerate() {
        if index > 0 || !is_first {
            write!(out, ",")?;
        }
        serde_json::to_writer(&mut *out, item)?;
    }
    Ok(())
}

/// Writes rows aligned with the previous ones; the first page sets the minimum widths.
fn write_table<T: Row>(out: &mut impl Write, items: &[T], widths: &mut Vec<usize>) -> io::Result<()> {
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| item.cells().iter().map(|cell| printable(cell)).collect()).collect();
    let is_first = widths.is_empty();
    if is_first {
        *widths = T::HEADER.iter().map(|title| title.len()).collect();
        if T::IS_LAST_OPTIONAL && rows.iter().all(|row| row.last().is_some_and(|cell| cell == "-")) {
            widths.pop();
        }
    }
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let header = is_first.then(|| T::HEADER.iter().map(|title| (*title).to_owned()).collect());
    for row in header.iter().chain(&rows) {
        let cells: Vec<_> = row.iter().zip(&*widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// The object that the server shows under a name. `None`: it is printed already, as JSON, or with the text for a missing `key`.
fn object<T: DeserializeOwned>(
    server: &AdminClient,
    name: &str,
    is_json: bool,
    (key, absent): (&str, &str),
) -> Result<Option<T>, Failure> {
    let answer = server.get(&format!("/api/{name}"))?;
    if is_json {
        output::line(&answer.to_string())?;
        return Ok(None);
    }
    if answer.get(key).is_none_or(Value::is_null) {
        output::line(absent)?;
        return Ok(None);
    }
    serde_json::from_value(answer).map(Some).map_err(|error| unexpected(server, &error))
}

/// Prints the store that nodes share, then the nodes.
fn cluster(server: &AdminClient, is_json: bool) -> Result<(), Failure> {
    let absent = ("node", "this server is in no cluster: [location] url is \"local:\"");
    let Some(cluster) = object::<Cluster>(server, "cluster", is_json, absent)? else { return Ok(()) };
    let store = &cluster.store;
    let mut out = output::buffered();
    writeln!(out, "node {} of {}", printable(&cluster.node), cluster.nodes.len())?;
    let (url, kind, state) = (printable(&store.url), printable(&store.kind), printable(&store.state));
    writeln!(out, "store {url} ({kind}): {state}, lag {} ms, {} waiting", store.lag_ms, store.waiting)?;
    if let Some(error) = &store.error {
        writeln!(out, "store error: {}", printable(error))?;
    }
    write_table(&mut out, &cluster.nodes, &mut Vec::new())?;
    Ok(out.flush()?)
}

/// Prints the times of the steps.
fn steps(server: &AdminClient, is_json: bool) -> Result<(), Failure> {
    let absent = ("steps", "off: set [log] steps = true and reload; then each step is measured");
    let Some(times) = object::<StepTimes>(server, "steps", is_json, absent)? else { return Ok(()) };
    let mut out = output::buffered();
    write_table(&mut out, &times.steps, &mut Vec::new())?;
    writeln!(out, "{} ns of each timing point are taken off", times.mark_ns)?;
    Ok(out.flush()?)
}

fn unexpected(server: &AdminClient, error: &serde_json::Error) -> Failure {
    Failure::failed(format!(
        "{}: unexpected response ({error}); use the same version of ringway as the server",
        server.address()
    ))
}

fn stats(server: &AdminClient, is_json: bool) -> Result<(), Failure> {
    let answer = server.get("/api/stats")?;
    if is_json {
        return Ok(output::line(&answer.to_string())?);
    }
    let none = Map::new();
    let figures = answer.as_object().unwrap_or(&none);
    let width = figures.keys().map(|name| name.chars().count()).max().unwrap_or_default();
    let mut out = output::buffered();
    for (name, value) in figures {
        writeln!(out, "{:<width$}  {value}", printable(name))?;
    }
    Ok(out.flush()?)
}

/// Formats a duration as `59m 12s`.
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, minutes, _) => format!("{hours}h {minutes}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_not_several() {
        assert_eq!(total_of(1, "trunks"), "1 trunk");
        assert_eq!(total_of(0, "registrations"), "0 registrations");
    }

    #[test]
    fn durations_have_two_units() {
        let shown: Vec<_> = [0, 59, 60, 3552, 3600, 90_061].map(duration).into();
        assert_eq!(shown, ["0s", "59s", "1m 0s", "59m 12s", "1h 0m", "25h 1m"]);
    }

    #[test]
    fn registrations_have_a_node_where_one_of_them_has() {
        let registration = |node: Option<&str>| Registration {
            aor: "sip:a@b".to_owned(),
            contact: "sip:a@c".to_owned(),
            transport: "udp".to_owned(),
            address: None,
            expires_s: Some(5),
            q: 1.0,
            permanent: false,
            instance: None,
            reg_id: None,
            node: node.map(str::to_owned),
            path: Vec::new(),
        };
        let table = |nodes: &[Option<&str>]| {
            let items: Vec<_> = nodes.iter().map(|node| registration(*node)).collect();
            let mut out = Vec::new();
            write_table(&mut out, &items, &mut Vec::new()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let shown = table(&[None, Some("east")]);
        let ends: Vec<_> = shown.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
        assert_eq!(ends, ["NODE", "-", "east"], "{shown}");
        let alone = table(&[None]);
        assert!(alone.lines().all(|line| line.ends_with("LEFT") || line.ends_with("5s")), "{alone}");
    }

    #[test]
    fn rows_are_aligned_over_pages_without_terminal_codes() {
        let connection = |address: &str| Connection {
            id: "7".to_owned(),
            transport: "tcp".to_owned(),
            address: address.to_owned(),
            local: "l".to_owned(),
            neighbour: address.starts_with('h').then(|| "gate".to_owned()),
            age_s: 5,
        };
        let (mut out, mut widths) = (Vec::new(), Vec::new());
        write_table(&mut out, &[connection("192.0.2.1:5060")], &mut widths).unwrap();
        write_table(&mut out, &[connection("h\u{1b}[31m")], &mut widths).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "TRANSPORT  ADDRESS         LOCAL  NEIGHBOUR  SINCE\n\
             tcp        192.0.2.1:5060  l      -          5s\n\
             tcp        h\u{fffd}[31m          l      gate       5s\n"
        );
    }
}
