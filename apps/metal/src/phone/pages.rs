//! The pages of the phone: events go in, commands come out.

use super::settings::PhoneSettings;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_phone::{PhoneCommand, PhoneEvent};
use ringway_sansio::Instant;
use ringway_ui::phone::{self, Contact, Effect, Event, Host, Machine, Model, Now, Settings};
use ringway_ui::{Cells, Key, Level};

/// The pages, and the time of the next drawing.
pub(super) struct Pages {
    model: Model,
    started: Instant,
    due_at: Instant,
}

impl Pages {
    pub(super) fn new(settings: &PhoneSettings, now: Instant) -> Self {
        let contact = |(quick, uri): (u8, &String)| {
            let name = user_of(uri).into();
            (!uri.is_empty()).then(|| Contact { name, uri: uri.clone(), quick: Some(quick) })
        };
        let contacts = (1..=9).zip(&settings.quick).filter_map(contact).collect();
        let stun = settings.stun.as_ref().map(|server| server.host.clone());
        let pages = Settings { account: None, srtp: settings.srtp, stun, contacts };
        Self { model: Model::new(pages, Host::Machine), started: now, due_at: now }
    }

    /// True while letters are text.
    pub(super) fn takes_text(&self) -> bool {
        self.model.takes_text()
    }

    pub(super) fn set_account(&mut self, account: phone::Account) {
        self.model.set_account(account);
    }

    pub(super) fn on_log(&mut self, now: Instant, level: Level, text: &str) {
        self.model.on_log(self.moment(now), level, text);
    }

    /// Passes an event of the phone to the pages.
    pub(super) fn on_phone(&mut self, now: Instant, event: PhoneEvent) {
        // The only effect is the bell; the sound card rings instead.
        self.model.update(self.moment(now), Event::Phone(event), &mut Vec::new());
    }

    /// Passes a key to the pages; returns the commands that it means.
    pub(super) fn on_key(&mut self, now: Instant, key: Key) -> Vec<PhoneCommand> {
        self.due_at = now;
        let mut effects = Vec::new();
        self.model.update(self.moment(now), Event::Key(key), &mut effects);
        let command = |effect| match effect {
            Effect::Phone(command) => Some(command),
            Effect::SignIn { .. }
            | Effect::Save(_)
            | Effect::KeepPassword { .. }
            | Effect::ForgetPassword { .. }
            | Effect::KeepCalls
            | Effect::Bell
            | Effect::Leave => None,
        };
        effects.into_iter().filter_map(command).collect()
    }

    /// True when it is time to draw: after a key, and every [`REFRESH`].
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.due_at
    }

    /// Draws the present page.
    pub(super) fn draw(&mut self, now: Instant, machine: &Machine<'_>, cells: &mut Cells) {
        self.due_at = now + REFRESH;
        let moment = self.moment(now);
        self.model.update(moment, Event::Tick, &mut Vec::new());
        phone::draw(&self.model, moment, Some(machine), cells);
    }

    fn moment(&self, now: Instant) -> Now {
        Now { elapsed: now.since(self.started), wall: None }
    }
}

/// `bob` of `sip:bob@example.org`.
fn user_of(uri: &str) -> &str {
    let user = uri.split_once(':').map_or(uri, |(_, rest)| rest);
    user.split_once('@').map_or("", |(user, _)| user)
}

/// Time between two drawings without a key.
const REFRESH: Duration = Duration::from_millis(250);
