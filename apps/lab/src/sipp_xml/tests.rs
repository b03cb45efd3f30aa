use super::*;
use ringway_load::{Classic, Length, Receive, Received, Step, User};
use ringway_sansio::{Rng, Seed};
use std::time::Duration;

const PAUSE: Length = Length::Fixed(Duration::from_millis(70));
const TALK: Length = Length::Uniform(Duration::from_millis(10), Duration::from_millis(30));
const STYLE: Style<'static> =
    Style { name: "a \"call\" & <more>", domain: "example.org", is_challenged: false };

/// A caller with everything that is ignored and everything that is read.
const CALLER: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<!DOCTYPE scenario SYSTEM "sipp.dtd">
<!-- A caller. -->
<scenario name="caller">
  <send retrans="500" start_rtd="1">
    <![CDATA[

      INVITE sip:[field2]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:[field0]@[remote_ip]>;tag=[pid]-[call_number]
      To: <sip:[field2]@[remote_ip]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Content-Length: [len]

      v=0
      m=audio [auto_media_port] RTP/AVP 0

    ]]>
  </send>
  <recv response="100" optional="true" hide="true"></recv>
  <recv response="407" auth="true"/>
  <send><![CDATA[
      ACK sip:[field2]@[remote_ip] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch-2]
      CSeq: 1 ACK
  ]]></send>
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      CSeq: 2 INVITE
      [authentication username=[field0]  password=[field1]]
  ]]></send>
  <recv response="200" rtd="1" crlf="true" rrs="true"/>
  <nop display="now"/>
  <pause/>
  <pause milliseconds=" 20.5 "/>
  <pause distribution="fixed" value="7"/>
  <pause distribution="uniform" min="10" max="30"/>
  <pause min="10" max="30"/>
  <pause distribution="exponential" mean="9"/>
  <timewait milliseconds="4000"/>
  <ResponseTimeRepartition value="10, 20"/>
  <CallLengthRepartition value="10, 20"/>
</scenario>
"#;

fn error(text: &str) -> SippError {
    read(text, PAUSE).unwrap_err()
}

/// Error of a scenario with these lines, from line 2 on.
fn error_of(lines: &str) -> (usize, String) {
    let SippError { line, reason } = error(&format!("<scenario>\n{lines}\n</scenario>"));
    (line, reason)
}

#[test]
fn each_step_of_a_file_is_read() {
    let scenario = read(CALLER, PAUSE).unwrap();
    let steps = scenario.steps();
    let pauses: Vec<Length> = steps
        .iter()
        .filter_map(|step| if let Step::Pause(length) = step { Some(*length) } else { None })
        .collect();
    let ms = Duration::from_millis;
    assert_eq!(
        pauses,
        [
            PAUSE,
            Length::Fixed(Duration::from_micros(20_500)),
            Length::Fixed(ms(7)),
            TALK,
            TALK,
            Length::Exponential(ms(9))
        ]
    );
    let received: Vec<&Receive> = steps
        .iter()
        .filter_map(|step| if let Step::Receive(one) = step { Some(one) } else { None })
        .collect();
    let expected = |status, is_optional, is_challenge| Receive {
        message: Received::Response(status),
        is_optional,
        is_challenge,
    };
    assert_eq!(
        received,
        [&expected(100, true, false), &expected(407, false, true), &expected(200, false, false)]
    );
    let texts: Vec<&str> = steps
        .iter()
        .filter_map(|step| if let Step::Send(send) = step { Some(send.template.text()) } else { None })
        .collect();
    assert!(
        texts[0].contains("\r\nTo: <sip:[peer]@[remote_ip]>\r\n")
            && texts[0].ends_with("\r\n\r\nv=0\r\nm=audio [auto_media_port] RTP/AVP 0\r\n")
    );
    assert!(texts[1].contains("branch=[branch]\r\n"));
    assert!(texts[2].contains("\r\n[authentication]\r\n"));
    assert_eq!((texts.len(), steps.len(), scenario.is_caller()), (3, 12, true));
}

#[test]
fn what_is_not_supported_is_refused_with_its_line_and_advice() {
    let send = "<send><![CDATA[\n\n  BYE sip:x SIP/2.0\n  Via: v;branch=[branch]\n";
    for (lines, line, advice) in [
        ("<label id='1'/>", 2, "jumps are not supported"),
        ("<Global variables='a'/>", 2, "variables are not supported"),
        ("<sendCmd/>", 2, "<sendCmd> is not supported; known are send"),
        ("words", 1, "text outside of <send>"),
        ("<recv response='200'\n next='1'/>", 3, "`next` of <recv>: jumps are not supported"),
        ("<recv response='200' timeout='5'/>", 2, "--t1"),
        ("<send lost='10'/>", 2, "losses are not simulated"),
        ("<send colour='red'/>", 2, "the attribute `colour` of <send>: remove it"),
        ("<recv response='200'>\n<action>\n<ereg/></action></recv>", 4, "<ereg>: actions are not supported"),
        ("<nop>\n<action>\n\n<exec/></action></nop>", 5, "<exec>: actions are not supported"),
        ("<recv/>", 2, "either `response` or `request`"),
        ("<recv response='200' request='BYE'/>", 2, "either `response` or `request`"),
        ("<recv response='99'/>", 2, "from 100 to 699"),
        ("<recv request='BYE ACK'/>", 2, "one method"),
        ("<recv response='200' optional='global'/>", 2, "`optional` is true or false"),
        ("<recv response='200' auth='true'/>", 2, "401 or 407"),
        ("<pause milliseconds='-1'/>", 2, "`milliseconds` is a number"),
        ("<pause milliseconds='NaN'/>", 2, "`milliseconds` is a number"),
        ("<pause milliseconds='1e12'/>", 2, "`milliseconds` is a number"),
        ("<pause distribution='fixed'/>", 2, "`value` is a number"),
        ("<pause distribution='normal' mean='1'/>", 2, "take fixed, uniform or exponential"),
        ("<pause min='3' max='2'/>", 2, "`min` is above `max`"),
        ("<pause variable='1'/>", 2, "`variable`"),
        ("\n<send/>", 3, "first line is neither"),
        ("<send><![CDATA[\n\nBYE sip:x SIP/2.0\n]]></send>", 4, "no `[branch]`"),
        (&format!("{send}X: [$1]\n]]></send>"), 6, "unknown keyword `[$1]`: variables"),
        (&format!("{send}X: [field3]\n]]></send>"), 6, "`[field3]`: the columns"),
        (&format!("{send}\n[media_port+2]\n]]></send>"), 7, "`[media_port+2]`: remove it"),
        (&format!("{send}[authentication username=joe]\n]]></send>"), 6, "--users-file"),
        (&format!("{send}[branch\n]]></send>"), 6, "`[` without `]`"),
        ("<recv response='200'/>", 2, "begins with a request"),
        ("<recv request='BYE'/>\n<recv response='200'/>", 3, "a response without a request"),
        ("<recv request='BYE'/>\n<recv request='ACK' optional='true'/>", 3, "mandatory one behind it"),
    ] {
        let (found, reason) = error_of(lines);
        assert!(found == line && reason.contains(advice), "{lines}: {found}: {reason}");
    }
    assert!(error("<scenario>\n<send></scenario>").reason.contains("not well-formed XML"));
    assert_eq!(error("<scenario>\n<send></scenario>").line, 2);
    assert!(error("<html/>").reason.contains("no <scenario>"));
    assert!(error("").reason.contains("not well-formed XML"));
}

#[test]
fn limits_hold_and_entities_are_refused() {
    let step = "<pause/>\n";
    let (line, reason) = error_of(&format!("<recv request='BYE'/>\n{}", step.repeat(Scenario::STEPS_MAX)));
    assert_eq!((line, reason.as_str()), (Scenario::STEPS_MAX + 2, "a scenario has at most 256 steps"));
    assert!(error_of(&"<nop/>".repeat(20_000)).1.contains("not well-formed XML: nodes limit"));
    assert!(error(&"x".repeat(FILE_BYTES_MAX + 1)).reason.contains("more than 1048576 bytes"));
    let entities = "<!DOCTYPE s [\n<!ENTITY a 'aaaa'>\n<!ENTITY b '&a;&a;'>]>\n<scenario>&b;</scenario>";
    assert_eq!(
        error(entities),
        SippError { line: 2, reason: "entities are not supported; write their text itself".into() }
    );
    assert!(
        error("<!DOCTYPE s SYSTEM '/etc/passwd'><scenario>&x;</scenario>").reason.contains("not well-formed")
    );
    let deep = format!("{}{}", "<a>".repeat(5_000), "</a>".repeat(5_000));
    assert!(error_of(&deep).1.contains("<a> is not supported"));
}

#[test]
fn a_written_scenario_is_read_as_the_same() {
    for classic in [
        Classic::Register,
        Classic::Logout,
        Classic::Call { talk: TALK },
        Classic::CallNotFound,
        Classic::Options,
        Classic::Message,
        Classic::Answer { ring: PAUSE },
        Classic::AnswerSingle("MESSAGE"),
    ] {
        let scenario = classic.scenario().unwrap();
        let text = write(&scenario, STYLE);
        let again = read(&text, TALK).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        assert_eq!(scenario.is_caller(), again.is_caller());
        assert_eq!(write(&again, STYLE), text);
        let challenged = write(&scenario, Style { is_challenged: true, ..STYLE });
        let has_challenge = scenario.is_caller();
        assert_eq!(challenged.matches("auth=\"true\"").count(), usize::from(has_challenge), "{challenged}");
        assert_eq!(challenged.matches("[field1]").count(), usize::from(has_challenge), "{challenged}");
        read(&challenged, TALK).unwrap_or_else(|error| panic!("{error}:\n{challenged}"));
        assert!(!text.contains("[domain]") && !text.contains("[user]"), "{text}");
    }
}

#[test]
fn a_redirected_call_is_written_with_the_actions_that_sipp_needs() {
    let text = write(&Classic::Redirect { talk: TALK }.scenario().unwrap(), STYLE);
    assert!(text.contains("INVITE [$target];transport=[transport] SIP/2.0"), "{text}");
    assert_eq!(text.matches("<setdest ").count(), 1);
    assert_eq!(text.matches("rrs=\"true\"").count(), 1);
}

#[test]
fn the_end_of_a_section_inside_a_message_is_kept() {
    let text = "<scenario><send>MESSAGE sip:x SIP/2.0\nVia: v;branch=[branch]\n\n a]]&gt;b &amp; c</send></scenario>";
    let written = write(&read(text, PAUSE).unwrap(), STYLE);
    let again = read(&written, PAUSE).unwrap();
    let Some(Step::Send(send)) = again.steps().first() else { panic!("no step") };
    assert!(send.template.text().ends_with("\r\na]]>b & c\r\n"), "{written}");
}

#[test]
fn the_response_of_a_cancel_is_no_step() {
    let send = |method: &str| format!("<send>{method} sip:x SIP/2.0\nVia: v;branch=[branch]\n\n</send>");
    let text = format!(
        "<scenario>{}<recv response='180'/>{}<recv response='200'/><recv response='487'/>{}<recv response='200'/></scenario>",
        send("INVITE"),
        send("CANCEL"),
        send("OPTIONS"),
    );
    let steps: Vec<String> = read(&text, PAUSE)
        .unwrap()
        .steps()
        .iter()
        .map(|step| match step {
            Step::Receive(receive) => format!("{:?}", receive.message),
            Step::Send(_) | Step::Pause(_) => "send".into(),
        })
        .collect();
    assert_eq!(steps, ["send", "Response(180)", "send", "Response(487)", "send", "Response(200)"]);
}

#[test]
fn lists_are_read_or_refused_with_their_line() {
    let user = |name: &str, password: &str| User { name: name.into(), password: password.into() };
    let list =
        read_list("SEQUENTIAL\r\n# two\na;[authentication username=a password=x];b\n\nb;y;a;\n").unwrap();
    assert_eq!(list.users, [user("a", "x"), user("b", "y")]);
    assert_eq!(list.called, [user("b", "y"), user("a", "x")]);
    let list = read_list("SEQUENTIAL\na\nb;\n").unwrap();
    assert_eq!((list.users.len(), list.called.len()), (2, 0));
    for (text, line, advice) in [
        ("RANDOM\na", 1, "SEQUENTIAL"),
        ("", 1, "SEQUENTIAL"),
        ("SEQUENTIAL\na;b;c\nd", 3, "called user"),
        ("SEQUENTIAL\na\nd;e;f", 3, "called user"),
        ("SEQUENTIAL\na;b;c;d", 2, "remove the others"),
        ("SEQUENTIAL\na;[authentication username=b]", 2, "another user"),
        ("SEQUENTIAL\na;[authentication aka_K=1]", 2, "username and password"),
        ("SEQUENTIAL\na;[authentication", 2, "without `]`"),
    ] {
        let error = read_list(text).unwrap_err();
        assert!(error.line == line && error.reason.contains(advice), "{text}: {error}");
    }
    assert!(is_list("USER\n") && is_list("SEQUENTIAL,PRINTF=9\n") && !is_list("user,password\n"));
}

#[test]
fn truncated_and_changed_files_do_no_harm() {
    let samples = [
        CALLER,
        include_str!("../../../../tests/interop/sipp/answer.xml"),
        include_str!("../../../../tests/interop/sipp/load-register.xml"),
        &write(&Classic::Call { talk: TALK }.scenario().unwrap(), STYLE),
    ];
    let mut rng = Rng::new(&Seed::from_number(12));
    let mut is_read = 0;
    for sample in samples {
        for end in (0..sample.len()).filter(|&end| sample.is_char_boundary(end)) {
            assert!(read(&sample[..end], PAUSE).is_err() || sample[end..].trim().is_empty());
        }
        for _ in 0..3_000 {
            let mut bytes = sample.as_bytes().to_vec();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(3) {
                    0 => bytes[at] = b"<>[]!&;\"'-/ \n\0a9"[rng.below(16) as usize],
                    1 => drop(bytes.remove(at)),
                    _ => {
                        let end = (at + rng.below(200) as usize).min(bytes.len());
                        let copied = bytes[at..end].to_vec();
                        let to = rng.below(bytes.len() as u64) as usize;
                        bytes.splice(to..to, copied);
                    }
                }
            }
            if let Ok(text) = String::from_utf8(bytes) {
                match read(&text, PAUSE) {
                    Ok(scenario) => {
                        is_read += 1;
                        write(&scenario, STYLE);
                    }
                    Err(error) => assert!(error.line <= text.matches('\n').count() + 1, "{error}:\n{text}"),
                }
            }
        }
    }
    assert!(is_read > 1_000, "{is_read}: the changes are too coarse");
}

#[test]
fn a_comment_inside_of_a_message_takes_nothing_from_it() {
    let text = |comment: &str| {
        format!(
            "<scenario><send><![CDATA[\nOPTIONS sip:x SIP/2.0\nVia: v;branch=[branch]\n]]>{comment}<![CDATA[Subject: y\n]]></send>\
             <recv response=\"200\"/></scenario>"
        )
    };
    let [whole, divided] = ["", "<!-- more -->"].map(|comment| read(&text(comment), PAUSE).unwrap());
    assert_eq!(format!("{:?}", whole.steps()), format!("{:?}", divided.steps()));
}
