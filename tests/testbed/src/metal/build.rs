//! `cargo xtask metal build`.

use std::path::PathBuf;

use anyhow::Result;
use xtask::image::{Image, bytes_of};

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
