//! The administrator's screen: memory figures on its page, and screenshots.

use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringway_test_support::eventually::retry;

use crate::machine::{Machine, Medium};

use super::{Booted, note};
use crate::interop::{Scenario, Stage};
use crate::process::{PATIENCE, Process};
use ringway_lab::registering::Registering;
use xtask::image::{Image, memory_bytes};
use xtask::workspace::{root, target_dir};

pub(super) fn checks(makes_pictures: bool) -> Vec<Scenario> {
    let screen = move |stage: &Stage| screen(stage, makes_pictures);
    vec![Scenario::new("memory/10000-users", memory), Scenario::new("screen", screen)]
}

/// Checks that 10,000 users, read by TFTP and registered with digest, fit into memory.
fn memory(stage: &Stage) -> Result<()> {
    Registering::write_users(&stage.path("users.csv"), USERS)?;
    let words = "users=users.csv auth=on algorithms=MD5";
    let mut machine = Booted::serving(&Machine::new(Medium::Kernel), stage, words)?;
    if !machine.said().contains(&format!("users: {USERS} from tftp://")) {
        bail!("the machine does not say that it has {USERS} users");
    }
    Registering::at(machine.at.port(), USERS)?.run(USERS.into(), WINDOW, true)?;
    machine.running.type_keys(" ")?;
    let registered = format!("{} users with", with_commas(USERS));
    let (now_mib, most_mib) = on_page(&machine.running, &registered, |page| {
        row(page, "Registered")?.contains(&registered).then_some(())?;
        figures_mib(row(page, "Memory")?)
    })?;
    let image_mib = memory_bytes(&Image::server().elf)? as f64 / f64::from(1 << 20);
    let total_mib = most_mib + image_mib;
    note(
        format!("memory with {USERS} users registered by digest"),
        format!("≤ {MEMORY_MIB_MAX} MiB"),
        format!(
            "{total_mib:.1} MiB: heap {now_mib:.1} MiB, at most {most_mib:.1} MiB; the image itself {image_mib:.1} MiB"
        ),
        total_mib <= MEMORY_MIB_MAX,
    );
    if total_mib > MEMORY_MIB_MAX {
        bail!("the machine needs {total_mib:.1} MiB for {USERS} users; {MEMORY_MIB_MAX} are the limit");
    }
    Ok(())
}

/// Checks the first page with some users and traffic, as a PC shows it.
fn screen(stage: &Stage, makes_pictures: bool) -> Result<()> {
    Registering::write_users(&stage.path("users.csv"), 40)?;
    let monitor = stage.path("monitor");
    let listen = format!("unix:{},server=on,wait=off", monitor.display());
    let machine = Machine::new(Medium::Kernel).with_options(&["-vga", "std", "-monitor", &listen]);
    let words = "users=users.csv auth=on algorithms=MD5";
    let machine = Booted::serving(&machine, stage, words)?;
    let log = machine.said();
    let mut phones = Registering::at(machine.at.port(), 40)?;
    let until = Instant::now() + if makes_pictures { PICTURE_TIME } else { TRAFFIC_TIME };
    while Instant::now() < until {
        phones.run(40, 4, true)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let picture = target_dir().join("metal/screen.ppm");
    let mut monitor = UnixStream::connect(&monitor).context("cannot reach QEMU's monitor")?;
    shoot(&mut monitor, &picture, "ppm")?;
    let (width, height, colours) = looks(&std::fs::read(&picture)?).context("not a PPM image")?;
    println!("          {} has {width} x {height} points in {colours} colours", picture.display());
    if (width, height) != (720, 400) || colours < 4 {
        bail!("not a page of coloured text");
    }
    if makes_pictures {
        shoot(&mut monitor, &root().join("docs/pictures/metal-screen.png"), "png")?;
        std::fs::write(root().join("docs/pictures/metal-boot.txt"), log.replace('\r', ""))?;
    }
    Ok(())
}

/// Waits until the page on the serial port has the wanted content; `what` names it.
pub(super) fn on_page<T>(machine: &Process, what: &str, look: impl Fn(&str) -> Option<T>) -> Result<T> {
    retry(PATIENCE, || {
        let mut terminal = vt100::Parser::new(ROWS, COLUMNS, 0);
        terminal.process(machine.output().as_bytes());
        let page = terminal.screen().contents();
        look(&page).with_context(|| format!("the page does not say \"{what}\":\n{page}"))
    })
}

/// Row of a page that starts with a word.
fn row<'a>(page: &'a str, word: &str) -> Option<&'a str> {
    page.lines().find(|row| row.trim_start().starts_with(word))
}

/// First two figures of a row, in MiB.
fn figures_mib(row: &str) -> Option<(f64, f64)> {
    let mut words = row.split_whitespace().skip(1);
    let mut figure = || {
        let number: f64 = words.next()?.replace(',', "").parse().ok()?;
        match words.next()? {
            "KiB" => Some(number / 1024.0),
            "MiB" => Some(number),
            _ => None,
        }
    };
    Some((figure()?, figure()?))
}

/// Writes QEMU's screen into a file.
fn shoot(monitor: &mut UnixStream, to: &Path, format: &str) -> Result<()> {
    if to.exists() {
        std::fs::remove_file(to)?;
    }
    monitor.set_read_timeout(Some(PATIENCE))?;
    // The monitor prints its prompt at its start, and again when the file is written.
    await_prompt(monitor)?;
    writeln!(monitor, "screendump \"{}\" -f {format}", to.display())?;
    await_prompt(monitor)?;
    // Requests another prompt for the next call.
    writeln!(monitor)?;
    if !to.exists() {
        bail!("QEMU wrote no {}", to.display());
    }
    Ok(())
}

fn await_prompt(monitor: &mut UnixStream) -> Result<()> {
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"(qemu) ") {
        monitor.read_exact(&mut byte).context("QEMU's monitor is silent")?;
        said.extend_from_slice(&byte);
    }
    Ok(())
}

/// Width, height and number of colours of a PPM image.
fn looks(ppm: &[u8]) -> Option<(usize, usize, usize)> {
    // P6, width, height, maximum value, pixels.
    let mut parts = ppm.splitn(5, u8::is_ascii_whitespace).skip(1);
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
    let (width, height, _) = (number()?, number()?, number()?);
    let points = parts.next().filter(|points| points.len() == 3 * width * height)?;
    let colours: std::collections::BTreeSet<&[u8]> = points.chunks_exact(3).collect();
    Some((width, height, colours.len()))
}

fn with_commas(number: u32) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|part| std::str::from_utf8(part).ok()).collect();
    parts.join(",")
}

/// Text screen of a PC.
const ROWS: NonZero<u16> = NonZero::new(25).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(80).unwrap();
const USERS: u32 = 10_000;
/// Number of REGISTERs in progress: QEMU's network has small buffers.
const WINDOW: u32 = 32;
const MEMORY_MIB_MAX: f64 = 32.0;
/// Time during which users register before the page is read.
const TRAFFIC_TIME: Duration = Duration::from_secs(3);
const PICTURE_TIME: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_page_are_read() {
        let row = " Memory            45.1 MiB   1,060.0 MiB   ███░░░   35 % of 128.0 MiB";
        assert_eq!(figures_mib(row), Some((45.1, 1060.0)));
        assert_eq!(figures_mib(" Memory    512.0 KiB   1.0 MiB"), Some((0.5, 1.0)));
        assert_eq!(figures_mib("Memory"), None);
        assert_eq!((with_commas(999), with_commas(10_000)), ("999".into(), "10,000".into()));
    }

    #[test]
    fn colours_of_a_picture_are_counted() {
        assert_eq!(looks(b"P6\n2 1\n255\n\x01\x02\x03\x04\x05\x06"), Some((2, 1, 2)));
        assert_eq!(looks(b"P6\n2 1\n255\n\x01"), None);
    }
}
