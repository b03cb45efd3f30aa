//! The whole report: of a fixture with every form of chart, of hostile records, of too many records.

use super::*;
use crate::record::{
    Campaign, Comparison, ComponentTime, Experiment, FunctionTime, Machine, Media, Peak, PeakTrial,
    Percentiles, Profile, Target, parse,
};

const FIXTURE: &str = include_str!("../../../../testdata/lab/results.jsonl");

fn fixture() -> Vec<Record> {
    parse(FIXTURE).unwrap()
}

/// Section of an experiment.
fn section<'p>(page: &'p str, title: &str) -> &'p str {
    let mut sections = page.split("<section>");
    sections.find(|section| section.contains(&format!("\">{title}</h2>"))).unwrap()
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn each_chart_is_a_picture_with_its_style() {
    let (page, pictures) = (html(&fixture()).unwrap(), pictures(&fixture()).unwrap());
    assert_eq!(pictures.len(), count(&page, "role=\"img\""));
    let names: std::collections::BTreeSet<_> = pictures.iter().map(|picture| &picture.name).collect();
    assert_eq!(names.len(), pictures.len(), "{names:?}");
    for Picture { name, svg } in &pictures {
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{name}");
        assert_eq!((count(svg, "<svg"), count(svg, "<style>")), (1, 1), "{name}");
    }
}

#[test]
fn every_form_of_chart_is_in_the_report_with_its_command_and_numbers() {
    let page = html(&fixture()).unwrap();
    for (title, figures, pictures) in [
        ("Registrations", 7, 2 + 2 + 2 + 2 + 4 + 2 + 3),
        ("Stateful and stateless forwarding", 6, 1 + 1 + 1 + 2 + 2),
        ("Highest rate", 1, 1),
        ("Overload", 4, 4),
        ("Idle connections", 3, 3),
    ] {
        let section = section(&page, title);
        assert_eq!(count(section, "<figure>"), figures, "{title}");
        assert_eq!(count(section, "Command: <code>ringway lab run"), figures, "{title}");
        assert_eq!(count(section, "role=\"img\""), pictures, "{title}");
        assert!(section.contains("<p class=\"verdict\">") && section.contains("<table"), "{title}");
    }
    assert_eq!(count(&page, "<svg"), count(&page, "</svg>"));
    assert_eq!(count(&page, "<g "), count(&page, "</g>"));
    assert_eq!(count(&page, "<details"), count(&page, "</details>"));
    assert!(page.len() < 300_000, "{}", page.len());
}

#[test]
fn the_report_needs_no_other_file_and_no_script() {
    let page = html(&fixture()).unwrap();
    for part in ["<script", "<link", "<img", "src=", "@import", "url(", "http:", "https:", "NaN", "inf\""] {
        assert!(!page.contains(part), "{part}");
    }
    for part in ["prefers-color-scheme:dark", "@media print", "<meta charset=\"utf-8\">"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn figures_are_those_of_the_records() {
    let page = html(&fixture()).unwrap();
    let registrations = section(&page, "Registrations");
    // The line of the achieved rate: a mark for each rate of two targets with a valid trial, in two variants.
    let achieved = registrations.split("</figure>").next().unwrap();
    let pictures = achieved.split("class=\"panels\"").nth(1).unwrap();
    assert_eq!((count(pictures, "class=\"m\""), count(pictures, "class=\"i\"")), (12, 2));
    assert!(page.contains("Failed: kamailio, tls: kamailio ended with status 255"), "the failure is missing");
    let peak = section(&page, "Highest rate");
    let peaks = fixture();
    let peaks =
        peaks.iter().filter_map(|record| if let Record::Peak(peak) = record { Some(peak) } else { None });
    for peak in peaks {
        assert!(peak.rate > 0.0 && section(&page, "Highest rate").contains(&amount(peak.rate)));
    }
    assert!(peak.contains("in 2 of 3 trials") && peak.contains("≥ "), "{peak}");
    let forwarding = section(&page, "Stateful and stateless forwarding");
    assert!(forwarding.contains("0.418 (0.41–0.425)") && forwarding.contains("no interval with 2 trials"));
    assert!(section(&page, "Overload").contains("goodput at 2 × the peak"), "the verdict needs all targets");
}

#[test]
fn invalid_trials_are_listed_and_in_no_number() {
    let mut records = fixture();
    for record in &mut records {
        if let Record::Measurement(trial) = record {
            trial.valid = false;
            trial.invalid_because = "the generator was late".into();
            trial.achieved = 777_777.0;
        }
    }
    let page = html(&records).unwrap();
    assert!(page.contains("no valid result") && page.contains("the generator was late"));
    assert!(page.contains("777,777/s achieved; not valid: the generator was late"));
    assert_eq!(count(&page, "<td>777,777"), 0);
    let pictures: String =
        page.split("class=\"panels\"").skip(1).map(|part| part.split("figcaption").next().unwrap()).collect();
    let peaks = count(section(&page, "Highest rate"), "class=\"b\"");
    assert_eq!((count(&pictures, "class=\"m\"") - 3, count(&pictures, "class=\"b\"") - peaks), (0, 0));
}

#[test]
fn quick_interrupted_and_cut_campaigns_say_so() {
    let page = html(&fixture()).unwrap();
    for word in ["Indicative", "Interrupted", "Incomplete"] {
        assert!(!page.contains(word), "{word}");
    }
    let mut records = fixture();
    records.retain(|record| !matches!(record, Record::End(_)));
    if let Some(Record::Campaign(campaign)) = records.first_mut() {
        campaign.quick = true;
    }
    let page = html(&records).unwrap();
    assert!(page.contains("Indicative: made with --quick") && page.contains("Incomplete: "));
    records.push(Record::End(crate::record::End { interrupted: true, seconds: 1.0, waited: 0.0 }));
    let page = html(&records).unwrap();
    assert!(page.contains("Interrupted: ") && !page.contains("Incomplete: "));
    // A campaign that has only begun is a report too.
    assert!(html(&records[..1]).unwrap().contains("Incomplete: "));
}

#[test]
fn media_streams_of_the_terminal_are_in_the_report() {
    let mut records = fixture();
    let media = Media { streams: 1234, packets_lost: 56, jitter_p99_ms: Some(0.75), ..Media::default() };
    for record in &mut records {
        if let Record::Measurement(trial) = record {
            trial.media = trial.valid.then_some(media);
        }
    }
    assert!(!html(&fixture()).unwrap().contains("Media streams"));
    let page = html(&records).unwrap();
    let figure = page.split("Media streams").nth(1).unwrap().split("</figure>").next().unwrap();
    assert!(figure.contains("<td>0.75<td>–"), "{figure}");
}

#[test]
fn profiles_are_stacked_bars_with_their_agreement_and_functions() {
    let component = |component: &str, share: f64| ComponentTime {
        component: component.into(),
        share,
        us: 40.0 * share,
        ..ComponentTime::default()
    };
    let profile = |target: &str, rate: f64, agrees: bool| {
        Record::Profile(Box::new(Profile {
            experiment: "register".into(),
            variant: "udp".into(),
            target: target.into(),
            rate,
            samples: 4321,
            agreement: if agrees { 0.98 } else { 0.9 },
            agrees,
            disagreement: if agrees { String::new() } else { "-10.0 % away".into() },
            server_cpu_us: 40.0,
            components: vec![component("kernel", 0.75), component("core", 0.25), component("rest", 0.0)],
            functions: vec![FunctionTime {
                component: "kernel".into(),
                object: "[kernel.kallsyms]".into(),
                function: format!("udp_sendmsg_at_{rate}"),
                share: 0.5,
                us: 20.0,
            }],
            extrapolated_peak: Some(25_000.0),
            measured_peak: (target == "ringway").then_some(20_000.0),
            ..Profile::default()
        }))
    };
    let mut records = fixture();
    let at = records.iter().position(|record| matches!(record, Record::End(_))).unwrap();
    records.splice(
        at..at,
        [profile("ringway", 100.0, true), profile("ringway", 200.0, true), profile("kamailio", 200.0, false)],
    );
    records.insert(
        at,
        Record::Failed(Failed {
            variant: "components".into(),
            error: "not available: perf is not installed".into(),
            ..Failed::default()
        }),
    );
    let page = html(&records).unwrap();
    assert!(page.contains("<p class=\"remark\">components: not available: perf is not installed"));
    let section = section(&page, "Registrations");
    let bars = section.split("CPU time by component").nth(1).unwrap().split("</figure>").next().unwrap();
    let (legend, pictures) = bars.split_once("class=\"panels\"").unwrap();
    // No bar and no entry of the legend for what took no time.
    assert_eq!((count(legend, "class=\"k0\""), count(legend, "class=\"k12\"")), (1, 0));
    assert_eq!((count(pictures, "<rect class=\"k0\""), count(pictures, "<rect class=\"k2\"")), (3, 3));
    assert_eq!(count(pictures, "samples and scheduler do not agree</text>"), 1);
    assert!(pictures.contains("<td>30 (75\u{a0}%)<td>–<td>10 (25\u{a0}%)"), "{pictures}");
    assert!(section.contains("<td>no: -10.0 % away") && section.contains("<td>1.25<td>no"), "{section}");
    // Of each target the functions at its highest rate.
    assert_eq!((count(section, "udp_sendmsg_at_200"), count(section, "udp_sendmsg_at_100")), (2, 0));
}

/// Records in which every text is markup and every number is extreme.
fn hostile(number: f64) -> Vec<Record> {
    let evil = || "</title></style><script>alert(1)</script>\"'&\u{0}\u{1b}".to_owned();
    let ms = Percentiles { p50: number, p90: number, p99: number, p999: number, max: number, mean: number };
    let machine = Machine {
        cpu: evil(),
        kernel: evil(),
        os: evil(),
        loadavg: evil(),
        steal: number,
        ..Machine::default()
    };
    let mut records = vec![
        Record::Campaign(Campaign {
            started: evil(),
            command: evil(),
            version: evil(),
            interleaving: evil(),
            machine,
            ..Campaign::default()
        }),
        Record::Target(Target {
            target: evil(),
            version: evil(),
            command: evil(),
            settings: evil(),
            machine: evil(),
        }),
    ];
    for chart in [Chart::Rates, Chart::Compare, Chart::Peak, Chart::Overload, Chart::Idle] {
        let experiment = format!("{}{chart:?}", evil());
        records.push(Record::Experiment(Experiment {
            experiment: experiment.clone(),
            title: evil(),
            reproduces: evil(),
            chart,
            scenario: evil(),
            transport: evil(),
            digest: evil(),
            criterion: evil(),
            command: evil(),
        }));
        for (rate, valid) in [(number, true), (number / 2.0, false), (0.0, true), (1.0, true)] {
            let idle = (chart == Chart::Idle).then_some(crate::record::Idle {
                connections: u32::MAX,
                memory_bytes_each: number,
                cpu_us_per_second: number,
                cpu_us_to_open: number,
            });
            records.push(Record::Measurement(Box::new(Measurement {
                experiment: experiment.clone(),
                variant: evil(),
                target: evil(),
                rate,
                multiple: Some(number),
                seconds: number,
                successes: u64::MAX,
                failures: [(evil(), u64::MAX), ("408".into(), u64::MAX)].into(),
                achieved: number,
                requests: 1,
                retransmissions: u64::MAX,
                response_ms: Some(ms),
                service_ms: Some(ms),
                lag_ms: Some(ms),
                cdf: vec![[number, number]; 1000],
                buckets30: [number; 6],
                server_cpu_us: Some(number),
                server_memory_kb: Some(u64::MAX),
                others_share: number,
                steal: number,
                idle,
                valid,
                invalid_because: evil(),
                criterion_missed: evil(),
                ..Measurement::default()
            })));
        }
        let (name, variant) = (experiment.clone(), evil());
        let trials = vec![PeakTrial { rate: number, reason: evil(), ..PeakTrial::default() }; 500];
        records.push(Record::Peak(Peak {
            experiment: name,
            variant,
            target: evil(),
            rate: number,
            criterion: evil(),
            limited_by: evil(),
            trials,
            ..Peak::default()
        }));
        let component =
            |component: String| ComponentTime { component, title: evil(), share: number, us: number };
        records.push(Record::Profile(Box::new(Profile {
            experiment: experiment.clone(),
            variant: evil(),
            target: evil(),
            rate: number,
            samples: u64::MAX,
            agreement: number,
            disagreement: evil(),
            server_cpu_us: number,
            components: vec![component("kernel".into()), component("core".into()), component(evil())],
            functions: vec![FunctionTime {
                function: evil(),
                object: evil(),
                us: number,
                ..FunctionTime::default()
            }],
            extrapolated_peak: Some(number),
            measured_peak: Some(number),
            remarks: vec![evil(); 500],
            ..Profile::default()
        })));
        records.push(Record::Comparison(Comparison {
            experiment: experiment.clone(),
            variant: evil(),
            metric: evil(),
            a: evil(),
            b: evil(),
            ratio: number,
            rate: number,
            ci_low: Some(number),
            ..Comparison::default()
        }));
        records.push(Record::Failed(Failed { experiment, variant: evil(), target: evil(), error: evil() }));
    }
    records
}

#[test]
fn hostile_records_are_text_and_draw_nothing_outside_the_pictures() {
    for number in [0.0, -1.0, 1e-300, 1e300, f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let page = html(&hostile(number)).unwrap();
        assert_eq!(
            (count(&page, "<script"), count(&page, "</style>"), count(&page, "</title>")),
            (0, 1, count(&page, "<title>"))
        );
        assert!(!page.contains('\u{0}') && !page.contains('\u{1b}'));
        for attribute in page.split(['"']).skip(1).step_by(2) {
            assert!(!attribute.contains("NaN") && !attribute.contains("inf"), "{number}: {attribute}");
        }
        assert_eq!(count(&page, "<svg"), count(&page, "</svg>"), "{number}");
    }
}

#[test]
fn the_largest_report_is_below_a_megabyte_and_names_what_is_missing() {
    let long = "\"".repeat(20_000);
    let mut records = hostile(1000.0);
    for target in 0..8 {
        records.push(Record::Target(Target {
            target: target.to_string(),
            settings: long.clone(),
            version: long.clone(),
            command: long.clone(),
            machine: long.clone(),
        }));
    }
    for number in 0..70 {
        let experiment = format!("{number}{long}");
        records.push(Record::Experiment(Experiment {
            experiment: experiment.clone(),
            title: long.clone(),
            criterion: long.clone(),
            command: long.clone(),
            ..Experiment::default()
        }));
        for (variant, rate) in (0..4).flat_map(|variant| (1..20).map(move |rate| (variant, rate))) {
            records.push(Record::Measurement(Box::new(Measurement {
                experiment: experiment.clone(),
                variant: format!("{variant}{long}"),
                target: "0".into(),
                rate: f64::from(rate),
                achieved: f64::from(rate),
                criterion_missed: long.clone(),
                valid: rate % 2 == 0,
                invalid_because: long.clone(),
                ..Measurement::default()
            })));
        }
        records.extend((0..100).map(|_| {
            Record::Failed(Failed {
                experiment: experiment.clone(),
                error: long.clone(),
                ..Failed::default()
            })
        }));
    }
    let page = html(&records).unwrap();
    assert!(page.len() <= BYTES_MAX, "{}", page.len());
    assert!(
        page.contains("Not shown, the report has reached its largest size")
            && page.contains("records are not in this report")
    );
    assert!(page.ends_with("</main></html>\n") && page.contains("Open loop"));
}

#[test]
fn the_set_up_of_many_campaigns_with_long_texts_is_bounded() {
    let long = "\"".repeat(20_000);
    let mut records = Vec::new();
    for number in 0..20 {
        let machine = Machine {
            id: long.clone(),
            cpu: long.clone(),
            kernel: long.clone(),
            os: long.clone(),
            loadavg: long.clone(),
            ..Machine::default()
        };
        records.push(Record::Campaign(Campaign {
            format: 1,
            started: format!("{number}{long}"),
            command: long.clone(),
            version: long.clone(),
            interleaving: long.clone(),
            machine,
            ..Campaign::default()
        }));
        for target in 0..6 {
            records.push(Record::Target(Target {
                target: target.to_string(),
                version: format!("{number}{long}"),
                command: format!("{number}{long}"),
                settings: format!("{number}{long}"),
                machine: format!("{number}{long}"),
            }));
        }
        let baseline =
            Measurement { variant: long.clone(), invalid_because: long.clone(), ..Measurement::default() };
        records.push(Record::Baseline(Box::new(baseline)));
    }
    records.push(Record::Measurement(Box::new(Measurement {
        experiment: "register".into(),
        rate: 100.0,
        successes: 100,
        achieved: 100.0,
        valid: true,
        ..Measurement::default()
    })));
    let page = html(&records).unwrap();
    let (_, set_up) = page.split_once("id=\"setup\"").unwrap();
    let (set_up, _) = set_up.split_once("</section>").unwrap();
    assert!(set_up.len() <= 400_000, "{}", set_up.len());
    assert!(set_up.contains(" campaigns more are in the results"));
    assert!(set_up.contains("configurations more are in the results"));
    assert!(page.len() <= BYTES_MAX && !page.contains("has reached its largest size"), "{}", page.len());
}
