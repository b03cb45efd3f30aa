//! Users for the admin API: those of the store or of a database, with what is registered of each, and their forwards, whose
//! JSON commands use too.

use super::view::ServerView;
use ringway_admin::{
    Answer, Forwards as Shown, NoAnswer as ShownNoAnswer, Page, TextPosition, User, UserQuery,
};
use ringway_sql::connection::DatabaseAccess;
use ringway_sql::provisioning::{ProvisioningError, UserTables};
use ringway_store::{
    ForwardUri, Forwards, NoAnswer, Store, StoreError, UnusableForward, UserFilter, UserName, UserPages,
};
use serde_json::json;
use std::sync::Arc;

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

/// Forwards of a user.
pub(super) fn show(store: &Store, user: &UserName) -> Result<Answer, StoreError> {
    if !store.exists(user)? {
        return Ok(not_found(user));
    }
    let forwards = shown(&store.forwards(user)?);
    Ok(Answer::done(json!({"user": user.to_string(), "forwards": forwards})))
}

/// Replaces the forwards of a user.
pub(super) fn replace(store: &Store, user: &UserName, forwards: &Shown) -> Result<Answer, StoreError> {
    if !store.exists(user)? {
        return Ok(not_found(user));
    }
    store.set_forwards(user, &checked(forwards)?)?;
    show(store, user)
}

fn not_found(user: &UserName) -> Answer {
    Answer::refused(404, StoreError::NoSuchUser(user.to_string()).to_string())
}

/// Users as the admin API reads and changes them: read from the store, changed in the database if they come from one.
pub(super) struct StoredUsers {
    store: Arc<Store>,
    database: Option<DatabaseAccess>,
}

/// Error of a change.
pub(super) enum ChangeError {
    Store(StoreError),
    Database(String),
}

impl StoredUsers {
    pub(super) fn new(store: Arc<Store>, database: Option<DatabaseAccess>) -> Self {
        Self { store, database }
    }

    /// The store of this node.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Changes a user. With a database this takes as long as the database does.
    pub(super) fn edit<T>(
        &self,
        user: &UserName,
        edit: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, ChangeError> {
        let Some(access) = &self.database else { return edit(&self.store).map_err(ChangeError::Store) };
        let url = access.url();
        let failed = |error: ProvisioningError| match error {
            ProvisioningError::Store(error) => ChangeError::Store(error),
            error => ChangeError::Database(format!("{}: {error}; nothing was changed", url.shown())),
        };
        UserTables::open(&url)
            .and_then(|mut tables| tables.edit(user, |store| edit(store).map_err(ProvisioningError::from)))
            .map_err(failed)
    }
}

/// Forwards as JSON shows them.
pub(crate) fn shown(forwards: &Forwards) -> Shown {
    let text = |target: &Option<ForwardUri>| target.as_ref().map(ForwardUri::to_string);
    let no_answer = forwards.no_answer.as_ref().map(|no_answer| ShownNoAnswer {
        after_s: u64::from(no_answer.after_s()),
        to: no_answer.to().to_string(),
    });
    Shown {
        always: text(&forwards.always),
        busy: text(&forwards.busy),
        no_answer,
        unregistered: text(&forwards.unregistered),
    }
}

/// Checks forwards that JSON has.
pub(crate) fn checked(forwards: &Shown) -> Result<Forwards, UnusableForward> {
    let target = |text: &Option<String>| text.as_deref().map(ForwardUri::new).transpose();
    let no_answer = forwards.no_answer.as_ref();
    let no_answer = no_answer.map(|wanted| NoAnswer::new(wanted.after_s, ForwardUri::new(&wanted.to)?));
    Ok(Forwards {
        always: target(&forwards.always)?,
        busy: target(&forwards.busy)?,
        no_answer: no_answer.transpose()?,
        unregistered: target(&forwards.unregistered)?,
    })
}
