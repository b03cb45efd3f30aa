//! The file formats pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng).

use anyhow::{Context, Result, bail, ensure};

/// A packet of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'f> {
    /// Nanoseconds since 1970; `None`: the file does not say.
    pub(super) at_ns: Option<u64>,
    /// Number of the link type (LINKTYPE_).
    pub(super) link: u16,
    pub(super) bytes: &'f [u8],
    /// The packet was longer.
    pub(super) is_cut: bool,
}

/// End of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// It has bytes behind the last whole packet, as after a recording that was broken off.
    pub(super) is_cut: bool,
}

/// Bytes in one byte order.
#[derive(Clone, Copy)]
struct Bytes<'f> {
    rest: &'f [u8],
    is_big_endian: bool,
}

impl<'f> Bytes<'f> {
    /// The next bytes; `None`, and nothing is taken, if there are fewer.
    fn take(&mut self, length: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(if self.is_big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }

    /// The same byte order, other bytes.
    const fn of(self, rest: &'f [u8]) -> Self {
        Self { rest, ..self }
    }
}

/// Gives the packets of a file to `found`, in their order.
pub(super) fn frames<'f>(bytes: &'f [u8], found: impl FnMut(Frame<'f>) -> Result<()>) -> Result<End> {
    let magic = bytes.first_chunk::<4>().context("not a pcap or pcapng file: it is too short")?;
    let classic = |is_big_endian, fraction_ns| (Bytes { rest: bytes, is_big_endian }, fraction_ns);
    let (classic, fraction_ns) = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => classic(false, 1000),
        [0xa1, 0xb2, 0xc3, 0xd4] => classic(true, 1000),
        [0x4d, 0x3c, 0xb2, 0xa1] => classic(false, 1),
        [0xa1, 0xb2, 0x3c, 0x4d] => classic(true, 1),
        [0x0a, 0x0d, 0x0d, 0x0a] => return sections(bytes, found),
        _ => bail!("not a pcap or pcapng file; a file of another format can be converted with editcap"),
    };
    records(classic, fraction_ns, found)
}

/// Packets of a pcap file, whose times have a fraction in units of `fraction_ns`.
fn records<'f>(
    mut file: Bytes<'f>,
    fraction_ns: u64,
    mut found: impl FnMut(Frame<'f>) -> Result<()>,
) -> Result<End> {
    // Magic, versions, time zone, accuracy, longest packet.
    let header = file.take(20).and_then(|_| file.u32()).context("the header is cut off")?;
    // Above are the length of a frame check sequence, and its presence.
    let link = (header & 0xffff) as u16;
    while !file.rest.is_empty() {
        let mut record = || {
            let (seconds, fraction) = (file.u32()?, file.u32()?);
            let (captured, original) = (file.length()?, file.length()?);
            Some((u64::from(seconds), u64::from(fraction), captured, original))
        };
        let Some((seconds, fraction, captured, original)) = record() else { return Ok(End { is_cut: true }) };
        ensure!(captured <= FRAME_BYTES_MAX, "a packet of {captured} bytes is not possible");
        let Some(bytes) = file.take(captured) else { return Ok(End { is_cut: true }) };
        let at_ns = Some(seconds * NANOSECONDS + fraction * fraction_ns);
        found(Frame { at_ns, link, bytes, is_cut: captured < original })?;
    }
    Ok(End { is_cut: false })
}

/// Interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: u16,
    /// Units of time in a second.
    units: u64,
}

/// Packets of a pcapng file.
fn sections<'f>(bytes: &'f [u8], mut found: impl FnMut(Frame<'f>) -> Result<()>) -> Result<End> {
    let mut file = Bytes { rest: bytes, is_big_endian: false };
    let mut interfaces: Vec<Interface> = Vec::new();
    while !file.rest.is_empty() {
        let mut head = file;
        let Some(kind) = head.u32() else { return Ok(End { is_cut: true }) };
        if kind == SECTION {
            // Its type is the same in both byte orders, and the magic behind the length says which one it is.
            match head.rest.get(4..8) {
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => file.is_big_endian = false,
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => file.is_big_endian = true,
                Some(_) => bail!("a section has an unknown byte order"),
                None => return Ok(End { is_cut: true }),
            }
            interfaces.clear();
            head.is_big_endian = file.is_big_endian;
        }
        let Some(length) = head.length() else { return Ok(End { is_cut: true }) };
        ensure!(length >= 12 && length.is_multiple_of(4), "a block of {length} bytes is not possible");
        let Some(block) = file.take(length) else { return Ok(End { is_cut: true }) };
        let (Some(body), Some(end)) = (block.get(8..length - 4), block.get(length - 4..)) else {
            bail!("a block of {length} bytes is not possible");
        };
        ensure!(head.of(end).length() == Some(length), "a block has two different lengths");
        let body = head.of(body);
        match kind {
            INTERFACE => {
                ensure!(
                    interfaces.len() < INTERFACES_MAX,
                    "a section has more than {INTERFACES_MAX} interfaces"
                );
                interfaces.push(interface(body).context("an interface is cut off")??);
            }
            ENHANCED_PACKET => {
                let frame = enhanced_packet(body, &interfaces).context("a packet is cut off")??;
                found(frame)?;
            }
            SIMPLE_PACKET => {
                let link = interfaces.first().context("a packet has no interface")?.link;
                found(Frame {
                    at_ns: None,
                    link,
                    bytes: body.rest.get(4..).unwrap_or_default(),
                    is_cut: false,
                })?;
            }
            // Statistics, names, and others.
            _ => {}
        }
    }
    Ok(End { is_cut: false })
}

fn interface(mut body: Bytes<'_>) -> Option<Result<Interface>> {
    let link = body.u16()?;
    // Reserved, longest packet.
    body.take(6)?;
    let mut units = MICROSECONDS;
    while let (Some(code), Some(length)) = (body.u16(), body.u16()) {
        let value = body.take(usize::from(length))?;
        body.take((4 - usize::from(length) % 4) % 4)?;
        match (code, value) {
            (END_OF_OPTIONS, _) => break,
            (TIME_RESOLUTION, [exponent]) => {
                let (base, exponent) = (if exponent & 0x80 == 0 { 10_u64 } else { 2 }, exponent & 0x7f);
                match base.checked_pow(u32::from(exponent)) {
                    Some(found) => units = found,
                    None => return Some(Err(anyhow::anyhow!("the times of an interface are too fine"))),
                }
            }
            _ => {}
        }
    }
    Some(Ok(Interface { link, units }))
}

fn enhanced_packet<'f>(mut body: Bytes<'f>, interfaces: &[Interface]) -> Option<Result<Frame<'f>>> {
    let number = body.length()?;
    let time = u64::from(body.u32()?) << 32 | u64::from(body.u32()?);
    let (captured, original) = (body.length()?, body.length()?);
    let bytes = body.take(captured)?;
    let Some(Interface { link, units }) = interfaces.get(number).copied() else {
        return Some(Err(anyhow::anyhow!("a packet is of interface {number}, which is not described")));
    };
    let at_ns = u128::from(time) * u128::from(NANOSECONDS) / u128::from(units);
    let at_ns = Some(u64::try_from(at_ns).unwrap_or(u64::MAX));
    Some(Ok(Frame { at_ns, link, bytes, is_cut: captured < original }))
}

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Codes of options.
const END_OF_OPTIONS: u16 = 0;
const TIME_RESOLUTION: u16 = 9;
/// Units of a second.
const NANOSECONDS: u64 = 1_000_000_000;
const MICROSECONDS: u64 = 1_000_000;
/// Longest packet of a pcap file (MAXIMUM_SNAPLEN of libpcap).
const FRAME_BYTES_MAX: usize = 262_144;
/// Most interfaces of a section.
const INTERFACES_MAX: usize = 256;
