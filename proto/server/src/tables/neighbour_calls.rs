//! Connections that calls to neighbours have for themselves.
//!
//! A call is a Call-ID at one neighbour. Its connection is open while a request of it is pending, while its dialog lasts, and
//! for [`CHALLENGED`] after a challenge, so that the request with credentials uses it too.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{DialledId, Flow, Instant};

/// Calls with a connection of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    calls: BTreeMap<DialledId, Call>,
    /// By the keyed hash of the Call-ID and the neighbour.
    numbers: BTreeMap<(u64, u8), DialledId>,
    last: DialledId,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    key: (u64, u8),
    flow: Flow,
    /// Pending requests.
    pending: u32,
    is_dialog: bool,
    /// Without a pending request the connection is closed at this time.
    until: Instant,
}

/// Request of a call, as far as it matters for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRequest {
    /// Its response is awaited.
    Pending,
    /// The same, and the dialog ends.
    Bye,
    /// There is no response.
    Ack,
}

/// Result of a request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// It established or refreshed a dialog.
    Dialog,
    /// It was challenged.
    Challenged,
    /// Any other result.
    Other,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Begins a request and returns its flow, with the number of the call's connection; `flow` is the neighbour's own
    /// connection. `None`: there are [`CALLS_MAX`] calls.
    ///
    /// An ACK begins no call, because it cannot be challenged and anybody can send one: it is sent over `flow`.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        key: (u64, u8),
        flow: Flow,
        request: CallRequest,
    ) -> Option<Flow> {
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if request == CallRequest::Ack => return Some(flow),
            None => self.insert(key, flow)?,
        };
        let call = self.calls.get_mut(&number)?;
        match request {
            CallRequest::Pending => call.pending += 1,
            CallRequest::Bye => {
                call.pending += 1;
                call.is_dialog = false;
                call.until = now;
            }
            CallRequest::Ack => call.until = call.until.max(now + CHALLENGED),
        }
        if call.is_dialog {
            call.until = now + CALL_IDLE_MAX;
        }
        Some(call.flow)
    }

    /// Ends a pending request. Returns the flow if its connection is of no use any more.
    pub(super) fn end(&mut self, now: Instant, number: DialledId, result: CallResult) -> Option<Flow> {
        let call = self.calls.get_mut(&number)?;
        call.pending = call.pending.saturating_sub(1);
        match result {
            CallResult::Dialog => {
                call.is_dialog = true;
                call.until = now + CALL_IDLE_MAX;
            }
            CallResult::Challenged => call.until = call.until.max(now + CHALLENGED),
            CallResult::Other => {}
        }
        self.close_unused(now, number)
    }

    /// Ends the dialogs of a Call-ID, and passes the flows whose connections are of no use any more to `each`.
    pub(super) fn end_dialogs(&mut self, now: Instant, call_id: u64, mut each: impl FnMut(Flow)) {
        let of_call = (call_id, 0)..=(call_id, u8::MAX);
        let numbers: Vec<_> = self.numbers.range(of_call).map(|(_, number)| *number).collect();
        for number in numbers {
            if let Some(call) = self.calls.get_mut(&number) {
                call.is_dialog = false;
                call.until = now;
            }
            if let Some(flow) = self.close_unused(now, number) {
                each(flow);
            }
        }
    }

    /// Ends the calls whose time has passed, and passes their flows to `each`.
    pub(super) fn expire(&mut self, now: Instant, mut each: impl FnMut(Flow)) {
        let Self { calls, numbers, .. } = self;
        calls.retain(|number, call| {
            let is_used = call.is_used(now);
            if !is_used {
                forget(numbers, call.key, *number);
                each(call.flow);
            }
            is_used
        });
    }

    /// Makes later requests of the calls at this neighbour begin new calls; their connections end with the pending requests.
    pub(super) fn forget_neighbour(&mut self, neighbour: u8) {
        self.numbers.retain(|(_, of), _| *of != neighbour);
        for call in self.calls.values_mut().filter(|call| call.key.1 == neighbour) {
            call.is_dialog = false;
            call.until = Instant::default();
        }
    }

    /// Neighbour of the call with this connection.
    pub(super) fn neighbour_of(&self, number: DialledId) -> Option<u8> {
        self.calls.get(&number).map(|call| call.key.1)
    }

    fn insert(&mut self, key: (u64, u8), flow: Flow) -> Option<DialledId> {
        if self.calls.len() >= CALLS_MAX {
            return None;
        }
        // In turn: a number is used again long after its connection was closed.
        loop {
            self.last = DialledId(self.last.0.wrapping_add(1));
            if self.last != DialledId::SHARED && !self.calls.contains_key(&self.last) {
                break;
            }
        }
        let flow = Flow { connection: None, dialled: self.last, ..flow };
        let call = Call { key, flow, pending: 0, is_dialog: false, until: Instant::default() };
        self.calls.insert(self.last, call);
        self.numbers.insert(key, self.last);
        Some(self.last)
    }

    fn close_unused(&mut self, now: Instant, number: DialledId) -> Option<Flow> {
        let call = *self.calls.get(&number).filter(|call| !call.is_used(now))?;
        self.calls.remove(&number);
        forget(&mut self.numbers, call.key, number);
        Some(call.flow)
    }
}

/// Removes the key of a call, unless a later call has it.
fn forget(numbers: &mut BTreeMap<(u64, u8), DialledId>, key: (u64, u8), number: DialledId) {
    if numbers.get(&key) == Some(&number) {
        numbers.remove(&key);
    }
}

impl Call {
    fn is_used(&self, now: Instant) -> bool {
        self.pending > 0 || self.until > now
    }
}

/// Maximum number of calls with a connection of their own, at all neighbours; fewer than there are numbers.
pub const CALLS_MAX: usize = 16_384;
/// Time without a request after which the connection of a dialog is closed: the session interval that RFC 4028 §4
/// recommends. A later request of the dialog dials again.
const CALL_IDLE_MAX: Duration = Duration::from_secs(1800);
/// Time for which a challenged request is awaited again; 64·T1.
const CHALLENGED: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use ringway_sansio::ListenerId;

    const NOW: Instant = Instant::from_secs(1000);

    fn flow() -> Flow {
        Flow::dial(ListenerId(0), "192.0.2.1:5060".parse().unwrap())
    }

    fn begin(calls: &mut Calls, call_id: u64, request: CallRequest) -> DialledId {
        calls.begin(NOW, (call_id, 3), flow(), request).unwrap().dialled
    }

    #[test]
    fn a_call_has_one_connection_until_its_bye_is_answered() {
        let mut calls = Calls::default();
        assert_eq!(begin(&mut calls, 1, CallRequest::Ack), DialledId::SHARED, "an ACK begins no call");
        let number = begin(&mut calls, 1, CallRequest::Pending);
        assert_ne!(number, DialledId::SHARED);
        assert_ne!(begin(&mut calls, 2, CallRequest::Pending), number);
        assert_eq!(calls.end(NOW, number, CallResult::Challenged), None);
        assert_eq!(begin(&mut calls, 1, CallRequest::Pending), number, "with credentials");
        assert_eq!(calls.end(NOW, number, CallResult::Dialog), None);
        for request in [CallRequest::Ack, CallRequest::Pending] {
            assert_eq!(begin(&mut calls, 1, request), number);
        }
        assert_eq!(calls.end(NOW, number, CallResult::Other), None, "the dialog lasts");
        assert_eq!(begin(&mut calls, 1, CallRequest::Bye), number);
        let ended = calls.end(NOW, number, CallResult::Other).unwrap();
        assert_eq!((ended.dialled, ended.connection, calls.len()), (number, None, 1));
        assert_ne!(begin(&mut calls, 1, CallRequest::Pending), number, "a number is not used again at once");
    }

    #[test]
    fn a_bye_from_the_neighbour_ends_the_dialog_when_nothing_is_pending() {
        let mut calls = Calls::default();
        let number = begin(&mut calls, 1, CallRequest::Pending);
        calls.end(NOW, number, CallResult::Dialog);
        calls.begin(NOW, (1, 4), flow(), CallRequest::Pending);
        let mut closed = Vec::new();
        calls.end_dialogs(NOW, 2, |flow| closed.push(flow.dialled));
        assert!(closed.is_empty(), "another call");
        calls.end_dialogs(NOW, 1, |flow| closed.push(flow.dialled));
        assert_eq!((closed, calls.len()), (vec![number], 1), "the other has a pending request");
    }

    #[test]
    fn a_dialog_without_requests_ends_by_time() {
        let mut calls = Calls::default();
        let number = begin(&mut calls, 1, CallRequest::Pending);
        let mut closed = 0;
        calls.expire(NOW + CALL_IDLE_MAX * 2, |_| closed += 1);
        assert_eq!(closed, 0, "a request is pending");
        calls.end(NOW, number, CallResult::Dialog);
        calls.expire(NOW + CALL_IDLE_MAX - Duration::from_secs(1), |_| closed += 1);
        assert_eq!(closed, 0);
        calls.expire(NOW + CALL_IDLE_MAX, |_| closed += 1);
        assert_eq!((closed, calls.len(), calls.numbers.len()), (1, 0, 0));
    }

    #[test]
    fn a_call_at_a_neighbour_that_was_replaced_does_not_continue_there() {
        let mut calls = Calls::default();
        let (before, other) =
            (begin(&mut calls, 1, CallRequest::Pending), begin(&mut calls, 2, CallRequest::Pending));
        calls.end(NOW, other, CallResult::Dialog);
        calls.forget_neighbour(3);
        let after = begin(&mut calls, 1, CallRequest::Pending);
        assert_ne!(before, after);
        assert_eq!(calls.end(NOW, before, CallResult::Other).unwrap().dialled, before);
        assert_eq!(begin(&mut calls, 1, CallRequest::Pending), after, "its number is still known");
        let mut closed = Vec::new();
        calls.expire(NOW, |flow| closed.push(flow.dialled));
        assert_eq!((closed, calls.len()), (vec![other], 1));
    }

    #[test]
    fn the_number_of_calls_is_limited_and_each_has_a_number_of_its_own() {
        let mut calls = Calls::default();
        let numbers: Vec<_> =
            (0..CALLS_MAX as u64).map(|call| begin(&mut calls, call, CallRequest::Pending)).collect();
        assert_eq!(calls.begin(NOW, (u64::MAX, 3), flow(), CallRequest::Pending), None);
        assert!(calls.begin(NOW, (7, 3), flow(), CallRequest::Pending).is_some(), "no new call");
        calls.end(NOW, numbers[8], CallResult::Other);
        for round in 0..70_000 {
            let number = begin(&mut calls, u64::MAX - round, CallRequest::Pending);
            assert!(number != DialledId::SHARED && calls.calls.len() == CALLS_MAX);
            assert!(calls.end(NOW, number, CallResult::Other).is_some());
        }
    }
}
