//! `ringway call`: one call, from the command line to its figures.

use crate::failure::Failure;
use crate::phone::args::CallArgs;
use crate::phone::attend::{Attended, say, say_any, say_message};
use crate::phone::known_phones::KnownPhones;
use crate::phone::outcome::{Outcome, Verdict};
use crate::phone::settings::{Settings, is_sips};
use crate::phone::telephone::{Behaviour, Telephone};
use crate::phone::{print_outcome, register};
use ringway_agent::Role;
use ringway_linux::process::{Signal, watch};
use ringway_phone::{IncomingPolicy, TransferPolicy};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Calls, attends to the call, and prints its outcome.
pub(crate) fn run(args: &CallArgs) -> Result<(), Failure> {
    let settings = Settings::for_call(&args.phone, &args.uri, args.from.as_deref())?.with_audio()?;
    let known = settings.zrtp_cache.as_deref().map(KnownPhones::open).transpose()?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let ring = Duration::from_secs(u64::from(args.ring_s));
    let behaviour = Behaviour {
        ring: ring + RING_GRACE,
        incoming: IncomingPolicy::Reject(BUSY_HERE),
        transfers: TransferPolicy::Reject,
        calls_max: CALLS_MAX,
    };
    let mut telephone = Telephone::start(settings.clone(), behaviour, known)?;
    let outcome = make(&mut telephone, &settings, (&args.uri, ring), &signals);
    telephone.shut_down().iter().for_each(say_message);
    let outcome = outcome?;
    print_outcome(&outcome, args.phone.account.json)?;
    if let Some(advice) = outcome.advice(settings.media.srtp) {
        say(advice);
    }
    match outcome.verdict {
        Verdict::Answered => Ok(()),
        Verdict::Rejected | Verdict::Failed | Verdict::Cancelled => Err(Failure::said()),
    }
}

fn make(
    telephone: &mut Telephone,
    settings: &Settings,
    (uri, ring): (&str, Duration),
    signals: &Receiver<Signal>,
) -> Result<Outcome, Failure> {
    if settings.register {
        register(telephone, signals)?;
    }
    let begun = Instant::now();
    let call = telephone.call(&settings.target(uri))?;
    let attended = Attended::new(call, Role::Caller, uri, begun).with_srtp(settings.media.srtp);
    let mut attended = attended.over_sips(is_sips(uri));
    loop {
        if let Some((at, event)) = telephone.wait(attended.wait())? {
            say_any(&event);
            if let Some(end) = attended.on_event(at, &event, &settings.script) {
                return attended.outcome(end, telephone);
            }
        }
        attended.on_time(telephone)?;
        if attended.rings_longer_than(ring) {
            attended.cancel(telephone);
        }
        if let Some(end) = attended.given_up() {
            return attended.outcome(end, telephone);
        }
        if let Ok(Signal::Terminate) = signals.try_recv() {
            attended.cancel(telephone);
        }
    }
}

/// Time after which the user agent gives up.
const RING_GRACE: Duration = Duration::from_secs(60);

/// RFC 3261 §21.4.24.
const BUSY_HERE: u16 = 486;

/// Our call, and incoming ones that are being refused.
const CALLS_MAX: usize = 8;
