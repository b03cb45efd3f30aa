//! Files of recorded packets that scenario files name.

use crate::capture;
use ringway_load::Recording;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Recordings of a scenario file; each is read once.
#[derive(Debug, Default)]
pub struct Recordings {
    /// Folder of the scenario file.
    folder: PathBuf,
    read: BTreeMap<PathBuf, Arc<Recording>>,
    notes: Vec<String>,
}

impl Recordings {
    /// Recordings of this scenario file: as in SIPp a name is that of a file in its folder, or if there is none, in the working folder.
    pub fn of(scenario_file: &Path) -> Self {
        let folder = scenario_file.parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, ..Self::default() }
    }

    /// Lines for people about packets that are not played.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The recording of a file.
    pub(super) fn get(&mut self, name: &str) -> Result<Arc<Recording>, String> {
        let beside = self.folder.join(name);
        let path = if beside.exists() { beside } else { PathBuf::from(name) };
        if let Some(recording) = self.read.get(&path) {
            return Ok(Arc::clone(recording));
        }
        if self.read.len() >= FILES_MAX {
            return Err(format!("a scenario plays at most {FILES_MAX} files"));
        }
        let capture =
            capture::read(&path).map_err(|error| format!("{error:#}; give a pcap or pcapng file"))?;
        self.notes.extend(capture.note().map(|note| format!("{}: {note}", path.display())));
        let recording = Arc::new(capture.recording);
        self.read.insert(path, Arc::clone(&recording));
        Ok(recording)
    }
}

/// Most files of a scenario.
const FILES_MAX: usize = 16;
