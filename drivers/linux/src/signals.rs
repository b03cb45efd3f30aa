//! Signals of the process as messages.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

/// Request to the process by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: finish and exit.
    Terminate,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Handles signals as [`watch_with`], and passes them to the receiver during its lifetime.
pub fn watch() -> io::Result<Receiver<Signal>> {
    let (to, from) = channel();
    watch_with(move |signal| to.send(signal).is_ok())?;
    Ok(from)
}

/// Handles SIGTERM, SIGINT and SIGHUP and passes them to `each`, until that returns false. Also handles SIGXFSZ, which
/// would end the process: a write beyond the file size limit fails with EFBIG instead.
pub fn watch_with(each: impl Fn(Signal) -> bool + Send + 'static) -> io::Result<()> {
    // The flag is not read; a handled signal does not end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let body = move || {
        for number in signals.forever() {
            let signal = if number == SIGHUP { Signal::Reload } else { Signal::Terminate };
            if !each(signal) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn signals_arrive_as_messages() {
        let signals = watch().unwrap();
        signal_hook::low_level::raise(SIGXFSZ).unwrap();
        for (number, expected) in
            [(SIGHUP, Signal::Reload), (SIGTERM, Signal::Terminate), (SIGINT, Signal::Terminate)]
        {
            signal_hook::low_level::raise(number).unwrap();
            assert_eq!(signals.recv_timeout(Duration::from_secs(5)), Ok(expected));
        }
    }
}
