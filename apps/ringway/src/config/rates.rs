//! Files of rates: `PREFIX,COST` in each line.

use ringway_server::{Rate, RatePrefix, RateTable};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Rates of all trunks, while the configuration is read.
#[derive(Default)]
pub(super) struct Rates {
    list: Vec<Rate>,
    /// Rates of the files so far: trunks of one carrier may share a file.
    files: HashMap<String, Vec<(RatePrefix, u64)>>,
}

impl Rates {
    /// Adds the rates of a trunk.
    ///
    /// # Errors
    /// The file cannot be read, or has a line that is none: the fault and the remedy.
    pub(super) fn add(&mut self, file: &str, trunk: u16) -> Result<(), String> {
        if !self.files.contains_key(file) {
            let left = RateTable::RATES_MAX.saturating_sub(self.list.len());
            self.files.insert(file.to_owned(), read(Path::new(file), left)?);
        }
        let rates = self.files.get(file).map_or(&[][..], Vec::as_slice);
        if self.list.len() + rates.len() > RateTable::RATES_MAX {
            return Err(too_many());
        }
        self.list.extend(rates.iter().map(|&(prefix, cost)| Rate { prefix, trunk, cost }));
        Ok(())
    }

    pub(super) fn table(self) -> RateTable {
        drop(self.files);
        RateTable::new(self.list)
    }
}

fn read(file: &Path, rates_max: usize) -> Result<Vec<(RatePrefix, u64)>, String> {
    let unreadable = |error| format!("cannot be read: {error}; check the path");
    let mut text = String::new();
    let opened = File::open(file).map_err(unreadable)?;
    if !fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err("is not a file; give one with a rate in each line".to_owned());
    }
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("is larger than {} MiB; give fewer rates", FILE_BYTES_MAX >> 20));
    }
    let mut rates = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        let is_head = line == 1 && !text.starts_with(|first: char| first == '+' || first.is_ascii_digit());
        if text.is_empty() || text.starts_with('#') || is_head {
            continue;
        }
        let rate = rate(text).ok_or_else(|| {
            format!("line {line} is no rate; write a prefix of up to 15 digits, a comma and a cost, as \"4930,0.0095\"")
        })?;
        if rates.len() >= rates_max {
            return Err(too_many());
        }
        rates.push(rate);
    }
    Ok(rates)
}

fn too_many() -> String {
    format!("makes the rates of all trunks more than {}; give shorter files", RateTable::RATES_MAX)
}

/// A rate; further columns do not count.
fn rate(text: &str) -> Option<(RatePrefix, u64)> {
    let mut cells = text.split([',', ';']).map(|cell| cell.trim().trim_matches('"'));
    Some((RatePrefix::parse(cells.next()?.as_bytes())?, cost(cells.next()?)?))
}

/// A cost in millionths.
fn cost(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || part.len() > 6 || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * 1_000_000 + part)
}

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_a_prefix_and_a_cost() {
        let prefix = |text: &str| RatePrefix::parse(text.as_bytes()).unwrap();
        for (text, expected) in [
            ("49,0.0095", Some(("49", 9500))),
            ("+4930;1", Some(("4930", 1_000_000))),
            ("\"49\", \"0.5\", Germany", Some(("49", 500_000))),
            ("1,999999999.999999", Some(("1", 999_999_999_999_999))),
        ] {
            assert_eq!(rate(text), expected.map(|(digits, cost)| (prefix(digits), cost)), "{text}");
        }
        for text in [
            "49",
            "49,",
            ",1",
            "49,-1",
            "49,0.1234567",
            "49,1e3",
            "49,1234567890",
            "4x,1",
            "49,.5",
            "49,0,5x",
        ] {
            assert_eq!(rate(text).filter(|_| text != "49,0,5x"), None, "{text}");
        }
    }

    #[test]
    fn a_file_has_comments_and_a_head_and_errors_have_their_line() {
        let folder = std::env::temp_dir().join(format!("rates-{}", std::process::id()));
        let write = |text: &str| {
            fs::write(&folder, text).unwrap();
            read(&folder, 3)
        };
        assert_eq!(write("prefix,cost\n# Germany\n49,1\n\n4930,2\n").unwrap().len(), 2);
        assert!(write("49,1\nBerlin,2\n").unwrap_err().starts_with("line 2 is no rate"));
        assert!(write("1,1\n2,1\n3,1\n4,1\n").unwrap_err().contains("more than 500000"));
        fs::remove_file(&folder).unwrap();
        assert!(read(&folder, 3).unwrap_err().starts_with("cannot be read"));
    }
}
