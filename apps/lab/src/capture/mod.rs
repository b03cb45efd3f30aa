//! Files of recorded packets: pcap and pcapng, and the UDP packets in them that a scenario plays.
//!
//! Does: read both formats in both byte orders with their resolutions of time ([`read`]), and the frames of the usual link types
//! (`packet`). Each length that a file declares is checked against the bytes that are there; nothing is allocated by one.
//!
//! Does not: write files, put fragments together, decompress, decrypt.
//!
//! Start reading at [`read`].

mod formats;
mod packet;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::{Context, Result, bail, ensure};
use formats::Frame;
use packet::{Datagram, Unplayed};
use ringway_load::{Recording, RecordingError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// UDP packets of a file.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// Their payloads.
    pub recording: Recording,
    /// Number of the packets that are not played, by reason.
    pub unplayed: BTreeMap<&'static str, u64>,
}

impl Capture {
    /// Text for people about the packets that are not played; `None` if all are.
    pub fn note(&self) -> Option<String> {
        let counts: Vec<String> =
            self.unplayed.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        (!counts.is_empty()).then(|| format!("packets that are not played: {}", counts.join(", ")))
    }
}

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// It cannot be read, is longer, or as [`parse`].
pub fn read(path: &Path) -> Result<Capture> {
    let name = || path.display().to_string();
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(name)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(name)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{}: longer than {} MiB; cut it with editcap", name(), FILE_BYTES_MAX >> 20);
    }
    parse(&bytes).with_context(name)
}

/// Reads the bytes of a file. As SIPp does, the packets to the lowest port go to the port of the peer's description, and others as many
/// ports above it.
///
/// # Errors
/// It is not pcap or pcapng; its link type is not known; a length is impossible; it has no UDP packet, or more than
/// [`Recording::PACKETS_MAX`].
pub fn parse(bytes: &[u8]) -> Result<Capture> {
    let mut capture = Capture::default();
    let mut datagrams: Vec<(u64, Datagram<'_>)> = Vec::new();
    let unplayed = &mut capture.unplayed;
    let mut count = |reason: Unplayed| *unplayed.entry(reason.text()).or_default() += 1;
    let end = formats::frames(bytes, |frame| {
        let Frame { at_ns, link, bytes, is_cut } = frame;
        match packet::datagram(link, bytes, is_cut)? {
            Ok(_) if at_ns.is_none() => count(Unplayed::Untimed),
            Ok(datagram) => {
                ensure!(
                    datagrams.len() < Recording::PACKETS_MAX,
                    "more than {} UDP packets; cut it with editcap",
                    Recording::PACKETS_MAX
                );
                datagrams.push((at_ns.unwrap_or_default(), datagram));
            }
            Err(reason) => count(reason),
        }
        Ok(())
    })?;
    if end.is_cut {
        count(Unplayed::Rest);
    }
    let lowest = datagrams.iter().map(|(_, datagram)| datagram.port).min().unwrap_or_default();
    let mut first = None;
    for (at_ns, datagram) in datagrams {
        let first = *first.get_or_insert(at_ns);
        let at = Duration::from_nanos(at_ns.saturating_sub(first));
        match capture.recording.push(at, datagram.port - lowest, datagram.payload) {
            Ok(()) => {}
            Err(RecordingError::Length | RecordingError::Full) => {
                *capture.unplayed.entry(Unplayed::Length.text()).or_default() += 1;
            }
        }
    }
    if capture.recording.is_empty() {
        match capture.note() {
            Some(note) => bail!("no UDP packet that can be played; {note}"),
            None => bail!("no packet"),
        }
    }
    Ok(capture)
}

/// Longest file.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
