use super::*;
use alloc::format;
use alloc::string::String;
use core::cell::Cell;

/// Users with that many contacts each; 0: the slot is empty.
struct Users {
    contacts: Vec<u32>,
    /// Slots read.
    looked: Cell<u32>,
}

impl Users {
    fn new(contacts: Vec<u32>) -> Self {
        Self { contacts, looked: Cell::new(0) }
    }

    /// Every contact, in order.
    fn all(&self, beginning: &str) -> Vec<String> {
        let mut all = Vec::new();
        let wanted = Prefix(beginning.as_bytes());
        self.rows(0, u32::MAX, &wanted, &mut |_, row| all.push(line(row.aor, row.left_s)));
        all
    }
}

impl RegistrationSource for Users {
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32> {
        for slot in from..from.saturating_add(count) {
            self.looked.set(self.looked.get() + 1);
            let contacts = *self.contacts.get(slot as usize)?;
            let aor = format!("u{}.{slot}", slot % 100);
            for nth in 0..contacts {
                let (aor, transport) = (aor.as_bytes(), Transport::Udp);
                let row = Row { aor, contact: b"", transport, address: None, left_s: Some(nth.into()) };
                if wanted.fits(aor) {
                    each(slot, row);
                }
            }
        }
        Some(from.saturating_add(count))
    }
}

fn line(aor: &[u8], nth: Option<u64>) -> String {
    format!("{} {}", core::str::from_utf8(aor).unwrap(), nth.unwrap())
}

/// Steps until nothing is left to do.
fn settle(listing: &mut Listing, users: &Users, beginning: &str) -> Vec<String> {
    for _ in 0..100_000 {
        listing.step(users, &Prefix(beginning.as_bytes()));
        if !listing.is_busy() {
            return listing.shown().iter().map(|shown| line(shown.aor.codes(), shown.left_s)).collect();
        }
    }
    panic!("it never ends");
}

/// Gaps, users with several contacts, and one with more than a page has rows.
fn crowd() -> Users {
    let mut contacts: Vec<u32> = (0..700).map(|slot| [1, 0, 2, 1, 0, 0, 3][slot % 7]).collect();
    contacts[300] = 45;
    contacts[0] = 0;
    Users::new(contacts)
}

#[test]
fn pages_down_show_everyone_once_and_pages_up_again() {
    let users = crowd();
    for beginning in ["", "u4", "u44.", "nobody"] {
        let all = users.all(beginning);
        let mut listing = Listing::new();
        let mut pages = [settle(&mut listing, &users, beginning)].to_vec();
        while listing.has_more() {
            listing.shift(Move::PageDown);
            pages.push(settle(&mut listing, &users, beginning));
        }
        assert_eq!(pages.concat(), all, "{beginning}");
        for page in pages.iter().rev().skip(1) {
            listing.shift(Move::PageUp);
            assert_eq!(settle(&mut listing, &users, beginning), *page, "{beginning}");
        }
    }
}

#[test]
fn rows_move_one_by_one_and_stop_at_the_ends() {
    let users = crowd();
    let all = users.all("");
    let mut listing = Listing::new();
    settle(&mut listing, &users, "");
    for first in 1..80 {
        listing.shift(Move::RowDown);
        assert_eq!(settle(&mut listing, &users, ""), all[first..first + Listing::ROWS]);
    }
    for first in (0..79).rev() {
        listing.shift(Move::RowUp);
        assert_eq!(settle(&mut listing, &users, ""), all[first..first + Listing::ROWS]);
    }
    listing.shift(Move::RowUp);
    assert_eq!(settle(&mut listing, &users, ""), all[..Listing::ROWS]);
    listing.shift(Move::Last);
    let last = &all[all.len() - Listing::ROWS..];
    assert_eq!(settle(&mut listing, &users, ""), last);
    assert!(!listing.has_more() && listing.percent() > 90);
    for by in [Move::RowDown, Move::PageDown] {
        listing.shift(by);
        assert_eq!(settle(&mut listing, &users, ""), last);
    }
    listing.shift(Move::First);
    assert_eq!(settle(&mut listing, &users, ""), all[..Listing::ROWS]);
}

#[test]
fn keys_pressed_faster_than_steps_are_all_done() {
    let users = crowd();
    let mut listing = Listing::new();
    settle(&mut listing, &users, "");
    (0..5).for_each(|_| listing.shift(Move::PageDown));
    listing.shift(Move::RowUp);
    let first = 5 * Listing::ROWS - 1;
    assert_eq!(settle(&mut listing, &users, ""), users.all("")[first..first + Listing::ROWS]);
}

#[test]
fn a_step_looks_at_few_places_however_many_there_are() {
    let users = Users::new(alloc::vec![1; 200_000]);
    let mut listing = Listing::new();
    listing.shift(Move::Last);
    listing.step(&users, &Prefix(b"nobody"));
    let mut steps = 1;
    while listing.is_busy() {
        users.looked.set(0);
        listing.step(&users, &Prefix(b"nobody"));
        assert!(users.looked.get() <= Listing::SLOTS_MAX + 100, "{} slots", users.looked.get());
        steps += 1;
    }
    assert!(steps > 200_000 / Listing::SLOTS_MAX && listing.shown().is_empty());
}

#[test]
fn those_who_go_are_not_missed() {
    let mut users = crowd();
    let mut listing = Listing::new();
    listing.shift(Move::Last);
    settle(&mut listing, &users, "");
    users.contacts.iter_mut().skip(100).for_each(|contacts| *contacts = 0);
    let all = users.all("");
    assert_eq!(settle(&mut listing, &users, ""), all[all.len() - Listing::ROWS..], "the last of those left");
    users.contacts.truncate(3);
    assert_eq!(settle(&mut listing, &users, ""), users.all(""));
    users.contacts.clear();
    assert_eq!(settle(&mut listing, &users, ""), [""; 0]);
    assert_eq!(listing.percent(), 0);
}

#[test]
fn places_are_counted_by_looking_at_few() {
    for count in [0, 1, 2, 3, 4, 5, 63, 64, 65, 1000] {
        let users = Users::new(alloc::vec![0; count]);
        assert_eq!(slots(&users), count as u32);
    }
}

#[test]
fn prefixes() {
    let fits = |wanted: &str, name: &str| Prefix(wanted.as_bytes()).fits(name.as_bytes());
    assert!(fits("", "bob") && fits("bo", "bob") && fits("BOB", "bob@example.org"));
    assert!(!fits("bobb", "bob") && !fits("ob", "bob") && !fits("a", ""));
}
