//! A made-up server and a made-up phone, so that a page can be drawn in one line.

use crate::admin::{
    Admin, Authentication, Facts, Limit, Memory, Mode, Prefix, RegistrationSource, Row, Totals, Users,
};
use crate::{Address, Card, Cells, Key, Network, Source};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Instant, Transport};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub(crate) const DNS: [Ipv4Addr; 1] = [Ipv4Addr::new(192, 0, 2, 1)];

/// A network card with an address by DHCP.
pub(crate) fn network() -> Network<'static> {
    Network {
        card: Some(Card { name: "virtio-net", hardware: [0x52, 0x54, 0, 0x12, 0x34, 0x56], is_up: true }),
        address: Address::Known {
            ip: Ipv4Addr::new(192, 0, 2, 10),
            prefix: 24,
            gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
            dns: &DNS,
            source: Source::Dhcp { left: Duration::from_secs(43_190) },
        },
    }
}

/// Registered users; every second slot is empty.
pub(crate) struct Town(pub(crate) Vec<(Vec<u8>, Option<SocketAddr>)>);

impl Town {
    pub(crate) fn new(count: u16) -> Self {
        let user = |number: u16| {
            let name = NAMES[usize::from(number) % NAMES.len()];
            let address = SocketAddr::from(([198, 51, 100, (number % 250) as u8], 5060 + number));
            (format!("{name}{number}@example.org").into_bytes(), Some(address))
        };
        let mut users: Vec<_> = (0..count).map(user).collect();
        users.insert(2, (b"helpdesk@example.org".to_vec(), None));
        Self(users)
    }
}

impl RegistrationSource for Town {
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32> {
        for slot in from..from.saturating_add(count) {
            if slot as usize >= 2 * self.0.len() {
                return None;
            }
            let (aor, address) = &self.0[slot as usize / 2];
            if slot % 2 == 1 && wanted.fits(aor) {
                each(
                    slot,
                    Row {
                        aor,
                        contact: b"sip:desk@192.0.2.99",
                        transport: if slot % 3 == 0 { Transport::Tcp } else { Transport::Udp },
                        address: *address,
                        left_s: address.map(|_| u64::from(slot) * 17 % 3600),
                    },
                );
            }
        }
        Some(from.saturating_add(count))
    }
}

const NAMES: [&str; 7] = ["alice", "bob", "carol", "dave", "erin", "frank", "grace"];

/// The administrator's screen of a server that has been running for a while.
pub(crate) struct Scene {
    pub(crate) admin: Admin,
    pub(crate) now: Instant,
    pub(crate) town: Town,
    pub(crate) facts: Facts<'static>,
    pub(crate) cells: Cells,
}

impl Scene {
    /// All is well.
    pub(crate) fn new() -> Self {
        let now = Instant::from_secs(1_000_000);
        let domains: &'static [String] = vec!["example.org".to_owned(), "example.net".to_owned()].leak();
        let facts = Facts {
            version: "0.1.0",
            uptime: Duration::from_secs(273_609),
            mode: Mode::Proxy { is_stateful: true, has_record_route: true },
            authentication: Authentication::On { realm: "example.org", algorithms: &["MD5", "SHA-256"] },
            domains,
            users: Users::Loaded { from: "tftp://192.0.2.1/users.csv", count: 20_000 },
            users_registered: 60,
            contacts: 61,
            network: network(),
            totals: Totals::default(),
            calls: 12,
            queue_delay: Duration::from_micros(240),
            memory: Memory { used: 47_395_635, peak: 63_000_000, limit: 134_217_728, is_short: false },
            limits: &LIMITS,
            trouble: &[],
        };
        Self { admin: Admin::new(now), now, town: Town::new(60), facts, cells: Cells::new() }
    }

    /// A minute of changing load.
    pub(crate) fn minute(&mut self) {
        self.draw();
        for second in 0..60_u64 {
            self.now = self.now + Duration::from_secs(1);
            let wave = 1000 + 900 * (second % 20) / 20;
            self.facts.totals.requests += wave;
            self.facts.totals.registers += wave / 4;
            self.facts.totals.successes += wave * 2 / 3;
            self.facts.totals.client_errors += wave / 3;
            self.facts.calls = 10 + second % 7;
            self.draw();
        }
    }

    /// Draws until nothing more is due at once.
    pub(crate) fn draw(&mut self) -> &Cells {
        for _ in 0..1000 {
            self.admin.draw(self.now, &self.facts, &self.town, &mut self.cells);
            if !self.admin.is_due(self.now) {
                return &self.cells;
            }
        }
        panic!("drawing never ends");
    }

    pub(crate) fn press(&mut self, keys: &[Key]) -> &Cells {
        keys.iter().for_each(|key| self.admin.on_key(self.now, *key));
        self.draw()
    }

    pub(crate) fn types(&mut self, text: &str) -> &Cells {
        text.chars().for_each(|c| self.admin.on_key(self.now, Key::Char(c)));
        self.draw()
    }
}

const LIMITS: [Limit<'static>; 26] = {
    let mut limits = [Limit { name: "frames damaged", most: None, used: None, hits: 0 }; 26];
    limits[0] = Limit { name: "TCP connections", most: Some(256), used: Some(31), hits: 0 };
    limits[1] = Limit { name: "neighbours", most: Some(1024), used: Some(1024), hits: 12 };
    limits[2] = Limit { name: "packets waiting for ARP", most: Some(64), used: Some(3), hits: 1_234_567 };
    limits[3] = Limit { name: "server transactions", most: Some(200_000), used: Some(4_812), hits: 0 };
    limits[4] = Limit { name: "requests over a source's rate", most: Some(1000), used: None, hits: 5 };
    limits[25] = Limit { name: "messages too large", most: Some(65_507), used: None, hits: 1 };
    limits
};
