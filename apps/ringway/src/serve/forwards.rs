//! Forwards of users for the admin API. They go into the store, from which the running server takes them.

use crate::forwards::{checked, shown};
use ringway_admin::{Answer, Forwards};
use ringway_store::{Store, StoreError, UserName};
use serde_json::json;

/// Forwards of a user.
pub(super) fn show(store: &Store, user: &UserName) -> Result<Answer, StoreError> {
    if !store.exists(user)? {
        return Ok(not_found(user));
    }
    let forwards = shown(&store.forwards(user)?);
    Ok(Answer::done(json!({"user": user.to_string(), "forwards": forwards})))
}

/// Replaces the forwards of a user.
pub(super) fn replace(store: &Store, user: &UserName, forwards: &Forwards) -> Result<Answer, StoreError> {
    if !store.exists(user)? {
        return Ok(not_found(user));
    }
    store.set_forwards(user, &checked(forwards)?)?;
    show(store, user)
}

fn not_found(user: &UserName) -> Answer {
    Answer::refused(404, StoreError::NoSuchUser(user.to_string()).to_string())
}
