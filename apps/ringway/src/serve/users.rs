//! Users for the admin API: those of the store, with what is registered of each.

use super::view::ServerView;
use crate::forwards::shown;
use ringway_admin::{Answer, Page, TextPosition, User, UserQuery};
use ringway_store::{Store, StoreError, UserFilter, UserName, UserPages};
use serde_json::json;

/// A page of users.
pub(super) fn page(
    store: &Store,
    view: &ServerView,
    query: &UserQuery,
    total: usize,
) -> Result<Page<User>, StoreError> {
    let filter = match (&query.text, query.position) {
        (None, _) => UserFilter::All,
        (Some(text), TextPosition::Prefix) => UserFilter::Prefix(text),
        (Some(text), TextPosition::Contains) => UserFilter::Contains(text),
    };
    let after = query.after.as_deref().map(|after| after.rsplit_once('@').unwrap_or((after, "")));
    let found = UserPages::of(store).page(after, filter, query.limit, SEARCHED_MAX)?;
    let mut items = Vec::with_capacity(found.users.len());
    for row in found.users {
        let user = UserName::new(&row.name, &row.domain)?;
        items.push(User {
            contacts: view.contacts_of(&user),
            messages: view.messages_of(&user),
            forwards: shown(&store.forwards(&user)?),
            password: row.realm.is_some(),
            name: row.name,
            domain: row.domain,
        });
    }
    let next = found.next.map(|(name, domain)| format!("{name}@{domain}"));
    Ok(Page { items, total: total as u64, next })
}

/// One user, of the store or registered.
pub(super) fn one(store: &Store, view: &ServerView, user: &UserName) -> Result<Answer, StoreError> {
    let contacts = view.contacts_of(user);
    if contacts.is_empty() && !store.exists(user)? {
        return Ok(Answer::refused(404, StoreError::NoSuchUser(user.to_string()).to_string()));
    }
    let user = User {
        forwards: shown(&store.forwards(user)?),
        password: store.is_subscriber(user)?,
        name: user.name().to_owned(),
        domain: user.domain().to_owned(),
        messages: view.messages_of(user),
        contacts,
    };
    Ok(Answer::done(json!(user)))
}

/// Ends the registrations of a user.
pub(super) fn kick(view: &ServerView, user: &UserName) -> Answer {
    match view.end_registrations(user) {
        0 => Answer::refused(404, format!("{user} is not registered; GET /api/registrations lists who is")),
        ended => {
            tracing::info!("the administrator ended the registrations of {user}: {ended}");
            Answer::done(json!({ "ok": true, "user": user.to_string(), "ended": ended }))
        }
    }
}

/// Users that a search reads for one answer: some 10 ms.
const SEARCHED_MAX: usize = 20_000;
