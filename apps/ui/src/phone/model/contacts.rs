//! Contacts: the form, and the list.

use crate::phone::form::{Entry, Field, Form, choice};
use crate::phone::settings::{Contact, complete_uri};
use alloc::borrow::ToOwned;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

const NAME: usize = 0;
const ADDRESS: usize = 1;
const QUICK: usize = 2;
const QUICKS: &[&str] = &["none", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
const NAME_CHARS_MAX: usize = 128;

/// The form for a contact; `None`: a new one, perhaps with a known address.
pub(super) fn form(contact: Option<&Contact>, address: &str) -> Form {
    let quick =
        contact.and_then(|contact| contact.quick).map_or("none".to_owned(), |quick| quick.to_string());
    Form::new(vec![
        ("Name", Entry::Text(Field::new(contact.map_or("", |contact| &contact.name)))),
        ("Address", Entry::Text(Field::new(contact.map_or(address, |contact| &contact.uri)))),
        ("Quick dial", choice(QUICKS, &quick)),
    ])
}

/// Reads the form; `None`: a value is invalid, and the form has the error.
pub(super) fn read(form: &mut Form, own: Option<&str>) -> Option<Contact> {
    form.error = None;
    let name = form.text(NAME).trim().to_owned();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        form.complain(NAME, "give a name of 1 to 128 characters");
        return None;
    }
    match complete_uri(&form.text(ADDRESS), own) {
        Ok(uri) => Some(Contact { name, uri, quick: form.text(QUICK).parse().ok() }),
        Err(why) => {
            form.complain(ADDRESS, why);
            None
        }
    }
}

/// Replaces the contact at index `at`, or appends it. A quick dial key that another has becomes its.
pub(super) fn put(contacts: &mut Vec<Contact>, at: Option<usize>, contact: Contact) {
    for other in contacts.iter_mut() {
        if contact.quick.is_some() && other.quick == contact.quick {
            other.quick = None;
        }
    }
    match at.and_then(|at| contacts.get_mut(at)) {
        Some(place) => *place = contact,
        None => contacts.push(contact),
    }
}
