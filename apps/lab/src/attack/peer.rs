//! Callers: a user with a password, or a stranger; requests with retransmissions and credentials.

use super::message::{Credentials, Draft, Serial, copy_routes, respond, status, value};
use super::script::{T1, bind};
use super::target::aor;
use crate::server::Algorithm;
use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// A phone that sends requests.
pub struct Peer {
    /// Its socket, connected to the server.
    pub socket: UdpSocket,
    /// Its address.
    pub address: SocketAddrV4,
    /// Number of the last request.
    serial: u32,
}

impl Peer {
    /// Binds a port on `ip`, which no other peer uses.
    pub fn bind(ip: Ipv4Addr, server: SocketAddrV4) -> Result<Self> {
        let (socket, address) = bind(ip)?;
        socket.connect(server).context("connect a phone's socket to the server")?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).context("set a phone's socket")?;
        Ok(Self { socket, address, serial: 0 })
    }

    /// A branch or Call-ID that was not used before.
    pub fn fresh(&mut self, prefix: &str) -> String {
        self.serial += 1;
        format!("{prefix}{:x}-{}-{}", u32::from(*self.address.ip()), self.address.port(), self.serial)
    }

    /// Retransmits a request until its final response (RFC 3261 §17.1), and acknowledges a failed INVITE.
    /// Requests that arrive meanwhile are accepted.
    pub fn transact(&self, draft: &Draft<'_>) -> Result<Vec<u8>> {
        let request = draft.write(self.address);
        let begun = Instant::now();
        let (mut next, mut interval, mut is_proceeding) = (begun, T1, false);
        let mut room = [0; 65_536];
        while begun.elapsed() < 64 * T1 {
            if next <= Instant::now() && !(is_proceeding && draft.method == "INVITE") {
                self.socket.send(&request).context("send to the server")?;
                next = Instant::now() + interval;
                interval *= 2;
            }
            let Ok(length) = self.socket.recv(&mut room) else { continue };
            let message = room.get(..length).unwrap_or_default();
            match status(message) {
                None => self.accept(message)?,
                Some(_) if memchr::memmem::find(message, draft.branch.as_bytes()).is_none() => {}
                Some(100..=199) => is_proceeding = true,
                Some(status) => {
                    if draft.method == "INVITE" && status >= 300 {
                        self.acknowledge_failure(draft, message)?;
                    }
                    return Ok(message.to_vec());
                }
            }
        }
        bail!("{} {}: no final response in 32 s", draft.method, draft.uri)
    }

    /// Same with credentials of `user` for challenges. Returns the final response and its CSeq.
    pub fn transact_as(&mut self, user: u32, draft: &Draft<'_>) -> Result<(Vec<u8>, u32)> {
        let (mut lines, mut cseq) = (draft.lines.to_owned(), draft.cseq);
        // A stale nonce causes a second challenge.
        for _ in 0..3 {
            let branch = self.fresh("z9hG4bK");
            let sent = Draft { branch: &branch, lines: &lines, cseq, ..*draft };
            let response = self.transact(&sent)?;
            let header = match status(&response) {
                Some(401) => "Authorization",
                Some(407) => "Proxy-Authorization",
                Some(_) | None => return Ok((response, cseq)),
            };
            let credentials = Credentials::new(Algorithm::Md5, header, draft.method, draft.uri);
            let mut answer = Vec::new();
            if !credentials.answer(user, &response, &mut answer) {
                bail!("{} {}: the challenge cannot be answered", draft.method, draft.uri);
            }
            lines = format!("{}{}", draft.lines, String::from_utf8_lossy(&answer));
            cseq += 1;
        }
        bail!("{} {}: challenged three times", draft.method, draft.uri)
    }

    /// Registers `contacts` (values of Contact) for `user`; `lines` are further header lines.
    pub fn register(&mut self, user: u32, contacts: &[String], lines: &str) -> Result<()> {
        let (aor, call_id) = (aor(user), self.fresh("r"));
        let contacts = contacts.iter().map(|contact| format!("Contact: {contact}\r\n"));
        let lines = lines.to_owned() + &contacts.collect::<String>();
        let to = format!("<{aor}>");
        let uri = format!("sip:{}", crate::server::DOMAIN);
        let draft = Draft {
            method: "REGISTER",
            uri: &uri,
            from: &aor,
            to: &to,
            call_id: &call_id,
            lines: &lines,
            ..Draft::EMPTY
        };
        let (response, _) = self.transact_as(user, &draft)?;
        match status(&response) {
            Some(200) => Ok(()),
            _ => bail!("REGISTER of {aor}: {}", first_line(&response)),
        }
    }

    /// Calls `callee` and hangs up; returns the time from INVITE to 200. `caller` is a user with a password,
    /// or a stranger.
    pub fn call(&mut self, caller: Option<u32>, callee: u32) -> Result<Duration> {
        let begun = Instant::now();
        let from = caller.map_or_else(|| STRANGER.to_owned(), aor);
        let (uri, call_id, branch) = (aor(callee), self.fresh("c"), self.fresh("z9hG4bK"));
        let lines = format!("Contact: <sip:caller@{}>\r\n", self.address);
        let to = format!("<{uri}>");
        let invite = Draft {
            method: "INVITE",
            uri: &uri,
            from: &from,
            to: &to,
            call_id: &call_id,
            branch: &branch,
            lines: &lines,
            ..Draft::EMPTY
        };
        let (response, cseq) = match caller {
            Some(user) => self.transact_as(user, &invite)?,
            None => (self.transact(&invite)?, 1),
        };
        if status(&response) != Some(200) {
            bail!("INVITE {uri}: {}", first_line(&response));
        }
        let setup = begun.elapsed();
        let mut routes = Vec::new();
        copy_routes(&response, &mut routes);
        let routes = String::from_utf8_lossy(&routes).into_owned();
        let contact = value(&response, "Contact").unwrap_or_default().trim_matches(['<', '>']);
        let to = value(&response, "To").unwrap_or_default();
        let branch = self.fresh("z9hG4bK");
        let ack = Draft { method: "ACK", uri: contact, to, cseq, branch: &branch, lines: &routes, ..invite };
        self.socket.send(&ack.write(self.address)).context("send to the server")?;
        let branch = self.fresh("z9hG4bK");
        let bye = Draft { method: "BYE", cseq: cseq + 1, branch: &branch, ..ack };
        let response = self.transact(&bye)?;
        if status(&response) != Some(200) {
            bail!("BYE {contact}: {}", first_line(&response));
        }
        Ok(setup)
    }

    /// RFC 3261 §17.1.1.3.
    fn acknowledge_failure(&self, invite: &Draft<'_>, response: &[u8]) -> Result<()> {
        let to = value(response, "To").unwrap_or(invite.to);
        let ack = Draft { method: "ACK", to, lines: "", ..*invite };
        self.socket.send(&ack.write(self.address)).context("send to the server")?;
        Ok(())
    }

    fn accept(&self, request: &[u8]) -> Result<()> {
        if request.starts_with(b"ACK ") {
            return Ok(());
        }
        let mut response = Vec::new();
        respond(request, b"200 OK", Serial::default(), &mut response);
        response.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        self.socket.send(&response).context("send to the server")?;
        Ok(())
    }
}

/// The first line of a message, for errors.
pub fn first_line(message: &[u8]) -> String {
    let line = message.split(|&byte| byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(line).into_owned()
}

/// Address of callers that are not users of the server.
pub const STRANGER: &str = "sip:mallory@elsewhere.example";
