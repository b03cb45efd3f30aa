//! Sources of the sent sound (a microphone, a tone, a recorded voice, the received sound), and the source and the sink of a
//! call.

use super::Headset;
use alloc::string::String;
use ringway_media::g711;
use ringway_media::tone::Tone;
use ringway_phone::Sound;
use ringway_sdp::Codec;

/// Source of the sent sound. Blocks are of 16-bit samples, 8,000 a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// A pure tone.
    Tone(Tone),
    /// The sound card's.
    Microphone,
    /// The received sound.
    Echo,
    /// The recording, again and again.
    Voice {
        /// The next sample.
        next: usize,
    },
}

impl Source {
    /// A tone, 1 to 3,999 Hz; `None`: telephone sound has no such.
    pub(crate) const fn tone(frequency_hz: u32) -> Option<Self> {
        match Tone::new(frequency_hz) {
            Some(tone) => Some(Self::Tone(tone)),
            None => None,
        }
    }

    /// The recorded voice from its beginning.
    pub(crate) const fn voice() -> Self {
        Self::Voice { next: 0 }
    }

    /// In words, for the screen.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Microphone => "microphone",
            Self::Tone(_) => "test tone",
            Self::Echo => "what is heard",
            Self::Voice { .. } => "recorded voice",
        }
    }

    /// Makes what is to be sent of a block of what is heard. The microphone's is the sound card's to give; here it is silent.
    pub(crate) fn fill(&mut self, block: &mut [i16]) {
        match self {
            Self::Echo => {}
            Self::Microphone => block.fill(0),
            Self::Tone(tone) => tone.fill(block),
            Self::Voice { next } => {
                for sample in block {
                    let coded = VOICE.get(*next).copied().unwrap_or(SILENCE);
                    g711::decode(Codec::Pcmu, &[coded], core::slice::from_mut(sample));
                    *next = (*next + 1) % VOICE.len().max(1);
                }
            }
        }
    }
}

/// Four seconds of speech-like sound, µ-law: the beginning of what `ringway call --play speech` sends.
const VOICE: &[u8] = include_bytes!("voice.ulaw");

/// Zero in µ-law.
const SILENCE: u8 = 0xff;

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use ringway_audio::Source as LinuxSource;
    use ringway_media::Level;

    #[test]
    fn a_tone_is_the_one_that_linux_sends() {
        let mut ours = vec![0; 16_000];
        let mut theirs = ours.clone();
        let mut source = Source::tone(440).unwrap();
        ours.chunks_mut(160).for_each(|block| source.fill(block));
        LinuxSource::tone(440).unwrap().fill(&mut theirs);
        assert!(ours.iter().zip(&theirs).all(|(a, b)| a.abs_diff(*b) <= 1));
        for wrong in [0, 4000, 48_000] {
            assert_eq!(Source::tone(wrong), None);
        }
    }

    #[test]
    fn the_voice_is_the_one_that_linux_sends_and_begins_again() {
        let mut theirs = vec![0; VOICE.len()];
        LinuxSource::speech_like().fill(&mut theirs);
        let mut coded = vec![0; VOICE.len()];
        g711::encode(Codec::Pcmu, &theirs, &mut coded);
        let same = coded.iter().zip(VOICE).filter(|(a, b)| a == b).count();
        // Machines round sines differently in their last bit.
        assert!(same * 1000 > VOICE.len() * 999, "{same} of {}", VOICE.len());
        let mut source = Source::voice();
        let mut twice = vec![0; 2 * VOICE.len()];
        twice.chunks_mut(160).for_each(|block| source.fill(block));
        assert!(twice[..VOICE.len()] == twice[VOICE.len()..] && Level::of(&twice).rms > 500);
    }

    #[test]
    fn an_echo_is_what_was_heard() {
        let mut block = [1234; 160];
        Source::Echo.fill(&mut block);
        assert_eq!(block, [1234; 160]);
    }
}
