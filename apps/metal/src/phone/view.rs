//! What the phone's screen shows of the machine.

use super::Headset;
use super::call::{Call, Phase};
use super::machine::{PhoneMachine, Registration};
use super::source::{Source, decibels};
use super::stream::Stream;
use crate::network::network;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_ethernet::Card;
use ringway_media::session::Security;
use ringway_sansio::Instant;
use ringway_sdp::{KeyManagement, MediaParams};
use ringway_ui::Cells;
use ringway_ui::image_phone::{self as phone, Facts, Phone, Quick, Sound};

impl<C: Card> PhoneMachine<C> {
    /// Gives the screen, the facts and the page to `f`.
    pub(super) fn with_facts<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut Phone, &Facts<'_>, &mut Cells) -> R,
    ) -> R {
        let is_up = self.station.station_mut().is_up();
        let Self {
            station, hardware, settings, source, headset, call, screen, consoles, registration, ..
        } = self;
        let uptime = now.since(self.started);
        let quick: Vec<Quick<'_>> =
            settings.quick.iter().map(|uri| Quick { name: user_of(uri), uri }).collect();
        let link = (station.station().card().address(), is_up);
        let lease_age = now.since(self.leased_at);
        let halted = self.halted.as_deref();
        let in_call = station.machine().and_then(Stream::headset);
        let sound = sound_in_words(source, headset.as_ref().or(in_call));
        let facts = Facts {
            version: hardware.version,
            uptime,
            own: self.own.as_bytes(),
            registration: match halted {
                Some(why) => phone::Registration::Failed { reason: why.as_bytes(), retry: None },
                None => registration.fact(now),
            },
            quick: &quick,
            call: call.as_ref().map(|call| call_fact(now, call, station.machine())),
            last: self.last.as_ref().map(String::as_bytes),
            sound: &sound,
            network: network(hardware, link, station.station().lease(), uptime, lease_age),
        };
        f(screen, &facts, &mut consoles.cells)
    }
}

/// Where sound comes from and goes to.
fn sound_in_words(source: &Source, headset: Option<&Headset>) -> String {
    let name = source.name();
    match headset {
        Some(headset) => format!("{name} sent, sound played ({})", headset.name()),
        None => format!("{name} sent, sound measured only"),
    }
}

impl Registration {
    fn fact(&self, now: Instant) -> phone::Registration<'_> {
        match self {
            Self::Off => phone::Registration::Off,
            Self::Asking => phone::Registration::Asking,
            Self::Registered { until } => phone::Registration::Registered { left: until.since(now) },
            Self::Failed { reason, retry_at } => phone::Registration::Failed {
                reason: reason.as_bytes(),
                retry: retry_at.map(|at| at.since(now)),
            },
        }
    }
}

/// What protects a call's sound, in the words of the phone on Linux.
pub(super) fn security_in_words(security: Option<Security>) -> String {
    let Some(Security { key_management, suite }) = security else { return "not protected".into() };
    match key_management {
        KeyManagement::Sdes => format!("SDES over plain SIP (weak), {}", suite.name()),
        KeyManagement::Zrtp => format!("ZRTP, {}", suite.name()),
    }
}

fn call_fact<'a>(now: Instant, call: &'a Call, stream: Option<&'a Stream>) -> phone::Call<'a> {
    let params = stream.and_then(Stream::params);
    phone::Call {
        phase: match call.phase {
            Phase::Mapping { .. } => phone::Phase::Calling(core::time::Duration::ZERO),
            Phase::Calling(since) => phone::Phase::Calling(now.since(since)),
            Phase::RingsThere => phone::Phase::RingsThere,
            Phase::EarlySound => phone::Phase::EarlySound,
            Phase::RingsHere => phone::Phase::RingsHere,
            Phase::Answering => phone::Phase::Answering,
            Phase::Talking(since) => phone::Phase::Talking(now.since(since)),
            Phase::Ending => phone::Phase::Ending,
        },
        name: call.name.as_bytes(),
        uri: call.uri.as_bytes(),
        codec: params.map_or("", |params| params.codec.name()),
        hold: match (call.is_held_by_us, call.is_held_by_peer) {
            (false, false) => phone::Hold::None,
            (true, false) => phone::Hold::Ours,
            (false, true) => phone::Hold::Theirs,
            (true, true) => phone::Hold::Both,
        },
        security: stream.map_or(phone::Security::None, |stream| security(call, stream)),
        digits: &call.digits,
        sound: stream.filter(|_| params.is_some()).map(sound),
    }
}

/// What is, and not what was agreed on.
fn security<'a>(call: &'a Call, stream: &'a Stream) -> phone::Security<'a> {
    let Some(Security { key_management, suite }) = stream.report().security else {
        let negotiated = stream.params().and_then(MediaParams::key_management);
        return match negotiated {
            Some(KeyManagement::Zrtp) => phone::Security::Agreeing,
            Some(KeyManagement::Sdes) | None => phone::Security::None,
        };
    };
    let suite = suite.name();
    match (key_management, &call.sas) {
        (KeyManagement::Zrtp, Some(sas)) => {
            phone::Security::Zrtp { suite, sas: &sas.text, is_compared: sas.is_compared }
        }
        (KeyManagement::Zrtp, None) => phone::Security::Agreeing,
        (KeyManagement::Sdes, _) => phone::Security::SdesPlain { suite },
    }
}

fn sound(stream: &Stream) -> Sound {
    let report = stream.report();
    let received = &report.received;
    let (ours, theirs) = stream.levels();
    Sound {
        sent_db: decibels(ours),
        received_db: decibels(theirs),
        sent_packets: report.sent.packets,
        received_packets: received.counts.received,
        lost_packets: received.counts.lost(),
        delta_ms: stream.delta_ms(),
        delta_ms_max: received.delta_max_ms,
        jitter_ms: received.jitter_last_ms,
        jitter_ms_max: received.jitter_max_ms,
        mos: report.mos,
    }
}

/// `bob` of `sip:bob@example.org`.
fn user_of(uri: &str) -> &str {
    let user = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    user.split_once('@').map_or("", |(user, _)| user)
}
