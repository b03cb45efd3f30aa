//! CPU time of the servers by component: stacked bars, functions, agreement with the scheduler, extrapolated peaks.

use super::data::{Entry, Results};
use super::figure::Figure;
use super::html::{Table, Text, amount, amount_or_none, count, percent, short};
use super::scale::{Kind, Scale};
use super::svg::{Area, Svg, WIDTH, X_AXIS};
use crate::profile::components::Component;
use crate::profile::split::DIFFERENCE_PERCENT_MAX;
use crate::record::{FunctionTime, Profile};

/// Figures of the profiles. Nothing without any.
pub(super) fn figures(results: &Results<'_>, entry: &Entry<'_>) -> Vec<Figure> {
    if entry.profiles.is_empty() {
        return Vec::new();
    }
    vec![
        stacks(results, entry),
        extrapolated(results, entry),
        functions(results, entry),
        agreement(results, entry),
    ]
}

/// Bars of all profiles, a panel for each variant.
fn stacks(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let mut variants: Vec<&str> = Vec::new();
    for (_, profile) in &entry.profiles {
        if !variants.contains(&profile.variant.as_str()) {
            variants.push(&profile.variant);
        }
    }
    let panels = variants.into_iter().map(|variant| {
        let of_variant = entry.profiles.iter().filter(|(_, profile)| profile.variant == variant);
        let bars: Vec<(String, &Profile)> = of_variant
            .take(BARS_MAX)
            .map(|(target, profile)| (heading(results.name_of(*target), profile), *profile))
            .collect();
        (variant.to_owned(), draw(variant, &bars))
    });
    let is_used = |key: &str| {
        let all = entry.profiles.iter().flat_map(|(_, profile)| &profile.components);
        all.filter(|one| one.component == key).any(|one| one.share > 0.0)
    };
    let stack = Component::ALL.iter().enumerate().filter(|(_, (_, key, _))| is_used(key));
    Figure {
        title: "CPU time by component",
        note: format!(
            "Samples of the server's threads in a trial of its own, with perf, as µs for each attempt; the load comes in ticks of some milliseconds, so that a wake-up serves many messages. The innermost function of a sample decides: what was inlined is its caller's, and memory is copied by libc for every caller. Kamailio by its modules, Ringway by its module paths. The kernel charges the receiving of a packet on loopback to its sender: the table below has both sides. Where samples and the scheduler's time differ by more than {DIFFERENCE_PERCENT_MAX} %, the bar says so."
        ),
        stack: stack.map(|(index, (_, _, title))| (index, *title)).collect(),
        panels: panels.collect(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "All, µs",
                "kernel, µs (share)",
                "libc",
                "parser, core",
                "transactions",
                "location",
                "routing",
                "authentication",
                "database",
                "TLS: RSA, EC",
                "TLS: cipher",
                "TLS: MAC",
                "TLS: other crypto",
                "rest",
            ],
            text_columns: 2,
            rows: rows(results, entry, |profile| {
                let cells = Component::ALL.iter().map(|(_, key, _)| match time_of(profile, key) {
                    (us, share) if share > 0.0 => format!("{} ({})", amount(us), percent(share)),
                    _ => "–".to_owned(),
                });
                let all: f64 = profile.components.iter().map(|one| one.us).sum();
                Some([amount(all)].into_iter().chain(cells).collect())
            }),
        },
        ..Figure::default()
    }
}

/// Row of each profile for which there is one.
fn rows(
    results: &Results<'_>,
    entry: &Entry<'_>,
    row: impl Fn(&Profile) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let with_start = |(target, profile): &(usize, &Profile)| {
        let start = [profile.variant.clone(), results.name_of(*target).to_owned(), amount(profile.rate)];
        Some(start.into_iter().chain(row(profile)?).collect())
    };
    entry.profiles.iter().filter_map(with_start).collect()
}

/// Time for each attempt and share of a component.
fn time_of(profile: &Profile, key: &str) -> (f64, f64) {
    profile.components.iter().find(|one| one.component == key).map_or((0.0, 0.0), |one| (one.us, one.share))
}

fn heading(target: &str, profile: &Profile) -> String {
    let all: f64 = profile.components.iter().map(|one| one.us).sum();
    let doubt = match (profile.agrees, profile.invalid_because.is_empty()) {
        (false, _) => "; samples and scheduler do not agree",
        (true, false) => "; the trial is not valid",
        (true, true) => "",
    };
    format!("{target}, {}/s: {} µs{doubt}", amount(profile.rate), amount(all))
}

fn draw(variant: &str, bars: &[(String, &Profile)]) -> String {
    let right = WIDTH - 16.0;
    let sum = |profile: &Profile| profile.components.iter().map(|one| one.us.max(0.0)).sum();
    let scale = Scale::new(Kind::Linear, bars.iter().map(|(_, profile)| sum(profile)), LEFT, right);
    let bottom = TOP + bars.len() as f64 * ROW;
    let mut svg = Svg::new(bottom + X_AXIS, &format!("{variant}: CPU time of the server by component"));
    svg.x_axis(Area { left: LEFT, right, top: TOP, bottom }, &scale, "server CPU time, µs for each attempt");
    for (index, (heading, profile)) in bars.iter().enumerate() {
        let y = TOP + index as f64 * ROW;
        let mut from = 0.0;
        for (part, (_, key, title)) in Component::ALL.iter().enumerate() {
            let (us, share) = time_of(profile, key);
            let (Some(start), Some(end)) = (scale.at(from).or(Some(LEFT)), scale.at(from + us)) else {
                continue;
            };
            if us.is_nan() || us <= 0.0 {
                continue;
            }
            svg.push(format_args!(
                "<rect class=\"k{part}\" x=\"{start:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"16\"><title>{}: {}, {} µs, {}</title></rect>",
                y + 20.0,
                end - start,
                Text(heading),
                Text(title),
                amount(us),
                Text(&percent(share))
            ));
            from += us;
        }
        svg.text("h", (LEFT, y + 15.0), "start", &short(heading, HEADING_CHARS_MAX));
    }
    svg.done()
}

/// Peaks that follow from the CPU time, beside the measured ones.
fn extrapolated(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let row = |profile: &Profile| {
        let measured = profile.measured_peak?;
        let bound = if profile.peak_limited_by.is_empty() { "" } else { "≥ " };
        let (extrapolated, ratio, verdict) = match profile.extrapolated_peak {
            Some(extrapolated) => {
                let ratio = extrapolated / measured;
                (amount(extrapolated), amount(ratio), verdict(ratio, &profile.peak_limited_by))
            }
            None => (
                "–".to_owned(),
                "–".to_owned(),
                "not judged: the profiled trial did not meet the criterion or is not valid",
            ),
        };
        let measured = format!("{bound}{}", amount(measured));
        Some(vec![amount(profile.server_cpu_us), extrapolated, measured, ratio, verdict.to_owned()])
    };
    Figure {
        title: "Extrapolated peak",
        note: format!(
            "One processor divided by the CPU time for each attempt at three quarters of the measured peak. The TLS paper extrapolated its peaks within {PEAK_PERCENT_MAX} %. A server that does more at once when it is busier has a higher peak than this one."
        ),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "CPU for each, µs",
                "Extrapolated peak, attempts/s",
                "Measured peak, attempts/s",
                "Extrapolated / measured",
                "Within 15 %",
            ],
            text_columns: 2,
            rows: rows(results, entry, row),
        },
        ..Figure::default()
    }
}

/// Judgement of a ratio; a measured peak that is a lower bound can be judged from one side only.
fn verdict(ratio: f64, limited_by: &str) -> &'static str {
    let is_within = (ratio - 1.0).abs() * 100.0 <= PEAK_PERCENT_MAX;
    match (is_within, limited_by.is_empty()) {
        (true, true) => "yes",
        (true, false) => "yes, but the measured peak is a lower bound",
        (false, false) if ratio > 1.0 => "not judged: the measured peak is a lower bound",
        (false, _) => "no",
    }
}

fn functions(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let row = |target: usize, profile: &Profile, function: &FunctionTime| {
        vec![
            profile.variant.clone(),
            results.name_of(target).to_owned(),
            short(
                if function.function.is_empty() { "(no name)" } else { &function.function },
                FUNCTION_CHARS_MAX,
            ),
            short(&function.object, FUNCTION_CHARS_MAX),
            function.component.clone(),
            amount(profile.rate),
            amount(function.us),
            percent(function.share),
        ]
    };
    // Of the highest rate of each variant and target.
    let is_highest = |profile: &Profile| {
        let same = entry
            .profiles
            .iter()
            .filter(|(_, other)| other.variant == profile.variant && other.target == profile.target);
        same.map(|(_, other)| other.rate).fold(0.0, f64::max) <= profile.rate
    };
    let shown = entry.profiles.iter().filter(|(_, profile)| is_highest(profile));
    let rows = shown.flat_map(|(target, profile)| {
        profile.functions.iter().take(FUNCTIONS_MAX).map(|function| row(*target, profile, function))
    });
    Figure {
        title: "CPU time by function",
        note: "The most expensive functions at the highest rate of each variant, without what they call."
            .to_owned(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Function",
                "File",
                "Component",
                "Offered, attempts/s",
                "CPU for each, µs",
                "Share",
            ],
            text_columns: 5,
            rows: rows.collect(),
        },
        ..Figure::default()
    }
}

fn agreement(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let row = |profile: &Profile| {
        let verdict = if profile.agrees { "yes".to_owned() } else { format!("no: {}", profile.disagreement) };
        let unprofiled = amount_or_none(profile.unprofiled_cpu_us);
        let remarks = [profile.invalid_because.clone()].into_iter().chain(profile.remarks.iter().cloned());
        let remarks: Vec<String> = remarks.filter(|remark| !remark.is_empty()).collect();
        Some(vec![
            count(profile.samples),
            amount(profile.sampled_ms),
            amount(profile.scheduled_ms),
            percent(profile.agreement),
            verdict,
            amount(profile.receiving_us),
            amount(profile.received_us),
            amount(profile.server_cpu_us),
            unprofiled,
            percent(profile.profiler_share),
            remarks.join("; "),
        ])
    };
    Figure {
        title: "Samples and scheduler",
        note: "Samples times their period, and the time that the scheduler charged to the same threads in the same window. Receiving for the server: time of the kernel on loopback that is charged to the generator and is in no component; for the generator: charged to the server and in its kernel. The profiler costs the difference of the CPU times with and without it, and a share of the generator's processor.".to_owned(),
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "Samples",
                "Samples × period, ms",
                "Scheduler, ms",
                "Samples of scheduler",
                "Agree",
                "Receiving for the server, µs each",
                "For the generator, µs each",
                "CPU for each, µs",
                "Without profiler, µs",
                "Profiler, of a processor",
                "Remarks",
            ],
            text_columns: 2,
            rows: rows(results, entry, row),
        },
        ..Figure::default()
    }
}

const TOP: f64 = 4.0;
const LEFT: f64 = 4.0;
/// Height of a bar with its heading.
const ROW: f64 = 42.0;
/// Most bars of a panel.
const BARS_MAX: usize = 24;
const HEADING_CHARS_MAX: usize = 60;
const FUNCTION_CHARS_MAX: usize = 90;
/// Functions of a profile in the table.
const FUNCTIONS_MAX: usize = 15;
/// Largest difference of an extrapolated peak.
const PEAK_PERCENT_MAX: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_is_judged_from_one_side() {
        assert_eq!((verdict(1.14, ""), verdict(0.86, ""), verdict(1.16, "")), ("yes", "yes", "no"));
        assert_eq!(verdict(1.5, "late"), "not judged: the measured peak is a lower bound");
        assert_eq!(
            (verdict(0.5, "late"), verdict(1.0, "late")),
            ("no", "yes, but the measured peak is a lower bound")
        );
    }
}
