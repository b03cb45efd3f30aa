//! Framing of SIP on a byte stream, for the driver.

use ringway_sansio::{Defence, Framer, FramingError};
use ringway_sip::StreamFramer;

/// Cuts the bytes of a connection into SIP messages.
#[derive(Debug)]
pub struct SipFramer(StreamFramer);

impl Framer for SipFramer {
    fn new(max_message_bytes: usize) -> Self {
        let max = if Defence::MessageSize.is_on() { max_message_bytes } else { usize::MAX };
        Self(StreamFramer::new(max))
    }

    fn push(&mut self, bytes: &[u8]) {
        self.0.push(bytes);
    }

    fn message_start(&mut self) {
        self.0.message_start();
    }

    fn message_end(&mut self) {
        self.0.message_end();
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        self.0.next_message().map_err(|error| FramingError(error.as_str()))
    }

    fn pongs(&mut self) -> usize {
        self.0.take_pongs()
    }

    const PONG: &'static [u8] = b"\r\n";

    fn is_partial(&self) -> bool {
        self.0.is_partial()
    }

    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }
}
