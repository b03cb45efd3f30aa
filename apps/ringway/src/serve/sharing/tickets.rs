//! One order for what the journal and the store of registrations confirm.

use std::collections::VecDeque;

/// Tickets for data of the journal and of the store. A ticket is durable when both are.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// Those that are not durable, oldest first.
    open: VecDeque<Ticket>,
    last: Ticket,
    durable: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticket {
    number: u64,
    journal: u64,
    update: u64,
}

impl Tickets {
    /// Ticket for records of the journal and updates up to these numbers.
    pub(super) fn issue(&mut self, journal: u64, update: u64) -> u64 {
        let (journal, update) = (self.last.journal.max(journal), self.last.update.max(update));
        if (journal, update) == (self.last.journal, self.last.update) {
            return self.last.number;
        }
        let is_full = self.open.len() >= OPEN_MAX;
        match self.open.back_mut().filter(|_| is_full) {
            // The newest ticket covers more: who has it waits a little longer.
            Some(last) => {
                (last.journal, last.update) = (journal, update);
                self.last = *last;
            }
            None => {
                self.last = Ticket { number: self.last.number + 1, journal, update };
                self.open.push_back(self.last);
            }
        }
        self.last.number
    }

    /// Newest ticket that is durable with all before it.
    pub(super) fn durable(&mut self, journal: u64, update: u64) -> u64 {
        while let Some(ticket) =
            self.open.front().filter(|ticket| ticket.journal <= journal && ticket.update <= update)
        {
            self.durable = ticket.number;
            self.open.pop_front();
        }
        self.durable
    }
}

/// Maximum number of open tickets.
const OPEN_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_durable_when_journal_and_store_are() {
        let mut tickets = Tickets::default();
        assert_eq!((tickets.issue(0, 0), tickets.durable(0, 0)), (0, 0), "nothing was stored");
        let first = tickets.issue(0, 1);
        let second = tickets.issue(5, 1);
        assert_eq!((first, second, tickets.issue(5, 1)), (1, 2, 2));
        assert_eq!(tickets.durable(4, 0), 0);
        assert_eq!(tickets.durable(4, 1), 1);
        assert_eq!(tickets.durable(5, 1), 2);
    }

    #[test]
    fn open_tickets_are_bounded() {
        let mut tickets = Tickets::default();
        let last = (1..=OPEN_MAX as u64 + 10).map(|number| tickets.issue(0, number)).last();
        assert_eq!((last, tickets.open.len()), (Some(OPEN_MAX as u64), OPEN_MAX));
        assert_eq!(tickets.durable(0, OPEN_MAX as u64 + 9), OPEN_MAX as u64 - 1);
        assert_eq!(tickets.durable(0, OPEN_MAX as u64 + 10), OPEN_MAX as u64);
        assert_eq!(tickets.issue(1, 0), OPEN_MAX as u64 + 1);
    }
}
