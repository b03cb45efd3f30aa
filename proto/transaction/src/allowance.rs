//! How much may be sent to an address that did not prove that it receives what is sent to it.

/// Bytes received from an unverified address for one transaction, and bytes sent there in return.
///
/// The source of a datagram can be forged, so whoever is there may be a victim (RFC 9000 §8.1 has the same rule). What we
/// generate, retransmissions included, is at most [`Allowance::GENERATED_FACTOR`] times what was received, or
/// [`Allowance::GENERATED_MIN`] bytes; forwarded responses together are at most [`Allowance::FORWARDED_FACTOR`] times what was
/// received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    received: u32,
    generated: u32,
    forwarded: u32,
}

/// Who wrote a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// We did, or we send it once more.
    Generated,
    /// Another element; it passes.
    Forwarded,
}

impl Allowance {
    /// Bytes that we generate for each byte received.
    pub const GENERATED_FACTOR: usize = 3;
    /// Bytes that we generate however little was received.
    pub const GENERATED_MIN: usize = 800;
    /// Bytes of forwarded responses for each byte received.
    pub const FORWARDED_FACTOR: usize = 10;

    /// For a request of this length.
    pub fn for_request(bytes: usize) -> Self {
        let mut allowance = Self { received: 0, generated: 0, forwarded: 0 };
        allowance.receive(bytes);
        allowance
    }

    /// Maximum length of everything that we generate for requests of this length together.
    pub const fn generated_max(received: usize) -> usize {
        let bytes = received.saturating_mul(Self::GENERATED_FACTOR);
        if bytes > Self::GENERATED_MIN { bytes } else { Self::GENERATED_MIN }
    }

    /// A retransmission of the request came.
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Counts a response of this length; false when it is over what may be sent.
    pub(crate) fn send(&mut self, origin: Origin, bytes: usize) -> bool {
        let received = self.received as usize;
        let (sent, max) = match origin {
            Origin::Generated => (&mut self.generated, Self::generated_max(received)),
            Origin::Forwarded => (&mut self.forwarded, received.saturating_mul(Self::FORWARDED_FACTOR)),
        };
        let total = (*sent as usize).saturating_add(bytes);
        if total > max {
            return false;
        }
        *sent = u32::try_from(total).unwrap_or(u32::MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_bound_and_retransmissions_of_the_request_raise_it() {
        let mut allowance = Allowance::for_request(100);
        assert!(allowance.send(Origin::Generated, 800) && !allowance.send(Origin::Generated, 1));
        assert!(allowance.send(Origin::Forwarded, 1000) && !allowance.send(Origin::Forwarded, 1));
        allowance.receive(300);
        assert!(allowance.send(Origin::Generated, 400) && !allowance.send(Origin::Generated, 1));
        assert!(allowance.send(Origin::Forwarded, 3000) && !allowance.send(Origin::Forwarded, 1));
        assert!(!Allowance::for_request(usize::MAX).send(Origin::Generated, usize::MAX));
    }
}
