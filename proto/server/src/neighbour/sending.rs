//! Flows of requests to neighbours.

use crate::base::Env;
use crate::tables::{CallRequest, CallResult, NeighbourRoute};
use crate::{NeighbourConnection, NeighbourTable};
use core::hash::Hasher;
use core::time::Duration;
use ringway_sansio::{DialledId, Flow};
use ringway_sip::{Message, Method};
use siphasher::sip::SipHasher13;

impl Env<'_> {
    /// Flow on which a request is sent: to a neighbour over its connection, or over the call's. A request that is
    /// [pending](CallRequest::Pending) must be ended by [`Env::end_call_request`].
    ///
    /// # Errors
    /// The status for the request, counted: the neighbour is down, or there are too many calls.
    pub(crate) fn sending_flow(
        &mut self,
        flow: Flow,
        message: &Message<'_>,
        request: CallRequest,
    ) -> Result<Sending, u16> {
        self.sending_flow_of(flow, message.call_id(), request)
    }

    /// Like [`Env::sending_flow`], for a request with this Call-ID.
    pub(crate) fn sending_flow_of(
        &mut self,
        flow: Flow,
        call_id: &[u8],
        request: CallRequest,
    ) -> Result<Sending, u16> {
        if self.config.neighbours.is_empty() || flow.connection.is_some() || !flow.transport.is_stream() {
            return Ok(flow.into());
        }
        let (index, connection) = match self.tables.neighbour_route(&flow) {
            NeighbourRoute::Other => return Ok(flow.into()),
            NeighbourRoute::Up(index, connection) => (index, connection),
            NeighbourRoute::Down => {
                self.counters.neighbour_down += 1;
                return Err(480);
            }
        };
        let Some(neighbour) = self.config.neighbours.get(index) else { return Ok(flow.into()) };
        let flow = Flow { connection: Some(connection), ..flow };
        match neighbour.connection {
            NeighbourConnection::PerCall => {
                self.begin_call_request(index, flow, call_id, request).map(Sending::from)
            }
            NeighbourConnection::Kept => Ok(Sending { flow, offers_alias: neighbour.offers_alias }),
        }
    }

    /// True for a connection of a neighbour, or of a call to one.
    pub(crate) fn is_of_neighbour(&self, flow: &Flow) -> bool {
        !self.config.neighbours.is_empty()
            && flow.connection.is_some_and(|connection| {
                self.tables.read_neighbours(false, |table| table.name_of(connection, flow.dialled).is_some())
            })
    }

    fn begin_call_request(
        &mut self,
        index: usize,
        flow: Flow,
        call_id: &[u8],
        request: CallRequest,
    ) -> Result<Flow, u16> {
        let (now, call) = (self.cx.now, self.call_hash_of(call_id));
        let begin = |table: &mut NeighbourTable| table.begin_call(now, call, index, flow, request);
        let begun = self.tables.change_neighbours(None, begin);
        self.calls_checked_at.get_or_insert(now + CHECK_INTERVAL);
        begun.ok_or_else(|| {
            self.counters.neighbour_calls_refused += 1;
            503
        })
    }

    /// Ends a pending request that was sent over this connection; it is closed if the call does not need it any more.
    pub(crate) fn end_call_request(&mut self, number: DialledId, result: CallResult) {
        if number == DialledId::SHARED {
            return;
        }
        let now = self.cx.now;
        let unused = self.tables.change_neighbours(None, |table| table.end_call(now, number, result));
        unused.into_iter().for_each(|flow| self.cx.out.disconnect(flow));
    }

    /// Handles the final response to a BYE: the neighbour that the dialog is with may have sent it.
    pub(crate) fn end_call_dialog(&mut self, message: &Message<'_>) {
        if !self.config.has_calls_with_connections() {
            return;
        }
        let (now, call_id, out) = (self.cx.now, self.call_hash(message), &mut *self.cx.out);
        self.tables.change_neighbours((), |table| {
            table.end_dialogs(now, call_id, |flow| out.disconnect(flow));
        });
    }

    /// Closes the connections of calls whose time has passed.
    pub(crate) fn check_calls(&mut self) {
        let now = self.cx.now;
        if self.calls_checked_at.is_none_or(|at| at > now) {
            return;
        }
        let (out, mut idle) = (&mut *self.cx.out, 0);
        let left = self.tables.change_neighbours(0, |table| {
            table.expire_calls(now, |flow| {
                out.disconnect(flow);
                idle += 1;
            });
            table.calls_len()
        });
        self.counters.neighbour_calls_idle += idle;
        *self.calls_checked_at = (left > 0).then_some(now + CHECK_INTERVAL);
    }

    /// Keyed hash of the Call-ID.
    pub(crate) fn call_hash(&self, message: &Message<'_>) -> u64 {
        self.call_hash_of(message.call_id())
    }

    fn call_hash_of(&self, call_id: &[u8]) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.keys.calls);
        hash.write(call_id);
        hash.finish()
    }
}

impl CallRequest {
    pub(crate) fn of(method: Method<'_>) -> Self {
        match method {
            Method::Ack => Self::Ack,
            Method::Bye => Self::Bye,
            _ => Self::Pending,
        }
    }
}

impl CallResult {
    /// Result of a request that got a final response.
    pub(crate) const fn of(is_invite: bool, status: u16) -> Self {
        match status {
            200..=299 if is_invite => Self::Dialog,
            401 | 407 => Self::Challenged,
            _ => Self::Other,
        }
    }
}

/// Flow of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    pub(crate) flow: Flow,
    /// The connection is offered for requests of the peer (RFC 5923 §8.1).
    pub(crate) offers_alias: bool,
}

impl From<Flow> for Sending {
    fn from(flow: Flow) -> Self {
        Self { flow, offers_alias: false }
    }
}

/// Time between two checks for calls whose time has passed. Each shard that began a call checks all.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
