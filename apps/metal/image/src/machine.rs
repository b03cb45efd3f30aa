//! Start of the machine: initialises and detects the hardware.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use ringway_ethernet::Card as _;
use ringway_metal::SoundCard;

use crate::ac97::Ac97;
use crate::boot::{Boot, FILE_BYTES_MAX, Region};
use crate::card::AnyCard;
use crate::entropy::{self, Sources};
use crate::pci::{self, Function};
use crate::{check, clock, console, fault, heap, paging, port, say};

/// Detected hardware.
pub(crate) struct Hardware {
    /// Boot information.
    pub(crate) boot: Boot,
    /// Functions on the PCI bus.
    pub(crate) functions: Vec<Function>,
    /// Started network card.
    pub(crate) card: AnyCard,
    /// Name of the network card.
    pub(crate) card_name: &'static str,
    /// Random seed with its sources. `None`: there is no trustworthy source.
    pub(crate) random_seed: Option<([u8; 32], Sources)>,
    /// Another one, if there is a file of the boot loader.
    pub(crate) tls_seed: Option<[u8; 32]>,
}

/// Starts the machine and prints what it detects. Panics if it cannot continue.
///
/// # Safety
/// Called once, with the loader's values, on the stack and the page tables of boot.s.
pub(crate) unsafe fn start(magic: u32, information: u32) -> Hardware {
    console::start_serial();
    // SAFETY: called once.
    unsafe { fault::start() };
    // SAFETY: the caller's contract; until now the image has written only to its own memory.
    let boot = unsafe { Boot::read(magic, information) };
    console::start_screen(boot.has_text_screen);
    if boot.value("fault") == Some("stop") {
        fault::stop_after_report();
    }
    // SAFETY: called once. The heap uses memory that is free according to the firmware, without the image.
    let (has_no_execute, heap_bytes) = unsafe {
        let has_no_execute = paging::start(boot.memory);
        let layout = paging::layout();
        let image = Region { start: layout.text.start, end: layout.data.end };
        (has_no_execute, heap::start(boot.memory, image))
    };
    say!("Ringway {} without an operating system", env!("CARGO_PKG_VERSION"));
    match boot.file {
        Some(file) => say!("boot: a file of {} bytes", file.len()),
        None if boot.file_bytes > 0 => {
            say!("boot: a file of {} bytes is ignored; the limit is {FILE_BYTES_MAX}", boot.file_bytes);
        }
        None => {}
    }
    let total: u64 = boot.memory.iter().map(|region| region.bytes()).sum();
    say!("boot: {}, command line \"{}\"", boot.loader, boot.command_line);
    say!(
        "memory: {} MiB free, heap {} MiB, data {}executable",
        total >> 20,
        heap_bytes >> 20,
        if has_no_execute { "not " } else { "(no NX) " }
    );
    let source = clock::start();
    clock::set_date(clock::seconds_since_1970().unwrap_or(clock::NO_DATE));
    say!(
        "clock: {}.{:03} MHz ({source:?}), {}, {} s since 1970",
        clock::hertz() / 1_000_000,
        clock::hertz() / 1000 % 1000,
        if clock::is_invariant() { "invariant" } else { "not invariant" },
        clock::now().as_secs()
    );
    let name = processor_name();
    say!("processor: {}", core::str::from_utf8(&name).unwrap_or_default().trim_matches(['\0', ' ']));
    if boot.value("check") == Some("memory") {
        check::memory_functions();
    }
    if let Some(name) = boot.value("provoke") {
        check::provoke(name);
    }
    let functions = functions();
    let (card, card_name) = start_card(&functions);
    let random_seed = entropy::seed(&functions, card.address());
    say!("random: {}", sources(random_seed.map(|(_, sources)| sources)));
    // Only a file has keys that need one.
    let tls_seed = boot.file.and_then(|_| entropy::seed(&functions, card.address()));
    let tls_seed = tls_seed.map(|(seed, _)| seed);
    Hardware { boot, functions, card, card_name, random_seed, tls_seed }
}

/// Starts the first sound card that works.
pub(crate) fn start_sound(functions: &[Function]) -> Option<Box<dyn SoundCard>> {
    for function in functions {
        match Ac97::start(function) {
            Some(Ok(card)) => {
                say!("sound: {} at {}", card.name(), function.at);
                return Some(card);
            }
            Some(Err(error)) => say!("sound: AC97 at {}: {error}", function.at),
            None if function.is.class == MULTIMEDIA => {
                let (vendor, device) = (function.is.vendor_id, function.is.device_id);
                say!("sound: no driver for {vendor:04x}:{device:04x} at {}", function.at);
            }
            None => {}
        }
    }
    None
}

/// Functions on the PCI bus. Buses without a bridge are searched only if no network card is found.
fn functions() -> Vec<Function> {
    let functions = pci::functions(false);
    if functions.iter().any(|function| AnyCard::name(function).is_some()) {
        return functions;
    }
    pci::functions(true)
}

/// Starts all network cards and selects the first with a link, else the first that starts.
fn start_card(functions: &[Function]) -> (AnyCard, &'static str) {
    let mut cards = Vec::new();
    for function in functions {
        let Some(name) = AnyCard::name(function) else { continue };
        match AnyCard::start(function) {
            Some(Ok(card)) => {
                let [a, b, c, d, e, f] = card.address();
                say!("card: {name} at {}, {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}", function.at);
                cards.push((card, name));
            }
            Some(Err(error)) => say!("card: {name} at {}: {error}", function.at),
            None => {}
        }
    }
    // Autonegotiation after a reset takes a while; with one card there is nothing to wait for.
    let limit = if cards.len() > 1 { LINK_TIME_MAX } else { Duration::ZERO };
    let mut chosen = 0;
    let has_link = clock::wait_until(limit, || {
        let up = cards.iter_mut().position(|(card, _)| card.is_up());
        chosen = up.unwrap_or_default();
        up.is_some()
    });
    if chosen < cards.len() {
        let (card, name) = cards.swap_remove(chosen);
        say!("card: using {name}, {}", if has_link { "link up" } else { "no link yet" });
        // The other cards continue to write frames into their buffers, which must not be freed.
        core::mem::forget(cards);
        return (card, name);
    }
    for function in functions.iter().filter(|function| function.is.class == NETWORK) {
        let (vendor, device) = (function.is.vendor_id, function.is.device_id);
        say!("card: no driver for {vendor:04x}:{device:04x} at {}", function.at);
    }
    panic!("no supported network card found; supported are virtio-net, Intel 8254x, 82574, I217, I218, I219");
}

fn sources(sources: Option<Sources>) -> &'static str {
    match sources {
        Some(Sources { rdrand: true, virtio_rng: true }) => "RDRAND and virtio-rng",
        Some(Sources { rdrand: true, virtio_rng: false }) => "RDRAND",
        Some(Sources { rdrand: false, virtio_rng: true }) => "virtio-rng",
        Some(Sources { rdrand: false, virtio_rng: false }) | None => "no trustworthy source",
    }
}

/// CPUID 0x8000_0002 to 0x8000_0004.
fn processor_name() -> [u8; 48] {
    let mut name = [0; 48];
    for (part, leaf) in name.chunks_exact_mut(16).zip(0x8000_0002..) {
        for (bytes, register) in part.chunks_exact_mut(4).zip(port::cpuid(leaf, 0)) {
            bytes.copy_from_slice(&register.to_le_bytes());
        }
    }
    name
}

/// Copper links negotiate within three seconds.
const LINK_TIME_MAX: Duration = Duration::from_secs(3);
/// PCI class of network controllers.
const NETWORK: u8 = 2;
/// PCI class of multimedia controllers.
const MULTIMEDIA: u8 = 4;
