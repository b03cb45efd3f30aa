//! Source and sink of a call: one of the sources, and the sound card where there is one.

use super::Headset;
use super::source::Source;
use alloc::string::String;
use ringway_phone::Sound;

/// Sound of a call.
pub(crate) struct MachineSound {
    source: Source,
    headset: Option<Headset>,
    /// The microphone is in use.
    is_capturing: bool,
}

impl MachineSound {
    /// With a headset the received sound is played, and its microphone may be the source.
    pub(crate) fn new(source: Source, mut headset: Option<Headset>) -> Self {
        if let Some(headset) = &mut headset {
            headset.start();
        }
        Self { source, headset, is_capturing: false }
    }

    /// Returns the headset.
    pub(crate) fn into_headset(self) -> Option<Headset> {
        self.headset
    }

    /// Loudspeaker and microphone.
    pub(crate) const fn headset(&self) -> Option<&Headset> {
        self.headset.as_ref()
    }

    /// Counters of the headset, for people; `None`: there is none.
    pub(crate) fn headset_summary(&self) -> Option<String> {
        self.headset.as_ref().map(Headset::summary)
    }
}

impl Sound for MachineSound {
    fn capture(&mut self, block: &mut [i16]) {
        match (&mut self.source, &mut self.headset) {
            (Source::Microphone, Some(headset)) => {
                // Samples captured before the answer are not sent.
                if !self.is_capturing {
                    headset.start();
                    self.is_capturing = true;
                }
                headset.capture(block);
            }
            (source, _) => source.fill(block),
        }
    }

    fn play(&mut self, block: &[i16]) {
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
        self.source == Source::Microphone
    }
}
