//! Limits of calls, how many are under way and how many begin in a second: to a trunk, and of who begins them, a user, a domain or a
//! trunk. What ends a call or continues it is never counted, and so never refused.

use crate::base::{BranchId, Env, Request, Sender};
use crate::config::TrunkLimits;
use crate::dialog_state::{Ended, end_of};
use crate::policy::proven_sender;
use crate::proxy::call::Answer;
use crate::proxy::context::ResponseContext;
use crate::proxy::forward::Plan;
use crate::report::{CallerKind, Report};
use crate::tables::{Account, CountedCall, Limited, NotCounted, ReachedLimit};
use crate::{Aor, Trunk};
use alloc::boxed::Box;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::{Limits, Message, Method};
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

/// Accounts that a call is counted for.
type Accounts<'a> = SmallVec<[Limited<'a>; 3]>;

/// True if a trunk can take no further call of this sender at present.
pub(super) fn is_full(env: &Env<'_>, trunk: &Trunk, request: &Request<'_, '_>) -> bool {
    let accounts = accounts_to(trunk, request.grant.sender);
    !accounts.is_empty() && env.tables.is_any_full(env.cx.now, &accounts)
}

/// Counts the call of a branch to a trunk; true, reported, if it would be one too many.
pub(in crate::proxy) fn exceeds(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    let request = plan.request();
    if !begins_call(request) {
        return false;
    }
    let config = env.config;
    let Some(trunk) = plan.configured_hop().and_then(|hop| config.trunking.trunks.get(hop)) else {
        return false;
    };
    let accounts = accounts_to(trunk, request.grant.sender);
    let branch = context.branches.get_mut(id.parts().1).filter(|branch| branch.states.counted.is_none());
    let Some(branch) = branch.filter(|_| !accounts.is_empty()) else { return false };
    match begin(env, request, &accounts) {
        Ok(counted) => {
            branch.states.counted = Some(counted);
            false
        }
        Err(_) => {
            env.report(request, Report::TrunkFull { name: &trunk.name });
            true
        }
    }
}

/// Counts a call for who begins it. A call that cannot be counted passes.
///
/// # Errors
/// It would be one too many: the answer, reported.
pub(in crate::proxy) fn admit(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
) -> Result<Option<Box<CountedCall>>, Answer> {
    // A request of this server to itself was counted before.
    if !begins_call(request) || request.grant.returned.is_some() {
        return Ok(None);
    }
    let trunk = calling_trunk(env, request);
    let user = if trunk.is_none() { proven_sender(env, request) } else { None };
    let accounts = match (trunk, &user) {
        (Some(trunk), _) => of_trunk(trunk, Account::FromTrunk(&trunk.name), trunk.calls_in),
        (None, Some(user)) => of_user(env, user),
        (None, None) => return Ok(None),
    };
    if accounts.is_empty() {
        return Ok(None);
    }
    let (index, reached) = match begin(env, request, &accounts) {
        Ok(counted) => return Ok(Some(counted)),
        Err(NotCounted::NoRoom) => {
            env.counters.calls_uncounted += 1;
            return Ok(None);
        }
        Err(NotCounted::Full(index, reached)) => (index, reached),
    };
    let (kind, name) = match accounts.get(index).map(|(account, _)| *account) {
        Some(Account::User(user)) => (CallerKind::User, user),
        Some(Account::Domain(domain)) => (CallerKind::Domain, domain),
        Some(Account::FromTrunk(name) | Account::Trunk(name) | Account::ToTrunk(name)) => {
            (CallerKind::Trunk, name.as_bytes())
        }
        None => (CallerKind::Trunk, &b""[..]),
    };
    env.report(request, Report::CallerFull { kind, name });
    Err(answer_to(kind, reached))
}

/// A trunk with another way, or a phone that tries again, is to use it. A client that gets 503 with Retry-After leaves this server alone for
/// that time (RFC 3261 §21.5.4): that fits a second, not a call.
const fn answer_to(kind: CallerKind, reached: ReachedLimit) -> Answer {
    match (reached, kind) {
        (ReachedLimit::PerSecond, _) => {
            Answer { retry_after_s: Some(1), ..Answer::new(503, "Too Many Calls In A Second") }
        }
        (ReachedLimit::UnderWay, CallerKind::User) => Answer::new(403, "Too Many Calls"),
        (ReachedLimit::UnderWay, CallerKind::Domain) => Answer::new(403, "Too Many Calls Of This Domain"),
        (ReachedLimit::UnderWay, CallerKind::Trunk) => Answer::new(503, "Too Many Calls From This Trunk"),
    }
}

/// True for a request that begins a call, and is not above all limits. A tag in To proves no dialog.
pub(super) fn begins_call(request: &Request<'_, '_>) -> bool {
    let grant = request.grant;
    request.method == Method::Invite && grant.dialog.is_none() && grant.above_limits.is_none()
}

/// Trunk that sends a request: by its networks, or to the contact that it registered.
fn calling_trunk<'e>(env: &Env<'e>, request: &Request<'_, '_>) -> Option<&'e Trunk> {
    let trunking = &env.config.trunking;
    match request.line {
        Some(trunk) => trunking.trunks.get(trunk),
        None if request.flow.transport.is_websocket() => None,
        None => trunking.trunk_of(request.source()),
    }
}

/// Accounts of a call to a trunk. Callers without a password, whose calls a user forwards, leave half of the lines to others.
fn accounts_to(trunk: &Trunk, sender: Sender) -> Accounts<'_> {
    let mut accounts = of_trunk(trunk, Account::ToTrunk(&trunk.name), trunk.call_limits);
    if !sender.is_believed() {
        let half = |most: &mut Option<u32>| *most = most.map(|most| most.div_ceil(2));
        for (_, limits) in &mut accounts {
            half(&mut limits.under_way);
            half(&mut limits.per_second);
        }
    }
    accounts
}

/// Accounts of a call in one direction, and in both. Each direction is counted if there is a limit of both, to be shown.
fn of_trunk<'a>(trunk: &'a Trunk, account: Account<'a>, limits: Option<TrunkLimits>) -> Accounts<'a> {
    let both = trunk.calls_both;
    let mut accounts = Accounts::new();
    if limits.is_some() || both.is_some() {
        let limits = limits.unwrap_or_default();
        accounts.push((account, TrunkLimits { under_way: limits.under_way.or(both), ..limits }));
    }
    if both.is_some() {
        accounts.push((Account::Trunk(&trunk.name), TrunkLimits { under_way: both, per_second: None }));
    }
    accounts
}

/// Accounts of a call of a user.
fn of_user<'a>(env: &Env<'_>, user: &'a Aor) -> Accounts<'a> {
    let limits = &env.config.caller_limits;
    let all = [
        (Account::User(user.as_bytes()), limits.of_user(user.as_bytes())),
        (Account::Domain(user.domain()), limits.of_domain(user.domain())),
    ];
    all.into_iter().filter(|(_, limits)| *limits != TrunkLimits::default()).collect()
}

fn begin(
    env: &Env<'_>,
    request: &Request<'_, '_>,
    accounts: &[Limited<'_>],
) -> Result<Box<CountedCall>, NotCounted> {
    let call = hash_of(env, request.message, request.message.from().tag());
    env.tables.begin_counted(env.dialog_lifetime(), accounts, call)
}

/// Leaves the end of an answered call to its BYE, or to that of its session (RFC 4028).
pub(super) fn on_success(env: &Env<'_>, counted: &CountedCall, response: &Message<'_>) {
    let (callee, until) = (hash_of(env, response, response.to().tag()), end_of(env, response));
    env.tables.change_counted(|calls| calls.answered(counted, callee, until));
}

/// Extends a call whose session is refreshed, by either side.
pub(super) fn on_refresh(env: &Env<'_>, response: &Message<'_>) {
    let [from, to] = hashes_of(env, response);
    let until = end_of(env, response);
    env.tables.change_counted(|calls| {
        calls.extend(from, to, until);
        calls.extend(to, from, until);
    });
}

/// Ends the call that a BYE ends, whichever side sent it. One that was refused ends it for its sender only: if that is the callee, the trunk
/// has ended it.
pub(super) fn on_bye(env: &Env<'_>, bye: &[u8], ended: Ended) {
    let Ok(message) = &Message::parse(bye, &Limits::STORED) else { return };
    let [from, to] = hashes_of(env, message);
    env.tables.change_counted(|calls| {
        calls.end_answered(to, from);
        match ended {
            Ended::Both => calls.end_answered(from, to),
            Ended::Sender => {}
        }
    });
}

/// Ends a call that was not answered.
pub(super) fn end(env: &Env<'_>, counted: &CountedCall) {
    env.tables.change_counted(|calls| calls.end(counted));
}

fn hashes_of(env: &Env<'_>, message: &Message<'_>) -> [u64; 2] {
    [message.from().tag(), message.to().tag()].map(|tag| hash_of(env, message, tag))
}

/// Hash of the Call-ID and a tag.
fn hash_of(env: &Env<'_>, message: &Message<'_>, tag: Option<&[u8]>) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(&env.keys.calls));
    hash.part(message.call_id());
    hash.part(tag.unwrap_or_default());
    hash.hasher().finish()
}
