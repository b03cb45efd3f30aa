//! Answers of a server, and the limit in time for each step of one.

use crate::DatabaseError;
use std::time::Duration;
use tokio::time::timeout;

/// Result of [`Server::wait`](crate::Server::wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The server sent a notification.
    Notified,
    /// The time is over.
    TimedOut,
}

/// Receives a row's values; NULL and what is not UTF-8 is `None`.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&[Option<&str>]);

/// Ends a step that takes longer than [`ANSWER_TIME_MAX`].
pub(crate) async fn in_time<T>(step: impl Future<Output = T>) -> Result<T, DatabaseError> {
    timeout(ANSWER_TIME_MAX, step).await.map_err(|_| DatabaseError::new("no answer within 60 s"))
}

/// Maximum time for the next row.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
