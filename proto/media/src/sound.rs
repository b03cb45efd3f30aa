//! Interface between a call and its sound.

/// Source and sink of a call's sound: blocks of 16-bit samples, 8,000 per second, one channel. No method blocks or
/// allocates.
pub trait Sound {
    /// Fills a block with the next samples to send. The block holds what was just played, for a source that sends it back.
    fn capture(&mut self, block: &mut [i16]);

    /// The call was answered.
    fn on_answered(&mut self) {}

    /// Takes a block of received sound.
    fn play(&mut self, block: &[i16]);

    /// Takes a block of received sound, and plays the ringback tone instead.
    fn play_ringback(&mut self, block: &mut [i16]);

    /// True if the source is a microphone, which continues while its samples are not sent. Other sources pause.
    fn is_microphone(&self) -> bool;
}
