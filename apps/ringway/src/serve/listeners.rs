//! Listeners of the running server by number, and the plan of a reload.

use ringway_linux::{LISTENERS_MAX, Listen};
use ringway_sansio::ListenerId;
use std::time::{Duration, Instant};

/// Listeners by number. A number belongs to its listener until the server ends, because bindings, Record-Route marks and
/// transactions carry it.
#[derive(Clone, Debug)]
pub(super) struct ListenerTable {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Slot {
    /// As configured: the port may be 0.
    wanted: Listen,
    /// As bound.
    actual: Listen,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Removed, and served until this time.
    Leaving(Instant),
    Closed,
}

/// Changes of the listeners by a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenerPlan {
    /// To be bound.
    pub(super) added: Vec<(ListenerId, Listen)>,
    /// Removed before, and still open.
    pub(super) returned: Vec<ListenerId>,
    pub(super) removed: Vec<ListenerId>,
}

impl ListenerTable {
    /// The listeners of the start.
    pub(super) fn new(wanted: &[Listen], actual: &[Listen]) -> Self {
        let slot = |(&wanted, &actual): (&Listen, &Listen)| Slot { wanted, actual, state: State::Open };
        Self { slots: wanted.iter().zip(actual).map(slot).collect() }
    }

    /// Number of an open listener of the configuration.
    pub(super) fn number_of(&self, wanted: Listen) -> Option<ListenerId> {
        let index = self.slots.iter().position(|slot| slot.wanted == wanted && slot.state == State::Open)?;
        u8::try_from(index).ok().map(ListenerId)
    }

    /// Numbers of all open listeners that the configuration has by this name: several may have port 0.
    pub(super) fn numbers_of(&self, wanted: Listen) -> impl Iterator<Item = ListenerId> {
        let is_meant = move |slot: &Slot| slot.wanted == wanted && slot.state == State::Open;
        let meant = self.slots.iter().enumerate().filter(move |(_, slot)| is_meant(slot));
        meant.filter_map(|(index, _)| u8::try_from(index).ok().map(ListenerId))
    }

    /// Those that serve new connections, as `udp:192.0.2.1:5060`.
    pub(super) fn shown(&self) -> Vec<String> {
        let open = self.slots.iter().filter(|slot| slot.state == State::Open);
        open.map(|slot| slot.actual.to_string()).collect()
    }

    /// Compares with the listeners of a new configuration.
    ///
    /// # Errors
    /// All numbers are used.
    pub(super) fn plan(&self, wanted: &[Listen]) -> Result<ListenerPlan, String> {
        let mut plan = ListenerPlan::default();
        let mut used = vec![false; self.slots.len()];
        let mut take = |listen: Listen, is_usable: fn(State) -> bool| {
            let fits = |(index, slot): (usize, &Slot)| {
                slot.wanted == listen && is_usable(slot.state) && used.get(index) == Some(&false)
            };
            let index = self.slots.iter().enumerate().position(fits)?;
            if let Some(used) = used.get_mut(index) {
                *used = true;
            }
            u8::try_from(index).ok().map(ListenerId)
        };
        let mut next = self.slots.len();
        for &listen in wanted {
            if take(listen, |state| state == State::Open).is_some() {
                continue;
            }
            if let Some(id) = take(listen, |state| matches!(state, State::Leaving(_))) {
                plan.returned.push(id);
                continue;
            }
            let old = match listen.address.port() {
                // A free port is another one each time.
                0 => None,
                _ => take(listen, |state| state == State::Closed),
            };
            let id = match old {
                Some(id) => id,
                None if next < LISTENERS_MAX => {
                    next += 1;
                    ListenerId(u8::try_from(next - 1).unwrap_or(u8::MAX))
                }
                None => {
                    return Err(format!(
                        "listen: {LISTENERS_MAX} different listeners have been used since the start; restart the server"
                    ));
                }
            };
            plan.added.push((id, listen));
        }
        let unused = self.slots.iter().zip(&used).enumerate();
        let unused = unused.filter(|(_, (slot, is_used))| slot.state == State::Open && !**is_used);
        plan.removed = unused.filter_map(|(index, _)| u8::try_from(index).ok().map(ListenerId)).collect();
        Ok(plan)
    }

    /// The table after a plan; `bound` has the added listeners with their actual addresses.
    pub(super) fn after(&self, plan: &ListenerPlan, bound: &[(ListenerId, Listen)], now: Instant) -> Self {
        let mut slots = self.slots.clone();
        for (&(id, wanted), &(_, actual)) in plan.added.iter().zip(bound) {
            let slot = Slot { wanted, actual, state: State::Open };
            match slots.get_mut(usize::from(id.0)) {
                Some(old) => *old = slot,
                None => slots.push(slot),
            }
        }
        let mut set = |id: ListenerId, state: fn(&Listen, Instant) -> State| {
            if let Some(slot) = slots.get_mut(usize::from(id.0)) {
                slot.state = state(&slot.actual, now);
            }
        };
        plan.returned.iter().for_each(|id| set(*id, |_, _| State::Open));
        plan.removed.iter().for_each(|id| {
            set(*id, |listen, now| match listen.transport.is_stream() {
                true => State::Closed,
                false => State::Leaving(now + LEAVING),
            });
        });
        Self { slots }
    }

    /// All listeners by number, as bound.
    pub(super) fn all(&self) -> impl Iterator<Item = Listen> {
        self.slots.iter().map(|slot| slot.actual)
    }

    /// Numbers of the listeners that were removed.
    pub(super) fn removed(&self) -> Vec<ListenerId> {
        let removed = self.slots.iter().enumerate().filter(|(_, slot)| slot.state != State::Open);
        removed.filter_map(|(index, _)| u8::try_from(index).ok().map(ListenerId)).collect()
    }

    /// A listener whose sockets use the port that `listen` wants.
    pub(super) fn with_port_of(&self, listen: Listen) -> Option<Listen> {
        let uses = |slot: &&Slot| {
            slot.state != State::Closed
                && slot.actual.address.port() == listen.address.port()
                && slot.actual.transport.is_stream() == listen.transport.is_stream()
        };
        self.slots.iter().find(uses).map(|slot| slot.actual)
    }

    /// Listeners whose time has come, which are closed from now on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<ListenerId> {
        let mut due = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let (State::Leaving(until), Ok(number)) = (slot.state, u8::try_from(index))
                && until <= now
            {
                slot.state = State::Closed;
                due.push(ListenerId(number));
            }
        }
        due
    }
}

/// Time for which a removed listener of datagrams is served: 64·T1, after which a transaction has ended unless a phone rings.
const LEAVING: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use super::*;

    fn listens(texts: &[&str]) -> Vec<Listen> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// A plan as text: `+` before added numbers, `=` before returned ones, `-` before removed ones.
    fn shown(plan: &ListenerPlan) -> String {
        let added = plan.added.iter().map(|(id, _)| format!("+{}", id.0));
        let returned = plan.returned.iter().map(|id| format!("={}", id.0));
        let removed = plan.removed.iter().map(|id| format!("-{}", id.0));
        added.chain(returned).chain(removed).collect::<Vec<_>>().join(" ")
    }

    /// Applies a plan whose listeners are bound as they are wanted.
    fn change(table: &mut ListenerTable, wanted: &[&str], now: Instant) -> String {
        let plan = table.plan(&listens(wanted)).unwrap();
        *table = table.after(&plan, &plan.added.clone(), now);
        shown(&plan)
    }

    #[test]
    fn a_number_belongs_to_its_listener() {
        let (udp, tcp, tls) = ("udp:127.0.0.1:5060", "tcp:127.0.0.1:5060", "tls:127.0.0.1:5061");
        let first = listens(&[udp, tcp]);
        let (mut table, now) = (ListenerTable::new(&first, &first), Instant::now());
        assert_eq!(change(&mut table, &[tcp, udp], now), "", "another order");
        assert_eq!(change(&mut table, &[udp, tls], now), "+2 -1");
        assert_eq!(table.removed(), [ListenerId(1)]);
        assert_eq!(change(&mut table, &[tls], now), "-0");
        // A listener of datagrams is served a little longer, and can come back meanwhile.
        assert!(table.take_due(now + LEAVING / 2).is_empty());
        assert_eq!(change(&mut table, &[tls, udp], now), "=0");
        assert_eq!(change(&mut table, &[tls], now), "-0");
        assert_eq!(table.take_due(now + LEAVING), [ListenerId(0)]);
        assert!(table.take_due(now + LEAVING).is_empty());
        assert_eq!(change(&mut table, &[tls, tcp, udp], now), "+1 +0", "its old number");
        assert!(table.removed().is_empty() && table.all().count() == 3);
    }

    #[test]
    fn free_ports_are_counted_and_numbers_run_out() {
        let any = "udp:127.0.0.1:0";
        let actual = listens(&["udp:127.0.0.1:4001", "udp:127.0.0.1:4002"]);
        let (mut table, now) = (ListenerTable::new(&listens(&[any, any]), &actual), Instant::now());
        assert_eq!(change(&mut table, &[any, any], now), "");
        assert_eq!(change(&mut table, &[any], now), "-1");
        for port in 0..LISTENERS_MAX - 2 {
            let listener = format!("tcp:127.0.0.1:{}", 10_000 + port);
            assert!(change(&mut table, &[any, &listener], now).starts_with('+'));
        }
        let error = table.plan(&listens(&[any, "tcp:127.0.0.1:9"])).unwrap_err();
        assert!(error.contains("restart"), "{error}");
        assert!(table.plan(&listens(&[any, "tcp:127.0.0.1:10000"])).is_ok(), "one that had a number");
    }
}
