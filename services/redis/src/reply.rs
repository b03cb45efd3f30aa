//! Replies of the protocol of Redis, version 2 (RESP2).

use std::io::{self, BufRead, ErrorKind, Read};

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    /// A string of either form.
    Bytes(Vec<u8>),
    Array(Vec<Self>),
    Error(ServerError),
}

/// Error of the server for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError(String);

impl ServerError {
    /// First word of the error.
    pub(crate) fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Reader of replies. It reads no byte behind a reply.
#[derive(Default)]
pub(crate) struct ReplyReader {
    line: Vec<u8>,
    /// Values that the reply may still have.
    left: usize,
}

impl ReplyReader {
    pub(crate) fn read(&mut self, from: &mut impl BufRead) -> io::Result<Value> {
        self.left = VALUES_MAX;
        self.value(from, DEPTH_MAX)
    }

    fn value(&mut self, from: &mut impl BufRead, depth: usize) -> io::Result<Value> {
        self.left = self.left.checked_sub(1).ok_or_else(|| invalid("a reply has too many values"))?;
        self.read_line(from)?;
        let Some((kind, text)) = self.line.split_first() else { return Err(invalid(NOT_REDIS)) };
        let number = || std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        let number = || number().ok_or_else(|| invalid(NOT_REDIS));
        match kind {
            b'+' => Ok(Value::Bytes(text.to_vec())),
            b'-' => Ok(Value::Error(ServerError(String::from_utf8_lossy(text).into_owned()))),
            b':' => Ok(Value::Int(number()?)),
            b'$' => match usize::try_from(number()?) {
                Ok(len) => read_bytes(from, len),
                Err(_) => Ok(Value::Nil),
            },
            b'*' => {
                let Ok(len) = usize::try_from(number()?) else { return Ok(Value::Nil) };
                let depth = depth.checked_sub(1).ok_or_else(|| invalid("a reply is nested too deeply"))?;
                // The number is the server's word: memory follows what it sends.
                let mut values = Vec::with_capacity(len.min(VALUES_AT_ONCE));
                for _ in 0..len {
                    values.push(self.value(from, depth)?);
                }
                Ok(Value::Array(values))
            }
            _ => Err(invalid(NOT_REDIS)),
        }
    }

    /// Reads a line, without its end.
    fn read_line(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        self.line.clear();
        from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        match self.line.strip_suffix(b"\r\n").map(<[u8]>::len) {
            Some(len) => self.line.truncate(len),
            None => return Err(invalid(NOT_REDIS)),
        }
        Ok(())
    }
}

fn read_bytes(from: &mut impl BufRead, len: usize) -> io::Result<Value> {
    let mut bytes = Vec::with_capacity(len.min(BYTES_AT_ONCE));
    from.by_ref().take(len as u64).read_to_end(&mut bytes)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if bytes.len() < len || end != *b"\r\n" {
        return Err(invalid(NOT_REDIS));
    }
    Ok(Value::Bytes(bytes))
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

const NOT_REDIS: &str = "the reply is not one of Redis";
/// Maximum number of values of a reply, and of arrays in each other.
const VALUES_MAX: usize = 1_000_000;
const DEPTH_MAX: usize = 8;
/// Maximum length of a line, of an error for example.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Values and bytes that are reserved before they come.
const VALUES_AT_ONCE: usize = 1_024;
const BYTES_AT_ONCE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Value> {
        ReplyReader::default().read(&mut bytes)
    }

    #[test]
    fn replies_are_read_one_after_another() {
        let mut bytes: &[u8] =
            b"+OK\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*2\r\n*1\r\n$0\r\n\r\n-ERR no\r\n+next";
        let mut reader = ReplyReader::default();
        let bytes_of = |text: &[u8]| Value::Bytes(text.to_vec());
        let nested =
            Value::Array(vec![Value::Array(vec![bytes_of(b"")]), Value::Error(ServerError("ERR no".into()))]);
        let expected = [bytes_of(b"OK"), Value::Int(-7), bytes_of(b"a\r\n"), Value::Nil, Value::Nil, nested];
        for expected in expected {
            assert_eq!(reader.read(&mut bytes).unwrap(), expected);
        }
        assert_eq!(bytes, b"+next");
        assert_eq!(ServerError("MOVED 1 h:2".into()).code(), "MOVED");
    }

    #[test]
    fn damaged_replies_are_refused_without_memory_for_what_they_announce() {
        let whole = b"*2\r\n$5\r\nhello\r\n:12\r\n";
        for len in 0..whole.len() {
            assert!(read(&whole[..len]).is_err(), "{len} bytes");
        }
        let deep = "*1\r\n".repeat(100);
        let long = "+".repeat(100_000);
        let bad = [
            "$9223372036854775807\r\nx",
            "*9223372036854775807\r\n:1\r\n",
            "%1\r\n",
            "\r\n",
            ":x\r\n",
            "$1\r\nxyz",
            ":1\n",
        ];
        for bad in bad.into_iter().chain([deep.as_str(), long.as_str()]) {
            assert!(read(bad.as_bytes()).is_err(), "{}", &bad[..bad.len().min(20)]);
        }
        let many = "*1000000\r\n".to_owned() + &":1\r\n".repeat(1_000_000);
        assert!(read(many.as_bytes()).is_err());
    }
}
