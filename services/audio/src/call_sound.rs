//! Sound of a call in both directions.

use crate::pulse::PulseCard;
use crate::sink::Sink;
use crate::source::Source;
use ringway_media::headset::Headset;

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
    headset: Option<Headset<PulseCard>>,
}

impl CallSound {
    /// Combines an input, a sink, and a sound card, which plays what the sink records.
    pub fn new(input: Input, sink: Sink, card: Option<PulseCard>) -> Self {
        Self { input, sink, headset: card.map(Headset::new) }
    }

    /// Fills a block with what is to be sent.
    pub fn capture(&mut self, block: &mut [i16]) {
        match (&mut self.input, &mut self.headset) {
            (Input::Source(source), _) => source.fill(block),
            (Input::Microphone, Some(headset)) => headset.capture(block),
            (Input::Microphone, None) => block.fill(0),
        }
    }

    /// Processes a block of received samples.
    pub fn play(&mut self, block: &[i16]) {
        self.sink.take(block);
        if let Some(headset) = &mut self.headset {
            headset.play(block);
        }
    }

    /// Plays the ringback tone for the length of a block; the sink records the block itself.
    pub fn play_ringback(&mut self, block: &mut [i16]) {
        self.sink.take(block);
        if let Some(headset) = &mut self.headset {
            headset.fill_ringback(block);
            headset.play(block);
        }
    }

    /// True if the microphone is the input.
    pub fn sends_microphone(&self) -> bool {
        matches!(self.input, Input::Microphone)
    }

    /// Summary of gaps and drops of the sound card; `None` without a card.
    pub fn card_summary(&self) -> Option<String> {
        self.headset.as_ref().map(Headset::summary)
    }

    /// Returns the sink, to be read or [finished](Sink::finish).
    pub fn into_sink(self) -> Sink {
        self.sink
    }
}
