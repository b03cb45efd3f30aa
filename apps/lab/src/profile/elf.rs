//! Symbol tables of programs and libraries.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// True if a program or library of 64 bits has a symbol table, not only the names that it exports; `None` if the file cannot be
/// read as such a one.
pub(super) fn has_symbols(path: &Path) -> Option<bool> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; 64];
    file.read_exact(&mut head).ok()?;
    // Magic, 64 bits, little endian.
    if head.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    let sections_at = u64::from_le_bytes(head.get(0x28..0x30)?.try_into().ok()?);
    let size = u16::from_le_bytes(head.get(0x3a..0x3c)?.try_into().ok()?);
    let count = u16::from_le_bytes(head.get(0x3c..0x3e)?.try_into().ok()?);
    if size != SECTION_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(sections_at)).ok()?;
    for _ in 0..count {
        let mut section = [0; SECTION_BYTES as usize];
        file.read_exact(&mut section).ok()?;
        if u32::from_le_bytes(section.get(4..8)?.try_into().ok()?) == SYMBOL_TABLE {
            return Some(true);
        }
    }
    Some(false)
}

/// Length of the header of a section.
const SECTION_BYTES: u16 = 64;
/// `SHT_SYMTAB`.
const SYMBOL_TABLE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_symbol_tables_unless_they_are_stripped() {
        assert_eq!(has_symbols(&std::env::current_exe().unwrap()), Some(true));
        assert_eq!(has_symbols(Path::new("/proc/self/status")), None);
        assert_eq!(has_symbols(Path::new("/does/not/exist")), None);
        let folder = tempfile::tempdir().unwrap();
        let mut program = vec![0; 128];
        program[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        program[0x28] = 64;
        (program[0x3a], program[0x3c]) = (64, 1);
        let path = folder.path().join("program");
        for (kind, count, expected) in [(2, 1, Some(true)), (11, 1, Some(false)), (11, 9, None)] {
            (program[64 + 4], program[0x3c]) = (kind, count);
            std::fs::write(&path, &program).unwrap();
            assert_eq!(has_symbols(&path), expected);
        }
    }
}
