use super::read::RANDOM;
use super::*;
use crate::capture::tests::{Order, ip, pcap};
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
        ("<label/>", 2, "needs the attribute `id`"),
        ("<label id='1'/>\n<label id='1'/>", 3, "the label `1` is there twice"),
        ("<Global variables='a'/>", 2, "variables of an attempt are its own"),
        ("<sendCmd/>", 2, "<sendCmd> is not supported; known are send"),
        ("words", 1, "text outside of <send>"),
        ("<recv response='200'\n next='1'/>", 2, "leads to the label `1`, which the file does not have"),
        ("<recv response='200' test='a'/>", 2, "`test` belongs to a jump"),
        (
            concat!("<recv response='200' next='1' cha", "nce='2'/>"),
            2,
            concat!("`cha", "nce` is a number from 0 to 1"),
        ),
        ("<recv response='200' condexec='1'/>", 2, "jump over it with `next` and `test`"),
        ("<recv response='200' ontimeout='1'/>", 2, "a wait ends by the timers"),
        ("<nop><action><log message='[$a]'/></action></nop>", 2, "no action sets the variable `a`"),
        ("<nop><action><log message='[x]'/></action></nop>", 2, "unknown keyword `[x]`"),
        ("<nop><action><log/></action></nop>", 2, "<log> needs the attribute `message`"),
        ("<nop><action><log message='x' colour='y'/></action></nop>", 2, "the attribute `colour` of <log>"),
        (
            "<nop><action><assign assign_to='a b' value='1'/></action></nop>",
            2,
            "letters, digits and underscores",
        ),
        ("<nop><action><assign assign_to='a' value='x'/></action></nop>", 2, "a number in `value`"),
        ("<nop><action><divide assign_to='a' value='0'/></action></nop>", 2, "division by 0"),
        (
            "<nop><action><test assign_to='a' variable='b' compare='less' value='1'/></action></nop>",
            2,
            "`compare` is equal",
        ),
        ("<pause><action><log message='x'/></action></pause>", 2, "a pause has no actions"),
        ("<nop><fun/></nop>", 2, "known is <action>"),
        (
            "<nop><action><setdest/></action></nop>",
            2,
            "<setdest> is not supported: messages go to the server",
        ),
        ("<nop><action><sing/></action></nop>", 2, "<sing> is not supported; known are ereg"),
        ("<nop><action><ereg regexp='a' assign_to='b'/></action></nop>", 2, "belongs to the <recv>"),
        (
            "<recv response='200'><action><ereg regexp='(' assign_to='b'/></action></recv>",
            2,
            "not a regular expression",
        ),
        (
            "<recv response='200'><action><ereg regexp='a' assign_to='b' search_in='all'/></action></recv>",
            2,
            "`search_in` is",
        ),
        (
            "<recv response='200'><action><ereg regexp='a' search_in='hdr' assign_to='b'/></action></recv>",
            2,
            "`header`",
        ),
        (
            "<recv response='200'><action><ereg regexp='a' assign_to='a,b,c,d,e,f,g,h,i,j,k'/></action></recv>",
            2,
            "more than 10",
        ),
        ("<recv response='200' timeout='5'/>", 2, "--t1"),
        ("<send lost='10'/>", 2, "losses are not simulated"),
        ("<send colour='red'/>", 2, "the attribute `colour` of <send>: remove it"),
        (
            "<recv response='200'>\n<action>\n<ereg/></action></recv>",
            4,
            "<ereg> needs the attribute `regexp`",
        ),
        ("<nop>\n<action>\n\n<exec/></action></nop>", 5, "<exec> is not supported: commands are not run"),
        (
            "<nop>\n<action><exec command='id'/></action></nop>",
            3,
            "<exec> is not supported: commands are not run",
        ),
        (
            "<nop><action><exec play_pcap_video='a.pcap'/></action></nop>",
            2,
            "only `play_pcap_audio` is played",
        ),
        (
            "<nop><action><exec play_pcap_audio='a.pcap' command='id'/></action></nop>",
            2,
            "the attribute `command` of <exec>",
        ),
        (
            "<nop>\n<action><exec play_pcap_audio='/nowhere/a.pcap'/></action></nop>",
            3,
            "/nowhere/a.pcap: No such file",
        ),
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
        (&format!("{send}X: [$1]\n]]></send>"), 6, "no action sets the variable `1`"),
        (&format!("{send}X: [field3]\n]]></send>"), 6, "`[field3]`: without a list of SIPp"),
        (&format!("{send}X: [fields]\n]]></send>"), 6, "unknown keyword `[fields]`"),
        (&format!("{send}X: [field0 file=\"a.csv\"]\n]]></send>"), 6, "names the list \"a.csv\""),
        (&format!("{send}X: [field0 line=3]\n]]></send>"), 6, "`line=3` of a field"),
        (&format!("{send}\n[user+2]\n]]></send>"), 7, "`[user+2]`: remove it"),
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
            Step::Send(_) | Step::Pause(_) | Step::Nop => "send".into(),
        })
        .collect();
    assert_eq!(steps, ["send", "Response(180)", "send", "Response(487)", "send", "Response(200)"]);
}

#[test]
fn lists_are_read_or_refused_with_their_line() {
    let user = |name: &str, password: &str| User { name: name.into(), password: password.into() };
    let list = |text: &str| read_list(text).unwrap().users(None).unwrap();
    let two = list(
        "SEQUENTIAL\r\n# two\na;[authentication username=a password=x];b\n\nb;[authentication password=y];a;\n",
    );
    assert_eq!(
        (two.users, two.called),
        (vec![user("a", "x"), user("b", "y")], vec![user("b", "y"), user("a", "x")])
    );
    let plain = list("RANDOM\na;x\nb;\n");
    assert_eq!((plain.users, plain.called), (vec![user("a", "x"), user("b", "")], vec![]));
    // Other columns than those of credentials are fields only.
    let wide = read_list("USER\na;1;;4;[authentication username=joe password=p]").unwrap();
    assert_eq!((wide.columns(), wide.credentials(), wide.has_called()), (5, Some(4), false));
    assert_eq!(wide.users(None).unwrap().users, [user("joe", "p")]);
    let columns = CredentialColumns { name: 3, password: 1 };
    assert_eq!(wide.users(Some(columns)).unwrap().users, [user("4", "1")]);
    let numbered = list("SEQUENTIAL,PRINTF=3,PRINTFOFFSET=10,PRINTFMULTIPLE=5\nu%04d;p%d");
    assert_eq!(numbered.users, [user("u0010", "p10"), user("u0015", "p15"), user("u0020", "p20")]);
    for (text, line, advice) in [
        ("SHUFFLED\na", 1, "known are SEQUENTIAL, RANDOM"),
        ("PRINTF=2\na", 1, "SEQUENTIAL, RANDOM or USER; write one"),
        ("SEQUENTIAL,PRINTF=x\na", 1, "`PRINTF=x`: give a number"),
        ("SEQUENTIAL,PRINTF=1000001\na", 1, "up to 1000000"),
        ("SEQUENTIAL,PRINTF=0\na", 1, "no line"),
        ("", 1, "known are SEQUENTIAL"),
        ("SEQUENTIAL\n\n#", 1, "no line"),
        (&format!("SEQUENTIAL\na\n{}", ";".repeat(64)), 3, "more than 64 columns"),
        ("SEQUENTIAL\na;[authentication aka_K=1]", 2, "username and password"),
        ("SEQUENTIAL\n\na;[authentication", 3, "without `]`"),
    ] {
        let error = read_list(text).and_then(|list| list.users(None)).unwrap_err();
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
        include_str!("../../../../tests/interop/sipp/watch.xml"),
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

#[test]
fn actions_and_jumps_are_read() {
    let text = "<scenario>
      <Reference variables='unused'/>
      <nop><action><assign assign_to='count' value='1'/><assign assign_to='copy' variable='count'/></action></nop>
      <label id='again'/>
      <send next='end' test='done' SHARE='0.25'>OPTIONS sip:x SIP/2.0\nVia: v;branch=[branch]\nX: [$text] [cseq+1]\n\n</send>
      <recv response='200'><action>
        <ereg regexp='(a)(b)' search_in='hdr' header='CSeq:' case_indep='true' occurrence='2' start_line='true' check_it='true'
          assign_to='text,first'/>
        <ereg regexp='x' search_in='var' variable='text' check_it_inverse='true' assign_to='other'/>
        <assignstr assign_to='text' value='[$first]-[user]'/>
        <add assign_to='count' value='1'/><subtract assign_to='count' variable='copy'/>
        <multiply assign_to='count' value='2'/><divide assign_to='count' value='2'/>
        <todouble assign_to='number' variable='text'/>
        <test assign_to='done' variable='count' compare='greater_than_equal' value='3'/>
        <strcmp assign_to='same' variable='text' value='abc'/><strcmp assign_to='same' variable='text' variable2='first'/>
        <log message='[$text]'/><warning message='done'/>
      </action></recv>
      <pause milliseconds='1' next='again' condexec='done' condexec_inverse='true'/>
      <label id='end'/>
    </scenario>".replace("SHARE", RANDOM);
    let scenario = read(&text, PAUSE).unwrap();
    assert_eq!((scenario.steps().len(), scenario.is_caller()), (4, true));
    let said = format!("{scenario:?}");
    for part in [
        "Jump { to: 4, test: Some(Variable(3)), random_ppm: 250000 }",
        "Jump { to: 1, test: None, random_ppm: 1000000 }",
        "condition: Some((Variable(3), false))",
        "is_any_case: true, is_at_line_start: true, occurrence: 2",
        "check: NoMatch",
        "Keyword(Sum(CSeq, 1))",
        "GreaterOrEqual, Number(3.0)",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let endless = "<scenario><send>OPTIONS sip:x SIP/2.0\nVia: v;branch=[branch]\n\n</send><recv response='200'/>\n<label id='1'/>\n<nop next='1'/></scenario>";
    assert_eq!((error(endless).line, error(endless).reason.contains("endless loop")), (6, true));
}

#[test]
fn fields_are_those_of_the_lists() {
    let mut lists = InputLists::default();
    let list = |text| read_list(text).unwrap();
    lists.add("users.csv".into(), list("SEQUENTIAL\na;sip:a@x;b;p;[authentication username=a password=p]\n"));
    lists.add("more.csv".into(), list("RANDOM\nx;y\n"));
    let message = |words: &str| {
        let text = format!(
            "<scenario><send>OPTIONS sip:x SIP/2.0\nVia: v;branch=[branch]\nX: {words}\n\n</send><recv response='200'/></scenario>"
        );
        read_with(&text, PAUSE, &lists, &mut Recordings::default())
    };
    let read = message(
        "[field0] [field1] [field2] [field3] [field4] [field1 file='more.csv'] [field0 file=\"more.csv\"]",
    )
    .unwrap();
    let Some(Step::Send(send)) = read.scenario.steps().first() else { panic!("no step") };
    let line = "X: [field 0 0] [field 0 1] [peer] [field 0 3] [authentication] [field 1 1] [field 1 0]\r\n";
    assert!(send.template.text().contains(line), "{}", send.template.text());
    assert_eq!(read.credentials, None);
    let columns = message("[authentication username=[field0] password=[field3]]").unwrap().credentials;
    assert_eq!(columns, Some(CredentialColumns { name: 0, password: 3 }));
    for (words, advice) in [
        ("[field5]", "the lines of the list have 5 columns"),
        ("[field2 file=more.csv]", "have 2 columns"),
        ("[field0 file=none.csv]", "give it with --inf"),
        ("[authentication username=[field0] password=[field9]]", "have 5 columns"),
        ("[authentication username=[field0] password=[x]]", "columns of the first list"),
    ] {
        let error = message(words).unwrap_err();
        assert!(error.line == 3 && error.reason.contains(advice), "{words}: {error}");
    }
}

#[test]
fn recordings_are_found_beside_the_scenario_file_and_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |names: &[&str]| {
        let plays: String = names
            .iter()
            .map(|name| format!("<nop>\n<action><exec play_pcap_audio='{name}'/></action></nop>\n"))
            .collect();
        format!("<scenario>\n<recv request='MESSAGE'/>\n{plays}</scenario>")
    };
    let mut recordings = Recordings::of(&folder.path().join("call.xml"));
    let mut read = |names: &[&str]| {
        read_with(&scenario(names), PAUSE, &InputLists::default(), &mut recordings)
            .map(|file| file.scenario.plays())
            .map_err(|error| (error.line, error.reason))
    };
    // One UDP packet over IPv4, without a link header, and one of TCP.
    let udp = ip(4, 9, b"x");
    let mut tcp = udp.clone();
    tcp[9] = 6;
    let file = pcap(Order::Big, false, 101, &[(0, udp), (0, tcp)]);
    std::fs::create_dir(folder.path().join("pcap")).unwrap();
    std::fs::write(folder.path().join("pcap/a.pcap"), file).unwrap();
    assert_eq!(read(&[]), Ok(false));
    assert_eq!(read(&["pcap/a.pcap", "pcap/a.pcap"]), Ok(true));
    // It is not read again.
    std::fs::write(folder.path().join("pcap/a.pcap"), "").unwrap();
    assert_eq!(read(&["pcap/a.pcap"]), Ok(true));
    std::fs::write(folder.path().join("empty.pcap"), "").unwrap();
    let (line, reason) = read(&["pcap/a.pcap", "empty.pcap"]).unwrap_err();
    assert!(line == 6 && reason.contains("it is too short"), "{line}: {reason}");
    let note = recordings.notes().concat();
    assert!(note.ends_with("pcap/a.pcap: packets that are not played: 1 not UDP"), "{note}");
}
