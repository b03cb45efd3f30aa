//! Media relays of the measured servers: rtpengine, and an answerer of its protocol.

use anyhow::{Context, Result};
use ringway_test_support::process::Site;
use ringway_test_support::rtpengine::{Rtpengine, media_ports};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Media relay of a server, which ends with this value.
pub(super) enum Relay {
    Scripted { is_over: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
    Rtpengine(#[expect(dead_code, reason = "it runs until it is dropped")] Box<Rtpengine>),
}

impl Relay {
    /// Answers each command at once, an offer or answer with its own SDP.
    pub(super) fn scripted(control: UdpSocket) -> Result<Self> {
        control.set_read_timeout(Some(Duration::from_millis(100))).context("time limit of the relay")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 16_384];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, from)) = control.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(buffer.get(..length).unwrap_or_default()) {
                    // The command of a lost answer is sent again.
                    let _ = control.send_to(&answer, from);
                }
            }
        });
        Ok(Self::Scripted { is_over, thread: Some(thread) })
    }

    pub(super) fn rtpengine(folder: &Path, control: SocketAddr) -> Result<Self> {
        let site = Site { folder: folder.to_owned(), namespace: None };
        let mut arguments = media_ports(Ipv4Addr::LOCALHOST, 30_000, 2001);
        arguments.push("--log-level=3".to_owned());
        Ok(Self::Rtpengine(Box::new(Rtpengine::start_at(&site, control.port(), &arguments)?)))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Self::Scripted { is_over, thread } = self {
            is_over.store(true, Ordering::Relaxed);
            // An error of the thread has failed the readings.
            drop(thread.take().map(JoinHandle::join));
        }
    }
}

/// Answer to a command; `None` for one without a cookie.
fn answer(command: &[u8]) -> Option<Vec<u8>> {
    let cookie = command.get(..17)?;
    let sdp = command.windows(KEY.len()).position(|window| window == KEY).and_then(|at| {
        let rest = command.get(at + KEY.len()..)?;
        let digits = rest.iter().position(|byte| *byte == b':')?;
        let length: usize = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
        rest.get(..digits + 1 + length)
    });
    let sdp = sdp.map(|sdp| [KEY, sdp].concat()).unwrap_or_default();
    Some([cookie, b"d", &sdp, b"6:result2:oke"].concat())
}

/// Key of the SDP in a command.
const KEY: &[u8] = b"3:sdp";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_answered_with_their_sdp() {
        let offer = b"0123456789abcdef d7:command5:offer3:sdp3:v=07:replacel6:originee";
        assert_eq!(answer(offer).unwrap(), b"0123456789abcdef d3:sdp3:v=06:result2:oke");
        assert_eq!(
            answer(b"0123456789abcdef d7:command4:pinge").unwrap(),
            b"0123456789abcdef d6:result2:oke"
        );
        assert_eq!(answer(b"short"), None);
    }
}
