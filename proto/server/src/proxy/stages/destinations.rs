//! Destination rules: the numbers that trunks may get, and how often.

use crate::base::{Env, Request, TrunkTarget};
use crate::config::{DestinationRule, NumberForm, RouteTo, is_plain_name};
use crate::policy::ends_or_completes;
use crate::proxy::call::{Answer, Call};
use crate::report::{DestinationRefusal, Report};
use crate::{Aor, CallRate, Config, Number, Reason};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Method, NameAddr, Scheme, Uri};
use smallvec::SmallVec;

/// User whose limits and number a call to a trunk has.
pub(super) struct Payer {
    pub(super) aor: Aor,
    /// User part, with its escapes.
    pub(super) user: Vec<u8>,
    /// Number for which the destination rules have counted this call.
    pub(super) counted: Option<Number>,
    /// Number that it has in place of that of the user; `None`: that of the user.
    pub(super) number: Option<String>,
    /// The call is a forward of the user: others make it, and use up none of the user's own calls.
    pub(super) is_forward: bool,
}

/// Reason why a request with a route is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteRefusal {
    /// A destination rule forbids the number.
    Forbidden,
    /// The user made too many calls to such numbers.
    TooManyCalls,
    /// All trunks of the route are down.
    AllDown,
    /// All trunks of the route that are up have as many calls as they may have.
    AllFull,
    /// All nodes behind this server are down.
    NodesDown,
}

impl From<RouteRefusal> for Answer {
    fn from(why: RouteRefusal) -> Self {
        let all_down = |phrase| Self {
            reason: Some(Reason::TrunksDown),
            retry_after_s: Some(RETRY_S),
            ..Self::new(503, phrase)
        };
        match why {
            RouteRefusal::Forbidden => Self::new(403, "Destination Not Allowed"),
            RouteRefusal::TooManyCalls => Self::new(403, "Too Many Calls To This Destination"),
            RouteRefusal::AllDown => all_down("All Trunks Are Down"),
            RouteRefusal::AllFull => {
                Self { reason: Some(Reason::TrunkFull), ..all_down("All Trunks Are Full") }
            }
            RouteRefusal::NodesDown => all_down("All Nodes Are Down"),
        }
    }
}

impl Payer {
    /// User with this address; without a user, if it is not in the server's domains.
    pub(super) fn of(config: &Config, uri: &Uri<'_>) -> Self {
        let mut aor = Aor::default();
        config.read_target(uri, &mut aor);
        let user = uri.user().map_or_else(|| aor.user().to_vec(), <[u8]>::to_vec);
        Self { aor, user, counted: None, number: None, is_forward: false }
    }

    /// The same for a call that this user forwards.
    pub(super) fn of_forward(config: &Config, uri: &Uri<'_>) -> Self {
        Self { is_forward: true, ..Self::of(config, uri) }
    }

    /// Name of the count of its calls; no address-of-record begins like that of forwards.
    fn account(&self) -> Vec<u8> {
        let prefix: &[u8] = if self.is_forward { b"\0forward " } else { b"" };
        [prefix, self.aor.as_bytes()].concat()
    }
}

/// Applies the destination rules to a number as these trunks get it, and counts the request. What follows a service code in it is also
/// compared, and with international prefixes of the trunks the number of E.164.
pub(super) fn admit_number(
    call: &mut Call<'_, '_>,
    payer: &Payer,
    number: &Number,
    trunks: &[usize],
) -> Result<(), RouteRefusal> {
    let trunking = &call.env.config.trunking;
    if trunking.destinations.is_empty() {
        return Ok(());
    }
    let mut readings = Readings::new();
    if trunks.is_empty() {
        readings.behind_plus.extend(trunking.international_of_all().map(str::as_bytes));
    }
    for trunk in trunks.iter().filter_map(|trunk| trunking.trunks.get(*trunk)) {
        readings.prefixes.extend(trunk.international.iter().map(String::as_bytes));
        readings.behind_plus.extend(trunk.international_or_usual().map(str::as_bytes));
        readings.forms.extend(Some(&trunk.numbers_out).filter(|form| form.changes()));
    }
    readings.add(number);
    let counts = is_counted(call.request);
    admit(call, payer, &readings, counts)
}

/// The same for the user part of a URI that trunks get as it is; no trunks: any may. The trunk makes a number of it: it is also compared as
/// the routes of numbers would change it, and as an international one. What is no number, and no name either, is refused where there are
/// rules.
pub(super) fn admit_user_part(
    call: &mut Call<'_, '_>,
    payer: &Payer,
    dialled: &[u8],
    trunks: &[usize],
    counts: bool,
) -> Result<(), RouteRefusal> {
    let trunking = &call.env.config.trunking;
    if trunking.destinations.is_empty() {
        return Ok(());
    }
    let Some(number) = Number::of_user(dialled) else {
        if is_plain_name(dialled) {
            return Ok(());
        }
        // Nobody can tell which number the trunk makes of it.
        call.env.report(call.request, Report::UnreadableNumber(dialled));
        return Err(RouteRefusal::Forbidden);
    };
    let mut readings = Readings::new();
    readings.prefixes.push(b"");
    if trunks.is_empty() {
        readings.prefixes.extend(trunking.international_of_all().map(str::as_bytes));
    }
    for trunk in trunks.iter().filter_map(|trunk| trunking.trunks.get(*trunk)) {
        readings.prefixes.extend(trunk.international_or_usual().map(str::as_bytes));
    }
    readings.forms.extend(trunking.forms_of_all());
    // A gateway may dial a local number without the digits of its context.
    let local = dialled.split(|&byte| byte == b';').next().and_then(Number::of_user);
    for number in [Some(number), local].into_iter().flatten() {
        readings.add(&number);
    }
    for number in readings.numbers.clone() {
        let of_route = match trunking.routes.of_number(&number) {
            Some(RouteTo::Trunks { change, .. } | RouteTo::ByCost(change)) => change.of(&number),
            Some(RouteTo::User(_)) | None => None,
        };
        of_route.into_iter().for_each(|number| readings.add(&number));
    }
    admit(call, payer, &readings, counts)
}

/// Numbers that a carrier may dial for one that it gets.
struct Readings<'r> {
    /// Different numbers, at most [`READINGS_MAX`].
    numbers: SmallVec<[Number; 10]>,
    /// There are more.
    is_full: bool,
    /// International prefixes.
    prefixes: SmallVec<[&'r [u8]; 4]>,
    /// Those that may also follow a `+` that begins no number of E.164.
    behind_plus: SmallVec<[&'r [u8]; 4]>,
    /// Forms in which trunks write numbers.
    forms: SmallVec<[&'r NumberForm; 2]>,
}

impl<'r> Readings<'r> {
    fn new() -> Self {
        Self {
            numbers: SmallVec::new(),
            is_full: false,
            prefixes: SmallVec::new(),
            behind_plus: SmallVec::new(),
            forms: SmallVec::new(),
        }
    }

    fn push(&mut self, number: Number) {
        if self.numbers.contains(&number) {
            return;
        }
        self.is_full |= self.numbers.len() >= READINGS_MAX;
        if !self.is_full {
            self.numbers.push(number);
        }
    }

    /// Adds a number as it is, what a trunk that writes numbers in one of the forms reads into it, what follows a service code, and
    /// each with `+` in place of an international prefix. What a carrier dials for `+0` or `+*31#` follows from the number without `+`.
    fn add(&mut self, number: &Number) {
        let mut next = self.numbers.len();
        self.push(*number);
        while let Some(reading) = self.numbers.get(next).copied() {
            next += 1;
            if is_e164(&reading) {
                continue;
            }
            if reading.is_global() {
                for prefix in core::mem::take(&mut self.behind_plus) {
                    self.prefixes.push(prefix);
                }
                reading.changed(1, b"").into_iter().for_each(|without| self.push(without));
                continue;
            }
            for index in 0..self.forms.len() {
                let read = self.forms.get(index).map(|form| form.read(&reading));
                read.into_iter().for_each(|read| self.push(read));
            }
            reading.behind_codes().for_each(|part| self.push(part));
            // A few digits behind a service code are another code.
            if reading == *number || reading.as_bytes().len() >= INTERNATIONAL_DIGITS_MIN {
                for index in 0..self.prefixes.len() {
                    let prefix = self.prefixes.get(index).copied().unwrap_or_default();
                    let is_international = reading.as_bytes().starts_with(prefix);
                    let international =
                        is_international.then(|| reading.changed(prefix.len(), b"+")).flatten();
                    international.into_iter().for_each(|international| self.push(international));
                }
            }
        }
    }
}

/// True for `+`, a country code and digits; no country code begins with 0.
fn is_e164(number: &Number) -> bool {
    match number.as_bytes() {
        [b'+', b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Applies the destination rules to a request in a dialog with a trunk: to a Request-URI that is not the trunk's Contact, and to
/// Refer-To.
pub(super) fn admit_in_dialog(call: &mut Call<'_, '_>) -> Result<(), RouteRefusal> {
    let request = call.request;
    let is_other = match request.grant.trunk {
        _ if !cfg!(feature = "operator") => return Ok(()),
        TrunkTarget::None | TrunkTarget::Foreign => return Ok(()),
        TrunkTarget::Recorded => false,
        TrunkTarget::Other => !ends_or_completes(request.method),
    };
    if !is_other && request.method != Method::Refer {
        return Ok(());
    }
    let payer = Payer::of(call.env.config, &request.message.from().uri);
    if is_other {
        let uri = call.routed.last_uri(request.message);
        admit_user_part(call, &payer, dialled(&uri), &[], false)?;
    }
    admit_refer(call, &payer)
}

/// Part of a URI that a trunk dials; the whole of one that a trunk alone can read.
fn dialled<'u>(uri: &Uri<'u>) -> &'u [u8] {
    match uri.scheme() {
        _ if uri.is_sip() => uri.user().unwrap_or_default(),
        Scheme::Tel => uri.as_bytes().get(b"tel:".len()..).unwrap_or_default(),
        _ => uri.as_bytes(),
    }
}

/// Applies the destination rules to the number that a REFER makes a trunk dial, and counts it as a call.
pub(super) fn admit_refer(call: &mut Call<'_, '_>, payer: &Payer) -> Result<(), RouteRefusal> {
    if call.request.method != Method::Refer || call.env.config.trunking.destinations.is_empty() {
        return Ok(());
    }
    for value in call.request.message.values(HeaderName::ReferTo) {
        let target = NameAddr::parse(value).ok().map(|name| name.uri);
        let dialled = match &target {
            Some(uri) if is_user_of_ours(call.env, uri) => continue,
            Some(uri) if uri.is_sip() || uri.scheme() == Scheme::Tel => dialled(uri),
            // A list of targets in the body (RFC 5368), or what a trunk alone can read.
            Some(_) | None => value,
        };
        admit_user_part(call, payer, dialled, &[], true)?;
    }
    Ok(())
}

/// True for a subscriber, whom a trunk reaches through this server.
fn is_user_of_ours(env: &Env<'_>, uri: &Uri<'_>) -> bool {
    let mut aor = Aor::default();
    env.config.read_target(uri, &mut aor) && env.host.is_known(aor.user(), aor.domain())
}

/// True for a request that counts for hourly limits: all that begin something at the trunk. A tag in To proves no dialog.
pub(super) fn is_counted(request: &Request<'_, '_>) -> bool {
    request.grant.dialog.is_none()
        && !matches!(request.method, Method::Options | Method::Ack | Method::Cancel)
}

/// Applies the rules to all readings of one dialled number; the request counts once for each rule.
fn admit(
    call: &mut Call<'_, '_>,
    payer: &Payer,
    readings: &Readings<'_>,
    counts: bool,
) -> Result<(), RouteRefusal> {
    let Readings { numbers, is_full, .. } = readings;
    if let Some(number) = numbers.first().filter(|_| *is_full) {
        call.env.report(call.request, Report::UnreadableNumber(number.as_bytes()));
        return Err(RouteRefusal::Forbidden);
    }
    let rules = &call.env.config.trunking.destinations;
    let found = || numbers.iter().filter_map(|number| Some((number, rules.of_number(number)?)));
    if let Some((number, denied)) = found().find(|(_, rule)| rule.rule == DestinationRule::Deny) {
        refuse(call, payer, number, &denied.prefix, DestinationRefusal::Denied);
        return Err(RouteRefusal::Forbidden);
    }
    let before = payer.counted.as_ref().and_then(|number| rules.of_number(number));
    let mut counted: SmallVec<[&str; 4]> = before.iter().map(|rule| rule.prefix.as_str()).collect();
    for (number, rule) in found() {
        let DestinationRule::PerHour(per_hour) = rule.rule else { continue };
        if !counts || counted.contains(&rule.prefix.as_str()) {
            continue;
        }
        counted.push(&rule.prefix);
        let why = match call.env.tables.admit_call(call.env.cx.now, &payer.account(), &rule.prefix, per_hour)
        {
            CallRate::Admitted => continue,
            CallRate::Exceeded => DestinationRefusal::Rate,
            CallRate::Full => DestinationRefusal::Overflow,
        };
        refuse(call, payer, number, &rule.prefix, why);
        return Err(RouteRefusal::TooManyCalls);
    }
    Ok(())
}

/// Reports a refusal.
fn refuse(call: &mut Call<'_, '_>, payer: &Payer, number: &Number, prefix: &str, why: DestinationRefusal) {
    let (aor, number, source) = (payer.aor.as_bytes(), number.as_bytes(), call.request.flow.remote);
    call.env.report(call.request, Report::DestinationRefused { aor, number, prefix, source, why });
}

/// Seconds after which a request to trunks that are down is worth another attempt.
const RETRY_S: u64 = 30;

/// Maximum number of readings of a dialled number, which has 32 digits at most.
const READINGS_MAX: usize = 100;

/// Minimum number of digits behind a service code for a number with its country code: fewer are another code.
const INTERNATIONAL_DIGITS_MIN: usize = 5;
