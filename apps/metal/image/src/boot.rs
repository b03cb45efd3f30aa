//! Boot information: memory map, command line, a file, text screen; symbols that the compiler and the prebuilt core library
//! require of every program.
//!
//! GRUB passes it by Multiboot2 (specification, chapter 3.6), `qemu -kernel` by PVH (Xen's `hvm_start_info`). Both
//! leave it in memory that becomes heap, so it is copied before the heap starts.

use core::arch::global_asm;
use core::cell::UnsafeCell;

/// Boot information from the loader.
pub(crate) struct Boot {
    /// Boot protocol of the loader.
    pub(crate) loader: &'static str,
    /// Kernel command line, at most [`COMMAND_LINE_BYTES_MAX`] bytes; empty if it is not valid UTF-8.
    pub(crate) command_line: &'static str,
    /// Free memory according to the firmware; it includes the image.
    pub(crate) memory: &'static [Region],
    /// First file that the loader passed along (a Multiboot2 or PVH module). `None`: there is none, or it is larger than
    /// [`FILE_BYTES_MAX`].
    pub(crate) file: Option<&'static [u8]>,
    /// Size of that file.
    pub(crate) file_bytes: usize,
    /// True if the firmware left the screen in text mode with 80 by 25 cells.
    pub(crate) has_text_screen: bool,
}

/// A range of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    /// First byte.
    pub(crate) start: u64,
    /// First byte behind the region.
    pub(crate) end: u64,
}

impl Region {
    pub(crate) fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Boot {
    /// Reads the boot information at `information`.
    ///
    /// # Safety
    /// `magic` and `information` are the loader's values, memory up to 4 GiB is identity-mapped, nothing has been
    /// written to it yet, and this is called once.
    pub(crate) unsafe fn read(magic: u32, information: u32) -> Self {
        // SAFETY: the caller calls once, so this reference is unique.
        let copied = unsafe { &mut *COPIED.0.get() };
        let at = Physical(u64::from(information));
        let loader = match magic {
            MULTIBOOT2_MAGIC => {
                copied.read_multiboot2(at);
                "Multiboot2"
            }
            PVH_MAGIC => {
                copied.read_pvh(at);
                "PVH"
            }
            _ => "an unknown loader",
        };
        Self {
            loader,
            command_line: core::str::from_utf8(&copied.command_line[..copied.command_line_bytes])
                .unwrap_or_default()
                .trim_matches(|c: char| c.is_whitespace() || c == '\0'),
            memory: &copied.memory[..copied.regions],
            file: copied.file.get(..copied.file_bytes).filter(|file| !file.is_empty()),
            file_bytes: copied.file_bytes,
            has_text_screen: Physical(VIDEO_MODE).u8() == TEXT_80_BY_25,
        }
    }

    /// Value of a word `name=value` of the command line; the last one applies.
    pub(crate) fn value(&self, name: &str) -> Option<&'static str> {
        self.command_line
            .split_ascii_whitespace()
            .rev()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

struct Copied {
    command_line: [u8; COMMAND_LINE_BYTES_MAX],
    command_line_bytes: usize,
    memory: [Region; REGIONS_MAX],
    regions: usize,
    file: [u8; FILE_BYTES_MAX],
    file_bytes: usize,
}

impl Copied {
    fn read_multiboot2(&mut self, information: Physical) {
        let end = information.plus(u64::from(information.u32()));
        let mut tag = information.plus(8);
        while tag.0 + 8 <= end.0 {
            let (kind, bytes) = (tag.u32(), u64::from(tag.plus(4).u32()));
            match kind {
                TAG_END => break,
                TAG_COMMAND_LINE => self.copy_command_line(tag.plus(8)),
                TAG_MODULE => {
                    let (start, end) = (u64::from(tag.plus(8).u32()), u64::from(tag.plus(12).u32()));
                    self.copy_file(Physical(start), end.saturating_sub(start));
                }
                TAG_MEMORY_MAP => {
                    let entry_bytes = u64::from(tag.plus(8).u32()).max(24);
                    let mut entry = tag.plus(16);
                    while entry.0 + entry_bytes <= tag.0 + bytes {
                        self.add_memory(entry.u64(), entry.plus(8).u64(), entry.plus(16).u32());
                        entry = entry.plus(entry_bytes);
                    }
                }
                _ => {}
            }
            tag = tag.plus(bytes.max(8).next_multiple_of(8));
        }
    }

    fn read_pvh(&mut self, information: Physical) {
        let command_line = information.plus(24).u64();
        if command_line != 0 {
            self.copy_command_line(Physical(command_line));
        }
        if information.plus(12).u32() > 0 {
            let module = Physical(information.plus(16).u64());
            self.copy_file(Physical(module.u64()), module.plus(8).u64());
        }
        let map = Physical(information.plus(40).u64());
        for index in 0..u64::from(information.plus(48).u32()) {
            let entry = map.plus(index * 24);
            self.add_memory(entry.u64(), entry.plus(8).u64(), entry.plus(16).u32());
        }
    }

    fn copy_command_line(&mut self, from: Physical) {
        self.command_line_bytes = 0;
        for (index, to) in self.command_line.iter_mut().enumerate() {
            let byte = from.plus(index as u64).u8();
            if byte == 0 {
                break;
            }
            *to = byte;
            self.command_line_bytes = index + 1;
        }
    }

    /// Copies the first file; of one that is too large only the size is noted.
    fn copy_file(&mut self, from: Physical, bytes: u64) {
        if self.file_bytes > 0 {
            return;
        }
        self.file_bytes = bytes as usize;
        let to = self.file.get_mut(..self.file_bytes).unwrap_or_default();
        for (index, to) in to.iter_mut().enumerate() {
            *to = from.plus(index as u64).u8();
        }
    }

    fn add_memory(&mut self, start: u64, bytes: u64, kind: u32) {
        if kind == MEMORY_FREE
            && bytes > 0
            && let Some(region) = self.memory.get_mut(self.regions)
        {
            *region = Region { start, end: start.saturating_add(bytes) };
            self.regions += 1;
        }
    }
}

/// Physical address below 4 GiB from the loader.
#[derive(Clone, Copy)]
struct Physical(u64);

impl Physical {
    fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    fn u8(self) -> u8 {
        if self.0 >= FOUR_GIB - 8 {
            return 0;
        }
        // SAFETY: all below 4 GiB is mapped while `Boot::read` runs, and any bytes are a value.
        unsafe { (self.0 as *const u8).read_volatile() }
    }

    fn u32(self) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|index| self.plus(index as u64).u8()))
    }

    fn u64(self) -> u64 {
        u64::from_le_bytes(core::array::from_fn(|index| self.plus(index as u64).u8()))
    }
}

struct Once(UnsafeCell<Copied>);

// SAFETY: there is one processor and no interrupt, and `Boot::read` takes the only reference.
unsafe impl Sync for Once {}

static COPIED: Once = Once(UnsafeCell::new(Copied {
    command_line: [0; COMMAND_LINE_BYTES_MAX],
    command_line_bytes: 0,
    memory: [Region { start: 0, end: 0 }; REGIONS_MAX],
    regions: 0,
    file: [0; FILE_BYTES_MAX],
    file_bytes: 0,
}));

/// Maximum length of the command line; the rest is cut off.
pub(crate) const COMMAND_LINE_BYTES_MAX: usize = 2048;

/// Maximum size of the file: a key and a chain of certificates.
pub(crate) const FILE_BYTES_MAX: usize = 32 << 10;

/// First address that a 32-bit device cannot access.
pub(crate) const FOUR_GIB: u64 = 1 << 32;

const REGIONS_MAX: usize = 64;
const MULTIBOOT2_MAGIC: u32 = 0x36D7_6289;
const PVH_MAGIC: u32 = 0x336E_C578;
const TAG_END: u32 = 0;
const TAG_COMMAND_LINE: u32 = 1;
const TAG_MODULE: u32 = 3;
const TAG_MEMORY_MAP: u32 = 6;
const MEMORY_FREE: u32 = 1;
/// Video mode in the BIOS data area (40:49h).
const VIDEO_MODE: u64 = 0x449;
const TEXT_80_BY_25: u8 = 3;

global_asm!(include_str!("boot.s"));
global_asm!(include_str!("fault.s"));
global_asm!(include_str!("memory.s"));

/// Referenced by unwind tables; panics do not unwind.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Referenced by the core library; panics do not unwind.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    crate::port::halt()
}
