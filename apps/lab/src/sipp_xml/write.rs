//! Writes a scenario file.

use super::Scenario;
use ringway_load::{Length, Receive, Received, Send, Step};
use std::fmt::Write as _;
use std::time::Duration;

/// Choices for a written file.
#[derive(Clone, Copy, Debug)]
pub struct Style<'a> {
    /// Name of the scenario.
    pub name: &'a str,
    /// Domain of the users, in place of `[domain]`, which SIPp does not have.
    pub domain: &'a str,
    /// True if the server challenges each request outside a dialog: SIPp needs the challenge as a step.
    pub is_challenged: bool,
}

/// Writes a built-in scenario as a file for SIPp 3.6 and later, with the user in `[field0]`, the credentials in `[field1]` and the called user in
/// `[field2]` of the list of `-inf`.
///
/// ```
/// use ringway_lab::sipp_xml::{Style, write};
/// use ringway_load::Classic;
///
/// let style = Style { name: "register", domain: "example.org", is_challenged: true };
/// let text = write(&Classic::Register.scenario()?, style);
/// assert!(text.contains("<recv response=\"401\" auth=\"true\"/>"));
/// # Ok::<(), ringway_load::ClassicError>(())
/// ```
pub fn write(scenario: &Scenario, style: Style<'_>) -> String {
    let mut writer =
        Writer { style, out: String::new(), invite: None, is_refused: false, is_redirected: false };
    let name = escaped(style.name);
    let usage = match scenario.is_caller() {
        true => {
            "     sipp HOST:PORT -sf FILE -inf USERS -i ADDRESS -r RATE -m CALLS\n     \
             USERS: a line SEQUENTIAL, then lines `name;[authentication username=name password=secret];called user`\n"
        }
        false => "     sipp -sf FILE -i ADDRESS -p PORT\n",
    };
    writer.line("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    writer.out.push_str(&format!("<!-- Written by `ringway lab scenario`. Run it with\n{usage}-->\n"));
    writer.line(&format!("<scenario name=\"{name}\">"));
    let steps = scenario.steps();
    for (index, step) in steps.iter().enumerate() {
        let later = steps.get(index + 1..).unwrap_or_default();
        match step {
            Step::Send(send) => writer.send(send, later),
            Step::Receive(receive) => {
                let before = index.checked_sub(1).and_then(|index| steps.get(index));
                writer.receive(receive, before, later);
            }
            Step::Pause(length) => writer.pause(*length),
            Step::Nop => {}
        }
    }
    writer.line("</scenario>");
    writer.out
}

struct Writer<'a> {
    style: Style<'a>,
    out: String,
    /// Text of the last INVITE.
    invite: Option<String>,
    /// The last final response was above 299.
    is_refused: bool,
    /// The next INVITE goes to the Contact of a 3xx.
    is_redirected: bool,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn send(&mut self, send: &Send, later: &[Step]) {
        let template = &send.template;
        let mut text = self.sipp_text(template.text());
        match template.method() {
            Some("ACK") if self.is_refused => {
                let ack = ack_of_failure(self.invite.as_deref().unwrap_or(&text));
                self.message(&ack, false);
            }
            Some(method) => {
                if method == "INVITE" && std::mem::take(&mut self.is_redirected) {
                    self.line("  <nop><action><setdest host=\"[$host]\" port=\"[$port]\" protocol=\"[transport]\"/></action></nop>");
                    text = text.replacen("[next_url]", "[$target];transport=[transport]", 1);
                }
                let is_invite = method == "INVITE";
                let is_outside = !text.contains("[peer_tag_param]") && !text.contains("[$target]");
                if self.style.is_challenged && is_outside && text.contains(AUTHENTICATION) {
                    self.challenge(method, &text);
                    text = text.replace(AUTHENTICATION, "[field1]\n");
                }
                text = text.replace(AUTHENTICATION, "");
                self.message(&text, method != "ACK");
                if is_invite {
                    self.invite = Some(text);
                }
            }
            // A 200 to an INVITE, until its ACK.
            None => {
                let is_retransmitted =
                    template.status() == Some(200) && matches!(later.first(), Some(Step::Receive(_)));
                self.message(&text, is_retransmitted);
            }
        }
    }

    /// Writes a request without credentials, and its challenge.
    fn challenge(&mut self, method: &str, text: &str) {
        let text = text.replace(AUTHENTICATION, "");
        self.message(&text, true);
        let status = if method == "REGISTER" { 401 } else { 407 };
        if method == "INVITE" {
            self.line("  <recv response=\"100\" optional=\"true\"/>");
        }
        self.line(&format!("  <recv response=\"{status}\" auth=\"true\"/>"));
        if method == "INVITE" {
            self.message(&ack_of_failure(&text), false);
        }
    }

    fn message(&mut self, text: &str, is_retransmitted: bool) {
        let retrans = if is_retransmitted { " retrans=\"500\"" } else { "" };
        // A CDATA section ends with the first `]]>`.
        let text = text.trim_end().replace("]]>", "]]]]><![CDATA[>");
        self.line(&format!("  <send{retrans}><![CDATA[\n{text}\n\n]]></send>"));
    }

    fn receive(&mut self, receive: &Receive, before: Option<&Step>, later: &[Step]) {
        let optional = if receive.is_optional { " optional=\"true\"" } else { "" };
        let auth = if receive.is_challenge { " auth=\"true\"" } else { "" };
        let is_failure = matches!(receive.message, Received::Response(400..));
        let rrs =
            if !receive.is_optional && !is_failure && needs_dialog(later) { " rrs=\"true\"" } else { "" };
        let status = match &receive.message {
            Received::Request(method) => {
                let method = escaped(&String::from_utf8_lossy(method));
                return self.line(&format!("  <recv request=\"{method}\"{optional}{rrs}/>"));
            }
            Received::Response(status) => *status,
        };
        // SIPp fails a call for a provisional response that is no step.
        if matches!(before, Some(Step::Send(send)) if send.template.method() == Some("INVITE"))
            && status >= 200
        {
            for status in PROVISIONAL {
                self.line(&format!("  <recv response=\"{status}\" optional=\"true\"/>"));
            }
        }
        self.is_refused = status >= 300;
        self.is_redirected = status / 100 == 3 && !rrs.is_empty();
        if self.is_redirected {
            self.line(&format!("  <recv response=\"{status}\"><action>"));
            self.line("    <ereg regexp=\"sip:[^@]*@([0-9.]+):([0-9]+)\" search_in=\"hdr\" header=\"Contact:\" check_it=\"true\" assign_to=\"target,host,port\"/>");
            return self.line("  </action></recv>");
        }
        self.line(&format!("  <recv response=\"{status}\"{optional}{auth}{rrs}/>"));
    }

    fn pause(&mut self, length: Length) {
        let ms = |length: Duration| length.as_secs_f64() * 1e3;
        // Writing into a string does not fail.
        let _ = match length {
            Length::Fixed(length) => writeln!(self.out, "  <pause milliseconds=\"{}\"/>", ms(length)),
            Length::Uniform(least, most) => {
                let (least, most) = (ms(least), ms(most));
                writeln!(self.out, "  <pause distribution=\"uniform\" min=\"{least}\" max=\"{most}\"/>")
            }
            Length::Exponential(mean) => {
                writeln!(self.out, "  <pause distribution=\"exponential\" mean=\"{}\"/>", ms(mean))
            }
        };
    }

    /// The text with SIPp's keywords only.
    fn sipp_text(&self, text: &str) -> String {
        text.replace("\r\n", "\n")
            .replace("[domain]", self.style.domain)
            .replace("[user]", "[field0]")
            .replace("[peer]", "[field2]")
            .replace("[user_call_id]", "[call_id]")
            .replace("[user_cseq]", "[cseq]")
    }
}

/// ACK of an INVITE that failed: same URI, From, Call-ID and branch (RFC 3261 §17.1.1.3).
fn ack_of_failure(invite: &str) -> String {
    let uri = invite.split(' ').nth(1).unwrap_or("[next_url]");
    let from = invite.lines().find(|line| line.starts_with("From:")).unwrap_or("[last_From:]");
    format!(
        "ACK {uri} SIP/2.0\n[last_Via:]\nMax-Forwards: 70\n{from}\n[last_To:]\nCall-ID: [call_id]\nCSeq: [cseq] ACK\n\
         Content-Length: 0\n"
    )
}

/// True if a later message needs the route set or the Contact of a received one.
fn needs_dialog(later: &[Step]) -> bool {
    later.iter().any(|step| match step {
        Step::Send(send) => {
            let text = send.template.text();
            text.contains("[next_url]") || text.contains("[routes]")
        }
        Step::Receive(_) | Step::Pause(_) | Step::Nop => false,
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

const AUTHENTICATION: &str = "[authentication]\n";
/// Provisional responses to an INVITE.
const PROVISIONAL: [u16; 3] = [100, 180, 183];
