//! Times on a command line, in files and in results: `2s`, `500ms`, ranges and means.

use crate::load::Length;
use std::time::Duration;

/// Reads a length: `2s`, `1s-3s` (uniform), `~3s` (exponential).
///
/// # Errors
/// Text for the user.
pub fn length(text: &str) -> Result<Length, String> {
    if let Some(mean) = text.strip_prefix('~') {
        return Ok(Length::Exponential(duration(mean)?));
    }
    match text.split_once('-') {
        Some((least, most)) => {
            let (least, most) = (duration(least)?, duration(most)?);
            if least > most {
                return Err("the first time of a range is the shorter one".into());
            }
            Ok(Length::Uniform(least, most))
        }
        None => Ok(Length::Fixed(duration(text)?)),
    }
}

/// Reads a time: `2s`, `500ms`.
///
/// # Errors
/// Text for the user.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err("give a time with its unit, such as 2s or 500ms".into()),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| format!("{text:?} is not a time; give 2s or 500ms"))?;
    let seconds = number * unit;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("a time is from 0 to {SECONDS_MAX} s"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Milliseconds, as results have them.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Longest time, a day.
pub const SECONDS_MAX: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_or_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(length("1s"), Ok(Length::Fixed(second)));
        assert_eq!(length("500ms-1s"), Ok(Length::Uniform(second / 2, second)));
        assert_eq!(length("~1s"), Ok(Length::Exponential(second)));
        for bad in ["", "1", "s", "2s-1s", "-1s", "nans", "1e9s", "~"] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }
}
