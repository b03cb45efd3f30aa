//! A PC in QEMU, its processor emulated (TCG), so that it runs everywhere.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::need;

/// Network cards that the image drives and QEMU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Card {
    /// virtio-net
    Virtio,
    /// Intel 82540EM; QEMU lets it receive only one second after it was set up
    E1000,
    /// Intel 82574L
    E1000e,
}

/// What the PC boots from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BootFrom {
    /// The ELF file, loaded by QEMU, with these words as its command line.
    Kernel(PathBuf, String),
    /// The ISO file as a CD.
    Cd(PathBuf),
    /// The ISO file as a USB stick.
    Usb(PathBuf),
}

/// What the PC is made of.
#[derive(Clone, Debug)]
pub(crate) struct Emulator {
    /// What it boots from.
    pub(crate) boot: BootFrom,
    /// Its network card.
    pub(crate) card: Card,
    /// Its memory.
    pub(crate) memory_mib: u32,
    /// What its network card is connected to.
    pub(crate) network: Network,
}

/// What a PC's network card is connected to.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// A network that QEMU plays, with a DHCP server; this computer is 10.0.2.2 in it.
    Played {
        /// The port of 127.0.0.1, UDP and TCP, that is the PC's port 5060.
        sip_port: u16,
        /// More UDP ports of 127.0.0.1 that are the PC's of the same number.
        more_ports: Vec<u16>,
        /// The folder whose files are given away by TFTP, from 10.0.2.2.
        tftp: Option<PathBuf>,
    },
    /// A cable: every datagram between two Unix sockets is one Ethernet frame.
    Cable {
        /// The socket that QEMU makes, where the card hears.
        card: PathBuf,
        /// The socket at the other end.
        other_end: PathBuf,
    },
}

impl Emulator {
    /// The command that starts it; where its serial port and its screen go is the caller's to add.
    pub(crate) fn command(&self) -> Result<Command> {
        need(QEMU, "qemu-system-x86")?;
        let mut command = Command::new(QEMU);
        command.args(["-accel", "tcg", "-cpu", "max", "-nodefaults", "-m", &self.memory_mib.to_string()]);
        match &self.boot {
            BootFrom::Kernel(elf, words) => command.arg("-kernel").arg(elf).args(["-append", words]),
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

/// An AC97 sound card whose sound comes from and goes to files: both channels, 16 bits, 8,000 samples a second, no header.
#[derive(Clone, Debug)]
pub(crate) struct SoundCard {
    /// What the microphone hears.
    pub(crate) microphone: PathBuf,
    /// What the loudspeaker plays.
    pub(crate) loudspeaker: PathBuf,
}

impl SoundCard {
    /// Adds it to a PC. ALSA's own file devices stand for the sound card of this computer; `folder` gets their settings.
    pub(crate) fn plug_in(&self, command: &mut Command, folder: &Path) -> Result<()> {
        let devices = folder.join("asound.conf");
        let text = format!(
            "pcm.microphone {{ type file\n slave {{ pcm {{ type null }} }}\n file /dev/null\n infile {:?}\n format raw }}\n\
             pcm.loudspeaker {{ type file\n slave {{ pcm {{ type null }} }}\n file {:?}\n format raw }}\n",
            self.microphone, self.loudspeaker
        );
        std::fs::write(&devices, text).with_context(|| format!("cannot write {}", devices.display()))?;
        // Such a device is always ready: how often QEMU looks, and how much it takes, is the pace.
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
    /// The value of QEMU's option `-netdev`.
    fn option(&self) -> Result<String> {
        match self {
            Self::Played { sip_port, more_ports, tftp } => {
                let mut net = format!(
                    "user,id=net,hostfwd=udp:127.0.0.1:{sip_port}-:5060,hostfwd=tcp:127.0.0.1:{sip_port}-:5060"
                );
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

/// Fails where the port is taken: QEMU would say so less clearly.
pub(crate) fn need_free_port(port: u16) -> Result<()> {
    let at = (Ipv4Addr::LOCALHOST, port);
    let is_free = UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok();
    if !is_free {
        bail!("port {port} of 127.0.0.1 is taken; name another one with --port");
    }
    Ok(())
}

/// A file's name as a value of QEMU's options, where a comma is doubled.
fn file(path: &Path) -> Result<String> {
    let name = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(name.replace(',', ",,"))
}

const QEMU: &str = "qemu-system-x86_64";
