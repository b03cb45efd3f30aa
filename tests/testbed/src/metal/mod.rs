//! `cargo xtask metal`: Ringway without an operating system, built as an image and run in an emulated PC.

mod phone;
mod run;
mod test;

use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Builds the images of server and phone: an ELF file for `qemu -kernel`, and an ISO file for a CD or a
    /// USB stick
    Build(run::BuildArgs),
    /// Runs the image in QEMU, with SIP on a port of this machine; Ctrl-C ends it
    Run(run::Args),
    /// Boots the phone's image in QEMU; it registers at a local server, receives a call and makes one
    Phone(phone::Args),
    /// Boots the image in QEMU and tests it: SIPp, bad input, files, faults, times, memory, instructions
    Test(test::Args),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.task {
        Task::Build(args) => run::build(args),
        Task::Run(args) => run::run(args),
        Task::Phone(args) => phone::run(args),
        Task::Test(args) => test::run(args),
    }
}
