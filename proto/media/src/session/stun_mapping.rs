//! Mapped addresses of our two ports by STUN, with a client for each, since a NAT maps each port separately
//! (RFC 3605 §1).

use super::config::MediaEvent;
use super::{Deferred, RTCP_PORT, RTP_PORT};
use crate::stun::{StunClient, StunEvent};
use core::net::SocketAddr;
use ringway_sansio::{Deadline, Flow, Instant, ListenerId, Outbox, Seed, Token};

pub(super) struct StunMapping {
    rtp: Deferred<StunClient>,
    rtcp: Deferred<StunClient>,
}

impl StunMapping {
    /// Creates the clients; they send requests to `server` from `now` on. The first seed is for RTP.
    pub(super) fn new(server: SocketAddr, seeds: [Seed; 2], now: Instant) -> Self {
        let server = Flow::canonical(server);
        let [rtp, rtcp] =
            seeds.map(|seed| Deferred { machine: StunClient::new(server, &seed), start_at: Some(now) });
        Self { rtp, rtcp }
    }

    /// Stops both clients.
    pub(super) fn stop(&mut self) {
        for deferred in [&mut self.rtp, &mut self.rtcp] {
            deferred.start_at = None;
            deferred.machine.stop();
        }
    }

    /// Handles a datagram on one of the ports.
    pub(super) fn on_datagram(
        &mut self,
        now: Instant,
        port: ListenerId,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<MediaEvent> {
        let deferred = if port == RTCP_PORT { &mut self.rtcp } else { &mut self.rtp };
        let event = deferred.machine.on_datagram(now, from, datagram)?;
        self.session_event(port, event)
    }

    /// Sends the requests that are due.
    pub(super) fn on_timeout(&mut self, now: Instant, out: &mut Outbox) -> Option<MediaEvent> {
        let mut failed = None;
        for (port, deferred) in [(RTP_PORT, &mut self.rtp), (RTCP_PORT, &mut self.rtcp)] {
            let flow = Flow::udp(port, deferred.machine.server());
            let mut send = |bytes: &[u8]| out.send(flow, Token::NONE, bytes);
            if deferred.start_at.take_if(|at| *at <= now).is_some() {
                deferred.machine.start(now, &mut send);
            }
            if let Some(event) = deferred.machine.on_timeout(now, &mut send) {
                failed = failed.or(Some((port, event)));
            }
        }
        failed.and_then(|(port, event)| self.session_event(port, event))
    }

    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        let due = |deferred: &Deferred<StunClient>| {
            let first = deferred.start_at.map(|at| Deadline { at, reason: "first STUN request" });
            first.or_else(|| deferred.machine.next_deadline())
        };
        [due(&self.rtp), due(&self.rtcp)].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// Mapped address of the RTP port in the last response.
    pub(super) const fn mapped(&self) -> Option<SocketAddr> {
        self.rtp.machine.mapped()
    }

    /// Address of the STUN server.
    pub(super) const fn server(&self) -> SocketAddr {
        self.rtp.machine.server()
    }

    /// Event of the session: there is none without a mapping of the RTP port, which a call needs.
    fn session_event(&self, port: ListenerId, event: StunEvent) -> Option<MediaEvent> {
        match event {
            StunEvent::Mapped(_) => {
                let rtcp = self.rtcp.machine.mapped();
                self.mapped().map(|rtp| MediaEvent::StunMapped { rtp, rtcp })
            }
            StunEvent::Failed(failure) => (port == RTP_PORT).then_some(MediaEvent::StunFailed(failure)),
        }
    }
}
