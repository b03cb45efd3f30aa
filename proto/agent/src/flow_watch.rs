//! Keep-alives of a registration's flow, and what they find (RFC 5626 §4.4).

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Transport};
use ringway_stun::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId};

/// State of the keep-alives of one flow. By UDP they are STUN requests, whose answers show the address that the server sees.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowWatch {
    /// STUN request without an answer.
    asked: Option<TransactionId>,
    mapped: Option<SocketAddr>,
}

/// The flow does not lead to the phone any more: the server does not answer, or sees another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowFailed;

impl FlowWatch {
    /// Next keep-alive of the flow; `id` is random.
    pub(crate) fn next(&mut self, flow: &Flow, id: [u8; 12]) -> Result<Vec<u8>, FlowFailed> {
        if flow.transport != Transport::Udp {
            return Ok(b"\r\n\r\n".to_vec());
        }
        if self.asked.is_some() {
            return Err(FlowFailed);
        }
        let id = TransactionId(id);
        self.asked = Some(id);
        Ok(MessageWriter::new(Class::Request, METHOD_BINDING, id).finish())
    }

    /// Handles a datagram of the server; any other than the answer is ignored.
    pub(crate) fn on_datagram(&mut self, bytes: &[u8]) -> Result<(), FlowFailed> {
        let Ok(message) = Message::parse(bytes) else { return Ok(()) };
        if message.class() != Class::Success || self.asked != Some(message.id()) {
            return Ok(());
        }
        self.asked = None;
        let before = self.mapped;
        self.mapped = message.xor_mapped_address().or(before);
        if before.is_some() && before != self.mapped { Err(FlowFailed) } else { Ok(()) }
    }
}

/// Time to the next keep-alive: 80 to 100 % of Flow-Timer, by default of 30 s by UDP and 120 s by streams (RFC 5626 §4.4.1).
pub(crate) fn interval(transport: Transport, flow_timer_s: Option<u32>, percent: u64) -> Duration {
    let default = if transport == Transport::Udp { 30 } else { 120 };
    let longest = flow_timer_s.map_or(default, |seconds| seconds.clamp(FLOW_TIMER_S_MIN, FLOW_TIMER_S_MAX));
    Duration::from_millis(u64::from(longest) * 10 * (80 + percent.min(20)))
}

/// A server cannot make the phone send more often.
const FLOW_TIMER_S_MIN: u32 = 10;
const FLOW_TIMER_S_MAX: u32 = 3600;
