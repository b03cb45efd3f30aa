//! Bencode: strings `4:spam`, integers `i3e`, lists `l4:spame`, dictionaries `d3:bar4:spame`.

use alloc::vec::Vec;

/// Value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Byte string.
    Bytes(&'a [u8]),
    /// Integer.
    Number(i64),
    /// List.
    List(Vec<Value<'a>>),
    /// Dictionary.
    Dictionary(Dictionary<'a>),
}

/// Dictionary, in the order of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionary<'a>(Vec<(&'a [u8], Value<'a>)>);

/// Bytes that are not one bencoded dictionary within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBencode {
    /// The bytes end too early, or are not bencode.
    Syntax,
    /// Bytes follow the dictionary.
    Trailing,
    /// Lists and dictionaries are nested too deeply.
    Depth,
    /// There are too many values.
    Count,
    /// There are too many bytes.
    Length,
}

impl<'a> Dictionary<'a> {
    /// Byte string of a key.
    pub fn bytes(&self, key: &[u8]) -> Option<&'a [u8]> {
        let value = self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value)?;
        match value {
            Value::Bytes(bytes) => Some(bytes),
            Value::Number(_) | Value::List(_) | Value::Dictionary(_) => None,
        }
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = &(&'a [u8], Value<'a>)> {
        self.0.iter()
    }
}

/// Reads a dictionary that fills `bytes`.
///
/// # Errors
/// The bytes are not bencode, or exceed a limit.
pub fn read_dictionary(bytes: &[u8]) -> Result<Dictionary<'_>, BadBencode> {
    if bytes.len() > BYTES_MAX {
        return Err(BadBencode::Length);
    }
    let mut reader = Reader { left: bytes, values: 0 };
    if !reader.skip(b'd') {
        return Err(BadBencode::Syntax);
    }
    let dictionary = reader.dictionary(1)?;
    if reader.left.is_empty() { Ok(dictionary) } else { Err(BadBencode::Trailing) }
}

/// Appends a byte string.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = bytes.len();
    loop {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (left % 10) as u8;
        }
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
    out.push(b':');
    out.extend_from_slice(bytes);
}

struct Reader<'a> {
    left: &'a [u8],
    values: usize,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, byte: u8) -> bool {
        let rest = self.left.split_first().filter(|(first, _)| **first == byte).map(|(_, rest)| rest);
        self.left = rest.unwrap_or(self.left);
        rest.is_some()
    }

    /// Text before `end`, which is removed.
    fn until(&mut self, end: u8, max: usize) -> Result<&'a [u8], BadBencode> {
        let at = self.left.iter().take(max + 1).position(|&byte| byte == end).ok_or(BadBencode::Syntax)?;
        let (text, rest) = self.left.split_at_checked(at).ok_or(BadBencode::Syntax)?;
        self.left = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    fn bytes(&mut self) -> Result<&'a [u8], BadBencode> {
        let digits = self.until(b':', LENGTH_DIGITS_MAX)?;
        let is_canonical =
            digits == b"0" || digits.first().is_some_and(|first| (b'1'..=b'9').contains(first));
        let length = number(digits).filter(|_| is_canonical).and_then(|length| usize::try_from(length).ok());
        let (bytes, rest) =
            length.and_then(|length| self.left.split_at_checked(length)).ok_or(BadBencode::Syntax)?;
        self.left = rest;
        Ok(bytes)
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, BadBencode> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(BadBencode::Count);
        }
        if self.skip(b'i') {
            let text = self.until(b'e', NUMBER_BYTES_MAX)?;
            return number(text).map(Value::Number).ok_or(BadBencode::Syntax);
        }
        if self.skip(b'd') {
            return self.dictionary(depth + 1).map(Value::Dictionary);
        }
        if !self.skip(b'l') {
            return self.bytes().map(Value::Bytes);
        }
        if depth >= DEPTH_MAX {
            return Err(BadBencode::Depth);
        }
        let mut list = Vec::new();
        while !self.skip(b'e') {
            list.push(self.value(depth + 1)?);
        }
        Ok(Value::List(list))
    }

    /// Dictionary whose `d` was removed.
    fn dictionary(&mut self, depth: usize) -> Result<Dictionary<'a>, BadBencode> {
        if depth > DEPTH_MAX {
            return Err(BadBencode::Depth);
        }
        let mut pairs = Vec::new();
        while !self.skip(b'e') {
            pairs.push((self.bytes()?, self.value(depth)?));
        }
        Ok(Dictionary(pairs))
    }
}

fn number(text: &[u8]) -> Option<i64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// Maximum depth of lists and dictionaries; the statistics in the answer to `delete` have 8.
const DEPTH_MAX: usize = 12;
/// Maximum number of values.
const VALUES_MAX: usize = 4096;
/// Maximum number of bytes: those of a UDP datagram.
const BYTES_MAX: usize = 65_535;
const LENGTH_DIGITS_MAX: usize = 5;
const NUMBER_BYTES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let text = b"d3:sdp5:v=0\r\n4:tagsd1:ai-7e1:bl1:x1:yee6:result2:oke";
        let answer = read_dictionary(text).unwrap();
        assert_eq!(answer.bytes(b"sdp"), Some(&b"v=0\r\n"[..]));
        assert_eq!(answer.bytes(b"result"), Some(&b"ok"[..]));
        assert_eq!(answer.bytes(b"tags"), None, "not a string");
        assert_eq!(answer.iter().count(), 3);
    }

    #[test]
    fn a_string_is_written_with_its_length() {
        let mut out = Vec::new();
        for text in [&b""[..], b"ping", b"0123456789"] {
            write_bytes(&mut out, text);
        }
        assert_eq!(out, b"0:4:ping10:0123456789");
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let deep = [b"d1:a".repeat(12), b"de".to_vec(), b"e".repeat(12)].concat();
        let lists = [b"d1:a".to_vec(), b"l".repeat(60_000)].concat();
        let many = [b"d1:al".to_vec(), b"i1e".repeat(5000), b"ee".to_vec()].concat();
        for (bytes, why) in [
            (&b""[..], BadBencode::Syntax),
            (b"4:ping", BadBencode::Syntax),
            (b"d", BadBencode::Syntax),
            (b"d3:sdp9:v=0e", BadBencode::Syntax),
            (b"d3:sdp99999999999999999999:e", BadBencode::Syntax),
            (b"d3:sdp-1:e", BadBencode::Syntax),
            (b"d3:sdp+1:ae", BadBencode::Syntax),
            (b"d3:sdp01:ae", BadBencode::Syntax),
            (b"di1ei2ee", BadBencode::Syntax),
            (b"d1:aie", BadBencode::Syntax),
            (b"d1:ai99999999999999999999999ee", BadBencode::Syntax),
            (b"dee", BadBencode::Trailing),
            (&deep, BadBencode::Depth),
            (&lists, BadBencode::Depth),
            (&many, BadBencode::Count),
            (&[b'd'; 65_536], BadBencode::Length),
        ] {
            assert_eq!(read_dictionary(bytes), Err(why), "{:?}", bytes.get(..bytes.len().min(40)));
        }
    }
}
