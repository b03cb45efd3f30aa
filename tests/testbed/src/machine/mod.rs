//! The image in an emulated PC for tests: its serial port is the process's standard input and output, and a
//! reset ends the process.

pub(crate) mod emulator;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask::image::Image;

use emulator::{BootFrom, Card, Emulator, Network};

use crate::process::Process;

/// Configuration of a PC.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    medium: Medium,
    card: Card,
    options: Vec<String>,
    /// File with certificate and key, and the port of 127.0.0.1 that is forwarded to port 5061.
    tls: Option<(PathBuf, u16)>,
}

/// Boot medium of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// ELF file, loaded by QEMU.
    Kernel,
    /// ISO file as a CD.
    Cd,
    /// ISO file as a USB stick.
    Usb,
}

impl Machine {
    /// Address of this computer in the PC's network.
    pub(crate) const HOST: &'static str = "10.0.2.2";

    /// Settings file in the folder served by TFTP.
    pub(crate) const SETTINGS_FILE: &'static str = "ringway.toml";

    /// A PC that boots from `medium`, with virtio-net.
    pub(crate) const fn new(medium: Medium) -> Self {
        Self { medium, card: Card::Virtio, options: Vec::new(), tls: None }
    }

    /// Same with another network card.
    pub(crate) fn with_card(self, card: Card) -> Self {
        Self { card, ..self }
    }

    /// Same with further options for QEMU.
    pub(crate) fn with_options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Same with a certificate and its key on the boot medium; `port` of 127.0.0.1 is forwarded to its port 5061.
    pub(crate) fn with_tls(self, file: PathBuf, port: u16) -> Self {
        Self { tls: Some((file, port)), ..self }
    }

    /// Starts the PC with `words` as its command line; its port 5060 is forwarded from `port` of 127.0.0.1,
    /// and `folder` is served by TFTP. Its output is in `machine.out` there.
    pub(crate) fn start(&self, folder: &Path, port: u16, words: &str) -> Result<Process> {
        Process::start("machine", &mut self.command(folder, port, words)?, folder)
    }

    /// Command that starts the PC like that; it has already built the ISO file.
    pub(crate) fn command(&self, folder: &Path, port: u16, words: &str) -> Result<Command> {
        let tftp = Some(folder.to_path_buf());
        let tls_port = self.tls.as_ref().map(|(_, port)| *port);
        let network = Network::Played { sip_port: port, tls_port, more_ports: Vec::new(), tftp };
        self.command_in(network, folder, words)
    }

    /// Same in any network, in which a TFTP server serves the files in `folder`.
    pub(crate) fn command_in(&self, network: Network, folder: &Path, words: &str) -> Result<Command> {
        std::fs::write(folder.join(Self::SETTINGS_FILE), SETTINGS).context("cannot write settings")?;
        let words = format!("config={} {words}", Self::SETTINGS_FILE);
        let image = Image { iso: folder.join("machine.iso"), ..Image::server() };
        if self.medium != Medium::Kernel {
            image.build_iso(&words, self.tls.as_ref().map(|(file, _)| file.as_path()))?;
        }
        let boot = match self.medium {
            Medium::Kernel => {
                BootFrom::Kernel(image.elf, words, self.tls.as_ref().map(|(file, _)| file.clone()))
            }
            Medium::Cd => BootFrom::Cd(image.iso),
            Medium::Usb => BootFrom::Usb(image.iso),
        };
        let emulator = Emulator { boot, card: self.card, memory_mib: MEMORY_MIB, network };
        let mut command = emulator.command()?;
        command.args(["-display", "none", "-serial", "stdio", "-no-reboot"]).args(&self.options);
        Ok(command)
    }
}

/// Same as in `cargo xtask metal run`.
const MEMORY_MIB: u32 = 128;

/// All phones of a test have the same address, so the rate limit is off.
const SETTINGS: &str = "domains = [\"example.org\"]\n[limits]\nper_source_rate = 0\n";
