//! Checks of the image's ELF file, read with the crate `object`. Linking also succeeds with a shared C
//! library, so a successful link proves nothing.

use std::path::Path;

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};

/// Fails if the file needs a loader or a library, has undefined symbols, or maps a segment that is both
/// writable and executable.
pub fn check(path: &Path) -> Result<()> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let findings = findings(&data).with_context(|| format!("{} is not an ELF file", path.display()))?;
    if !findings.is_empty() {
        bail!("{} cannot run without an operating system: {}", path.display(), findings.join("; "));
    }
    Ok(())
}

/// Memory of the image in bytes, including its stack and page tables.
pub fn memory_bytes(path: &Path) -> Result<u64> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    let endian = file.endian();
    let headers = file.elf_header().program_headers(endian, &*data)?;
    let loaded = headers.iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    Ok(loaded.map(|header| header.p_memsz(endian)).sum())
}

fn findings(data: &[u8]) -> Result<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(data)?;
    let endian = file.endian();
    let mut findings = Vec::new();
    for header in file.elf_header().program_headers(endian, data)? {
        let flags = header.p_flags(endian);
        match header.p_type(endian) {
            elf::PT_INTERP => findings.push("it has a program interpreter (PT_INTERP)".to_owned()),
            elf::PT_DYNAMIC => findings.push("it is linked dynamically (PT_DYNAMIC, NEEDED)".to_owned()),
            elf::PT_TLS => findings.push("it has thread-local variables (PT_TLS)".to_owned()),
            elf::PT_LOAD if flags & elf::PF_W != 0 && flags & elf::PF_X != 0 => {
                findings
                    .push(format!("a segment at {:#x} is writable and executable", header.p_vaddr(endian)));
            }
            _ => {}
        }
    }
    let undefined: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_undefined() && symbol.index().0 != 0)
        .map(|symbol| symbol.name().unwrap_or("a symbol without a name").to_owned())
        .collect();
    if !undefined.is_empty() {
        findings.push(format!("undefined symbols: {}", undefined.join(", ")));
    }
    if file.symbols().next().is_none() {
        findings.push("it has no symbols, so undefined ones cannot be excluded".to_owned());
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_an_operating_system_is_rejected() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let findings = findings(&own).unwrap();
        for what in ["PT_INTERP", "PT_DYNAMIC", "undefined symbols"] {
            assert!(findings.iter().any(|finding| finding.contains(what)), "{what}: {findings:?}");
        }
    }
}
