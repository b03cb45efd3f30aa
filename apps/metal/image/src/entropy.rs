//! Random seed: 32 bytes from the processor (RDRAND) and from virtio-rng, if there is one.

use core::arch::x86_64::_rdrand64_step;
use core::time::Duration;

use sha2::{Digest, Sha256};
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;
use virtio_drivers::transport::pci::PciTransport;

use crate::card::Identity;
use crate::clock::wait_until;
use crate::pci::{self, Function};
use crate::port::{cpuid, tsc};

/// Sources of the random seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// The processor's RDRAND.
    pub(crate) rdrand: bool,
    /// A virtio-rng device.
    pub(crate) virtio_rng: bool,
}

/// Hashes the output of every source together with the time-stamp counter and the card's address (SHA-256). `None`: no
/// source works; the counter alone is predictable.
pub(crate) fn seed(functions: &[Function], card_address: [u8; 6]) -> Option<([u8; 32], Sources)> {
    let mut hash = Sha256::new();
    hash.update(b"Ringway seed");
    hash.update(card_address);
    hash.update(tsc().to_le_bytes());
    let mut sources = Sources::default();
    if let Some(words) = rdrand_words() {
        words.iter().for_each(|word| hash.update(word.to_le_bytes()));
        sources.rdrand = true;
    }
    hash.update(tsc().to_le_bytes());
    if let Some(bytes) = functions.iter().filter(|function| is_rng(function)).find_map(virtio_rng) {
        hash.update(bytes);
        sources.virtio_rng = true;
    }
    hash.update(tsc().to_le_bytes());
    (sources != Sources::default()).then(|| (hash.finalize().into(), sources))
}

/// Eight words of RDRAND. `None`: the processor lacks it, or repeats a word as defective ones do.
fn rdrand_words() -> Option<[u64; 8]> {
    if cpuid(1, 0)[2] & (1 << 30) == 0 {
        return None;
    }
    let mut words = [0; 8];
    let mut last = rdrand()?;
    for word in &mut words {
        *word = rdrand()?;
        if *word == last {
            return None;
        }
        last = *word;
    }
    Some(words)
}

/// One word of RDRAND; ten tries as recommended (Intel SDM volume 1, 7.3.17.1).
fn rdrand() -> Option<u64> {
    (0..10).find_map(|_| {
        let mut word = 0;
        // SAFETY: `rdrand_words` has checked by CPUID that the instruction exists.
        let has_word = unsafe { rdrand_step(&mut word) };
        has_word.then_some(word)
    })
}

/// # Safety
/// The processor has RDRAND.
#[target_feature(enable = "rdrand")]
unsafe fn rdrand_step(word: &mut u64) -> bool {
    _rdrand64_step(word) == 1
}

fn is_rng(function: &Function) -> bool {
    function.is.vendor_id == 0x1AF4 && matches!(function.is.device_id, 0x1005 | 0x1044)
}

/// 32 bytes of a virtio-rng device (OASIS Virtio 1.2, 5.4). `None`: no answer within half a second.
fn virtio_rng(function: &Function) -> Option<[u8; 32]> {
    pci::enable(function.at);
    let mut transport = PciTransport::new::<Identity, _>(&mut pci::root(), function.at).ok()?;
    let features = transport.begin_init(Features::VERSION_1);
    if !features.contains(Features::VERSION_1) {
        return None;
    }
    let mut queue = VirtQueue::<Identity, 8>::new(&mut transport, 0, false, false).ok()?;
    transport.finish_init();
    let mut bytes = [0; 32];
    // SAFETY: `bytes` is not read before the device has released it; if it does not, the device is reset below, which
    // ends its use of the buffer.
    let token = unsafe { queue.add(&[], &mut [&mut bytes]) }.ok()?;
    transport.notify(0);
    let is_done = wait_until(ANSWER_TIME_MAX, || queue.can_pop());
    // SAFETY: the token belongs to this buffer.
    let written = if is_done { unsafe { queue.pop_used(token, &[], &mut [&mut bytes]) }.ok() } else { None };
    // Dropping the transport resets the device; the queue's memory must outlive that.
    drop(transport);
    drop(queue);
    (written == Some(32)).then_some(bytes)
}

bitflags::bitflags! {
    #[derive(Clone, Copy, Debug)]
    struct Features: u64 {
        const VERSION_1 = 1 << 32;
    }
}

const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);
