//! A connection to one server of the store.

use crate::reply::{ReplyReader, ServerError, Value};
use crate::scripts::Scripts;
use crate::socket::{OnWait, Socket, TOO_LONG};
use crate::url::shown_host;
use crate::{LocationUrl, StoreError};
use std::io::{BufReader, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A connection that sends commands, many at once, and reads their replies in order.
pub(crate) struct Connection {
    socket: BufReader<Socket>,
    replies: ReplyReader,
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
        let socket = BufReader::with_capacity(READ_BYTES, socket);
        let mut connection = Self { socket, replies: ReplyReader::default(), out: Vec::new(), server };
        let refused = match url.access() {
            None => None,
            Some((user, password)) => {
                let command: &[&[u8]] = match user {
                    "" => &[b"AUTH", password.as_bytes()],
                    user => &[b"AUTH", user.as_bytes(), password.as_bytes()],
                };
                connection.push(command);
                connection.send()?;
                let reply = connection.receive(REPLY_TIME_MAX)?;
                connection.checked(reply).err()
            }
        };
        Ok((connection, refused))
    }

    /// Adds a command to those that are sent next.
    pub(crate) fn push(&mut self, arguments: &[&[u8]]) {
        self.begin(arguments.len());
        arguments.iter().for_each(|argument| self.argument(argument));
    }

    /// Begins a command of a number of arguments, which follow.
    pub(crate) fn begin(&mut self, arguments: usize) {
        self.header(b'*', arguments);
    }

    /// Adds the next argument of a command.
    pub(crate) fn argument(&mut self, argument: &[u8]) {
        self.header(b'$', argument.len());
        self.out.extend_from_slice(argument);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, number: usize) {
        // `write!` takes more time than all else of a command.
        let (mut digits, mut rest, mut at) = ([0_u8; 20], number, 20);
        loop {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + (rest % 10) as u8;
            }
            rest /= 10;
            if rest == 0 || at == 0 {
                break;
            }
        }
        self.out.push(kind);
        self.out.extend_from_slice(digits.get(at..).unwrap_or_default());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Sends the commands.
    pub(crate) fn send(&mut self) -> Result<(), StoreError> {
        let socket = self.socket.get_mut();
        let sent = socket.write_all(&self.out).and_then(|()| socket.flush());
        self.out.clear();
        self.out.shrink_to(OUT_BYTES_KEPT);
        sent.map_err(|error| self.named(error))
    }

    /// Reads the next reply, an error of the server too.
    pub(crate) fn receive(&mut self, time: Duration) -> Result<Value, StoreError> {
        self.socket.get_mut().expect_reply(time);
        self.replies.read(&mut self.socket).map_err(|error| self.named(error))
    }

    /// Runs a command.
    pub(crate) fn run(&mut self, arguments: &[&[u8]]) -> Result<Value, StoreError> {
        self.push(arguments);
        self.send()?;
        let reply = self.receive(REPLY_TIME_MAX)?;
        self.checked(reply)
    }

    /// The reply, or the server's error.
    pub(crate) fn checked(&self, reply: Value) -> Result<Value, StoreError> {
        match reply {
            Value::Error(error) => Err(self.refused(&error)),
            reply => Ok(reply),
        }
    }

    pub(crate) fn refused(&self, error: &ServerError) -> StoreError {
        self.named(error.text())
    }

    /// Loads the scripts.
    pub(crate) fn load(&mut self, scripts: &Scripts) -> Result<(), StoreError> {
        for script in scripts.all() {
            self.push(&[b"SCRIPT", b"LOAD", script.text.as_bytes()]);
        }
        self.send()?;
        for _ in scripts.all() {
            let reply = self.receive(REPLY_TIME_MAX)?;
            self.checked(reply)?;
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().descriptor()
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    fn named(&self, error: impl std::fmt::Display) -> StoreError {
        StoreError::new(format_args!("{}: {error}", self.server))
    }
}

impl StoreError {
    /// True if a reply was longer than the limit.
    pub(crate) fn is_too_long(&self) -> bool {
        self.to_string().contains(TOO_LONG)
    }

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
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// A buffer that is larger than this after sending is freed.
const OUT_BYTES_KEPT: usize = 1 << 20;
