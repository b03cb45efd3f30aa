//! Lists of fields that messages are filled from, as SIPp's `-inf` has them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sip::write_number;

/// List of lines, whose fields are divided by `;`.
#[derive(Clone, Debug)]
pub struct FieldList {
    text: Arc<str>,
    /// Start and end of each line in `text`.
    lines: Arc<[(u32, u32)]>,
    order: FieldOrder,
    numbers: Option<FieldNumbers>,
}

/// Order in which attempts take the lines of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOrder {
    /// One after another.
    Sequential,
    /// At random.
    Random,
    /// The line of the user's number.
    User,
}

/// Numbers that stand for `%d` in the lines, which are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldNumbers {
    /// Number of lines, those that come again included.
    pub count: u32,
    /// Number of the first line.
    pub offset: u32,
    /// Difference of the numbers of two lines.
    pub multiple: u32,
}

impl FieldList {
    /// A list of the lines at these positions of a text. `None`: there is no line, or a position is not in the text.
    pub fn new(
        text: Arc<str>,
        lines: Vec<(u32, u32)>,
        order: FieldOrder,
        numbers: Option<FieldNumbers>,
    ) -> Option<Self> {
        let is_inside = |&(start, end): &(u32, u32)| text.get(start as usize..end as usize).is_some();
        let count = numbers.map_or(lines.len(), |numbers| numbers.count as usize);
        let is_good =
            !lines.is_empty() && count > 0 && u32::try_from(count).is_ok() && lines.iter().all(is_inside);
        is_good.then(|| Self { text, lines: lines.into(), order, numbers })
    }

    /// Number of lines, those that come again included; at least 1.
    pub fn count(&self) -> u32 {
        match self.numbers {
            Some(numbers) => numbers.count,
            None => u32::try_from(self.lines.len()).unwrap_or(u32::MAX),
        }
    }

    /// Order of the lines.
    pub const fn order(&self) -> FieldOrder {
        self.order
    }

    /// Appends a field of a line; nothing if the line is shorter.
    pub fn write(&self, line: u32, field: u16, out: &mut Vec<u8>) {
        let line = line % self.count();
        let place = self.lines.get(line as usize % self.lines.len());
        let text = place.and_then(|&(start, end)| self.text.get(start as usize..end as usize));
        let Some(field) = text.and_then(|text| text.split(';').nth(usize::from(field))) else { return };
        match self.numbers {
            Some(numbers) => {
                let number = u64::from(numbers.offset) + u64::from(line) * u64::from(numbers.multiple);
                write_numbered(field, number, out);
            }
            None => out.extend_from_slice(field.as_bytes()),
        }
    }

    /// Line of an attempt; `draw` is random, and the same for all fields of the attempt.
    pub(crate) fn line_of(&self, user: u32, number: u64, draw: u64) -> u32 {
        let count = u64::from(self.count());
        (match self.order {
            FieldOrder::Sequential => number.saturating_sub(1) % count,
            FieldOrder::User => u64::from(user) % count,
            FieldOrder::Random => draw % count,
        }) as u32
    }
}

/// Appends a text in which `%d` and `%05d` are a number.
fn write_numbered(text: &str, number: u64, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend_from_slice(before.as_bytes());
        let digits = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let (width, end) = after.split_at_checked(digits).unwrap_or_default();
        match (end.strip_prefix('d'), after.strip_prefix('%')) {
            (Some(end), _) => {
                let start = out.len();
                write_number(out, number);
                let missing =
                    width.parse().unwrap_or(0_usize).min(WIDTH_MAX).saturating_sub(out.len() - start);
                let fill = if width.starts_with('0') { b'0' } else { b' ' };
                out.splice(start..start, core::iter::repeat_n(fill, missing));
                rest = end;
            }
            (None, Some(end)) => {
                out.push(b'%');
                rest = end;
            }
            (None, None) => {
                out.push(b'%');
                rest = after;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Maximum width of a number.
const WIDTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;

    fn field(list: &FieldList, line: u32, field: u16) -> String {
        let mut out = Vec::new();
        list.write(line, field, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_those_of_the_line_and_wrap_around() {
        let text: Arc<str> = "a;b;c\nd;;e".into();
        let list = FieldList::new(text.clone(), vec![(0, 5), (6, 10)], FieldOrder::Sequential, None).unwrap();
        let fields: Vec<_> = (0..4).map(|index| field(&list, 2, index)).collect();
        assert_eq!(fields, ["a", "b", "c", ""]);
        assert_eq!([field(&list, 1, 1), field(&list, 3, 2)], ["", "e"]);
        assert!(FieldList::new(text.clone(), vec![], FieldOrder::User, None).is_none());
        assert!(FieldList::new(text, vec![(6, 11)], FieldOrder::User, None).is_none());
    }

    #[test]
    fn numbers_stand_for_the_formats() {
        let numbers = FieldNumbers { count: 100, offset: 4000, multiple: 2 };
        let text: Arc<str> = "u%d;%06d;%6d;%%d %x;100%".into();
        let lines = vec![(0, text.len() as u32)];
        let list = FieldList::new(text, lines, FieldOrder::Sequential, Some(numbers)).unwrap();
        let fields: Vec<_> = (0..5).map(|index| field(&list, 99, index)).collect();
        assert_eq!(fields, ["u4198", "004198", "  4198", "%d %x", "100%"]);
        assert_eq!((list.count(), field(&list, 100, 0)), (100, "u4000".into()));
    }

    #[test]
    fn each_order_takes_its_line() {
        let text: Arc<str> = "a\nb\nc".into();
        let list = |order| FieldList::new(text.clone(), vec![(0, 1), (2, 3), (4, 5)], order, None).unwrap();
        let lines = |order| {
            [(7, 1, 11), (8, 2, 12), (9, 4, 13)]
                .map(|(user, number, draw)| list(order).line_of(user, number, draw))
        };
        assert_eq!(lines(FieldOrder::Sequential), [0, 1, 0]);
        assert_eq!(lines(FieldOrder::User), [1, 2, 0]);
        assert_eq!(lines(FieldOrder::Random), [2, 0, 1]);
    }
}
