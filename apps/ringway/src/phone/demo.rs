//! `ringway demo`: a server and two phones in one process, one protected call, and a look at what arrived.

use crate::config::Config;
use crate::failure::Failure;
use crate::output::printable;
use crate::phone::args::DemoArgs;
use crate::phone::attend::Attended;
use crate::phone::outcome::{Outcome, Verdict};
use crate::phone::settings::{MediaSettings, Recording, ScriptSettings, Settings};
use crate::phone::telephone::{Behaviour, Telephone};
use crate::serve::Running;
use crate::{output, password};
use ringway_agent::{Account, Role, Secret};
use ringway_audio::{Input, SAMPLE_RATE_HZ, Source};
use ringway_media::session::Report;
use ringway_phone::{
    IncomingPolicy, MessageDirection, PhoneCommand, PhoneEvent, Protection, SrtpPolicy, TransferPolicy,
};
use ringway_sansio::Transport;
use ringway_sdp::Codec;
use ringway_store::{Store, StoreError, UserName};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Shows a call, and fails when anything about it is not as it should be.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let password = password::generated()?;
    let server = start_server(&password)?;
    let address = server.listeners().iter().find(|listen| listen.transport == Transport::Udp);
    let address = address.map(|listen| listen.address).ok_or_else(|| Failure::failed("no listener"))?;
    let mut ladder = Ladder::new();
    let talked = talk(address, &password, &mut ladder);
    server.stop();
    let Talk { alice, bob } = talked?;
    let mut said = vec![0; SAMPLES];
    Source::speech_like().fill(&mut said);
    let alike = bob.media.as_ref().map_or(0.0, |media| likeness(&said, &media.kept));
    let findings = findings(&alice, &bob, alike);
    if args.json {
        let value = json!({
            "result": if findings.is_empty() { "ok" } else { "failed" },
            "alice": alice.json(),
            "bob": bob.json(),
            "likeness": (alike * 1000.0).round() / 1000.0,
            "findings": findings,
            "seconds": (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        });
        output::line(&value.to_string())?;
    } else {
        let mut lines = vec![
            format!(
                "A server at {address} with digest authentication, and two phones that are registered there."
            ),
            String::new(),
        ];
        lines.extend(ladder.lines());
        for (who, outcome) in [("alice", &alice), ("bob", &bob)] {
            lines.push(String::new());
            lines.push(format!("{who}, talking to {}", outcome.lines().join("\n  ")));
        }
        lines.push(String::new());
        lines.push(format!("What bob heard is what alice said: likeness {alike:.3} of 1."));
        output::line(&lines.join("\n"))?;
    }
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!("the demo's call was not as it should be: {first}"))),
    }
}

/// Result of the call at each phone.
struct Talk {
    alice: Outcome,
    bob: Outcome,
}

/// Registers both, calls, talks, hangs up.
fn talk(server: SocketAddr, password: &str, ladder: &mut Ladder) -> Result<Talk, Failure> {
    let (of_alice, of_bob) = (settings("alice", server, password), settings("bob", server, password));
    let mut alice = Telephone::start(of_alice.clone(), BEHAVIOUR, None)?;
    let mut bob = Telephone::start(of_bob, BEHAVIOUR, None)?;
    let mut demo = Demo {
        ladder,
        script: of_alice.script,
        calling: None,
        called: None,
        ended: (None, None),
        registered: 0,
    };
    let done = demo.run(&mut alice, &mut bob);
    alice.shut_down();
    bob.shut_down();
    done
}

struct Demo<'a> {
    ladder: &'a mut Ladder,
    /// Script of alice.
    script: ScriptSettings,
    /// Alice's side of the call, and bob's.
    calling: Option<Attended>,
    called: Option<Attended>,
    ended: (Option<Outcome>, Option<Outcome>),
    registered: u32,
}

impl Demo<'_> {
    fn run(&mut self, alice: &mut Telephone, bob: &mut Telephone) -> Result<Talk, Failure> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            self.step(Who::Alice, alice)?;
            self.step(Who::Bob, bob)?;
            if let (Some(_), Some(_)) = &self.ended
                && let (Some(alice_ended), Some(bob_ended)) = std::mem::take(&mut self.ended)
            {
                self.note_rest(alice, bob)?;
                return Ok(Talk { alice: alice_ended, bob: bob_ended });
            }
        }
        Err(Failure::failed("the demo's call did not come to its end; is the machine very busy?"))
    }

    /// The last messages, for the ladder.
    fn note_rest(&mut self, alice: &mut Telephone, bob: &mut Telephone) -> Result<(), Failure> {
        for (who, telephone) in [(Who::Alice, alice), (Who::Bob, bob)] {
            while let Some((at, event)) = telephone.wait(REST)? {
                self.ladder.note(who, at, &event);
            }
        }
        Ok(())
    }

    /// Next event of one of them.
    fn step(&mut self, who: Who, telephone: &mut Telephone) -> Result<(), Failure> {
        if let Some((at, event)) = telephone.wait(TURN)? {
            self.ladder.note(who, at, &event);
            self.on_event(who, at, &event, telephone)?;
        }
        if let Some(attended) = self.side(who) {
            attended.on_time(telephone)?;
        }
        if who == Who::Alice && self.registered == 2 && self.calling.is_none() && self.ended.0.is_none() {
            let call = telephone.call(BOB)?;
            self.calling = Some(Attended::quiet(call, Role::Caller, "bob", Instant::now()));
        }
        Ok(())
    }

    fn on_event(
        &mut self,
        who: Who,
        at: Instant,
        event: &PhoneEvent,
        telephone: &mut Telephone,
    ) -> Result<(), Failure> {
        match event {
            PhoneEvent::Registered { .. } => self.registered += 1,
            PhoneEvent::RegistrationFailed { status, reason, .. } => {
                return Err(Failure::failed(format!("the demo's phones cannot register: {status} {reason}")));
            }
            PhoneEvent::Incoming { call, .. } => {
                self.called = Some(Attended::quiet(*call, Role::Callee, "alice", at));
                telephone.command(PhoneCommand::Answer { call: *call })?;
            }
            _ => {}
        }
        let script = match who {
            Who::Alice => self.script.clone(),
            Who::Bob => ScriptSettings::default(),
        };
        let Some(ended) = self.side(who).and_then(|side| side.on_event(at, event, &script)) else {
            return Ok(());
        };
        let side = match who {
            Who::Alice => self.calling.take(),
            Who::Bob => self.called.take(),
        };
        let outcome = side.map(|side| side.outcome(ended, telephone)).transpose()?;
        match who {
            Who::Alice => self.ended.0 = outcome,
            Who::Bob => self.ended.1 = outcome,
        }
        Ok(())
    }

    fn side(&mut self, who: Who) -> Option<&mut Attended> {
        match who {
            Who::Alice => self.calling.as_mut(),
            Who::Bob => self.called.as_mut(),
        }
    }
}

/// Faults of the call.
fn findings(alice: &Outcome, bob: &Outcome, alike: f64) -> Vec<String> {
    let mut findings = Vec::new();
    for (who, outcome) in [("alice", alice), ("bob", bob)] {
        if outcome.verdict != Verdict::Answered {
            findings.push(format!("{who}'s call was {}", outcome.verdict.name()));
        }
        let Some(media) = &outcome.media else {
            findings.push(format!("{who} had no sound"));
            continue;
        };
        let Report { received, refused, mos, .. } = &media.report;
        if media.security == Protection::None {
            findings.push(format!("{who}'s sound was not protected"));
        }
        if received.counts.received < PACKETS_MIN {
            findings.push(format!("{who} received only {} packets", received.counts.received));
        }
        if refused.auth_failures + refused.replays > 0 {
            findings.push(format!("{who} received packets that were not the other's"));
        }
        if mos.is_none_or(|mos| mos < MOS_MIN) {
            findings.push(format!("{who}'s voice quality is {mos:?}"));
        }
    }
    if alike < LIKENESS_MIN {
        findings.push(format!("what bob heard is not what alice said: likeness {alike:.3}"));
    }
    findings
}

/// A server in memory with the users alice and bob.
fn start_server(password: &str) -> Result<Running, Failure> {
    let config = Config::parse(SERVER, None)
        .map_err(|errors| Failure::configuration(errors.iter().map(ToString::to_string).collect()))?;
    let store = Store::open(&config.store.url)?;
    for name in ["alice", "bob"] {
        let user = UserName::new(name, DOMAIN).map_err(StoreError::from)?;
        store.add(&user, config.server.auth.realms.general(), password)?;
    }
    // Nobody reloads it.
    let (inputs, _) = channel();
    Running::start(config, store, inputs, None)
}

fn settings(name: &str, server: SocketAddr, password: &str) -> Settings {
    let account = Account {
        display_name: name.to_owned(),
        secret: Secret::Password(password.to_owned()),
        ..Account::direct(&format!("sip:{name}@{DOMAIN}"))
    };
    let media = MediaSettings {
        srtp: SrtpPolicy::Sdes,
        codecs: vec![Codec::Pcmu],
        input: Input::Source(Source::speech_like()),
        record: Recording::Memory(SAMPLES),
        ..MediaSettings::default()
    };
    let script = ScriptSettings { duration: Some(TALK), ..ScriptSettings::default() };
    Settings { script, ..Settings::at_local_server(account, server, media) }
}

/// The correlation of two sounds' loudness over time at the delay where it is highest: 1 for the same sound, about 0 for
/// sounds that have nothing to do with each other. Coding, a lost packet and a shift of some milliseconds change it little.
/// `received` may begin up to two seconds into `sent`, or `sent` into it.
fn likeness(sent: &[i16], received: &[i16]) -> f64 {
    let (sent, received) = (loudness(sent), loudness(received));
    let shifts = -SHIFT_MAX..=SHIFT_MAX;
    shifts.map(|shift| correlation(&sent, &received, shift)).fold(0.0, f64::max)
}

/// The loudness of each hundredth of a second.
fn loudness(samples: &[i16]) -> Vec<f64> {
    let of = |block: &[i16]| block.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>().sqrt();
    samples.chunks_exact(BLOCK).map(of).collect()
}

fn correlation(sent: &[f64], received: &[f64], shift: isize) -> f64 {
    let at = |place: usize| place.checked_add_signed(shift).and_then(|place| sent.get(place)).copied();
    let pairs: Vec<(f64, f64)> =
        received.iter().enumerate().filter_map(|(place, &received)| Some((at(place)?, received))).collect();
    if pairs.len() < PAIRS_MIN {
        return 0.0;
    }
    let count = pairs.len() as f64;
    let (mean_sent, mean_received) =
        pairs.iter().fold((0.0, 0.0), |(a, b), (sent, received)| (a + sent / count, b + received / count));
    let (mut both, mut of_sent, mut of_received) = (0.0, 0.0, 0.0);
    for (sent, received) in pairs {
        let (sent, received) = (sent - mean_sent, received - mean_received);
        both += sent * received;
        of_sent += sent * sent;
        of_received += received * received;
    }
    if of_sent <= 0.0 || of_received <= 0.0 { 0.0 } else { both / (of_sent * of_received).sqrt() }
}

/// A phone of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Alice,
    Bob,
}

/// The messages of two phones with a server between them.
#[derive(Debug)]
struct Ladder {
    begun: Instant,
    rungs: Vec<(Duration, Who, MessageDirection, String)>,
}

impl Ladder {
    fn new() -> Self {
        Self { begun: Instant::now(), rungs: Vec::new() }
    }

    /// Notes what a phone told, if it is a message.
    fn note(&mut self, who: Who, at: Instant, event: &PhoneEvent) {
        if let PhoneEvent::Message(message) = event {
            let text = short(&message.line);
            self.rungs.push((at.saturating_duration_since(self.begun), who, message.direction, text));
        }
    }

    /// As text, a line for each message.
    fn lines(mut self) -> Vec<String> {
        self.rungs.sort_by_key(|(at, ..)| *at);
        let mut lines = vec![format!("{:>9}  {:<WIDTH$}  server  {:>WIDTH$}", "ms", "alice", "bob")];
        for (at, who, direction, text) in self.rungs {
            let (left, right) = match (who, direction) {
                (Who::Alice, MessageDirection::Sent) => (arrow(&text, '─', '▶'), String::new()),
                (Who::Alice, MessageDirection::Received) => (back(&text), String::new()),
                (Who::Bob, MessageDirection::Sent) => (String::new(), back(&text)),
                (Who::Bob, MessageDirection::Received) => (String::new(), arrow(&text, '─', '▶')),
            };
            let line = format!("{:>9.1}  {left:<WIDTH$}    │    {right}", at.as_secs_f64() * 1e3);
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

fn arrow(text: &str, line: char, head: char) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count() + 4);
    let tail: String = std::iter::repeat_n(line, rest).collect();
    format!("{line} {text} {tail}{head}")
}

fn back(text: &str) -> String {
    let rest = WIDTH.saturating_sub(text.chars().count() + 4);
    let tail: String = std::iter::repeat_n('─', rest).collect();
    format!("◀{tail} {text} ─")
}

/// `INVITE`, `180 Ringing`.
fn short(line: &str) -> String {
    let text = match line.strip_prefix("SIP/2.0 ") {
        Some(status) => status,
        None => line.split(' ').next().unwrap_or_default(),
    };
    printable(&text.chars().take(WIDTH - 6).collect::<String>())
}

const BEHAVIOUR: Behaviour = Behaviour {
    ring: Duration::from_secs(10),
    incoming: IncomingPolicy::Ask,
    transfers: TransferPolicy::Reject,
    calls_max: 1,
};

const DOMAIN: &str = "localhost";
const BOB: &str = "sip:bob@localhost";

const SERVER: &str = r#"
domains = ["localhost"]
listen = ["udp:127.0.0.1:0"]
workers = 1
[store]
url = "memory:"
[admin]
listen = "127.0.0.1:0"
"#;

/// Duration of the talk.
const TALK: Duration = Duration::from_secs(5);

/// Maximum duration of the demonstration.
const PATIENCE: Duration = Duration::from_secs(14);

/// Time for which one phone is polled before the other.
const TURN: Duration = Duration::from_millis(2);

/// Maximum time for the last messages.
const REST: Duration = Duration::from_millis(50);

/// Maximum length of the compared sound.
const SAMPLES: usize = 10 * SAMPLE_RATE_HZ as usize;

/// Of 250.
const PACKETS_MIN: u64 = 200;

/// A busy machine may cost a packet or two.
const MOS_MIN: f64 = 3.5;

const LIKENESS_MIN: f64 = 0.9;

/// Samples in a hundredth of a second.
const BLOCK: usize = 80;

/// Hundredths of a second.
const SHIFT_MAX: isize = 200;

/// A second: less says nothing.
const PAIRS_MIN: usize = 100;

/// Characters of one side.
const WIDTH: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_phone::SipMessage;

    #[test]
    fn the_same_sound_is_alike_late_and_quieter_and_another_is_not() {
        let mut speech = vec![0; 40_000];
        Source::speech_like().fill(&mut speech);
        let late: Vec<i16> =
            std::iter::repeat_n(0, 3111).chain(speech.iter().map(|sample| sample / 3)).collect();
        assert!(likeness(&speech, &late) > 0.95);
        assert!(likeness(&speech, &speech[8000..]) > 0.99);
        let mut tone = vec![0; 40_000];
        Source::tone(440).unwrap().fill(&mut tone);
        assert!(likeness(&speech, &tone) < 0.4);
        assert!(likeness(&speech, &vec![0; 40_000]) < 0.01);
        assert!(likeness(&speech, &[]) < 0.01);
    }

    #[test]
    fn rungs_are_in_the_order_of_time_and_all_as_wide() {
        let mut ladder = Ladder::new();
        let message = |direction, line: &str| {
            PhoneEvent::Message(SipMessage {
                direction,
                transport: Transport::Udp,
                peer: "127.0.0.1:5060".parse().unwrap(),
                line: line.to_owned(),
                cseq: String::new(),
                length: 1,
                bytes: Vec::new(),
            })
        };
        let later = ladder.begun + Duration::from_millis(5);
        let invite = message(MessageDirection::Received, "INVITE sip:bob@example.org SIP/2.0");
        ladder.note(Who::Bob, later, &invite);
        ladder.note(Who::Alice, ladder.begun, &message(MessageDirection::Sent, "REGISTER sip:x SIP/2.0"));
        let long = "SIP/2.0 401 A very long reason phrase that has no end";
        ladder.note(Who::Alice, later, &message(MessageDirection::Received, long));
        let lines = ladder.lines();
        assert!(lines[1].contains("─ REGISTER ─") && lines[1].trim_end().contains('▶'), "{lines:#?}");
        assert!(lines[2].contains("INVITE") && lines[3].contains("◀"), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:#?}");
    }
}
