//! A phone that nobody here wrote, whichever it is: what a scenario can have it do, and where it is on the network.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;

use super::Transport;

/// A running phone that sends a tone and records what it hears.
pub(crate) trait Softphone {
    /// Where it is called when it has no server.
    fn uri(&self) -> String;

    /// Calls.
    fn dial(&mut self, uri: &str) -> Result<()>;

    /// Waits for a call and answers it.
    fn answer(&mut self) -> Result<()>;

    /// Waits until the call stands, and is protected if it is to be.
    fn established(&mut self) -> Result<()>;

    fn hold(&mut self) -> Result<()>;

    fn resume(&mut self) -> Result<()>;

    /// Sends one digit.
    fn press(&mut self, digit: char) -> Result<()>;

    fn hang_up(&mut self) -> Result<()>;

    /// Waits until the call is over, whoever ended it.
    fn ended(&mut self) -> Result<()>;

    /// The digits that the other side pressed.
    fn digits(&self) -> String;

    /// The SIP messages that it sent and got.
    fn trace(&self) -> Result<String>;

    /// What it says to compare aloud.
    fn sas(&self) -> Option<String>;

    /// Ends the phone; the WAV file of what it heard.
    fn recording(&mut self) -> Result<PathBuf>;
}

/// Where and how a phone is on the network, and what protects its sound.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Its name; its password is `secret-NAME`.
    pub(crate) user: &'a str,
    /// The address of this machine that it uses.
    pub(crate) host: Ipv4Addr,
    /// The port of its server at that address; `None`: it has none, and is called at its own address.
    pub(crate) server: Option<u16>,
    pub(crate) transport: Transport,
    pub(crate) keys: Keys,
    /// What it sends.
    pub(crate) tone_hz: f64,
    /// For how long at most.
    pub(crate) seconds: u32,
}

impl<'a> Line<'a> {
    /// At a server at 127.0.0.1, without protection.
    pub(crate) const fn at_server(user: &'a str, tone_hz: f64, server: u16, transport: Transport) -> Self {
        Self {
            user,
            host: Ipv4Addr::LOCALHOST,
            server: Some(server),
            transport,
            keys: Keys::None,
            tone_hz,
            seconds: 20,
        }
    }

    /// The domain in its own URI.
    pub(crate) fn domain(&self, port: u16) -> String {
        self.server.map_or_else(|| format!("{}:{port}", self.host), |_| "example.org".to_owned())
    }

    /// What others call.
    pub(crate) fn uri(&self, port: u16) -> String {
        let uri = format!("sip:{}@{}", self.user, self.domain(port));
        match (self.server, self.transport) {
            (None, Transport::Tcp) => format!("{uri};transport=tcp"),
            (None, Transport::Udp) | (Some(_), Transport::Udp | Transport::Tcp) => uri,
        }
    }
}

/// What protects the sound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    None,
    /// SRTP with this suite, its key in the SDP.
    Sdes(&'static str),
    /// SRTP with keys agreed on by ZRTP.
    Zrtp,
}
