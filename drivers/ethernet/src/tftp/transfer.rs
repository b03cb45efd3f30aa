//! The file while its blocks arrive: which one is next, whether it is within what was agreed on.

use super::error::visible;
use super::packet::{BLKSIZE, Options, TSIZE};
use super::{DownloadFailure, DownloadLimits};
use alloc::format;
use alloc::vec::Vec;
use core::net::SocketAddrV4;

/// A server that answered, and what came from it so far.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The port it talks from: its transfer identifier (RFC 1350 §4).
    pub(super) from: SocketAddrV4,
    /// The block that was acknowledged last; 0 at first.
    pub(super) last: u16,
    /// True until the first block is here.
    pub(super) is_at_start: bool,
    /// How long every block but the last is.
    block_bytes: usize,
    /// How large the file is, where the server said it.
    size: Option<usize>,
    bytes: Vec<u8>,
}

/// What a block is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// The next one.
    Next,
    /// The last one: this is the file.
    Last(Vec<u8>),
    /// The one that was acknowledged last.
    Again,
    /// One before that.
    Old,
}

impl Transfer {
    /// With a server that answers without options (RFC 1350).
    pub(super) fn plain(from: SocketAddrV4) -> Self {
        Self {
            from,
            last: 0,
            is_at_start: true,
            block_bytes: PLAIN_BLOCK_BYTES,
            size: None,
            bytes: Vec::new(),
        }
    }

    /// With a server that agrees to `options`.
    ///
    /// # Errors
    /// We did not ask for that, or the file is too large.
    pub(super) fn with_options(
        from: SocketAddrV4,
        options: Options<'_>,
        limits: &DownloadLimits,
    ) -> Result<Self, DownloadFailure> {
        let (mut block_bytes, mut size) = (None, None);
        for (name, value) in options.iter() {
            let number = number(value);
            let is_right = if name.eq_ignore_ascii_case(BLKSIZE) {
                let agreed = number.and_then(|bytes| usize::try_from(bytes).ok());
                let agreed = agreed.filter(|bytes| (BLOCK_BYTES_MIN..=BLOCK_BYTES).contains(bytes));
                agreed.is_some_and(|agreed| block_bytes.replace(agreed).is_none())
            } else if name.eq_ignore_ascii_case(TSIZE) {
                number.is_some_and(|told| size.replace(told).is_none())
            } else {
                false
            };
            if !is_right {
                let option = format!("{} {}", visible(name), visible(value));
                return Err(DownloadFailure::WrongOption { option: visible(option.as_bytes()) });
            }
        }
        let too_large =
            |told| DownloadFailure::TooLarge { bytes: Some(told), bytes_max: limits.file_bytes_max };
        let within = |told| usize::try_from(told).ok().filter(|told| *told <= limits.file_bytes_max);
        let size = size.map(|told| within(told).ok_or_else(|| too_large(told))).transpose()?;
        Ok(Self {
            block_bytes: block_bytes.unwrap_or(PLAIN_BLOCK_BYTES),
            size,
            bytes: Vec::with_capacity(size.unwrap_or(0)),
            ..Self::plain(from)
        })
    }

    /// How many bytes of the file are here.
    pub(super) fn received(&self) -> usize {
        self.bytes.len()
    }

    /// How large the file is, where the server said it.
    pub(super) fn size(&self) -> Option<usize> {
        self.size
    }

    /// Takes a block, if it is its turn. Numbers go on with 0 after 65,535, as all servers have it that allow files of
    /// more blocks; no RFC says so.
    ///
    /// # Errors
    /// It is not within what was agreed on, and the transfer is over.
    pub(super) fn on_block(
        &mut self,
        block: u16,
        data: &[u8],
        limits: &DownloadLimits,
    ) -> Result<Block, DownloadFailure> {
        let expected = self.last.wrapping_add(1);
        if block != expected {
            return match self.last.wrapping_sub(block) {
                0 => Ok(Block::Again),
                1..=HALF => Ok(Block::Old),
                _ => Err(DownloadFailure::WrongBlock { expected, found: block }),
            };
        }
        if data.len() > self.block_bytes {
            return Err(DownloadFailure::BlockTooLong { bytes: data.len(), agreed: self.block_bytes });
        }
        let received = self.bytes.len().saturating_add(data.len());
        let is_last = data.len() < self.block_bytes;
        if let Some(told) = self.size
            && (received > told || (is_last && received != told))
        {
            return Err(DownloadFailure::WrongSize { told: told as u64, received });
        }
        if received > limits.file_bytes_max {
            return Err(DownloadFailure::TooLarge { bytes: None, bytes_max: limits.file_bytes_max });
        }
        self.bytes.extend_from_slice(data);
        self.last = expected;
        self.is_at_start = false;
        Ok(if is_last { Block::Last(core::mem::take(&mut self.bytes)) } else { Block::Next })
    }
}

/// A decimal number (RFC 2348, RFC 2349).
fn number(value: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(value).ok()?;
    // A sign is no digit.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// What we ask for: the largest that, with its headers, fits an Ethernet frame whatever options the IP header has
/// (RFC 2348).
pub(super) const BLOCK_BYTES: usize = 1428;
/// RFC 2348.
const BLOCK_BYTES_MIN: usize = 8;
/// Without options (RFC 1350 §2).
const PLAIN_BLOCK_BYTES: usize = 512;
/// Of all numbers, the half that counts as before.
const HALF: u16 = 0x8000;
