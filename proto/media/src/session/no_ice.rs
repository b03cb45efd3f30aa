//! A session that is built without the feature `ice`: the state cannot exist, so that nothing of it is in the program.

use super::MediaSession;
use core::net::SocketAddr;
use ringway_sansio::{Deadline, Instant, Outbox};
use ringway_sdp::MediaParams;

#[derive(Debug)]
pub(super) enum IceLite {}

impl IceLite {
    pub(super) const fn admits(&self, _: SocketAddr) -> bool {
        match *self {}
    }

    pub(super) const fn selected(&self) -> Option<SocketAddr> {
        match *self {}
    }

    pub(super) const fn target(&self) -> Option<SocketAddr> {
        match *self {}
    }

    pub(super) const fn hear(&mut self, _: Instant, _: SocketAddr) {
        match *self {}
    }

    pub(super) const fn on_time(&mut self, _: Instant) {
        match *self {}
    }

    pub(super) const fn next_deadline(&self) -> Option<Deadline> {
        match *self {}
    }
}

impl MediaSession {
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    pub(super) const fn set_ice(&mut self, _: Instant, _: &MediaParams) -> bool {
        false
    }

    pub(super) const fn on_check(&mut self, _: Instant, _: SocketAddr, _: &[u8], _: &mut Outbox) {
        if let Some(ice) = &self.ice {
            match *ice {}
        }
    }
}
