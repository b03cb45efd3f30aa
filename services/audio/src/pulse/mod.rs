//! Sound cards by PulseAudio's native protocol, which PipeWire's `pipewire-pulse` supports too. Loudspeaker and microphone of
//! a sound server, as a [`SoundCard`].
//!
//! Does: lists devices ([`SoundServer::devices`]), and connects a call to a loudspeaker and a microphone
//! ([`PulseCard`]) on a separate thread, which reconnects when the server is lost.
//!
//! Does not: resample (the server does), mix, set volumes, or connect to servers on other machines.
//!
//! Start reading at [`PulseCard`]; the protocol is in `connection.rs`.

mod connection;
mod stream;

pub use connection::{AudioError, Device, Devices, Names, SoundServer};
use ringway_media::headset::SoundCard;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::{fmt, io};
use stream::Shared;
pub use stream::{AudioEvent, Part};

/// Loudspeaker and microphone of a sound server.
///
/// Its methods exchange samples with a thread, which communicates with the server; none of them blocks or allocates.
/// The microphone's stream is opened at the first call of [`SoundCard::captured`]. Dropping the card ends the thread
/// within some 20 ms.
pub struct PulseCard {
    to_play: Producer<i16>,
    captured: Consumer<i16>,
    shared: Arc<Shared>,
}

impl PulseCard {
    /// Starts the thread, which connects at once. `devices` has names of the server
    /// ([`Devices::resolve`](Devices::resolve)).
    pub fn open(server: &SoundServer, devices: &Names) -> io::Result<(Self, Receiver<AudioEvent>)> {
        let (to_play, from_call) = RingBuffer::new(RING_SAMPLES);
        let (to_call, captured) = RingBuffer::new(RING_SAMPLES);
        let (sender, events) = sync_channel(EVENTS_MAX);
        let shared = Arc::new(Shared::default());
        let ends = stream::Ends::new(from_call, to_call, Arc::clone(&shared), sender);
        let (server, devices) = (server.clone(), devices.clone());
        std::thread::Builder::new()
            .name("sound".to_owned())
            .spawn(move || stream::run(&server, &devices, ends))?;
        Ok((Self { to_play, captured, shared }, events))
    }

    /// Microphone samples lost because the call did not read them in time.
    pub fn overruns(&self) -> u64 {
        self.shared.overruns.load(Ordering::Relaxed)
    }
}

impl SoundCard for PulseCard {
    fn name(&self) -> &str {
        "sound server"
    }

    fn queued(&mut self) -> usize {
        RING_SAMPLES - self.to_play.slots()
    }

    fn play(&mut self, samples: &[i16]) {
        // The rest is dropped, as the trait permits; a headset queues less than this.
        let _ = self.to_play.push_partial_slice(samples);
    }

    fn is_playing(&self) -> bool {
        self.shared.is_playing.load(Ordering::Relaxed)
    }

    fn captured(&mut self) -> usize {
        self.shared.wants_microphone.store(true, Ordering::Relaxed);
        self.captured.slots()
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
        self.captured.pop_partial_slice(room).0.len()
    }
}

impl Drop for PulseCard {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for PulseCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PulseCard").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Capacity of each direction in samples: 256 ms, twice the queue of a headset.
const RING_SAMPLES: usize = 2048;

/// Maximum number of unread events; further ones are dropped.
const EVENTS_MAX: usize = 16;

#[cfg(test)]
mod tests;
