//! The image in an emulated PC, for interactive use.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::image::{Image, bytes_of, need};
use xtask::workspace::target_dir;

use crate::machine::{BootFrom, Card, Emulator, Network, need_free_port};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The network card
    #[arg(long, value_enum, default_value = "virtio")]
    card: Card,
    /// Port of 127.0.0.1, UDP and TCP, that is forwarded to the machine's SIP port
    #[arg(long, default_value_t = 15060)]
    port: u16,
    /// File of users, as for `ringway user import`; served by TFTP from 10.0.2.2, with the word
    /// users=users.csv
    #[arg(long, value_name = "FILE.csv")]
    users: Option<PathBuf>,
    /// File of settings; served by TFTP from 10.0.2.2, with the word config=ringway.toml
    #[arg(long, value_name = "FILE.toml")]
    settings: Option<PathBuf>,
    /// Certificate and key of the server in one PEM file (ECDSA on P-256), with the word tls=5061; the port of 127.0.0.1
    /// after that of --port is forwarded to it
    #[arg(long, value_name = "FILE.pem")]
    tls: Option<PathBuf>,
    /// Command line of the image
    #[arg(long, value_name = "WORDS", default_value = "")]
    append: String,
    /// Memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..))]
    memory: u32,
    /// Boot it from a CD, with its own ISO file
    #[arg(long, conflicts_with = "usb")]
    iso: bool,
    /// Boot it from a USB stick, with the same file
    #[arg(long)]
    usb: bool,
    /// Run the phone instead of the server; its RTP is forwarded to UDP ports 16384 and 16385 of 127.0.0.1
    #[arg(long, conflicts_with_all = ["users", "settings", "tls"])]
    phone: bool,
    /// With the phone: an AC97 sound card that uses this audio driver of QEMU, with its options: `alsa`,
    /// `pa`, `wav,path=heard.wav` (which has no microphone)
    #[arg(long, requires = "phone", value_name = "DRIVER")]
    sound: Option<String>,
    /// Show the PC's screen in this terminal, and write the output of its serial port to a file; Alt-2, then
    /// `quit` and Enter, ends it
    #[arg(long)]
    screen: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    need("qemu-system-x86_64", "qemu-system-x86")?;
    need_free_port(args.port)?;
    let tls_port = args.tls.as_ref().and_then(|_| args.port.checked_add(1));
    tls_port.map_or(Ok(()), need_free_port)?;
    let (image, words) = match args.phone {
        true => (Image::phone(), phone_words(args)),
        false => (Image::server(), server_words(args)),
    };
    // The file of `build` with its words is kept, because it may be meant for a USB stick.
    let image = Image { iso: target_dir().join("metal/run.iso"), ..image };
    image.build_elf()?;
    if args.iso || args.usb {
        image.build_iso(&words, args.tls.as_deref())?;
    }
    let boot = match (args.iso, args.usb) {
        (true, _) => BootFrom::Cd(image.iso),
        (false, true) => BootFrom::Usb(image.iso),
        (false, false) => BootFrom::Kernel(image.elf, words, args.tls.clone()),
    };
    let network = Network::Played {
        sip_port: args.port,
        tls_port,
        more_ports: if args.phone { PHONE_PORTS.to_vec() } else { Vec::new() },
        tftp: Some(tftp_folder(args)?),
    };
    let mut command = Emulator { boot, card: args.card, memory_mib: args.memory, network }.command()?;
    command.args(["-vga", "std"]);
    if let Some(driver) = &args.sound {
        command.args(["-audiodev", &audio_device(driver), "-device", "AC97,audiodev=sound"]);
    }
    let end = if args.screen { "Alt-2, then `quit` and Enter, ends" } else { "Ctrl-C ends" };
    println!("SIP is on 127.0.0.1:{} (UDP and TCP); {end} the machine", args.port);
    if let Some(port) = tls_port {
        println!("SIP over TLS is on 127.0.0.1:{port}");
    }
    if args.screen {
        let serial = target_dir().join("ringway-metal.log");
        println!("its serial port goes to {}", serial.display());
        command.arg("-serial").arg(format!("file:{}", serial.display()));
        // All keys, including Ctrl-C, go to the machine; without the monitor it could not be ended.
        command.args(["-display", "curses", "-monitor", "vc"]);
    } else {
        command.args([
            "-display",
            "none",
            "-chardev",
            "stdio,id=serial,signal=on",
            "-serial",
            "chardev:serial",
        ]);
    }
    // Replaces this process, so that a signal ends QEMU too, which would otherwise stay and keep its port.
    Err(command.exec()).context("cannot start QEMU")
}

/// Words for the given files, unless the user's words contain them already.
fn server_words(args: &Args) -> String {
    let files = [
        (&args.users, "users", "users.csv"),
        (&args.settings, "config", "ringway.toml"),
        (&args.tls, "tls", "5061"),
    ];
    let mut words = args.append.clone();
    for (file, key, value) in files {
        let is_said = words.split_whitespace().any(|word| word.split('=').next() == Some(key));
        if file.is_some() && !is_said {
            words = format!("{words} {key}={value}");
        }
    }
    words.trim_start().to_owned()
}

/// Value of QEMU's option: the driver's name, our options, the driver's options.
fn audio_device(driver: &str) -> String {
    match driver.split_once(',') {
        Some((name, options)) => format!("{name},id=sound,{options}"),
        None => format!("{driver},id=sound"),
    }
}

/// Words of the phone: peers on this computer reach it at the forwarded port.
fn phone_words(args: &Args) -> String {
    format!("outside=127.0.0.1:{} {}", args.port, args.append)
}

/// A folder with only the files that the machine may read.
fn tftp_folder(args: &Args) -> Result<PathBuf> {
    let folder = target_dir().join("metal/tftp");
    std::fs::create_dir_all(&folder)?;
    for (file, name) in [(&args.users, "users.csv"), (&args.settings, "ringway.toml")] {
        put(file.as_deref(), &folder.join(name))?;
    }
    Ok(folder)
}

fn put(file: Option<&Path>, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_file(to)?;
    }
    if let Some(file) = file {
        std::fs::copy(file, to).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct BuildArgs {
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

pub(super) fn build(args: &BuildArgs) -> Result<()> {
    let images =
        [(Image::server(), &args.append, args.tls.as_deref()), (Image::phone(), &args.append_phone, None)];
    for (image, words, file) in images {
        image.build_elf()?;
        println!("{} ({} bytes)", image.elf.display(), bytes_of(&image.elf)?);
        if !args.elf_only {
            image.build_iso(words, file)?;
            println!("{} ({} bytes)", image.iso.display(), bytes_of(&image.iso)?);
        }
    }
    Ok(())
}

/// Default RTP ports of the phone.
const PHONE_PORTS: [u16; 2] = [16_384, 16_385];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn words(line: &[&str]) -> String {
        server_words(&Line::parse_from([&["run"], line].concat()).args)
    }

    #[test]
    fn words_for_served_files_are_added() {
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["--users", "u.csv"]), "users=users.csv");
        let both = words(&["--users", "u.csv", "--settings", "s.toml", "--append", "auth=on"]);
        assert_eq!(both, "auth=on users=users.csv config=ringway.toml");
        assert_eq!(words(&["--tls", "tls.pem"]), "tls=5061");
    }

    #[test]
    fn an_audio_driver_keeps_its_options() {
        assert_eq!(audio_device("alsa"), "alsa,id=sound");
        assert_eq!(audio_device("wav,path=heard.wav"), "wav,id=sound,path=heard.wav");
    }

    #[test]
    fn given_words_are_not_changed() {
        assert_eq!(words(&["--users", "u.csv", "--append", "users=other.csv"]), "users=other.csv");
        assert_eq!(words(&["--settings", "s.toml", "--append", "config=none"]), "config=none");
    }
}
