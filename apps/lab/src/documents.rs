//! Numbers that the founding documents print, to be drawn beside the results of the same experiment.
//!
//! They were measured on other machines: what is compared is the shape, the ratio of two variants.

use anyhow::{Result, anyhow};
use ringway_settings::{Reader, Section, read_document};

/// Ratio of the throughput of two variants in a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Document.
    pub document: String,
    /// Experiment that repeats it.
    pub experiment: String,
    /// Variant whose throughput is divided.
    pub of: String,
    /// Variant by whose throughput it is divided.
    pub to: String,
    /// Lowest value that the document has.
    pub low: f64,
    /// Highest value that the document has.
    pub high: f64,
    /// Words of the document.
    pub note: String,
}

/// Number of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Document.
    pub document: String,
    /// Experiment that repeats it.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Conditions.
    pub note: String,
}

/// Numbers of all documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Ratios.
    pub ratios: Vec<Ratio>,
    /// Values.
    pub values: Vec<Value>,
}

impl Documents {
    /// The numbers that are shipped.
    ///
    /// # Errors
    /// None that occur: a test reads them all.
    pub fn shipped() -> Result<Self> {
        let mut all = Self::default();
        for (file, text) in FILES {
            let read = read_document(text, Some(file), |reader, top| all.add(reader, top));
            read.map_err(|errors| {
                let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
                anyhow!(lines.join("\n"))
            })?;
        }
        Ok(all)
    }

    fn add(&mut self, reader: &mut Reader<'_>, top: &mut Section<'_, '_>) {
        let document = text(reader, top, "document");
        for (mut section, _) in top.sections(reader, "ratio") {
            let low = section.decimal(reader, "low", RANGE).unwrap_or_default();
            self.ratios.push(Ratio {
                document: document.clone(),
                experiment: text(reader, &mut section, "experiment"),
                of: text(reader, &mut section, "of"),
                to: text(reader, &mut section, "to"),
                low,
                high: section.decimal(reader, "high", RANGE).unwrap_or(low),
                note: text(reader, &mut section, "note"),
            });
            section.finish(reader);
        }
        for (mut section, _) in top.sections(reader, "value") {
            self.values.push(Value {
                document: document.clone(),
                experiment: text(reader, &mut section, "experiment"),
                variant: text(reader, &mut section, "variant"),
                value: section.decimal(reader, "value", RANGE).unwrap_or_default(),
                unit: text(reader, &mut section, "unit"),
                note: text(reader, &mut section, "note"),
            });
            section.finish(reader);
        }
    }
}

/// Value of a key that each entry has.
fn text(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, key: &'static str) -> String {
    match section.text(reader, key) {
        Some((text, _)) => text.to_owned(),
        None => {
            reader.error(0, section.path(key), "is missing");
            String::new()
        }
    }
}

const FILES: [(&str, &str); 4] = [
    ("bare-pc.toml", include_str!("../documents/bare-pc.toml")),
    ("openser.toml", include_str!("../documents/openser.toml")),
    ("signalling.toml", include_str!("../documents/signalling.toml")),
    ("tls.toml", include_str!("../documents/tls.toml")),
];
/// Numbers of a document.
const RANGE: std::ops::RangeInclusive<f64> = 0.0..=1e9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::experiment;

    #[test]
    fn every_number_is_of_a_variant_that_the_lab_measures() {
        let documents = Documents::shipped().unwrap();
        assert!(documents.ratios.len() > 15 && documents.values.len() > 5);
        let has = |name: &str, variant: &str| {
            let experiment = experiment::find(name).unwrap();
            let names: Vec<&str> = experiment.variants.iter().map(|one| one.name.as_str()).collect();
            assert!(names.contains(&variant), "{name}: {variant:?} is none of {names:?}");
        };
        for ratio in &documents.ratios {
            has(&ratio.experiment, &ratio.of);
            has(&ratio.experiment, &ratio.to);
            assert!(ratio.low <= ratio.high && ratio.low > 0.0, "{ratio:?}");
        }
        documents.values.iter().for_each(|value| has(&value.experiment, &value.variant));
    }
}
