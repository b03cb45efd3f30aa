//! Cache of resolved host names.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{HostAddress, Instant};

/// Cache of resolved names, so that an ACK and a BYE are sent without another lookup.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Vec<(String, HostAddress, Instant)>,
}

impl ResolvedNames {
    pub(crate) fn find(&self, now: Instant, host: &str) -> Option<HostAddress> {
        let found =
            self.known.iter().find(|(name, _, until)| *until > now && name.eq_ignore_ascii_case(host));
        found.map(|(_, address, _)| *address)
    }

    /// Adds an address. True if the oldest entry was removed for it.
    pub(crate) fn remember(&mut self, now: Instant, host: &str, address: HostAddress) -> bool {
        self.known.retain(|(name, _, until)| *until > now && !name.eq_ignore_ascii_case(host));
        let is_full = self.known.len() >= NAMES_MAX;
        if is_full {
            self.known.remove(0);
        }
        let address = HostAddress { ip: address.ip.to_canonical(), ..address };
        self.known.push((host.into(), address, now + NAME_LIFETIME));
        is_full
    }
}

const NAMES_MAX: usize = 16;
const NAME_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    #[test]
    fn names_are_forgotten_in_time_and_number() {
        let mut names = ResolvedNames::default();
        let now = Instant::from_secs(1);
        for number in 0..40_u8 {
            let host = alloc::format!("host{number}");
            let is_displaced = names.remember(now, &host, IpAddr::from([192, 0, 2, number]).into());
            assert_eq!(is_displaced, usize::from(number) >= NAMES_MAX, "{number}");
        }
        assert_eq!(names.known.len(), NAMES_MAX);
        assert_eq!(names.find(now, "HOST39"), Some(IpAddr::from([192, 0, 2, 39]).into()));
        assert_eq!(names.find(now + NAME_LIFETIME, "host39"), None);
    }
}
