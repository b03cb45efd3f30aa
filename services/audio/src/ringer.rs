//! Ringing of an incoming call.

use crate::pulse::{Names, PulseCard, SoundServer};
use ringway_media::headset::Headset;
use ringway_media::tone::Ringing;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Plays the ringing tone on the loudspeaker until it is dropped.
#[derive(Debug)]
pub struct Ringer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ringer {
    /// Starts ringing.
    pub fn start(server: &SoundServer, devices: &Names) -> io::Result<Self> {
        let (card, _) = PulseCard::open(server, devices)?;
        let mut headset = Headset::new(card);
        let is_over = Arc::new(AtomicBool::new(false));
        let body = {
            let is_over = Arc::clone(&is_over);
            move || {
                headset.start();
                while !is_over.load(Ordering::Relaxed) {
                    headset.ring(Ringing::Here);
                    std::thread::park_timeout(INTERVAL);
                }
            }
        };
        let thread = std::thread::Builder::new().name("ringer".to_owned()).spawn(body)?;
        Ok(Self { is_over, thread })
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
    }
}

/// A third of a headset's queue while it rings.
const INTERVAL: Duration = Duration::from_millis(10);
