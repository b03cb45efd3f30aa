//! Sound of a call in both directions, and ringing of an incoming one.

use crate::pulse::{Names, PulseCard, SoundServer};
use crate::sink::Sink;
use crate::source::Source;
use ringway_media::Sound;
use ringway_media::headset::Headset;
use ringway_media::tone::Ringing;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Input of a call.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file, a tone, or silence.
    Source(Source),
    /// The microphone; silence without a headset.
    Microphone,
}

/// Source, sink and optional headset of a call, run by its media thread.
#[derive(Debug)]
pub struct CallSound {
    input: Input,
    sink: Sink,
    /// The sink takes nothing before.
    is_answered: bool,
    headset: Option<Headset<PulseCard>>,
}

impl CallSound {
    /// Combines an input, a sink, and a sound card, which plays what the sink records. The sink takes sound from the answer
    /// on.
    pub fn new(input: Input, sink: Sink, card: Option<PulseCard>) -> Self {
        Self { input, sink, is_answered: false, headset: card.map(Headset::new) }
    }

    /// Gaps and drops at the sound card, for people; `None` without a card.
    pub fn card_summary(&self) -> Option<String> {
        self.headset.as_ref().map(Headset::summary)
    }

    /// The sink, to be read or [finished](Sink::finish).
    pub fn into_sink(self) -> Sink {
        self.sink
    }
}

impl Sound for CallSound {
    fn capture(&mut self, block: &mut [i16]) {
        match (&mut self.input, &mut self.headset) {
            (Input::Source(source), _) => source.fill(block),
            (Input::Microphone, Some(headset)) => headset.capture(block),
            (Input::Microphone, None) => block.fill(0),
        }
    }

    fn on_answered(&mut self) {
        self.is_answered = true;
    }

    fn play(&mut self, block: &[i16]) {
        if self.is_answered {
            self.sink.take(block);
        }
        if let Some(headset) = &mut self.headset {
            headset.play(block);
        }
    }

    fn play_ringback(&mut self, block: &mut [i16]) {
        if let Some(headset) = &mut self.headset {
            headset.fill_ringback(block);
            headset.play(block);
        }
    }

    fn is_microphone(&self) -> bool {
        matches!(self.input, Input::Microphone)
    }
}

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
