//! The packet index: rollover counter and sequence number in 48 bits (RFC 3711 §3.3.1).

/// The first index that does not exist.
pub(crate) const INDEX_END: u64 = 1 << 48;

/// Half of the sequence numbers: what is further away than this is nearer on the other side.
const HALF: u16 = 1 << 15;

/// Why no index fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// It would lie before the stream's first.
    BeforeStart,
    /// The rollover counter would overflow.
    Overflow,
}

/// The index of the packet with `sequence`, when `highest` is the highest authentic one so far.
///
/// RFC 3711 §3.3.1: of the candidates with the rollover counter as it is, one less and one more, the nearest; where
/// two are equally near, the one with the counter as it is (Appendix A).
pub(crate) fn estimate(highest: u64, sequence: u16) -> Result<u64, IndexError> {
    let ahead = sequence.wrapping_sub(highest as u16);
    let same_rollover = (highest & !0xffff) | u64::from(sequence);
    let index = if ahead == HALF {
        same_rollover
    } else if ahead < HALF {
        highest + u64::from(ahead)
    } else {
        let behind = u64::from(ahead.wrapping_neg());
        highest.checked_sub(behind).ok_or(IndexError::BeforeStart)?
    };
    if index < INDEX_END { Ok(index) } else { Err(IndexError::Overflow) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appendix A of RFC 3711, in its own words; None where the counter would leave its range.
    fn appendix_a(roc: u32, s_l: u16, sequence: u16) -> Option<u64> {
        let (s, seq) = (i64::from(s_l), i64::from(sequence));
        let v = if s < 32_768 {
            if seq - s > 32_768 { roc.checked_sub(1)? } else { roc }
        } else if s - 32_768 > seq {
            roc.checked_add(1)?
        } else {
            roc
        };
        Some((u64::from(v) << 16) | u64::from(sequence))
    }

    #[test]
    fn the_estimate_is_that_of_appendix_a() {
        let edges = [0, 1, 2, 100, 32_766, 32_767, 32_768, 32_769, 32_770, 65_434, 65_534, 65_535];
        for roc in [0, 1, 7, u32::MAX - 1, u32::MAX] {
            for s_l in edges {
                for sequence in edges.into_iter().chain((0..=65_535).step_by(251)) {
                    let highest = (u64::from(roc) << 16) | u64::from(s_l);
                    let ours = estimate(highest, sequence).ok();
                    assert_eq!(ours, appendix_a(roc, s_l, sequence), "{roc} {s_l} {sequence}");
                }
            }
        }
    }

    #[test]
    fn no_index_lies_outside_its_range() {
        assert_eq!(estimate(5, 65_000), Err(IndexError::BeforeStart));
        assert_eq!(estimate(INDEX_END - 1, 0), Err(IndexError::Overflow));
    }
}
