//! A scripted SIP peer over UDP that shows received RTP and sends none, as its SDP says unless a test changes that. A missing expected message fails the test.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// One end of a dialog.
pub(crate) struct Peer {
    sip: UdpSocket,
    rtp: UdpSocket,
    /// Address of the remote SIP socket.
    remote_sip: String,
    /// Local and remote From or To value.
    local: String,
    remote: String,
    /// Contact in requests.
    pub(crate) contact: String,
    /// Direction attribute of its SDP.
    pub(crate) direction: &'static str,
    target: String,
    call_id: String,
    cseq: u32,
    /// INVITE that rings.
    invite: Option<String>,
}

/// Protection of its SDP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Protected,
    Bare,
    /// DTLS-SRTP, whose handshake never begins.
    Dtls,
}

impl Peer {
    pub(crate) fn new() -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
            socket
        };
        let (sip, rtp) = (socket(), socket());
        let local = format!("<sip:peer@{}>;tag=peer", sip.local_addr().unwrap());
        let contact = format!("sip:peer@{}", sip.local_addr().unwrap());
        let (remote_sip, remote, target, call_id) = Default::default();
        let direction = "recvonly";
        let invite = None;
        Self { sip, rtp, remote_sip, local, remote, contact, direction, target, call_id, cseq: 0, invite }
    }

    pub(crate) fn uri(&self) -> String {
        format!("sip:peer@{}", self.sip.local_addr().unwrap())
    }

    /// Sends an INVITE and expects a 200.
    pub(crate) fn call(&mut self, uri: &str, offer: Offer) {
        self.remote_sip = uri.rsplit('@').next().unwrap().to_owned();
        (self.target, self.remote, self.call_id) = (uri.to_owned(), format!("<{uri}>"), "a-call".to_owned());
        assert_eq!(self.change(offer).0, 200);
    }

    /// Calls and cancels at once; returns the status of the call. A call that was answered because the CANCEL came too
    /// late (RFC 3261 §9.1) is ended by BYE.
    pub(crate) fn call_and_cancel(&mut self, uri: &str) -> u16 {
        self.remote_sip = uri.rsplit('@').next().unwrap().to_owned();
        self.cseq += 1;
        (self.target, self.remote, self.call_id) =
            (uri.to_owned(), format!("<{uri}>"), format!("cancelled-{}", self.cseq));
        let head = |method| self.head(method, "INVITE", &self.remote);
        let (invite, cancel, own) = (head("INVITE"), head("CANCEL"), self.uri());
        let body = format!("Content-Type: application/sdp\r\n\r\n{}", self.sdp(Offer::Protected));
        self.send(&format!("{invite}Contact: <{own}>\r\n{body}"));
        self.send(&format!("{cancel}Content-Length: 0\r\n\r\n"));
        let response = self.final_response("INVITE");
        let status = self.acknowledge(&response);
        if status == 200 {
            self.hang_up();
        }
        status
    }

    /// Rings without SDP, and sends sound to the address in the offer until `is_heard`.
    pub(crate) fn ring_with_sound(&mut self, is_heard: impl Fn() -> bool) {
        let invite = self.receive("INVITE ");
        self.respond(&invite, "180 Ringing", "Content-Length: 0\r\n\r\n");
        let offered = |prefix: &str| invite.lines().find_map(|line| line.strip_prefix(prefix)).unwrap();
        let port = offered("m=audio ").split(' ').next().unwrap();
        let to = format!("{}:{port}", offered("c=IN IP4 "));
        let end = Instant::now() + TIME_LIMIT;
        for sequence in 0_u16.. {
            let head = [[0x80, 0], sequence.to_be_bytes()].concat();
            let timestamp = (160 * u32::from(sequence)).to_be_bytes();
            self.rtp.send_to(&[&head[..], &timestamp, &[7; 4], &[0x2a; 160]].concat(), &to).unwrap();
            if is_heard() {
                break;
            }
            assert!(Instant::now() < end, "nothing is received");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.invite = Some(invite);
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, answer: Offer) {
        let invite = self.invite.take().unwrap_or_else(|| self.receive("INVITE "));
        (self.call_id, self.remote) = (header(&invite, "Call-ID"), header(&invite, "From"));
        self.target = header(&invite, "Contact").split(['<', '>']).nth(1).unwrap().to_owned();
        let body = format!("Content-Type: application/sdp\r\n\r\n{}", self.sdp(answer));
        self.respond(&invite, "200 OK", &body);
        self.receive("ACK ");
    }

    /// Sends an INVITE or re-INVITE with an offer; returns the status and the SDP answer.
    pub(crate) fn change(&mut self, offer: Offer) -> (u16, String) {
        let body = format!("Content-Type: application/sdp\r\n\r\n{}", self.sdp(offer));
        let response = self.request("INVITE", &body);
        let status = self.acknowledge(&response);
        (status, response.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Acknowledges the final response to an INVITE; returns its status.
    fn acknowledge(&mut self, response: &str) -> u16 {
        let status = response.split(' ').nth(1).unwrap().parse().unwrap();
        if status == 200 {
            self.remote = header(response, "To");
            self.target = header(response, "Contact").split(['<', '>']).nth(1).unwrap().to_owned();
        }
        // The ACK for a 2xx has its own transaction (RFC 3261 §13.2.2.4).
        let branch = if status == 200 { "ack" } else { "INVITE" };
        let ack = self.head("ACK", branch, &header(response, "To"));
        self.send(&format!("{ack}Content-Length: 0\r\n\r\n"));
        status
    }

    /// Sends a re-INVITE without an offer, and an ACK without an answer; expects a BYE.
    pub(crate) fn change_without_an_answer(&mut self) {
        let response = self.request("INVITE", "Content-Length: 0\r\n\r\n");
        assert_eq!(self.acknowledge(&response), 200);
        let bye = self.receive("BYE ");
        self.respond(&bye, "200 OK", "Content-Length: 0\r\n\r\n");
    }

    pub(crate) fn hang_up(&mut self) {
        assert!(self.request("BYE", "Content-Length: 0\r\n\r\n").starts_with("SIP/2.0 200 "));
    }

    /// True if `in_a_row` successive RTP packets have this length within a time limit.
    pub(crate) fn receives_packets_of(&self, bytes: usize, in_a_row: u32) -> bool {
        let (end, mut room, mut count) = (Instant::now() + TIME_LIMIT, [0; 2048], 0);
        while count < in_a_row {
            let length = self.rtp.recv(&mut room).unwrap();
            count = if length == bytes { count + 1 } else { 0 };
            if Instant::now() > end {
                return false;
            }
        }
        true
    }

    /// Minimum and maximum length of the received RTP packets, including those that arrive during `within`.
    pub(crate) fn packet_bytes(&self, within: Duration) -> (usize, usize) {
        let (end, mut room) = (Instant::now() + within, [0; 2048]);
        let lengths =
            std::iter::from_fn(|| (Instant::now() < end).then(|| self.rtp.recv(&mut room).unwrap()));
        lengths.fold((usize::MAX, 0), |(least, most), length| (least.min(length), most.max(length)))
    }

    fn respond(&self, request: &str, status: &str, rest: &str) {
        let copied = |name| format!("{name}: {}\r\n", header(request, name));
        let head = ["Via", "From", "Call-ID", "CSeq"].map(copied).concat();
        let own = format!("To: {}\r\nContact: <{}>\r\n", self.local, self.uri());
        self.send(&format!("SIP/2.0 {status}\r\n{head}{own}{rest}"));
    }

    /// Sends a request and returns its final response.
    fn request(&mut self, method: &str, rest: &str) -> String {
        self.cseq += 1;
        let head = self.head(method, method, &self.remote);
        self.send(&format!("{head}Contact: <{}>\r\n{rest}", self.contact));
        self.final_response(method)
    }

    /// Final response to the latest request.
    fn final_response(&mut self, method: &str) -> String {
        let cseq = format!("{} {method}", self.cseq);
        loop {
            let response = self.receive("SIP/2.0 ");
            if !response.starts_with("SIP/2.0 1") && header(&response, "CSeq") == cseq {
                return response;
            }
        }
    }

    fn head(&self, method: &str, branch: &str, to: &str) -> String {
        let Self { target, local, call_id, cseq, .. } = self;
        let via = format!("SIP/2.0/UDP {};branch=z9hG4bK-{branch}-{cseq}", self.sip.local_addr().unwrap());
        format!(
            "{method} {target} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: {local}\r\nTo: {to}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n"
        )
    }

    /// Receives the next message that begins with `begin`.
    fn receive(&mut self, begin: &str) -> String {
        let mut room = [0; 4096];
        loop {
            let (length, from) = self.sip.recv_from(&mut room).unwrap();
            // Its port can be the one behind that of the sound, which RTCP goes to.
            let Ok(text) = String::from_utf8(room[..length].to_vec()) else { continue };
            self.remote_sip = from.to_string();
            if text.starts_with(begin) {
                return text;
            }
        }
    }

    fn send(&self, text: &str) {
        self.sip.send_to(text.as_bytes(), &self.remote_sip).unwrap();
    }

    fn sdp(&self, offer: Offer) -> String {
        let port = self.rtp.local_addr().unwrap().port();
        let (profile, key) = match offer {
            Offer::Protected => (
                "RTP/SAVP",
                "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n"
                    .to_owned(),
            ),
            Offer::Bare => ("RTP/AVP", String::new()),
            Offer::Dtls => (
                "UDP/TLS/RTP/SAVP",
                format!("a=setup:active\r\na=fingerprint:sha-256 {}\r\n", ["AB"; 32].join(":")),
            ),
        };
        format!(
            "v=0\r\no=- 1 {} IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} {profile} 0\r\na={}\r\n{key}",
            self.cseq, self.direction
        )
    }
}

fn header(message: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    message
        .lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {name}: {message}"))
        .to_owned()
}

const TIME_LIMIT: Duration = Duration::from_secs(20);
