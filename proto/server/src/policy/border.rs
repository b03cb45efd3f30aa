//! Changes of messages between this server and a trunk, after all others, or before them.

use super::header_rules::{Ruled, apply};
use crate::Config;
use crate::base::Env;
use crate::config::{RuleDirection, Trunk};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sip::{Limits, Message};

/// Changes of one message that a trunk gets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Border {
    /// Index of the trunk whose rules hold.
    rules: Option<usize>,
    /// It must not see the inside.
    pub(crate) hides: bool,
}

impl Border {
    /// No change.
    pub(crate) const NONE: Self = Self { rules: None, hides: false };

    /// Changes of a message to a trunk that was chosen, or to an address, which may be one.
    pub(crate) fn to(config: &Config, chosen: Option<usize>, ip: IpAddr) -> Self {
        let has_rules = |trunk: &Trunk| !trunk.is_node && !trunk.headers.is_empty();
        let trunks = &config.trunking.trunks;
        let rules = match chosen {
            Some(trunk) => trunks.get(trunk).is_some_and(has_rules).then_some(trunk),
            None => config.trunking.find_at(ip, has_rules),
        };
        Self { rules, hides: false }
    }

    /// True if no rule changes the message.
    pub(crate) const fn is_without_rules(&self) -> bool {
        self.rules.is_none()
    }

    /// Changes the message that begins at `start`. Returns the number of changes that a limit prevented.
    pub(crate) fn apply(&self, config: &Config, start: usize, out: &mut Vec<u8>) -> u64 {
        let Some(trunk) = self.rules.and_then(|trunk| config.trunking.trunks.get(trunk)) else { return 0 };
        let Ok(message) = Message::parse(out.get(start..).unwrap_or_default(), &Limits::STORED) else {
            return 0;
        };
        let Ruled { bytes, skipped } = apply(trunk, RuleDirection::Out, &message);
        if let Some(bytes) = bytes {
            out.truncate(start);
            out.extend_from_slice(&bytes);
        }
        skipped
    }
}

/// A message of a trunk, changed by its rules; `None`: no rule changes it.
pub(crate) fn changed_by(env: &mut Env<'_>, trunk: &Trunk, message: &Message<'_>) -> Option<Vec<u8>> {
    let Ruled { bytes, skipped } = apply(trunk, RuleDirection::In, message);
    env.counters.header_changes_skipped += skipped;
    bytes
}
