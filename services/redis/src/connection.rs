//! A connection to one server of the store.

use crate::reply::{self, ReplyReader};
use crate::scripts::Scripts;
use crate::socket::{OnWait, Socket};
use crate::url::shown_host;
use crate::{LocationUrl, StoreError};
use redis::{Cmd, FromRedisValue, ServerError, Value, cmd, from_redis_value};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::Duration;

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
        self.named(reply::text(error))
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
