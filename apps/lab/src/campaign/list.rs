//! Campaigns as TOML files: lists of experiments that together repeat a document.

use super::experiment::{self, Experiment};
use crate::text_file;
use anyhow::{Context, Result, bail};
use ringway_settings::{nearest, read_document};
use std::path::Path;

/// List of experiments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Campaign {
    /// Name on the command line: that of the file.
    pub name: String,
    /// Title.
    pub title: String,
    /// Document, with its tables and figures, that it repeats.
    pub reproduces: String,
    /// Names of experiments of the lab, or files.
    pub experiments: Vec<String>,
}

/// Campaigns of the lab, in their order.
///
/// # Errors
/// None that occur: a test reads them all.
pub fn built_in() -> Result<Vec<Campaign>> {
    FILES.iter().map(|(name, text)| parse(name, &format!("{name}.toml"), text)).collect()
}

/// Experiments of an argument: the name of an experiment or of a campaign, or a user's file of either.
///
/// # Errors
/// No such experiment or campaign, no such file, a fault in it with its line.
pub fn find(argument: &str) -> Result<Vec<Experiment>> {
    if argument.contains('/') || argument.ends_with(".toml") {
        let text = text_file::read(Path::new(argument), FILE_BYTES_MAX).with_context(|| {
            format!("{argument}: cannot be read; give an experiment or a campaign as a TOML file")
        })?;
        if !is_campaign(&text) {
            return Ok(vec![experiment::find(argument)?]);
        }
        let stem = Path::new(argument).file_stem().unwrap_or_default().to_string_lossy();
        let folder = Path::new(argument).parent().unwrap_or(Path::new(""));
        return parse(&stem, argument, &text)?.read(folder);
    }
    if let Some((name, text)) = FILES.iter().find(|(name, _)| *name == argument) {
        return parse(name, &format!("{name}.toml"), text)?.read(Path::new(""));
    }
    let names = FILES.map(|(name, _)| name);
    match (experiment::find(argument), nearest(argument, &names)) {
        (Ok(experiment), _) => Ok(vec![experiment]),
        (Err(_), Some(name)) => {
            bail!("no experiment or campaign is named {argument:?}; did you mean `{name}`?")
        }
        (Err(error), None) => Err(error),
    }
}

impl Campaign {
    /// Reads its experiments; files are relative to `folder`.
    fn read(&self, folder: &Path) -> Result<Vec<Experiment>> {
        let read = |name: &String| {
            let found = match name.contains('/') || name.ends_with(".toml") {
                true => experiment::find(&folder.join(name).to_string_lossy()),
                false => experiment::find(name),
            };
            found.with_context(|| format!("campaign {}", self.name))
        };
        self.experiments.iter().map(read).collect()
    }
}

/// True if a file lists experiments; its faults are found when it is read.
fn is_campaign(text: &str) -> bool {
    let mut is_list = false;
    let read = read_document(text, None, |_, top| is_list = top.place("experiments").is_some());
    drop(read);
    is_list
}

fn parse(name: &str, file: &str, text: &str) -> Result<Campaign> {
    let read = read_document(text, Some(file), |reader, top| {
        let title = top.text(reader, "title").map_or(name, |(text, _)| text).to_owned();
        let reproduces = top.text(reader, "reproduces").map_or("", |(text, _)| text).to_owned();
        let experiments = top.texts(reader, "experiments").unwrap_or_default();
        if experiments.is_empty() || experiments.len() > EXPERIMENTS_MAX {
            let why = format!("give 1 to {EXPERIMENTS_MAX} experiments, as [\"register\", \"call\"]");
            reader.error(top.place("experiments").unwrap_or(0), "experiments", why);
        }
        let experiments = experiments.into_iter().map(|(text, _)| text.to_owned()).collect();
        Campaign { name: name.to_owned(), title, reproduces, experiments }
    });
    read.map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(lines.join("\n"))
    })
}

/// Measurements of the documents that no experiment repeats yet: subject and documents.
pub const NOT_YET: [(&str, &str); 3] = [
    ("Power", "watts against rate with each security method (signalling thesis)"),
    (
        "Primitives",
        "speed of digests, ciphers and RSA by key length, share of an IKE exchange (signalling thesis, tables 15, 16, 19, 21 and 22)",
    ),
    ("Other mechanisms", "IPsec, Digest AKA, S/MIME, SAKA, RADIUS (signalling thesis)"),
];
/// Files of the lab's campaigns.
const FILES: [(&str, &str); 4] = [
    ("bare-pc", include_str!("../../campaigns/bare-pc.toml")),
    ("openser", include_str!("../../campaigns/openser.toml")),
    ("tls", include_str!("../../campaigns/tls.toml")),
    ("rfc7502", include_str!("../../campaigns/rfc7502.toml")),
];
/// Most experiments of a campaign.
const EXPERIMENTS_MAX: usize = 60;
/// Maximum length of a file in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_campaigns_of_the_lab_are_read_and_no_experiment_is_there_twice() {
        for campaign in built_in().unwrap() {
            let experiments = find(&campaign.name).unwrap();
            assert_eq!(experiments.len(), campaign.experiments.len(), "{}", campaign.name);
            let mut names: Vec<&str> = experiments.iter().map(|one| one.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), experiments.len());
        }
        assert_eq!(find("utilisation").unwrap().len(), 1);
    }

    #[test]
    fn a_file_is_an_experiment_or_a_campaign() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("one.toml"), "rates = [1]\n").unwrap();
        std::fs::write(path("all.toml"), "title = \"All\"\nexperiments = [\"register\", \"one.toml\"]\n")
            .unwrap();
        let names: Vec<String> = find(&path("all.toml")).unwrap().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["register", "one"]);
        assert_eq!(find(&path("one.toml")).unwrap().len(), 1);
        std::fs::write(path("bad.toml"), "experiments = []\ntitel = \"x\"\n").unwrap();
        let error = find(&path("bad.toml")).unwrap_err().to_string();
        assert!(
            error.contains(":1: experiments: give 1 to") && error.contains(":2: titel: unknown key"),
            "{error}"
        );
        std::fs::write(path("bad.toml"), "experiments = [\"registr\"]\n").unwrap();
        assert!(format!("{:#}", find(&path("bad.toml")).unwrap_err()).contains("did you mean `register`?"));
        assert!(find("opensr").unwrap_err().to_string().contains("did you mean `openser`?"));
    }
}
