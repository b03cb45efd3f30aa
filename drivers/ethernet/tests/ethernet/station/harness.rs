//! The station, a node that echoes, and a virtual clock.

pub(crate) use ringway_test_support::ethernet::cable::{OWN, OWN_HARDWARE, PEER};

use ringway_ethernet::{Lease, Port, Station, Worked};
use ringway_sansio::{
    Context, Deadline, DialledId, Event, Flow, Framer, FramingError, Instant, Node, Received, Seed, Token,
    Transport,
};
use ringway_test_support::ethernet::cable::{Frames, Host, Plug, cable};
use std::time::Duration;

/// Echo node whose messages are lines. Each line is sent back; `to ADDRESS text` is sent to an address by UDP, `dial
/// ADDRESS text` by TCP. Events are recorded.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) messages: Vec<String>,
    pub(crate) events: Vec<Event>,
}

impl Node for Echo {
    type Action = String;
    type Framer = Lines;

    fn shard_of(_: &ringway_sansio::ShardKey, _: &[u8], _: u16) -> u16 {
        0
    }

    fn on_message(&mut self, cx: &mut Context<'_, String>, received: Received<'_>) {
        let text = String::from_utf8_lossy(received.bytes).into_owned();
        let words: Vec<_> = text.splitn(3, ' ').collect();
        let flow = received.flow;
        match words.as_slice() {
            ["to", address, rest] => {
                let flow = Flow::udp(flow.listener, address.parse().unwrap());
                cx.out.send(flow, Token(9), rest.as_bytes());
            }
            ["dial", address, rest] => {
                let flow = Flow::dial(flow.listener, address.parse().unwrap());
                cx.out.send(flow, Token(9), rest.as_bytes());
            }
            ["numbered", address, rest] => {
                let number = DialledId(rest.trim_end().parse().unwrap());
                let flow = Flow::dial(flow.listener, address.parse().unwrap());
                cx.out.send(Flow { dialled: number, ..flow }, Token(9), rest.as_bytes());
            }
            ["disconnect", address, rest] => {
                let number = DialledId(rest.trim_end().parse().unwrap());
                let flow = Flow::dial(flow.listener, address.parse().unwrap());
                cx.out.disconnect(Flow { dialled: number, ..flow });
                cx.out.send(Flow { dialled: number, ..flow }, Token(9), b"last\n");
            }
            _ => cx.out.send(flow, Token(1), received.bytes),
        }
        self.messages.push(text);
    }

    fn on_event(&mut self, _: &mut Context<'_, String>, event: Event) {
        self.events.push(event);
    }

    fn on_timeout(&mut self, _: &mut Context<'_, String>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

pub(crate) struct Lines {
    bytes: Vec<u8>,
    start: usize,
    max: usize,
}

impl Framer for Lines {
    fn new(max_message_bytes: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, max: max_message_bytes }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let rest = &self.bytes[self.start..];
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let begin = self.start;
                self.start += end + 1;
                Ok(Some(&self.bytes[begin..=begin + end]))
            }
            None if rest.len() > self.max => Err(FramingError("a line that is too long")),
            None => Ok(None),
        }
    }

    fn pongs(&mut self) -> usize {
        0
    }

    const PONG: &'static [u8] = b"";

    fn is_partial(&self) -> bool {
        self.start < self.bytes.len()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The station, the cable and a virtual clock.
pub(crate) struct Link {
    pub(crate) station: Station<Plug, Echo>,
    pub(crate) to_station: Frames,
    pub(crate) from_station: Frames,
    pub(crate) now: Instant,
}

impl Link {
    /// Creates a station without an address and without a node.
    pub(crate) fn bare() -> Self {
        let (plug, to_station, from_station) = cable();
        let now = Instant::from_secs(1000);
        let station = Station::new(plug, &Seed::from_number(1), now);
        Self { station, to_station, from_station, now }
    }

    /// Creates a station at [`OWN`] that serves port 5060 on UDP and TCP.
    pub(crate) fn new() -> Self {
        let mut link = Self::bare();
        link.station.set_lease(Lease::fixed(OWN, 24, Some(PEER)));
        link.serve();
        link
    }

    pub(crate) fn serve(&mut self) {
        let port = |transport| Port { transport, number: 5060 };
        self.station.serve(Echo::default(), vec![port(Transport::Udp), port(Transport::Tcp)], 65_535);
    }

    /// Runs both tasks of the station.
    pub(crate) fn turn(&mut self) {
        while self.station.receive(self.now) != Worked::Nothing {}
        self.station.run(self.now);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.turn();
    }

    pub(crate) fn node(&self) -> &Echo {
        self.station.node().unwrap()
    }

    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.from_station.borrow_mut().drain(..).collect()
    }

    /// Creates the host at the other end of the link.
    pub(crate) fn host(&self) -> Host {
        Host::at(&self.from_station, &self.to_station, self.now)
    }

    /// Runs both sides alternately in steps of 1 ms.
    pub(crate) fn talk(&mut self, host: &mut Host, milliseconds: u32) {
        for _ in 0..milliseconds {
            host.poll(self.now);
            self.pass(Duration::from_millis(1));
        }
    }
}
