//! A session that is built without the feature `ice`: the state cannot exist, so that nothing of it is in the program.

use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Deadline, Instant};
use ringway_sdp::MediaParams;

#[derive(Debug)]
pub(super) enum IceLite {}

impl IceLite {
    pub(super) const fn agreed(_: Option<Self>, _: &MediaParams, _: Instant) -> Option<Self> {
        None
    }

    pub(super) const fn answer(&mut self, _: Instant, _: SocketAddr, _: &[u8]) -> Option<Vec<u8>> {
        match *self {}
    }

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
