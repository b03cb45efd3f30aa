//! A machine that answers DNS and STUN, and sends SIP under the control of the test.

use crate::phone::network::{HELPER, SERVER};
use ringway_ethernet::Port;
use ringway_media::stun::{Class, METHOD_BINDING, Message, MessageWriter};
use ringway_sansio::{Context, Deadline, Event, ListenerId, Node, Received, Token, Transport};
use ringway_test_support::ethernet::cable::name_answer;
use std::net::SocketAddr;

/// Mapped address of every RTP port.
pub(crate) const MAPPED: &str = "198.51.100.9:40000";
/// And every port for RTCP, which is the odd one.
pub(crate) const RTCP_MAPPED: &str = "198.51.100.9:41414";

#[derive(Default)]
pub(crate) struct Helper {
    /// It says nothing to STUN.
    pub(crate) is_mute: bool,
    /// The SIP messages that came.
    pub(crate) sip: Vec<String>,
}

impl Helper {
    pub(crate) const PORTS: [Port; 3] = [Self::port(53), Self::port(3478), Self::port(5060)];
    pub(crate) const SIP: ListenerId = ListenerId(2);

    const fn port(number: u16) -> Port {
        Port { transport: Transport::Udp, number }
    }

    /// The last message that begins so.
    pub(crate) fn heard(&self, begin: &str) -> &str {
        self.sip
            .iter()
            .rfind(|text| text.starts_with(begin))
            .unwrap_or_else(|| panic!("no {begin}: {:?}", self.sip))
    }
}

impl Node for Helper {
    type Action = ();
    type Framer = ringway_agent::SipFramer;

    fn shard_of(_: &ringway_sansio::ShardKey, _: &[u8], _: u16) -> u16 {
        0
    }

    fn on_message(&mut self, cx: &mut Context<'_, ()>, received: Received<'_>) {
        let Received { flow, bytes, .. } = received;
        if flow.listener.0 == 0 {
            let known = [(&b"stun"[..], HELPER), (b"pbx", SERVER)];
            let found = known.iter().find(|(name, _)| bytes.windows(name.len()).any(|part| part == *name));
            cx.out.send(flow, Token::NONE, &name_answer(bytes, found.map(|(_, address)| *address)));
        } else if flow.listener == Self::SIP {
            self.sip.push(String::from_utf8_lossy(bytes).into_owned());
        } else if let Ok(request) = Message::parse(bytes)
            && !self.is_mute
        {
            let is_rtcp = flow.remote.port() % 2 == 1;
            let mapped: SocketAddr = if is_rtcp { RTCP_MAPPED } else { MAPPED }.parse().unwrap();
            let answer = MessageWriter::new(Class::Success, METHOD_BINDING, request.id())
                .xor_mapped_address(mapped)
                .finish();
            cx.out.send(flow, Token::NONE, &answer);
        }
    }

    fn on_event(&mut self, _: &mut Context<'_, ()>, _: Event) {}

    fn on_timeout(&mut self, _: &mut Context<'_, ()>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}
