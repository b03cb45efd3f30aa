//! Certificate and challenges that several servers share: one of them orders, and all answer (decision 0059).

use crate::config::AcmeError;
use std::fmt::Debug;
use std::time::Duration;

/// Values that the servers of one cluster share, and the right to order. Methods may wait for some seconds.
pub trait SharedOrders: Debug + Send + Sync {
    /// Takes the right to order for [`LOCK_TIME`]; false: another server has it.
    ///
    /// # Errors
    /// The store cannot be used.
    fn begin(&self) -> Result<bool, AcmeError>;

    /// Gives the right back.
    ///
    /// # Errors
    /// The store cannot be used: the right ends by its time.
    fn end(&self) -> Result<(), AcmeError>;

    /// Replaces a value.
    ///
    /// # Errors
    /// The store cannot be used.
    fn write(&self, item: SharedItem, value: &[u8]) -> Result<(), AcmeError>;

    /// Reads a value; empty: there is none.
    ///
    /// # Errors
    /// The store cannot be used, or the value is not one of this cluster.
    fn read(&self, item: SharedItem) -> Result<Vec<u8>, AcmeError>;
}

/// Shared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedItem {
    /// Chain and private key, PEM.
    Certificate,
    /// Challenges of the order that is under way; they end after [`CHALLENGES_TIME`].
    Challenges,
}

/// Challenge with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) domain: String,
    pub(crate) token: String,
    /// Key authorization.
    pub(crate) answer: String,
    /// SHA-256 of it.
    pub(crate) digest: Vec<u8>,
}

/// Text of challenges, a line each.
pub(crate) fn write_proofs(proofs: &[Proof]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |of: &Proof| format!("{} {} {} {}\n", of.domain, of.token, of.answer, hex(&of.digest));
    proofs.iter().map(line).collect()
}

/// Reads the text; lines that are not valid are passed over.
pub(crate) fn read_proofs(text: &[u8]) -> Vec<Proof> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let proof = |line: &str| {
        let mut words = line.split(' ');
        let (domain, token, answer) = (words.next()?, words.next()?, words.next()?);
        let digest = words.next()?;
        let byte = |at: usize| u8::from_str_radix(digest.get(at..at + 2)?, 16).ok();
        let digest: Option<Vec<u8>> = (0..digest.len().min(128)).step_by(2).map(byte).collect();
        Some(Proof { domain: domain.into(), token: token.into(), answer: answer.into(), digest: digest? })
    };
    text.lines().take(PROOFS_MAX).filter_map(proof).collect()
}

/// Time for which a server has the right to order: longer than an order.
pub const LOCK_TIME: Duration = Duration::from_secs(660);
/// Time after which challenges end by themselves.
pub const CHALLENGES_TIME: Duration = Duration::from_secs(900);
/// Time between two looks of a server at what the others share.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Time for all servers to have read the challenges.
pub(crate) const SPREAD_TIME: Duration = Duration::from_secs(11);
/// As many as a certificate has names.
const PROOFS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_written_and_read() {
        let proof = |domain: &str| Proof {
            domain: domain.into(),
            token: "to-ken_1".into(),
            answer: "to-ken_1.thumb".into(),
            digest: vec![0, 0x7f, 0xff],
        };
        let proofs = [proof("a.example"), proof("b.example")];
        let text = write_proofs(&proofs);
        assert_eq!(text.lines().next(), Some("a.example to-ken_1 to-ken_1.thumb 007fff"));
        assert_eq!(read_proofs(text.as_bytes()), proofs);
        for damaged in ["", "a b", "a b c", "a b c xy", "a b c 0", "\u{1f512} \n"] {
            assert_eq!(read_proofs(damaged.as_bytes()), [], "{damaged:?}");
        }
        assert_eq!(read_proofs("a b c 00\n".repeat(200).as_bytes()).len(), PROOFS_MAX);
        assert_eq!(read_proofs(&[0xff, 0xfe]), []);
    }
}
