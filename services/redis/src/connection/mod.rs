//! A connection to one server of the store, and the pauses between connections; replies: the parser of the crate
//! `redis`, within limits that it does not have, and the parts of a reply.

pub(crate) mod socket;
pub(crate) mod topology;

use crate::scripts::Scripts;
use crate::settings::shown_host;
use crate::{LocationUrl, StoreError};
use redis::{Cmd, ErrorKind, FromRedisValue, Parser, ServerError, Value, cmd, from_redis_value};
use socket::{OnWait, Socket};
use std::io;
use std::io::{BufReader, Read, Write};
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
        self.named(error_text(error))
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

/// Reader of replies. After an error, or one that is too long, the rest of the connection cannot be read.
pub(crate) struct ReplyReader<R> {
    from: BufReader<Limited<R>>,
    parser: Parser,
}

/// Reader of a limited number of bytes and lines. Each value has a line at least, so that their number and memory are limited too:
/// the parser reserves 4,096 values at most before they come, for each array that an incomplete one is in, and accepts 100 of these.
struct Limited<R> {
    from: R,
    bytes_left: usize,
    lines_left: usize,
}

impl<R: Read> ReplyReader<R> {
    pub(crate) fn new(from: R) -> Self {
        let limited = Limited { from, bytes_left: 0, lines_left: 0 };
        Self { from: BufReader::with_capacity(READ_BYTES, limited), parser: Parser::new() }
    }

    /// Reads the next reply, an error of the server too.
    pub(crate) fn read(&mut self) -> Result<Value, StoreError> {
        let limited = self.from.get_mut();
        (limited.bytes_left, limited.lines_left) = (BYTES_MAX, LINES_MAX);
        self.parser.parse_value(&mut self.from).map_err(|error| match error.kind() {
            ErrorKind::Parse => StoreError::new("the reply is not one of Redis"),
            _ => StoreError::new(error),
        })
    }

    fn get_ref(&self) -> &R {
        &self.from.get_ref().from
    }

    pub(crate) fn get_mut(&mut self) -> &mut R {
        &mut self.from.get_mut().from
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG);
        let len = buffer.len().min(self.bytes_left);
        let buffer = buffer.get_mut(..len).filter(|buffer| !buffer.is_empty()).ok_or_else(too_long)?;
        let len = self.from.read(buffer)?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        let lines = memchr::memchr_iter(b'\n', buffer.get(..len).unwrap_or_default()).count();
        self.bytes_left -= len;
        self.lines_left = self.lines_left.checked_sub(lines).ok_or_else(too_long)?;
        Ok(len)
    }
}

/// Error of the server as it was sent.
fn error_text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

impl StoreError {
    /// True if a reply was longer than the limit.
    pub(crate) fn is_too_long(&self) -> bool {
        self.to_string().contains(TOO_LONG)
    }
}

/// Items of an array, or of nothing.
pub(crate) fn items(value: Value) -> Vec<Value> {
    value.into_sequence().unwrap_or_default()
}

/// Bytes of a string.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// A string.
pub(crate) fn text(value: &Value) -> Option<&str> {
    bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// A number, also one written as a string.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => text(other)?.parse().ok(),
    }
}

/// Maximum time of a reply.
pub(crate) const REPLY_TIME_MAX: Duration = Duration::from_secs(2);
/// A buffer that is larger than this after sending is freed.
const OUT_BYTES_KEPT: usize = 1 << 20;
/// Message of a reply that is longer than the limits.
const TOO_LONG: &str = "a reply is longer than 64 MiB or 1,000,000 lines";
/// Maximum length of a reply.
const BYTES_MAX: usize = 64 << 20;
/// Maximum number of lines of a reply, line breaks in strings included.
const LINES_MAX: usize = 1_000_000;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
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

    fn read(bytes: &[u8]) -> Result<Value, StoreError> {
        ReplyReader::new(bytes).read()
    }

    #[test]
    fn replies_are_read_one_after_another() {
        let bytes: &[u8] =
            b"+OK\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*2\r\n*1\r\n$0\r\n\r\n-ERR no\r\n-MOVED 1 h:2\r\n-X\r\n+next";
        let mut reader = ReplyReader::new(bytes);
        let string = |text: &[u8]| Value::BulkString(text.to_vec());
        let expected = [Value::Okay, Value::Int(-7), string(b"a\r\n"), Value::Nil, Value::Nil];
        for expected in expected {
            assert_eq!(reader.read().unwrap(), expected);
        }
        let Value::Array(nested) = reader.read().unwrap() else { panic!() };
        let [Value::Array(inner), Value::ServerError(error)] = nested.as_slice() else {
            panic!("{nested:?}")
        };
        assert_eq!((inner.as_slice(), error.code()), (&[string(b"")][..], "ERR"));
        assert_eq!(error_text(error), "ERR no");
        for (code, expected) in [("MOVED", "MOVED 1 h:2"), ("X", "X")] {
            let Value::ServerError(error) = reader.read().unwrap() else { panic!() };
            assert_eq!((error.code(), error_text(&error).as_str()), (code, expected));
        }
        assert!(reader.read().unwrap_err().to_string().contains("closed"));
    }

    #[test]
    fn a_reply_is_read_from_any_parts() {
        let whole = b"*3\r\n$5\r\nhe\nlo\r\n*1\r\n:12\r\n+status\r\n";
        let expected = read(whole).unwrap();
        for len in 1..whole.len() {
            let parts = whole[..len].chain(&whole[len..]);
            assert_eq!(ReplyReader::new(parts).read().unwrap(), expected, "{len} bytes first");
        }
    }

    #[test]
    fn damaged_replies_are_refused_without_memory_for_what_they_announce() {
        let whole = b"*2\r\n$5\r\nhello\r\n:12\r\n";
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "{len} bytes");
        }
        let deep = "*1\r\n".repeat(100) + ":1\r\n";
        let deeper = "*1\r\n".repeat(1_000_000);
        let wide = "*9223372036854775807\r\n".repeat(99) + ":1\r\n";
        let long = "+".repeat(100_000);
        let bad = [
            "$9223372036854775807\r\nx",
            "*9223372036854775807\r\n:1\r\n",
            "%9223372036854775807\r\n:1\r\n",
            "%4611686018427387903\r\n:1\r\n",
            "|9223372036854775807\r\n:1\r\n",
            "=-1\r\n:1\r\n",
            "%1\r\n",
            "\r\n",
            ":x\r\n",
            "$1\r\nxyz",
            ":1\n",
        ];
        for bad in bad.into_iter().chain([&deep, &deeper, &wide, &long].map(String::as_str)) {
            assert!(read(bad.as_bytes()).is_err(), "{}", &bad[..bad.len().min(20)]);
        }
    }

    #[test]
    fn a_reply_that_is_too_long_is_an_error_of_its_own() {
        let many = "*1000000\r\n".to_owned() + &":1\r\n".repeat(1_000_000);
        assert!(read(many.as_bytes()).unwrap_err().is_too_long());
        let lines = |count| format!("${count}\r\n{}\r\n", "\n".repeat(count));
        assert!(read(lines(LINES_MAX - 2).as_bytes()).is_ok());
        assert!(read(lines(LINES_MAX - 1).as_bytes()).unwrap_err().is_too_long());
        let long = format!("${BYTES_MAX}\r\n");
        let long = long.as_bytes().chain(io::repeat(b'x'));
        assert!(ReplyReader::new(long).read().unwrap_err().is_too_long());
        assert!(!read(b"+x").unwrap_err().is_too_long());
    }
}
