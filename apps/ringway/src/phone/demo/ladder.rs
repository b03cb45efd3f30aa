//! The message ladder: who sent what to whom, in the order of time.

use crate::output::printable;
use ringway_phone::{MessageDirection, PhoneEvent};
use std::time::{Duration, Instant};

/// A phone of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Alice,
    Bob,
}

/// The messages of two phones with a server between them.
#[derive(Debug)]
pub(super) struct Ladder {
    begun: Instant,
    rungs: Vec<(Duration, Who, MessageDirection, String)>,
}

impl Ladder {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), rungs: Vec::new() }
    }

    /// Notes what a phone told, if it is a message.
    pub(super) fn note(&mut self, who: Who, at: Instant, event: &PhoneEvent) {
        if let PhoneEvent::Message(message) = event {
            let text = short(&message.line);
            self.rungs.push((at.saturating_duration_since(self.begun), who, message.direction, text));
        }
    }

    /// As text, a line for each message.
    pub(super) fn lines(mut self) -> Vec<String> {
        self.rungs.sort_by_key(|(at, ..)| *at);
        let mut lines = vec![format!("{:>9}  {:<WIDTH$}  server  {:>WIDTH$}", "ms", "alice", "bob")];
        for (at, who, direction, text) in self.rungs {
            let (left, right) = match (who, direction) {
                (Who::Alice, MessageDirection::Sent) => (arrow(&text, '─', '▶'), String::new()),
                (Who::Alice, MessageDirection::Received) => (back(&text), String::new()),
                (Who::Bob, MessageDirection::Sent) => (String::new(), back(&text)),
                (Who::Bob, MessageDirection::Received) => (String::new(), arrow(&text, '─', '▶')),
            };
            let line = format!("{:>9.1}  {left:<WIDTH$}    │    {right}", at.as_secs_f64() * 1e3);
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

fn arrow(text: &str, line: char, head: char) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count() + 4);
    let tail: String = std::iter::repeat_n(line, rest).collect();
    format!("{line} {text} {tail}{head}")
}

fn back(text: &str) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count() + 4);
    let tail: String = std::iter::repeat_n('─', rest).collect();
    format!("◀{tail} {text} ─")
}

/// `INVITE`, `180 Ringing`.
fn short(line: &str) -> String {
    let text = match line.strip_prefix("SIP/2.0 ") {
        Some(status) => status,
        None => line.split(' ').next().unwrap_or_default(),
    };
    printable(&text.chars().take(WIDTH - 6).collect::<String>())
}

/// Characters of one side.
const WIDTH: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_phone::SipMessage;
    use ringway_sansio::Transport;

    #[test]
    fn rungs_are_in_the_order_of_time_and_all_as_wide() {
        let mut ladder = Ladder::new();
        let message = |direction, line: &str| {
            PhoneEvent::Message(SipMessage {
                direction,
                transport: Transport::Udp,
                peer: "127.0.0.1:5060".parse().unwrap(),
                line: line.to_owned(),
                cseq: String::new(),
                length: 1,
                bytes: Vec::new(),
            })
        };
        let later = ladder.begun + Duration::from_millis(5);
        let invite = message(MessageDirection::Received, "INVITE sip:bob@example.org SIP/2.0");
        ladder.note(Who::Bob, later, &invite);
        ladder.note(Who::Alice, ladder.begun, &message(MessageDirection::Sent, "REGISTER sip:x SIP/2.0"));
        let long = "SIP/2.0 401 A very long reason phrase that has no end";
        ladder.note(Who::Alice, later, &message(MessageDirection::Received, long));
        let lines = ladder.lines();
        assert!(lines[1].contains("─ REGISTER ─") && lines[1].trim_end().contains('▶'), "{lines:#?}");
        assert!(lines[2].contains("INVITE") && lines[3].contains("◀"), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:#?}");
    }
}
