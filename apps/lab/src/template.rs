//! Messages of the generator: texts with fields of fixed width that are overwritten.
//!
//! Every field keeps its width, so a message is one copy of the text and a few stores, and its length is the
//! same for all users: 551 bytes for a REGISTER without credentials, 788 for an INVITE.

/// Domain of all users.
pub const DOMAIN: &str = "example.org";

/// First CSeq of every Call-ID; the number of digits never changes.
const CSEQ_BASE: u32 = 1_000_000;

/// Values of the fields of a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values {
    /// Sender: `u` and seven digits.
    pub user: u32,
    /// Called user: `u` and seven digits.
    pub peer: u32,
    /// Identifies the messages of one operation: 12 hexadecimal digits, the first four the slot.
    pub serial: Serial,
    /// Added to a base of seven digits.
    pub cseq: u32,
    /// The sender's port, five digits.
    pub port: u16,
    /// The called user's port, five digits.
    pub peer_port: u16,
}

/// The number of an operation: its slot and its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serial {
    /// Slot of the operation in the window.
    pub slot: u16,
    /// Number of the operation.
    pub turn: u32,
}

impl Serial {
    /// Hexadecimal digits, as used in branches, tags and Call-IDs.
    pub fn digits(self) -> [u8; 12] {
        let mut out = [0; 12];
        let number = (u64::from(self.slot) << 32) | u64::from(self.turn);
        write_hex(number, &mut out);
        out
    }

    /// Parses the digits after `marker` in `message`.
    pub fn find(message: &[u8], marker: &memchr::memmem::Finder<'_>) -> Option<Self> {
        let at = marker.find(message)? + marker.needle().len();
        let mut number = 0u64;
        for &digit in message.get(at..at + 12)? {
            number = (number << 4) | u64::from(char::from(digit).to_digit(16)?);
        }
        Some(Self { slot: (number >> 32) as u16, turn: number as u32 })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    User,
    Peer,
    Serial,
    CSeq,
    Port,
    PeerPort,
}

/// A message with fields.
#[derive(Clone, Debug)]
pub struct Template {
    text: Vec<u8>,
    fields: Vec<(usize, Field)>,
}

impl Template {
    /// Creates a template from a text in which `{user}`, `{peer}`, `{serial}`, `{cseq}`, `{port}` and
    /// `{peer_port}` are the fields. Lines end with LF in the text and with CR LF in the message.
    pub fn new(text: &str) -> Self {
        let mut built = Self { text: Vec::with_capacity(text.len()), fields: Vec::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            built.literal(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let (field, width) = match name {
                "user" => (Field::User, 7),
                "peer" => (Field::Peer, 7),
                "serial" => (Field::Serial, 12),
                "cseq" => (Field::CSeq, 7),
                "port" => (Field::Port, 5),
                "peer_port" => (Field::PeerPort, 5),
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

    /// Appends the message with `values`.
    pub fn write(&self, values: &Values, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        let Some(message) = out.get_mut(start..) else { return };
        let serial = values.serial.digits();
        for &(at, field) in &self.fields {
            match field {
                Field::User => write_decimal(values.user, message, at, 7),
                Field::Peer => write_decimal(values.peer, message, at, 7),
                Field::CSeq => write_decimal(CSEQ_BASE + values.cseq, message, at, 7),
                Field::Port => write_decimal(u32::from(values.port), message, at, 5),
                Field::PeerPort => write_decimal(u32::from(values.peer_port), message, at, 5),
                Field::Serial => {
                    if let Some(environment) = message.get_mut(at..at + serial.len()) {
                        environment.copy_from_slice(&serial);
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

/// Transport of a request, for its Via.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
}

/// A REGISTER of 551 bytes that creates or refreshes one binding; the sender's port is also its contact's.
pub fn register(carrier: Carrier) -> Template {
    Template::new(&register_text(carrier, "\n"))
}

/// The same up to the credentials, without the blank line.
pub fn register_open() -> Template {
    Template::new(&register_text(Carrier::Udp, ""))
}

fn register_text(carrier: Carrier, end: &str) -> String {
    let transport = match carrier {
        Carrier::Udp => "UDP",
        Carrier::Tcp => "TCP",
    };
    format!(
        "REGISTER sip:{DOMAIN} SIP/2.0\n\
         Via: SIP/2.0/{transport} 127.0.0.1:{{port}};branch=z9hG4bKn{{serial}};rport\n\
         Max-Forwards: 70\n\
         From: <sip:u{{user}}@{DOMAIN}>;tag=r{{user}}\n\
         To: <sip:u{{user}}@{DOMAIN}>\n\
         Call-ID: reg-u{{user}}-3f1c94ab@127.0.0.1\n\
         CSeq: {{cseq}} REGISTER\n\
         Contact: <sip:u{{user}}@127.0.0.1:{{port}}>\n\
         Expires: 3600\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK\n\
         Supported: replaces, outbound, path, gruu, timer\n\
         User-Agent: bench phone for measurements 0.1 (x86_64/linux), one of a million of them\n\
         Content-Length: 0\n{end}"
    )
}

/// An INVITE of 788 bytes, including an SDP of 243, to `peer` ("u" or a prefix without users).
pub fn invite(peer_prefix: char) -> Template {
    Template::new(&format!(
        "INVITE sip:{peer_prefix}{{peer}}@{DOMAIN} SIP/2.0\n\
         Via: SIP/2.0/UDP 127.0.0.1:{{port}};branch=z9hG4bKi{{serial}};rport\n\
         Max-Forwards: 70\n\
         From: <sip:u{{user}}@{DOMAIN}>;tag=a{{serial}}\n\
         To: <sip:{peer_prefix}{{peer}}@{DOMAIN}>\n\
         Call-ID: {{serial}}@127.0.0.1\n\
         CSeq: {{cseq}} INVITE\n\
         Contact: <sip:u{{user}}@127.0.0.1:{{port}}>\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK\n\
         Supported: replaces, timer, outbound, path, gruu\n\
         User-Agent: bench phone for measurements 0.10 (x86_64/linux)\n\
         Content-Type: application/sdp\n\
         Content-Length: 243\n\n{SESSION}"
    ))
}

/// The ACK of a failed INVITE up to the To header: same branch, same URI (RFC 3261 §17.1.1.3).
pub fn refused_ack_head(peer_prefix: char) -> Template {
    Template::new(&format!(
        "ACK sip:{peer_prefix}{{peer}}@{DOMAIN} SIP/2.0\n\
         Via: SIP/2.0/UDP 127.0.0.1:{{port}};branch=z9hG4bKi{{serial}};rport\n\
         Max-Forwards: 70\n\
         From: <sip:u{{user}}@{DOMAIN}>;tag=a{{serial}}\n"
    ))
}

/// The rest of such an ACK after the To header.
pub fn refused_ack_tail() -> Template {
    Template::new("Call-ID: {serial}@127.0.0.1\nCSeq: {cseq} ACK\nContent-Length: 0\n\n")
}

/// The request line of a request inside the dialog, before its Route headers.
pub fn in_dialog_head(method: &str) -> Template {
    Template::new(&format!("{method} sip:u{{peer}}@127.0.0.1:{{peer_port}} SIP/2.0\n"))
}

/// The rest of a request inside the dialog after the Route headers. `letter` distinguishes the branches of
/// ACK and BYE.
pub fn in_dialog_tail(method: &str, letter: char) -> Template {
    Template::new(&format!(
        "Via: SIP/2.0/UDP 127.0.0.1:{{port}};branch=z9hG4bK{letter}{{serial}};rport\n\
         Max-Forwards: 70\n\
         From: <sip:u{{user}}@{DOMAIN}>;tag=a{{serial}}\n\
         To: <sip:u{{peer}}@{DOMAIN}>;tag=b{{serial}}\n\
         Call-ID: {{serial}}@127.0.0.1\n\
         CSeq: {{cseq}} {method}\n\
         User-Agent: bench phone 0.1 (x86_64/linux)\n\
         Content-Length: 0\n\n"
    ))
}

/// Headers and body that the called phone adds to its 200.
pub fn answer_tail() -> Template {
    Template::new(&format!(
        "Contact: <sip:u{{peer}}@127.0.0.1:{{peer_port}}>\n\
         Content-Type: application/sdp\n\
         Content-Length: 243\n\n{SESSION}"
    ))
}

const SESSION: &str = "v=0\n\
    o=- 3900000000 3900000000 IN IP4 127.0.0.1\n\
    s=call of the bench\n\
    c=IN IP4 127.0.0.1\n\
    t=0 0\n\
    m=audio 40000 RTP/AVP 0 8 9 101\n\
    a=rtpmap:0 PCMU/8000\n\
    a=rtpmap:8 PCMA/8000\n\
    a=rtpmap:9 G722/8000\n\
    a=rtpmap:101 telephone-event/8000\n\
    a=ptime:20\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Values {
        Values {
            user: 42,
            peer: 999_999,
            serial: Serial { slot: 7, turn: 0xabc },
            cseq: 3,
            port: 40_001,
            peer_port: 40_002,
        }
    }

    fn text(template: &Template) -> String {
        let mut out = Vec::new();
        template.write(&sample(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_register_has_551_bytes_over_either_transport() {
        assert_eq!(text(&register(Carrier::Udp)).len(), 551);
        assert_eq!(text(&register(Carrier::Tcp)).len(), 551);
        assert!(text(&register(Carrier::Udp)).contains("\r\nCSeq: 1000003 REGISTER\r\n"));
    }

    #[test]
    fn an_invite_has_788_bytes_and_its_body_243() {
        let invite = text(&invite('u'));
        let (head, body) = invite.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), 243);
        assert_eq!(head.len() + 4, 545);
        assert!(
            head.starts_with("INVITE sip:u0999999@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:40001;")
        );
    }

    #[test]
    fn a_serial_is_found_again() {
        let marker = memchr::memmem::Finder::new("Call-ID: ");
        let message = text(&invite('u'));
        assert_eq!(Serial::find(message.as_bytes(), &marker), Some(sample().serial));
        assert_eq!(Serial::find(b"Call-ID: 00zz", &marker), None);
        assert_eq!(Serial::find(b"", &marker), None);
    }
}
