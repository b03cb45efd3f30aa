//! The callers of a crowd.

use super::{CALL_ID, CrowdPlan, Outcomes, Pending, is_cancelled, number_of, send};
use crate::attack::message::{Credentials, Draft, copy_routes, status, value};
use crate::attack::peer::first_line;
use crate::attack::script::T2;
use crate::attack::target::aor;
use crate::server::Algorithm;
use anyhow::{Result, bail};
use std::collections::HashMap;
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

pub(super) struct Callers<'c> {
    socket: &'c UdpSocket,
    address: SocketAddrV4,
    plan: CrowdPlan,
    /// URI of the called user.
    callee: String,
    calls: HashMap<u32, Call>,
    outcomes: Outcomes,
}

/// A call that has not ended.
struct Call {
    step: Step,
    /// Request that waits for its answer.
    pending: Option<Pending>,
    /// CSeq of the last request but ACK and CANCEL.
    cseq: u32,
    /// Line with the credentials of the INVITE.
    credentials: String,
    /// The dialog of an answered call.
    dialog: Dialog,
    is_admitted: bool,
}

#[derive(Default)]
struct Dialog {
    uri: String,
    to: String,
    routes: String,
    ack: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Invite,
    /// Until the CANCEL.
    Ringing(Instant),
    /// Until the final responses to CANCEL and INVITE.
    Cancelled,
    /// Until the BYE.
    Talking(Instant),
    Ending,
}

impl<'c> Callers<'c> {
    pub(super) fn new((socket, address): &'c (UdpSocket, SocketAddrV4), plan: CrowdPlan) -> Self {
        let callee = aor(plan.callee);
        Self { socket, address: *address, plan, callee, calls: HashMap::new(), outcomes: Outcomes::default() }
    }

    pub(super) fn open(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn into_outcomes(self) -> Outcomes {
        self.outcomes
    }

    pub(super) fn begin(&mut self, number: u32, now: Instant) -> Result<()> {
        let mut call = Call {
            step: Step::Invite,
            pending: None,
            cseq: 1,
            credentials: String::new(),
            dialog: Dialog::default(),
            is_admitted: false,
        };
        self.invite(number, &mut call, now)?;
        self.outcomes.offered += 1;
        self.calls.insert(number, call);
        Ok(())
    }

    fn invite(&self, number: u32, call: &mut Call, now: Instant) -> Result<()> {
        let lines = format!("Contact: <sip:c@{}>\r\n{}", self.address, call.credentials);
        let invite = self.of_invite(number, call, "INVITE", "", &lines);
        call.pending = Some(self.send(invite, (now, Duration::MAX))?);
        Ok(())
    }

    fn send(&self, request: Vec<u8>, time: (Instant, Duration)) -> Result<Pending> {
        Pending::send(self.socket, request, self.plan.server.into(), time)
    }

    /// The INVITE, or its CANCEL or ACK: with the same branch and CSeq number. `to` is To, if it is not that of the INVITE.
    fn of_invite(&self, number: u32, call: &Call, method: &str, to: &str, lines: &str) -> Vec<u8> {
        let to = if to.is_empty() { format!("<{}>", self.callee) } else { to.to_owned() };
        let branch = format!("z9hG4bKi{number}-{}", call.cseq);
        self.write(
            number,
            Draft {
                method,
                uri: &self.callee,
                to: &to,
                cseq: call.cseq,
                branch: &branch,
                lines,
                ..Draft::EMPTY
            },
        )
    }

    /// ACK or BYE of an answered call.
    fn in_dialog(&self, number: u32, call: &Call, method: &str) -> Vec<u8> {
        let Dialog { uri, to, routes, .. } = &call.dialog;
        let branch = format!("z9hG4bKd{number}-{method}");
        self.write(
            number,
            Draft { method, uri, to, cseq: call.cseq, branch: &branch, lines: routes, ..Draft::EMPTY },
        )
    }

    fn write(&self, number: u32, draft: Draft<'_>) -> Vec<u8> {
        let (from, call_id) = (aor(self.user(number)), format!("{CALL_ID}{number}"));
        Draft { from: &from, call_id: &call_id, ..draft }.write(self.address)
    }

    fn user(&self, number: u32) -> u32 {
        number % self.plan.users
    }

    pub(super) fn on_response(&mut self, response: &[u8], now: Instant) -> Result<()> {
        let (Some(status), Some(number)) = (status(response), number_of(response)) else { return Ok(()) };
        let Some(mut call) = self.calls.remove(&number) else { return Ok(()) };
        let cseq = value(response, "CSeq").unwrap_or_default();
        let (cseq, method) = cseq.split_once(' ').unwrap_or_default();
        let is_present = cseq.parse() == Ok(call.cseq);
        let goes_on = match (method, call.step) {
            ("INVITE", Step::Ending) => {
                send(self.socket, &call.dialog.ack, self.plan.server.into())?;
                true
            }
            ("INVITE", _) if is_present => self.on_invite(number, &mut call, (status, response), now)?,
            ("CANCEL", Step::Cancelled) | ("BYE", Step::Ending) if status >= 200 => {
                self.on_end(&mut call, (status, response));
                // A 487 may come later.
                call.step == Step::Cancelled && call.dialog.to.is_empty()
            }
            _ => true,
        };
        if goes_on {
            self.calls.insert(number, call);
        }
        Ok(())
    }

    /// Response to the INVITE. False: the call has ended.
    fn on_invite(
        &mut self,
        number: u32,
        call: &mut Call,
        (status, response): (u16, &[u8]),
        now: Instant,
    ) -> Result<bool> {
        match (status, call.step) {
            (100..=199, Step::Invite) => {
                call.pending = None;
                if status > 100 && self.admit(call) && is_cancelled(number) {
                    call.step = Step::Ringing(now + RINGS);
                }
            }
            (200, Step::Invite) => {
                self.admit(call);
                let mut routes = Vec::new();
                copy_routes(response, &mut routes);
                let contact = value(response, "Contact").unwrap_or_default();
                call.dialog = Dialog {
                    uri: contact.trim_matches(['<', '>']).to_owned(),
                    to: value(response, "To").unwrap_or_default().to_owned(),
                    routes: String::from_utf8_lossy(&routes).into_owned(),
                    ack: Vec::new(),
                };
                call.dialog.ack = self.in_dialog(number, call, "ACK");
                send(self.socket, &call.dialog.ack, self.plan.server.into())?;
                self.outcomes.acks.requests += 1;
                (call.step, call.pending) = (Step::Talking(now + self.plan.talk), None);
            }
            (200, Step::Talking(_)) => send(self.socket, &call.dialog.ack, self.plan.server.into())?,
            (300.., _) => return self.on_failure(number, call, (status, response), now),
            _ => {}
        }
        Ok(true)
    }

    /// Counts a call that was admitted. False: it was counted before.
    fn admit(&mut self, call: &mut Call) -> bool {
        let is_new = !std::mem::replace(&mut call.is_admitted, true);
        self.outcomes.admitted += u64::from(is_new);
        is_new
    }

    /// Failure of the INVITE. False: the call has ended.
    fn on_failure(
        &mut self,
        number: u32,
        call: &mut Call,
        (status, response): (u16, &[u8]),
        now: Instant,
    ) -> Result<bool> {
        let to = value(response, "To").unwrap_or_default().to_owned();
        let ack = self.of_invite(number, call, "ACK", &to, "");
        send(self.socket, &ack, self.plan.server.into())?;
        match (status, call.step) {
            (407, Step::Invite) if call.cseq < CHALLENGES_MAX => {
                let credentials =
                    Credentials::new(Algorithm::Md5, "Proxy-Authorization", "INVITE", &self.callee);
                let mut line = Vec::new();
                if !credentials.answer(self.user(number), response, &mut line) {
                    bail!("{}: the challenge cannot be answered", first_line(response));
                }
                call.credentials = String::from_utf8_lossy(&line).into_owned();
                call.cseq += 1;
                self.invite(number, call, now)?;
                Ok(true)
            }
            (487, Step::Cancelled) => {
                call.dialog.to = to;
                Ok(call.pending.is_some())
            }
            _ => {
                *self.outcomes.refused.entry(status).or_default() += 1;
                self.outcomes.admitted -= u64::from(call.is_admitted);
                Ok(false)
            }
        }
    }

    /// Final response to BYE or CANCEL.
    fn on_end(&mut self, call: &mut Call, (status, response): (u16, &[u8])) {
        let Some(pending) = call.pending.take() else { return };
        let sent =
            if call.step == Step::Ending { &mut self.outcomes.byes } else { &mut self.outcomes.cancels };
        sent.again += u64::from(pending.was_repeated);
        if status != 200 {
            sent.failed += 1;
            eprintln!("  crowd: {:?}: {}", call.step, first_line(response));
        }
    }

    /// Sends again what is due, and begins what follows a pause.
    pub(super) fn look(&mut self, now: Instant) -> Result<()> {
        let mut calls = std::mem::take(&mut self.calls);
        let mut failed = Ok(());
        calls.retain(|&number, call| {
            let looked = self.look_at(number, call, now);
            looked.unwrap_or_else(|error| {
                failed = Err(error);
                false
            })
        });
        self.calls = calls;
        failed
    }

    /// False: the call has ended.
    fn look_at(&mut self, number: u32, call: &mut Call, now: Instant) -> Result<bool> {
        match call.step {
            Step::Ringing(until) if until <= now => {
                let cancel = self.of_invite(number, call, "CANCEL", "", "");
                (call.step, call.pending) = (Step::Cancelled, Some(self.send(cancel, (now, T2))?));
                self.outcomes.cancels.requests += 1;
            }
            Step::Talking(until) if until <= now => {
                call.cseq += 1;
                let bye = self.in_dialog(number, call, "BYE");
                (call.step, call.pending) = (Step::Ending, Some(self.send(bye, (now, T2))?));
                self.outcomes.byes.requests += 1;
            }
            Step::Invite | Step::Ringing(_) | Step::Cancelled | Step::Talking(_) | Step::Ending => {}
        }
        let Some(pending) = &mut call.pending else { return Ok(true) };
        let goes_on = pending.repeat(self.socket, now)?;
        if !goes_on {
            match call.step {
                Step::Ending => self.outcomes.byes.failed += 1,
                Step::Cancelled => self.outcomes.cancels.failed += 1,
                Step::Invite | Step::Ringing(_) | Step::Talking(_) => {
                    *self.outcomes.refused.entry(0).or_default() += 1;
                }
            }
        }
        Ok(goes_on)
    }
}

/// Time from the ringing to the CANCEL.
const RINGS: Duration = Duration::from_millis(100);
/// Maximum number of answered challenges, and 1: a nonce may be stale.
const CHALLENGES_MAX: u32 = 3;
