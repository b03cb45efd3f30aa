//! Set-up of the campaign: the report fields of RFC 7502, the machine, the servers, the noise.

use super::data::{Results, Spread};
use super::html::{Markup, Table, Text, amount, count, percent, short};
use crate::record::{Campaign, Measurement};

/// Writes the section.
pub(super) fn write(page: &mut Markup, results: &Results<'_>) {
    page.push(format_args!(
        "<section><h2 id=\"setup\">Set-up</h2><div class=\"wide\"><table class=\"c2 facts\"><tbody>"
    ));
    let mut facts = Markup::default();
    for (index, campaign) in results.campaigns.iter().enumerate() {
        let mut part = Markup::default();
        write_campaign(&mut part, campaign);
        if facts.len() + part.len() > FACTS_BYTES_MAX {
            let more = results.campaigns.len() - index;
            fact(&mut facts, "Not shown", &format!("{more} campaigns more are in the results"));
            break;
        }
        facts.push(format_args!("{part}"));
    }
    for (name, text) in noise(results) {
        fact(&mut facts, name, &text);
    }
    page.push(format_args!("{facts}"));
    page.push(format_args!("</table></div>"));
    write_servers(page, results);
    page.push(format_args!("<h3>Experiments</h3>"));
    experiments(results).write(page);
    if !results.baselines.is_empty() {
        page.push(format_args!(
            "<h3>Baseline: generator against generator</h3><p>The load generator calls another generator without a server between them (RFC 7502 §6.1). No result can be better than this."
        ));
        baselines(results).write(page);
    }
    page.push(format_args!("</section>"));
}

fn fact(page: &mut Markup, name: &str, text: &str) {
    page.push(format_args!("<tr><th>{}<td>{}", Text(name), Text(&short(text, FACT_CHARS_MAX))));
}

fn write_campaign(page: &mut Markup, campaign: &Campaign) {
    let machine = &campaign.machine;
    fact(page, "Started", &campaign.started);
    fact(page, "Command", &campaign.command);
    fact(page, "Version of the lab", &campaign.version);
    fact(
        page,
        "Trials",
        if campaign.quick { "--quick: one short trial of each point, indicative" } else { "repeated" },
    );
    fact(page, "Order of the targets", &campaign.interleaving);
    fact(page, "Processor", &format!("{} × {}", machine.processors, machine.cpu));
    fact(page, "Memory", &format!("{} MB", count(machine.memory_mb)));
    fact(page, "System", &format!("{}, kernel {}", machine.os, machine.kernel));
    fact(page, "Machine (hash)", &machine.id);
    fact(page, "Load average before the start", &machine.loadavg);
    fact(page, "Steal before the start", &percent(machine.steal));
    if let (Some(share), Some(longest_ms)) = (machine.stalled, machine.stall_ms) {
        let pauses = format!("{} of the time, up to {longest_ms:.1} ms", percent(share));
        fact(page, "Pauses with all processors at work", &pauses);
    }
}

/// Facts about the trials and their noise.
fn noise(results: &Results<'_>) -> Vec<(&'static str, String)> {
    let most = |value: fn(&Measurement) -> f64| {
        results.trials().map(value).filter(|value| value.is_finite()).fold(0.0, f64::max)
    };
    let trials = results.trials().count();
    let invalid = results.trials().filter(|trial| !trial.valid).count();
    let mut facts = vec![
        ("Trials in this report", format!("{trials}, of them {invalid} not valid")),
        ("Most steal during a trial", percent(most(|trial| trial.steal))),
        ("Most use of a processor by other programs", percent(most(|trial| trial.others_share))),
        (
            "Trials with media streams",
            count(results.trials().filter(|trial| trial.media.is_some()).count() as u64),
        ),
    ];
    if results.ended > 0 {
        facts.push(("Length of the campaign", format!("{} s", amount(results.seconds))));
    }
    facts
}

fn write_servers(page: &mut Markup, results: &Results<'_>) {
    page.push(format_args!("<h3>Servers</h3>"));
    let (start, mut left_out) = (page.len(), 0_usize);
    for server in &results.targets {
        let Some(first) = server.records.first() else {
            page.push(format_args!(
                "<p><b>{}</b>: the results do not describe this server.",
                Text(&server.name)
            ));
            continue;
        };
        page.push(format_args!(
            "<p><b>{}</b>: {}",
            Text(&server.name),
            Text(&short(&first.version, FACT_CHARS_MAX))
        ));
        if !first.machine.is_empty() {
            page.push(format_args!(
                ", on a machine of its own: {}",
                Text(&short(&first.machine, FACT_CHARS_MAX))
            ));
        }
        let mut shown: Vec<(&str, &str)> = Vec::new();
        for record in &server.records {
            let configuration = (record.command.as_str(), record.settings.as_str());
            if shown.contains(&configuration) {
                continue;
            }
            shown.push(configuration);
            let settings: Vec<&str> = configuration.1.lines().map(str::trim_end).collect();
            let settings = settings.join("\n");
            let (command, settings) = (Text(configuration.0), Text(&settings));
            let mut part = Markup::default();
            part.push(format_args!(
                "<details><summary>Configuration {}: <code>{command}</code></summary><pre>{settings}</pre></details>",
                shown.len()
            ));
            match page.len() - start + part.len() > SETTINGS_BYTES_MAX {
                true => left_out += 1,
                false => page.push(format_args!("{part}")),
            }
        }
    }
    if left_out > 0 {
        page.push(format_args!("<p>{left_out} configurations more are in the results."));
    }
}

fn experiments(results: &Results<'_>) -> Table {
    let row = |entry: &super::data::Entry<'_>| {
        let experiment = &entry.experiment;
        let trials = || entry.points().flat_map(|point| &point.trials);
        let range = |value: fn(&Measurement) -> f64| {
            Spread::of(trials().map(|trial| value(trial))).map_or_else(
                || "–".to_owned(),
                |spread| match spread.low < spread.high {
                    true => format!("{} to {}", amount(spread.low), amount(spread.high)),
                    false => amount(spread.low),
                },
            )
        };
        vec![
            experiment.experiment.clone(),
            experiment.scenario.clone(),
            experiment.transport.clone(),
            experiment.digest.clone(),
            range(|trial| trial.rate),
            range(|trial| trial.seconds),
            trials().count().to_string(),
        ]
    };
    Table {
        head: &[
            "Experiment",
            "Scenario",
            "Transport",
            "Digest",
            "Offered, attempts/s",
            "Length of a trial, s",
            "Trials",
        ],
        text_columns: 4,
        rows: results.experiments.iter().map(row).collect(),
    }
}

fn baselines(results: &Results<'_>) -> Table {
    let row = |baseline: &&Measurement| {
        let ms = |of: fn(&crate::record::Percentiles) -> f64| {
            baseline.response_ms.as_ref().map_or_else(|| "–".to_owned(), |ms| amount(of(ms)))
        };
        vec![
            baseline.variant.clone(),
            if baseline.valid {
                "valid".to_owned()
            } else {
                format!("not valid: {}", baseline.invalid_because)
            },
            amount(baseline.rate),
            amount(baseline.achieved),
            ms(|ms| ms.p50),
            ms(|ms| ms.p99),
            baseline.lag_ms.map_or_else(|| "–".to_owned(), |lag| amount(lag.p99)),
            amount(baseline.generator.cpu_us),
            percent(baseline.generator.cpu_share),
        ]
    };
    Table {
        head: &[
            "Variant",
            "Condition",
            "Offered, attempts/s",
            "Achieved, attempts/s",
            "Response time, median, ms",
            "99th percentile, ms",
            "Lag, 99th percentile, ms",
            "Generator CPU, µs for each attempt",
            "Processor used by the generator",
        ],
        text_columns: 2,
        rows: results.baselines.iter().map(row).collect(),
    }
}

/// Longest text of a fact.
const FACT_CHARS_MAX: usize = 500;

/// Largest part of the campaigns.
const FACTS_BYTES_MAX: usize = 120_000;

/// Largest part of the servers and their configurations.
const SETTINGS_BYTES_MAX: usize = 120_000;
