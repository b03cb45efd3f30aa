//! Report of a campaign: one HTML file that needs no other file, no script and no network.
//!
//! ```text
//!  records ─ data ─► experiment, variant, target, rate ─ rates, distribution, cost, peak ─► figures ─ plot, rows, shares ─► SVG
//!                                                      └ verdict, setup ─► text and tables
//! ```
//! All text of the records is escaped; the number of everything and the size of the file are limited.

mod components;
mod cost;
mod data;
mod distribution;
mod documents;
mod figure;
mod html;
mod latency;
mod media;
mod peak;
mod plot;
mod processor;
mod pulse;
mod rates;
mod rows;
mod scale;
mod setup;
mod svg;
mod verdict;

use crate::record::{Chart, Failed, Measurement, NOT_AVAILABLE, Record, invalid_trials};
use anyhow::Result;
use data::{Entry, Results};
use figure::Figure;
use html::{Markup, Table, Text, amount, short};

/// Makes the report of one campaign, or of several on the same machine.
///
/// # Errors
/// The records are of different machines.
pub fn html(records: &[Record]) -> Result<String> {
    let results = Results::new(records)?;
    let mut page = Markup::default();
    page.push(format_args!(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><title>{}</title><style>{STYLE}</style><main>",
        Text(&title(&results))
    ));
    write_head(&mut page, &results, &invalid_trials(records));
    setup::write(&mut page, &results);
    for (number, entry) in results.experiments.iter().enumerate() {
        write_experiment(&mut page, &results, entry, number);
    }
    write_explanation(&mut page);
    page.push(format_args!("</main></html>\n"));
    Ok(page.into_string())
}

/// A chart of the report as a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Experiment, title and number of the panel: letters, digits and `-`.
    pub name: String,
    /// SVG with its style.
    pub svg: String,
}

/// Charts of the report.
///
/// # Errors
/// The records are of different machines.
pub fn pictures(records: &[Record]) -> Result<Vec<Picture>> {
    let results = Results::new(records)?;
    let mut pictures = Vec::new();
    for entry in &results.experiments {
        for figure in figures(&results, entry) {
            for ((_, chart), panel) in figure.panels.iter().zip(1..) {
                let name = plain_name(&format!("{}-{}-{panel}", entry.experiment.experiment, figure.title));
                if let Some(rest) = chart.strip_prefix("<svg").and_then(|rest| rest.split_once('>')) {
                    let (attributes, content) = rest;
                    let svg = format!(
                        "<svg xmlns=\"http://www.w3.org/2000/svg\"{attributes}><style>{STYLE}svg{{background:var(--paper);font-family:sans-serif}}</style>{content}\n"
                    );
                    pictures.push(Picture { name, svg });
                }
            }
        }
    }
    Ok(pictures)
}

/// The letters and digits of a text in lower case, with `-` between words.
fn plain_name(text: &str) -> String {
    let words = text.split(|of: char| !of.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    short(&words.collect::<Vec<_>>().join("-").to_ascii_lowercase(), TITLE_CHARS_MAX)
}

/// Bytes that may still be written, apart from the remarks about what is not shown.
fn room(page: &Markup) -> usize {
    (BYTES_MAX - RESERVE).saturating_sub(page.len())
}

fn title(results: &Results<'_>) -> String {
    let started = results.campaigns.first().map_or("", |campaign| &campaign.started);
    format!("SIP load results of {}", html::short(started, 40))
}

/// Writes the title, the remarks about the whole, and the verdicts.
fn write_head(page: &mut Markup, results: &Results<'_>, trials: &str) {
    page.push(format_args!("<header><h1>{}</h1>", Text(&title(results))));
    let names: Vec<&str> = results.targets.iter().map(|server| server.name.as_str()).collect();
    page.push(format_args!("<p>{}", Text(&names.join(", "))));
    let trials = (!trials.is_empty()).then(|| html::short(trials, VERDICT_CHARS_MAX));
    for remark in trials.into_iter().chain(remarks(results)) {
        page.push(format_args!("<p class=\"remark\">{}", Text(&remark)));
    }
    page.push(format_args!("</header><section><h2>Results</h2><dl>"));
    for (number, entry) in results.experiments.iter().enumerate() {
        let line = html::short(&verdict::line(results, entry), VERDICT_CHARS_MAX);
        page.push(format_args!("<dt><a href=\"#e{number}\">{}</a><dd>{}", Text(&name(entry)), Text(&line)));
    }
    page.push(format_args!("</dl>"));
    for failed in results.failed.iter().take(FAILURES_MAX) {
        write_failure(page, failed);
    }
    page.push(format_args!("</section>"));
}

fn remarks(results: &Results<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if results.campaigns.iter().any(|campaign| campaign.quick) {
        remarks.push("Indicative: made with --quick, one short trial of each point.".to_owned());
    }
    if results.interrupted > 0 {
        remarks.push(
            "Interrupted: the campaign was stopped before its end. These are the results up to then."
                .to_owned(),
        );
    }
    if results.ended < results.campaigns.len() {
        remarks.push(
            "Incomplete: the file of results has no end. The campaign still runs, or it was cut off."
                .to_owned(),
        );
    }
    if results.waited >= 1.0 {
        remarks.push(format!("Waited {} s for a quiet machine.", html::amount(results.waited.round())));
    }
    if results.campaigns.len() > 1 {
        remarks.push(format!("Results of {} campaigns on one machine.", results.campaigns.len()));
    }
    if results.left_out > 0 {
        remarks.push(format!(
            "{} records are not in this report: there are more targets, experiments, rates or trials than it shows.",
            results.left_out
        ));
    }
    remarks
}

/// Title of an experiment, or else its name.
fn name(entry: &Entry<'_>) -> String {
    let experiment = &entry.experiment;
    let name = if experiment.title.is_empty() { &experiment.experiment } else { &experiment.title };
    html::short(name, TITLE_CHARS_MAX)
}

/// Writes the section of an experiment; parts for which the report has no room are named.
fn write_experiment(page: &mut Markup, results: &Results<'_>, entry: &Entry<'_>, number: usize) {
    page.push(format_args!("<section><h2 id=\"e{number}\">{}</h2>", Text(&name(entry))));
    let mut missing = Vec::new();
    let mut add = |part: String, title: &'static str| {
        if part.len() <= room(page) {
            page.push(format_args!("{part}"));
        } else {
            missing.push(title);
        }
    };
    add(summary(results, entry), "Summary");
    for figure in figures(results, entry) {
        add(figure.html(results, entry), figure.title);
    }
    add(invalid(results, entry), "Trials that are not valid");
    if !missing.is_empty() {
        page.push(format_args!(
            "<p class=\"remark\">Not shown, the report has reached its largest size: {}. Make a report of fewer experiments.",
            Text(&missing.join(", "))
        ));
    }
    page.push(format_args!("</section>"));
}

/// Result, source and failures of an experiment in words.
fn summary(results: &Results<'_>, entry: &Entry<'_>) -> String {
    let mut part = Markup::default();
    let experiment = &entry.experiment;
    let line = html::short(&verdict::line(results, entry), VERDICT_CHARS_MAX);
    part.push(format_args!("<p class=\"verdict\">{}", Text(&line)));
    let details = verdict::details(results, entry);
    if details.len() > 1 {
        part.push(format_args!("<ul>"));
        for text in &details {
            part.push(format_args!("<li>{}", Text(&html::short(text, VERDICT_CHARS_MAX))));
        }
        part.push(format_args!("</ul>"));
    }
    for (name, text) in [("Reproduces", &experiment.reproduces), ("Criterion", &experiment.criterion)] {
        if !text.is_empty() {
            part.push(format_args!("<p>{name}: {}", Text(&html::short(text, VERDICT_CHARS_MAX))));
        }
    }
    for failed in entry.failed.iter().take(FAILURES_MAX) {
        write_failure(&mut part, failed);
    }
    if let Some(more @ 1..) = entry.failed.len().checked_sub(FAILURES_MAX) {
        part.push(format_args!("<p class=\"bad\">{more} failures more are in the results."));
    }
    part.into_string()
}

/// Writes the line of a failure, or of what this build, machine or target does not have.
fn write_failure(page: &mut Markup, failed: &Failed) {
    let names: Vec<&str> =
        [failed.target.as_str(), &failed.variant].into_iter().filter(|name| !name.is_empty()).collect();
    let text = html::short(&format!("{}: {}", names.join(", "), failed.error), VERDICT_CHARS_MAX);
    match failed.error.starts_with(NOT_AVAILABLE) {
        true => page.push(format_args!("<p class=\"remark\">{}", Text(&text))),
        false => page.push(format_args!("<p class=\"bad\">Failed: {}", Text(&text))),
    }
}

/// Figures of the response times: their distribution, their shares in steps, and the averages.
fn shares_of_time(results: &Results<'_>, entry: &Entry<'_>) -> [Figure; 3] {
    [
        distribution::cumulative(results, entry),
        distribution::classes(results, entry),
        latency::averages(results, entry),
    ]
}

/// Figures of an experiment, by the form of its chart.
fn figures(results: &Results<'_>, entry: &Entry<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    figures.extend(peak::peaks(results, entry));
    let has_trials = entry.points().next().is_some();
    if has_trials {
        match entry.experiment.chart {
            Chart::Rates => {
                figures.push(rates::achieved(results, entry));
                figures.extend(rates::failed(results, entry));
                figures.push(rates::response_times(results, entry));
                figures.extend(shares_of_time(results, entry));
                figures.push(cost::cpu(results, entry));
                figures.push(processor::share(results, entry));
            }
            Chart::Curve => {
                figures.push(processor::share(results, entry));
                figures.push(rates::achieved(results, entry));
                figures.push(rates::response_times(results, entry));
                figures.extend(shares_of_time(results, entry));
                figures.extend(rates::failed(results, entry));
            }
            Chart::Compare => {
                figures.push(cost::cpu(results, entry));
                figures.extend(cost::ratios(entry));
                figures.push(cost::percentiles(results, entry));
                figures.extend(shares_of_time(results, entry));
                figures.push(processor::share(results, entry));
                figures.push(attempts(results, entry));
            }
            Chart::Peak => {
                figures.push(rates::achieved(results, entry));
                figures.push(rates::response_times(results, entry));
            }
            Chart::Overload => {
                figures.push(if rates::X::of(entry) == rates::X::Multiple {
                    rates::goodput(results, entry)
                } else {
                    rates::achieved(results, entry)
                });
                figures.extend(pulse::pulses(results, entry));
                figures.extend(rates::failed(results, entry));
                figures.push(rates::response_times(results, entry));
                figures.push(latency::averages(results, entry));
                figures.push(processor::share(results, entry));
            }
            Chart::Idle => figures.extend(cost::idle(results, entry)),
        }
    }
    if entry.experiment.chart != Chart::Compare {
        figures.extend(cost::ratios(entry));
    }
    figures.extend(processor::handshakes(results, entry));
    figures.extend(media::streams(results, entry));
    figures.extend(components::figures(results, entry));
    figures.extend(documents::beside(results, entry));
    figures.retain(Figure::has_content);
    figures
}

/// Attempts of a comparison, as a table.
fn attempts(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    Figure {
        title: "Attempts",
        note: "Medians of the valid trials.".to_owned(),
        table: rates::attempts_table(results, entry),
        ..Figure::default()
    }
}

/// Table of the trials that do not count; empty without any.
fn invalid(results: &Results<'_>, entry: &Entry<'_>) -> String {
    let row = |(target, trial): (usize, &Measurement)| {
        vec![
            trial.variant.clone(),
            results.name_of(target).to_owned(),
            trial.invalid_because.clone(),
            amount(trial.rate),
            trial.trial.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = entry.invalid().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut part = Markup::default();
    part.push(format_args!(
        "<h4>Trials that are not valid</h4><p>They are no results: they are in no median and no table, and hollow in the charts."
    ));
    Table { head: &["Variant", "Target", "Reason", "Offered, attempts/s", "Trial"], text_columns: 3, rows }
        .write(&mut part);
    part.into_string()
}

/// Writes the definitions that a reader of the figures needs.
fn write_explanation(page: &mut Markup) {
    page.push(format_args!("<section><h2>Definitions</h2><dl>"));
    for (term, text) in TERMS {
        page.push(format_args!("<dt>{term}<dd>{text}"));
    }
    page.push(format_args!("</dl></section>"));
}

const TERMS: [(&str, &str); 7] = [
    (
        "Open loop",
        "An attempt starts at its planned time, whether or not earlier ones have ended. A slow server gets the same load as a fast one.",
    ),
    (
        "Attempt",
        "One registration, call or request of the scenario. A challenge (401, 407) and the second request belong to the same attempt (RFC 6076).",
    ),
    ("Response time", "From the planned start of an attempt to its final response."),
    ("Service time", "From the first send of an attempt to its final response."),
    ("Achieved rate, goodput", "Successful attempts divided by the time in which attempts were planned."),
    (
        "Valid",
        "The generator did its part in time: every attempt was started, the 99th percentile of its lag is below 1 ms, and none of its threads used more than 80 % of a processor. Other trials are neither met nor missed.",
    ),
    (
        "Server CPU time",
        "Time in which the server's processes ran, from the scheduler's statistics, divided by the attempts that ended.",
    ),
];

const STYLE: &str = include_str!("style.css");

/// Largest report.
const BYTES_MAX: usize = 1_000_000;

/// Bytes that are kept for headings, remarks about what is not shown, and definitions.
const RESERVE: usize = 120_000;

/// Longest line of a verdict, a criterion or an error.
const VERDICT_CHARS_MAX: usize = 400;

/// Longest title of an experiment.
const TITLE_CHARS_MAX: usize = 100;

/// Most failures of an experiment that are shown.
const FAILURES_MAX: usize = 20;

#[cfg(test)]
mod tests;
