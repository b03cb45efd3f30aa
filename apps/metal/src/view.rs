//! Data of the administration screen.

use crate::machine::{BootFile, Machine, Stage, TRANSACTIONS_MAX};
use crate::network::network;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_ethernet::{CONNECTIONS_MAX, Card, NEIGHBOURS_MAX, Station};
use ringway_in_memory::{CountedNode, MemoryHost, NONCES_MAX};
use ringway_sansio::Instant;
use ringway_server::Server;
use ringway_settings::MachineSettings;
use ringway_tls_bare::{HANDSHAKES_MAX, TlsLayers};
use ringway_ui::Level;
use ringway_ui::admin::{
    self, Authentication, Facts, Limit, Mode, Prefix, RegistrationSource, Row, Totals, Users,
};

impl<C: Card> Machine<C> {
    /// Logs the steps of the messages that were handled since the last line, if they are measured.
    pub(crate) fn report_steps(&mut self, now: Instant) {
        let table = self.station.node().and_then(|node| node.inner().steps());
        if let Some(text) = table.and_then(|table| self.printed_steps.next_line(table)) {
            self.log(now, Level::Info, &text);
        }
    }

    /// Draws the page if due. False: it was not due.
    pub(crate) fn draw_page(&mut self, now: Instant) -> bool {
        let is_up = self.station.is_up();
        let Self { station, hardware, settings, stage, users, admin, consoles, host, .. } = self;
        if !admin.is_due(now) {
            return false;
        }
        let view = View {
            station,
            settings,
            stage,
            users,
            host: host.as_deref(),
            uptime: now.since(self.started),
            is_short: self.is_short,
            has_tls: self.has_tls,
            log_dropped: consoles.log.dropped(),
            allocations_failed: self.memory.failures,
        };
        let limits = view.limits();
        let trouble = view.trouble();
        let trouble: Vec<&str> = trouble.iter().map(String::as_str).collect();
        let algorithms: Vec<&str> =
            settings.server.auth.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        let node = station.node();
        let facts = Facts {
            version: hardware.version,
            uptime: view.uptime,
            mode: view.mode(),
            authentication: view.authentication(&algorithms),
            domains: &settings.server.domains,
            users: view.users(),
            users_registered: node.map_or(0, |node| node.inner().location().users_len() as u64),
            contacts: node.map_or(0, |node| node.inner().location().bindings_len() as u64),
            network: network(
                hardware,
                (station.card().address(), is_up),
                station.lease(),
                view.uptime,
                now.since(self.leased_at),
            ),
            totals: node.map(totals).unwrap_or_default(),
            calls: node.map_or(0, |node| node.inner().ringing_calls_len() as u64),
            queue_delay: self.queue_delay.last,
            memory: admin::Memory {
                used: self.memory.used,
                peak: self.memory.peak,
                limit: self.memory.limit,
                is_short: self.is_short,
            },
            limits: &limits,
            trouble: &trouble,
        };
        admin.draw(now, &facts, &Registered(node.map(CountedNode::inner), now), &mut consoles.cells);
        true
    }
}

/// Sources of the displayed facts.
struct View<'m, C> {
    station: &'m Station<C, CountedNode<Server>, TlsLayers>,
    settings: &'m MachineSettings,
    stage: &'m Stage,
    users: &'m crate::machine::Users,
    host: Option<&'m MemoryHost>,
    uptime: Duration,
    is_short: bool,
    has_tls: bool,
    log_dropped: u64,
    allocations_failed: u64,
}

impl<'m, C: Card> View<'m, C> {
    fn mode(&self) -> Mode {
        let server = &self.settings.server;
        match server.mode {
            ringway_server::Mode::Proxy => {
                Mode::Proxy { is_stateful: server.stateful, has_record_route: server.record_route }
            }
            ringway_server::Mode::Redirect => Mode::Redirect,
        }
    }

    fn authentication<'a>(&self, algorithms: &'a [&'a str]) -> Authentication<'a>
    where
        'm: 'a,
    {
        match self.settings.server.auth.enabled {
            true => Authentication::On { realm: self.settings.server.auth.realms.general(), algorithms },
            false => Authentication::Off,
        }
    }

    fn users(&self) -> Users<'m> {
        let from = self.users.source.as_str();
        if let Some(why) = &self.users.failure {
            return Users::Failed { from, why };
        }
        match (self.stage, self.host) {
            (Stage::Fetching(BootFile::Users), _) => {
                let bytes = self.station.fetching().map_or(0, |(bytes, _)| bytes as u64);
                Users::Loading { from, bytes }
            }
            (_, Some(host)) if !from.is_empty() => Users::Loaded { from, count: host.users().len() as u64 },
            _ => Users::None,
        }
    }

    fn trouble(&self) -> Vec<String> {
        let mut trouble = Vec::new();
        if let Stage::Halted(why) = self.stage {
            trouble.push(format!("NOT SERVING: {why}"));
        }
        if let Stage::Waiting(file_kind, _) = self.stage {
            let file = match file_kind {
                BootFile::Settings => "the settings",
                BootFile::Users => "the users",
            };
            trouble.push(format!("not serving yet: {file} could not be fetched, see the log (page 4)"));
        }
        if self.is_short {
            trouble.push("memory is short: new requests get 503".into());
        }
        trouble
    }

    fn limits(&self) -> Vec<Limit<'static>> {
        let station = self.station.counters();
        let card = self.station.card().counters();
        let counted = |name, hits| Limit { name, most: None, used: None, hits };
        let limited = |name, used: usize, most: usize, hits| Limit {
            name,
            most: Some(most as u64),
            used: Some(used as u64),
            hits,
        };
        let mut limits = alloc::vec![
            limited(
                "TCP connections",
                self.station.connections_len(),
                CONNECTIONS_MAX,
                station.connections_refused,
            ),
            limited(
                "stations of this link",
                self.station.neighbours_len(),
                NEIGHBOURS_MAX,
                station.neighbours_full,
            ),
            counted("packets dropped, ARP queue full", station.waiting_full),
            counted("packets without an ARP reply", station.unanswered),
            counted("packets without a route", station.no_route),
            counted("packets lost, the card's ring was full", station.ring_full),
            counted("frames damaged, by our checks", station.frames_damaged),
            counted("frames dropped by the card", card.damaged),
            counted("DNS lookups refused", station.lookups_refused),
            counted("TCP connections failed", station.connections_failed),
            counted("TCP connections with invalid bytes", station.connections_unframed),
            counted("TCP connections too slow", station.connections_slow),
            counted("TCP connections that did not read", station.connections_unread),
            counted("allocations failed", self.allocations_failed),
            counted("log lines lost, the serial line was slow", self.log_dropped),
        ];
        if self.has_tls {
            let layers = self.station.layers();
            let tls = layers.counters();
            limits.push(limited("TLS handshakes at once", layers.handshakes(), HANDSHAKES_MAX, tls.refused));
            limits.push(counted("TLS connections refused, their source has too many", tls.refused_source));
            limits.push(counted("TLS handshakes that waited for their turn", tls.waited));
            limits.push(counted("TLS handshakes failed", tls.failed));
            limits.push(counted("TLS handshakes completed", tls.completed));
            limits.push(counted("connections to the TLS port without TLS", tls.not_tls));
        }
        if let Some(node) = self.station.node().filter(|_| self.host.is_some()) {
            let server = node.inner();
            let (servers, clients) = server.transactions_len();
            let full = server.transaction_counters().transactions_refused;
            limits.push(limited("server transactions", servers, TRANSACTIONS_MAX, full));
            limits.push(limited("client transactions", clients, TRANSACTIONS_MAX, full));
            let (nonces, evicted) = server.tables().nonces();
            limits.push(limited("nonces remembered", nonces, NONCES_MAX, evicted));
            server.counters().for_each(|name, _, value| {
                if is_drop(name) {
                    limits.push(counted(name, value));
                }
            });
        }
        limits
    }
}

/// True for counters of limits and refusals; the others count traffic.
fn is_drop(name: &str) -> bool {
    const TRAFFIC: [&str; 7] =
        ["requests", "responses", "registered", "challenged", "authenticated", "forwarded", "redirected"];
    !TRAFFIC.contains(&name)
}

fn totals(node: &CountedNode<Server>) -> Totals {
    let traffic = node.traffic();
    let [_, _, successes, redirections, client_errors, fifth, sixth] = traffic.responses;
    Totals {
        requests: traffic.requests,
        registers: traffic.registers,
        successes,
        redirections,
        client_errors,
        server_errors: fifth + sixth,
    }
}

/// Location table as a [`RegistrationSource`].
struct Registered<'s>(Option<&'s Server>, Instant);

impl RegistrationSource for Registered<'_> {
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32> {
        let Self(server, now) = self;
        let location = server.as_ref()?.location();
        for slot in from..from.saturating_add(count) {
            location.bindings_from(slot, 1, |found| {
                if wanted.fits(found.aor()) {
                    let row = Row {
                        aor: found.aor(),
                        contact: found.contact(),
                        transport: found.transport(),
                        address: (!found.is_permanent()).then(|| found.address()),
                        left_s: (!found.is_permanent()).then(|| found.expires().since(*now).as_secs()),
                    };
                    each(slot, row);
                }
            })?;
        }
        Some(from.saturating_add(count))
    }
}
