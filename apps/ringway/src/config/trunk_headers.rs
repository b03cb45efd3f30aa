//! `[[trunk.header]]`: rules for header fields of a trunk's messages.

use super::{Reader, Section};
use ringway_server::{FieldName, HeaderRule, Pattern, RuleAction, RuleDirection, RuleMessages, is_value};

/// Action of a rule as it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Remove,
    Add,
    Replace,
}

/// Reads the rules of a trunk; `others` is the number of rules of those before it. What cannot be used is an error.
pub(super) fn read(reader: &mut Reader<'_>, trunk: &mut Section<'_, '_>, others: usize) -> Vec<HeaderRule> {
    let mut rules = Vec::new();
    for (section, at) in trunk.sections(reader, "header") {
        let mut section = section.named("trunk.header");
        if others + rules.len() >= HeaderRule::RULES_MAX {
            let message = format!(
                "the list is too long; give at most {} rules for all trunks together",
                HeaderRule::RULES_MAX
            );
            reader.error(at, "[trunk.header]", message);
            break;
        }
        rules.extend(rule(reader, &mut section, at));
        section.finish(reader);
    }
    rules
}

fn rule(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, at: usize) -> Option<HeaderRule> {
    let name = name(reader, section, at);
    let directions = [("in", RuleDirection::In), ("out", RuleDirection::Out)];
    let direction = section.word(reader, "direction", RuleDirection::Out, &directions);
    let kinds = [
        ("requests", RuleMessages::Requests),
        ("responses", RuleMessages::Responses),
        ("all", RuleMessages::All),
    ];
    let messages = section.word(reader, "messages", RuleMessages::Requests, &kinds);
    let methods = methods(reader, section);
    let action = action(reader, section, at);
    Some(HeaderRule { name: name?, direction, messages, methods, action: action? })
}

fn name(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, at: usize) -> Option<FieldName> {
    let Some((text, at)) = section.text(reader, "name") else {
        reader.error(at, section.path("name"), "is missing; write as name = \"X-Account\"");
        return None;
    };
    match FieldName::parse(text) {
        Ok(name) => Some(name),
        Err(why) => {
            let message = format!("{text:?} {why}; give another field");
            reader.error(at, section.path("name"), message);
            None
        }
    }
}

fn methods(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let methods = section.texts(reader, "methods").unwrap_or_default();
    let is_method =
        |text: &str| (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase());
    for (text, at) in methods.iter().filter(|(text, _)| !is_method(text)) {
        let message = format!("{text:?} is not a method; write as [\"INVITE\", \"BYE\"]");
        reader.error(*at, section.path("methods"), message);
    }
    if methods.len() > METHODS_MAX {
        let at = section.place("methods").unwrap_or_default();
        let message =
            format!("the list is too long; give at most {METHODS_MAX} methods, or leave it out for all");
        reader.error(at, section.path("methods"), message);
    }
    methods.into_iter().map(|(text, _)| text.to_owned()).collect()
}

fn action(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, at: usize) -> Option<RuleAction> {
    let words = [("remove", Written::Remove), ("add", Written::Add), ("replace", Written::Replace)];
    let has_action = section.place("action").is_some();
    let action = section.word(reader, "action", Written::Remove, &words);
    let (pattern, value) = (section.text(reader, "match"), section.text(reader, "value"));
    if !has_action {
        reader.error(at, section.path("action"), "is missing; give \"remove\", \"add\" or \"replace\"");
        return None;
    }
    let mut refuse = |key: &'static str, message: &str| {
        let at = section.place(key).unwrap_or(at);
        reader.error(at, section.path(key), message);
    };
    match (action, pattern, value) {
        (Written::Remove | Written::Replace, Some((text, _)), _) => {
            let pattern = match Pattern::parse(text) {
                Ok(pattern) => pattern,
                Err(why) => {
                    refuse("match", &format!("{text:?} {why}; correct it"));
                    return None;
                }
            };
            match (action, value) {
                (Written::Remove, Some(_)) => refuse("value", "is for \"add\" and \"replace\"; take it out"),
                (Written::Remove, None) => return Some(RuleAction::Remove(Some(pattern))),
                (_, None) => refuse("value", "is missing; give the text for what matches, \"\" for none"),
                (_, Some((text, _))) if !is_value(text) => refuse("value", WRONG_VALUE),
                (_, Some((text, _))) => match pattern.check(text) {
                    Ok(()) => return Some(RuleAction::Replace(pattern, text.as_bytes().into())),
                    Err(why) => refuse("value", &format!("{text:?} {why}; write $$ for a dollar sign")),
                },
            }
        }
        (Written::Replace, None, _) => {
            refuse("match", "is missing; give a regular expression as \"^0(.*)$\"")
        }
        (Written::Remove, None, Some(_)) => refuse("value", "is for \"add\" and \"replace\"; take it out"),
        (Written::Remove, None, None) => return Some(RuleAction::Remove(None)),
        (Written::Add, Some(_), _) => refuse("match", "is for \"remove\" and \"replace\"; take it out"),
        (Written::Add, None, None) => refuse("value", "is missing; give the value of the new line"),
        (Written::Add, None, Some((text, _))) if !is_value(text) => refuse("value", WRONG_VALUE),
        (Written::Add, None, Some((text, _))) => return Some(RuleAction::Add(text.as_bytes().into())),
    }
    None
}

const WRONG_VALUE: &str =
    "is longer than 1,024 bytes, or has a line break or another control character; write it in one line";
/// Maximum number of methods of a rule.
const METHODS_MAX: usize = 16;
