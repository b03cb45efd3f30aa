//! Drawing of the phone's pages, from the state of the machine.

use super::Headset;
use super::machine::PhoneMachine;
use super::source::Source;
use crate::network::network;
use alloc::format;
use alloc::string::String;
use ringway_ethernet::Card;
use ringway_media::session::Security;
use ringway_sansio::Instant;
use ringway_sdp::KeyManagement;
use ringway_ui::phone::Machine;

impl<C: Card> PhoneMachine<C> {
    /// Draws the present page, if it is due; false: it is as before.
    pub(super) fn draw_page(&mut self, now: Instant) -> bool {
        if !self.pages.is_due(now) {
            return false;
        }
        let is_up = self.station.station_mut().is_up();
        let Self { station, hardware, source, headset, pages, consoles, .. } = self;
        let link = (station.station().card().address(), is_up);
        let (uptime, lease_age) = (now.since(self.started), now.since(self.leased_at));
        let headset = headset.as_ref().or(station.machine().and_then(|media| media.sound().headset()));
        let machine = Machine {
            network: network(hardware, link, station.station().lease(), uptime, lease_age),
            sound: &sound_in_words(source, headset),
            halted: self.halted.as_deref(),
        };
        pages.draw(now, &machine, &mut consoles.cells);
        true
    }
}

/// Source and sink of the sound.
fn sound_in_words(source: &Source, headset: Option<&Headset>) -> String {
    let name = source.name();
    match headset {
        Some(headset) => format!("{name} sent, sound played ({})", headset.name()),
        None => format!("{name} sent, sound measured only"),
    }
}

/// Protection of a call's sound, in the words of the call page.
pub(super) fn security_in_words(security: Option<Security>) -> String {
    let Some(Security { key_management, suite }) = security else { return "not protected".into() };
    match key_management {
        KeyManagement::Sdes => format!("SDES over plain SIP (weak), {}", suite.name()),
        KeyManagement::Dtls => format!("DTLS over plain SIP (weak), {}", suite.name()),
        KeyManagement::Zrtp => format!("ZRTP, {}", suite.name()),
    }
}
