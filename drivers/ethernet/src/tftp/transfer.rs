//! Blocks of a transfer: sequence, sizes, and the limits of a download.

use super::DownloadFailure;
use super::error::visible;
use super::packet::{BLKSIZE, Options, TSIZE};
use alloc::format;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use core::time::Duration;

/// A transfer with a server that answered.
#[derive(Debug)]
pub(super) struct Transfer {
    /// Address of the server; its port is the transfer identifier (RFC 1350 §4).
    pub(super) from: SocketAddrV4,
    /// Block that was acknowledged last; 0 at first.
    pub(super) last: u16,
    /// True until the first block arrived.
    pub(super) is_at_start: bool,
    /// Size of every block but the last.
    block_bytes: usize,
    /// Size of the file, if the server announced it.
    size: Option<usize>,
    bytes: Vec<u8>,
}

/// Position of a received block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Next block.
    Next,
    /// Last block, with the complete file.
    Last(Vec<u8>),
    /// Retransmission of the block that was acknowledged last.
    Again,
    /// An earlier block.
    Old,
}

impl Transfer {
    /// Creates a transfer with a server that answers without options (RFC 1350).
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

    /// Creates a transfer with the options that the server accepted.
    ///
    /// # Errors
    /// An option was not requested or is out of range, or the file is too large.
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
                number.is_some_and(|announced| size.replace(announced).is_none())
            } else {
                false
            };
            if !is_right {
                let option = format!("{} {}", visible(name), visible(value));
                return Err(DownloadFailure::WrongOption { option: visible(option.as_bytes()) });
            }
        }
        let too_large = |announced| DownloadFailure::TooLarge {
            bytes: Some(announced),
            bytes_max: limits.file_bytes_max,
        };
        let within = |announced| {
            usize::try_from(announced).ok().filter(|announced| *announced <= limits.file_bytes_max)
        };
        let size = size.map(|announced| within(announced).ok_or_else(|| too_large(announced))).transpose()?;
        Ok(Self {
            block_bytes: block_bytes.unwrap_or(PLAIN_BLOCK_BYTES),
            size,
            bytes: Vec::with_capacity(size.unwrap_or(0)),
            ..Self::plain(from)
        })
    }

    /// Bytes received.
    pub(super) fn received(&self) -> usize {
        self.bytes.len()
    }

    /// Size of the file, if the server announced it.
    pub(super) fn size(&self) -> Option<usize> {
        self.size
    }

    /// Processes a block. The block number after 65,535 is 0; no RFC says so, but all servers that allow larger files
    /// do it.
    ///
    /// # Errors
    /// The block violates the options or a limit; the transfer has failed.
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
        if let Some(announced) = self.size
            && (received > announced || (is_last && received != announced))
        {
            return Err(DownloadFailure::WrongSize { announced: announced as u64, received });
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
    // `parse` would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Requested block size: the largest whose packet fits an Ethernet frame with any IP options (RFC 2348).
pub(super) const BLOCK_BYTES: usize = 1428;
/// Minimum block size (RFC 2348).
const BLOCK_BYTES_MIN: usize = 8;
/// Block size without options (RFC 1350 §2).
const PLAIN_BLOCK_BYTES: usize = 512;
/// Block numbers up to this distance behind are earlier blocks.
const HALF: u16 = 0x8000;

/// Limits of one download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// Maximum file size in bytes.
    pub file_bytes_max: usize,
    /// Maximum number of transmissions of a packet; at least 1.
    pub tries_max: u32,
    /// Initial retransmission timeout; doubles with each retransmission.
    pub first_wait: Duration,
    /// Maximum retransmission timeout.
    pub wait_max: Duration,
    /// Maximum duration of the download, which bounds servers that send a byte now and then.
    pub duration_max: Duration,
    /// Time during which the last acknowledgement is repeated if the server retransmits the last block (RFC 1350 §6).
    pub linger: Duration,
}

impl Default for DownloadLimits {
    /// 4 MiB; 6 tries after 1, 2, 4, 8 and 8 seconds; 15 minutes in all.
    fn default() -> Self {
        Self {
            file_bytes_max: 4 << 20,
            tries_max: 6,
            first_wait: Duration::from_secs(1),
            wait_max: Duration::from_secs(8),
            duration_max: Duration::from_secs(900),
            linger: Duration::from_secs(5),
        }
    }
}

impl DownloadLimits {
    /// Timeout after the `tries`th transmission of a packet, counted from 1.
    pub(super) fn wait(&self, tries: u32) -> Duration {
        let factor = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_wait.saturating_mul(factor).min(self.wait_max)
    }
}
