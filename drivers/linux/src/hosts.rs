//! Numbers of host names whose addresses were looked up.

use ringway_sansio::HostNameId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Table of host names. A name keeps its number until [`Hosts::NAMES_MAX`] others were looked up after it; a number is not
/// given to another name before 2^20 such rounds.
#[derive(Debug, Default)]
pub struct Hosts {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Arc<str>, u32>,
    /// Name and number by slot.
    slots: Vec<(Arc<str>, u32)>,
    /// Number of names so far.
    count: u32,
}

impl Hosts {
    /// Maximum number of names.
    pub const NAMES_MAX: usize = 1 << SLOT_BITS;

    /// Number of a name, which is compared without regard to case.
    pub fn id_of(&self, name: &str) -> HostNameId {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = table.numbers.get(name.as_str()) {
            return HostNameId(number);
        }
        let slot = table.count as usize % Self::NAMES_MAX;
        let round = table.count >> SLOT_BITS;
        table.count = table.count.wrapping_add(1);
        let number = ((round + 1) << SLOT_BITS) | slot as u32;
        let name: Arc<str> = name.into();
        if let Some(old) = table.slots.get_mut(slot) {
            let (displaced, _) = std::mem::replace(old, (Arc::clone(&name), number));
            table.numbers.remove(&displaced);
        } else {
            table.slots.push((Arc::clone(&name), number));
        }
        table.numbers.insert(name, number);
        HostNameId(number)
    }

    /// Name with this number; `None` if it is [`HostNameId::NONE`] or was displaced.
    pub fn name_of(&self, id: HostNameId) -> Option<Arc<str>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, number) = table.slots.get(id.0 as usize % Self::NAMES_MAX)?;
        (*number == id.0).then(|| Arc::clone(name))
    }
}

const SLOT_BITS: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers_until_they_are_displaced() {
        let hosts = Hosts::default();
        let first = hosts.id_of("Proxy.Example.org.");
        assert_ne!(first, HostNameId::NONE);
        assert_eq!(hosts.id_of("proxy.example.org"), first);
        assert_eq!(hosts.name_of(first).as_deref(), Some("proxy.example.org"));
        assert_eq!(hosts.name_of(HostNameId::NONE), None);
        for number in 0..Hosts::NAMES_MAX {
            hosts.id_of(&format!("host{number}.example.org"));
        }
        assert_eq!(hosts.name_of(first), None, "its slot has another name now");
        assert_ne!(hosts.id_of("proxy.example.org"), first);
        assert_eq!(hosts.table.lock().unwrap().numbers.len(), Hosts::NAMES_MAX);
    }
}
