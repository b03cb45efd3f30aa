//! Pages of a listing whose items are spread over shards.

use crate::Page;

/// Makes one page of a listing that goes through all shards, slot by slot. The cursor is a shard and a slot in it.
///
/// `walk(shard, slot, count, items)` locks the shard, adds the items in `count` slots from `slot` on and returns the slot
/// to go on from; `None`: it has no more. `count` is at most 64, so that messages wait for no more than these. A page ends after
/// `slots_max` slots, as a search may find nothing in them.
pub fn page_over_shards<T>(
    shards: u16,
    after: Option<&str>,
    (limit, slots_max): (usize, u32),
    total: u64,
    mut walk: impl FnMut(u16, u32, u32, &mut Vec<T>) -> Option<u32>,
) -> Page<T> {
    let (mut shard, mut slot) = after.and_then(read_cursor).unwrap_or((0, 0));
    let mut page = Page { items: Vec::new(), total, next: None };
    let mut slots = 0_u32;
    while shard < shards {
        if page.items.len() >= limit || slots >= slots_max {
            page.next = Some(format!("{shard}.{slot}"));
            break;
        }
        let count = u32::try_from(limit - page.items.len()).unwrap_or(u32::MAX).min(SLOTS_MAX);
        slots = slots.saturating_add(count);
        match walk(shard, slot, count, &mut page.items) {
            Some(next) => slot = next,
            None => (shard, slot) = (shard + 1, 0),
        }
    }
    page
}

fn read_cursor(text: &str) -> Option<(u16, u32)> {
    let (shard, slot) = text.split_once('.')?;
    Some((shard.parse().ok()?, slot.parse().ok()?))
}

/// Maximum number of slots under one lock: some 100 µs, even when each is a call whose INVITE must be parsed.
const SLOTS_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards of 1,000, 0 and 300 slots of which every third is taken.
    #[test]
    fn pages_follow_each_other_and_no_lock_is_held_over_more_than_64_slots() {
        const SLOTS: [u32; 3] = [1000, 0, 300];
        let mut longest = 0;
        let mut walk = |shard: u16, slot: u32, count: u32, items: &mut Vec<(u16, u32)>| {
            longest = longest.max(count);
            let end = SLOTS[usize::from(shard)];
            let taken = (slot..end.min(slot + count)).filter(|slot| slot % 3 == 0);
            items.extend(taken.map(|slot| (shard, slot)));
            (slot + count < end).then_some(slot + count)
        };
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = page_over_shards(3, after.as_deref(), (90, u32::MAX), 434, &mut walk);
            assert!(page.items.len() <= 90 && page.total == 434);
            listed.extend(page.items);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        let all = (0..3).flat_map(|shard| (0..SLOTS[usize::from(shard)]).map(move |slot| (shard, slot)));
        assert!(listed.into_iter().eq(all.filter(|(_, slot)| slot % 3 == 0)));
        assert_eq!(longest, SLOTS_MAX);
        let nothing = |_: u16, slot: u32, count: u32, _: &mut Vec<u8>| Some(slot + count);
        let page = page_over_shards(3, None, (90, 1000), 434, nothing);
        assert_eq!((page.items.len(), page.next.as_deref()), (0, Some("0.1024")), "it stops, and can go on");
    }
}
