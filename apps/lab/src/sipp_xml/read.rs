//! Reads a scenario file.

use super::Scenario;
use super::error::SippError;
use super::keywords::{Keywords, Names, unknown_keyword};
use super::list::{CredentialColumns, InputLists};
use super::recordings::Recordings;
use ringway_load::{Length, Receive, Received, ScenarioError, Script, Send, Step, Template, TemplateError};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum length of a file in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Reads a scenario file of SIPp. A pause without a time is `pause`.
///
/// ```
/// use ringway_lab::sipp_xml::read;
/// use ringway_load::Length;
///
/// let text = "<scenario>
///   <recv request='MESSAGE'/>
///   <send><![CDATA[
///     SIP/2.0 200 OK
///     [last_Via:]
///     [last_From:]
///     [last_To:];tag=[call_number]
///     [last_Call-ID:]
///     [last_CSeq:]
///   ]]></send>
/// </scenario>";
/// let pause = Length::Fixed(Default::default());
/// assert_eq!(read(text, pause)?.steps().len(), 2);
/// assert_eq!(read("<scenario>\n<sendCmd/>\n</scenario>", pause).unwrap_err().line, 2);
/// # Ok::<(), ringway_lab::sipp_xml::SippError>(())
/// ```
///
/// # Errors
/// Text that is no XML, an element or attribute that is not supported, a message or an order of steps that makes no sense.
pub fn read(text: &str, pause: Length) -> Result<Scenario, SippError> {
    read_with(text, pause, &InputLists::default(), &mut Recordings::default()).map(|file| file.scenario)
}

/// Scenario of a file, and what it says of the list of users.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Scenario.
    pub scenario: Scenario,
    /// Columns of the users' names and passwords, if an `[authentication]` names them.
    pub credentials: Option<CredentialColumns>,
}

/// Reads a scenario file whose messages have fields of lists, and which plays recordings.
///
/// # Errors
/// As [`read`], fields that the lists do not have, and recordings that cannot be read.
pub fn read_with(
    text: &str,
    pause: Length,
    lists: &InputLists,
    recordings: &mut Recordings,
) -> Result<ScenarioFile, SippError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(SippError { line: 1, reason: format!("the file has more than {FILE_BYTES_MAX} bytes") });
    }
    // SIPp's files name a DTD, which is not fetched. Entities would have to be declared in the file itself.
    if let Some(at) = text.find("<!ENTITY") {
        let reason = "entities are not supported; write their text itself".to_owned();
        return Err(SippError { line: line_at(text, at), reason });
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| SippError {
        line: error.pos().row as usize,
        reason: format!("not well-formed XML: {error}"),
    })?;
    let root = document.root_element();
    let mut reader = Reader {
        text,
        pause,
        lists,
        recordings,
        steps: Vec::new(),
        scripts: Vec::new(),
        jumps: Vec::new(),
        labels: HashMap::new(),
        names: Names::default(),
        credentials: None,
        lines: Vec::new(),
        is_cancelling: false,
    };
    if root.tag_name().name() != "scenario" {
        return Err(
            reader.refuse(root, "the file has no <scenario>; give a scenario file of SIPp".to_owned())
        );
    }
    for element in root.children() {
        reader.element(element)?;
    }
    reader.resolve_jumps()?;
    if let Some((name, line)) = reader.names.unassigned() {
        let reason = format!("no action sets the variable `{name}`; add one, or correct the name");
        return Err(SippError { line: *line, reason });
    }
    let Reader { steps, scripts, lines, credentials, .. } = reader;
    let has_scripts = scripts
        .iter()
        .any(|script| script.condition.is_some() || script.next.is_some() || !script.actions.is_empty());
    let scenario =
        Scenario::scripted(steps, if has_scripts { scripts } else { Vec::new() }).map_err(|error| {
            let step = match error {
                ScenarioError::Beginning => 1,
                ScenarioError::TooLong => Scenario::STEPS_MAX + 1,
                ScenarioError::NoRequest(step)
                | ScenarioError::Optional(step)
                | ScenarioError::Jump(step)
                | ScenarioError::Endless(step)
                | ScenarioError::TooManyActions(step) => step,
            };
            let line = lines.get(step - 1).copied().unwrap_or(1);
            SippError { line, reason: error.to_string() }
        })?;
    Ok(ScenarioFile { scenario, credentials })
}

pub(super) struct Reader<'t> {
    text: &'t str,
    pause: Length,
    lists: &'t InputLists,
    pub(super) recordings: &'t mut Recordings,
    steps: Vec<Step>,
    /// Script of each step.
    scripts: Vec<Script>,
    /// Jumps with the index of their step.
    jumps: Vec<(usize, Next)>,
    /// Steps of the labels.
    labels: HashMap<String, usize>,
    pub(super) names: Names,
    credentials: Option<CredentialColumns>,
    /// Line of each step.
    lines: Vec<usize>,
    /// The last message is a CANCEL, whose response its transaction takes.
    is_cancelling: bool,
}

/// Jump whose label is not resolved yet.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) label: String,
    pub(super) line: usize,
}

/// Kind of an element with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    Receive,
    Pause,
    Nop,
}

pub(super) type Element<'a, 't> = Node<'a, 't>;

impl Reader<'_> {
    fn element(&mut self, element: Element<'_, '_>) -> Result<(), SippError> {
        if !element.is_element() {
            return match element.text().filter(|_| element.is_text()).map(str::trim) {
                Some("") | None => Ok(()),
                Some(_) => Err(self.refuse(element, "text outside of <send>; remove it".to_owned())),
            };
        }
        let name = element.tag_name().name();
        let (step, kind) = match name {
            "send" => (self.send(element)?, Kind::Send),
            "recv" => match self.receive(element)? {
                Receive { message: Received::Response(200), .. }
                    if std::mem::take(&mut self.is_cancelling) =>
                {
                    return self.cancelled(element);
                }
                receive => (Step::Receive(receive), Kind::Receive),
            },
            "pause" => (self.pause(element)?, Kind::Pause),
            "nop" => {
                self.attributes(element, &STEP)?;
                (Step::Nop, Kind::Nop)
            }
            // The transactions repeat their responses by themselves.
            "timewait" | "ResponseTimeRepartition" | "CallLengthRepartition" => return Ok(()),
            // SIPp wants variables that are used once only to be listed.
            "Reference" => return Ok(()),
            "label" => return self.label(element),
            "Global" | "User" => {
                let reason = format!(
                    "<{name}>: the variables of an attempt are its own; remove it if a variable need not be shared"
                );
                return Err(self.refuse(element, reason));
            }
            name => {
                let reason = format!(
                    "<{name}> is not supported; known are send, recv, pause, nop, label, Reference and timewait"
                );
                return Err(self.refuse(element, reason));
            }
        };
        let (script, next) = self.script(element, kind)?;
        if kind == Kind::Nop && next.is_none() && script.actions.is_empty() {
            return Ok(());
        }
        if self.steps.len() == Scenario::STEPS_MAX {
            return Err(self.refuse(element, ScenarioError::TooLong.to_string()));
        }
        self.jumps.extend(next.map(|next| (self.steps.len(), next)));
        self.lines.push(self.line_of(element));
        self.scripts.push(script);
        self.steps.push(step);
        Ok(())
    }

    /// The response of a CANCEL, which its transaction takes.
    fn cancelled(&mut self, element: Element<'_, '_>) -> Result<(), SippError> {
        let (script, next) = self.script(element, Kind::Receive)?;
        match next.is_none() && script.actions.is_empty() {
            true => Ok(()),
            false => Err(self.refuse(
                element,
                "the response of a CANCEL is its transaction's; move the actions and the jump to another step".to_owned(),
            )),
        }
    }

    fn label(&mut self, element: Element<'_, '_>) -> Result<(), SippError> {
        self.attributes(element, &["id"])?;
        let Some(id) = element.attribute("id") else {
            return Err(self.refuse(element, "<label> needs the attribute `id`".to_owned()));
        };
        if self.labels.insert(id.to_owned(), self.steps.len()).is_some() {
            return Err(self.refuse(element, format!("the label `{id}` is there twice; rename one")));
        }
        Ok(())
    }

    /// Sets the steps that the jumps lead to.
    fn resolve_jumps(&mut self) -> Result<(), SippError> {
        for (step, Next { label, line }) in std::mem::take(&mut self.jumps) {
            let Some(&to) = self.labels.get(&label) else {
                let reason = format!("the jump leads to the label `{label}`, which the file does not have");
                return Err(SippError { line, reason });
            };
            if let Some(jump) = self.scripts.get_mut(step).and_then(|script| script.next.as_mut()) {
                jump.to = to;
            }
        }
        Ok(())
    }

    /// Keywords of a text that begins in this line.
    pub(super) fn keywords(&mut self, line: usize) -> Keywords<'_> {
        Keywords { lists: self.lists, names: &mut self.names, credentials: &mut self.credentials, line }
    }

    fn send(&mut self, element: Element<'_, '_>) -> Result<Step, SippError> {
        self.attributes(element, &[&STEP[..], &["retrans", "start_txn", "ack_txn"]].concat())?;
        let content = element.children().find(|child| child.is_text());
        // A comment divides the text into several nodes.
        let parts = element.children().filter(|child| child.is_text()).filter_map(|child| child.text());
        let text = parts.collect::<String>();
        let text = text.as_str();
        self.is_cancelling = text.trim_start().starts_with("CANCEL ");
        let start = content.map_or_else(|| self.line_of(element), |content| self.line_of(content));
        // The first line of the message: white space comes before it.
        let blank = text.len() - text.trim_start().len();
        let first = start + text.get(..blank).map_or(0, |blank| blank.matches('\n').count());
        let replaced = self.keywords(start).replaced(text, true);
        let replaced = replaced.map_err(|(line, reason)| SippError { line: start + line, reason })?;
        let template = Template::parse(&replaced).map_err(|error| {
            let (line, reason) = match &error {
                TemplateError::UnknownKeyword(line, name) => (*line, unknown_keyword(name)),
                TemplateError::Unclosed(line) => (*line, "`[` without `]`".to_owned()),
                TemplateError::NoBranch | TemplateError::FirstLine | TemplateError::TooLong => {
                    (1, error.to_string())
                }
            };
            SippError { line: first + line - 1, reason }
        })?;
        Ok(Step::Send(Send { template }))
    }

    fn receive(&self, element: Element<'_, '_>) -> Result<Receive, SippError> {
        let known = ["response", "request", "optional", "auth", "rrs", "response_txn", "ignoresdp"];
        self.attributes(element, &[&STEP[..], &known].concat())?;
        let message = match (element.attribute("response"), element.attribute("request")) {
            (Some(status), None) => {
                let status = status.trim().parse().ok().filter(|status| (100..700).contains(status));
                let reason = || self.refuse(element, "`response` is a status from 100 to 699".to_owned());
                Received::Response(status.ok_or_else(reason)?)
            }
            (None, Some(method)) if is_token(method) => Received::Request(method.as_bytes().into()),
            (None, Some(_)) => return Err(self.refuse(element, "`request` is one method".to_owned())),
            (Some(_), Some(_)) | (None, None) => {
                return Err(self.refuse(element, "<recv> has either `response` or `request`".to_owned()));
            }
        };
        let is_optional = self.flag(element, "optional")?;
        let is_challenge = self.flag(element, "auth")?;
        if is_challenge && !matches!(message, Received::Response(401 | 407)) {
            return Err(self.refuse(element, "`auth` belongs to a 401 or 407; remove it".to_owned()));
        }
        Ok(Receive { message, is_optional, is_challenge })
    }

    fn pause(&self, element: Element<'_, '_>) -> Result<Step, SippError> {
        let known = ["milliseconds", "distribution", "value", "min", "max", "mean", "sanity_check"];
        self.attributes(element, &[&STEP[..], &known].concat())?;
        let is_uniform = element.has_attribute("min") || element.has_attribute("max");
        let length = match element.attribute("distribution") {
            None if is_uniform => self.uniform(element)?,
            None if element.has_attribute("milliseconds") => {
                Length::Fixed(self.milliseconds(element, "milliseconds")?)
            }
            None => self.pause,
            Some("fixed") => Length::Fixed(self.milliseconds(element, "value")?),
            Some("uniform") => self.uniform(element)?,
            Some("exponential") => Length::Exponential(self.milliseconds(element, "mean")?),
            Some(other) => {
                let reason = format!(
                    "the distribution {other:?} is not supported; take fixed, uniform or exponential"
                );
                return Err(self.refuse(element, reason));
            }
        };
        Ok(Step::Pause(length))
    }

    fn uniform(&self, element: Element<'_, '_>) -> Result<Length, SippError> {
        let (least, most) = (self.milliseconds(element, "min")?, self.milliseconds(element, "max")?);
        if least > most {
            return Err(self.refuse(element, "`min` is above `max`".to_owned()));
        }
        Ok(Length::Uniform(least, most))
    }

    fn milliseconds(&self, element: Element<'_, '_>, name: &str) -> Result<Duration, SippError> {
        let value = element.attribute(name).and_then(|value| value.trim().parse::<f64>().ok());
        match value.filter(|value| (0.0..=PAUSE_MS_MAX).contains(value)) {
            Some(value) => Ok(Duration::from_secs_f64(value / 1e3)),
            None => {
                let reason = format!("`{name}` is a number of milliseconds from 0 to {PAUSE_MS_MAX}");
                Err(self.refuse(element, reason))
            }
        }
    }

    pub(super) fn flag(&self, element: Element<'_, '_>, name: &str) -> Result<bool, SippError> {
        match element.attribute(name) {
            Some("true") => Ok(true),
            Some("false") | None => Ok(false),
            Some(_) => Err(self.refuse(element, format!("`{name}` is true or false"))),
        }
    }

    /// Refuses attributes that are neither in `known` nor of SIPp's statistics.
    pub(super) fn attributes(&self, element: Element<'_, '_>, known: &[&str]) -> Result<(), SippError> {
        for attribute in element.attributes() {
            let name = attribute.name();
            if known.contains(&name) || STATISTICS.contains(&name) {
                continue;
            }
            let advice = match name {
                "ontimeout" => "a wait ends by the timers of RFC 3261, and then the attempt too; remove it",
                "lost" => "losses are not simulated; remove it",
                "timeout" => "the timers are those of RFC 3261; remove it, and give --t1 to change them",
                _ => "remove it",
            };
            let reason = format!("the attribute `{name}` of <{}>: {advice}", element.tag_name().name());
            return Err(SippError { line: line_at(self.text, attribute.range().start), reason });
        }
        Ok(())
    }

    pub(super) fn refuse(&self, element: Element<'_, '_>, reason: String) -> SippError {
        SippError { line: self.line_of(element), reason }
    }

    pub(super) fn line_of(&self, element: Element<'_, '_>) -> usize {
        line_at(self.text, element.range().start)
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Attributes of the conditions and jumps of a step.
const STEP: [&str; 5] = ["next", "test", RANDOM, "condexec", "condexec_inverse"];
/// Attribute with the share of the jumps that are done.
pub(super) const RANDOM: &str = concat!("cha", "nce");
/// Attributes of SIPp's statistics and screens, which are ignored.
const STATISTICS: [&str; 8] =
    ["rtd", "start_rtd", "repeat_rtd", "crlf", "counter", "hide", "display", "hiderest"];
/// Maximum number of nodes in a file.
const NODES_MAX: u32 = 20_000;
/// Maximum length of a pause in milliseconds: a day.
const PAUSE_MS_MAX: f64 = 86_400_000.0;
