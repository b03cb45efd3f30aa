//! Built-in scenarios.

use crate::scenario::{Receive, Received, Scenario, ScenarioError, Send, Step};
use crate::template::{Template, TemplateError};
use crate::{Length, MediaUse};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Built-in scenario. Each request that is challenged is sent again with credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classic {
    /// REGISTER of a new or refreshed binding.
    Register,
    /// REGISTER with Expires 0.
    Logout,
    /// Call: INVITE, ACK after the 200, pause, BYE.
    Call {
        /// Time between ACK and BYE.
        talk: Length,
    },
    /// Call of an unknown user: 404.
    CallNotFound,
    /// Call of a user who is not registered: 480.
    CallUnavailable,
    /// REGISTER without credentials, which are not given either: 401.
    Unauthenticated,
    /// REGISTER that is challenged, and again with credentials that are wrong: 401.
    WrongPassword,
    /// Call that a redirect server answers with 302, and that follows its Contact.
    Redirect {
        /// Time between ACK and BYE.
        talk: Length,
    },
    /// OPTIONS.
    Options,
    /// MESSAGE.
    Message,
    /// SUBSCRIBE to the user's own presence with Expires 0: a 200 and one NOTIFY (RFC 6665 §4.4.3).
    Subscribe,
    /// PUBLISH of the user's presence (RFC 3903).
    Publish,
    /// The called side of a call: 180, pause, 200, until the BYE.
    Answer {
        /// Time between 180 and 200.
        ring: Length,
    },
    /// The receiver of single requests of a method.
    AnswerSingle(&'static str),
}

/// Reason why a built-in scenario cannot be built; a test shows that it never occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassicError {
    /// A message.
    Template(TemplateError),
    /// The steps.
    Scenario(ScenarioError),
}

impl core::fmt::Display for ClassicError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Template(error) => error.fmt(f),
            Self::Scenario(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ClassicError {}

impl From<TemplateError> for ClassicError {
    fn from(error: TemplateError) -> Self {
        Self::Template(error)
    }
}

impl Classic {
    /// Steps of the scenario, with SDP that no stream follows.
    ///
    /// # Errors
    /// None that occur.
    pub fn scenario(self) -> Result<Scenario, ClassicError> {
        self.scenario_with(MediaUse::None)
    }

    /// Steps of the scenario, with the SDP of `media`.
    ///
    /// # Errors
    /// None that occur.
    pub fn scenario_with(self, media: MediaUse) -> Result<Scenario, ClassicError> {
        let session = session(media);
        let steps = match self {
            Self::Register => exchange(&register(3600), 200)?,
            Self::Logout => exchange(&register(0), 200)?,
            Self::Options => exchange(&single("OPTIONS", ""), 200)?,
            Self::Message => exchange(&single("MESSAGE", TEXT), 200)?,
            Self::Subscribe => {
                let subscribed =
                    exchange(&presence("SUBSCRIBE", "Expires: 0\nAccept: application/pidf+xml\n", ""), 200)?;
                let answer = send(&response("200 OK", "", "", ""))?;
                [subscribed, alloc::vec![request("NOTIFY", false), answer]].concat()
            }
            Self::Publish => {
                let head = "Expires: 600\nContent-Type: application/pidf+xml\n";
                exchange(&presence("PUBLISH", head, DOCUMENT), 200)?
            }
            Self::CallNotFound => invited(CALLEE, 404, &session)?,
            Self::CallUnavailable => invited(CALLEE, 480, &session)?,
            Self::Unauthenticated => exchange(&register(3600).replace("[authentication]\n", ""), 401)?,
            Self::WrongPassword => {
                let (message, is_optional) = (Received::Response(401), false);
                let challenge = Step::Receive(Receive { message, is_optional, is_challenge: true });
                let first = alloc::vec![send(&register(3600))?, challenge];
                [first, exchange(&register(3600), 401)?].concat()
            }
            Self::Call { talk } => [invited(CALLEE, 200, &session)?, established(talk)?].concat(),
            Self::Redirect { talk } => {
                let first = invited(CALLEE, 302, &session)?;
                [first, invited("[next_url]", 200, &session)?, established(talk)?].concat()
            }
            Self::Answer { ring } => answer(ring, &session)?,
            Self::AnswerSingle(method) => {
                alloc::vec![request(method, false), send(&response("200 OK", TAG, "", ""))?]
            }
        };
        Scenario::new(steps).map_err(ClassicError::Scenario)
    }
}

/// A request and its final response.
fn exchange(text: &str, status: u16) -> Result<Vec<Step>, ClassicError> {
    let message = Received::Response(status);
    Ok(alloc::vec![send(text)?, Step::Receive(Receive { message, is_optional: false, is_challenge: false }),])
}

fn invited(uri: &str, status: u16, session: &str) -> Result<Vec<Step>, ClassicError> {
    let mut steps = exchange(&invite(uri, session), status)?;
    steps.push(send(&ack())?);
    Ok(steps)
}

fn established(talk: Length) -> Result<Vec<Step>, ClassicError> {
    let mut steps = alloc::vec![Step::Pause(talk)];
    steps.extend(exchange(&in_dialog("BYE", "[authentication]\n"), 200)?);
    Ok(steps)
}

fn answer(ring: Length, session: &str) -> Result<Vec<Step>, ClassicError> {
    let contact = "Contact: <sip:callee@[local_ip]:[local_port];transport=[transport]>\n";
    let with_session = format!("{contact}Content-Type: application/sdp\n");
    Ok(alloc::vec![
        request("INVITE", false),
        send(&response("180 Ringing", TAG, contact, ""))?,
        Step::Pause(ring),
        send(&response("200 OK", TAG, &with_session, session))?,
        // A BYE can overtake the ACK, or the ACK be lost.
        request("ACK", true),
        request("BYE", false),
        send(&response("200 OK", "", "", ""))?,
    ])
}

fn send(text: &str) -> Result<Step, TemplateError> {
    Ok(Step::Send(Send { template: Template::parse(text)? }))
}

fn request(method: &str, is_optional: bool) -> Step {
    let message = Received::Request(method.as_bytes().into());
    Step::Receive(Receive { message, is_optional, is_challenge: false })
}

fn register(expires: u32) -> String {
    format!(
        "REGISTER sip:[domain] SIP/2.0\n{VIA}\
         From: <sip:[user]@[domain]>;tag=r[call_number]\n\
         To: <sip:[user]@[domain]>\n\
         Call-ID: [user_call_id]\n\
         CSeq: [user_cseq] REGISTER\n\
         Contact: <sip:[user]@[local_ip]:[local_port];transport=[transport]>\n\
         Expires: {expires}\n[authentication]\n{AGENT}\n"
    )
}

/// Head, up to the CSeq, of a request outside a dialog.
fn opening(method: &str, uri: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\n{VIA}\
         From: <sip:[user]@[domain]>;tag=c[call_number]\n\
         To: <sip:[peer]@[domain]>\n\
         Call-ID: [call_id]\n\
         CSeq: [cseq] {method}\n"
    )
}

fn single(method: &str, body: &str) -> String {
    let content = if body.is_empty() { "" } else { "Content-Type: text/plain\n" };
    let opening = opening(method, CALLEE);
    format!("{opening}[authentication]\n{content}{AGENT}\n{body}")
}

/// Request for the presence of the user itself.
fn presence(method: &str, headers: &str, body: &str) -> String {
    format!(
        "{method} sip:[user]@[domain] SIP/2.0\n{VIA}\
         From: <sip:[user]@[domain]>;tag=p[call_number]\n\
         To: <sip:[user]@[domain]>\n\
         Call-ID: [call_id]\n\
         CSeq: [cseq] {method}\n\
         Contact: <sip:[user]@[local_ip]:[local_port];transport=[transport]>\n\
         Event: presence\n[authentication]\n{headers}{AGENT}\n{body}"
    )
}

fn invite(uri: &str, session: &str) -> String {
    let opening = opening("INVITE", uri);
    format!(
        "{opening}Contact: <sip:[user]@[local_ip]:[local_port];transport=[transport]>\n\
         [authentication]\nAllow: INVITE, ACK, BYE, CANCEL, OPTIONS\n{AGENT}Content-Type: application/sdp\n\n{session}"
    )
}

fn ack() -> String {
    in_dialog("ACK", "")
}

fn in_dialog(method: &str, authentication: &str) -> String {
    format!(
        "{method} [next_url] SIP/2.0\n{VIA}[routes]\n\
         From: <sip:[user]@[domain]>;tag=c[call_number]\n\
         To: <sip:[peer]@[domain]>[peer_tag_param]\n\
         Call-ID: [call_id]\n\
         CSeq: [cseq] {method}\n{authentication}\n"
    )
}

/// `tag` is for a response to a request outside a dialog; another one has the tag already.
fn response(line: &str, tag: &str, headers: &str, body: &str) -> String {
    format!(
        "SIP/2.0 {line}\n[last_Via:]\n[last_Record-Route:]\n[last_From:]\n[last_To:]{tag}\n\
         [last_Call-ID:]\n[last_CSeq:]\n{headers}\n{body}"
    )
}

/// SDP of both sides.
fn session(media: MediaUse) -> String {
    let profile = if matches!(media, MediaUse::Srtp(_)) { "RTP/SAVP" } else { "RTP/AVP" };
    let mut session = format!(
        "{SESSION_HEAD}m=audio [media_port] {profile} 0 8 101\na=rtpmap:0 PCMU/8000\na=rtpmap:8 PCMA/8000\n\
         a=rtpmap:101 telephone-event/8000\na=ptime:20\n"
    );
    if let MediaUse::Srtp(suite) = media {
        let suite = suite.name();
        session.push_str(&format!("a=crypto:[cryptotag1audio] {suite} inline:[cryptokeyparams1audio]\n"));
    }
    if media != MediaUse::None {
        session.push_str("a=ssrc:[media_ssrc] cname:ringway-lab\n");
    }
    session
}

const CALLEE: &str = "sip:[peer]@[domain]";
const VIA: &str =
    "Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch];rport\nMax-Forwards: 70\n";
const TAG: &str = ";tag=d[call_number]";
const AGENT: &str = "User-Agent: Ringway lab\n";
/// Presence document (RFC 3863).
const DOCUMENT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:[user]@[domain]\">\n\
    <tuple id=\"t1\"><status><basic>open</basic></status><note>attempt [call_number]</note></tuple>\n</presence>\n";
const TEXT: &str = "Attempt [call_number]\n";
const SESSION_HEAD: &str = "v=0\no=- [call_number] 1 IN IP[media_ip_type] [media_ip]\ns=-\nc=IN IP[media_ip_type] [media_ip]\nt=0 0\n";

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use ringway_sdp::CryptoSuite;

    #[test]
    fn every_scenario_is_one() {
        let second = Length::Fixed(Duration::from_secs(1));
        for classic in [
            Classic::Register,
            Classic::Logout,
            Classic::Call { talk: second },
            Classic::CallNotFound,
            Classic::CallUnavailable,
            Classic::Unauthenticated,
            Classic::WrongPassword,
            Classic::Redirect { talk: second },
            Classic::Options,
            Classic::Message,
            Classic::Subscribe,
            Classic::Publish,
            Classic::Answer { ring: second },
            Classic::AnswerSingle("MESSAGE"),
        ] {
            let is_callee = matches!(classic, Classic::Answer { .. } | Classic::AnswerSingle(_));
            for media in [MediaUse::None, MediaUse::Rtp, MediaUse::Srtp(CryptoSuite::AeadAes256Gcm)] {
                let scenario = classic.scenario_with(media).unwrap();
                assert_eq!(scenario.is_caller(), !is_callee, "{classic:?}");
            }
        }
    }
}
