//! Tests of the log's events: their names and fields are those of the table in docs/reference/log.md.

use super::*;
use ringway_ng::{RelayChange, RelayState};
use ringway_server::{
    CallEvent, CallSender, Condition, DiversionReason, InnerHost, MessageDrop, NeighbourDown, NeighbourKind,
};
use ringway_sip::{Limits, Message};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

const REQUEST: &[u8] =
    b"INVITE sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
    From: <sip:alice@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
    Max-Forwards: 70\r\nContact: <sip:alice@192.0.2.1>\r\nContent-Length: 0\r\n\r\n";

/// Lines of a log in memory.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Events of every kind; a new kind does not compile until it is here.
fn events(address: SocketAddr, flow: Flow) -> Vec<LogEvent<'static>> {
    let all = vec![
        LogEvent::LoginRefused { user: b"alice", address, reason: LoginRefusal::WrongPassword },
        LogEvent::CallerBlocked { caller: b"sip:a@b", callee: b"sip:c@d", address },
        LogEvent::TrunkRegistered { name: "carrier" },
        LogEvent::TrunkNotRegistered { name: "carrier", status: 403 },
        LogEvent::RequestRefused { message: REQUEST, status: 404, phrase: "Not Found", address },
        LogEvent::Registered { aor: b"a@b", change: BindingChange::Registered, message: REQUEST, flow },
        LogEvent::Registered { aor: b"a@b", change: BindingChange::Refreshed, message: REQUEST, flow },
        LogEvent::Registered { aor: b"a@b", change: BindingChange::Removed, message: REQUEST, flow },
        LogEvent::BindingEnded { aor: b"a@b", contact: b"sip:a@c", flow, reason: BindingEnd::Expired },
        LogEvent::DestinationRefused { aor: b"a@b", number: b"+44", prefix: "+4", address },
        LogEvent::EmergencyCall { caller: b"sip:a@b", number: b"112", site: "berlin", address },
        LogEvent::TrunkBypassed { caller: b"sip:a@b", target: b"sip:c@d", address },
        LogEvent::InnerHostRefused {
            caller: b"sip:a@b",
            target: b"sip:c@d",
            address,
            hop: address,
            host: InnerHost::Loopback,
        },
        LogEvent::TrunkLoginRefused { name: "gate", address },
        LogEvent::MessageRefused { sender: b"a@b", recipient: b"c@b", reason: "too many messages", address },
        LogEvent::MessageDropped { sender: b"a@b", recipient: b"c@b", reason: MessageDrop::Status(400) },
        LogEvent::NeighbourUp { kind: NeighbourKind::Neighbour, name: "gate", address },
        LogEvent::NeighbourUp { kind: NeighbourKind::Trunk, name: "carrier", address },
        LogEvent::NeighbourUp { kind: NeighbourKind::Node, name: "b", address },
        LogEvent::NeighbourUp { kind: NeighbourKind::NodeBehind, name: "b", address },
        LogEvent::NeighbourDown { kind: NeighbourKind::NodeBehind, name: "b", reason: NeighbourDown::Closed },
        LogEvent::NeighbourDown { kind: NeighbourKind::Node, name: "b", reason: NeighbourDown::Closed },
        LogEvent::NeighbourDown {
            kind: NeighbourKind::Neighbour,
            name: "gate",
            reason: NeighbourDown::Closed,
        },
        LogEvent::NeighbourDown {
            kind: NeighbourKind::Trunk,
            name: "carrier",
            reason: NeighbourDown::NotDelivered,
        },
    ];
    let steps = [
        CallStep::Begun,
        CallStep::Refused(403),
        CallStep::Forwarded,
        CallStep::Diverted(DiversionReason::Forward(Condition::Busy)),
        CallStep::Answered(200),
        CallStep::Failed(486),
        CallStep::Cancelled,
        CallStep::TimedOut,
        CallStep::Bye,
        CallStep::ByeRefused(500),
    ];
    let steps = steps.into_iter().map(|step| {
        let sender = CallSender::Stranger;
        let flow = Some(flow);
        let target = matches!(step, CallStep::Diverted(_)).then_some(&b"sip:carol@example.net"[..]);
        let message = REQUEST;
        LogEvent::Call(CallEvent { flow, target, ..CallEvent::stored(step, message, sender) })
    });
    all.into_iter().chain(steps).inspect(is_listed).collect()
}

fn is_listed(event: &LogEvent<'_>) {
    match event {
        LogEvent::LoginRefused { .. }
        | LogEvent::CallerBlocked { .. }
        | LogEvent::RequestRefused { .. }
        | LogEvent::TrunkRegistered { .. }
        | LogEvent::TrunkNotRegistered { .. }
        | LogEvent::Registered { .. }
        | LogEvent::BindingEnded { .. }
        | LogEvent::Call(_)
        | LogEvent::DestinationRefused { .. }
        | LogEvent::MessageRefused { .. }
        | LogEvent::MessageDropped { .. }
        | LogEvent::EmergencyCall { .. }
        | LogEvent::TrunkBypassed { .. }
        | LogEvent::InnerHostRefused { .. }
        | LogEvent::TrunkLoginRefused { .. }
        | LogEvent::NeighbourUp { .. }
        | LogEvent::NeighbourDown { .. }
        | LogEvent::Decided { .. }
        | LogEvent::Received { .. } => {}
    }
}

/// Rows of the table of events: level, event, and its fields in alphabetical order.
fn documented() -> BTreeSet<(String, String, Vec<String>)> {
    let guide = include_str!("../../../../docs/reference/log.md");
    let table = guide.split("| Level | Event | Fields |\n|---|---|---|\n").nth(1).unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let words =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let mut fields = words(cells[3]);
        fields.sort();
        (words(cells[1]).remove(0), words(cells[2]).remove(0), fields)
    })
    .collect()
}

#[test]
fn the_fields_of_each_event_are_those_of_the_page() {
    assert!(Message::parse(REQUEST, &Limits::default()).is_ok());
    let address = "192.0.2.1:5060".parse().unwrap();
    let flow = Flow::udp(ringway_sansio::ListenerId(0), address);
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    // While there is one subscriber, the thread that first reaches a call decides for all whether it is of use: not so with two.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    tracing::subscriber::with_default(subscriber, || {
        for event in events(address, flow) {
            // A log of its own: the rate of lines is another test's.
            EventLog::new(&Seed::from_number(1)).observe(Instant::from_secs(1), &event);
        }
        crate::serve::log_lines::write(&[("over_rate", 1)]);
        for state in [RelayState::Up, RelayState::Down] {
            crate::serve::clients::note_change(RelayChange { address, state });
        }
        trace_message(Direction::Received, &flow, REQUEST);
        trace_message(Direction::Sent, &flow, REQUEST);
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let written: BTreeSet<_> = text
        .lines()
        .map(|line| {
            let Value::Object(object) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
            let fields =
                object.keys().filter(|key| !["timestamp", "level", "message"].contains(&key.as_str()));
            // It is in lines after a pause only.
            let fields = fields.filter(|key| *key != "suppressed").cloned().collect::<Vec<_>>();
            let text = |key: &str| object[key].as_str().unwrap().to_owned();
            (text("level").to_lowercase(), text("message"), fields)
        })
        .collect();
    let documented = documented();
    let missing: Vec<_> = written.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&written).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "not on the page: {missing:#?}\nnot in the log: {stale:#?}"
    );
}
