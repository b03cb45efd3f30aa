//! Both ends of a call's sound.

use crate::pulse::PulseCard;
use crate::sink::Sink;
use crate::source::Source;
use ringway_media::headset::Headset;

/// What a call sends.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file, a tone, silence.
    Source(Source),
    /// The microphone; silence where there is no headset.
    Microphone,
}

/// A source, a sink, and a headset where there is one, run by a call's media thread.
#[derive(Debug)]
pub struct CallSound {
    input: Input,
    sink: Sink,
    headset: Option<Headset<PulseCard>>,
}

impl CallSound {
    /// Joins an input, a sink, and a sound card, which plays what the sink takes too.
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

    /// Takes a block of what was received.
    pub fn play(&mut self, block: &[i16]) {
        self.sink.take(block);
        if let Some(headset) = &mut self.headset {
            headset.play(block);
        }
    }

    /// Plays the ringback tone for the length of a block; the sink gets the block itself.
    pub fn play_ringback(&mut self, block: &mut [i16]) {
        self.sink.take(block);
        if let Some(headset) = &mut self.headset {
            headset.fill_ringback(block);
            headset.play(block);
        }
    }

    /// True where the microphone is sent.
    pub fn sends_microphone(&self) -> bool {
        matches!(self.input, Input::Microphone)
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
