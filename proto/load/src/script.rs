//! Actions, variables and jumps of the steps of a scenario, as SIPp has them.

use crate::outcome::Outcome;
use crate::recording::Recording;
use crate::template::{Keyword, Text};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::Range;
use memchr::memmem;
use ringway_sip::write_number;

/// Work of a step besides its message: conditions before it, actions and a jump after it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The step is passed over unless the variable is set, or with `false`, unless it is not set. Not of a [`Step::Receive`](crate::Step::Receive).
    pub condition: Option<(Variable, bool)>,
    /// Actions after the step, in their order.
    pub actions: Vec<ScriptAction>,
    /// Jump after the actions.
    pub next: Option<Jump>,
}

/// Index of a variable of the scenario, below [`Scenario::VARIABLES_MAX`](crate::Scenario::VARIABLES_MAX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable(pub u16);

/// Jump to another step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Index of the step that follows; the number of steps ends the attempt.
    pub to: usize,
    /// Variable that must be set.
    pub test: Option<Variable>,
    /// Probability of the jump in millionths.
    pub random_ppm: u32,
}

impl Jump {
    /// A jump that is always done.
    pub const ALWAYS_PPM: u32 = 1_000_000;
}

/// Regular expression, which the caller of the generator implements.
pub trait Pattern: Debug + Send + Sync {
    /// Finds the first match. Fills `groups` with the ranges of the whole match and of its groups.
    fn find(&self, text: &[u8], groups: &mut [Option<Range<usize>>]) -> bool;
}

/// Action of a step.
#[derive(Clone, Debug)]
pub enum ScriptAction {
    /// Searches a text, and keeps the match and its groups.
    Search(Search),
    /// Sets a number.
    Number(Variable, f64),
    /// Sets a text.
    Text(Variable, Text),
    /// Changes a number by another one.
    Calculate(Variable, Operator, Operand),
    /// Sets the first variable to the number that the text of the second one is; another text changes nothing.
    ToNumber(Variable, Variable),
    /// Sets a variable to the truth of a comparison of numbers. A text counts as 0, as in SIPp.
    Test(Variable, Variable, Comparison, Operand),
    /// Sets a number below, equal to or above 0: a comparison of a text with another one.
    CompareText(Variable, Variable, Text),
    /// Writes a line to the log.
    Log(Text),
    /// Writes a warning to the log.
    Warning(Text),
    /// Plays a recording to the peer.
    Play(Arc<Recording>),
}

/// Search of a text.
#[derive(Clone, Debug)]
pub struct Search {
    /// Expression.
    pub pattern: Arc<dyn Pattern>,
    /// Searched text.
    pub place: Place,
    /// Result that the attempt needs to go on.
    pub check: Check,
    /// Variables of the match and of its groups; they keep their values without a match.
    pub groups: Vec<Variable>,
}

/// Text that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Received message.
    Message,
    /// Its body.
    Body,
    /// Rest of a line of the received message.
    Header(HeaderPlace),
    /// Value of a variable.
    Variable(Variable),
}

/// Rest of the line after a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderPlace {
    /// The text, such as `CSeq:`.
    pub name: Box<[u8]>,
    /// Letters of both cases are equal.
    pub is_any_case: bool,
    /// It counts at the start of a line only.
    pub is_at_line_start: bool,
    /// Number of the occurrence, from 1 on.
    pub occurrence: u16,
}

/// Result of a search that an attempt needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Any.
    #[default]
    None,
    /// A match.
    Match,
    /// No match.
    NoMatch,
}

/// Change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Sum.
    Add,
    /// Difference.
    Subtract,
    /// Product.
    Multiply,
    /// Quotient.
    Divide,
}

/// Number, or variable with one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Number.
    Number(f64),
    /// Variable.
    Variable(Variable),
}

/// Comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>`
    Greater,
    /// `<`
    Less,
    /// `>=`
    GreaterOrEqual,
    /// `<=`
    LessOrEqual,
}

impl Comparison {
    fn holds(self, left: f64, right: f64) -> bool {
        // As SIPp compares: exactly.
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::Less => left < right,
            Self::GreaterOrEqual => left >= right,
            Self::LessOrEqual => left <= right,
        }
    }
}

impl Script {
    /// Texts of the actions.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.actions.iter().filter_map(|action| match action {
            ScriptAction::Text(_, text)
            | ScriptAction::CompareText(_, _, text)
            | ScriptAction::Log(text)
            | ScriptAction::Warning(text) => Some(text),
            ScriptAction::Search(_)
            | ScriptAction::Number(..)
            | ScriptAction::Calculate(..)
            | ScriptAction::ToNumber(..)
            | ScriptAction::Test(..)
            | ScriptAction::Play(_) => None,
        })
    }

    /// The script with the values of the keywords that `constant` has a value for.
    pub(crate) fn with_constants(&self, constant: &dyn Fn(&Keyword) -> Option<Vec<u8>>) -> Self {
        let mut script = self.clone();
        for action in &mut script.actions {
            match action {
                ScriptAction::Text(_, text)
                | ScriptAction::CompareText(_, _, text)
                | ScriptAction::Log(text)
                | ScriptAction::Warning(text) => *text = text.with_constants(constant),
                ScriptAction::Search(_)
                | ScriptAction::Number(..)
                | ScriptAction::Calculate(..)
                | ScriptAction::ToNumber(..)
                | ScriptAction::Test(..)
                | ScriptAction::Play(_) => {}
            }
        }
        script
    }

    /// Largest index of a variable.
    pub(crate) fn variable_max(&self) -> Option<u16> {
        let mut all = Vec::new();
        all.extend(self.condition.map(|(variable, _)| variable));
        all.extend(self.next.and_then(|jump| jump.test));
        let operand = |operand: &Operand| match operand {
            Operand::Variable(variable) => Some(*variable),
            Operand::Number(_) => None,
        };
        for action in &self.actions {
            match action {
                ScriptAction::Search(search) => {
                    all.extend(&search.groups);
                    if let Place::Variable(variable) = search.place {
                        all.push(variable);
                    }
                }
                ScriptAction::Number(to, _) | ScriptAction::Text(to, _) => all.push(*to),
                ScriptAction::Calculate(to, _, value) => {
                    all.extend([Some(*to), operand(value)].into_iter().flatten())
                }
                ScriptAction::ToNumber(to, from) | ScriptAction::CompareText(to, from, _) => {
                    all.extend([to, from])
                }
                ScriptAction::Test(to, left, _, right) => {
                    all.extend([Some(*to), Some(*left), operand(right)].into_iter().flatten());
                }
                ScriptAction::Log(_) | ScriptAction::Warning(_) | ScriptAction::Play(_) => {}
            }
        }
        all.into_iter().map(|variable| variable.0).max()
    }
}

/// Values of the variables of an attempt.
#[derive(Debug, Default)]
pub(crate) struct Values {
    values: Vec<Value>,
    /// Sum of the lengths of all texts.
    text_bytes: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Value {
    #[default]
    Unset,
    Text(Box<[u8]>),
    Number(f64),
    Truth(bool),
}

impl Values {
    fn get(&self, variable: Variable) -> &Value {
        self.values.get(usize::from(variable.0)).unwrap_or(&Value::Unset)
    }

    fn number(&self, variable: Variable) -> f64 {
        match self.get(variable) {
            Value::Number(number) => *number,
            Value::Unset | Value::Text(_) | Value::Truth(_) => 0.0,
        }
    }

    fn text(&self, variable: Variable) -> &[u8] {
        match self.get(variable) {
            Value::Text(text) => text,
            Value::Unset | Value::Number(_) | Value::Truth(_) => b"",
        }
    }

    fn operand(&self, operand: Operand) -> f64 {
        match operand {
            Operand::Number(number) => number,
            Operand::Variable(variable) => self.number(variable),
        }
    }

    /// True if a jump that tests the variable is done: as in SIPp 0 and false are not set.
    pub(crate) fn is_set(&self, variable: Variable) -> bool {
        match self.get(variable) {
            Value::Unset => false,
            Value::Truth(truth) => *truth,
            Value::Number(number) => *number != 0.0,
            Value::Text(_) => true,
        }
    }

    /// Appends a value as SIPp writes it: nothing unless it is set.
    pub(crate) fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        match self.get(variable) {
            _ if !self.is_set(variable) => {}
            Value::Unset => {}
            Value::Text(text) => out.extend_from_slice(text),
            Value::Number(number) => out.extend_from_slice(alloc::format!("{number:.6}").as_bytes()),
            Value::Truth(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        }
    }

    fn set(&mut self, variable: Variable, value: Value) -> Result<(), Outcome> {
        let index = usize::from(variable.0);
        if index >= self.values.len() {
            self.values.resize(index + 1, Value::Unset);
        }
        let Some(place) = self.values.get_mut(index) else { return Ok(()) };
        let length = |value: &Value| if let Value::Text(text) = value { text.len() } else { 0 };
        self.text_bytes = self.text_bytes + length(&value) - length(place);
        *place = value;
        if self.text_bytes > VALUES_BYTES_MAX { Err(Outcome::TooLong) } else { Ok(()) }
    }

    pub(crate) fn set_text(&mut self, variable: Variable, text: &[u8]) -> Result<(), Outcome> {
        self.set(variable, Value::Text(text.into()))
    }

    /// Does an action that needs no keywords. `message` is the received one.
    pub(crate) fn apply(&mut self, action: &ScriptAction, message: Option<&[u8]>) -> Result<(), Outcome> {
        match action {
            ScriptAction::Search(search) => self.search(search, message),
            ScriptAction::Number(to, number) => self.set(*to, Value::Number(*number)),
            ScriptAction::Calculate(to, operator, value) => {
                let (left, right) = (self.number(*to), self.operand(*value));
                let result = match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                };
                self.set(*to, Value::Number(result))
            }
            ScriptAction::ToNumber(to, from) => {
                let number = match self.get(*from) {
                    Value::Unset => None,
                    Value::Text(text) => number_of(text),
                    Value::Number(number) => Some(*number),
                    Value::Truth(truth) => Some(if *truth { 1.0 } else { 0.0 }),
                };
                number.map_or(Ok(()), |number| self.set(*to, Value::Number(number)))
            }
            ScriptAction::Test(to, left, comparison, right) => {
                let truth = comparison.holds(self.number(*left), self.operand(*right));
                self.set(*to, Value::Truth(truth))
            }
            ScriptAction::Text(..)
            | ScriptAction::CompareText(..)
            | ScriptAction::Log(_)
            | ScriptAction::Warning(_)
            | ScriptAction::Play(_) => Ok(()),
        }
    }

    /// Sets the result of a comparison of texts.
    pub(crate) fn compare_text(&mut self, to: Variable, left: Variable, right: &[u8]) -> Result<(), Outcome> {
        let number = match self.text(left).cmp(right) {
            core::cmp::Ordering::Less => -1.0,
            core::cmp::Ordering::Equal => 0.0,
            core::cmp::Ordering::Greater => 1.0,
        };
        self.set(to, Value::Number(number))
    }

    fn search(&mut self, search: &Search, message: Option<&[u8]>) -> Result<(), Outcome> {
        let message = message.unwrap_or_default();
        let text = match &search.place {
            Place::Message => message,
            Place::Body => {
                memmem::find(message, b"\r\n\r\n").and_then(|at| message.get(at + 4..)).unwrap_or_default()
            }
            Place::Header(place) => place.rest_of_line(message),
            Place::Variable(variable) => self.text(*variable),
        };
        let mut groups = [const { None }; GROUPS_MAX];
        let is_found = search.pattern.find(text, &mut groups);
        let found: Vec<Option<Box<[u8]>>> = match is_found {
            true => groups.into_iter().map(|range| text.get(range?).map(Into::into)).collect(),
            false => Vec::new(),
        };
        for (variable, text) in search.groups.iter().zip(found) {
            // As SIPp: a group that took no part, and all behind it, keep their values.
            let Some(text) = text else { break };
            self.set(*variable, Value::Text(text))?;
        }
        match search.check {
            Check::Match if !is_found => Err(Outcome::NoMatch),
            Check::NoMatch if is_found => Err(Outcome::NoMatch),
            Check::None | Check::Match | Check::NoMatch => Ok(()),
        }
    }
}

impl HeaderPlace {
    /// Rest of the line behind the text; empty if it does not occur.
    fn rest_of_line<'m>(&self, message: &'m [u8]) -> &'m [u8] {
        let mut left = self.occurrence.max(1);
        for at in 0..message.len() {
            let Some(rest) = message.get(at..) else { break };
            let Some((start, rest)) = rest.split_at_checked(self.name.len()) else { break };
            let is_equal = match self.is_any_case {
                true => start.eq_ignore_ascii_case(&self.name),
                false => *start == *self.name,
            };
            let is_line = at.checked_sub(1).is_none_or(|before| message.get(before) == Some(&b'\n'));
            if !is_equal || self.is_at_line_start && !is_line {
                continue;
            }
            left -= 1;
            if left == 0 {
                return rest.split(|&byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
            }
        }
        &[]
    }
}

/// Number that a text is.
fn number_of(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    let is_short = text.len() <= NUMBER_BYTES_MAX;
    core::str::from_utf8(text)
        .ok()
        .filter(|_| is_short)?
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
}

/// Appends the sum of a written number and an offset; a text without digits stays as it is.
pub(crate) fn write_sum(text: &[u8], offset: i32, out: &mut Vec<u8>) {
    match core::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()) {
        Some(number) => {
            let sum = number.saturating_add(i64::from(offset));
            if sum < 0 {
                out.push(b'-');
            }
            write_number(out, sum.unsigned_abs());
        }
        None => out.extend_from_slice(text),
    }
}

/// Maximum number of a match and its groups.
pub(crate) const GROUPS_MAX: usize = 10;
/// Maximum length of all texts of an attempt's variables, and of a text that is written to one or to the log.
pub(crate) const VALUES_BYTES_MAX: usize = 16 << 10;
/// Maximum length of the text of a number.
const NUMBER_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;

    /// Finds a literal; its second letter is a group.
    #[derive(Debug)]
    struct Literal(&'static str);

    impl Pattern for Literal {
        fn find(&self, text: &[u8], groups: &mut [Option<Range<usize>>]) -> bool {
            let Some(at) = memmem::find(text, self.0.as_bytes()) else { return false };
            groups[0] = Some(at..at + self.0.len());
            groups[1] = Some(at + 1..at + 2);
            true
        }
    }

    const MESSAGE: &[u8] =
        b"SIP/2.0 200 OK\r\nVia: a, via: b\r\nvia: c\r\nCSeq: 7 INVITE\r\n\r\nbody abc\r\n";
    const A: Variable = Variable(0);
    const B: Variable = Variable(1);

    fn search(literal: &'static str, place: Place, check: Check) -> ScriptAction {
        ScriptAction::Search(Search { pattern: Arc::new(Literal(literal)), place, check, groups: vec![A, B] })
    }

    fn written(values: &Values, variable: Variable) -> String {
        let mut out = Vec::new();
        values.write(variable, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_match_and_its_groups_are_kept_and_checked() {
        let mut values = Values::default();
        values.apply(&search("abc", Place::Body, Check::Match), Some(MESSAGE)).unwrap();
        assert_eq!((written(&values, A), written(&values, B)), ("abc".into(), "b".into()));
        let missing = |check| search("200", Place::Body, check);
        assert_eq!(values.apply(&missing(Check::Match), Some(MESSAGE)), Err(Outcome::NoMatch));
        assert_eq!(values.apply(&missing(Check::NoMatch), Some(MESSAGE)), Ok(()));
        let found = search("200", Place::Message, Check::NoMatch);
        assert_eq!(values.apply(&found, Some(MESSAGE)), Err(Outcome::NoMatch));
        assert_eq!(written(&values, A), "200");
        values.apply(&search("xyz", Place::Message, Check::None), Some(MESSAGE)).unwrap();
        assert_eq!(written(&values, A), "200", "a variable keeps its value without a match");
        values.apply(&search("00", Place::Variable(A), Check::Match), None).unwrap();
        assert_eq!(written(&values, A), "00");
    }

    #[test]
    fn a_header_is_found_by_case_line_and_occurrence() {
        let place = |name: &str, is_any_case, is_at_line_start, occurrence| {
            let place =
                HeaderPlace { name: name.as_bytes().into(), is_any_case, is_at_line_start, occurrence };
            String::from_utf8_lossy(place.rest_of_line(MESSAGE)).into_owned()
        };
        assert_eq!(place("CSeq:", false, false, 1), " 7 INVITE");
        assert_eq!(place("cseq:", false, false, 1), "");
        assert_eq!(place("cseq:", true, false, 1), " 7 INVITE");
        assert_eq!(place("via:", false, false, 1), " b");
        assert_eq!(place("via:", false, true, 1), " c");
        assert_eq!(place("via:", true, false, 3), " c");
        assert_eq!(place("via:", true, true, 2), " c");
        assert_eq!(place("via:", true, true, 3), "");
        assert_eq!(place("", false, false, 1), "SIP/2.0 200 OK");
    }

    #[test]
    fn numbers_are_calculated_compared_and_written_as_sipp_does() {
        let mut values = Values::default();
        let do_all = |values: &mut Values, actions: &[ScriptAction]| {
            actions.iter().for_each(|action| values.apply(action, None).unwrap());
        };
        let number = Operand::Number;
        do_all(
            &mut values,
            &[
                ScriptAction::Number(A, 5.0),
                ScriptAction::Calculate(A, Operator::Add, number(4.0)),
                ScriptAction::Calculate(A, Operator::Subtract, number(1.0)),
                ScriptAction::Calculate(A, Operator::Multiply, Operand::Variable(A)),
                ScriptAction::Calculate(A, Operator::Divide, number(3.0)),
            ],
        );
        assert_eq!(written(&values, A), "21.333333");
        for (comparison, truth) in [
            (Comparison::Equal, false),
            (Comparison::NotEqual, true),
            (Comparison::Greater, true),
            (Comparison::Less, false),
            (Comparison::GreaterOrEqual, true),
            (Comparison::LessOrEqual, false),
        ] {
            do_all(&mut values, &[ScriptAction::Test(B, A, comparison, number(21.0))]);
            assert_eq!(
                (values.is_set(B), written(&values, B).as_str()),
                (truth, if truth { "true" } else { "" })
            );
        }
        values.set_text(B, b" -12.5").unwrap();
        do_all(&mut values, &[ScriptAction::ToNumber(A, B)]);
        assert_eq!(written(&values, A), "-12.500000");
        do_all(&mut values, &[ScriptAction::Test(A, B, Comparison::Equal, number(0.0))]);
        assert!(values.is_set(A), "a text counts as 0");
        values.set_text(B, b"7 x").unwrap();
        do_all(&mut values, &[ScriptAction::Number(A, 3.0), ScriptAction::ToNumber(A, B)]);
        assert_eq!(written(&values, A), "3.000000", "a text that is not a number changes nothing");
        assert_eq!(
            [number_of(b"1e3"), number_of(b"1.2.3"), number_of(b"inf"), number_of(b"")],
            [Some(1e3), None, None, None]
        );
        values.compare_text(A, B, b"7 x").unwrap();
        assert!(!values.is_set(A), "equal texts are 0, which is not set");
    }

    #[test]
    fn the_texts_of_an_attempt_have_a_limit() {
        let mut values = Values::default();
        let half = vec![b'x'; VALUES_BYTES_MAX / 2];
        for variable in [A, B, A, B] {
            assert_eq!(values.set_text(variable, &half), Ok(()));
        }
        assert_eq!(values.set_text(Variable(2), b"y"), Err(Outcome::TooLong));
    }

    #[test]
    fn sums_are_written_with_their_sign() {
        let sum = |text: &str, offset| {
            let mut out = Vec::new();
            write_sum(text.as_bytes(), offset, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!([sum("4000", 2), sum("1", -2), sum("x", 2)], ["4002", "-1", "x"]);
    }
}
