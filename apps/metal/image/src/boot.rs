//! What the loader says: memory, the command line, whether there is a text screen.
//!
//! GRUB says it by Multiboot2 (its specification, chapter 3.6), `qemu -kernel` by PVH (Xen's `hvm_start_info`). Both leave
//! it somewhere in memory that becomes heap, so all of it is copied before there is a heap.

use core::cell::UnsafeCell;

/// What the loader said.
pub(crate) struct Boot {
    /// Who loaded the image.
    pub(crate) loader: &'static str,
    /// The kernel's command line, at most [`COMMAND_LINE_BYTES_MAX`] bytes; empty when it is not UTF-8.
    pub(crate) command_line: &'static str,
    /// Memory that is free for use, as the firmware sees it: the image itself is still in it.
    pub(crate) memory: &'static [Region],
    /// True where the firmware left the screen in the text mode of 80 by 25 cells.
    pub(crate) has_text_screen: bool,
}

/// A range of physical memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    /// Its first byte.
    pub(crate) start: u64,
    /// The first byte behind it.
    pub(crate) end: u64,
}

impl Region {
    /// Its length.
    pub(crate) fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Boot {
    /// Reads what the loader left at `information`.
    ///
    /// # Safety
    /// `magic` and `information` are what the loader handed over, memory up to 4 GiB is mapped as it is, nothing has been
    /// written to it yet, and this is called once.
    pub(crate) unsafe fn read(magic: u32, information: u32) -> Self {
        // SAFETY: the caller calls once, so nobody else has this reference.
        let kept = unsafe { &mut *KEPT.0.get() };
        let at = Physical(u64::from(information));
        let loader = match magic {
            MULTIBOOT2_MAGIC => {
                kept.read_multiboot2(at);
                "Multiboot2"
            }
            PVH_MAGIC => {
                kept.read_pvh(at);
                "PVH"
            }
            _ => "an unknown loader",
        };
        Self {
            loader,
            command_line: core::str::from_utf8(&kept.command_line[..kept.command_line_bytes])
                .unwrap_or_default()
                .trim_matches(|c: char| c.is_whitespace() || c == '\0'),
            memory: &kept.memory[..kept.regions],
            has_text_screen: Physical(VIDEO_MODE).u8() == TEXT_80_BY_25,
        }
    }

    /// The value of a word `name=value` of the command line; the last one wins.
    pub(crate) fn value(&self, name: &str) -> Option<&'static str> {
        self.command_line
            .split_ascii_whitespace()
            .rev()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

struct Kept {
    command_line: [u8; COMMAND_LINE_BYTES_MAX],
    command_line_bytes: usize,
    memory: [Region; REGIONS_MAX],
    regions: usize,
}

impl Kept {
    fn read_multiboot2(&mut self, information: Physical) {
        let end = information.plus(u64::from(information.u32()));
        let mut tag = information.plus(8);
        while tag.0 + 8 <= end.0 {
            let (kind, bytes) = (tag.u32(), u64::from(tag.plus(4).u32()));
            match kind {
                TAG_END => break,
                TAG_COMMAND_LINE => self.copy_command_line(tag.plus(8)),
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

/// A physical address that the loader gave, below 4 GiB.
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

struct Once(UnsafeCell<Kept>);

// SAFETY: there is one processor and no interrupt, and `Boot::read` takes the only reference.
unsafe impl Sync for Once {}

static KEPT: Once = Once(UnsafeCell::new(Kept {
    command_line: [0; COMMAND_LINE_BYTES_MAX],
    command_line_bytes: 0,
    memory: [Region { start: 0, end: 0 }; REGIONS_MAX],
    regions: 0,
}));

/// The longest command line; what is behind it is cut off.
pub(crate) const COMMAND_LINE_BYTES_MAX: usize = 2048;

/// The first address that a device of 32 bits cannot reach.
pub(crate) const FOUR_GIB: u64 = 1 << 32;

const REGIONS_MAX: usize = 64;
const MULTIBOOT2_MAGIC: u32 = 0x36D7_6289;
const PVH_MAGIC: u32 = 0x336E_C578;
const TAG_END: u32 = 0;
const TAG_COMMAND_LINE: u32 = 1;
const TAG_MEMORY_MAP: u32 = 6;
const MEMORY_FREE: u32 = 1;
/// The BIOS's note of the video mode (BIOS data area, 40:49h).
const VIDEO_MODE: u64 = 0x449;
const TEXT_80_BY_25: u8 = 3;
