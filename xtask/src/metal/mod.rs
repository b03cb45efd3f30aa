//! `cargo xtask metal`: Ringway without an operating system, built as an image and run in an emulated PC.

mod build;
mod elf;
mod emulator;
mod machine;
mod phone;
mod run;
mod test;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::workspace::{has_program, target_dir};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Builds the images of server and phone: an ELF file for `qemu -kernel`, and an ISO file for a CD or a
    /// USB stick
    Build(build::Args),
    /// Runs the image in QEMU, with SIP on a port of this machine; Ctrl-C ends it
    Run(run::Args),
    /// Boots the phone's image in QEMU; it registers at a local server, receives a call and makes one
    Phone(phone::Args),
    /// Boots the image in QEMU and tests it: SIPp, bad input, files, faults, times, memory, instructions
    Test(test::Args),
}

pub(crate) use build::{check_format, check_lints};
pub(crate) use machine::Machine;

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.task {
        Task::Build(args) => build::run(args),
        Task::Run(args) => run::run(args),
        Task::Phone(args) => phone::run(args),
        Task::Test(args) => test::run(args),
    }
}

/// Files of a build.
struct Image {
    /// Name of the program and of its file.
    name: &'static str,
    /// Kernel, an ELF file for loaders of Multiboot2 and PVH.
    elf: PathBuf,
    /// Kernel with GRUB, for a CD or a USB stick.
    iso: PathBuf,
    /// Maximum size of the kernel in bytes.
    elf_bytes_max: u64,
}

impl Image {
    /// Files of the server.
    fn paths() -> Self {
        Self::of("ringway-metal", SERVER_BYTES_MAX)
    }

    /// Files of the phone.
    fn phone() -> Self {
        Self::of("ringway-metal-phone", PHONE_BYTES_MAX)
    }

    fn of(name: &'static str, elf_bytes_max: u64) -> Self {
        let target = target_dir();
        let (elf, iso) = (target.join(format!("{name}.elf")), target.join(format!("{name}.iso")));
        Self { name, elf, iso, elf_bytes_max }
    }
}

/// Limits for small boot loaders. Of the server's 1.92 MB some 0.4 MB are TLS: rustls, its provider, P-256, PEM and DER
/// (docs/decisions/0029).
const SERVER_BYTES_MAX: u64 = 1_950_000;
const PHONE_BYTES_MAX: u64 = 1_550_000;

/// Fails with the name of the package if a program is missing.
fn need(program: &str, package: &str) -> Result<()> {
    if !has_program(program) {
        bail!(
            "{program} is missing: `apt-get install --no-install-recommends {package}`, or .ci/install for all"
        );
    }
    Ok(())
}

fn bytes_of(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path)?.len())
}
