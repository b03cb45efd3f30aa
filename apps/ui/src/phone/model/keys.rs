//! Functions of the keys.

use super::call::{Asked, URI_CHARS_MAX};
use super::{Effect, Host, Model, Overlay, Screen, Weight, login};
use crate::keys::Key;
use crate::phone::Now;
use crate::phone::form::{Field, Pressed};
use crate::phone::settings::complete_uri;
use crate::text::Shown;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use ringway_phone::{CallNumber, Digit, PhoneCommand, Protection, SasStatus};

/// Addresses that the address line remembers.
const DIALLED_MAX: usize = 100;
const PAGE: usize = 10;

impl Model {
    pub(super) fn on_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        match key {
            Key::Ctrl('c' | 'q') => return self.leave(now, effects),
            // Ctrl-A is the prefix of GNU screen.
            Key::Ctrl('a') | Key::Function(9) => return self.answer(effects),
            Key::Ctrl('r') => return self.reject(effects),
            Key::Ctrl('x') => return self.hang_up(effects),
            _ => {}
        }
        if self.overlay.is_some() {
            return self.on_overlay_key(now, key, effects);
        }
        if key == Key::Enter && self.enter_answers() {
            return self.answer(effects);
        }
        if super::on_key(self, key) {
            return;
        }
        let screens = self.host.screens();
        let last_screen = screens.len() - 1;
        let place = screens.iter().position(|screen| *screen == self.screen).unwrap_or(0);
        let next = |place: usize| screens.get(place).copied().unwrap_or(self.screen);
        match key {
            Key::Function(1) => self.overlay = Some(Overlay::Help { top: 0 }),
            Key::Function(number @ 2..=8) => self.go(next(usize::from(number) - 2)),
            Key::Alt(face @ '1'..='9') => self.dial_quick(now, face, effects),
            // In a form the tabulator goes from field to field.
            Key::Tab if self.screen != Screen::Account => self.go(next((place + 1) % (last_screen + 1))),
            Key::BackTab if self.screen != Screen::Account => {
                self.go(next((place + last_screen) % (last_screen + 1)))
            }
            _ => self.on_screen_key(now, key, effects),
        }
    }

    pub(super) fn on_paste(&mut self, text: &str) {
        super::leave(self);
        match (&mut self.overlay, self.screen) {
            (Some(Overlay::Transfer { to, .. }), _) => to.insert(text),
            (Some(Overlay::Contact { form, .. }), _) => form.paste(text),
            (Some(Overlay::Help { .. } | Overlay::Leave | Overlay::Forget { .. }), _) => {}
            (None, Screen::Keypad) => self.address.insert(text),
            (None, Screen::Account) => self.login.paste(text),
            (
                None,
                Screen::Contacts
                | Screen::Calls
                | Screen::Call
                | Screen::Network
                | Screen::Ladder
                | Screen::Log,
            ) => {}
        }
    }

    fn on_screen_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        match self.screen {
            Screen::Keypad => return self.on_keypad_key(now, key, effects),
            Screen::Account => return self.on_account_key(now, key, effects),
            Screen::Ladder if self.ladder.press(key) => return,
            Screen::Log if self.log.key(key, PAGE) => return,
            Screen::Contacts
            | Screen::Calls
            | Screen::Call
            | Screen::Network
            | Screen::Ladder
            | Screen::Log => {}
        }
        match (self.screen, key) {
            (_, Key::Char('?')) => self.overlay = Some(Overlay::Help { top: 0 }),
            (_, Key::Char('q')) => self.leave(now, effects),
            (_, Key::Char('a')) => self.answer(effects),
            (_, Key::Char('r')) => self.reject(effects),
            (Screen::Contacts, key) => self.on_contacts_key(now, key, effects),
            (Screen::Calls, key) => self.on_calls_key(now, key, effects),
            (Screen::Call, key) => self.on_call_key(now, key, effects),
            (Screen::Keypad | Screen::Network | Screen::Ladder | Screen::Account | Screen::Log, _) => {}
        }
    }

    fn on_keypad_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        self.address_error = None;
        match key {
            Key::Char('?') if self.address.is_empty() => self.overlay = Some(Overlay::Help { top: 0 }),
            Key::Escape => self.address = Field::default(),
            Key::Up | Key::Down => self.recall(key),
            Key::Enter => {
                let known = self.quick_dial().map(|contact| contact.uri.clone());
                let text = known.unwrap_or_else(|| self.address.text());
                if !text.trim().is_empty() && self.dial(now, &text, effects) {
                    self.address = Field::default();
                }
            }
            _ => {
                self.recalled = None;
                self.address.press(key);
            }
        }
    }

    /// Up goes to older addresses, down back to newer ones.
    fn recall(&mut self, key: Key) {
        let next = match (key, self.recalled) {
            (Key::Up, None) => Some(0),
            (Key::Up, Some(at)) => Some((at + 1).min(self.dialled.len().saturating_sub(1))),
            (_, at) => at.and_then(|at| at.checked_sub(1)),
        };
        self.recalled = next.filter(|at| *at < self.dialled.len());
        let text = self.recalled.and_then(|at| self.dialled.get(at)).cloned().unwrap_or_default();
        self.address = Field::new(&text);
    }

    fn on_account_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        match self.login.press(key) {
            Pressed::Taken | Pressed::Ignored => {}
            Pressed::Cancel => {
                self.login = login::form(&self.settings);
                if self.settings.account.is_some() {
                    self.go(Screen::Keypad);
                }
            }
            Pressed::Submit => {
                let Some(login) = login::read(&mut self.login, &self.settings) else { return };
                if !self.calls.is_empty() {
                    self.login.error =
                        Some("calls are live; hang up before you change the account".to_owned());
                    return;
                }
                self.try_account(now, login, effects);
            }
        }
    }

    fn on_contacts_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        let count = self.settings.contacts.len();
        self.contact = moved(self.contact, count, key);
        let chosen = self.settings.contacts.get(self.contact).cloned();
        match (key, chosen) {
            (Key::Enter, Some(contact)) => {
                self.dial(now, &contact.uri, effects);
            }
            _ if !self.host.can_save() => {}
            (Key::Char('n'), _) => {
                self.overlay = Some(Overlay::Contact { at: None, form: login::contact_form(None, "") });
            }
            (Key::Char('e'), Some(contact)) => {
                let form = login::contact_form(Some(&contact), "");
                self.overlay = Some(Overlay::Contact { at: Some(self.contact), form });
            }
            (Key::Char('d') | Key::Delete, Some(_)) => {
                self.overlay = Some(Overlay::Forget { at: self.contact })
            }
            (Key::Char(face @ '0'..='9'), Some(mut contact)) => {
                let quick = face.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
                contact.quick = quick.filter(|quick| *quick != 0);
                login::put(&mut self.settings.contacts, Some(self.contact), contact);
                effects.push(Effect::Save(Box::new(self.settings.clone())));
            }
            _ => {}
        }
    }

    fn on_calls_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        let live = self.calls.len();
        self.chosen = moved(self.chosen, live + self.history.len(), key);
        let address = match self.calls.get(self.chosen) {
            Some(call) => call.party.address.clone(),
            None => match self.chosen.checked_sub(live).and_then(|at| self.history.get(at)) {
                Some(past) => past.party.address.clone(),
                None => return,
            },
        };
        match key {
            Key::Enter => match self.calls.get(self.chosen).map(|call| call.number) {
                Some(number) => {
                    self.shown = Some(number);
                    self.go(Screen::Call);
                }
                None => {
                    self.dial(now, &address, effects);
                }
            },
            Key::Char('x') => {
                if let Some(number) = self.calls.get(self.chosen).map(|call| call.number) {
                    self.end_call(number, effects);
                }
            }
            Key::Char('s') if self.host.can_save() => {
                self.overlay = Some(Overlay::Contact { at: None, form: login::contact_form(None, &address) });
            }
            _ => {}
        }
    }

    fn on_call_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        if key == Key::Char('n') {
            let place =
                self.calls.iter().position(|call| Some(call.number) == self.shown).map_or(0, |at| at + 1);
            let next = self.calls.get(place).or(self.calls.first());
            self.shown = next.map(|call| call.number);
            return;
        }
        let Some(call) = self.shown_call() else { return };
        let (number, is_talking) = (call.number, call.is_talking());
        if call.is_over() {
            if key == Key::Enter {
                let address = call.party.address.clone();
                self.dial(now, &address, effects);
            }
            return;
        }
        match key {
            Key::Char('x') => self.end_call(number, effects),
            Key::Char('h') if is_talking => self.toggle_hold(number, effects),
            Key::Char('m') => self.toggle_mute(number, effects),
            Key::Char('t') if is_talking => {
                self.overlay = Some(Overlay::Transfer { call: number, to: Field::default(), error: None });
            }
            Key::Char('v') => self.mark_sas(now, number, SasStatus::Compared, effects),
            Key::Char('V') => self.mark_sas(now, number, SasStatus::Different, effects),
            Key::Char(face) => {
                if let Some(digit) = Digit::new(face).filter(|_| is_talking) {
                    effects.push(Effect::Phone(PhoneCommand::Dtmf { call: number, digit }));
                    if let Some(call) = self.call_mut(number) {
                        call.note_digit_sent(digit.face());
                    }
                }
            }
            _ => {}
        }
    }

    fn on_overlay_key(&mut self, now: Now, key: Key, effects: &mut Vec<Effect>) {
        let Some(overlay) = self.overlay.take() else { return };
        self.overlay = match overlay {
            Overlay::Help { top } => match key {
                Key::Down => Some(Overlay::Help { top: top + 1 }),
                Key::Up => Some(Overlay::Help { top: top.saturating_sub(1) }),
                Key::PageDown => Some(Overlay::Help { top: top + PAGE }),
                Key::PageUp => Some(Overlay::Help { top: top.saturating_sub(PAGE) }),
                _ => None,
            },
            Overlay::Leave => {
                if matches!(key, Key::Char('y') | Key::Enter) {
                    self.quit(now, effects);
                }
                None
            }
            Overlay::Forget { at } => {
                if matches!(key, Key::Char('y') | Key::Enter) && at < self.settings.contacts.len() {
                    self.settings.contacts.remove(at);
                    self.contact = self.contact.min(self.settings.contacts.len().saturating_sub(1));
                    effects.push(Effect::Save(Box::new(self.settings.clone())));
                }
                None
            }
            Overlay::Transfer { call, to, .. } => self.on_transfer_key(call, to, key, effects),
            Overlay::Contact { at, mut form } => match form.press(key) {
                Pressed::Taken | Pressed::Ignored => Some(Overlay::Contact { at, form }),
                Pressed::Cancel => None,
                Pressed::Submit => match login::read_contact(&mut form, self.own_uri()) {
                    None => Some(Overlay::Contact { at, form }),
                    Some(contact) => {
                        self.notify(now, Weight::Note, &format!("{} is saved", contact.name));
                        login::put(&mut self.settings.contacts, at, contact);
                        effects.push(Effect::Save(Box::new(self.settings.clone())));
                        None
                    }
                },
            },
        };
    }

    fn on_transfer_key(
        &mut self,
        call: CallNumber,
        mut to: Field,
        key: Key,
        effects: &mut Vec<Effect>,
    ) -> Option<Overlay> {
        match key {
            Key::Escape => None,
            Key::Enter => match complete_uri(&to.text(), self.own_uri()) {
                Ok(uri) => {
                    if let Some(call) = self.call_mut(call) {
                        call.transfer_to = Shown::new(&uri, URI_CHARS_MAX);
                    }
                    effects.push(Effect::Phone(PhoneCommand::Transfer { call, to: uri }));
                    None
                }
                Err(why) => Some(Overlay::Transfer { call, to, error: Some(why) }),
            },
            _ => {
                to.press(key);
                Some(Overlay::Transfer { call, to, error: None })
            }
        }
    }

    /// Calls `text`; false: it is no address, which is said.
    fn dial(&mut self, now: Now, text: &str, effects: &mut Vec<Effect>) -> bool {
        let uri = match complete_uri(text, self.own_uri()) {
            Ok(uri) => uri,
            Err(why) => {
                self.notify(now, Weight::Failed, &why);
                self.address_error = Some(why);
                return false;
            }
        };
        if self.settings.account.is_none() && self.host.can_save() {
            self.notify(now, Weight::Failed, "there is no account yet; F8 makes one");
            return false;
        }
        if self.calls.len() >= self.host.limits().calls {
            self.notify(now, Weight::Failed, "no more calls at once; hang up first");
            return false;
        }
        self.hold_others(None, effects);
        self.dialled.retain(|other| *other != uri);
        self.dialled.insert(0, uri.clone());
        self.dialled.truncate(DIALLED_MAX);
        self.recalled = None;
        effects.push(Effect::Phone(PhoneCommand::Call { to: uri }));
        true
    }

    fn dial_quick(&mut self, now: Now, face: char, effects: &mut Vec<Effect>) {
        let key = face.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
        match self.settings.contacts.iter().find(|contact| contact.quick == key) {
            Some(contact) => {
                let uri = contact.uri.clone();
                self.dial(now, &uri, effects);
            }
            None => {
                let help = match self.host {
                    Host::System { .. } => "F3 gives it to a contact".to_owned(),
                    Host::Machine => format!("give dial{face}=URI"),
                };
                self.notify(now, Weight::Note, &format!("nobody has quick dial {face}; {help}"));
            }
        }
    }

    /// Answers what rings: the shown call if it does, else what has rung longest.
    fn answer(&mut self, effects: &mut Vec<Effect>) {
        let Some(number) = self.ringing_to_answer() else {
            return self.decide_transfer(effects, |call| PhoneCommand::AcceptTransfer { call });
        };
        self.hold_others(Some(number), effects);
        effects.push(Effect::Phone(PhoneCommand::Answer { call: number }));
        if let Some(call) = self.call_mut(number) {
            call.asked = Some(Asked::Answer);
        }
        self.shown = Some(number);
        self.go(Screen::Call);
        self.overlay = None;
    }

    fn reject(&mut self, effects: &mut Vec<Effect>) {
        let Some(number) = self.ringing_to_answer() else {
            return self.decide_transfer(effects, |call| PhoneCommand::RejectTransfer { call });
        };
        effects.push(Effect::Phone(PhoneCommand::Reject { call: number }));
        if let Some(call) = self.call_mut(number) {
            call.asked = Some(Asked::HangUp);
        }
        super::leave_if(self, number);
    }

    /// The same keys decide about a transfer that the other side asks for.
    fn decide_transfer(&mut self, effects: &mut Vec<Effect>, command: impl Fn(CallNumber) -> PhoneCommand) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.asks_for.is_some()) {
            call.asks_for = None;
            effects.push(Effect::Phone(command(call.number)));
        }
    }

    /// True while Enter answers: a call rings, and on this page Enter has no other function now.
    pub(crate) fn enter_answers(&self) -> bool {
        let Some(number) = self.ringing_to_answer() else { return false };
        match self.screen {
            Screen::Keypad => self.address.is_empty(),
            Screen::Calls => self.calls.get(self.chosen).is_some_and(|call| call.number == number),
            Screen::Call | Screen::Network | Screen::Log => true,
            Screen::Contacts | Screen::Ladder | Screen::Account => false,
        }
    }

    /// The ringing call that the user means.
    fn ringing_to_answer(&self) -> Option<CallNumber> {
        let waits = |call: &&super::Call| call.rings_here() && call.asked.is_none();
        let shown = self.shown_call().filter(|_| self.screen == Screen::Call).filter(waits);
        let chosen = self.calls.get(self.chosen).filter(|_| self.screen == Screen::Calls).filter(waits);
        shown.or(chosen).or_else(|| self.calls.iter().find(waits)).map(|call| call.number)
    }

    /// Ends the shown call.
    fn hang_up(&mut self, effects: &mut Vec<Effect>) {
        if let Some(number) = self.shown_call().filter(|call| !call.is_over()).map(|call| call.number) {
            self.end_call(number, effects);
        }
    }

    fn end_call(&mut self, number: CallNumber, effects: &mut Vec<Effect>) {
        let Some(call) = self.call_mut(number) else { return };
        let command = if call.rings_here() && call.asked.is_none() {
            PhoneCommand::Reject { call: number }
        } else {
            PhoneCommand::HangUp { call: number }
        };
        call.asked = Some(Asked::HangUp);
        effects.push(Effect::Phone(command));
        super::leave_if(self, number);
    }

    fn toggle_hold(&mut self, number: CallNumber, effects: &mut Vec<Effect>) {
        let Some(call) = self.call_mut(number).filter(|call| call.asked.is_none()) else { return };
        if call.is_held_by_us() {
            call.asked = Some(Asked::Resume);
            self.hold_others(Some(number), effects);
            effects.push(Effect::Phone(PhoneCommand::Resume { call: number }));
        } else {
            call.asked = Some(Asked::Hold);
            effects.push(Effect::Phone(PhoneCommand::Hold { call: number }));
        }
    }

    /// A person talks to one at a time.
    fn hold_others(&mut self, except: Option<CallNumber>, effects: &mut Vec<Effect>) {
        for call in self.calls.iter_mut().filter(|call| Some(call.number) != except) {
            if call.is_talking() && !call.is_held_by_us() && call.asked.is_none() {
                call.asked = Some(Asked::Hold);
                effects.push(Effect::Phone(PhoneCommand::Hold { call: call.number }));
            }
        }
    }

    fn toggle_mute(&mut self, number: CallNumber, effects: &mut Vec<Effect>) {
        let Some(call) = self.call_mut(number) else { return };
        call.is_muted = !call.is_muted;
        let command = match call.is_muted {
            true => PhoneCommand::Mute { call: number },
            false => PhoneCommand::Unmute { call: number },
        };
        effects.push(Effect::Phone(command));
    }

    /// Records the comparison of the SAS; the last one counts, so that a wrong key can be corrected.
    fn mark_sas(&mut self, now: Now, call: CallNumber, marked: SasStatus, effects: &mut Vec<Effect>) {
        let Some(Protection::Zrtp { status, .. }) = self.call(call).map(|call| &call.lock) else {
            return self.notify(now, Weight::Note, "there is no SAS to compare: only ZRTP has one");
        };
        let is_recorded = *status == marked;
        let (command, weight, text) = match marked {
            SasStatus::Different => (
                PhoneCommand::MarkSasDifferent { call },
                Weight::Careful,
                "the SAS differs, somebody sits between you: say nothing secret, hang up",
            ),
            _ if is_recorded => {
                return self.notify(now, Weight::Note, "the SAS is compared already; V: it is not equal");
            }
            _ => (
                PhoneCommand::MarkSasVerified { call },
                Weight::Note,
                "recorded: the SAS is equal, nobody sits between you",
            ),
        };
        if !is_recorded {
            effects.push(Effect::Phone(command));
        }
        self.notify(now, weight, text);
    }

    fn leave(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.host == Host::Machine {
            return;
        }
        // Pressed twice, it is meant.
        if self.calls.is_empty() || self.overlay == Some(Overlay::Leave) {
            self.quit(now, effects);
        } else {
            self.overlay = Some(Overlay::Leave);
        }
    }
}

/// The new position of a list's cursor.
fn moved(at: usize, count: usize, key: Key) -> usize {
    let last = count.saturating_sub(1);
    let to = match key {
        Key::Up => at.saturating_sub(1),
        Key::Down => at + 1,
        Key::PageUp => at.saturating_sub(PAGE),
        Key::PageDown => at + PAGE,
        Key::Home => 0,
        Key::End => last,
        _ => at,
    };
    to.min(last)
}
