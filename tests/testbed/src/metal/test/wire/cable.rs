//! A cable to the machine's network card: every datagram between two Unix sockets is one Ethernet frame.
//!
//! No frame is lost silently: a card that accepts no more frames blocks the sender.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::machine::emulator::Network;
use crate::process::PATIENCE;

/// Our end of the cable.
pub(super) struct Cable {
    socket: UnixDatagram,
    card: PathBuf,
    other_end: PathBuf,
    /// Frames that arrived while others were sent.
    arrived: VecDeque<Vec<u8>>,
    room: Vec<u8>,
}

impl Cable {
    /// Creates our end in a check's folder, without a card.
    pub(super) fn in_folder(folder: &Path) -> Result<Self> {
        let (card, other_end) = (folder.join("card"), folder.join("cable"));
        let socket = UnixDatagram::bind(&other_end)
            .with_context(|| format!("cannot make the socket {}", other_end.display()))?;
        socket.set_nonblocking(true)?;
        let room = vec![0; DATAGRAM_BYTES_MAX];
        Ok(Self { socket, card, other_end, arrived: VecDeque::new(), room })
    }

    /// Network configuration for QEMU.
    pub(super) fn network(&self) -> Network {
        Network::Cable { card: self.card.clone(), other_end: self.other_end.clone() }
    }

    /// Sends a frame; waits while the card is busy.
    pub(super) fn send(&mut self, frame: &[u8]) -> Result<()> {
        if frame.is_empty() {
            bail!("QEMU treats an empty datagram as the end of the cable");
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.socket.send_to(frame, &self.card) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("QEMU's end of the cable is gone"),
            }
            if Instant::now() > deadline {
                bail!("the machine's card took no frame for {} s", PATIENCE.as_secs());
            }
            // The machine may be blocked on its own frames.
            self.await_frame(BUSY_WAIT)?;
            while let Some(frame) = self.take()? {
                self.arrived.push_back(frame);
            }
        }
    }

    /// Next frame from the machine, if one arrives in this time.
    pub(super) fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        if let Some(frame) = self.arrived.pop_front() {
            return Ok(Some(frame));
        }
        if let Some(frame) = self.take()? {
            return Ok(Some(frame));
        }
        self.await_frame(wait)?;
        self.take()
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>> {
        match self.socket.recv(&mut self.room) {
            Ok(bytes) => Ok(Some(self.room.get(..bytes).unwrap_or_default().to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("the cable cannot be read"),
        }
    }

    fn await_frame(&self, wait: Duration) -> Result<()> {
        let time = Timespec { tv_sec: wait.as_secs().try_into()?, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time))?;
        Ok(())
    }
}

/// Time to wait for a card that accepts no frame.
const BUSY_WAIT: Duration = Duration::from_micros(200);

/// Longer than any frame of the machine.
const DATAGRAM_BYTES_MAX: usize = 65_536;
