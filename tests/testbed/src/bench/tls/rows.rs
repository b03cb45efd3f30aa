//! Rows of operations.

use super::super::report::{Row, Verdict};
use super::load::{Load, Operation, Readings, measure};
use super::servers::{Handshake, Servers, Which};
use super::{Bench, saturated};
use anyhow::Result;
use ringway_lab::handshake_cost;
use ringway_lab::load::{Flow, Transport};
use ringway_tls::TlsVersion;

/// Connections of a measurement in memory, in a loop and at a rate.
const IN_MEMORY: usize = 300;
const IN_MEMORY_AT_RATE: usize = 100;
/// Largest cost of a new connection beyond TCP with the same flights and the handshake in memory, in µs.
const BEYOND_US: f64 = 60.0;
/// Largest cost of a call with resumed sessions, by that with full handshakes and by that over UDP.
const OF_FULL: f64 = 0.35;
const OF_UDP: f64 = 6.0;

const REFRESH: Operation = Operation { flow: Flow::Update, rate: 2500, has_registration: false };
pub(super) const CHAIN: Operation = Operation { flow: Flow::Call, rate: 500, has_registration: false };
const LOCAL: Operation = Operation { flow: Flow::Call, rate: 50, has_registration: true };

const UDP: Load = Load::ringway("UDP", Transport::Udp);
const TCP: Load = Load::ringway("TCP", Transport::Tcp);
pub(super) const TLS: Load = Load::ringway("TLS", Transport::Tls);
const KAMAILIO: Load = Load { name: "kamailio over TLS", ..TLS }.at(Which::Kamailio);
const V1_2: Handshake = Handshake { version: Some(TlsVersion::V1_2), ..Handshake::USUAL };
const RSA: Handshake = Handshake { is_rsa: true, ..V1_2 };
const MUTUAL: Handshake = Handshake { is_mutual: true, ..V1_2 };

/// Target of a row whose goal is in another one.
const ELSEWHERE: &str = "see the saturated row";

/// A kind of new connection.
pub(super) struct NewConnection {
    name: &'static str,
    handshake: Handshake,
    rate: u32,
    /// Round trips of the handshake before the request.
    round_trips: u8,
}

impl NewConnection {
    const fn new(name: &'static str, handshake: Handshake, rate: u32, round_trips: u8) -> Self {
        Self { name, handshake, rate, round_trips }
    }

    /// CPU time of the handshake in memory: in a loop, at the row's rate.
    fn in_memory(&self, servers: &Servers) -> Result<[f64; 2]> {
        let (handshake, files) = (self.handshake, &servers.files);
        let server = files.server(Handshake { is_resumed: true, ..handshake })?;
        let (client, name) = (files.client(handshake)?, handshake.name());
        let at_rate = handshake_cost::called_us_at(self.rate, &server, &client, name, IN_MEMORY_AT_RATE)?;
        Ok([handshake_cost::called_us(&server, &client, name, IN_MEMORY)?, at_rate])
    }
}

/// Kinds of new connections.
pub(super) const NEW: [NewConnection; 4] = [
    NewConnection::new(
        "TLS 1.3 with P-256, full",
        Handshake { is_resumed: false, ..Handshake::USUAL },
        200,
        1,
    ),
    NewConnection::new("TLS 1.2 with RSA-2048, full", Handshake { is_resumed: false, ..RSA }, 40, 2),
    NewConnection::new("TLS 1.2, resumed", V1_2, 200, 1),
    NewConnection::new("TLS 1.3, resumed", Handshake::USUAL, 200, 1),
];

impl Bench {
    /// Measures the loads in turn at a rate; `judge` gets their medians.
    fn at_rate(
        &self,
        what: &str,
        target: &str,
        operation: Operation,
        loads: &[Load],
        judge: impl FnOnce(&[f64]) -> (String, bool),
    ) -> Row {
        eprintln!("{what}");
        row_of(what, target, measure(&self.servers, operation, loads, self.rounds), judge)
    }

    /// Measures the loads in turn on a saturated server, and adds the costs of all `flows`; `judge` gets their medians.
    fn saturated(
        &self,
        what: &str,
        target: &str,
        flows: &[Flow],
        loads: &[Load],
        judge: impl FnOnce(&[f64]) -> (String, bool),
    ) -> Row {
        eprintln!("{what}");
        let readings = saturated::measure(&self.servers, flows, loads, self.rounds);
        row_of(what, target, readings, judge)
    }

    pub(super) fn refresh(&self) -> [Row; 3] {
        let ws = Load::ringway("WebSocket", Transport::Ws);
        let judge = |us: &[f64]| {
            let kamailio = us.get(2).copied();
            let times = us[1] / us[0];
            let beside = kamailio.map_or_else(String::new, |it| format!(", {:.2} × kamailio", us[1] / it));
            (format!("{times:.2} ×{beside}"), times <= 1.25 && kamailio.is_some_and(|it| us[1] <= 0.6 * it))
        };
        let what = "REGISTER refresh at 2500/s over an established connection";
        let (with_tls, with_ws) =
            (format!("{what}, TLS beside TCP"), format!("{what}, WebSocket beside TCP"));
        let target = "≤ 1.25 × TCP and ≤ 0.6 × Kamailio";
        [
            self.at_rate(&with_tls, target, REFRESH, &[TCP, TLS, KAMAILIO], judge),
            compared(self.saturated(
                "REGISTER refresh over an established connection, saturated, TLS beside TCP",
                "see the row at 2500/s",
                &[Flow::Update],
                &[TCP, TLS, KAMAILIO],
                judge,
            )),
            self.at_rate(&with_ws, "≤ 1.15 × TCP", REFRESH, &[TCP, ws], |us| {
                (format!("{:.2} ×", us[1] / us[0]), us[1] <= 1.15 * us[0])
            }),
        ]
    }

    /// New connections, saturated and at a rate, beside TCP with the same flights and the handshake in memory.
    pub(super) fn new_connection(&self, kind: &NewConnection) -> [Row; 2] {
        let NewConnection { name, handshake, rate, round_trips } = *kind;
        let whats = [
            format!("new connection and REGISTER, saturated, {name}"),
            format!("the same at {rate}/s, {name}"),
        ];
        let target = format!("≤ TCP with the same flights + handshake in memory + {BEYOND_US} µs");
        let [in_loop, at_rate] = match kind.in_memory(&self.servers) {
            Ok(us) => us,
            Err(error) => return whats.map(|what| Row::failed(&what, &target, &error)),
        };
        let flights = Load { name: "TCP with the flights", round_trips, ..TCP }.each();
        let loads = [flights, TLS.each().with(handshake)];
        let operation = Operation { flow: Flow::Update, rate, has_registration: false };
        let [saturated, ordinary] = whats;
        [
            self.saturated(&saturated, &target, &[operation.flow], &loads, |us| {
                let beyond = us[1] - us[0] - in_loop;
                (format!("in memory {in_loop:.1} µs: {beyond:+.0} µs"), beyond <= BEYOND_US)
            }),
            compared(self.at_rate(&ordinary, ELSEWHERE, operation, &loads, |us| {
                let [beyond, at_rate_beyond] = [in_loop, at_rate].map(|memory| us[1] - us[0] - memory);
                let text = format!(
                    "in memory {in_loop:.1} µs: {beyond:+.0} µs; in memory at {rate}/s {at_rate:.1} µs: {at_rate_beyond:+.0} µs"
                );
                (text, false)
            })),
        ]
    }

    pub(super) fn chain(&self) -> Row {
        let what = "stateful call at 500/s, one connection of each side, TLS beside UDP";
        self.at_rate(what, "≤ 2.0 ×", CHAIN, &[UDP, TLS], |us| {
            (format!("{:.2} ×", us[1] / us[0]), us[1] <= 2.0 * us[0])
        })
    }

    pub(super) fn local_rsa(&self) -> [Row; 2] {
        let resumed = Load { name: "resumed", ..TLS }.each().with(RSA);
        let full = Load { name: "full", ..resumed }.with(Handshake { is_resumed: false, ..RSA });
        self.local("TLS 1.2 with RSA-2048", full, resumed)
    }

    pub(super) fn local_mutual(&self) -> [Row; 2] {
        let resumed = Load { name: "resumed", ..TLS }.each().at(Which::Mutual).with(MUTUAL);
        let full = Load { name: "full", ..resumed }.with(Handshake { is_resumed: false, ..MUTUAL });
        self.local("mutual TLS 1.2 with P-256", full, resumed)
    }

    /// Registration of a called user and a call, each over a connection of its own: saturated, and at a rate.
    fn local(&self, name: &str, full: Load, resumed: Load) -> [Row; 2] {
        let operation = "local proxy: registration of the called user and call";
        let flights = Load { name: "TCP with the flights of resumed", round_trips: 1, ..TCP }.each();
        let judge = |us: &[f64]| {
            let (of_full, of_udp, floor) = (us[2] / us[1], us[2] / us[0], us[3] / us[1]);
            let text = format!(
                "{of_full:.2} × full, {of_udp:.1} × UDP; without any cost of resumption {floor:.2} × full"
            );
            (text, of_full <= OF_FULL && of_udp <= OF_UDP)
        };
        let loads = [UDP, full, resumed, flights];
        let what = format!(
            "{operation}, saturated, each over its own connection, {name}: resumed beside full and UDP"
        );
        let target = format!("≤ {OF_FULL} × full and ≤ {OF_UDP} × UDP");
        let ordinary = format!("{operation} at {}/s, each over its own connection, {name}", LOCAL.rate);
        [
            self.saturated(&what, &target, &[Flow::Update, Flow::Call], &loads, judge),
            compared(self.at_rate(&ordinary, ELSEWHERE, LOCAL, &loads, judge)),
        ]
    }
}

/// Row of readings; `judge` gets their medians.
fn row_of(
    what: &str,
    target: &str,
    readings: Result<Readings>,
    judge: impl FnOnce(&[f64]) -> (String, bool),
) -> Row {
    match readings {
        Err(error) => Row::failed(what, target, &error),
        Ok(readings) => {
            let (verdict, met) = judge(&readings.us);
            let row = Row::single(what, target, format!("{}: {verdict}", readings.cells.join(", ")), met);
            Row { note: readings.notes.join("; "), ..row }
        }
    }
}

/// The row without a target of its own.
pub(super) fn compared(row: Row) -> Row {
    match row.verdict {
        Verdict::Failed => row,
        Verdict::Met | Verdict::Missed | Verdict::Compared => Row { verdict: Verdict::Compared, ..row },
    }
}
