//! Builds `apps/metal/image` for a machine without an operating system, with the core library of the standard
//! target.
//!
//! The flags are given only here, so that the rest of the workspace is built as usual. The target is named on
//! the command line, because otherwise cargo would apply the flags to build scripts too.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Image, bytes_of, elf, need};
use crate::workspace::{cargo, root, succeed, target_dir};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Command line of the image in the server's ISO file
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// The same for the phone: account=sip:alice@example.org password=… server=ADDRESS …
    #[arg(long, value_name = "WORDS", default_value = "")]
    append_phone: String,
    /// Certificate and key of the server in one PEM file (ECDSA on P-256), copied to its ISO file; with the word tls=5061
    #[arg(long, value_name = "FILE.pem", conflicts_with = "elf_only")]
    tls: Option<PathBuf>,
    /// Only the ELF file, which needs neither GRUB nor xorriso
    #[arg(long)]
    elf_only: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let images =
        [(Image::paths(), &args.append, args.tls.as_deref()), (Image::phone(), &args.append_phone, None)];
    for (image, words, file) in images {
        build_elf(&image)?;
        println!("{} ({} bytes)", image.elf.display(), bytes_of(&image.elf)?);
        if !args.elf_only {
            build_iso(&image, words, file)?;
            println!("{} ({} bytes)", image.iso.display(), bytes_of(&image.iso)?);
        }
    }
    Ok(())
}

/// Builds the ELF file and checks that it does not depend on an operating system.
pub(super) fn build_elf(image: &Image) -> Result<()> {
    let target = target_dir().join("metal");
    let guard = target.join("no-libc");
    write_empty_libraries(&guard)?;
    let mut build =
        cargo(&["build", "--quiet", "--release", "--locked", "--target", TARGET, "--manifest-path"]);
    build.arg(root().join(MANIFEST)).arg("--target-dir").arg(&target).args(["--bin", image.name]);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(&guard)?.join("\x1f"));
    succeed(&mut build).context(
        "the image does not build. `duplicate lang item` means that something below it brings std; undefined symbols \
         mean that something below it wants an operating system",
    )?;
    std::fs::copy(target.join(TARGET).join("release").join(image.name), &image.elf)?;
    let bytes = bytes_of(&image.elf)?;
    let most = image.elf_bytes_max;
    if bytes > most {
        bail!("{} has {bytes} bytes; {most} is the limit (elf_bytes_max)", image.elf.display());
    }
    elf::check(&image.elf)
}

/// `cargo fmt --check` of the image, which is not part of the workspace.
pub(crate) fn check_format() -> Result<()> {
    succeed(cargo(&["fmt", "--check", "--manifest-path"]).arg(root().join(MANIFEST)))
}

/// `cargo clippy` of the image with warnings as errors; the image is not part of the workspace.
pub(crate) fn check_lints() -> Result<()> {
    let mut clippy =
        cargo(&["clippy", "--quiet", "--release", "--locked", "--target", TARGET, "--manifest-path"]);
    clippy.arg(root().join(MANIFEST)).arg("--target-dir").arg(target_dir().join("metal"));
    succeed(clippy.args(["--", "-D", "warnings"]))
}

/// Wraps the ELF file in GRUB: a file that boots as a CD and as a disk. GRUB passes `file` to the image.
pub(super) fn build_iso(image: &Image, words: &str, file: Option<&Path>) -> Result<()> {
    need("grub-mkrescue", "grub-common")?;
    need("xorriso", "xorriso")?;
    need("mformat", "mtools")?;
    if !Path::new(GRUB_BIOS).is_dir() {
        bail!("{GRUB_BIOS} is missing: `apt-get install --no-install-recommends grub-pc-bin`");
    }
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("boot/grub"))?;
    std::fs::copy(&image.elf, folder.join(format!("boot/{}.elf", image.name)))?;
    if let Some(file) = file {
        let to = folder.join(format!("boot/{MODULE}"));
        std::fs::copy(file, to).with_context(|| format!("cannot read {}", file.display()))?;
    }
    std::fs::write(folder.join("boot/grub/grub.cfg"), grub_menu(image.name, words, file.is_some()))?;
    let mut mkrescue = std::process::Command::new("grub-mkrescue");
    // Only for a BIOS and with the modules that the menu needs, which also loads faster.
    mkrescue.args(["-d", GRUB_BIOS, "--locales=", "--fonts=", "--themes=", "--compress=xz"]);
    mkrescue.arg(format!("--install-modules={GRUB_MODULES}")).arg("-o").arg(&image.iso).arg(folder);
    let output = mkrescue.output().context("cannot start grub-mkrescue")?;
    if !output.status.success() {
        bail!("grub-mkrescue failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
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
}
