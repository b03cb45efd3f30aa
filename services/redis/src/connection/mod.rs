//! A connection to one server of the store, and the pauses between connections.

pub(crate) mod reply;
pub(crate) mod socket;
pub(crate) mod topology;

use crate::scripts::Scripts;
use crate::settings::shown_host;
use crate::{LocationUrl, StoreError};
use redis::{Cmd, FromRedisValue, ServerError, Value, cmd, from_redis_value};
use reply::ReplyReader;
use socket::{OnWait, Socket};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A connection that sends commands, many at once, and reads their replies in order.
pub(crate) struct Connection {
    replies: ReplyReader<Socket>,
    out: Vec<u8>,
    server: String,
}

/// Host and port of a server.
pub(crate) type Host = (String, u16);

impl Connection {
    /// Connects and authenticates. The second value is the error of the authentication: Sentinels have passwords of their own.
    pub(crate) fn connect(
        host: &Host,
        url: &LocationUrl,
        on_wait: &OnWait,
    ) -> Result<(Self, Option<StoreError>), StoreError> {
        let server = shown_host(&host.0, host.1);
        let socket = Socket::connect((&host.0, host.1), url, on_wait.clone())
            .map_err(|error| StoreError::new(format_args!("{server}: {error}")))?;
        let mut connection = Self { replies: ReplyReader::new(socket), out: Vec::new(), server };
        let refused = match url.access() {
            None => None,
            Some((user, password)) => {
                let mut command = cmd("AUTH");
                if !user.is_empty() {
                    command.arg(user);
                }
                connection.push(command.arg(password));
                connection.send()?;
                let reply = connection.receive(REPLY_TIME_MAX)?;
                connection.checked(reply).err()
            }
        };
        Ok((connection, refused))
    }

    /// Adds a command to those that are sent next.
    pub(crate) fn push(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.out);
    }

    /// Sends the commands.
    pub(crate) fn send(&mut self) -> Result<(), StoreError> {
        let socket = self.replies.get_mut();
        let sent = socket.write_all(&self.out).and_then(|()| socket.flush());
        self.out.clear();
        self.out.shrink_to(OUT_BYTES_KEPT);
        sent.map_err(|error| self.named(error))
    }

    /// Reads the next reply, an error of the server too.
    pub(crate) fn receive(&mut self, time: Duration) -> Result<Value, StoreError> {
        self.replies.get_mut().expect_reply(time);
        self.replies.read().map_err(|error| self.named(error))
    }

    /// Runs a command.
    pub(crate) fn run<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, StoreError> {
        let reply = self.reply(command)?;
        from_redis_value(self.checked(reply)?).map_err(|error| self.named(error))
    }

    /// Runs a command, and returns an error of the server too.
    pub(crate) fn reply(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        self.push(command);
        self.send()?;
        self.receive(REPLY_TIME_MAX)
    }

    /// The reply, or the server's error.
    pub(crate) fn checked(&self, reply: Value) -> Result<Value, StoreError> {
        match reply {
            Value::ServerError(error) => Err(self.refused(&error)),
            reply => Ok(reply),
        }
    }

    pub(crate) fn refused(&self, error: &ServerError) -> StoreError {
        self.named(reply::error_text(error))
    }

    /// Loads the scripts.
    pub(crate) fn load(&mut self, scripts: &Scripts) -> Result<(), StoreError> {
        for script in scripts.all() {
            self.push(&script.load());
        }
        self.send()?;
        for _ in scripts.all() {
            let reply = self.receive(REPLY_TIME_MAX)?;
            self.checked(reply)?;
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.replies.get_ref().descriptor()
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    fn named(&self, error: impl std::fmt::Display) -> StoreError {
        StoreError::new(format_args!("{}: {error}", self.server))
    }
}

impl StoreError {
    /// True if a key has another type than the command.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.to_string().contains("WRONGTYPE")
    }

    /// True if the server does not have a script.
    pub(crate) fn is_script_missing(&self) -> bool {
        self.to_string().contains("NOSCRIPT")
    }
}

/// Maximum time of a reply.
pub(crate) const REPLY_TIME_MAX: Duration = Duration::from_secs(2);
/// A buffer that is larger than this after sending is freed.
const OUT_BYTES_KEPT: usize = 1 << 20;

/// Pauses between connections, which grow while sessions are short.
pub(crate) struct Backoff {
    random: u64,
    failures: u32,
    began: Instant,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: seed | 1, failures: 0, began: Instant::now() }
    }

    /// Notes the begin of an attempt.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// Pause after an attempt, or a session, that ended at `now`.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.began) > SESSION_TIME_LONG {
            self.failures = 0;
        }
        let pause = match self.failures {
            0 => PAUSE_FIRST,
            failures => (PAUSE_MIN * 2_u32.pow((failures - 1).min(4))).min(PAUSE_MAX),
        };
        self.failures += 1;
        // xorshift: nodes that lost the store together do not return together.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        pause.mul_f64(0.75 + (self.random % 512) as f64 / 1024.0)
    }
}

/// Pause after the end of a session: most often another master answers.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A session that lasted longer was a good one.
const SESSION_TIME_LONG: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_ten_seconds_and_begin_anew_after_a_long_session() {
        let (mut backoff, now) = (Backoff::new(7), Instant::now());
        backoff.begin(now);
        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause(now).as_millis()).collect();
        for (pause, whole) in pauses.iter().zip([100, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]) {
            assert!((whole * 3 / 4..=whole * 5 / 4).contains(pause), "{pauses:?}");
        }
        assert!(backoff.pause(now + SESSION_TIME_LONG * 2).as_millis() < 200);
    }
}
