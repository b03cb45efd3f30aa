//! Branches of calls: what the server owes to each phone that it called.

use crate::check::is_from;
use crate::world::BEGIN;
use ringway_sansio::{Instant, Transport};
use ringway_server::Config;
use ringway_sim::{Fate, Trace, TracedPacket};
use ringway_sip::{Limits, Message, Method, Start};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// INVITE that the server sent to a phone, with the times of what came of it.
struct Branch {
    call: Name,
    sent: Instant,
    /// First provisional response.
    rang: Option<Instant>,
    /// Last one that is not 100.
    last_rang: Option<Instant>,
    /// First final response.
    ended: Option<Instant>,
    /// That was a failure.
    has_failed: bool,
    cancelled: Option<Instant>,
    /// First ACK of a failure.
    acknowledged: Option<Instant>,
}

/// Call-ID, From tag and CSeq number of an INVITE.
type Name = (Vec<u8>, Vec<u8>, u32);

/// Panics where the server owes something to a phone that it called over UDP.
///
/// The first failure is acknowledged (RFC 3261 §17.1.1.3). A phone rings no longer than timer C (§16.8). One that rings gets a CANCEL when
/// its caller has a final response or has cancelled (§16.7 step 10, §16.10); that is not checked in a story in which calls pass through
/// the server again (`has_spirals`): the next pass gets its CANCEL after its first provisional response, wherever that is lost.
pub(crate) fn check(trace: &Trace, server: SocketAddr, config: &Config, has_spirals: bool) {
    let mut branches: BTreeMap<Vec<u8>, Branch> = BTreeMap::new();
    // End of each call for its caller, from its first branch on: a caller whom nobody was found for may be heard again.
    let mut over: BTreeMap<Name, Option<Instant>> = BTreeMap::new();
    for seen in trace.packets().filter(|seen| seen.transport == Transport::Udp) {
        let Ok(message) = Message::parse(&seen.bytes, &Limits::default()) else { continue };
        let branch = message.via().branch.unwrap_or_default().to_vec();
        let method = message.cseq().method;
        let is_ours = is_from(seen, server);
        match *message.start() {
            Start::Request { .. } if is_ours => match method {
                Method::Invite => {
                    over.entry(name_of(&message)).or_default();
                    branches.entry(branch).or_insert_with(|| Branch::new(&message, seen.at));
                }
                Method::Cancel => note(branches.get_mut(&branch), seen.at, |it| &mut it.cancelled),
                Method::Ack => note(branches.get_mut(&branch), seen.at, |it| &mut it.acknowledged),
                _ => {}
            },
            Start::Response { status, .. } if is_ours => {
                let is_over = match method {
                    Method::Invite => status >= 200,
                    Method::Cancel => status == 200,
                    _ => false,
                };
                if let Some(over) = over.get_mut(&name_of(&message)).filter(|_| is_over) {
                    over.get_or_insert(seen.at);
                }
            }
            Start::Response { status, .. } if method == Method::Invite => {
                let (Some(branch), Some(at)) = (branches.get_mut(&branch), arrival(seen)) else { continue };
                branch.on_response(status, at);
            }
            _ => {}
        }
    }
    for branch in branches.values() {
        let over = over.get(&branch.call).copied().flatten();
        branch.check(over.filter(|_| !has_spirals), config.timer_c);
    }
}

impl Branch {
    fn new(message: &Message<'_>, sent: Instant) -> Self {
        Self {
            call: name_of(message),
            sent,
            rang: None,
            last_rang: None,
            ended: None,
            has_failed: false,
            cancelled: None,
            acknowledged: None,
        }
    }

    fn on_response(&mut self, status: u16, at: Instant) {
        match status {
            ..200 => {
                self.rang = Some(self.rang.map_or(at, |before| before.min(at)));
                self.last_rang = self.last_rang.max((status > 100).then_some(at));
            }
            _ if self.ended.is_none_or(|before| at < before) => {
                (self.ended, self.has_failed) = (Some(at), status >= 300);
            }
            _ => {}
        }
    }

    fn check(&self, over: Option<Instant>, timer_c: Duration) {
        let call = String::from_utf8_lossy(&self.call.0);
        // Later the transaction may be over.
        let is_in_time = |at: &Instant| at.since(self.sent) < LASTS_MIN;
        if let Some(failed) = self.ended.filter(|_| self.has_failed).filter(is_in_time) {
            let is_acknowledged = self.acknowledged.is_some_and(|at| at <= failed + AT_ONCE);
            assert!(is_acknowledged, "a failure of the call {call} is not acknowledged");
        }
        if let Some(rang) = self.last_rang.filter(|_| self.rang.is_some_and(|at| is_in_time(&at))) {
            let ends = [self.ended, self.cancelled].into_iter().flatten().min();
            let is_over = ends.is_some_and(|at| at <= rang + timer_c + AT_ONCE);
            assert!(is_over, "a phone rings beyond timer C: call {call}");
        }
        let over = over.filter(|over| *over >= self.sent);
        if let (Some(rang), Some(over)) = (self.rang.filter(is_in_time), over) {
            let until = rang.max(over) + AT_ONCE;
            let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= until);
            let rings_on = !is_over(self.ended) && !is_over(self.cancelled);
            let [sent, rang, over] = [self.sent, rang, over].map(|at| at.since(BEGIN).as_secs_f64());
            assert!(
                !rings_on,
                "a phone rings on: call {call}, sent at {sent:.3} s, rang at {rang:.3}, over at {over:.3}"
            );
        }
    }
}

fn note(branch: Option<&mut Branch>, at: Instant, of: fn(&mut Branch) -> &mut Option<Instant>) {
    if let Some(branch) = branch {
        of(branch).get_or_insert(at);
    }
}

fn arrival(seen: &TracedPacket) -> Option<Instant> {
    match seen.fate {
        Fate::Arrives(at) | Fate::Duplicated(at) => Some(at),
        Fate::Lost | Fate::NoListener | Fate::Closed => None,
    }
}

fn name_of(message: &Message<'_>) -> Name {
    let tag = message.from().tag().unwrap_or_default().to_vec();
    (message.call_id().to_vec(), tag, message.cseq().number)
}

/// Time that a transaction of an INVITE lasts at least (64·T1 is 32 s).
const LASTS_MIN: Duration = Duration::from_secs(30);
/// Time for what is done at once.
const AT_ONCE: Duration = Duration::from_secs(1);
