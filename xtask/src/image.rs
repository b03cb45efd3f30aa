//! Builds `apps/metal/image` for a machine without an operating system, with the core library of the standard target,
//! and checks its ELF file with the crate `object`: linking also succeeds with a shared C library, so a successful link
//! proves nothing.
//!
//! The flags are given only here, so that the rest of the workspace is built as usual. The target is named on
//! the command line, because otherwise cargo would apply the flags to build scripts too.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};

use crate::workspace::{cargo, has_program, root, succeed, target_dir};

/// Files of a build.
pub struct Image {
    /// Name of the program and of its file.
    pub name: &'static str,
    /// Kernel, an ELF file for loaders of Multiboot2 and PVH.
    pub elf: PathBuf,
    /// Kernel with GRUB, for a CD or a USB stick.
    pub iso: PathBuf,
    /// Maximum size of the kernel in bytes.
    pub elf_bytes_max: u64,
}

impl Image {
    /// Files of the server.
    pub fn server() -> Self {
        Self::of("ringway-metal", SERVER_BYTES_MAX)
    }

    /// Files of the phone.
    pub fn phone() -> Self {
        Self::of("ringway-metal-phone", PHONE_BYTES_MAX)
    }

    fn of(name: &'static str, elf_bytes_max: u64) -> Self {
        let target = target_dir();
        let (elf, iso) = (target.join(format!("{name}.elf")), target.join(format!("{name}.iso")));
        Self { name, elf, iso, elf_bytes_max }
    }

    /// Builds the ELF file and checks that it does not depend on an operating system.
    ///
    /// # Errors
    /// The image does not build, needs an operating system, or is larger than its limit.
    pub fn build_elf(&self) -> Result<()> {
        succeed(&mut build_command(&[self])?).context(
            "the image does not build. `duplicate lang item` means that something below it brings std; undefined symbols \
             mean that something below it wants an operating system",
        )?;
        std::fs::copy(target_folder().join(TARGET).join("release").join(self.name), &self.elf)?;
        let bytes = bytes_of(&self.elf)?;
        let most = self.elf_bytes_max;
        if bytes > most {
            bail!("{} has {bytes} bytes; {most} is the limit (elf_bytes_max)", self.elf.display());
        }
        check_elf(&self.elf)
    }

    /// Wraps the ELF file in GRUB: a file that boots as a CD and as a disk. GRUB passes `file` to the image.
    ///
    /// # Errors
    /// A program is missing or fails, or `file` cannot be read.
    pub fn build_iso(&self, words: &str, file: Option<&Path>) -> Result<()> {
        need("grub-mkrescue", "grub-common")?;
        need("xorriso", "xorriso")?;
        need("mformat", "mtools")?;
        if !Path::new(GRUB_BIOS).is_dir() {
            bail!("{GRUB_BIOS} is missing: `apt-get install --no-install-recommends grub-pc-bin`");
        }
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        std::fs::create_dir_all(folder.join("boot/grub"))?;
        std::fs::copy(&self.elf, folder.join(format!("boot/{}.elf", self.name)))?;
        if let Some(file) = file {
            let to = folder.join(format!("boot/{MODULE}"));
            std::fs::copy(file, to).with_context(|| format!("cannot read {}", file.display()))?;
        }
        std::fs::write(folder.join("boot/grub/grub.cfg"), grub_menu(self.name, words, file.is_some()))?;
        let mut mkrescue = std::process::Command::new("grub-mkrescue");
        // Only for a BIOS and with the modules that the menu needs, which also loads faster.
        mkrescue.args(["-d", GRUB_BIOS, "--locales=", "--fonts=", "--themes=", "--compress=xz"]);
        mkrescue.arg(format!("--install-modules={GRUB_MODULES}")).arg("-o").arg(&self.iso).arg(folder);
        let output = mkrescue.output().context("cannot start grub-mkrescue")?;
        if !output.status.success() {
            bail!("grub-mkrescue failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// `cargo fmt --check` of the image, which is not part of the workspace.
pub fn check_format() -> Result<()> {
    succeed(cargo(&["fmt", "--check", "--manifest-path"]).arg(root().join(MANIFEST)))
}

/// Cargo's command that builds images.
///
/// # Errors
/// The files for the linker cannot be written.
pub fn build_command(images: &[&Image]) -> Result<Command> {
    let guard = target_folder().join("no-libc");
    write_empty_libraries(&guard)?;
    let mut build = image_command("build");
    build.args(images.iter().flat_map(|image| ["--bin", image.name]));
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(&guard)?.join("\x1f"));
    Ok(build)
}

/// Tables of the image's manifest with its profiles.
///
/// # Errors
/// The manifest cannot be read.
pub fn profiles() -> Result<String> {
    let text = std::fs::read_to_string(root().join(MANIFEST)).context(MANIFEST)?;
    let manifest: toml::Table = text.parse().context(MANIFEST)?;
    let profile = manifest.get("profile").cloned().with_context(|| format!("{MANIFEST} has no profile"))?;
    Ok(toml::to_string(&toml::Table::from_iter([("profile".to_owned(), profile)]))?)
}

/// Cargo's target folder of the image.
pub fn target_folder() -> PathBuf {
    target_dir().join("metal")
}

/// `cargo clippy` of the image with warnings as errors; the image is not part of the workspace.
pub fn lint_command() -> Command {
    let mut clippy = image_command("clippy");
    clippy.args(["--", "-D", "warnings"]);
    clippy
}

fn image_command(task: &str) -> Command {
    let mut command = cargo(&[task, "--quiet", "--locked"]);
    command.args(CHECK).arg("--manifest-path").arg(root().join(MANIFEST));
    command.arg("--target-dir").arg(target_folder());
    command
}

fn flags(guard: &Path) -> Result<Vec<String>> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
    };
    let root = text(&root())?;
    let mut flags: Vec<String> =
        ["-Crelocation-model=static", "-Ccode-model=small", "-Cno-redzone=yes"].map(str::to_owned).into();
    let to_linker =
        ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", "-Wl,--gc-sections"];
    flags.extend(to_linker.map(|argument| format!("-Clink-arg={argument}")));
    flags.push("-Clink-arg=-Wl,-z,max-page-size=4096".into());
    flags.push(format!("-Clink-arg=-Wl,-T{root}/apps/metal/image/link.ld"));
    // A crate's C library adds -lc: it finds an empty one, and an undefined symbol is an error.
    flags.push(format!("-Lnative={}", text(guard)?));
    flags.push("-Clink-arg=-Wl,-Bstatic".into());
    // Panics have file names relative to the project, wherever it was built.
    flags.push(format!("--remap-path-prefix={root}/="));
    if let Some(registry) = cargo_home() {
        flags.push(format!("--remap-path-prefix={}/registry/src/=", text(&registry)?));
    }
    Ok(flags)
}

fn cargo_home() -> Option<std::path::PathBuf> {
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(Into::into).or_else(home)
}

/// Writes empty archives for the linker to find instead of the C library.
fn write_empty_libraries(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    for name in ["libc.a", "libgcc_s.a"] {
        let path = folder.join(name);
        if std::fs::read(&path).ok().as_deref() != Some(EMPTY_ARCHIVE) {
            std::fs::write(&path, EMPTY_ARCHIVE)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// GRUB's menu with one entry, started at once.
fn grub_menu(name: &str, words: &str, has_file: bool) -> String {
    let quoted: String =
        words.split_whitespace().map(|word| format!(" '{}'", word.replace('\'', "'\\''"))).collect();
    let module = if has_file { format!("    module2 /boot/{MODULE}\n") } else { String::new() };
    format!(
        "set timeout=0\nset default=0\nmenuentry 'Ringway' {{\n    multiboot2 /boot/{name}.elf{quoted}\n{module}}}\n"
    )
}

/// Fails with the name of the package if a program is missing.
///
/// # Errors
/// The program is not in the path.
pub fn need(program: &str, package: &str) -> Result<()> {
    if !has_program(program) {
        bail!(
            "{program} is missing: `apt-get install --no-install-recommends {package}`, or .ci/install for all"
        );
    }
    Ok(())
}

/// Size of a file.
///
/// # Errors
/// The file cannot be read.
pub fn bytes_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}

/// Fails if the file needs a loader or a library, has undefined symbols, or maps a segment that is both
/// writable and executable.
fn check_elf(path: &Path) -> Result<()> {
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

/// Limits for small boot loaders. Of the server's 1.92 MB some 0.4 MB are TLS: rustls, its provider, P-256, PEM and DER
/// (docs/decisions/0029).
const SERVER_BYTES_MAX: u64 = 2_280_000;
const PHONE_BYTES_MAX: u64 = 1_610_000;

/// Words for cargo that choose the form of the image.
pub const CHECK: [&str; 3] = ["--release", "--target", TARGET];
const MANIFEST: &str = "apps/metal/image/Cargo.toml";
/// The standard target, whose core library is always installed.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Name of the image's file on the medium.
const MODULE: &str = "tls.pem";
const EMPTY_ARCHIVE: &[u8] = b"!<arch>\n";
const GRUB_BIOS: &str = "/usr/lib/grub/i386-pc";
const GRUB_MODULES: &str = "multiboot2 normal";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_passed_to_grub_unchanged() {
        let menu = grub_menu("ringway-metal", "domains=a.example  auth=off it's", false);
        assert!(
            menu.contains("multiboot2 /boot/ringway-metal.elf 'domains=a.example' 'auth=off' 'it'\\''s'\n"),
            "{menu}"
        );
        assert!(grub_menu("ringway-metal", "", false).contains("ringway-metal.elf\n}"));
        assert!(
            grub_menu("ringway-metal", "", true).contains("ringway-metal.elf\n    module2 /boot/tls.pem\n}")
        );
    }

    #[test]
    fn a_program_of_an_operating_system_is_rejected() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let findings = findings(&own).unwrap();
        for what in ["PT_INTERP", "PT_DYNAMIC", "undefined symbols"] {
            assert!(findings.iter().any(|finding| finding.contains(what)), "{what}: {findings:?}");
        }
    }
}
