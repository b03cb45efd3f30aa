//! The history of calls as text, to be kept in a file: a line for each call, fields between tabs.
//!
//! The texts in it came from the network, and the file may have been changed: reading makes them safe again, and leaves
//! out lines that it cannot read.

use super::call::{LOCKS, Origin, Outcome, Party, PastCall, REASON_CHARS_MAX, URI_CHARS_MAX};
use crate::phone::{Now, WallTime};
use crate::text::Shown;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

/// Maximum size of the text in bytes; the oldest calls are left out.
pub const PAST_CALLS_BYTES_MAX: usize = 256 << 10;

const HEAD: &str =
    "# Calls of ringway phone, newest first: time, way, outcome, seconds, lock, name, URI, detail\n";

/// Writes calls, newest first, at most [`PAST_CALLS_BYTES_MAX`] bytes.
pub(super) fn text_of(calls: &VecDeque<PastCall>) -> String {
    let mut text = String::from(HEAD);
    for call in calls {
        let line = line_of(call);
        if text.len() + line.len() > PAST_CALLS_BYTES_MAX {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Reads at most `max` calls, and counts the lines that are none.
pub(super) fn calls_of(text: &str, max: usize) -> (VecDeque<PastCall>, usize) {
    let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let wrong = lines().filter(|line| call_of(line).is_none()).count();
    (lines().filter_map(call_of).take(max).collect(), wrong)
}

fn line_of(call: &PastCall) -> String {
    let wall = call.at.wall.unwrap_or_default();
    let WallTime { month, day, hour, minute, second, .. } = wall;
    let way = match call.origin {
        Origin::Ours => OUT,
        Origin::Theirs => IN,
    };
    let (outcome, detail) = match &call.outcome {
        Outcome::Talked => (TALKED, String::new()),
        Outcome::Transferred { to } => (TRANSFERRED, to.to_string()),
        Outcome::Missed => (MISSED, String::new()),
        Outcome::Rejected => (REJECTED, String::new()),
        Outcome::Cancelled => (CANCELLED, String::new()),
        Outcome::Failed { status, reason } => (FAILED, format!("{status} {reason}")),
    };
    let seconds = call.talked.map_or_else(|| "-".into(), |talked| talked.as_secs().to_string());
    // A URI that is not safe to show is kept as it is shown.
    let is_plain = call.party.address == call.party.uri.as_str();
    let uri = if is_plain { &call.party.address } else { call.party.uri.as_str() };
    format!(
        "{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}\t{way}\t{outcome}\t{seconds}\t{}\t{}\t{uri}\t{detail}\n",
        call.lock, call.party.name
    )
}

fn call_of(line: &str) -> Option<PastCall> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let (at, way, outcome, seconds) = (next()?, next()?, next()?, next()?);
    let (lock, name, uri, detail) = (next()?, next()?, next()?, next()?);
    if fields.next().is_some() || uri.is_empty() || uri.chars().count() > URI_CHARS_MAX + 1 {
        return None;
    }
    Some(PastCall {
        origin: match way {
            OUT => Origin::Ours,
            IN => Origin::Theirs,
            _ => return None,
        },
        party: Party::new(name, uri),
        at: Now { elapsed: Duration::ZERO, wall: Some(wall_of(at)?) },
        talked: match seconds {
            "-" => None,
            seconds => Some(Duration::from_secs(seconds.parse::<u32>().ok()?.into())),
        },
        outcome: match outcome {
            TALKED => Outcome::Talked,
            TRANSFERRED => Outcome::Transferred { to: Shown::new(detail, URI_CHARS_MAX) },
            MISSED => Outcome::Missed,
            REJECTED => Outcome::Rejected,
            CANCELLED => Outcome::Cancelled,
            FAILED => {
                let (status, reason) = detail.split_once(' ')?;
                let reason = Shown::new(reason, REASON_CHARS_MAX);
                Outcome::Failed { status: status.parse().ok()?, reason }
            }
            _ => return None,
        },
        lock: LOCKS.into_iter().find(|name| *name == lock)?,
    })
}

/// Reads `05-01 14:03:07`.
fn wall_of(text: &str) -> Option<WallTime> {
    let mut numbers = text.split(['-', ' ', ':']).map(|number| number.parse::<u8>().ok());
    let mut next = |range: core::ops::RangeInclusive<u8>| numbers.next()?.filter(|n| range.contains(n));
    let wall = WallTime {
        month: next(0..=12)?,
        day: next(0..=31)?,
        hour: next(0..=23)?,
        minute: next(0..=59)?,
        second: next(0..=60)?,
        millisecond: 0,
    };
    numbers.next().is_none().then_some(wall)
}

const OUT: &str = "out";
const IN: &str = "in";
const TALKED: &str = "talked";
const TRANSFERRED: &str = "transferred";
const MISSED: &str = "missed";
const REJECTED: &str = "rejected";
const CANCELLED: &str = "cancelled";
const FAILED: &str = "failed";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;
    use crate::phone::model::Effect;
    use crate::phone::scene::Scene;
    use alloc::borrow::ToOwned;
    use ringway_phone::{CallNumber, CryptoSuite, PhoneEvent, Protection, SasStatus, Side};

    #[test]
    fn the_history_survives_the_program_and_a_bad_line() {
        let mut scene = Scene::new();
        let ended = |call, by, status| PhoneEvent::Ended { call, by, status, reason: "No\tWay\n".to_owned() };
        let call = scene.talk_to(1, "sip:bob@example.org");
        let (suite, sas) = (CryptoSuite::AesCm128HmacSha1_80, "jf4k".to_owned());
        scene.secured(call, Protection::Zrtp { suite, sas, status: SasStatus::Compared });
        scene.wait_ms(61_000);
        scene.phone(ended(call, Side::Us, 200));
        let call = scene.bob_calls(2);
        scene.phone(ended(call, Side::Peer, 487));
        let call = CallNumber(3);
        let name = "Eve\t\u{1b}[2J\n山".to_owned();
        scene.phone(PhoneEvent::Incoming {
            call,
            name,
            uri: "sip:e@x;a=\tb\n".to_owned(),
            bypasses_server: false,
            is_sips: false,
            replaces: None,
        });
        scene.phone(ended(call, Side::Us, 486));
        let call = CallNumber(4);
        scene.phone(PhoneEvent::Calling { call, to: "sip:carol@example.org".to_owned() });
        scene.phone(ended(call, Side::Peer, 404));
        assert_eq!(scene.effects().last(), Some(&Effect::KeepCalls));
        let text = scene.model.past_calls();
        assert!(text.lines().count() == 5 && !text.contains('\u{1b}'), "{text}");
        let mut next = Scene::new();
        let bad = "05-01 14:03:07\tin\ttalked\t61\tZRTP\tBob\n99-99 1:2:3\tin\tmissed\t-\tnone\t\tsip:a@b\t\n\u{0}\n";
        assert_eq!(next.model.set_past_calls(&format!("{text}{bad}")), 3);
        assert_eq!(next.model.past_calls(), text);
        for page in [&mut scene, &mut next] {
            page.press(Key::Function(4));
        }
        assert_eq!(scene.lines()[3..8], next.lines()[3..8]);
        // The limits: entries and bytes.
        let line = text.lines().find(|line| line.contains("bob")).unwrap();
        assert_eq!(next.model.set_past_calls(&format!("{line}\n").repeat(10_000)), 0);
        assert_eq!(next.model.history.len(), 500);
        let long = line.replace("Bob", &"B".repeat(128)).replace("bob@", &format!("{}@", "b".repeat(200)));
        next.model.set_past_calls(&format!("{long}\n").repeat(10_000));
        assert!(next.model.past_calls().len() <= PAST_CALLS_BYTES_MAX);
    }
}
