//! Updates that are not in the store though their numbers are settled.

use std::collections::{HashSet, VecDeque};

/// Numbers of the last updates that the store refused, or that were dropped.
#[derive(Default)]
pub(crate) struct Refused {
    order: VecDeque<u64>,
    numbers: HashSet<u64>,
}

impl Refused {
    /// Adds numbers; beyond [`REFUSED_MAX`] the oldest are forgotten.
    pub(crate) fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            if self.numbers.insert(*number) {
                self.order.push_back(*number);
            }
        }
        while self.order.len() > REFUSED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.numbers.remove(&oldest);
            }
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

/// Maximum number of refused updates that are remembered, about 20 bytes each. An answer is held for 32 s at most.
const REFUSED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut refused = Refused::default();
        refused.add(&[3, 3, 5]);
        assert!(refused.contains(3) && !refused.contains(4) && refused.contains(5));
        let many: Vec<u64> = (10..10 + REFUSED_MAX as u64 - 1).collect();
        refused.add(&many);
        assert!(!refused.contains(3) && refused.contains(5) && refused.order.len() == REFUSED_MAX);
    }
}
