//! `ringway options`: sends OPTIONS, and prints the response.

use crate::failure::Failure;
use crate::output::{self, printable};
use crate::phone::args::OptionsArgs;
use crate::phone::attend::say_message;
use crate::phone::outcome::Verdict;
use crate::phone::settings::Settings;
use crate::phone::telephone::{Behaviour, Telephone};

use ringway_linux::process::{Signal, watch};
use ringway_phone::{Abilities, IncomingPolicy, PhoneEvent, TransferPolicy};
use serde_json::json;
use std::time::Duration;

/// The response to OPTIONS, or why there is none.
struct Reply {
    verdict: Verdict,
    status: u16,
    reason: String,
    abilities: Option<Box<Abilities>>,
}

/// Asks, and prints the reply.
pub(crate) fn run(args: OptionsArgs) -> Result<(), Failure> {
    let is_json = args.account.json;
    let settings = Settings::for_options(args.account, &args.uri, args.from.as_deref())?;
    let to = settings.target(&args.uri);
    let mut telephone = Telephone::start(settings, BEHAVIOUR, None)?;
    let reply = ask(&mut telephone, &to);
    telephone.shut_down().iter().for_each(say_message);
    let reply = reply?;
    output::line(&if is_json { reply.json() } else { reply.lines().join("\n") })?;
    match reply.verdict {
        Verdict::Answered => Ok(()),
        Verdict::Rejected | Verdict::Failed | Verdict::Cancelled => Err(Failure::said()),
    }
}

fn ask(telephone: &mut Telephone, uri: &str) -> Result<Reply, Failure> {
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    telephone.query_options(uri)?;
    loop {
        if let Some((_, event)) = telephone.wait(LOOK_EVERY)? {
            say_message(&event);
            if let PhoneEvent::OptionsAnswered { status, reason, abilities } = event {
                let verdict = match (&abilities, status) {
                    (None, _) => Verdict::Failed,
                    (Some(_), 200..300) => Verdict::Answered,
                    (Some(_), _) => Verdict::Rejected,
                };
                return Ok(Reply { verdict, status, reason, abilities });
            }
        }
        if let Ok(Signal::Terminate) = signals.try_recv() {
            let reason = "ended by a signal before the answer".to_owned();
            return Ok(Reply { verdict: Verdict::Cancelled, status: 0, reason, abilities: None });
        }
    }
}

impl Reply {
    fn json(&self) -> String {
        let abilities = self.abilities.as_deref();
        let field = |of: fn(&Abilities) -> &String| abilities.map(of).filter(|text| !text.is_empty());
        json!({
            "result": self.verdict.name(),
            "status": self.status,
            "reason": self.reason,
            "allow": field(|of| &of.allow),
            "supported": field(|of| &of.supported),
            "accept": field(|of| &of.accept),
            "user_agent": field(|of| &of.user_agent),
            "round_trip_ms": abilities.map(round_trip_ms),
        })
        .to_string()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", self.status, printable(&self.reason))];
        let Some(abilities) = &self.abilities else { return lines };
        for (name, text) in [
            ("Allow", &abilities.allow),
            ("Supported", &abilities.supported),
            ("Accept", &abilities.accept),
            ("User-Agent", &abilities.user_agent),
        ] {
            if !text.is_empty() {
                lines.push(format!("{name}: {}", printable(text)));
            }
        }
        lines.push(format!("round-trip time: {:.2} ms", round_trip_ms(abilities)));
        lines
    }
}

fn round_trip_ms(abilities: &Abilities) -> f64 {
    abilities.round_trip.as_secs_f64() * 1000.0
}

/// So that signals are seen soon.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Nobody is to be called or to call.
const BEHAVIOUR: Behaviour = Behaviour {
    ring: Duration::ZERO,
    incoming: IncomingPolicy::Ask,
    transfers: TransferPolicy::Reject,
    calls_max: 0,
};
