//! Secured state: result, retained secrets, and messages after the Confirms.

use crate::cache::{Retained, expiry};
use crate::confirm::{Confirm, is_go_clear, is_sas_relay};
use crate::engine::{Agreed, PacketSink, State, Zrtp};
use crate::event::{Continuity, Secured, ZrtpEvent};
use crate::message::error;
use crate::packet::{MessageType, Packet, write_message};
use crate::sas::render;
use alloc::boxed::Box;
use alloc::string::String;
use ringway_sansio::Instant;

/// Result of the users' comparison of the short authentication string (RFC 6189 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SasCheck {
    /// The strings are equal: no man in the middle in this call nor since the secrets were first retained.
    Matches,
    /// The strings differ: man in the middle. The cache entry of the peer is deleted.
    Differs,
}

impl Zrtp {
    /// Records the comparison, at any time after [`ZrtpEvent::Secured`]; does nothing before.
    pub fn on_sas_compared(&mut self, now: Instant, check: SasCheck) {
        let state = self.replace_state(State::Failed);
        if let State::Secured(agreed) = &state {
            match check {
                SasCheck::Matches => self.remember(now, agreed, true),
                SasCheck::Differs => self.forget(),
            }
        }
        self.replace_state(state);
    }

    /// Enters the secured state after both Confirms.
    pub(crate) fn secure(&mut self, now: Instant, mut agreed: Box<Agreed>, confirm: &Confirm) -> State {
        self.retransmission = None;
        self.give_up = None;
        let Some(peer) = &self.peer else { return State::Failed };
        agreed.cache_interval_s = self.config.cache_interval_s.min(confirm.cache_interval_s);
        let sas_verified = self.is_sas_verified(agreed.continuity);
        let secured = Secured {
            suite: agreed.chosen.suite(),
            send: agreed.keys.of(agreed.role).master_key(),
            receive: agreed.keys.of(agreed.role.other()).master_key(),
            sas: render(agreed.chosen.sas, agreed.keys.sas_value),
            sas_type: agreed.chosen.sas,
            sas_verified,
            peer_sas_verified: confirm.sas_verified,
            continuity: agreed.continuity,
            is_hello_announced: self.peer_hello_hash.is_some(),
            key_agreement: agreed.chosen.key_agreement,
            peer_zid: peer.hello.zid,
            peer_client: printable(&peer.hello.client_id),
            peer_discloses: confirm.discloses,
        };
        self.emit(ZrtpEvent::Secured(Box::new(secured)));
        // RFC 6189 §4.6.1.1: after a break no secret is retained until the user has compared the string.
        match agreed.continuity {
            Continuity::FirstCall | Continuity::Continued => self.remember(now, &agreed, sas_verified),
            Continuity::Broken => {}
        }
        State::Secured(agreed)
    }

    pub(crate) fn secured(
        &mut self,
        mut agreed: Box<Agreed>,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        let (hash, keys) = (agreed.chosen.hash, agreed.keys.of(agreed.role.other()));
        match packet.kind {
            MessageType::Confirm2 if packet.message == agreed.received => self.send(&agreed.answer, out),
            // RFC 6189 §5.13: acknowledged, but not displayed; no PBX is trusted.
            MessageType::SasRelay if is_sas_relay(packet.message, hash, keys) => {
                self.send(&write_message(MessageType::RelayAck, &[]), out);
            }
            // RFC 6189 §4.7.2: refused, because we do not announce the A flag.
            MessageType::GoClear if is_go_clear(packet.message, hash, keys) => {
                self.send(&error(ERROR_GO_CLEAR), out);
                if !agreed.is_go_clear_reported {
                    agreed.is_go_clear_reported = true;
                    self.emit(ZrtpEvent::GoClearRefused);
                }
            }
            MessageType::SasRelay | MessageType::GoClear => self.counts.forged += 1,
            MessageType::ErrorAck => {}
            _ => self.counts.unexpected += 1,
        }
        State::Secured(agreed)
    }

    /// RFC 6189 §4.6.1 and §4.9: rs1 becomes rs2, unless one end retains nothing.
    fn remember(&mut self, now: Instant, agreed: &Agreed, sas_verified: bool) {
        let Some(peer) = &self.peer else { return };
        let zid = peer.hello.zid;
        let rs1 = agreed.keys.rs1.leftmost();
        let old = self.cache.find(&zid);
        let retained = match (old, agreed.cache_interval_s) {
            (None, 0) => return,
            (Some(old), 0) => Retained { expires_at: now, used_at: now, ..old.clone() },
            (Some(old), _) if old.rs1 == rs1 => Retained { sas_verified, used_at: now, ..old.clone() },
            (old, interval_s) => Retained {
                zid,
                rs1,
                rs2: old.map(|old| old.rs1),
                sas_verified,
                expires_at: expiry(now, interval_s),
                used_at: now,
            },
        };
        let forgotten = self.cache.insert(retained.clone());
        self.emit(ZrtpEvent::Retain(retained));
        if let Some(zid) = forgotten {
            self.emit(ZrtpEvent::Forget(zid));
        }
    }

    fn forget(&mut self) {
        let Some(peer) = &self.peer else { return };
        let zid = peer.hello.zid;
        self.cache.remove(&zid);
        self.emit(ZrtpEvent::Forget(zid));
    }
}

/// Printable part of the peer's client identifier.
fn printable(client_id: &[u8; 16]) -> String {
    let text: String =
        client_id.iter().filter(|byte| (b' '..=b'~').contains(byte)).copied().map(char::from).collect();
    text.trim().into()
}

/// "GoClear message received, but not allowed" (RFC 6189 §5.9).
const ERROR_GO_CLEAR: u32 = 0x100;
