//! Actions, conditions and jumps of the elements of a scenario file.

use super::error::SippError;
use super::pattern::compile;
use super::read::{Element, Kind, Next, RANDOM, Reader};
use ringway_load::{
    Check, Comparison, HeaderPlace, Jump, Operand, Operator, Place, Script, ScriptAction, Search, Text,
    Variable,
};
use roxmltree::Node;

impl Reader<'_> {
    /// Condition, actions and jump of an element.
    pub(super) fn script(
        &mut self,
        element: Element<'_, '_>,
        kind: Kind,
    ) -> Result<(Script, Option<Next>), SippError> {
        let mut script = Script { condition: self.condition(element, kind)?, ..Script::default() };
        for child in element.children().filter(Node::is_element) {
            if child.tag_name().name() != "action" {
                let name = child.tag_name().name();
                return Err(self.refuse(
                    child,
                    format!("<{name}> inside of a step is not supported; known is <action>"),
                ));
            }
            if kind == Kind::Pause {
                return Err(self.refuse(child, "a pause has no actions; write them into a <nop>".to_owned()));
            }
            for action in child.children().filter(Node::is_element) {
                self.action(action, kind, &mut script.actions)?;
            }
        }
        let Some(label) = element.attribute("next") else {
            if let Some(name) = ["test", RANDOM].into_iter().find(|name| element.has_attribute(*name)) {
                return Err(
                    self.refuse(element, format!("`{name}` belongs to a jump; add `next`, or remove it"))
                );
            }
            return Ok((script, None));
        };
        let test = self.used(element, "test")?;
        let share = match element.attribute(RANDOM).map(|text| text.trim().parse::<f64>()) {
            None => 1.0,
            Some(Ok(share)) if (0.0..=1.0).contains(&share) => share,
            Some(_) => return Err(self.refuse(element, format!("`{RANDOM}` is a number from 0 to 1"))),
        };
        let random_ppm = (share * f64::from(Jump::ALWAYS_PPM)).round() as u32;
        script.next = Some(Jump { to: 0, test, random_ppm });
        Ok((script, Some(Next { label: label.to_owned(), line: self.line_of(element) })))
    }

    fn condition(
        &mut self,
        element: Element<'_, '_>,
        kind: Kind,
    ) -> Result<Option<(Variable, bool)>, SippError> {
        if kind == Kind::Receive && element.has_attribute("condexec") {
            let reason = "a message that is expected under a condition is not supported; jump over it with `next` and `test`";
            return Err(self.refuse(element, format!("`condexec`: {reason}")));
        }
        let is_inverse = self.flag(element, "condexec_inverse")?;
        Ok(self.used(element, "condexec")?.map(|variable| (variable, !is_inverse)))
    }

    fn action(
        &mut self,
        action: Element<'_, '_>,
        kind: Kind,
        out: &mut Vec<ScriptAction>,
    ) -> Result<(), SippError> {
        let name = action.tag_name().name();
        let known: &[&str] = match name {
            "ereg" => &[
                "regexp",
                "search_in",
                "header",
                "case_indep",
                "occurrence",
                "start_line",
                "check_it",
                "check_it_inverse",
                "assign_to",
                "variable",
            ],
            "assign" | "add" | "subtract" | "multiply" | "divide" => &["assign_to", "value", "variable"],
            "assignstr" => &["assign_to", "value"],
            "todouble" => &["assign_to", "variable"],
            "test" | "strcmp" => &["assign_to", "variable", "compare", "value", "variable2"],
            "log" | "warning" => &["message"],
            "exec" if action.has_attribute(PLAY) => &[PLAY],
            _ => return Err(self.refuse(action, refused_action(name))),
        };
        self.attributes(action, known)?;
        let read = match name {
            "ereg" => self.search(action, kind)?,
            "assign" => {
                let to = self.assigned(action)?;
                match self.operand(action, "variable")? {
                    Operand::Number(number) => ScriptAction::Number(to, number),
                    Operand::Variable(from) if from == to => return Ok(()),
                    from @ Operand::Variable(_) => {
                        out.push(ScriptAction::Number(to, 0.0));
                        ScriptAction::Calculate(to, Operator::Add, from)
                    }
                }
            }
            "add" | "subtract" | "multiply" | "divide" => {
                let operator = operator(name);
                let value = self.operand(action, "variable")?;
                if operator == Operator::Divide && value == Operand::Number(0.0) {
                    return Err(self.refuse(action, "a division by 0; give another value".to_owned()));
                }
                ScriptAction::Calculate(self.assigned(action)?, operator, value)
            }
            "assignstr" => {
                let text = self.text(action, "value")?;
                ScriptAction::Text(self.assigned(action)?, text)
            }
            "todouble" => ScriptAction::ToNumber(self.assigned(action)?, self.needed(action, "variable")?),
            "test" => {
                let comparison = self.comparison(action)?;
                let right = self.operand(action, "variable2")?;
                ScriptAction::Test(
                    self.assigned(action)?,
                    self.needed(action, "variable")?,
                    comparison,
                    right,
                )
            }
            "strcmp" => {
                let right = match self.used(action, "variable2")? {
                    Some(Variable(number)) => self.parsed(action, &format!("[${number}]"))?,
                    None => self.text(action, "value")?,
                };
                ScriptAction::CompareText(self.assigned(action)?, self.needed(action, "variable")?, right)
            }
            "log" => ScriptAction::Log(self.text(action, "message")?),
            "exec" => self.play(action)?,
            _ => ScriptAction::Warning(self.text(action, "message")?),
        };
        out.push(read);
        Ok(())
    }

    fn play(&mut self, action: Element<'_, '_>) -> Result<ScriptAction, SippError> {
        let recording = self.recordings.get(self.attribute(action, PLAY)?);
        recording.map(ScriptAction::Play).map_err(|reason| self.refuse(action, reason))
    }

    fn search(&mut self, action: Element<'_, '_>, kind: Kind) -> Result<ScriptAction, SippError> {
        let expression = self.attribute(action, "regexp")?;
        let pattern = compile(expression).map_err(|reason| self.refuse(action, reason))?;
        let place = match action.attribute("search_in") {
            None | Some("msg") => Place::Message,
            Some("body") => Place::Body,
            Some("hdr") => Place::Header(self.header(action)?),
            Some("var") => Place::Variable(self.needed(action, "variable")?),
            Some(_) => return Err(self.refuse(action, "`search_in` is msg, hdr, body or var".to_owned())),
        };
        if kind != Kind::Receive && !matches!(place, Place::Variable(_)) {
            let reason =
                "a search in a message belongs to the <recv> of the message; here `search_in` is var";
            return Err(self.refuse(action, reason.to_owned()));
        }
        let check = match (self.flag(action, "check_it")?, self.flag(action, "check_it_inverse")?) {
            (false, false) => Check::None,
            (true, false) => Check::Match,
            (false, true) => Check::NoMatch,
            (true, true) => {
                return Err(
                    self.refuse(action, "`check_it` and `check_it_inverse` exclude each other".to_owned())
                );
            }
        };
        let mut groups = Vec::new();
        for name in self.attribute(action, "assign_to")?.split(',').map(str::trim) {
            groups.push(self.names.set(name).map_err(|reason| self.refuse(action, reason))?);
        }
        if groups.len() > GROUPS_MAX {
            return Err(self.refuse(action, format!("`assign_to` has more than {GROUPS_MAX} variables")));
        }
        Ok(ScriptAction::Search(Search { pattern, place, check, groups }))
    }

    fn header(&self, action: Element<'_, '_>) -> Result<HeaderPlace, SippError> {
        let occurrence = match action.attribute("occurrence").map(|text| text.trim().parse::<u16>()) {
            None => 1,
            Some(Ok(number)) => number,
            Some(Err(_)) => return Err(self.refuse(action, "`occurrence` is a number from 1 on".to_owned())),
        };
        Ok(HeaderPlace {
            name: self.attribute(action, "header")?.as_bytes().into(),
            is_any_case: self.flag(action, "case_indep")?,
            is_at_line_start: self.flag(action, "start_line")?,
            occurrence,
        })
    }

    fn comparison(&self, action: Element<'_, '_>) -> Result<Comparison, SippError> {
        Ok(match self.attribute(action, "compare")? {
            "equal" => Comparison::Equal,
            "not_equal" => Comparison::NotEqual,
            "greater_than" => Comparison::Greater,
            "less_than" => Comparison::Less,
            "greater_than_equal" => Comparison::GreaterOrEqual,
            "less_than_equal" => Comparison::LessOrEqual,
            _ => {
                let reason = "`compare` is equal, not_equal, greater_than, less_than, greater_than_equal or less_than_equal";
                return Err(self.refuse(action, reason.to_owned()));
            }
        })
    }

    /// Value of an attribute that must be there.
    fn attribute<'a>(&self, element: Element<'a, '_>, name: &str) -> Result<&'a str, SippError> {
        element.attribute(name).ok_or_else(|| {
            self.refuse(element, format!("<{}> needs the attribute `{name}`", element.tag_name().name()))
        })
    }

    fn assigned(&mut self, action: Element<'_, '_>) -> Result<Variable, SippError> {
        let name = self.attribute(action, "assign_to")?;
        self.names.set(name).map_err(|reason| self.refuse(action, reason))
    }

    fn used(&mut self, element: Element<'_, '_>, name: &str) -> Result<Option<Variable>, SippError> {
        let Some(variable) = element.attribute(name) else { return Ok(None) };
        let line = self.line_of(element);
        self.names.used(variable, line).map(Some).map_err(|reason| self.refuse(element, reason))
    }

    fn needed(&mut self, element: Element<'_, '_>, name: &str) -> Result<Variable, SippError> {
        self.attribute(element, name)?;
        self.used(element, name)?.ok_or_else(|| self.refuse(element, format!("`{name}` is missing")))
    }

    fn operand(&mut self, action: Element<'_, '_>, name: &str) -> Result<Operand, SippError> {
        if let Some(variable) = self.used(action, name)? {
            return Ok(Operand::Variable(variable));
        }
        let number = action.attribute("value").and_then(|value| value.trim().parse::<f64>().ok());
        number.filter(|number| number.is_finite()).map(Operand::Number).ok_or_else(|| {
            self.refuse(
                action,
                format!("<{}> needs a number in `value`, or `{name}`", action.tag_name().name()),
            )
        })
    }

    fn text(&mut self, action: Element<'_, '_>, name: &str) -> Result<Text, SippError> {
        let text = self.attribute(action, name)?;
        let line = self.line_of(action);
        let replaced =
            self.keywords(line).replaced(text, false).map_err(|(_, reason)| self.refuse(action, reason))?;
        self.parsed(action, &replaced)
    }

    fn parsed(&self, action: Element<'_, '_>, text: &str) -> Result<Text, SippError> {
        Text::parse(text).map_err(|error| self.refuse(action, error.to_string()))
    }
}

fn operator(name: &str) -> Operator {
    match name {
        "add" => Operator::Add,
        "subtract" => Operator::Subtract,
        "multiply" => Operator::Multiply,
        _ => Operator::Divide,
    }
}

fn refused_action(name: &str) -> String {
    let reason = match name {
        "exec" => {
            "commands are not run, of recorded packets only `play_pcap_audio` is played, and other RTP is that of --media"
        }
        "setdest" => "messages go to the server, the peer's Contact or the Route only",
        "jump" => "the target of a jump is a label; take `next` with `test`",
        "rtp_echo" => "the called users send streams of their own with --media",
        "insert" | "replace" | "lookup" => "the lists of fields are not changed during a load",
        "closecon" => "connections are those of --connections",
        "error" => "a file cannot end the load of other attempts; take <warning>",
        "verifyauth" => "the called users challenge nobody",
        _ => {
            return format!(
                "the action <{name}> is not supported; known are ereg, assign, assignstr, add, subtract, multiply, divide, todouble, \
                 test, strcmp, log, warning and exec"
            );
        }
    };
    format!("the action <{name}> is not supported: {reason}; remove it")
}

/// Attribute with the file of a recording.
const PLAY: &str = "play_pcap_audio";
/// Maximum number of a match and its groups.
const GROUPS_MAX: usize = 10;
