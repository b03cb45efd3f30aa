//! Messages of floods: texts with fields of fixed width that are overwritten.

/// Number of a request: its sender and its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serial {
    /// Number of the sender.
    pub sender: u16,
    /// Number among the sender's requests.
    pub turn: u32,
}

impl Serial {
    /// Hexadecimal digits, as used in branches, tags and Call-IDs.
    pub fn digits(self) -> [u8; 12] {
        let mut out = [0; 12];
        let number = (u64::from(self.sender) << 32) | u64::from(self.turn);
        write_hex(number, &mut out);
        out
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Peer,
    Serial,
}

/// A message with fields.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: Vec<u8>,
    fields: Vec<(usize, Field)>,
}

impl Template {
    /// Creates a template from a text in which `{peer}` (seven digits) and `{serial}` are the fields. Lines end with LF in the text and with CR LF in the message.
    pub(super) fn new(text: &str) -> Self {
        let mut built = Self { text: Vec::with_capacity(text.len()), fields: Vec::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            built.literal(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let (field, width) = match name {
                "peer" => (Field::Peer, 7),
                "serial" => (Field::Serial, 12),
                _ => {
                    built.literal(name);
                    rest = after;
                    continue;
                }
            };
            built.fields.push((built.text.len(), field));
            built.text.resize(built.text.len() + width, b'0');
            rest = after;
        }
        built.literal(rest);
        built
    }

    /// Appends the message with the number of a called user and its own number.
    pub(super) fn write(&self, peer: u32, serial: Serial, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        let Some(message) = out.get_mut(start..) else { return };
        let serial = serial.digits();
        for &(at, field) in &self.fields {
            match field {
                Field::Peer => write_decimal(peer, message, at, 7),
                Field::Serial => {
                    if let Some(digits) = message.get_mut(at..at + serial.len()) {
                        digits.copy_from_slice(&serial);
                    }
                }
            }
        }
    }

    fn literal(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.text.push(b'\r');
            }
            self.text.push(byte);
        }
    }
}

fn write_decimal(mut number: u32, message: &mut [u8], at: usize, width: usize) {
    for digit in message.get_mut(at..at + width).unwrap_or_default().iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn write_hex(mut number: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef".get((number & 15) as usize).copied().unwrap_or(b'0');
        number >>= 4;
    }
}
