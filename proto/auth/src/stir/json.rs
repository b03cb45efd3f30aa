//! JSON of PASSporTs, with limits: texts, whole numbers, lists, objects.

use alloc::string::String;
use alloc::vec::Vec;

/// Value of JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// Number without sign, fraction and exponent.
    Number(u64),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
    /// Any other number, `true`, `false` or `null`.
    Other,
}

impl Value {
    /// Reads one value that is all of the text. `None`: it is malformed, names a member twice, or is beyond a limit.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: text, values: 0 };
        let value = reader.value(DEPTH_MAX)?;
        reader.skip_space();
        reader.rest.is_empty().then_some(value)
    }

    /// Member of an object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) const fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    values: usize,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let at = self.rest.iter().position(|byte| !is_space(byte)).unwrap_or(self.rest.len());
        self.rest = self.rest.get(at..).unwrap_or_default();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.values += 1;
        if self.values > VALUES_MAX || depth == 0 {
            return None;
        }
        self.skip_space();
        match self.rest.first()? {
            b'"' => self.text().map(Value::Text),
            b'[' => self.list(depth - 1),
            b'{' => self.object(depth - 1),
            b'0'..=b'9' => self.number(),
            b'-' => {
                self.rest = self.rest.get(1..)?;
                self.number().map(|_| Value::Other)
            }
            _ => self.word(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut list = Vec::new();
        if !self.take(b'[') {
            return None;
        }
        if self.take(b']') {
            return Some(Value::List(list));
        }
        loop {
            list.push(self.value(depth)?);
            if self.take(b']') {
                return Some(Value::List(list));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        let mut members: Vec<(String, Value)> = Vec::new();
        if !self.take(b'{') {
            return None;
        }
        if self.take(b'}') {
            return Some(Value::Object(members));
        }
        loop {
            self.skip_space();
            let name = self.text()?;
            // Two readers could take different ones.
            if members.iter().any(|(own, _)| *own == name) || !self.take(b':') {
                return None;
            }
            let value = self.value(depth)?;
            members.push((name, value));
            if self.take(b'}') {
                return Some(Value::Object(members));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let len = self.rest.iter().take_while(|byte| is_part(byte)).count();
        let (number, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        let digits = core::str::from_utf8(number).ok()?;
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        match (is_whole, digits.len()) {
            (_, 0) => None,
            (true, 1..=NUMBER_DIGITS_MAX) => digits.parse().ok().map(Value::Number),
            (_, _) => Some(Value::Other),
        }
    }

    fn word(&mut self) -> Option<Value> {
        let rest = [&b"true"[..], b"false", b"null"].iter().find_map(|word| self.rest.strip_prefix(*word))?;
        self.rest = rest;
        Some(Value::Other)
    }

    fn text(&mut self) -> Option<String> {
        let mut out = Vec::new();
        let mut rest = self.rest.strip_prefix(b"\"")?;
        loop {
            let (&byte, behind) = rest.split_first()?;
            rest = behind;
            match byte {
                b'"' => break,
                b'\\' => rest = escaped(rest, &mut out)?,
                0..=0x1f => return None,
                byte => out.push(byte),
            }
        }
        self.rest = rest;
        String::from_utf8(out).ok()
    }
}

/// Reads what follows a backslash; returns the rest.
fn escaped<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (&kind, rest) = rest.split_first()?;
    out.push(match kind {
        b'"' | b'\\' | b'/' => kind,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let (digits, rest) = rest.split_at_checked(4)?;
            let digits = core::str::from_utf8(digits).ok()?;
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
            // Surrogates: no value that counts here has a character of two.
            let character = char::from_u32(code)?;
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(rest);
        }
        _ => return None,
    });
    Some(rest)
}

/// Maximum number of values within each other.
const DEPTH_MAX: usize = 5;
/// Maximum number of values.
const VALUES_MAX: usize = 128;
/// Digits of a number that 64 bits surely hold.
const NUMBER_DIGITS_MAX: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn values_are_read() {
        let value =
            Value::read(br#" {"a" : [1, "x\u0041\n\/", true, -1.5e3, null],"b":{}, "c":""} "#).unwrap();
        let list = value.get("a").and_then(Value::list).unwrap();
        assert_eq!(list.first().and_then(Value::number), Some(1));
        assert_eq!(list.get(1).and_then(Value::text), Some("xA\n/"));
        assert_eq!((list.len(), list.last()), (5, Some(&Value::Other)));
        assert_eq!(value.get("b"), Some(&Value::Object(Vec::new())));
        assert_eq!(value.get("c").and_then(Value::text), Some(""));
        assert_eq!(value.get("d"), None);
    }

    #[test]
    fn what_is_malformed_or_beyond_a_limit_is_refused() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let wide = format!("[{}1]", "1,".repeat(VALUES_MAX));
        for text in [
            "",
            "{",
            "{}}",
            "{\"a\"}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1,\"a\":2}",
            "[1,]",
            "[1",
            "\"a",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\\u+123\"",
            "\"a\nb\"",
            "tru",
            "-",
            "nul",
            &deep,
            &wide,
        ] {
            assert_eq!(Value::read(text.as_bytes()), None, "{}", text.get(..20).unwrap_or(text));
        }
        assert_eq!(Value::read(b"\"\xff\""), None);
        assert_eq!(Value::read(b"99999999999999999999"), Some(Value::Other));
    }
}
