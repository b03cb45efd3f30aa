//! `ringway call`: one call, from the command line to its figures.

use crate::failure::Failure;
use crate::phone::args::CallArgs;
use crate::phone::attend::{Attended, on_any, say_message};
use crate::phone::known_phones::KnownPhones;
use crate::phone::outcome::{Outcome, Verdict};
use crate::phone::settings::Settings;
use crate::phone::telephone::{Happening, Telephone};
use crate::phone::{register, tell};
use ringway_agent::{AgentEvent, Role};
use ringway_linux::signals::{Signal, watch};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Calls, attends to it, and prints how it went.
pub(crate) fn run(args: &CallArgs) -> Result<(), Failure> {
    let settings = Settings::for_call(&args.phone, &args.uri, args.from.as_deref())?.with_audio()?;
    let mut known = settings.zrtp_cache.as_deref().map(KnownPhones::open).transpose()?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let ring = Duration::from_secs(u64::from(args.ring_s));
    let mut telephone = Telephone::start(&settings, ring + RING_GRACE)?;
    let outcome = make(&mut telephone, &settings, (&args.uri, ring), &mut known, &signals);
    telephone.shut_down().iter().for_each(say_message);
    let outcome = outcome?;
    tell(&outcome, args.phone.account.json)?;
    match outcome.verdict {
        Verdict::Answered => Ok(()),
        Verdict::Rejected | Verdict::Failed | Verdict::Cancelled => Err(Failure::said()),
    }
}

fn make(
    telephone: &mut Telephone,
    settings: &Settings,
    (uri, ring): (&str, Duration),
    known: &mut Option<KnownPhones>,
    signals: &Receiver<Signal>,
) -> Result<Outcome, Failure> {
    if settings.register {
        register(telephone, signals)?;
    }
    let (call, begun) = telephone.call(&target(uri, settings), &settings.media.known_to(known.as_ref()))?;
    let mut attended = Attended::new(call, Role::Caller, uri, begun);
    loop {
        match telephone.wait(attended.wait())? {
            Some(Happening::Agent { at, event }) => {
                on_any(&event, telephone);
                if let AgentEvent::Incoming { call, .. } = event {
                    telephone.reject(call, BUSY)?;
                } else if let Some(ended) = attended.on_event(at, &event, &settings.script) {
                    return attended.outcome(ended, telephone, known);
                }
            }
            Some(Happening::Media(call, told)) if call == attended.call => {
                attended.on_told(&told, telephone, known);
            }
            Some(Happening::Media(..)) | None => {}
        }
        attended.on_time(telephone)?;
        if attended.rings_longer_than(ring) {
            attended.cancel(telephone);
        }
        if let Some(ended) = attended.given_up() {
            return attended.outcome(ended, telephone, known);
        }
        if let Ok(Signal::Terminate) = signals.try_recv() {
            attended.cancel(telephone);
        }
    }
}

/// The URI with the transport that was asked for; a server understands it without.
pub(crate) fn target(uri: &str, settings: &Settings) -> String {
    let says_so = uri.to_ascii_lowercase().contains(";transport=");
    if settings.account.server.is_some() || says_so {
        return uri.to_owned();
    }
    format!("{uri}{}", settings.transport.uri_parameter())
}

/// The agent gives up by itself too, but later than we do.
const RING_GRACE: Duration = Duration::from_secs(60);

/// RFC 3261 §21.4.24.
const BUSY: u16 = 486;
