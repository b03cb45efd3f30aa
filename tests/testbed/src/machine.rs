//! The image in an emulated PC for tests: its serial port is the process's standard input and output, and a reset ends
//! the process. A PC in QEMU with an emulated processor (TCG), so that it runs on every computer.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::image::{Image, need};

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

/// Network cards that both the image and QEMU support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Card {
    /// virtio-net
    Virtio,
    /// Intel 82540EM; in QEMU it receives only one second after it was set up
    E1000,
    /// Intel 82574L
    E1000e,
}

/// Boot medium of the PC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootFrom {
    /// ELF file, loaded by QEMU with this command line, and a file for it.
    Kernel(PathBuf, String, Option<PathBuf>),
    /// ISO file as a CD.
    Cd(PathBuf),
    /// ISO file as a USB stick.
    Usb(PathBuf),
}

/// Configuration of the PC.
#[derive(Clone, Debug)]
pub(crate) struct Emulator {
    /// Boot medium.
    pub(crate) boot: BootFrom,
    /// Network card.
    pub(crate) card: Card,
    /// Memory in MiB.
    pub(crate) memory_mib: u32,
    /// Network of the card.
    pub(crate) network: Network,
}

/// Network of the PC's card.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// QEMU's user-mode network with a DHCP server; this computer is 10.0.2.2 in it.
    Played {
        /// Port of 127.0.0.1, UDP and TCP, that is forwarded to the PC's port 5060.
        sip_port: u16,
        /// Port of 127.0.0.1 that is forwarded to the PC's TCP port 5061.
        tls_port: Option<u16>,
        /// Further UDP ports of 127.0.0.1 that are forwarded to the same ports of the PC.
        more_ports: Vec<u16>,
        /// Folder that is served by TFTP from 10.0.2.2.
        tftp: Option<PathBuf>,
    },
    /// A cable: every datagram between two Unix sockets is one Ethernet frame.
    Cable {
        /// Socket of QEMU, to which frames for the card are sent.
        card: PathBuf,
        /// Socket of the other end.
        other_end: PathBuf,
    },
}

impl Emulator {
    /// Command that starts the PC; the caller adds the options for serial port and screen.
    pub(crate) fn command(&self) -> Result<Command> {
        need(QEMU, "qemu-system-x86")?;
        let mut command = Command::new(QEMU);
        command.args(["-accel", "tcg", "-cpu", "max", "-nodefaults", "-m", &self.memory_mib.to_string()]);
        match &self.boot {
            BootFrom::Kernel(elf, words, module) => {
                if let Some(module) = module {
                    command.arg("-initrd").arg(module);
                }
                command.arg("-kernel").arg(elf).args(["-append", words])
            }
            BootFrom::Cd(iso) => command.arg("-cdrom").arg(iso).args(["-boot", "d"]),
            BootFrom::Usb(iso) => {
                command.args(["-device", "qemu-xhci", "-device", "usb-storage,drive=stick,bootindex=0"]);
                command
                    .arg("-drive")
                    .arg(format!("if=none,id=stick,format=raw,readonly=on,file={}", file(iso)?))
            }
        };
        // Without its option ROM, which would try to boot from the network.
        command
            .arg("-netdev")
            .arg(self.network.option()?)
            .arg("-device")
            .arg(format!("{},netdev=net,romfile=", self.card.device()));
        Ok(command)
    }
}

/// An AC97 sound card whose sound is read from and written to files: two channels, 16 bits, 8,000 samples per
/// second, no header.
#[derive(Clone, Debug)]
pub(crate) struct SoundCard {
    /// File that the microphone reads.
    pub(crate) microphone: PathBuf,
    /// File that the loudspeaker writes.
    pub(crate) loudspeaker: PathBuf,
}

impl SoundCard {
    /// Adds the card to a PC. ALSA's file devices replace the sound card of this computer; their settings are
    /// written to `folder`.
    pub(crate) fn plug_in(&self, command: &mut Command, folder: &Path) -> Result<()> {
        let devices = folder.join("asound.conf");
        let text = format!(
            "pcm.microphone {{ type file\n slave {{ pcm {{ type null }} }}\n file /dev/null\n infile {:?}\n format raw }}\n\
             pcm.loudspeaker {{ type file\n slave {{ pcm {{ type null }} }}\n file {:?}\n format raw }}\n",
            self.microphone, self.loudspeaker
        );
        std::fs::write(&devices, text).with_context(|| format!("cannot write {}", devices.display()))?;
        // Such a device is always ready; QEMU's polling interval and block size set the pace.
        let direction = |name: &str, device: &str| {
            format!(
                "{name}.dev={device},{name}.frequency=8000,{name}.try-poll=off,{name}.buffer-length=10000,\
                 {name}.period-length=5000"
            )
        };
        command.env("ALSA_CONFIG_PATH", devices);
        command.arg("-audiodev").arg(format!(
            "alsa,id=sound,timer-period=10000,{},{}",
            direction("in", "microphone"),
            direction("out", "loudspeaker")
        ));
        command.args(["-device", "AC97,audiodev=sound"]);
        Ok(())
    }
}

impl Network {
    /// Value of QEMU's option `-netdev`.
    fn option(&self) -> Result<String> {
        match self {
            Self::Played { sip_port, tls_port, more_ports, tftp } => {
                let mut net = format!(
                    "user,id=net,hostfwd=udp:127.0.0.1:{sip_port}-:5060,hostfwd=tcp:127.0.0.1:{sip_port}-:5060"
                );
                if let Some(port) = tls_port {
                    net.push_str(&format!(",hostfwd=tcp:127.0.0.1:{port}-:5061"));
                }
                for port in more_ports {
                    net.push_str(&format!(",hostfwd=udp:127.0.0.1:{port}-:{port}"));
                }
                if let Some(folder) = tftp {
                    net.push_str(&format!(",tftp={}", file(folder)?));
                }
                Ok(net)
            }
            Self::Cable { card, other_end } => Ok(format!(
                "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                file(card)?,
                file(other_end)?
            )),
        }
    }
}

impl Card {
    fn device(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-net-pci",
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
        }
    }
}

/// Fails if the port is in use; QEMU's message would be less clear.
pub(crate) fn need_free_port(port: u16) -> Result<()> {
    let at = (Ipv4Addr::LOCALHOST, port);
    let is_free = UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok();
    if !is_free {
        bail!("port {port} of 127.0.0.1 is in use; choose another one with --port");
    }
    Ok(())
}

/// A file name as a value of QEMU's options, with commas escaped.
fn file(path: &Path) -> Result<String> {
    let name = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(name.replace(',', ",,"))
}

/// Same as in `cargo xtask metal run`.
const MEMORY_MIB: u32 = 128;

/// All phones of a test have the same address, so the rate limit is off.
const SETTINGS: &str = "domains = [\"example.org\"]\n[limits]\nper_source_rate = 0\n";
const QEMU: &str = "qemu-system-x86_64";
