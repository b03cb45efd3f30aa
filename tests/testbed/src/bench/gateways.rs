//! Row "gateways": the trunks of a number with 10,000 trunks and 100,000 prefixes, by routes and by rates, in this process.

use super::report::Row;
use anyhow::{Result, anyhow, ensure};
use ringway_lab::machine;
use ringway_lab::statistics::median;
use ringway_server::{
    Number, NumberChange, Rate, RatePrefix, RateTable, Route, RouteMatch, RouteTable, RouteTo, Trunk,
    Trunking, WeightedTrunk,
};
use std::hint::black_box;
use std::time::Instant;

const TRUNKS: u16 = 10_000;
const PREFIXES: u32 = 100_000;
const NUMBERS: u32 = 4096;
const ROUNDS: u32 = 50;
/// Lookups with cold caches.
const COLD: usize = 500;
/// Bytes that are read between two of them: more than the caches have.
const COLD_BYTES: usize = 64 << 20;

const WARM_NS_MAX: f64 = 1000.0;
const COLD_NS_MAX: f64 = 3000.0;
const BYTES_MAX: u64 = 32 << 20;

/// Figures of one table.
struct Figures {
    warm_ns: f64,
    cold_ns: f64,
    /// The same measurement without a lookup: reading the clock, and the code of that. `cold_ns` is without it.
    clock_ns: f64,
    allocations: u64,
    bytes: u64,
}

pub(super) fn row(repeats: u32) -> Row {
    let what = "trunks of a number, 10,000 trunks, 100,000 prefixes: routes / rates by cost";
    let target = "≤ 1 µs warm, ≤ 3 µs with cold caches, 0 allocations, ≤ 32 MiB";
    eprintln!("{what}");
    let figures =
        || -> Result<[Figures; 2]> { Ok([figures(repeats, by_routes)?, figures(repeats, by_rates)?]) };
    match figures() {
        Ok(both) => {
            let text = |of: &Figures| {
                format!(
                    "{:.3} µs warm, {:.3} µs cold (without {:.3} µs of reading the clock), {} allocations, {:.1} MiB",
                    of.warm_ns / 1e3,
                    of.cold_ns / 1e3,
                    of.clock_ns / 1e3,
                    of.allocations,
                    of.bytes as f64 / f64::from(1 << 20)
                )
            };
            let figure = both.iter().map(text).collect::<Vec<_>>().join(" / ");
            eprintln!("  {figure}");
            let is_met = |of: &Figures| {
                of.warm_ns <= WARM_NS_MAX
                    && of.cold_ns <= COLD_NS_MAX
                    && of.allocations == 0
                    && of.bytes <= BYTES_MAX
            };
            Row::single(what, target, figure, both.iter().all(is_met))
        }
        Err(error) => Row::failed(what, target, &error),
    }
}

fn figures(repeats: u32, make: fn() -> Result<Trunking>) -> Result<Figures> {
    let mut made = None;
    let counted = allocation_counter::measure(|| made = Some(make()));
    let bytes = u64::try_from(counted.bytes_current).unwrap_or_default();
    let trunking = made.ok_or_else(|| anyhow!("nothing was made"))??;
    let numbers: Vec<_> = (0..NUMBERS).filter_map(|of| Number::parse(dialled(of).as_bytes())).collect();
    let found = numbers.iter().filter(|number| trunking.first_trunk_of(number, 0).is_some()).count();
    ensure!(found > numbers.len() / 2, "{found} of {} numbers have a trunk", numbers.len());
    let look_up = |number: &Number| {
        let _ = black_box(trunking.first_trunk_of(black_box(number), 7));
    };
    let mut warm = Vec::new();
    for _ in 0..=repeats {
        let before = machine::thread_cpu_ns();
        (0..ROUNDS).for_each(|_| numbers.iter().for_each(look_up));
        let used = machine::thread_cpu_ns().saturating_sub(before);
        warm.push(used as f64 / f64::from(ROUNDS * NUMBERS));
    }
    let counted = allocation_counter::measure(|| numbers.iter().for_each(look_up));
    let clock_ns = cold_ns(&numbers, |number| {
        let _ = black_box(number);
    });
    Ok(Figures {
        // The first round warms the caches.
        warm_ns: median(warm.into_iter().skip(1)),
        cold_ns: cold_ns(&numbers, look_up) - clock_ns,
        clock_ns,
        allocations: counted.count_total,
        bytes,
    })
}

/// Median time of a call of `operation` with cold caches, but for the number and the stack: it includes reading the clock, and the code of
/// that.
fn cold_ns(numbers: &[Number], operation: impl Fn(&Number)) -> f64 {
    let filling = vec![1_u8; COLD_BYTES];
    let mut times = Vec::with_capacity(COLD);
    for number in numbers.iter().cycle().step_by(7).take(COLD) {
        black_box(filling.iter().step_by(64).map(|byte| u64::from(*byte)).sum::<u64>());
        // A server has just read it from the request.
        let number = &black_box(*number);
        let begun = Instant::now();
        operation(number);
        times.push(begun.elapsed().as_nanos() as f64);
    }
    median(times.into_iter())
}

fn trunks() -> Vec<Trunk> {
    let trunk = |number: u16| {
        let address = format!("10.0.{}.{}", number / 250, number % 250);
        let networks = address.parse().into_iter().collect();
        Trunk { networks, ..Trunk::at(&format!("gateway-{number}"), &format!("sip:{address}:5060")) }
    };
    (0..TRUNKS).map(trunk).collect()
}

/// Routes with the prefixes, each to three trunks with weights.
fn by_routes() -> Result<Trunking> {
    let route = |number: u32| {
        let trunk = |at: u32| WeightedTrunk { trunk: ((number + at) % u32::from(TRUNKS)) as u16, weight: 10 };
        let to = RouteTo::Trunks { trunks: (0..3).map(trunk).collect(), change: NumberChange::default() };
        Route { matches: RouteMatch::Prefix(format!("+{}", prefix(number))), to }
    };
    let routes = RouteTable::new((0..PREFIXES).map(route).collect())
        .map_err(|bad| anyhow!("a route of the benchmark is bad: {bad:?}"))?;
    Ok(Trunking { trunks: trunks().into(), routes, ..Trunking::default() })
}

/// Rates for the prefixes, at ten trunks.
fn by_rates() -> Result<Trunking> {
    let rate = |number: u32| {
        let prefix = RatePrefix::parse(prefix(number).as_bytes()).ok_or_else(|| anyhow!("a bad prefix"))?;
        Ok(Rate { prefix, trunk: (number % 10) as u16, cost: u64::from(number.wrapping_mul(77_777) % 1000) })
    };
    let rates = (0..PREFIXES).map(rate).collect::<Result<Vec<_>>>()?;
    let route =
        Route { matches: RouteMatch::Prefix("+".to_owned()), to: RouteTo::ByCost(NumberChange::default()) };
    let routes = RouteTable::new(vec![route]).map_err(|bad| anyhow!("a bad route: {bad:?}"))?;
    Ok(Trunking { trunks: trunks().into(), routes, rates: RateTable::new(rates), ..Trunking::default() })
}

/// A prefix of 3 to 9 digits.
fn prefix(number: u32) -> String {
    let digits = format!("{:09}", spread(number));
    digits.get(..3 + (number % 7) as usize).unwrap_or(&digits).to_owned()
}

/// A number of 14 characters whose first ones are those of a prefix.
fn dialled(number: u32) -> String {
    format!("+{:09}{:04}", spread(number * 23), number % 10_000)
}

/// Nine digits that are spread over all numbers.
const fn spread(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761) % 1_000_000_000
}
