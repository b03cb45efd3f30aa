//! Present flows of phones that register through this server at another registrar.
//!
//! The registrar's 2xx proves that the phone is its user's. If the phone registers over another flow later, requests in its dialogs follow it,
//! as the location table of a registrar makes them do.

use crate::base::{Env, Request};
use crate::edge;
use crate::location::instance_of;
use crate::tables::PhoneHash;
use ringway_sip::{Contact, HeaderName};

/// Notes the flow of a phone whose REGISTER got a 2xx.
pub(super) fn on_registered(env: &mut Env<'_>, request: &Request<'_, '_>) {
    let (config, key, message) = (env.config, &env.keys.route, request.message);
    // Behind another proxy the flow is that one's.
    if !message.has_one_via() || message.values(HeaderName::Contact).nth(1).is_some() {
        return;
    }
    let Some(user) = edge::user_of(config, key, &message.to().uri) else { return };
    let contact = message.first(HeaderName::Contact).and_then(|value| Contact::parse(value).ok());
    let Some(contact) = contact else { return };
    let params = &contact.address.params;
    let name = match instance_of(params) {
        Some(instance) => [instance, params.value(b"reg-id").unwrap_or_default()],
        None => [contact.address.uri.as_bytes(), b""],
    };
    let phone = PhoneHash::of(key, user, name);
    let time = (env.cx.now, env.cx.now + config.dialog_lifetime);
    let has_room =
        env.tables.change_sides(false, |table| table.note_phone(key, phone, (&request.flow, user), time));
    env.counters.sides_overflow += u64::from(!has_room);
}
