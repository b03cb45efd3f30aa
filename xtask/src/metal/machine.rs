//! The image in an emulated PC that a test starts: its serial port is the process's input and output, and a reset ends it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::emulator::{BootFrom, Card, Emulator, Network};
use super::{Image, build};
use crate::interop::process::Running;

/// A PC to be.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    medium: Medium,
    card: Card,
    options: Vec<String>,
}

/// What the image is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// The ELF file, loaded by QEMU.
    Kernel,
    /// The ISO file as a CD.
    Cd,
    /// The ISO file as a USB stick.
    Usb,
}

impl Machine {
    /// The address of this computer in its network.
    pub(crate) const HOST: &'static str = "10.0.2.2";

    /// The file with its settings, in the folder that it fetches from.
    pub(crate) const SETTINGS_FILE: &'static str = "ringway.toml";

    /// One that boots from `medium`, with virtio-net.
    pub(crate) const fn new(medium: Medium) -> Self {
        Self { medium, card: Card::Virtio, options: Vec::new() }
    }

    /// The same with another card.
    pub(crate) fn with_card(self, card: Card) -> Self {
        Self { card, ..self }
    }

    /// The same with more of QEMU's options.
    pub(crate) fn with_options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Starts it with `words` on its command line; its port 5060 is `port` of 127.0.0.1, and it may fetch the files in
    /// `folder`. What it says is in `machine.out` there.
    pub(crate) fn start(&self, folder: &Path, port: u16, words: &str) -> Result<Running> {
        Running::start("machine", &mut self.command(folder, port, words)?, folder)
    }

    /// The command that starts it so. Making an ISO file is done by then.
    pub(crate) fn command(&self, folder: &Path, port: u16, words: &str) -> Result<Command> {
        let tftp = Some(folder.to_path_buf());
        self.command_in(Network::Played { sip_port: port, more_ports: Vec::new(), tftp }, folder, words)
    }

    /// The same in any network: a TFTP server in it gives away the files in `folder`.
    pub(crate) fn command_in(&self, network: Network, folder: &Path, words: &str) -> Result<Command> {
        std::fs::write(folder.join(Self::SETTINGS_FILE), SETTINGS).context("cannot write settings")?;
        let words = format!("config={} {words}", Self::SETTINGS_FILE);
        let image = Image { iso: folder.join("machine.iso"), ..Image::paths() };
        if self.medium != Medium::Kernel {
            build::build_iso(&image, &words)?;
        }
        let boot = match self.medium {
            Medium::Kernel => BootFrom::Kernel(image.elf, words),
            Medium::Cd => BootFrom::Cd(image.iso),
            Medium::Usb => BootFrom::Usb(image.iso),
        };
        let emulator = Emulator { boot, card: self.card, memory_mib: MEMORY_MIB, network };
        let mut command = emulator.command()?;
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]).args(&self.options);
        Ok(command)
    }
}

/// As much as `cargo xtask metal run` gives.
const MEMORY_MIB: u32 = 128;

/// All phones of a test have the same address, so it may send much.
const SETTINGS: &str = "domains = [\"example.org\"]\n[limits]\nper_source_rate = 0\n";
