//! `cargo xtask metal`: Ringway with no operating system, built as an image and run in an emulated PC.

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
    /// Makes the images of server and phone: an ELF file for `qemu -kernel`, and an ISO file for a CD or a USB stick
    Build(build::Args),
    /// Runs the image in QEMU, with SIP on a port of this machine; Ctrl-C ends it
    Run(run::Args),
    /// Boots the phone's image in QEMU; it registers at a server here, is called and calls
    Phone(phone::Args),
    /// Boots the image in QEMU and tries it: SIPp, bad input, files, faults, times, memory, instructions
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

/// What a build makes.
struct Image {
    /// The program, by the name of its file.
    name: &'static str,
    /// The kernel, an ELF file for loaders of Multiboot2 and PVH.
    elf: PathBuf,
    /// The same with GRUB, for a CD or, byte for byte, a USB stick.
    iso: PathBuf,
}

impl Image {
    /// The server's.
    fn paths() -> Self {
        Self::of("ringway-metal")
    }

    /// The phone's.
    fn phone() -> Self {
        Self::of("ringway-metal-phone")
    }

    fn of(name: &'static str) -> Self {
        let target = target_dir();
        Self { name, elf: target.join(format!("{name}.elf")), iso: target.join(format!("{name}.iso")) }
    }
}

/// Fails with the package's name where a program is missing.
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
