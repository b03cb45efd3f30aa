//! Keys of a terminal at a serial line (ECMA-48 and what xterm, the Linux console and VT220 send).

use super::{Key, Typed};
use core::time::Duration;
use ringway_sansio::Instant;

/// Turns a terminal's bytes into keys. Unknown sequences are skipped.
#[derive(Clone, Debug, Default)]
pub struct SerialKeys {
    state: State,
    /// Time of the last byte: it distinguishes the key Esc from a sequence that begins with it.
    last_at: Instant,
    after_return: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// ESC.
    Escape,
    /// ESC O: one character follows.
    Single,
    /// ESC [ [: one character follows (function keys of the Linux console).
    Console,
    /// ESC [ and the numbers so far; only the first two count.
    Sequence { numbers: [u16; 2], count: u8 },
}

impl SerialKeys {
    /// Time after ESC, in milliseconds, within which a sequence continues: longer than two bytes at 300 bit/s take,
    /// shorter than a person takes.
    pub const ESCAPE_MS: u64 = 80;

    /// Takes a byte that came from the terminal.
    pub fn byte(&mut self, now: Instant, byte: u8) -> Option<Typed> {
        let lone_escape = self.idle(now);
        self.last_at = now;
        let state = core::mem::take(&mut self.state);
        let typed = match state {
            State::Ground => self.ground(byte).map(Typed::Key),
            State::Escape => self.escape(byte).map(Typed::Key),
            State::Single => single(byte).map(Typed::Key),
            State::Console => console(byte).map(Typed::Key),
            State::Sequence { numbers, count } => self.sequence(byte, numbers, count),
        };
        // One byte cannot tell two things: the one that came later is more likely to be missed.
        typed.or(lone_escape.map(Typed::Key))
    }

    /// Call it while no byte arrives: the key Esc is recognised by the absence of a sequence.
    pub fn idle(&mut self, now: Instant) -> Option<Key> {
        if self.state == State::Ground || now.since(self.last_at) < Duration::from_millis(Self::ESCAPE_MS) {
            return None;
        }
        let state = core::mem::take(&mut self.state);
        (state == State::Escape).then_some(Key::Escape)
    }

    fn ground(&mut self, byte: u8) -> Option<Key> {
        let after_return = core::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            ESC => {
                self.state = State::Escape;
                None
            }
            b'\n' if after_return => None,
            b'\r' | b'\n' => Some(Key::Enter),
            b'\t' => Some(Key::Tab),
            0x08 | 0x7f => Some(Key::Backspace),
            0x01..=0x1a => Some(Key::control(byte)),
            b' '..=b'~' => Some(Key::Char(char::from(byte))),
            _ => None,
        }
    }

    fn escape(&mut self, byte: u8) -> Option<Key> {
        match byte {
            ESC => {
                self.state = State::Escape;
                Some(Key::Escape)
            }
            b'[' => {
                self.state = State::Sequence { numbers: [0; 2], count: 0 };
                None
            }
            b'O' => {
                self.state = State::Single;
                None
            }
            // With Alt a terminal sends ESC before the key.
            b' '..=b'~' => Some(Key::Alt(char::from(byte))),
            _ => self.ground(byte),
        }
    }

    fn sequence(&mut self, byte: u8, mut numbers: [u16; 2], count: u8) -> Option<Typed> {
        match byte {
            ESC => {
                self.state = State::Escape;
                None
            }
            b'[' if count == 0 && numbers == [0; 2] => {
                self.state = State::Console;
                None
            }
            b'0'..=b'9' => {
                if let Some(number) = numbers.get_mut(usize::from(count)) {
                    *number = number.saturating_mul(10).saturating_add(u16::from(byte - b'0'));
                }
                self.state = State::Sequence { numbers, count };
                None
            }
            b' '..=b'?' => {
                let count = count.saturating_add(u8::from(byte == b';'));
                self.state = State::Sequence { numbers, count };
                None
            }
            // F3 with Shift looks like the report of a terminal with one row.
            b'R' if numbers.iter().all(|number| *number >= SIZE_MIN) => {
                Some(Typed::Size { rows: numbers[0], columns: numbers[1] })
            }
            b'~' => numbered(numbers[0]).map(Typed::Key),
            _ => single(byte).map(Typed::Key),
        }
    }
}

/// The key of a sequence's last character.
fn single(byte: u8) -> Option<Key> {
    let key = match byte {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        b'Z' => Key::BackTab,
        b'P'..=b'S' => Key::Function(byte - b'P' + 1),
        _ => return None,
    };
    Some(key)
}

fn console(byte: u8) -> Option<Key> {
    matches!(byte, b'A'..=b'E').then(|| Key::Function(byte - b'A' + 1))
}

/// The key of `ESC [ number ~`.
fn numbered(number: u16) -> Option<Key> {
    let key = match number {
        1 | 7 => Key::Home,
        3 => Key::Delete,
        4 | 8 => Key::End,
        5 => Key::PageUp,
        6 => Key::PageDown,
        11..=15 => Key::Function(number as u8 - 10),
        17..=21 => Key::Function(number as u8 - 11),
        23 | 24 => Key::Function(number as u8 - 12),
        _ => return None,
    };
    Some(key)
}

const ESC: u8 = 0x1b;
/// No terminal has fewer rows or columns.
const SIZE_MIN: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn typed(bytes: &[u8]) -> Vec<Typed> {
        let (mut keys, mut now) = (SerialKeys::default(), Instant::from_secs(1));
        let mut all: Vec<Typed> = bytes.iter().filter_map(|byte| keys.byte(now, *byte)).collect();
        now = now + Duration::from_millis(SerialKeys::ESCAPE_MS);
        all.extend(keys.idle(now).map(Typed::Key));
        all
    }

    fn keys(bytes: &[u8]) -> Vec<Key> {
        typed(bytes)
            .into_iter()
            .filter_map(|typed| match typed {
                Typed::Key(key) => Some(key),
                Typed::Size { .. } => None,
            })
            .collect()
    }

    #[test]
    fn sequences_of_several_terminals_are_the_same_keys() {
        use Key::{Delete, Down, End, Function, Home, Left, PageDown, PageUp, Right, Up};
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D"), [Up, Down, Right, Left]);
        assert_eq!(keys(b"\x1bOA\x1bOB\x1bOC\x1bOD"), [Up, Down, Right, Left]);
        assert_eq!(keys(b"\x1b[1;5A"), [Up], "with Ctrl");
        assert_eq!(keys(b"\x1b[H\x1b[1~\x1b[7~\x1bOH"), [Home; 4]);
        assert_eq!(keys(b"\x1b[F\x1b[4~\x1b[8~\x1bOF"), [End; 4]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[3~"), [PageUp, PageDown, Delete]);
        assert_eq!(keys(b"\x1bOP\x1b[11~\x1b[[A"), [Function(1); 3]);
        assert_eq!(keys(b"\x1b[15~\x1b[17~\x1b[21~\x1b[24~"), [5, 6, 10, 12].map(Function));
    }

    #[test]
    fn plain_bytes_are_keys() {
        let expected = [Key::Char('a'), Key::Char('/'), Key::Enter, Key::Backspace, Key::Backspace, Key::Tab];
        assert_eq!(keys(b"a/\r\x08\x7f\t"), expected);
        assert_eq!(keys(b"\r\n\n\r\r\n"), [Key::Enter; 4], "CR LF is one Enter");
        assert_eq!(keys(b"\x0c\x00\x01\x1d\x80\xff"), [Key::REDRAW, Key::Ctrl('a')]);
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows() {
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b\x1b"), [Key::Escape; 2]);
        assert_eq!(keys(b"\x1bl\x1b[Z"), [Key::Alt('l'), Key::BackTab]);
        assert_eq!(keys(b"\x1b["), [], "a sequence that never ended is no key");
        let (mut keys, now) = (SerialKeys::default(), Instant::from_secs(1));
        assert_eq!(keys.byte(now, 0x1b), None);
        assert_eq!(keys.idle(now + Duration::from_millis(10)), None);
        let later = now + Duration::from_secs(1);
        assert_eq!(
            keys.byte(later, b'['),
            Some(Typed::Key(Key::Char('['))),
            "it was the key Esc, and then ["
        );
    }

    #[test]
    fn a_terminal_says_its_size() {
        assert_eq!(typed(b"\x1b[24;80R"), [Typed::Size { rows: 24, columns: 80 }]);
        assert_eq!(typed(b"\x1b[1;2R"), [Typed::Key(Key::Function(3))], "F3 with Shift");
        let most = Typed::Size { rows: u16::MAX, columns: u16::MAX };
        assert_eq!(typed(b"\x1b[99999999;99999999R"), [most]);
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(keys(b"\x1b[200~\x1b[?1;2c\x1b[<0;1;1m\x1b[;;;;;;~\x1b[[Zx"), [Key::Char('x')]);
        let mut decoder = SerialKeys::default();
        for byte in (0..=u8::MAX).cycle().take(2000) {
            let _ = decoder.byte(Instant::from_secs(1), byte);
        }
    }
}
