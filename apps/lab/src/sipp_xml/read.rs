//! Reads a scenario file.

use super::Scenario;
use ringway_load::{Length, Receive, Received, ScenarioError, Send, Step, Template, TemplateError};
use roxmltree::{Document, Node, ParsingOptions};
use std::borrow::Cow;
use std::time::Duration;

/// Maximum length of a file in bytes.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Reason why a scenario file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SippError {
    /// Line, from 1 on.
    pub line: usize,
    /// Reason and remedy.
    pub reason: String,
}

impl std::fmt::Display for SippError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for SippError {}

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
/// assert_eq!(read("<scenario>\n<label id='1'/>\n</scenario>", pause).unwrap_err().line, 2);
/// # Ok::<(), ringway_lab::sipp_xml::SippError>(())
/// ```
///
/// # Errors
/// Text that is no XML, an element or attribute that is not supported, a message or an order of steps that makes no sense.
pub fn read(text: &str, pause: Length) -> Result<Scenario, SippError> {
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
    let mut reader = Reader { text, pause, steps: Vec::new(), lines: Vec::new(), is_cancelling: false };
    if root.tag_name().name() != "scenario" {
        return Err(
            reader.refuse(root, "the file has no <scenario>; give a scenario file of SIPp".to_owned())
        );
    }
    for element in root.children() {
        reader.element(element)?;
    }
    let Reader { steps, lines, .. } = reader;
    Scenario::new(steps).map_err(|error| {
        let step = match error {
            ScenarioError::Beginning => 1,
            ScenarioError::TooLong => Scenario::STEPS_MAX + 1,
            ScenarioError::NoRequest(step) | ScenarioError::Optional(step) => step,
        };
        let line = lines.get(step - 1).copied().unwrap_or(1);
        SippError { line, reason: error.to_string() }
    })
}

struct Reader<'t> {
    text: &'t str,
    pause: Length,
    steps: Vec<Step>,
    /// Line of each step.
    lines: Vec<usize>,
    /// The last message is a CANCEL, whose response its transaction takes.
    is_cancelling: bool,
}

type Element<'a, 't> = Node<'a, 't>;

impl Reader<'_> {
    fn element(&mut self, element: Element<'_, '_>) -> Result<(), SippError> {
        if !element.is_element() {
            return match element.text().filter(|_| element.is_text()).map(str::trim) {
                Some("") | None => Ok(()),
                Some(_) => Err(self.refuse(element, "text outside of <send>; remove it".to_owned())),
            };
        }
        let step = match element.tag_name().name() {
            "send" => Some(self.send(element)?),
            "recv" => match self.receive(element)? {
                Receive { message: Received::Response(200), .. }
                    if std::mem::take(&mut self.is_cancelling) =>
                {
                    None
                }
                receive => Some(Step::Receive(receive)),
            },
            "pause" => Some(self.pause(element)?),
            "nop" => {
                self.attributes(element, &[])?;
                self.no_action(element)?;
                None
            }
            // The transactions repeat their responses by themselves.
            "timewait" | "ResponseTimeRepartition" | "CallLengthRepartition" => None,
            "label" => {
                let reason = "jumps are not supported: the steps are done in their order; remove <label> and each `next`";
                return Err(self.refuse(element, reason.to_owned()));
            }
            name @ ("Global" | "User" | "Reference" | "init") => {
                let reason = format!("variables are not supported; remove <{name}> and what uses them");
                return Err(self.refuse(element, reason));
            }
            name => {
                let reason =
                    format!("<{name}> is not supported; known are send, recv, pause, nop and timewait");
                return Err(self.refuse(element, reason));
            }
        };
        if let Some(step) = step {
            if self.steps.len() == Scenario::STEPS_MAX {
                return Err(self.refuse(element, ScenarioError::TooLong.to_string()));
            }
            self.lines.push(self.line_of(element));
            self.steps.push(step);
        }
        Ok(())
    }

    fn send(&mut self, element: Element<'_, '_>) -> Result<Step, SippError> {
        self.attributes(element, &["retrans", "start_txn", "ack_txn"])?;
        self.no_action(element)?;
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
        let template = Template::parse(&with_our_keywords(text)).map_err(|error| {
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
        self.attributes(element, &known)?;
        self.no_action(element)?;
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
        self.attributes(element, &known)?;
        self.no_action(element)?;
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

    fn flag(&self, element: Element<'_, '_>, name: &str) -> Result<bool, SippError> {
        match element.attribute(name) {
            Some("true") => Ok(true),
            Some("false") | None => Ok(false),
            Some(_) => Err(self.refuse(element, format!("`{name}` is true or false"))),
        }
    }

    /// Refuses attributes that are neither in `known` nor of SIPp's statistics.
    fn attributes(&self, element: Element<'_, '_>, known: &[&str]) -> Result<(), SippError> {
        for attribute in element.attributes() {
            let name = attribute.name();
            if known.contains(&name) || STATISTICS.contains(&name) {
                continue;
            }
            let advice = match name {
                "next" | "test" | "condexec" | "condexec_inverse" | "ontimeout" => {
                    "jumps are not supported; remove it"
                }
                "lost" => "losses are not simulated; remove it",
                "timeout" => "the timers are those of RFC 3261; remove it, and give --t1 to change them",
                _ => "remove it",
            };
            let reason = format!("the attribute `{name}` of <{}>: {advice}", element.tag_name().name());
            return Err(SippError { line: line_at(self.text, attribute.range().start), reason });
        }
        Ok(())
    }

    /// Refuses elements inside a step.
    fn no_action(&self, element: Element<'_, '_>) -> Result<(), SippError> {
        let child = element.children().find(Node::is_element);
        let Some(child) = child else { return Ok(()) };
        let action = child.children().find(Node::is_element).unwrap_or(child);
        let reason = format!(
            "<{}>: actions are not supported (regular expressions, variables, media, commands); remove it",
            action.tag_name().name()
        );
        Err(self.refuse(action, reason))
    }

    fn refuse(&self, element: Element<'_, '_>, reason: String) -> SippError {
        SippError { line: self.line_of(element), reason }
    }

    fn line_of(&self, element: Element<'_, '_>) -> usize {
        line_at(self.text, element.range().start)
    }
}

fn line_at(text: &str, at: usize) -> usize {
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The message with SIPp's columns of a list of users and its branches as keywords of ours.
fn with_our_keywords(text: &str) -> String {
    let text_start = text.trim_start();
    let has_own_branch = text_start.starts_with("ACK ") || text_start.starts_with("CANCEL ");
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, bracketed)) = rest.split_once('[') {
        out.push_str(before);
        let end = keyword_end(bracketed);
        let (Some(keyword), Some(after)) = (bracketed.get(..end), bracketed.get(end..)) else { break };
        out.push('[');
        out.push_str(&our_keyword(keyword, has_own_branch));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Position of the `]` that ends a keyword; keywords can be inside of it.
fn keyword_end(bracketed: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in bracketed.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' if depth == 0 => return at,
            ']' => depth -= 1,
            '\n' => return at,
            _ => {}
        }
    }
    bracketed.len()
}

fn our_keyword(keyword: &str, has_own_branch: bool) -> Cow<'_, str> {
    let words: String = keyword.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.as_str() {
        "field1" | "authentication username=[field0] password=[field1]" => "authentication".into(),
        "field2" => "peer".into(),
        // The ACK of a failed INVITE and the CANCEL are sent by its transaction, the ACK of a 2xx has a branch of its own.
        _ if has_own_branch && keyword.starts_with("branch-") => "branch".into(),
        _ => keyword.into(),
    }
}

fn unknown_keyword(name: &str) -> String {
    let advice = match name {
        _ if name.starts_with("authentication") => {
            "write [authentication], and give the users' passwords with --users-file or --password-file"
        }
        _ if name.starts_with("field") => {
            "the columns of a list are [field0], the user, [field1], `[authentication …]`, and [field2], the called user"
        }
        _ if name.starts_with('$') => "variables are not supported; write the value itself",
        _ => "remove it or write the value itself",
    };
    format!("unknown keyword `[{name}]`: {advice}")
}

/// Attributes of SIPp's statistics and screens, which are ignored.
const STATISTICS: [&str; 8] =
    ["rtd", "start_rtd", "repeat_rtd", "crlf", "counter", "hide", "display", "hiderest"];
/// Maximum number of nodes in a file.
const NODES_MAX: u32 = 20_000;
/// Maximum length of a pause in milliseconds: a day.
const PAUSE_MS_MAX: f64 = 86_400_000.0;
