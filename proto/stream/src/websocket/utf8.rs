//! Validation of UTF-8 that arrives in pieces (RFC 6455 §8.1).

/// Validator of one text message. It holds at most the first three bytes of a character.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utf8 {
    begun: [u8; 4],
    begun_bytes: usize,
}

impl Utf8 {
    /// Checks further bytes. False: no continuation makes the text valid.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> bool {
        while self.begun_bytes > 0 {
            let [next, rest @ ..] = bytes else { return true };
            bytes = rest;
            if let Some(byte) = self.begun.get_mut(self.begun_bytes) {
                *byte = *next;
                self.begun_bytes += 1;
            }
            match core::str::from_utf8(self.begun.get(..self.begun_bytes).unwrap_or_default()) {
                Ok(_) => self.begun_bytes = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match core::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                // One to three bytes: the start of a character.
                for (to, from) in self.begun.iter_mut().zip(bytes.iter().skip(error.valid_up_to())) {
                    *to = *from;
                    self.begun_bytes += 1;
                }
                true
            }
        }
    }

    /// True if the text may end here.
    pub(super) const fn is_complete(&self) -> bool {
        self.begun_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_gives_the_result_of_the_whole() {
        let texts: [&[u8]; 14] = [
            b"",
            b"plain",
            "κόσμε é 🎵 \u{10ffff} \u{7ff}\u{800}\u{ffff}".as_bytes(),
            b"ab\xff",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xf0\x80\x80\x80",
            b"\xe2\x82",
            b"\xf0\x9f\x8e",
            b"\x80",
            b"\xe2\x82\xac\xe2",
            b"\xe2a",
            b"\xf0\x9f\x8e\xb5\xb5",
        ];
        for text in texts {
            let expected = core::str::from_utf8(text).is_ok();
            for size in 1..=text.len().max(1) {
                let mut utf8 = Utf8::default();
                let is_valid = text.chunks(size).all(|chunk| utf8.push(chunk)) && utf8.is_complete();
                assert_eq!(is_valid, expected, "{text:x?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_impossible_character_is_refused_before_its_end() {
        let mut utf8 = Utf8::default();
        assert!(utf8.push(b"ok \xf0"));
        assert!(!utf8.push(b"\x80"), "an overlong form");
        let mut utf8 = Utf8::default();
        assert!(utf8.push(b"\xed") && !utf8.push(b"\xa0"), "a surrogate");
    }
}
