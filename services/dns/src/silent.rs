//! Host names whose lookup took too long.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names that get no lookup for some seconds, because the last one was not answered: a call to them fails at once, and
/// takes nothing from others.
#[derive(Default)]
pub(crate) struct SilentNames {
    until: Mutex<HashMap<Box<str>, Instant>>,
}

impl SilentNames {
    /// Notes that the lookup of `host` was not answered in time.
    pub(crate) fn note(&self, host: &str, now: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= NAMES_MAX {
            until.retain(|_, end| *end > now);
        }
        if until.len() < NAMES_MAX {
            until.insert(host.to_ascii_lowercase().into(), now + SILENT_TIME);
        }
    }

    /// True if a lookup of `host` is not worth a try yet.
    pub(crate) fn has(&self, host: &str, now: Instant) -> bool {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        !until.is_empty() && until.get(&*host.to_ascii_lowercase()).is_some_and(|end| *end > now)
    }
}

/// Maximum number of names.
const NAMES_MAX: usize = 1024;

/// Time without another lookup.
const SILENT_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_in_time_and_limited_in_number() {
        let (names, now) = (SilentNames::default(), Instant::now());
        for number in 0..2 * NAMES_MAX {
            names.note(&format!("{number}.Example"), now);
        }
        assert_eq!(names.until.lock().unwrap().len(), NAMES_MAX);
        assert!(names.has("7.EXAMPLE", now) && !names.has("7.EXAMPLE", now + SILENT_TIME));
        names.note("new.example", now + SILENT_TIME);
        assert!(names.has("new.example", now + SILENT_TIME));
    }
}
