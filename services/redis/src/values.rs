//! Values that nodes share beside registrations: a few, seldom read, on the thread of the caller.

use crate::connection::bytes;
use crate::connection::socket::OnWait;
use crate::connection::topology::Topology;
use crate::shared::lock;
use crate::{LocationUrl, StoreError, scripts};
use redis::{Cmd, Value, cmd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Values with names. A method waits for the store, 2 s at most for each step; it connects when it has to.
#[derive(Debug)]
pub struct SharedValues {
    state: Mutex<State>,
}

struct State {
    url: LocationUrl,
    store: Option<Topology>,
}

impl SharedValues {
    /// Values in the store with this URL.
    pub fn new(url: LocationUrl) -> Self {
        Self { state: Mutex::new(State { url, store: None }) }
    }

    /// Uses another URL from now on.
    pub fn set_url(&self, url: LocationUrl) {
        *lock(&self.state) = State { url, store: None };
    }

    /// The value with this name; `None`: there is none, or it has more than [`Self::BYTES_MAX`].
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let reply = self.run(&Cmd::get(key(name)))?;
        Ok(bytes(&reply).filter(|value| value.len() <= Self::BYTES_MAX).map(<[u8]>::to_vec))
    }

    /// Writes a value, which ends after `life`.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn set(&self, name: &str, value: &[u8], life: Duration) -> Result<(), StoreError> {
        self.run(cmd("SET").arg(key(name)).arg(value).arg("PX").arg(life.as_millis() as u64)).map(drop)
    }

    /// Writes a value unless there is one; true if it was written.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn set_new(&self, name: &str, value: &[u8], life: Duration) -> Result<bool, StoreError> {
        let ms = life.as_millis() as u64;
        let reply = self.run(cmd("SET").arg(key(name)).arg(value).arg("NX").arg("PX").arg(ms))?;
        Ok(reply != Value::Nil)
    }

    /// Removes a value.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.run(&Cmd::del(key(name))).map(drop)
    }

    /// Maximum number of bytes of a value that is read.
    pub const BYTES_MAX: usize = 512 << 10;

    fn run(&self, command: &Cmd) -> Result<Value, StoreError> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let on_wait: OnWait = Arc::new(|| {});
        let mut store = match state.store.take() {
            Some(store) => store,
            None => Topology::discover(&state.url, &[], &on_wait)?,
        };
        let connection = store.of_tag(scripts::NODES_TAG)?;
        // After an error another connection is made: the store may have another master now.
        let reply = connection.reply(command)?;
        let reply = connection.checked(reply)?;
        state.store = Some(store);
        Ok(reply)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Key of a value, in the slot of the nodes.
fn key(name: &str) -> String {
    format!("rw:{{{:02}}}:value:{name}", scripts::NODES_TAG)
}
