//! Checks of received datagrams, and reassembly of handshake messages (RFC 6347 §4.2.3), before the library gets them.
//!
//! `rtc-dtls` reassembles by recursion, keeps fragments without a limit, and stops its retransmission timer at every
//! handshake record. It therefore gets complete messages in order, each once, and encrypted records of the lengths that a
//! handshake has. Records that are malformed or not expected are discarded silently (§4.1.2.7): before there are keys,
//! everybody who can send from the peer's address can forge them.

use crate::fragments::{Fragment, Fragments, Insertion};
use ringway_datagram::{ClientHello, ContentType, Record, Records};
use ringway_sdp::DtlsRole;

/// Records of one association that the library may process.
pub(crate) struct Inbound {
    role: DtlsRole,
    /// Messages of the peer, and their maximum length.
    expected: &'static [(u8, u32)],
    is_established: bool,
    fragments: Fragments,
    /// Sequence number of the next unencrypted record that the library gets.
    sequence: u64,
    /// ChangeCipherSpecs and encrypted records that the handshake may still receive.
    cipher_left: u32,
    /// Repeated messages that may still make the library send its flight again.
    repeats_left: u32,
}

/// Part of a datagram that the library may process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// Records in the form that the library takes; empty: nothing.
    pub(crate) records: Vec<u8>,
    /// Number of records and fragments that were refused. Repeated messages do not count.
    pub(crate) refused: u32,
}

impl Inbound {
    /// Association with a peer that may present a certificate.
    pub(crate) fn new(role: DtlsRole) -> Self {
        let expected = match role {
            DtlsRole::Active => FROM_SERVER,
            DtlsRole::Passive => FROM_CLIENT,
        };
        Self::expecting(role, expected)
    }

    /// Server whose clients present no certificate: nothing makes it verify a signature.
    pub(crate) fn without_certificates() -> Self {
        Self::expecting(DtlsRole::Passive, FROM_ANONYMOUS_CLIENT)
    }

    fn expecting(role: DtlsRole, expected: &'static [(u8, u32)]) -> Self {
        Self {
            role,
            expected,
            is_established: false,
            fragments: Fragments::default(),
            sequence: 0,
            cipher_left: CIPHER_RECORDS_MAX,
            repeats_left: REPEATS_MAX,
        }
    }

    /// Ends the handshake: from now on only a repeat of the peer's last flight is admitted, and what has the new keys.
    pub(crate) fn establish(&mut self) {
        self.is_established = true;
        self.repeats_left = FINISHED_MAX;
        self.fragments.clear();
    }

    /// Bytes of the handshake that are kept, here or in the library.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.fragments.kept_bytes()
    }

    /// Checks a datagram. What follows a record that is not complete is refused.
    pub(crate) fn admit(&mut self, datagram: &[u8]) -> Admitted {
        let mut admitted = Admitted::default();
        let mut records = Records::of(datagram);
        for record in records.by_ref() {
            self.admit_record(&record, &mut admitted);
        }
        if !records.rest().is_empty() {
            admitted.refused += 1;
        }
        admitted
    }

    fn admit_record(&mut self, record: &Record<'_>, admitted: &mut Admitted) {
        let is_admitted = record.version[0] == VERSION[0]
            && match (record.epoch, record.content_type) {
                (0, ContentType::Handshake) if !self.is_established => {
                    return self.admit_fragments(record.payload, admitted);
                }
                // The Finished of the same flight is what is repeated.
                (0, ContentType::Handshake | ContentType::ChangeCipherSpec) if self.is_established => return,
                (0, ContentType::ChangeCipherSpec) => {
                    record.payload == CHANGE_CIPHER_SPEC
                        && self.fragments.has_begun()
                        && take(&mut self.cipher_left)
                }
                (1, ContentType::Handshake) => {
                    FINISHED_BYTES.contains(&record.payload.len()) && self.takes_finished()
                }
                (1, ContentType::Alert) => {
                    ALERT_BYTES.contains(&record.payload.len()) && self.takes_encrypted()
                }
                // Before there are keys the library would keep it.
                (1, ContentType::ApplicationData) => {
                    self.is_established
                        && (ENCRYPTED_BYTES_MIN..=ENCRYPTED_BYTES_MAX).contains(&record.payload.len())
                }
                _ => false,
            };
        if !is_admitted {
            admitted.refused += 1;
        } else if record.epoch == 0 {
            self.write(ContentType::ChangeCipherSpec, record.payload, admitted);
        } else {
            let number = (u64::from(record.epoch) << 48) | record.sequence;
            write_record(record.content_type, number, record.payload, &mut admitted.records);
        }
    }

    /// A Finished after the handshake is repeated by a client that did not receive the server's.
    fn takes_finished(&mut self) -> bool {
        match (self.is_established, self.role) {
            (false, _) => take(&mut self.cipher_left),
            (true, DtlsRole::Passive) => take(&mut self.repeats_left),
            (true, DtlsRole::Active) => false,
        }
    }

    fn takes_encrypted(&mut self) -> bool {
        self.is_established || take(&mut self.cipher_left)
    }

    fn admit_fragments(&mut self, mut payload: &[u8], admitted: &mut Admitted) {
        if payload.is_empty() {
            admitted.refused += 1;
        }
        while !payload.is_empty() {
            let Some((fragment, rest)) = Fragment::parse(payload).filter(|(it, _)| self.is_expected(it))
            else {
                admitted.refused += 1;
                return;
            };
            payload = rest;
            if self.fragments.is_old(&fragment) {
                self.admit_repeat(&fragment, admitted);
                continue;
            }
            match self.fragments.insert(&fragment) {
                Insertion::Kept => {}
                Insertion::Known => continue,
                Insertion::Refused => {
                    admitted.refused += 1;
                    continue;
                }
            }
            while let Some(message) = self.fragments.pop() {
                let start = admitted.records.len();
                self.write(ContentType::Handshake, &message, admitted);
                let is_hello = message.first() == Some(&CLIENT_HELLO);
                let record = admitted.records.get(start..).unwrap_or_default();
                if is_hello && ClientHello::parse(record).is_err() {
                    admitted.records.truncate(start);
                    admitted.refused += 1;
                }
            }
        }
    }

    /// A server answers a first ClientHello each time, until the client has shown its cookie. Any fragment makes the
    /// library do so; the last one is there once.
    fn admit_repeat(&mut self, fragment: &Fragment<'_>, admitted: &mut Admitted) {
        let is_first = self.role == DtlsRole::Passive && self.fragments.is_waiting_for(1);
        if is_first && fragment.kind == CLIENT_HELLO && fragment.is_last() && take(&mut self.repeats_left) {
            self.write(ContentType::Handshake, fragment.bytes, admitted);
        }
    }

    fn is_expected(&self, fragment: &Fragment<'_>) -> bool {
        self.expected.iter().any(|(kind, bytes_max)| *kind == fragment.kind && fragment.length <= *bytes_max)
    }

    fn write(&mut self, content_type: ContentType, payload: &[u8], admitted: &mut Admitted) {
        write_record(content_type, self.sequence, payload, &mut admitted.records);
        self.sequence += 1;
    }
}

/// Takes one of what is left. False: there is none.
fn take(left: &mut u32) -> bool {
    let taken = left.checked_sub(1);
    *left = taken.unwrap_or(0);
    taken.is_some()
}

/// Appends a record. `number` has the epoch in its upper 16 bits.
fn write_record(content_type: ContentType, number: u64, payload: &[u8], out: &mut Vec<u8>) {
    let kind = match content_type {
        ContentType::ChangeCipherSpec => 20,
        ContentType::Alert => 21,
        ContentType::Handshake => 22,
        ContentType::ApplicationData => 23,
        ContentType::Other(kind) => kind,
    };
    out.push(kind);
    out.extend(VERSION);
    out.extend(number.to_be_bytes());
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend(payload);
}

/// DTLS 1.2 (RFC 6347 §4.1). A ClientHello may have the minor version of DTLS 1.0.
const VERSION: [u8; 2] = [254, 253];
const CHANGE_CIPHER_SPEC: [u8; 1] = [1];

/// Messages that a client sends, and their maximum length (RFC 5246 §7.4): ClientHello, Certificate, ClientKeyExchange,
/// CertificateVerify.
const FROM_CLIENT: &[(u8, u32)] = &[(1, 4096), (11, CERTIFICATES_BYTES_MAX), (16, 1024), (15, 2048)];

/// The same of a client that is not asked for a certificate.
const FROM_ANONYMOUS_CLIENT: &[(u8, u32)] = &[(1, 4096), (16, 1024)];

/// The same of a server: ServerHello, HelloVerifyRequest, Certificate, ServerKeyExchange, CertificateRequest,
/// ServerHelloDone.
const FROM_SERVER: &[(u8, u32)] =
    &[(2, 1024), (3, 258), (11, CERTIFICATES_BYTES_MAX), (12, 2048), (13, 8192), (14, 0)];

/// Maximum length of a chain of certificates.
const CERTIFICATES_BYTES_MAX: u32 = 14 << 10;

/// Lengths of an encrypted Finished: 24 bytes with the tag of ChaCha20-Poly1305, and with nonce and tag of GCM.
const FINISHED_BYTES: [usize; 2] = [24 + 16, 24 + 24];

/// The same of an alert.
const ALERT_BYTES: [usize; 2] = [2 + 16, 2 + 24];

/// Minimum length of an encrypted record: a byte and a tag.
const ENCRYPTED_BYTES_MIN: usize = 1 + 16;

/// Maximum length of an encrypted record: that of a plaintext with nonce and tag (RFC 6347 §4.1).
const ENCRYPTED_BYTES_MAX: usize = (1 << 14) + 24;

/// Maximum number of ChangeCipherSpecs and encrypted records in a handshake: a flight ends with two, and is repeated if it
/// was lost.
const CIPHER_RECORDS_MAX: u32 = 32;

/// Maximum number of answers to a repeated ClientHello: intervals between repeats double.
const REPEATS_MAX: u32 = 8;

/// Maximum number of Finished messages after the handshake. The library answers seven; forged ones count too.
const FINISHED_MAX: u32 = 64;

const CLIENT_HELLO: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, epoch: u8, payload: &[u8]) -> Vec<u8> {
        let header = [kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 9];
        [&header, &(payload.len() as u16).to_be_bytes()[..], payload].concat()
    }

    /// A fragment of the message `sequence`, which is a ServerKeyExchange of four bytes.
    fn fragment(sequence: u8, offset: u8, bytes: &[u8]) -> Vec<u8> {
        let header = [12, 0, 0, 4, 0, sequence, 0, 0, offset, 0, 0, bytes.len() as u8];
        [&header, bytes].concat()
    }

    fn client() -> Inbound {
        Inbound::new(DtlsRole::Active)
    }

    /// Types and payloads of the admitted records.
    fn admitted(inbound: &mut Inbound, datagram: &[u8]) -> Vec<(ContentType, u64, Vec<u8>)> {
        let admitted = inbound.admit(datagram);
        Records::of(&admitted.records)
            .map(|record| (record.content_type, record.sequence, record.payload.to_vec()))
            .collect()
    }

    #[test]
    fn messages_reach_the_library_whole_in_order_and_once() {
        let mut inbound = client();
        let whole = |sequence: u8| fragment(sequence, 0, b"abcd");
        let split = [record(22, 0, &fragment(1, 2, b"cd")), record(22, 0, &fragment(0, 1, b"bcd"))].concat();
        assert_eq!(admitted(&mut inbound, &split), []);
        let rest = [fragment(0, 0, b"ab"), fragment(1, 0, b"abc")].concat();
        let both = [(ContentType::Handshake, 0, whole(0)), (ContentType::Handshake, 1, whole(1))];
        assert_eq!(admitted(&mut inbound, &record(22, 0, &rest)), both, "overlapping and out of order");
        let repeated = inbound.admit(&[split, record(22, 0, &rest)].concat());
        assert_eq!(repeated, Admitted::default());
        let next = admitted(&mut inbound, &record(22, 0, &whole(2)));
        assert_eq!(next, [(ContentType::Handshake, 2, whole(2))]);
    }

    #[test]
    fn records_that_no_handshake_has_are_refused() {
        let mut inbound = client();
        admitted(&mut inbound, &record(22, 0, &fragment(0, 0, b"abcd")));
        let mut other_version = record(22, 0, &fragment(1, 0, b"abcd"));
        other_version[1] = 3;
        let refused = [
            record(21, 0, &[2, 40]),
            record(23, 0, &[7]),
            record(20, 0, &[2]),
            record(99, 0, &[1; 4]),
            record(22, 0, &[]),
            record(22, 0, &[12, 0, 0, 4]),
            record(22, 0, &fragment(1, 2, b"abc")),
            record(22, 0, &fragment(1, 0, b"")),
            // A ClientHello, and a ServerHelloDone that is not empty.
            record(22, 0, &[&[1], &fragment(1, 0, b"abcd")[1..]].concat()),
            record(22, 0, &[&[14], &fragment(1, 0, b"abcd")[1..]].concat()),
            record(22, 0, &fragment(200, 0, b"abcd")),
            record(22, 1, &[0; 100]),
            record(22, 2, &[0; 40]),
            record(20, 1, &[1]),
            record(21, 1, &[2, 40]),
            other_version,
            record(22, 0, &fragment(1, 0, b"abcd"))[..20].to_vec(),
        ];
        for datagram in refused {
            let outcome = inbound.admit(&datagram);
            assert_eq!(outcome, Admitted { records: Vec::new(), refused: 1 }, "{datagram:?}");
        }
        let [first, second] = [record(20, 0, &[1]), record(22, 1, &[7; 48])];
        let flight = admitted(&mut inbound, &[&first[..], &record(21, 0, &[2, 40]), &second].concat());
        let expected =
            [(ContentType::ChangeCipherSpec, 1, vec![1]), (ContentType::Handshake, 9, vec![7; 48])];
        assert_eq!(flight, expected);
    }

    #[test]
    fn encrypted_records_are_limited_until_the_handshake_is_complete() {
        let mut inbound = client();
        let count = |inbound: &mut Inbound, datagram: &[u8]| {
            (0..100).filter(|_| !inbound.admit(datagram).records.is_empty()).count()
        };
        assert_eq!(count(&mut inbound, &record(23, 1, &[0; 50])), 0, "the library would keep them");
        assert_eq!(count(&mut inbound, &record(21, 1, &[0; 26])), CIPHER_RECORDS_MAX as usize);
        inbound.establish();
        assert_eq!(count(&mut inbound, &record(23, 1, &[0; 50])), 100);
        assert_eq!(count(&mut inbound, &record(21, 1, &[0; 18])), 100);
        assert_eq!(count(&mut inbound, &record(23, 1, &[])), 0, "no content");
        assert_eq!(count(&mut inbound, &record(22, 1, &[0; 40])), 0, "a server's flight is not answered");
        let mut server = Inbound::new(DtlsRole::Passive);
        server.establish();
        assert_eq!(count(&mut server, &record(22, 1, &[0; 40])), FINISHED_MAX as usize);
        assert_eq!(count(&mut server, &record(22, 0, &fragment(0, 0, b"abcd"))), 0);
    }

    #[test]
    fn a_server_answers_the_first_client_hello_until_the_second() {
        let mut server = Inbound::new(DtlsRole::Passive);
        let hello = |sequence: u8| {
            let body = [&[254, 253][..], &[7; 32], &[0, 0, 0, 2, 192, 43, 1, 0]].concat();
            let header = [1, 0, 0, 42, 0, sequence, 0, 0, 0, 0, 0, 42];
            record(22, 0, &[&header[..], &body].concat())
        };
        let other = record(22, 0, &[&[1], &fragment(0, 0, b"abcd")[1..]].concat());
        assert_eq!(Inbound::new(DtlsRole::Passive).admit(&other).refused, 1, "no ClientHello");
        for _ in 0..=REPEATS_MAX {
            assert_eq!(admitted(&mut server, &hello(0)).len(), 1);
        }
        assert_eq!(admitted(&mut server, &hello(0)), []);
        let mut server = Inbound::new(DtlsRole::Passive);
        assert_eq!(admitted(&mut server, &[hello(0), hello(1)].concat()).len(), 2);
        assert_eq!(admitted(&mut server, &[hello(0), hello(1)].concat()), []);
    }
}
