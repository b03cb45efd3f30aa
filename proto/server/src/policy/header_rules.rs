//! Changes of a message by the rules of a trunk (decision 0062).

use crate::config::{HeaderRule, RuleAction, RuleDirection, RuleMessages, Trunk};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use ringway_sip::{Limits, Message};

/// Result of the rules for a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ruled {
    /// The changed message; `None`: no rule changed it.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Changes that were not made for a limit.
    pub(crate) skipped: u64,
}

/// Header line while rules are applied.
struct FieldLine<'m> {
    name: &'m [u8],
    value: Cow<'m, [u8]>,
    is_removed: bool,
}

/// Applies the rules of a trunk, one after another, to a message in this direction.
pub(crate) fn apply(trunk: &Trunk, direction: RuleDirection, message: &Message<'_>) -> Ruled {
    let mut ruled = Ruled::default();
    let rules = || trunk.headers.iter().filter(|rule| is_for(rule, direction, message));
    if rules().next().is_none() {
        return ruled;
    }
    let mut lines: Vec<FieldLine<'_>> = message
        .iter()
        .map(|field| FieldLine { name: field.name, value: Cow::Borrowed(field.value), is_removed: false })
        .collect();
    let (mut is_changed, mut added) = (false, 0);
    for rule in rules() {
        is_changed |= apply_one(rule, &mut lines, &mut added, &mut ruled.skipped);
    }
    if is_changed {
        let bytes = written(message, &lines);
        match bytes.len() <= Limits::MESSAGE_BYTES_CEILING && Message::parse(&bytes, &Limits::STORED).is_ok()
        {
            true => ruled.bytes = Some(bytes),
            false => ruled.skipped += 1,
        }
    }
    ruled
}

fn is_for(rule: &HeaderRule, direction: RuleDirection, message: &Message<'_>) -> bool {
    let is_of_kind = match rule.messages {
        RuleMessages::Requests => !message.is_response(),
        RuleMessages::Responses => message.is_response(),
        RuleMessages::All => true,
    };
    let method = message.cseq().method;
    rule.direction == direction
        && is_of_kind
        && (rule.methods.is_empty() || rule.methods.iter().any(|own| own.as_bytes() == method.as_bytes()))
}

/// Applies one rule. True: it changed a line.
fn apply_one<'m>(
    rule: &'m HeaderRule,
    lines: &mut Vec<FieldLine<'m>>,
    added: &mut usize,
    skipped: &mut u64,
) -> bool {
    if let RuleAction::Add(value) = &rule.action {
        let bytes = rule.name.as_bytes().len() + value.len() + LINE_BYTES;
        let has_room =
            *added + bytes <= HeaderRule::ADDED_BYTES_MAX && lines.len() < Limits::STORED.headers_max;
        match has_room {
            true => {
                *added += bytes;
                lines.push(FieldLine {
                    name: rule.name.as_bytes(),
                    value: Cow::Borrowed(value),
                    is_removed: false,
                });
            }
            false => *skipped += 1,
        }
        return has_room;
    }
    let (mut is_changed, mut searched) = (false, 0);
    for line in lines.iter_mut().filter(|line| !line.is_removed && rule.name.is(line.name)) {
        searched += 1;
        let is_searched =
            searched <= HeaderRule::LINES_MAX && line.value.len() <= HeaderRule::VALUE_BYTES_MAX;
        match &rule.action {
            // A field that is to be removed does not get past its rule by its length.
            RuleAction::Remove(pattern) => {
                let is_match = |value: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.is_match(value));
                line.is_removed = !is_searched || is_match(&unfolded(&line.value));
                is_changed |= line.is_removed;
            }
            RuleAction::Replace(_, _) if !is_searched => *skipped += 1,
            RuleAction::Replace(pattern, text) => {
                let Some(value) = pattern.replaced(&unfolded(&line.value), text) else { continue };
                let more = value.len().saturating_sub(line.value.len());
                if value.len() > HeaderRule::VALUE_BYTES_MAX || *added + more > HeaderRule::ADDED_BYTES_MAX {
                    *skipped += 1;
                    continue;
                }
                *added += more;
                line.value = Cow::Owned(value);
                is_changed = true;
            }
            RuleAction::Add(_) => {}
        }
    }
    is_changed
}

/// The value in one line (RFC 3261 §7.3.1).
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'\r', b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    for part in value.split(|byte| matches!(byte, b'\r' | b'\n')).filter(|part| !part.is_empty()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(part.trim_ascii_start());
    }
    Cow::Owned(out)
}

fn written(message: &Message<'_>, lines: &[FieldLine<'_>]) -> Vec<u8> {
    let bytes = message.as_bytes();
    let first = memchr::memchr(b'\n', bytes).map_or(0, |at| at + 1);
    let mut out = bytes.get(..first).unwrap_or_default().to_vec();
    out.reserve(bytes.len());
    for line in lines.iter().filter(|line| !line.is_removed) {
        out.extend_from_slice(line.name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(&line.value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(message.body());
    out
}

/// Bytes of a line besides name and value.
const LINE_BYTES: usize = 4;

#[cfg(test)]
#[cfg(feature = "patterns")]
mod tests {
    use super::*;
    use crate::config::{FieldName, Pattern};
    use alloc::string::String;
    use alloc::{format, vec};

    fn rule(name: &str, action: RuleAction) -> HeaderRule {
        HeaderRule {
            name: FieldName::parse(name).unwrap(),
            direction: RuleDirection::Out,
            messages: RuleMessages::Requests,
            methods: Vec::new(),
            action,
        }
    }

    fn replace(pattern: &str, text: &str) -> RuleAction {
        RuleAction::Replace(Pattern::parse(pattern).unwrap(), text.as_bytes().into())
    }

    fn request(fields: &str) -> Vec<u8> {
        format!(
            "INVITE sip:b@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@h>;tag=1\r\nTo: <sip:b@h>\r\n\
             Call-ID: c\r\nCSeq: 1 INVITE\r\n{fields}Content-Length: 4\r\n\r\nbody"
        )
        .into_bytes()
    }

    fn ruled(rules: Vec<HeaderRule>, fields: &str) -> (Option<String>, u64) {
        let trunk = Trunk { headers: rules, ..Trunk::at("t", "sip:h") };
        let bytes = request(fields);
        let message = Message::parse(&bytes, &Limits::STORED).unwrap();
        let Ruled { bytes, skipped } = apply(&trunk, RuleDirection::Out, &message);
        let text = bytes.map(|bytes| String::from_utf8(bytes).unwrap());
        (text.map(|text| text.split_once("CSeq: 1 INVITE\r\n").unwrap().1.into()), skipped)
    }

    #[test]
    fn rules_see_each_line_in_each_form_and_the_work_of_those_before() {
        let rules = vec![
            rule("subject", replace("^(.*) world", "$1")),
            rule("X-In", RuleAction::Remove(None)),
            rule("X-Some", RuleAction::Remove(Some(Pattern::parse("(?i)^drop").unwrap()))),
            rule("X-New", RuleAction::Add(b"a b".as_slice().into())),
            rule("x-new", replace("a (.)", "<$1>")),
        ];
        let fields = "s: big world\r\nX-In: 1\r\nx-some: keep\r\nX-IN: 2,3\r\nX-Some: Drop it\r\nSubject: big\r\n  world\r\n";
        let (text, skipped) = ruled(rules, fields);
        let expected =
            "s: big\r\nx-some: keep\r\nSubject: big\r\nContent-Length: 4\r\nX-New: <b>\r\n\r\nbody";
        assert_eq!((text.as_deref(), skipped), (Some(expected), 0));
    }

    #[test]
    fn a_rule_is_for_its_direction_its_methods_and_its_kind() {
        let add = || rule("X-A", RuleAction::Add(b"1".as_slice().into()));
        for (other, applies) in [
            (add(), true),
            (HeaderRule { direction: RuleDirection::In, ..add() }, false),
            (HeaderRule { methods: vec!["BYE".into()], ..add() }, false),
            (HeaderRule { methods: vec!["BYE".into(), "INVITE".into()], ..add() }, true),
            (HeaderRule { messages: RuleMessages::Responses, ..add() }, false),
            (HeaderRule { messages: RuleMessages::All, ..add() }, true),
        ] {
            assert_eq!(ruled(vec![other], "").0.is_some(), applies);
        }
    }

    #[test]
    fn values_and_messages_stay_within_their_limits() {
        let long = "x".repeat(2000);
        // Too long to be searched: removed by a rule that removes, kept by one that replaces.
        let fields = format!("X-A: {long}\r\n");
        let removal = rule("X-A", RuleAction::Remove(Some(Pattern::parse("y").unwrap())));
        assert!(!ruled(vec![removal], &fields).0.unwrap().contains("X-A"));
        assert_eq!(ruled(vec![rule("X-A", replace("x", "y"))], &fields), (None, 1));
        // A value would be too long.
        let fields = format!("X-A: {}\r\n", "x".repeat(600));
        assert_eq!(ruled(vec![rule("X-A", replace("^(.*)$", "$1$1"))], &fields), (None, 1));
        // Too many lines, and too many bytes.
        let fields = "X-A: x\r\n".repeat(20);
        let (text, skipped) = ruled(vec![rule("X-A", replace("x", "y"))], &fields);
        assert_eq!((text.unwrap().matches("X-A: y").count(), skipped), (16, 4));
        let add = || rule("X-B", RuleAction::Add("b".repeat(900).into_bytes().into()));
        let (text, skipped) = ruled(vec![add(), add(), add()], "");
        assert_eq!((text.unwrap().matches("X-B").count(), skipped), (2, 1));
    }

    #[test]
    fn nothing_that_matches_leaves_its_line() {
        // Folds are read as spaces, so that no group has a line break.
        let (text, _) = ruled(vec![rule("X-A", replace("(?s)^(.*)$", "<$1>"))], "X-A: a\r\n Via: b\r\n");
        assert!(text.unwrap().contains("X-A: <a Via: b>\r\n"));
    }
}
