//! The packet index: rollover counter and sequence number in 48 bits (RFC 3711 §3.3.1).

/// Upper limit of packet indices, exclusive.
pub(crate) const INDEX_END: u64 = 1 << 48;

/// Half of the sequence number space.
const HALF: u16 = 1 << 15;

/// Reason why no index can be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// The index would be before the first one of the stream.
    BeforeStart,
    /// The rollover counter would overflow.
    Overflow,
}

/// Estimates the index of the packet with `sequence`; `highest` is the highest authenticated index so far.
///
/// RFC 3711 §3.3.1: the nearest of the candidates with the current rollover counter, one less and one more.
/// Of two equally near candidates, the one with the current counter (Appendix A).
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

    /// Literal transcription of RFC 3711 Appendix A; `None` if the counter would leave its range.
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
    fn the_estimate_agrees_with_appendix_a() {
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
    fn every_estimated_index_is_in_range() {
        assert_eq!(estimate(5, 65_000), Err(IndexError::BeforeStart));
        assert_eq!(estimate(INDEX_END - 1, 0), Err(IndexError::Overflow));
    }
}
